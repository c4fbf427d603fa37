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

package core

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// retryFixture is a workload reconciler on a fake clock and a fake client that
// counts the writes, with the queues that its events feed.
type retryFixture struct {
	*testing.T
	ctx        context.Context
	client     client.Client
	queues     *qcache.Manager
	reconciler *WorkloadReconciler
	recorder   utiltesting.EventRecorder
	clock      *testingclock.FakeClock
	key        client.ObjectKey
	start      time.Time
	writes     int
	failWrite  error
	eventFirst bool // the event of a write comes before Reconcile goes on
	onPatch    func(before, after *kueue.Workload, patchType types.PatchType)

	queueInadmissible func(context.Context, kueue.ClusterQueueReference)
}

func newRetryFixture(t *testing.T, wl *kueue.Workload, start time.Time) *retryFixture {
	ctx, _ := utiltesting.ContextWithLog(t)
	f := &retryFixture{T: t, ctx: ctx, key: client.ObjectKeyFromObject(wl), start: start, clock: testingclock.NewFakeClock(start)}
	cq := testClusterQueue("a", "b")
	lq := utiltestingapi.MakeLocalQueue("lq", wl.Namespace).ClusterQueue("cq").Obj()
	f.client = utiltesting.NewClientBuilder().WithObjects(wl, cq, lq, utiltesting.MakeNamespace(wl.Namespace)).WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := f.failWrite; err != nil {
					f.failWrite = nil
					return err
				}
				f.writes++
				before := f.workload()
				err := utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResource, obj, patch, opts...)
				if f.onPatch != nil {
					f.onPatch(before, f.workload(), patch.Type())
				}
				if f.eventFirst {
					f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: before, ObjectNew: f.workload()})
				}
				return err
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, subResource string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				f.writes++
				return c.SubResource(subResource).Update(ctx, obj, opts...)
			},
		}).Build()
	cache := schdcache.New(f.client)
	f.queues, f.queueInadmissible = newTestQueues(f.client, cache)
	if err := f.queues.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	if err := f.queues.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}
	f.reconciler = NewWorkloadReconciler(f.client, f.queues, cache, &f.recorder)
	f.reconciler.clock = f.clock
	return f
}

// stopLocalQueue stops the LocalQueue, which the queues do not have then.
func (f *retryFixture) stopLocalQueue() {
	f.Helper()
	lq := &kueue.LocalQueue{}
	if err := f.client.Get(f.ctx, client.ObjectKey{Namespace: f.key.Namespace, Name: "lq"}, lq); err != nil {
		f.Fatalf("Getting the LocalQueue: %v", err)
	}
	lq.Spec.StopPolicy = ptr.To(kueue.Hold)
	if err := f.client.Update(f.ctx, lq); err != nil {
		f.Fatalf("Updating the LocalQueue: %v", err)
	}
	f.deleteFromQueues(lq)
}

func (f *retryFixture) workload() *kueue.Workload {
	f.Helper()
	wl := &kueue.Workload{}
	if err := f.client.Get(f.ctx, f.key, wl); err != nil {
		f.Fatalf("Getting the workload: %v", err)
	}
	return wl
}

// reconcileAt reconciles at the given time after the start, delivers the event
// of the change to the queues, and expects a number of writes and a RequeueAfter.
func (f *retryFixture) reconcileAt(after time.Duration, wantWrites int, wantRequeueAfter time.Duration) *kueue.Workload {
	f.Helper()
	f.clock.SetTime(f.start.Add(after))
	f.writes = 0
	before := f.workload()
	result, err := tidyingReconciler{f.reconciler}.Reconcile(f.ctx, reconcile.Request{NamespacedName: f.key})
	if err != nil {
		f.Fatalf("Reconciling at %s: %v", after, err)
	}
	if f.writes != wantWrites {
		f.Errorf("Unexpected number of writes at %s: %d, want %d", after, f.writes, wantWrites)
	}
	if result.RequeueAfter != wantRequeueAfter {
		f.Errorf("Unexpected RequeueAfter at %s: %s, want %s", after, result.RequeueAfter, wantRequeueAfter)
	}
	got := f.workload()
	if !f.eventFirst {
		f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: before, ObjectNew: got})
	}
	return got
}

// change updates the status of the workload as another client would.
func (f *retryFixture) change(update func(wl *kueue.Workload)) {
	f.Helper()
	before := f.workload()
	wl := before.DeepCopy()
	update(wl)
	if err := f.client.Status().Update(f.ctx, wl); err != nil {
		f.Fatalf("Updating the workload: %v", err)
	}
	f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: before, ObjectNew: f.workload()})
}

// askFor has the ClusterQueue ask for other checks.
func (f *retryFixture) askFor(checks ...kueue.AdmissionCheckReference) {
	f.Helper()
	cq := &kueue.ClusterQueue{}
	if err := f.client.Get(f.ctx, client.ObjectKey{Name: "cq"}, cq); err != nil {
		f.Fatalf("Getting the ClusterQueue: %v", err)
	}
	cq.Spec = testClusterQueue(checks...).Spec
	if err := f.client.Update(f.ctx, cq); err != nil {
		f.Fatalf("Updating the ClusterQueue: %v", err)
	}
}

func testClusterQueue(checks ...kueue.AdmissionCheckReference) *kueue.ClusterQueue {
	return utiltestingapi.MakeClusterQueue("cq").AdmissionChecks(checks...).Active(metav1.ConditionTrue).
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas("flavor").Resource(corev1.ResourceCPU, "10").Obj()).Obj()
}

// release does what the controller of a job does once the job is stopped.
func (f *retryFixture) release() {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
		workload.SetRequeuedCondition(wl, evicted.Reason, evicted.Message, false)
		workload.UnsetQuotaReservationWithCondition(wl, "Pending", evicted.Message, f.clock.Now())
	})
}

