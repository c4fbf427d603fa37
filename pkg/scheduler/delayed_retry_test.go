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

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The scheduler writes that a workload waits for another to be ready. That write
// must not make its reservation fail; one of a check in the meantime must. Nor must the
// scheduler wait with a copy that is old by then.
func TestScheduleAfterWaitingForPodsReady(t *testing.T) {
	for _, mergePatch := range []bool{false, true} {
		for name, tc := range map[string]struct {
			// wroteBefore is true if somebody writes just before the scheduler does.
			wroteBefore bool
			checkSpeaks bool
		}{
			"nobody writes meanwhile":                   {},
			"a check speaks meanwhile":                  {checkSpeaks: true},
			"somebody wrote before":                     {wroteBefore: true},
			"somebody wrote before, and a check speaks": {wroteBefore: true, checkSpeaks: true},
		} {
			t.Run(fmt.Sprintf("WorkloadRequestUseMergePatch=%t, %s", mergePatch, name), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
				features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, mergePatch)
				synctest.Test(t, func(t *testing.T) {
					ctx, log := utiltesting.ContextWithLog(t)
					now := time.Now()
					rf, none := utiltestingapi.MakeResourceFlavor("rf").Obj(), utiltestingapi.MakeResourceFlavor("none").Obj()
					cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(
						*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "2").Obj(),
						*utiltestingapi.MakeFlavorQuotas(none.Name).Resource(corev1.ResourceCPU, "0").Obj()).Obj()
					lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
					wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
					running := utiltestingapi.MakeWorkload("running", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").
						SimpleReserveQuota("cq", rf.Name, now).AdmittedAt(true, now)
					cl := utiltesting.NewClientBuilder().
						WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, none, cq, lq, wl).
						WithStatusSubresource(&kueue.Workload{}).
						WithInterceptorFuncs(interceptor.Funcs{
							SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
								if tc.wroteBefore {
									tc.wroteBefore = false
									latest := wl.DeepCopy()
									latest.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished, LastTransitionTime: metav1.NewTime(now)}}
									if err := c.Status().Update(ctx, latest); err != nil {
										return err
									}
								}
								return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subresource, obj, patch, opts...)
							},
						}).Build()
					cqCache := schdcache.New(cl, schdcache.WithPodsReadyTracking(true))
					qManager := newManagerForTest(cl, cqCache)
					cqCache.AddOrUpdateResourceFlavor(log, rf)
					cqCache.AddOrUpdateResourceFlavor(log, none)
					addQueues(ctx, t, cqCache, qManager, cq, lq)
					cqCache.AddOrUpdateWorkload(log, running.Obj())
					scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
					cycles := 1
					if tc.wroteBefore {
						cycles++
					}
					go func() {
						for range cycles {
							scheduler.schedule(ctx)
						}
					}()
					time.Sleep(time.Second) // for writes that are tried again
					synctest.Wait()

					got := &kueue.Workload{}
					read := func() {
						if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
							t.Fatalf("Getting the workload: %v", err)
						}
					}
					read()
					if cond := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadQuotaReserved); cond == nil || cond.Reason != "Waiting" {
						t.Errorf("Unexpected conditions of a workload that waits for another: %v", got.Status.Conditions)
					}
					if tc.checkSpeaks {
						got.Status.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "check", State: kueue.CheckStateRetry}}
						if err := cl.Status().Update(ctx, got); err != nil {
							t.Fatalf("Updating the workload: %v", err)
						}
					}
					ready := running.Clone().Condition(metav1.Condition{Type: kueue.WorkloadPodsReady, Status: metav1.ConditionTrue}).Obj()
					if err := updateInCache(log, cqCache, running.Obj(), ready); err != nil {
						t.Fatalf("Updating the other workload in cache: %v", err)
					}
					time.Sleep(time.Second) // for what is tried again
					synctest.Wait()
					read()
					if reserved := workload.HasQuotaReservation(got); reserved == tc.checkSpeaks {
						t.Errorf("Unexpected quota reservation: %t, want %t", reserved, !tc.checkSpeaks)
					}
				})
			})
		}
	}
}

// A reservation that is refused says nothing of the flavor: the next cycle must not
// go on to the other ones, and give up as these have no quota.
func TestScheduleAfterRefusal(t *testing.T) {
	for _, moved := range []bool{false, true} {
		t.Run(fmt.Sprintf("moved to another queue meanwhile: %t", moved), func(t *testing.T) {
			testScheduleAfterRefusal(t, moved)
		})
	}
}

