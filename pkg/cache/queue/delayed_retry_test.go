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
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/queue"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The scheduler puts a workload with a check in Retry aside. When the check is
// set back, no condition needs to change: the workload must be heard all the same.
func TestPushOrUpdateAfterRetry(t *testing.T) {
	requeued := utiltestingapi.MakeWorkload("wl", defaultNamespace).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished})
	wl := func(state kueue.CheckState) *kueue.Workload {
		return requeued.Clone().AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: state}).Obj()
	}
	cases := map[string]struct {
		gate       bool
		newState   kueue.CheckState
		wantActive bool
	}{
		"set back":           {gate: true, newState: kueue.CheckStatePending, wantActive: true},
		"still in Retry":     {gate: true, newState: kueue.CheckStateRetry},
		"set back, gate off": {newState: kueue.CheckStatePending},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			cq := newClusterQueueForTest(ctx, testingclock.NewFakeClock(metav1.Now().Time))
			old := workload.NewInfo(wl(kueue.CheckStateRetry))
			if !cq.keepOut(old) {
				cq.inadmissibleWorkloads[workload.Key(old.Obj)] = old
			}
			cq.PushOrUpdate(workload.NewInfo(wl(tc.newState)))
			if active := cq.pendingActive() == 1; active != tc.wantActive {
				t.Errorf("Unexpected place of the workload, active: %v, want %v", active, tc.wantActive)
			}
		})
	}
}

// A manager that starts, and a LocalQueue that is created again, add all
// workloads of the queue, those that wait among them.
func TestAddFromLocalQueueWhileWaiting(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	requeueAt := func(after time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(now.Add(after))) }
	base := utiltestingapi.MakeWorkload("wl", defaultNamespace)
	cases := map[string]struct {
		gate       bool
		workload   *kueue.Workload
		wantActive bool
	}{
		"not waiting": {
			gate:       true,
			workload:   base.Clone().Obj(),
			wantActive: true,
		},
		"deadline ahead": {
			gate:     true,
			workload: base.Clone().RequeueState(nil, requeueAt(time.Second)).Obj(),
		},
		"deadline over, not requeued yet": {
			gate: true,
			workload: base.Clone().RequeueState(nil, requeueAt(-time.Second)).
				Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck}).Obj(),
		},
		"a backoff of WaitForPodsReady that no condition tells of": {
			gate:     true,
			workload: base.Clone().RequeueState(ptr.To[int32](1), requeueAt(time.Second)).Obj(),
		},
		"the same, over": {
			gate:       true,
			workload:   base.Clone().RequeueState(ptr.To[int32](1), requeueAt(-time.Second)).Obj(),
			wantActive: true,
		},
		"left waiting when the gate was switched off": {
			workload: base.Clone().RequeueState(nil, requeueAt(time.Second)).
				Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck}).
				AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateRetry}).Obj(),
		},
		"deadline ahead, gate off: as upstream": {
			workload:   base.Clone().RequeueState(nil, requeueAt(time.Second)).Obj(),
			wantActive: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			cq := newClusterQueueForTest(ctx, testingclock.NewFakeClock(now))
			lq := newLocalQueue(utiltestingapi.MakeLocalQueue("lq", defaultNamespace).Obj())
			lq.AddOrUpdate(workload.NewInfo(tc.workload))
			if !addFromLocalQueue(cq, lq) {
				t.Error("The queue was not told that it has a workload to count")
			}
			wantInadmissible := 1
			if tc.wantActive {
				wantInadmissible = 0
			}
			if active, inadmissible := cq.Pending(); active+inadmissible != 1 || inadmissible != wantInadmissible {
				t.Errorf("Unexpected place of the workload: %d active, %d inadmissible", active, inadmissible)
			}
		})
	}
}

