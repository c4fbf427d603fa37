/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.KueueDRAIntegration

func newClusterQueueForTest(ctx context.Context, clk clock.Clock) *ClusterQueue {
	return newClusterQueueImpl(ctx, nil, defaultOrdering, clk)
}

func newManagerForTest(cl client.Client) *Manager {
	return newManagerWithChecker(cl, nil)
}

func newManagerWithChecker(cl client.Client, checker StatusChecker) *Manager {
	return NewManagerForUnitTests(cl, checker, WithPreemptionExpectations(preemptexpectations.New()))
}

func retryInadmissible(_ context.Context, manager *Manager, cq kueue.ClusterQueueReference) {
	NotifyRetryInadmissible(manager, sets.New(cq))
}

func addFromLocalQueue(cq *ClusterQueue, lq *LocalQueue) bool {
	return cq.AddFromLocalQueue(lq, nil, nil)
}

func addOrUpdateWorkload(ctx context.Context, manager *Manager, wl *kueue.Workload) error {
	return manager.AddOrUpdateWorkload(ctrl.LoggerFrom(ctx), wl)
}

func updateWorkload(ctx context.Context, manager *Manager, _, wl *kueue.Workload) error {
	return addOrUpdateWorkload(ctx, manager, wl)
}

func requeueWorkload(ctx context.Context, manager *Manager, info *workload.Info, reason RequeueReason) bool {
	return manager.RequeueWorkload(ctx, info, reason, QuotaReservedReasonGeneric)
}

// releaseQuota returns whether a workload is to be tried again.
func releaseQuota(ctx context.Context, cq *ClusterQueue, cl client.Client) bool {
	return queueInadmissibleWorkloads(ctx, cq, cl) > 0
}

func deleteLocalQueue(ctx context.Context, manager *Manager, lq *kueue.LocalQueue) {
	manager.DeleteLocalQueue(ctrl.LoggerFrom(ctx), lq)
}

func popHead(manager *Manager, cq kueue.ClusterQueueReference) {
	manager.getClusterQueue(cq).Pop()
}

// It counts while it waits for its retry, also in queues that are new or have not seen it
// before, and not while it waits for a pod alone.
func TestPodGroupThatLostAPod(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	lq := utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()
	wl := waitingInfo("wl", 1, time.Now().Add(time.Minute)).Obj
	wl.Spec.QueueName = "lq"
	cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), wl)
	manager := newManagerForTest(cl)
	if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Failed adding ClusterQueue: %v", err)
	}
	if err := manager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Failed adding LocalQueue: %v", err)
	}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
		t.Fatalf("Failed getting workload: %v", err)
	}
	setCondition := func(conditionType string, status metav1.ConditionStatus) func() {
		return func() {
			apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: "ByTest"})
		}
	}
	for _, step := range []struct {
		name                     string
		change                   func()
		wantPending, wantWaiting int
	}{
		{"a pod is lost", setCondition(kueue.WorkloadWaitingForReplacementPods, metav1.ConditionTrue), 1, 1},
		{"its LocalQueue is made again", func() {
			manager.DeleteLocalQueue(ctrl.LoggerFrom(ctx), lq)
			if err := manager.AddLocalQueue(ctx, lq); err != nil {
				t.Fatalf("Failed adding LocalQueue again: %v", err)
			}
		}, 1, 1},
		{"it is filed as one that is new", func() {
			manager.DeleteWorkload(ctrl.LoggerFrom(ctx), workload.Key(wl)) // as while it has quota
		}, 1, 1},
		{"its wait is over, and its queue is stopped", func() {
			wl.Status.RequeueState = nil
			wl.Status.AdmissionChecks[0].State = kueue.CheckStatePending
			setCondition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse)()
			setCondition(kueue.WorkloadRequeued, metav1.ConditionFalse)()
		}, 0, 0},
		{"it is requeued", setCondition(kueue.WorkloadRequeued, metav1.ConditionTrue), 0, 0},
		{"there is another pod", setCondition(kueue.WorkloadWaitingForReplacementPods, metav1.ConditionFalse), 1, 0},
	} {
		step.change()
		if err := cl.Status().Update(ctx, wl); err != nil {
			t.Fatalf("Failed updating workload: %v", err)
		}
		_ = addOrUpdateWorkload(ctx, manager, wl) // whether it is queued
		if got, err := manager.PendingWorkloads(lq); err != nil || int(got) != step.wantPending {
			t.Errorf("%s: %d pending, want %d (error: %v)", step.name, got, step.wantPending, err)
		}
		if got := manager.RetryWaits()["cq"].Workloads; got != step.wantWaiting {
			t.Errorf("%s: %d wait, want %d", step.name, got, step.wantWaiting)
		}
	}
}

// The event of a creation may come when the cache has the workload with its quota. Others wait
// for the release, of which its LocalQueue has to know.
func TestReleaseOfWhatWasFiledLate(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprintf("ACRequeueAfter=%v", enabled), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, enabled)
			ctx, _ := utiltesting.ContextWithLog(t)
			log := ctrl.LoggerFrom(ctx)
			created := utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq")
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
			manager, requeuer := NewManagerForUnitTestsWithRequeuer(cl, nil, WithPreemptionExpectations(preemptexpectations.New()))
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			if err := cl.Create(ctx, created.Clone().ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), time.Now()).Obj()); err != nil {
				t.Fatalf("Failed creating workload: %v", err)
			}
			_ = manager.AddOrUpdateWorkload(log, created.Clone().ResourceVersion("0").Obj())
			requeuer.cqs.Clear()
			manager.QueueAssociatedInadmissibleWorkloadsAfter(ctx, workload.Key(created.Obj()), nil)
			if !requeuer.cqs.Has("cq") {
				t.Error("Nobody looks for others when it releases its quota")
			}
		})
	}
}