func (f *retryFixture) retry(name kueue.AdmissionCheckReference, requeueAfterSeconds int32) {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, kueue.AdmissionCheckState{
			Name: name, State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To(requeueAfterSeconds),
		}, f.clock)
	})
}

// expectQueued checks whether the scheduler could take the workload, or only
// knows it as inadmissible.
func (f *retryFixture) expectQueued(wantActive, wantInadmissible int) {
	f.Helper()
	active, inadmissible := 0, 0
	for _, refs := range f.queues.Dump() {
		active += len(refs)
	}
	for _, refs := range f.queues.DumpInadmissible() {
		inadmissible += len(refs)
	}
	if active != wantActive || inadmissible != wantInadmissible {
		f.Errorf("Unexpected queues: %d active, %d inadmissible; want %d and %d", active, inadmissible, wantActive, wantInadmissible)
	}
}

// expectQueuedRequest checks the CPU that the workload requests, as the queues have it.
func (f *retryFixture) expectQueuedRequest(want string) {
	f.Helper()
	for _, info := range f.queues.PendingWorkloadsInfo("cq") {
		if got := info.Obj.Spec.PodSets[0].Template.Spec.Containers[0].Resources.Requests.Cpu(); got.String() != want {
			f.Errorf("Unexpected request of CPU in the queue: %s, want %s", got, want)
		}
	}
}

// expectEvents checks the reasons of all events so far.
func (f *retryFixture) expectEvents(want ...string) {
	f.Helper()
	got := make([]string, 0, len(f.recorder.RecordedEvents))
	for _, e := range f.recorder.RecordedEvents {
		got = append(got, e.Reason)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("Unexpected events (-want,+got):\n%s", diff)
	}
}

func (f *retryFixture) expectRequeueAt(wl *kueue.Workload, want time.Duration) {
	f.Helper()
	if diff := cmp.Diff(&kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(f.start.Add(want)))}, wl.Status.RequeueState, cmpopts.IgnoreFields(kueue.RequeueState{}, "ObservedRetries")); diff != "" {
		f.Errorf("Unexpected requeueState (-want,+got):\n%s", diff)
	}
}

func retryWorkload(start time.Time) *utiltestingapi.WorkloadWrapper {
	return utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Request(corev1.ResourceCPU, "1").Creation(start)
}

// countingWatcher counts how often it was told of a workload.
type countingWatcher struct{ told int }

func (w *countingWatcher) NotifyWorkloadUpdate(_, _ *kueue.Workload) { w.told++ }