// The scheduler puts a workload back into the heap that has to wait since, when
// the cache does not show it yet; or it holds one, for as long as others have to be
// ready first. The update takes it out, and the one of the end of its wait puts it back.
func TestPushOrUpdateTakesOutOfTheHeap(t *testing.T) {
	const byCheck, byBackoff = kueue.WorkloadEvictedByAdmissionCheck, kueue.WorkloadEvictedByPodsReadyTimeout
	cases := map[string]struct {
		gate, held       bool
		reason           string
		wantInadmissible int
	}{
		"gate off":                       {reason: byCheck},
		"gate on, in the heap":           {reason: byCheck, gate: true, wantInadmissible: 1},
		"gate on, held by the scheduler": {reason: byCheck, gate: true, held: true, wantInadmissible: 1},
		"a backoff of WaitForPodsReady":  {reason: byBackoff, gate: true, wantInadmissible: 1},
		"the same, gate off":             {reason: byBackoff},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			now := time.Now().Truncate(time.Second)
			ctx, _ := utiltesting.ContextWithLog(t)
			cq := newClusterQueueForTest(ctx, testingclock.NewFakeClock(now))
			base := utiltestingapi.MakeWorkload("wl", defaultNamespace)
			cq.PushOrUpdate(workload.NewInfo(base.Clone().Obj()))
			if tc.held {
				cq.Pop()
			}
			var count *int32
			if tc.reason == byBackoff {
				count = ptr.To[int32](1)
			}
			cq.PushOrUpdate(workload.NewInfo(base.Clone().RequeueState(count, ptr.To(metav1.NewTime(now.Add(time.Second)))).
				Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: tc.reason}).Obj()))
			if active, inadmissible := cq.Pending(); inadmissible != tc.wantInadmissible || active+inadmissible != 1 {
				t.Errorf("Unexpected place of the workload: %d active, %d inadmissible", active, inadmissible)
			}
			cq.PushOrUpdate(workload.NewInfo(base.Clone().
				Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished}).Obj()))
			if active, inadmissible := cq.Pending(); active != 1 || inadmissible != 0 {
				t.Errorf("Unexpected place of the workload after its wait: %d active, %d inadmissible", active, inadmissible)
			}
		})
	}
}

// What hands a workload to the queues may have held its copy for a while: the
// cache decides, and not the copy.
func TestAddOrUpdateOfAnOldCopy(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	base := utiltestingapi.MakeWorkload("wl", defaultNamespace).UID("uid").Queue("lq")
	waiting := base.Clone().RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(now.Add(time.Second)))).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByPodsReadyTimeout})
	queued := base.Clone().Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadReactivated})
	reserved := base.Clone().ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now)
	retried := waiting.Clone().AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateRetry})
	withDRA := queued.Clone().PodSets(*utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).ResourceClaimTemplate("claim", "template").Obj())
	cases := map[string]struct {
		gateOff                      bool
		stored, copied               *utiltestingapi.WorkloadWrapper
		wantActive, wantInadmissible int
		wantErr                      error
	}{
		"the copy of a backoff does not take it out of the heap":    {stored: queued, copied: waiting, wantActive: 1},
		"nor does that of a retry, with the gate off":               {gateOff: true, stored: queued, copied: retried, wantActive: 1},
		"the copy from before a wait does not put it into the heap": {stored: waiting, copied: queued, wantInadmissible: 1},
		"the copy from before a reservation does not queue it":      {stored: reserved, copied: queued, wantErr: errWorkloadIsInadmissible},
		"the copy of a deleted workload does not queue it":          {copied: queued},
		"the copy from before it was moved does not move it back":   {stored: queued, copied: queued.Clone().Queue("other"), wantActive: 1},
		"the reconciler queues the newer one, with what it requests of DRA, which is no error": {
			stored: withDRA, copied: withDRA.Clone().Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished}), wantActive: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, draGate, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
			manager := newManagerForTest(cl)
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			if tc.stored != nil {
				stored := tc.stored.Clone().Obj()
				if err := cl.Create(ctx, stored); err != nil {
					t.Fatalf("Failed creating workload: %v", err)
				}
				_ = addOrUpdateWorkload(ctx, manager, stored)
			}
			old := tc.copied.Clone().ResourceVersion("0").Obj()
			if err := addOrUpdateWorkload(ctx, manager, old); !errors.Is(err, tc.wantErr) {
				t.Errorf("Unexpected error: %v, want %v", err, tc.wantErr)
			}
			if active, inadmissible := manager.getClusterQueue("cq").Pending(); active != tc.wantActive || inadmissible != tc.wantInadmissible {
				t.Errorf("Unexpected place of the workload: %d active, %d inadmissible", active, inadmissible)
			}
		})
	}
}