func testScheduleAfterRefusal(t *testing.T, moved bool) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, log := utiltesting.ContextWithLog(t)
	free, none := utiltestingapi.MakeResourceFlavor("free").Obj(), utiltestingapi.MakeResourceFlavor("none").Obj()
	wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
	refusals := 1
	cl := utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), free, none, wl).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if refusals > 0 {
					refusals--
					if moved {
						latest := wl.DeepCopy()
						latest.Spec.QueueName = "other"
						if err := c.Update(ctx, latest); err != nil {
							return err
						}
					}
					return errors.New("refused")
				}
				return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subresource, obj, patch, opts...)
			},
		}).Build()
	cqCache := schdcache.New(cl)
	qManager := newManagerForTest(cl, cqCache)
	cqCache.AddOrUpdateResourceFlavor(log, free)
	cqCache.AddOrUpdateResourceFlavor(log, none)
	for _, name := range []string{"lq", "other"} {
		cq := utiltestingapi.MakeClusterQueue("cq-of-"+name).ResourceGroup(
			*utiltestingapi.MakeFlavorQuotas(free.Name).Resource(corev1.ResourceCPU, "1").Obj(),
			*utiltestingapi.MakeFlavorQuotas(none.Name).Resource(corev1.ResourceCPU, "0").Obj()).Obj()
		lq := utiltestingapi.MakeLocalQueue(name, metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
		for _, obj := range []client.Object{cq, lq} {
			if err := cl.Create(ctx, obj); err != nil {
				t.Fatalf("Creating %s: %v", obj.GetName(), err)
			}
		}
		addQueues(ctx, t, cqCache, qManager, cq, lq)
	}
	scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
	var wg sync.WaitGroup
	scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))
	for cycle := range 2 {
		scheduler.schedule(ctx)
		wg.Wait()
		got := &kueue.Workload{}
		if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
			t.Fatalf("Getting the workload: %v", err)
		}
		if reserved, want := workload.HasQuotaReservation(got), cycle == 1; reserved != want {
			t.Errorf("Unexpected quota reservation after cycle %d: %t, want %t", cycle+1, reserved, want)
		}
	}
}

// A check says Retry while quota is being reserved for its workload. Another one, which
// has found no quota meanwhile, gets it.
func TestQuotaOfRefusedReservationIsForOthers(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, log := utiltesting.ContextWithLog(t)
	rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj()).Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
	now := time.Now()
	newWorkload := func(name string, creation time.Time) *kueue.Workload {
		return utiltestingapi.MakeWorkload(name, metav1.NamespaceDefault).UID(types.UID(name)).Queue("lq").Request(corev1.ResourceCPU, "1").Creation(creation).
			AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending}).Obj()
	}
	first, second := newWorkload("first", now), newWorkload("second", now.Add(time.Second))
	cl := newRefusingClient(func(wl client.Object) bool { return wl.GetName() == first.Name }, rf, cq, lq, first, second)
	cqCache := schdcache.New(cl)
	qManager, processRequeues := newManagerAndRequeues(cl, cqCache)
	cqCache.AddOrUpdateResourceFlavor(log, rf)
	addQueues(ctx, t, cqCache, qManager, cq, lq)
	scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
	var writes []func()
	scheduler.setAdmissionRoutineWrapper(heldBack(func(write func()) { writes = append(writes, write) }))
	processRequeues(ctx)
	scheduler.schedule(ctx) // the first is assumed
	scheduler.schedule(ctx) // the second finds no quota
	if len(writes) != 1 {
		t.Fatalf("Unexpected number of reservations: %d, want 1", len(writes))
	}

	spoken := first.DeepCopy()
	spoken.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
	if err := cl.Status().Update(ctx, spoken); err != nil {
		t.Fatalf("Updating the workload: %v", err)
	}
	writes[0]()
	processRequeues(ctx)
	done, cancel := context.WithCancel(ctx)
	cancel()
	var got []string
	for _, wl := range heads(done, qManager) {
		got = append(got, wl.Name)
	}
	if diff := cmp.Diff([]string{second.Name}, got); diff != "" {
		t.Errorf("Unexpected workloads to be tried (-want,+got):\n%s", diff)
	}
}