func TestReconcileDelayedRetry(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	pending := kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)}
	ready := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(start)}

	for _, mode := range []struct{ mergePatch, admitted bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("evicted, prolonged, requeued; WorkloadRequestUseMergePatch=%t, admitted=%t", mode.mergePatch, mode.admitted), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, mode.mergePatch)
			wlObj := retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready)
			if mode.admitted {
				wlObj.AdmittedAt(true, start)
			}
			f := newRetryFixture(t, wlObj.Obj(), start)

			f.retry("a", 60)
			wl := f.reconcileAt(0, 1, 0)
			f.expectRequeueAt(wl, 60*time.Second)
			if !workloadevict.IsEvicted(wl) || wl.Status.AdmissionChecks[0].State != kueue.CheckStateRetry || wl.Status.AdmissionChecks[1].State != kueue.CheckStateReady {
				t.Errorf("Unexpected status after the Retry: %v", wl.Status)
			}
			if gotHeld := workload.HasQuotaReservation(wl) && wl.Status.Admission != nil; gotHeld != mode.admitted {
				t.Errorf("Unexpected quota reservation after the eviction: %t, want %t", gotHeld, mode.admitted)
			}
			if mode.admitted {
				// The job is to be stopped first.
				f.reconcileAt(time.Second, 0, 0)
				f.release()
			}
			f.expectQueued(0, 1)
			for _, after := range []time.Duration{time.Second, 30 * time.Second, 60*time.Second - 1} {
				f.reconcileAt(after, 0, 60*time.Second-after)
			}

			f.clock.SetTime(start.Add(59 * time.Second))
			f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[1].State = kueue.CheckStatePending })
			f.retry("b", 60)
			wl = f.reconcileAt(59*time.Second, 1, 60*time.Second)
			f.expectRequeueAt(wl, 119*time.Second)
			for _, after := range []time.Duration{60 * time.Second, 119*time.Second - 1} {
				f.reconcileAt(after, 0, 119*time.Second-after)
				f.queueInadmissible(f.ctx, "cq")
				f.expectQueued(0, 1)
			}

			wl = f.reconcileAt(119*time.Second, 1, 0)
			f.expectQueued(1, 0)
			if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) || wl.Status.RequeueState != nil {
				t.Errorf("Unexpected status after the delay: %v", wl.Status)
			}
			f.expectEvents("EvictedDueToAdmissionCheck", "RequeueDelayed", "Requeued")
			for _, check := range wl.Status.AdmissionChecks {
				if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || ptr.Deref(check.RetryCount, 0) != 1 {
					t.Errorf("Unexpected check after the delay: %v", check)
				}
			}
		})
	}

	for _, state := range []kueue.CheckState{kueue.CheckStatePending, kueue.CheckStateReady} {
		t.Run(fmt.Sprintf("a delay that is sent with each state is removed once a second: %s", state), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			other := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)}
			f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, other).Obj(), start)
			send := func() {
				f.change(func(wl *kueue.Workload) {
					wl.Status.AdmissionChecks[0].State = state
					wl.Status.AdmissionChecks[0].RequeueAfterSeconds = ptr.To[int32](30)
				})
			}
			send()
			tidied := f.reconcileAt(0, 1, 0)
			if got := tidied.Status.AdmissionChecks[0].RequeueAfterSeconds; got != nil {
				t.Errorf("Unexpected delay: %d", *got)
			}
			send()
			f.reconcileAt(0, 0, time.Second)
			f.reconcileAt(400*time.Millisecond, 0, 600*time.Millisecond)
			f.reconcileAt(time.Second, 1, 0)
			send()
			f.retry("b", 60)
			if wl := f.reconcileAt(1200*time.Millisecond, 1, 0); !workloadevict.IsEvicted(wl) {
				t.Error("The Retry of another check waits")
			}
		})
	}

	t.Run("the pause of the tidying is over by the time that the rest is done", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.reconciler.tidied.postponed.Store(f.key, start)
		f.reconcileAt(time.Second, 0, time.Millisecond)
		f.reconcileAt(2*time.Second, 0, 0)
	})

	t.Run("while the tidying pauses, a success is counted from, and a rejection acted on", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		other := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](2), LastTransitionTime: metav1.NewTime(start)}
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, other).Obj(), start)
		say := func(state kueue.CheckState) {
			f.change(func(wl *kueue.Workload) {
				wl.Status.AdmissionChecks[0].RequeueAfterSeconds = ptr.To[int32](30)
				wl.Status.AdmissionChecks[1].State = state
			})
		}
		say(kueue.CheckStatePending)
		f.reconcileAt(0, 1, 0)
		say(kueue.CheckStatePending)
		f.reconcileAt(100*time.Millisecond, 0, 900*time.Millisecond)
		say(kueue.CheckStateReady)
		wl := f.reconcileAt(200*time.Millisecond, 1, 0)
		if got := wl.Status.AdmissionChecks[1].RetryCount; got != nil {
			t.Errorf("Unexpected count after a success: %d", *got)
		}
		say(kueue.CheckStateRejected)
		f.clock.SetTime(start.Add(300 * time.Millisecond))
		if _, err := (tidyingReconciler{f.reconciler}).Reconcile(f.ctx, reconcile.Request{NamespacedName: f.key}); err != nil {
			t.Fatalf("Reconciling: %v", err)
		}
		if wl := f.workload(); workload.IsActive(wl) && !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) {
			t.Errorf("The rejection waits: %v", wl.Status)
		}
	})

	t.Run("the slice that replaces another keeps its quota until the job is stopped", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/old").
			SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		wl := f.reconcileAt(0, 1, 0)
		f.expectRequeueAt(wl, 60*time.Second)
		if !workloadevict.IsEvicted(wl) || !workload.HasQuotaReservation(wl) {
			t.Errorf("Unexpected status after the Retry: %v", wl.Status)
		}
	})

	t.Run("a Retry of a queued workload takes it out of the queue", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).AdmissionChecks(pending, ready).Obj(), start)
		f.expectQueued(1, 0)
		f.retry("a", 60)
		wl := f.reconcileAt(0, 1, 60*time.Second)
		f.expectRequeueAt(wl, 60*time.Second)
		f.expectQueued(0, 1)
		f.reconcileAt(60*time.Second, 1, 0)
		f.expectQueued(1, 0)
		f.expectEvents("RequeueDelayed", "Requeued")
	})

	for _, restartedAt := range []time.Duration{30 * time.Second, 60 * time.Second} {
		t.Run(fmt.Sprintf("the queue that has evicted the workload runs again after %s", restartedAt), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
			stop := func(policy kueue.StopPolicy) {
				cq := &kueue.ClusterQueue{}
				if err := f.client.Get(f.ctx, client.ObjectKey{Name: "cq"}, cq); err != nil {
					t.Fatalf("Getting the ClusterQueue: %v", err)
				}
				cq.Spec.StopPolicy = ptr.To(policy)
				if err := f.client.Update(f.ctx, cq); err != nil {
					t.Fatalf("Updating the ClusterQueue: %v", err)
				}
			}
			stop(kueue.HoldAndDrain)
			f.change(func(wl *kueue.Workload) {
				workloadevict.SetEvictedCondition(wl, start, kueue.WorkloadEvictedByClusterQueueStopped, "The ClusterQueue is stopped")
			})
			f.retry("a", 60)
			f.expectRequeueAt(f.reconcileAt(0, 1, 60*time.Second), 60*time.Second)
			f.release()
			f.reconcileAt(time.Second, 0, 59*time.Second)

			stop(kueue.None)
			if restartedAt < 60*time.Second {
				wl := f.reconcileAt(restartedAt, 1, 60*time.Second-restartedAt)
				f.expectRequeueAt(wl, 60*time.Second)
				f.expectQueued(0, 1)
				requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
				if requeued.Status != metav1.ConditionFalse || requeued.Reason != kueue.WorkloadEvictedByAdmissionCheck {
					t.Errorf("Unexpected condition while waiting: %v", requeued)
				}
				f.reconcileAt(restartedAt, 0, 60*time.Second-restartedAt)
			}
			wl := f.reconcileAt(60*time.Second, 1, 0)
			f.expectQueued(1, 0)
			if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) || wl.Status.RequeueState != nil {
				t.Errorf("Unexpected status after the delay: %v", wl.Status)
			}
		})
	}

	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprintf("a workload with DRA waits with its resources adjusted, and is moved, gate %v", enabled), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, draGate, true)
			podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Request(corev1.ResourceMemory, "1Gi").Limit(corev1.ResourceCPU, "1").
				ResourceClaimTemplate("claim", "template").Obj()
			f := newRetryFixture(t, retryWorkload(start).PodSets(*podSet).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
			f.retry("a", 60)
			f.reconcileAt(0, 1, 0)
			f.reconcileAt(time.Second, 0, 59*time.Second)
			f.expectQueued(0, 1)
			f.expectQueuedRequest("1")

			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, enabled)
			queues := []*kueue.LocalQueue{
				utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj(),
				utiltestingapi.MakeLocalQueue("other", "ns").ClusterQueue("cq").Obj(),
			}
			if err := f.queues.AddLocalQueue(f.ctx, queues[1]); err != nil {
				t.Fatalf("Adding the LocalQueue: %v", err)
			}
			before := f.workload()
			moved := before.DeepCopy()
			moved.Spec.QueueName = "other"
			if err := f.client.Update(f.ctx, moved); err != nil {
				t.Fatalf("Updating the workload: %v", err)
			}
			f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: before, ObjectNew: moved})
			f.reconcileAt(2*time.Second, 0, 58*time.Second)
			for i, want := range []int32{0, 1} {
				if got, err := f.queues.PendingWorkloads(queues[i]); err != nil || got != want {
					t.Errorf("Unexpected number of workloads in %s: %d, want %d (%v)", queues[i].Name, got, want, err)
				}
			}
		})
	}

	t.Run("a workload that is moved and deactivated in one event leaves its old queue", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.reconcileAt(time.Second, 0, 59*time.Second)
		f.expectQueued(0, 1)

		if err := f.queues.AddClusterQueue(f.ctx, utiltestingapi.MakeClusterQueue("other-cq").Obj()); err != nil {
			t.Fatalf("Adding the ClusterQueue: %v", err)
		}
		if err := f.queues.AddLocalQueue(f.ctx, utiltestingapi.MakeLocalQueue("other", "ns").ClusterQueue("other-cq").Obj()); err != nil {
			t.Fatalf("Adding the LocalQueue: %v", err)
		}
		before := f.workload()
		moved := before.DeepCopy()
		moved.Spec.QueueName, moved.Spec.Active = "other", ptr.To(false)
		if err := f.client.Update(f.ctx, moved); err != nil {
			t.Fatalf("Updating the workload: %v", err)
		}
		f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: before, ObjectNew: moved})
		f.expectQueued(0, 0)
	})

	t.Run("a check that the queue does not ask for cannot evict", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.askFor("b")
		f.retry("a", 60)
		if wl := f.reconcileAt(0, 1, 0); workloadevict.IsEvicted(wl) || len(wl.Status.AdmissionChecks) != 1 {
			t.Errorf("Unexpected status after the Retry: %v", wl.Status)
		}
	})

	t.Run("the queue asks for another check while the workload waits", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.askFor("a", "c")
		wl := f.reconcileAt(time.Second, 1, 59*time.Second)
		names := sets.New[kueue.AdmissionCheckReference]()
		for _, check := range wl.Status.AdmissionChecks {
			names.Insert(check.Name)
		}
		if diff := cmp.Diff(sets.New[kueue.AdmissionCheckReference]("a", "c"), names); diff != "" {
			t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
		}
		f.expectRequeueAt(wl, 60*time.Second)
	})

	t.Run("a look at a workload that waits has the queues tell of it", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.eventFirst = true // from here on there is an event of a write alone
		watcher := &countingWatcher{}
		f.reconciler.watchers = append(f.reconciler.watchers, watcher)
		f.reconcileAt(time.Second, 0, 59*time.Second)
		if watcher.told != 1 {
			t.Errorf("The watchers were told %d times, want once", watcher.told)
		}
	})

	t.Run("a backoff that no condition tells of ends in the queue", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		// The queues have a clock of their own, on which it is over.
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).Obj(), start.Add(-time.Hour))
		wl := f.workload()
		wl.Status = kueue.WorkloadStatus{RequeueState: &kueue.RequeueState{Count: ptr.To[int32](1), RequeueAt: ptr.To(metav1.NewTime(f.start.Add(60 * time.Second)))}}
		if err := f.client.Status().Update(f.ctx, wl); err != nil {
			t.Fatalf("Updating the workload: %v", err)
		}
		for _, after := range []time.Duration{0, 60*time.Second - 1, 60 * time.Second} {
			f.expectQueued(0, 0)
			waits, result, err := f.reconciler.awaitBackoff(f.ctx, f.workload(), f.start.Add(after))
			if want := 60*time.Second - after; err != nil || waits != (want > 0) || result.RequeueAfter != want {
				t.Errorf("Unexpected at %s: waits %t, for %s, %v; want %s", after, waits, result.RequeueAfter, err, want)
			}
		}
		f.expectQueued(1, 0)
	})

	t.Run("a write that fails is tried again, and loses nothing", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		for _, after := range []time.Duration{0, 60 * time.Second} {
			f.clock.SetTime(start.Add(after))
			f.failWrite = apierrors.NewConflict(kueue.Resource("workloads"), "wl", nil)
			before := f.workload()
			if _, err := f.reconciler.Reconcile(f.ctx, reconcile.Request{NamespacedName: f.key}); !apierrors.IsConflict(err) {
				t.Errorf("Unexpected error %v, want the conflict", err)
			}
			if diff := cmp.Diff(before, f.workload()); diff != "" {
				t.Errorf("The workload changed:\n%s", diff)
			}
			wl := f.reconcileAt(after, 1, 0)
			if after == 0 {
				f.release()
			} else if got := ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0); got != 1 {
				t.Errorf("Unexpected retryCount %d, want 1", got)
			}
		}
	})

	t.Run("a check that rejects the waiting workload deactivates it", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.release()
		f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[1].State = kueue.CheckStateRejected })
		f.reconcileAt(time.Second, 1, 0)
		if wl := f.reconcileAt(time.Second, 0, 0); workload.IsActive(wl) {
			t.Errorf("The workload is still active: %v", wl.Status)
		}
	})

	t.Run("what is given up waits for no nodes to be replaced", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		admitted := retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmittedAt(true, start).UnhealthyNodes("node").AdmissionChecks(pending, ready)

		f := newRetryFixture(t, admitted.Clone().Obj(), start)
		f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[1].State = kueue.CheckStateRejected })
		if wl := f.reconcileAt(0, 1, 0); !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) {
			t.Errorf("Rejected, and not to be deactivated: %v", wl.Status)
		}

		f = newRetryFixture(t, admitted.Clone().Obj(), start)
		f.change(func(wl *kueue.Workload) {
			workload.SetDeactivationTarget(wl, kueue.WorkloadAdmissionCheckRetryLimitExceeded, "by test")
		})
		if wl := f.reconcileAt(0, 0, 0); workload.IsActive(wl) {
			t.Errorf("At the limit, and still active: %v", wl.Status)
		}

		f = newRetryFixture(t, admitted.Clone().Active(false).Obj(), start)
		if wl := f.reconcileAt(0, 1, 0); !workloadevict.IsEvicted(wl) {
			t.Errorf("Inactive, and not evicted: %v", wl.Status)
		}
	})

	t.Run("the ClusterQueue asks no more for the check of a workload with quota, and the LocalQueue is stopped", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.stopLocalQueue()
		f.askFor("b")
		f.retry("a", 60)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
	})

	t.Run("the ClusterQueue asks no more for the check, and the LocalQueue is stopped", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 600)
		f.reconcileAt(0, 1, 0)
		f.release()
		f.retry("b", 60)
		f.stopLocalQueue()
		f.askFor("b")
		f.expectRequeueAt(f.reconcileAt(time.Second, 1, 59*time.Second), 60*time.Second)
	})

	for name, change := range map[string]func(wl *kueue.Workload){
		"which evicted the workload": func(wl *kueue.Workload) {
			workloadevict.SetEvictedCondition(wl, start, kueue.WorkloadEvictedByLocalQueueStopped, "The LocalQueue is stopped")
			workload.SetRequeuedCondition(wl, kueue.WorkloadEvictedByLocalQueueStopped, "The LocalQueue is stopped", false)
		},
		"while the workload is pending": func(*kueue.Workload) {},
	} {
		for state, delay := range map[kueue.CheckState]*int32{kueue.CheckStateRetry: ptr.To[int32](60), kueue.CheckStateRejected: nil} {
			t.Run(fmt.Sprintf("a check that the ClusterQueue asks no more for says %s in a stopped LocalQueue, %s", state, name), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
				f := newRetryFixture(t, retryWorkload(start).AdmissionChecks(pending, ready).Obj(), start)
				f.change(change)
				f.stopLocalQueue()
				f.askFor("b")
				f.reconcileAt(0, 1, 0) // it is told that its queue is stopped
				f.change(func(wl *kueue.Workload) {
					workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, kueue.AdmissionCheckState{
						Name: "a", State: state, RequeueAfterSeconds: delay,
					}, f.clock)
				})
				// The queues would keep it out, also once its LocalQueue runs again.
				wl := f.reconcileAt(time.Second, 1, 0)
				if diff := cmp.Diff([]kueue.AdmissionCheckState{ready}, wl.Status.AdmissionChecks); diff != "" {
					t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
				}
				wl = f.reconcileAt(2*time.Second, 0, 0)
				if wl.Status.RequeueState != nil || apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) {
					t.Errorf("Delayed or rejected by a check that nobody asks for: %v", wl.Status)
				}
			})
		}
	}

	t.Run("the gate is switched off while the workload waits", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.release()
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
		f.retry("b", 600)
		end := f.endOfLeftWait(60*time.Second, 600*time.Second)
		f.reconcileAt(end-1, 0, 1)
		f.expectQueued(0, 1)
		wl := f.reconcileAt(end, 1, 0)
		f.expectQueued(1, 0)
		if workload.HasRetryChecks(wl) || wl.Status.RequeueState != nil {
			t.Errorf("Unexpected status after the delay: %v", wl.Status)
		}
	})

	t.Run("with the gate off a Retry is as ever", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready).Obj(), start)
		f.retry("a", 60)
		f.expectRetryWithGateOff()
	})
}