// The scheduler judges a copy. When the workload is another one by the time that
// it is put back, the judgement says nothing about it.
func TestRequeueWorkloadThatWasJudgedBefore(t *testing.T) {
	base := utiltestingapi.MakeWorkload("wl", defaultNamespace).UID("uid").Queue("lq").
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished,
			LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second))})
	check := func(state kueue.CheckState) *kueue.Workload {
		return base.Clone().AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: state}).Obj()
	}
	cases := map[string]struct {
		judged, stored               *kueue.Workload
		wantActive, wantInadmissible int
	}{
		"as it was judged":        {judged: check(kueue.CheckStatePending), stored: check(kueue.CheckStatePending), wantInadmissible: 1},
		"the check was set back":  {judged: check(kueue.CheckStateRetry), stored: check(kueue.CheckStatePending), wantActive: 1},
		"a check has said Retry":  {judged: check(kueue.CheckStatePending), stored: check(kueue.CheckStateRetry), wantInadmissible: 1},
		"its priority was raised": {judged: check(kueue.CheckStatePending), stored: base.Clone().Priority(5).Generation(2).Obj(), wantActive: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
			manager := newManagerForTest(cl)
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			if err := cl.Create(ctx, tc.stored); err != nil {
				t.Fatalf("Failed creating workload: %v", err)
			}
			popHead(manager, "cq")
			if !requeueWorkload(ctx, manager, workload.NewInfo(tc.judged), RequeueReasonGeneric) {
				t.Error("The workload was not put back")
			}
			// The event of the write, which the cache has had before.
			if err := addOrUpdateWorkload(ctx, manager, tc.stored); err != nil {
				t.Errorf("Unexpected error: %v", err)
			}
			if active, inadmissible := manager.getClusterQueue("cq").Pending(); active != tc.wantActive || inadmissible != tc.wantInadmissible {
				t.Errorf("Unexpected place of the workload: %d active, %d inadmissible", active, inadmissible)
			}
		})
	}
}

// A workload that was moved to another queue counts in the new one alone, whoever tells
// the queues of it first: the scheduler that puts it back, or its new LocalQueue.
func TestMovedWorkloadLeavesItsQueue(t *testing.T) {
	for _, newQueue := range []bool{false, true} {
		t.Run(fmt.Sprintf("its LocalQueue is new: %t", newQueue), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			old := utiltestingapi.MakeWorkload("wl", defaultNamespace).UID("uid").Queue("lq").Obj()
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), old)
			manager := newManagerForTest(cl)
			queues := []*kueue.LocalQueue{
				utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj(),
				utiltestingapi.MakeLocalQueue("other", defaultNamespace).ClusterQueue("other").Obj(),
			}
			addLocalQueue := func(lq *kueue.LocalQueue) {
				if err := manager.AddLocalQueue(ctx, lq); err != nil {
					t.Fatalf("Failed adding LocalQueue: %v", err)
				}
			}
			for _, lq := range queues {
				if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue(string(lq.Spec.ClusterQueue)).Obj()); err != nil {
					t.Fatalf("Failed adding ClusterQueue: %v", err)
				}
			}
			addLocalQueue(queues[0])
			if !newQueue {
				addLocalQueue(queues[1])
				popHead(manager, "cq")
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(old), old); err != nil {
				t.Fatalf("Failed getting workload: %v", err)
			}
			moved := old.DeepCopy()
			moved.Spec.QueueName = "other"
			if err := cl.Update(ctx, moved); err != nil {
				t.Fatalf("Failed updating workload: %v", err)
			}
			if newQueue {
				addLocalQueue(queues[1])
				// The event comes after it.
				if err := updateWorkload(ctx, manager, old, moved); err != nil {
					t.Errorf("Unexpected error: %v", err)
				}
			} else {
				requeueWorkload(ctx, manager, workload.NewInfo(old), RequeueReasonGeneric)
			}
			for i, want := range []int32{0, 1} {
				if got, err := manager.PendingWorkloads(queues[i]); err != nil || got != want {
					t.Errorf("Unexpected workloads in LocalQueue %s: %d, want %d (error: %v)", queues[i].Name, got, want, err)
				}
				if got, err := manager.Pending(utiltestingapi.MakeClusterQueue(string(queues[i].Spec.ClusterQueue)).Obj()); err != nil || got != int(want) {
					t.Errorf("Unexpected workloads in ClusterQueue %s: %d, want %d (error: %v)", queues[i].Spec.ClusterQueue, got, want, err)
				}
			}
		})
	}
}