// A workload is deactivated and activated while its reservation is written, which is
// refused for that. It may have quota again by then, or be about to: that stays
// accounted for.
func TestRefusalAfterTheNextReservation(t *testing.T) {
	for name, order := range map[string][]int{
		"the next one is written":       {1, 0},
		"the next one is to be written": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, log := utiltesting.ContextWithLog(t)
			rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
			cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj()).Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
			wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).UID("wl").Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
			isRefused := false
			cl := newRefusingClient(func(client.Object) bool { return isRefused }, rf, cq, lq, wl)
			cqCache := schdcache.New(cl)
			qManager, processRequeues := newManagerAndRequeues(cl, cqCache)
			cqCache.AddOrUpdateResourceFlavor(log, rf)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
			var writes []func()
			scheduler.setAdmissionRoutineWrapper(heldBack(func(write func()) { writes = append(writes, write) }))
			processRequeues(ctx)
			scheduler.schedule(ctx)
			if err := errors.Join(deactivated(log, cqCache, qManager, wl), addToQueues(log, qManager, wl)); err != nil {
				t.Fatalf("Deactivating and activating the workload: %v", err)
			}
			scheduler.schedule(ctx)
			if len(writes) != 2 {
				t.Fatalf("Unexpected number of reservations: %d, want 2", len(writes))
			}
			for _, i := range order {
				isRefused = i == 0
				writes[i]()
			}
			snapshot, err := cqCache.Snapshot(ctx)
			if err != nil {
				t.Fatalf("Taking a snapshot: %v", err)
			}
			if _, found := snapshot.ClusterQueue("cq").Workloads[workload.Key(wl)]; !found {
				t.Error("The quota that the workload has is not accounted for")
			}
		})
	}
}

// The note that a workload waits for the pods of others is refused. The quota that it
// would have taken in that cycle is for those that have not found any.
func TestQuotaOfRefusedNoteIsForOthers(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, log := utiltesting.ContextWithLog(t)
	rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj()).Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
	other := utiltestingapi.MakeWorkload("other", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "2").Obj()
	cl := utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, other).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
	cqCache := schdcache.New(cl)
	qManager, processRequeues := newManagerAndRequeues(cl, cqCache)
	cqCache.AddOrUpdateResourceFlavor(log, rf)
	addQueues(ctx, t, cqCache, qManager, cq, lq)
	scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
	processRequeues(ctx)
	scheduler.schedule(ctx)
	done, cancel := context.WithCancel(ctx)
	cancel()
	if found := heads(done, qManager); len(found) != 0 {
		t.Fatalf("Unexpected workloads to be tried: %v", found)
	}
	e := newEntry(utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Obj())
	e.ClusterQueue = kueue.ClusterQueueReference(cq.Name)
	for err, want := range map[error]bool{
		errors.New("another error"):                                         false,
		apierrors.NewConflict(kueue.Resource("workloads"), e.Obj.Name, nil): true,
	} {
		if got := scheduler.retriedAfter(ctx, err, e); got != want {
			t.Errorf("Unexpected answer to %v: %t", err, got)
		}
	}
	processRequeues(ctx)
	var got []string
	for _, wl := range heads(done, qManager) {
		got = append(got, wl.Name)
	}
	if diff := cmp.Diff([]string{other.Name}, got); diff != "" {
		t.Errorf("Unexpected workloads to be tried (-want,+got):\n%s", diff)
	}
}

// heldBack is a wrapper that runs nothing itself.
type heldBack func(func())

func (h heldBack) Run(f func()) { h(f) }