// seconds is what a histogram has observed.
type seconds struct {
	Count uint64
	Sum   float64
}

func histogram(t *testing.T, vec *prometheus.HistogramVec, labels ...string) seconds {
	t.Helper()
	metric := dto.Metric{}
	if err := vec.WithLabelValues(labels...).(prometheus.Metric).Write(&metric); err != nil {
		t.Fatalf("Reading a metric: %v", err)
	}
	return seconds{Count: metric.GetHistogram().GetSampleCount(), Sum: metric.GetHistogram().GetSampleSum()}
}

func TestDelayedRetryMetrics(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	type reported struct {
		Evictions map[kueue.AdmissionCheckReference]float64
		Retries   map[kueue.AdmissionCheckReference]float64
		Delays    map[kueue.AdmissionCheckReference]seconds
		Lateness  seconds
		Waits     metrics.RetryWaits
	}
	checks := []kueue.AdmissionCheckState{
		{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)},
		{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)},
	}
	expect := func(f *retryFixture, want reported) {
		t.Helper()
		counters := func(vec *prometheus.CounterVec) map[kueue.AdmissionCheckReference]float64 {
			values := make(map[kueue.AdmissionCheckReference]float64)
			for _, point := range utiltestingmetrics.CollectFilteredGaugeVec(vec, map[string]string{"cluster_queue": "cq"}) {
				values[kueue.AdmissionCheckReference(point.Labels["admission_check"])] = point.Value
			}
			return values
		}
		got := reported{
			Evictions: counters(metrics.AdmissionCheckEvictionsTotal),
			Retries:   counters(metrics.AdmissionCheckRetriesTotal),
			Delays:    make(map[kueue.AdmissionCheckReference]seconds),
			Lateness:  histogram(t, metrics.AdmissionCheckRetryLateness, "cq"),
			Waits:     f.queues.RetryWaits()["cq"],
		}
		for _, check := range checks {
			if delays := histogram(t, metrics.AdmissionCheckRetryDelay, "cq", string(check.Name)); delays.Count > 0 {
				got.Delays[check.Name] = delays
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Unexpected metrics (-want,+got):\n%s", diff)
		}
	}

	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			metrics.ClearClusterQueueMetrics("cq")
			t.Cleanup(func() { metrics.ClearClusterQueueMetrics("cq") })
			f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(checks...).Obj(), start)
			expect(f, reported{})

			f.retry("a", 60)
			if !gate {
				f.expectRetryWithGateOff()
				expect(f, reported{})
				return
			}
			f.reconcileAt(0, 1, 0)
			f.release()
			evictions := map[kueue.AdmissionCheckReference]float64{"a": 1}
			delays := map[kueue.AdmissionCheckReference]seconds{"a": {1, 60}}
			waits := metrics.RetryWaits{Workloads: 1, EarliestDeadline: start.Add(60 * time.Second)}
			expect(f, reported{Evictions: evictions, Delays: delays, Waits: waits})

			// It does not decide.
			f.retry("b", 10)
			f.reconcileAt(0, 0, 60*time.Second)
			expect(f, reported{Evictions: evictions, Delays: delays, Waits: waits})

			// It does, until it is withdrawn.
			f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[1].State = kueue.CheckStatePending })
			f.retry("b", 90)
			f.reconcileAt(0, 1, 90*time.Second)
			delays["b"] = seconds{1, 90}
			waits.EarliestDeadline = start.Add(90 * time.Second)
			expect(f, reported{Evictions: evictions, Delays: delays, Waits: waits})
			f.retry("b", 20)
			f.reconcileAt(0, 1, 60*time.Second)
			waits.EarliestDeadline = start.Add(60 * time.Second)
			expect(f, reported{Evictions: evictions, Delays: delays, Waits: waits})

			f.reconcileAt(62*time.Second, 1, 0)
			expect(f, reported{
				Evictions: evictions,
				Delays:    delays,
				Retries:   map[kueue.AdmissionCheckReference]float64{"a": 1, "b": 1},
				Lateness:  seconds{1, 2},
			})
		})
	}

	// The second is released by a clock that is ahead.
	for releasedAt, lateness := range map[time.Duration]float64{70 * time.Second: 1, 90 * time.Second: 0} {
		t.Run(fmt.Sprintf("the LocalQueue is stopped, and the job stops after %s", releasedAt), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			metrics.ClearClusterQueueMetrics("cq")
			t.Cleanup(func() { metrics.ClearClusterQueueMetrics("cq") })
			f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmittedAt(true, start).AdmissionChecks(checks...).Obj(), start)
			f.stopLocalQueue()

			f.retry("a", 60)
			f.reconcileAt(0, 1, 0)
			evictions := map[kueue.AdmissionCheckReference]float64{"a": 1}
			delays := map[kueue.AdmissionCheckReference]seconds{"a": {1, 60}}
			expect(f, reported{Evictions: evictions, Delays: delays})

			f.clock.SetTime(start.Add(releasedAt))
			f.release()
			f.reconcileAt(71*time.Second, 1, 0)
			expect(f, reported{
				Evictions: evictions,
				Delays:    delays,
				Retries:   map[kueue.AdmissionCheckReference]float64{"a": 1},
				Lateness:  seconds{1, lateness},
			})
		})
	}
}