// What waits for a second pass is taken as it is by then, with its resources adjusted as
// those of all that is queued.
func TestSecondPassHasAdjustedResources(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq").Limit(corev1.ResourceCPU, "1").
		ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).
			Assignment(corev1.ResourceCPU, "flavor", "1").
			TopologyAssignment(utiltestingapi.MakeTopologyAssignment([]string{corev1.LabelHostname}).
				Domain(utiltestingapi.MakeTopologyDomainAssignment([]string{"node"}, 1).Obj()).Obj()).Obj()).Obj(), now).
		AdmittedAt(true, now).UnhealthyNodes("node").Obj()
	manager := newManagerForTest(utiltesting.NewFakeClient(wl))
	got := manager.secondPass(wl)
	if got == nil {
		t.Fatal("Unexpected end of the second pass")
	}
	want := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if diff := cmp.Diff(want, got.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests); diff != "" {
		t.Errorf("Unexpected requests (-want,+got):\n%s", diff)
	}
}

// One that never passes its check must show among others that do.
func TestRetryWaits(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	now := time.Now().Truncate(time.Second)
	cq := newClusterQueueForTest(t.Context(), testingclock.NewFakeClock(now))
	for i, counts := range [][]int32{{0, 0}, {3, 0}, {1, 5}} {
		info := waitingInfo(fmt.Sprintf("wl-%d", i), len(counts), now.Add(time.Duration(i+1)*time.Minute))
		info.Obj.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(i) * time.Hour))
		for j, count := range counts {
			info.Obj.Status.AdmissionChecks[j].RetryCount = ptr.To(count)
		}
		cq.PushOrUpdate(info)
	}
	want := metrics.RetryWaits{
		Workloads:        3,
		EarliestDeadline: now.Add(time.Minute),
		Retried: map[kueue.AdmissionCheckReference]metrics.RetriedWorkloads{
			"check-0": {MostRetries: 3, OldestCreation: now.Add(-2 * time.Hour)},
			"check-1": {MostRetries: 5, OldestCreation: now.Add(-2 * time.Hour)},
		},
	}
	if diff := cmp.Diff(want, cq.retryWaits()); diff != "" {
		t.Errorf("Unexpected waits (-want,+got):\n%s", diff)
	}
}

// A LocalQueue that is created again counts, also if nothing in it can be tried.
func TestAddLocalQueueReportsWhatWaits(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			features.SetFeatureGateDuringTest(t, features.LocalQueueMetrics, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := waitingInfo("wl", 1, time.Now().Add(time.Minute)).Obj
			name := fmt.Sprintf("again-%t", gate) // the metric is of the process
			wl.Spec.QueueName = kueue.LocalQueueName(name)
			manager := newManagerForTest(utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), wl))
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue(name).Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue(name, defaultNamespace).ClusterQueue(name).Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			for label, gauge := range map[string]*prometheus.GaugeVec{"name": metrics.LocalQueuePendingWorkloads, "cluster_queue": metrics.PendingWorkloads} {
				if got, want := pendingInMetric(gauge, label, name), map[bool]float64{true: 1}[gate]; got != want {
					t.Errorf("Unexpected number of pending workloads by %s in the metric: %v, want %v", label, got, want)
				}
			}
		})
	}
}