// What waits is filed without a look at what it needs of DRA. Between the requeue and that
// look the scheduler puts back what it has tried as it was before.
func TestRequeueWorkloadWithDRAThatWasFiledToWait(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, draGate, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	pods := func(count int, requeued metav1.ConditionStatus) *kueue.Workload {
		return utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq").Generation(int64(count)).PodSets(
			*utiltestingapi.MakePodSet(kueue.DefaultPodSetName, count).ResourceClaimTemplate("claim", "template").Obj()).
			Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: requeued, Reason: kueue.WorkloadEvictedByAdmissionCheck}).Obj()
	}
	cl := utiltesting.NewClientBuilder().WithObjects(utiltesting.MakeNamespace(defaultNamespace)).WithStatusSubresource(&kueue.Workload{}).Build()
	manager := newManagerForTest(cl)
	if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Failed adding ClusterQueue: %v", err)
	}
	if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Failed adding LocalQueue: %v", err)
	}
	stored := pods(2, metav1.ConditionTrue)
	if err := cl.Create(ctx, stored); err != nil {
		t.Fatalf("Failed creating workload: %v", err)
	}
	// change has the cache know of it, and file queues the workload as it is there.
	change := func(wl *kueue.Workload) {
		stored.Generation, stored.Spec = wl.Generation, wl.Spec
		if err := cl.Update(ctx, stored); err != nil {
			t.Fatalf("Changing the workload: %v", err)
		}
		stored.Status.Conditions = wl.Status.Conditions
		if err := cl.Status().Update(ctx, stored); err != nil {
			t.Fatalf("Changing the status: %v", err)
		}
	}
	file := func() {
		if err := addOrUpdateWorkload(ctx, manager, stored.DeepCopy()); err != nil {
			t.Fatalf("Failed adding workload: %v", err)
		}
	}
	change(pods(2, metav1.ConditionTrue))
	file()
	heads := manager.Heads(ctx)
	if len(heads) != 1 {
		t.Fatalf("%d heads, want 1", len(heads))
	}
	change(pods(3, metav1.ConditionFalse))
	file()
	change(pods(3, metav1.ConditionTrue))
	for range 2 { // once more if a note is refused
		if requeueWorkload(ctx, manager, &heads[0].Info, RequeueReasonFailedAfterNomination) {
			t.Error("Put back before what it needs is looked up")
		}
	}
	file()
	head := manager.getClusterQueue("cq").Pop()
	if head == nil {
		t.Fatal("The workload is not in the queue")
	}
	if got := head.TotalRequests[0].Count; got != 3 {
		t.Errorf("It asks for quota for %d pods, want 3", got)
	}
}

// A head that the scheduler is done with while its LocalQueue is gone is tried again once
// the LocalQueue is there again. The base takes it for one that is being tried.
func TestHeadOfALocalQueueThatWasGone(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		for _, reserved := range []bool{true, false} {
			t.Run(fmt.Sprintf("ACRequeueAfter=%v, reserved=%v", enabled, reserved), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, enabled)
				ctx, _ := utiltesting.ContextWithLog(t)
				log := ctrl.LoggerFrom(ctx)
				lq := utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()
				wl := utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq").Obj()
				manager := newManagerForTest(utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), wl))
				if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
					t.Fatalf("Failed adding ClusterQueue: %v", err)
				}
				if err := manager.AddLocalQueue(ctx, lq); err != nil {
					t.Fatalf("Failed adding LocalQueue: %v", err)
				}
				heads := manager.Heads(ctx)
				if len(heads) != 1 {
					t.Fatalf("%d heads, want 1", len(heads))
				}
				cq := manager.getClusterQueue("cq")
				manager.DeleteLocalQueue(log, lq)
				if reserved {
					cq.pw.set(workload.Key(wl), true, 0)          // others were preempted for it
					manager.DeleteWorkload(log, workload.Key(wl)) // and then it loses its quota
					if comesFirst := cq.pw.matches(workload.Key(wl), false, 0); comesFirst == enabled {
						t.Errorf("Comes before all others: %v, want %v", comesFirst, !enabled)
					}
					if pending := pendingInMetric(metrics.PendingWorkloads, "cluster_queue", "cq"); (pending == 0) != enabled {
						t.Errorf("%v are pending in the metric", pending)
					}
				} else if requeueWorkload(ctx, manager, &heads[0].Info, RequeueReasonFailedAfterNomination) {
					t.Error("Requeued without a LocalQueue")
				}
				if err := manager.AddLocalQueue(ctx, lq); err != nil {
					t.Fatalf("Failed adding LocalQueue again: %v", err)
				}
				if isTried := cq.Pop() != nil; isTried != enabled {
					t.Errorf("Tried again: %v, want %v", isTried, enabled)
				}
			})
		}
	}
}