func TestWithReleasedChecks(t *testing.T) {
	cq := utiltestingapi.MakeClusterQueue("cq").AdmissionCheckStrategy(
		*utiltestingapi.MakeAdmissionCheckStrategyRule("a", "flavor").Obj(),
		*utiltestingapi.MakeAdmissionCheckStrategyRule("b").Obj()).Obj()
	wl := retryWorkload(time.Now()).AdmissionChecks(kueue.AdmissionCheckState{Name: "a"}, kueue.AdmissionCheckState{Name: "gone"})
	evicted := wl.Clone().Condition(metav1.Condition{
		Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: "ByTest", LastTransitionTime: metav1.NewTime(time.Now()),
	})
	cases := map[string]struct {
		gate     bool
		workload *kueue.Workload
		want     sets.Set[kueue.AdmissionCheckReference]
	}{
		"gate off":             {workload: evicted.Clone().Obj()},
		"quota not released":   {gate: true, workload: evicted.Clone().Admission(&kueue.Admission{}).Obj()},
		"evicted and released": {gate: true, workload: evicted.Clone().Obj(), want: sets.New[kueue.AdmissionCheckReference]("a")},
		"succeeded, and nothing waits: it is asked anew": {
			gate: true, workload: wl.Clone().AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateReady}).Obj(),
			want: sets.New[kueue.AdmissionCheckReference](),
		},
		"succeeded, while another check asks for a retry": {
			gate: true, workload: wl.Clone().AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateReady}, kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateRetry}).Obj(),
			want: sets.New[kueue.AdmissionCheckReference]("a", "b"),
		},
		"quota taken away because the LocalQueue is gone": {gate: true, workload: wl.Clone().Obj(), want: sets.New[kueue.AdmissionCheckReference]("a")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			if diff := cmp.Diff(tc.want, withReleasedChecks(tc.workload, cq, nil)); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
		})
	}
}