// What was pending in a LocalQueue does not count in the metric of its ClusterQueue when the
// LocalQueue is gone, or stopped. In the base it does until the next event there.
func TestDeleteLocalQueueReportsWhatRemains(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			name := fmt.Sprintf("gone-%t", gate) // the metric is of the process
			queued := utiltestingapi.MakeWorkload("queued", defaultNamespace).Queue("gone").Obj()
			waiting := waitingInfo("waiting", 1, time.Now().Add(time.Minute)).Obj
			waiting.Spec.QueueName = "gone"
			remaining := utiltestingapi.MakeWorkload("remaining", defaultNamespace).Queue("stays").Obj()
			manager := newManagerForTest(utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), queued, waiting, remaining))
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue(name).Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			gone := utiltestingapi.MakeLocalQueue("gone", defaultNamespace).ClusterQueue(name).Obj()
			for _, lq := range []*kueue.LocalQueue{gone, utiltestingapi.MakeLocalQueue("stays", defaultNamespace).ClusterQueue(name).Obj()} {
				if err := manager.AddLocalQueue(ctx, lq); err != nil {
					t.Fatalf("Failed adding LocalQueue: %v", err)
				}
			}
			manager.reportPending(manager.getClusterQueue(kueue.ClusterQueueReference(name)))
			if got := pendingInMetric(metrics.PendingWorkloads, "cluster_queue", name); got != 3 {
				t.Fatalf("Unexpected number of pending workloads in the metric: %v, want 3", got)
			}
			deleteLocalQueue(ctx, manager, gone)
			if got, want := pendingInMetric(metrics.PendingWorkloads, "cluster_queue", name), map[bool]float64{true: 1, false: 3}[gate]; got != want {
				t.Errorf("Unexpected number of pending workloads in the metric without the LocalQueue: %v, want %v", got, want)
			}
		})
	}
}

func pendingInMetric(gauge *prometheus.GaugeVec, label, name string) float64 {
	var pending float64
	for _, series := range utiltestingmetrics.CollectFilteredGaugeVec(gauge, map[string]string{label: name}) {
		pending += series.Value
	}
	return pending
}

// What waits counts everywhere among the inadmissible ones, and a release of quota
// neither moves it nor looks at it.
func TestWaitingAmongTheInadmissible(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	waiting := waitingInfo("waiting", 1, now.Add(time.Minute)).Obj
	moved := waiting.DeepCopy()
	moved.Spec.QueueName = "other"
	over := utiltestingapi.MakeWorkload("waiting", defaultNamespace).Obj()
	cases := map[string]struct {
		last                         *kueue.Workload // nil: it is deleted
		wantActive, wantInadmissible int
		wantInQueue, wantInOther     int
	}{
		"it waits":                     {last: waiting, wantInadmissible: 2, wantInQueue: 2},
		"it is moved":                  {last: moved, wantInadmissible: 2, wantInQueue: 1, wantInOther: 1},
		"its wait is over":             {last: over, wantActive: 1, wantInadmissible: 1, wantInQueue: 1},
		"it is deleted while it waits": {wantInadmissible: 1, wantInQueue: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespaces := 0
			cl := utiltesting.NewClientBuilder().WithObjects(utiltesting.MakeNamespace(defaultNamespace)).
				WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					namespaces++
					return cl.Get(ctx, key, obj, opts...)
				}}).Build()
			cq := newClusterQueueForTest(ctx, testingclock.NewFakeClock(now))
			if err := cq.Update(utiltestingapi.MakeClusterQueue("cq").NamespaceSelector(&metav1.LabelSelector{}).Obj()); err != nil {
				t.Fatalf("Failed updating ClusterQueue: %v", err)
			}
			tried := workload.NewInfo(utiltestingapi.MakeWorkload("tried", defaultNamespace).Obj())
			cq.inadmissibleWorkloads[workloadKey(tried)] = tried
			cq.PushOrUpdate(workload.NewInfo(waiting))
			if tc.last != nil {
				cq.PushOrUpdate(workload.NewInfo(tc.last))
			} else {
				cq.takeOut(waiting)
			}

			active, inadmissible := cq.Pending()
			if active != tc.wantActive || inadmissible != tc.wantInadmissible {
				t.Errorf("Unexpected counts: %d active, %d inadmissible", active, inadmissible)
			}
			if dump, _ := cq.DumpInadmissible(); len(dump) != tc.wantInadmissible {
				t.Errorf("Unexpected dump: %v", dump)
			}
			if snapshot := cq.Snapshot(); len(snapshot) != tc.wantActive+tc.wantInadmissible {
				t.Errorf("Unexpected snapshot: %v", snapshot)
			}
			_, inQueue := cq.PendingInLocalQueue(queue.KeyFromWorkload(waiting))
			_, inOther := cq.PendingInLocalQueue(queue.KeyFromWorkload(moved))
			if inQueue != tc.wantInQueue || inOther != tc.wantInOther {
				t.Errorf("Unexpected counts of the LocalQueues: %d and %d inadmissible", inQueue, inOther)
			}

			if !releaseQuota(ctx, cq, cl) {
				t.Error("The workload that was tried is not tried again")
			}
			if namespaces != 1 {
				t.Errorf("Unexpected number of workloads that the release looked at: %d, want 1", namespaces)
			}
			if active, inadmissible := cq.Pending(); active != tc.wantActive+1 || inadmissible != tc.wantInadmissible-1 {
				t.Errorf("Unexpected counts after the release: %d active, %d inadmissible", active, inadmissible)
			}
		})
	}
}