// A second pass whose write is refused must not lose the quota that the workload
// holds, nor try again with what it has seen, nor keep quota that was released.
func TestRefusedSecondPass(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	const cqName, rfName = "cq", "rf"
	seen := func() *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Limit(corev1.ResourceCPU, "1").
			ReserveQuotaAt(utiltestingapi.MakeAdmission(cqName).PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).
				Assignment(corev1.ResourceCPU, rfName, "1").
				TopologyAssignment(utiltestingapi.MakeTopologyAssignment([]string{corev1.LabelHostname}).
					Domain(utiltestingapi.MakeTopologyDomainAssignment([]string{"node"}, 1).Obj()).Obj()).
				Obj()).Obj(), now).
			AdmittedAt(true, now).
			AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateReady})
	}
	// Its limits are its requests.
	hasRequest := func(wl *kueue.Workload) bool {
		return !wl.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests.Cpu().IsZero()
	}
	spoken := kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateReady, Message: "news"}
	cases := map[string]struct {
		latest         *utiltestingapi.WorkloadWrapper
		deleted        bool
		wantCached     bool
		wantSecondPass bool
	}{
		"a check spoke":             {latest: seen().UnhealthyNodes("node").AdmissionChecks(spoken), wantCached: true, wantSecondPass: true},
		"the node is healthy again": {latest: seen(), wantCached: true},
		"it was evicted":            {latest: seen().UnhealthyNodes("node").Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}), wantCached: true},
		"it was deactivated":        {latest: seen().AdmissionChecks(spoken).Active(false)},
		"its quota was released":    {latest: utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1")},
		"it was deleted":            {latest: seen(), deleted: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, log := utiltesting.ContextWithLog(t)
			rf := utiltestingapi.MakeResourceFlavor(rfName).Obj()
			cq := utiltestingapi.MakeClusterQueue(cqName).
				ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rfName).Resource(corev1.ResourceCPU, "2").Obj()).Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cqName).Obj()
			old := seen().UnhealthyNodes("node").ResourceVersion("1").Obj()
			latest := tc.latest.ResourceVersion("2").Obj()
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, latest).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge,
				}).Build()
			if tc.deleted {
				if err := cl.Delete(ctx, latest); err != nil {
					t.Fatalf("Deleting the workload: %v", err)
				}
			}
			fakeClock := testingclock.NewFakeClock(now)
			cqCache := schdcache.New(cl)
			qManager := newManagerForTest(cl, cqCache, qcache.WithClock(fakeClock))
			cqCache.AddOrUpdateResourceFlavor(log, rf)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			snapshot, err := cqCache.Snapshot(ctx)
			if err != nil {
				t.Fatalf("Taking a snapshot: %v", err)
			}
			scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{}, WithClock(t, fakeClock))
			var wg sync.WaitGroup
			scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))

			e := newEntry(old)
			e.status, e.ClusterQueue, e.SecondPassIteration = nominated, cqName, 1
			if err := admit(ctx, scheduler, e, snapshot.ClusterQueue(cqName)); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			wg.Wait()

			if snapshot, err = cqCache.Snapshot(ctx); err != nil {
				t.Fatalf("Taking a snapshot: %v", err)
			}
			cached, found := snapshot.ClusterQueue(cqName).Workloads[workload.Key(old)]
			if found != tc.wantCached || found && cached.Obj.ResourceVersion != latest.ResourceVersion {
				t.Errorf("Unexpected workload in cache: %v, want the latest: %t", cached, tc.wantCached)
			}
			if found && !hasRequest(cached.Obj) {
				t.Errorf("Unexpected requests in cache: %v", cached.Obj.Spec.PodSets)
			}
			fakeClock.Step(time.Minute)
			done, cancel := context.WithCancel(ctx)
			cancel()
			secondPass := slices.DeleteFunc(heads(done, qManager), func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
			if got := len(secondPass) > 0; got != tc.wantSecondPass {
				t.Errorf("Unexpected second pass: %t, want %t", got, tc.wantSecondPass)
			}
			if tc.wantSecondPass && secondPass[0].ResourceVersion != latest.ResourceVersion {
				t.Errorf("Unexpected version of the second pass: %s, want the latest", secondPass[0].ResourceVersion)
			}
			if tc.wantSecondPass && !hasRequest(secondPass[0]) {
				t.Errorf("Unexpected requests in the second pass: %v", secondPass[0].Spec.PodSets)
			}
		})
	}
}