// Where the checks change, the worker cluster goes with the check that has chosen it.
func TestWorkerIsForgottenWithItsCheck(t *testing.T) {
	const budget, chosen, other = "budget", "chosen", "other"
	ready := func(names ...string) *utiltestingapi.WorkloadWrapper {
		wl := retryWorkload(time.Now()).ClusterName("worker")
		for _, name := range names {
			wl.AdmissionCheck(kueue.AdmissionCheckState{Name: kueue.AdmissionCheckReference(name), State: kueue.CheckStateReady})
		}
		return wl
	}
	cases := map[string]struct {
		gateOff  bool
		workload *utiltestingapi.WorkloadWrapper
		asked    []kueue.AdmissionCheckReference
		want     *string
	}{
		"its check goes, another one stays Ready": {workload: ready(budget, chosen), asked: []kueue.AdmissionCheckReference{budget, other}},
		"its check stays":                         {workload: ready(budget, chosen), asked: []kueue.AdmissionCheckReference{chosen}, want: ptr.To("worker")},
		"quota is held":                           {workload: ready(budget, chosen).SimpleReserveQuota("cq", "flavor", time.Now()), asked: []kueue.AdmissionCheckReference{budget}, want: ptr.To("worker")},
		"gate off":                                {gateOff: true, workload: ready(budget, chosen), asked: []kueue.AdmissionCheckReference{budget, other}, want: ptr.To("worker")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := tc.workload.Obj()
			cl := utiltesting.NewClientBuilder().WithStatusSubresource(wl).WithObjects(wl,
				utiltestingapi.MakeAdmissionCheck(budget).ControllerName("budget-controller").Obj(),
				utiltestingapi.MakeAdmissionCheck(chosen).ControllerName(kueue.MultiKueueControllerName).Obj(),
				utiltestingapi.MakeAdmissionCheck(other).ControllerName(kueue.MultiKueueControllerName).Obj()).Build()
			r := &WorkloadReconciler{client: cl, clock: testingclock.NewFakeClock(time.Now())}
			if updated, err := r.reconcileSyncAdmissionChecks(ctx, wl, testClusterQueue(tc.asked...)); err != nil || !updated {
				t.Fatalf("Unexpected result of the sync of the checks: %t, %v", updated, err)
			}
			got := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			if diff := cmp.Diff(tc.want, got.Status.ClusterName); diff != "" {
				t.Errorf("Unexpected worker (-want,+got):\n%s", diff)
			}
		})
	}
}