// activeStatusChecker says whether all ClusterQueues are active.
type activeStatusChecker struct{ atomic.Bool }

func (c *activeStatusChecker) ClusterQueueActive(kueue.ClusterQueueReference) bool {
	return c.Load()
}

// When a manager starts, a ClusterQueue can become active after the scheduler has
// looked at its heap, and with no inadmissible workload that would move.
func TestActiveClusterQueueWakesUpScheduler(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var checker activeStatusChecker
				manager := newManagerWithChecker(utiltesting.NewFakeClient(), &checker)
				if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
					t.Fatalf("Failed adding ClusterQueue: %v", err)
				}
				if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
					t.Fatalf("Failed adding LocalQueue: %v", err)
				}
				if err := addOrUpdateWorkload(ctx, manager, utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq").Obj()); err != nil {
					t.Fatalf("Failed adding workload: %v", err)
				}
				heads := make(chan int, 1)
				go func() { heads <- len(manager.Heads(ctx)) }()
				synctest.Wait()
				if len(heads) > 0 {
					t.Fatal("Unexpected head of an inactive ClusterQueue")
				}
				checker.Store(true)
				retryInadmissible(ctx, manager, "cq")
				synctest.Wait()
				if woken := len(heads) > 0; woken != gate {
					t.Errorf("Unexpected look at the heap: %v, want %v", woken, gate)
				}
				cancel()
				manager.Broadcast()
			})
		})
	}
}

// What a workload needs of DRA is looked up by Reconcile, which may come before or after the
// scheduler puts the workload back that it has tried as it was before.
func TestRequeueWorkloadWithDRAThatAsksForOthersNow(t *testing.T) {
	for _, reconciledBefore := range []bool{false, true} {
		t.Run(fmt.Sprintf("reconciled before %t", reconciledBefore), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, draGate, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			pods := func(count int) *utiltestingapi.WorkloadWrapper {
				return utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq").Generation(int64(count)).PodSets(
					*utiltestingapi.MakePodSet(kueue.DefaultPodSetName, count).Limit(corev1.ResourceCPU, "1").ResourceClaimTemplate("claim", "template").Obj())
			}
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
			manager := newManagerForTest(cl)
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			if err := cl.Create(ctx, pods(2).Obj()); err != nil {
				t.Fatalf("Failed creating workload: %v", err)
			}
			if err := addOrUpdateWorkload(ctx, manager, pods(2).Obj()); err != nil {
				t.Fatalf("Failed adding workload: %v", err)
			}
			cq := manager.getClusterQueue("cq")
			head := cq.Pop()
			if head == nil {
				t.Fatal("The workload is not in the queue")
			}
			scaled := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(head.Obj), scaled); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			scaled.Generation, scaled.Spec = 3, pods(3).Obj().Spec
			if err := cl.Update(ctx, scaled); err != nil {
				t.Fatalf("Scaling the workload: %v", err)
			}
			reconcile := func() {
				if err := addOrUpdateWorkload(ctx, manager, scaled.DeepCopy()); err != nil {
					t.Fatalf("Failed adding workload: %v", err)
				}
			}
			if reconciledBefore {
				reconcile()
			}
			requeueWorkload(ctx, manager, head, RequeueReasonFailedAfterNomination)
			if !reconciledBefore {
				if again := cq.Pop(); again != nil {
					t.Fatalf("Tried before it is reconciled: %v", again.TotalRequests)
				}
				reconcile()
			}
			again := cq.Pop()
			if again == nil {
				t.Fatal("The workload is not in the queue any more")
			}
			if got := again.TotalRequests[0].Count; got != 3 {
				t.Errorf("It asks for quota for %d pods, want 3", got)
			}
		})
	}
}