// A workload can begin to wait while the scheduler tries to reserve quota for it.
// Why that failed must not be written over what it waits for.
func TestRequeueWhileWaiting(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	const message = "Admission check(s) check asked for a retry, waiting until later"
	seen := func() *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1")
	}
	waiting := seen().RequeueState(nil, ptr.To(metav1.NewTime(now.Add(time.Minute)))).
		AdmissionChecks(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateRetry}).
		Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: "Pending", Message: message}).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck, Message: message}).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck, Message: message})
	cases := map[string]struct {
		latest      *utiltestingapi.WorkloadWrapper
		wantWritten bool
	}{
		"it waits":         {latest: waiting},
		"it does not wait": {latest: seen(), wantWritten: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			cq := utiltestingapi.MakeClusterQueue("cq").Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), cq, lq, tc.latest.Obj()).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			cqCache := schdcache.New(cl)
			qManager := newManagerForTest(cl, cqCache)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			recorder := &utiltesting.EventRecorder{}
			scheduler := newScheduler(qManager, cqCache, cl, recorder)
			e := newEntry(seen().Obj())
			e.inadmissibleMsg = "no quota"
			scheduler.requeueAndUpdate(ctx, *e)
			got := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(seen().Obj()), got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			cond := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadQuotaReserved)
			if written := cond != nil && cond.Message == "no quota"; written != tc.wantWritten {
				t.Errorf("Unexpected condition %v, want a new message: %t", cond, tc.wantWritten)
			}
			if told := len(recorder.RecordedEvents) > 0; told != tc.wantWritten {
				t.Errorf("Unexpected events %v, want some: %t", recorder.RecordedEvents, tc.wantWritten)
			}
		})
	}
}

// Somebody writes while the scheduler is about to say why a workload has no quota. The
// workload is tried again at once: nobody would say it otherwise.
func TestRequeueAfterRefusedNote(t *testing.T) {
	cases := map[string]struct {
		gateOff  bool
		speaks   bool
		wantHead bool
	}{
		"a check spoke":           {speaks: true, wantHead: true},
		"nobody wrote":            {},
		"a check spoke, gate off": {gateOff: true, speaks: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			check := kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending}
			wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").AdmissionChecks(check).Obj()
			cq := utiltestingapi.MakeClusterQueue("cq").Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), cq, lq, wl).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
						if !tc.speaks {
							return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResource, obj, patch, opts...)
						}
						spoken := &kueue.Workload{}
						if err := c.Get(ctx, client.ObjectKeyFromObject(obj), spoken); err != nil {
							return err
						}
						spoken.Status.AdmissionChecks[0].Message += "news "
						if err := c.Status().Update(ctx, spoken); err != nil {
							return err
						}
						return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
					},
				}).Build()
			cqCache := schdcache.New(cl)
			qManager := newManagerForTest(cl, cqCache)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			done, cancel := context.WithCancel(ctx)
			cancel()
			if got := heads(done, qManager); len(got) != 1 {
				t.Fatalf("Unexpected heads: %v, want one", got)
			}
			scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
			e := newEntry(wl)
			e.inadmissibleMsg = "no quota"
			scheduler.requeueAndUpdate(ctx, *e)
			if got := len(heads(done, qManager)) > 0; got != tc.wantHead {
				t.Errorf("Unexpected head: %t, want %t", got, tc.wantHead)
			}
		})
	}
}

// addQueues hands a ClusterQueue and its LocalQueue to the scheduler's cache and queues.
// newRefusingClient refuses those writes of a status as out of date.
func newRefusingClient(isRefused func(client.Object) bool, objects ...client.Object) client.Client {
	return utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault)).
		WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if isRefused(obj) {
					return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
				}
				return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subresource, obj, patch, opts...)
			},
		}).Build()
}

func addQueues(ctx context.Context, t *testing.T, cache *schdcache.Cache, queues *qcache.Manager, cq *kueue.ClusterQueue, lq *kueue.LocalQueue) {
	t.Helper()
	if err := cache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Inserting ClusterQueue in cache: %v", err)
	}
	if err := queues.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Inserting ClusterQueue in manager: %v", err)
	}
	if err := queues.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Inserting LocalQueue in manager: %v", err)
	}
}

// A conflict is an error where no version goes with a write, which is with the gate off.
func TestLogFailure(t *testing.T) {
	conflict := apierrors.NewConflict(kueue.Resource("workloads"), "wl", errors.New("somebody wrote"))
	for name, tc := range map[string]struct {
		gateOff   bool
		err       error
		wantError bool
	}{
		"refused":           {err: conflict},
		"refused, gate off": {gateOff: true, err: conflict, wantError: true},
		"failed":            {err: errors.New("timeout"), wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			var lines []string
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 3})
			logFailure(log, tc.err, "Failed to write")
			if len(lines) != 1 || strings.Contains(lines[0], `"error"=`) != tc.wantError {
				t.Errorf("Unexpected lines %v, want one, of an error: %t", lines, tc.wantError)
			}
		})
	}
}