// A workload with DRA is queued by Reconcile, without the condition that keeps it out of
// the queue: who waits for the clock alone has to be looked at when it is time, and the
// condition has to end, or it keeps the workload out when it was tried in vain.
func TestBackoffOfWorkloadWithDRA(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, draGate, true)
	// The apply of the fake client removes nothing.
	features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
	start := time.Now().Truncate(time.Second)
	podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).ResourceClaimTemplate("claim", "template").Obj()
	f := newRetryFixture(t, retryWorkload(start).PodSets(*podSet).SimpleReserveQuota("cq", "flavor", start).
		RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(start.Add(time.Minute)))).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPodsReadyTimeout, LastTransitionTime: metav1.NewTime(start)}).
		Obj(), start)
	f.release()
	f.reconcileAt(0, 0, time.Minute)
	f.expectQueued(0, 1)
	wl := f.reconcileAt(time.Minute, 1, 0)
	if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) || wl.Status.RequeueState.RequeueAt != nil || *wl.Status.RequeueState.Count != 1 {
		t.Errorf("Unexpected status after the backoff: %v", wl.Status)
	}
}

// A rejection deactivates a workload that waits, also one whose resources DRA does not know.
func TestRejectedWorkloadWithDRA(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, draGate, true)
	start := time.Now().Truncate(time.Second)
	podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Request(corev1.ResourceCPU, "1").ResourceClaimTemplate("claim", "template").Obj()
	f := newRetryFixture(t, retryWorkload(start).PodSets(*podSet).SimpleReserveQuota("cq", "flavor", start).
		AdmissionCheck(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), LastTransitionTime: metav1.NewTime(start)}).Obj(), start)
	f.reconcileAt(0, 1, 0)
	f.change(func(wl *kueue.Workload) {
		workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRejected}, f.clock)
	})
	f.reconcileAt(0, 1, 0)
	f.reconcileAt(0, 0, 0)
	if workload.IsActive(f.workload()) {
		t.Error("The workload is not deactivated")
	}
}

// Upstream leaves conditions out of later applies for a workload with DRA. The API server
// takes that for those that an apply has created.
func TestConditionsOfWorkloadWithDRA(t *testing.T) {
	features.SetFeatureGateDuringTest(t, draGate, true)
	expectConditionsCreatedByApply(t, utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).ResourceClaimTemplate("claim", "template").Obj())
}

func expectConditionsCreatedByApply(t *testing.T, podSet *kueue.PodSet) {
	t.Helper()
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	start := time.Now().Truncate(time.Second)
	f := newRetryFixture(t, retryWorkload(start).PodSets(*podSet).SimpleReserveQuota("cq", "flavor", start).
		AdmissionCheck(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry}).Obj(), start)
	f.change(func(wl *kueue.Workload) {
		workload.UnsetQuotaReservationWithCondition(wl, kueue.WorkloadInadmissible, "by test", start)
	})
	var created []types.PatchType
	f.onPatch = func(before, after *kueue.Workload, patchType types.PatchType) {
		if len(after.Status.Conditions) > len(before.Status.Conditions) {
			created = append(created, patchType)
		}
	}
	wl := f.reconcileAt(0, 2, 0)
	if check := wl.Status.AdmissionChecks[0]; check.State != kueue.CheckStatePending || ptr.Deref(check.RetryCount, 0) != 1 {
		t.Errorf("Unexpected check after the requeue: %v", check)
	}
	if diff := cmp.Diff([]types.PatchType{types.ApplyPatchType}, created); diff != "" {
		t.Errorf("Unexpected patches that create conditions (-want,+got):\n%s", diff)
	}
	if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) {
		t.Errorf("Unexpected conditions after the requeue: %v", wl.Status.Conditions)
	}
}

// An event says that the delay is over, too, if it ends with a deactivation, and why
// Kueue has done it.
func TestDeactivatedWhileWaitingIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		isStopping bool
		cause      string
		want       string
	}{
		"by its owner":                           {want: "EvictedDueToDeactivated"},
		"by its owner, while its job is stopped": {isStopping: true, want: "EvictedDueToDeactivated"},
		"by Kueue":                               {cause: kueue.WorkloadRequeuingLimitExceeded, want: "EvictedDueToDeactivatedDueTo" + kueue.WorkloadRequeuingLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			start := time.Now().Truncate(time.Second)
			wrapper, begins, looksAgain := retryWorkload(start), "RequeueDelayed", time.Minute
			if tc.isStopping {
				wrapper.SimpleReserveQuota("cq", "flavor", start).AdmittedAt(true, start)
				begins, looksAgain = "EvictedDueToAdmissionCheck", 0
			}
			f := newRetryFixture(t, wrapper.AdmissionChecks(
				kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), LastTransitionTime: metav1.NewTime(start)},
				kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending},
			).Obj(), start)
			wl := f.reconcileAt(0, 1, looksAgain)
			f.expectEvents(begins)
			if tc.cause != "" {
				apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: tc.cause, Message: "too often"})
				if err := f.client.Status().Update(f.ctx, wl); err != nil {
					t.Fatalf("Naming the workload a target of deactivation: %v", err)
				}
			}
			wl.Spec.Active = ptr.To(false)
			if err := f.client.Update(f.ctx, wl); err != nil {
				t.Fatalf("Deactivating the workload: %v", err)
			}
			f.reconcileAt(time.Second, 1, 0)
			f.expectEvents(begins, tc.want)
		})
	}
}

// The LocalQueue of the workload does not lead to the ClusterQueue whose quota it releases.
func TestReleaseWakesOthers(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	releases := map[string]func(*retryFixture){
		"evicted": func(f *retryFixture) {
			f.change(func(wl *kueue.Workload) {
				workload.UnsetQuotaReservationWithCondition(wl, "Pending", "By test", start)
			})
		},
		"finished": (*retryFixture).finish,
		"deleted":  func(f *retryFixture) { f.delete(f.workload()) },
	}
	changes := map[string]func(f *retryFixture){
		"stopped": (*retryFixture).stopLocalQueue,
		"made again for another ClusterQueue": func(f *retryFixture) {
			f.stopLocalQueue()
			if err := f.queues.AddClusterQueue(f.ctx, utiltestingapi.MakeClusterQueue("another").Obj()); err != nil {
				f.Fatalf("Adding the other ClusterQueue: %v", err)
			}
			if err := f.queues.AddLocalQueue(f.ctx, utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("another").Obj()); err != nil {
				f.Fatalf("Adding the LocalQueue again: %v", err)
			}
		},
	}
	for name, release := range releases {
		for nameOfChange, change := range changes {
			for _, gate := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, its LocalQueue %s, gate %t", name, nameOfChange, gate), func(t *testing.T) {
					features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
					if isTried := wakesOthers(t, start, change, release); isTried != gate {
						t.Errorf("Tried again: %v, want %v", isTried, gate)
					}
				})
			}
		}
	}
}

// After a gap in the watch one event tells of the release and of the next quota.
func TestMoveOfQuotaWakesOthers(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for name, tc := range map[string]struct {
		move func(*kueue.Admission)
		want bool
	}{
		"to another ClusterQueue": {
			move: func(admission *kueue.Admission) { admission.ClusterQueue = "another" },
			want: true,
		},
		"to another flavor": {
			move: func(admission *kueue.Admission) {
				admission.PodSetAssignments[0].Flavors[corev1.ResourceCPU] = "another"
			},
			want: true,
		},
		"nowhere": {
			move: func(admission *kueue.Admission) {
				admission.PodSetAssignments[0].DelayedTopologyRequest = ptr.To(kueue.DelayedTopologyRequestStateReady)
			},
		},
	} {
		for _, gate := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, gate %t", name, gate), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
				move := func(f *retryFixture) {
					f.change(func(wl *kueue.Workload) { tc.move(wl.Status.Admission) })
				}
				if isTried := wakesOthers(t, start, func(*retryFixture) {}, move); isTried != (tc.want && gate) {
					t.Errorf("Tried again: %v, want %v", isTried, tc.want && gate)
				}
			})
		}
	}
}

// wakesOthers returns whether another workload is tried again when that of the fixture has
// released its quota after a change.
func wakesOthers(t *testing.T, start time.Time, change, release func(*retryFixture)) bool {
	t.Helper()
	f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).Obj(), start)
	other := utiltestingapi.MakeWorkload("other", "ns").Queue("others").Request(corev1.ResourceCPU, "1").Obj()
	if err := f.client.Create(f.ctx, other); err != nil {
		t.Fatalf("Creating the other workload: %v", err)
	}
	if err := f.queues.AddLocalQueue(f.ctx, utiltestingapi.MakeLocalQueue("others", "ns").ClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Adding the other LocalQueue: %v", err)
	}
	f.reconciler.cache.AddOrUpdateResourceFlavor(logr.FromContextOrDiscard(f.ctx), utiltestingapi.MakeResourceFlavor("flavor").Obj())
	if err := f.reconciler.cache.AddClusterQueue(f.ctx, testClusterQueue()); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	lookAgain := func() { f.queueInadmissible(f.ctx, "none") } // where that was asked for
	lookAgain()
	f.tryInVain()
	change(f)
	lookAgain()
	if got := f.queues.Dump()["cq"]; len(got) != 0 {
		t.Fatalf("Tried again before the release: %v", got)
	}
	release(f)
	lookAgain()
	return len(f.queues.Dump()["cq"]) == 1
}

func (f *retryFixture) finish() {
	f.change(func(wl *kueue.Workload) {
		apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.WorkloadFinishedReasonSucceeded})
	})
}

// A job may complete while it is stopped for a retry, and pods that are not retried are
// finished when they are: nothing tells of the wait then, for one write.
func TestFinishedWhileWaiting(t *testing.T) {
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			start := time.Now().Truncate(time.Second)
			f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmittedAt(true, start).AdmissionChecks(
				kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), LastTransitionTime: metav1.NewTime(start)},
			).Obj(), start)
			f.reconcileAt(0, 1, 0)
			f.change(func(wl *kueue.Workload) {
				apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.WorkloadFinishedReasonSucceeded})
			})
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			if !gate {
				f.reconcileAt(time.Second, 0, 0)
				return
			}
			wl := f.reconcileAt(time.Second, 1, 0)
			const want = "Admission check(s) a asked for a retry, but the workload has finished"
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).Message; got != want {
				t.Errorf("Unexpected message of Evicted %q, want %q", got, want)
			}
			if wl.Status.RequeueState != nil {
				t.Errorf("Unexpected requeueState: %v", wl.Status.RequeueState)
			}
			f.reconcileAt(2*time.Second, 0, 0)
			f.expectEvents("EvictedDueToAdmissionCheck", kueue.WorkloadFinished)
		})
	}
}
