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
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queueafs "sigs.k8s.io/kueue/pkg/cache/queue/afs"
	"sigs.k8s.io/kueue/pkg/features"
	qutil "sigs.k8s.io/kueue/pkg/util/queue"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// A check may say as much as a condition holds, and the reason is in front of it.
func TestRejectedWithManyWords(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	start := time.Now().Truncate(time.Second)
	rejected := kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRejected, Message: "90% used, " + strings.Repeat("no ", 10_919)}
	for name, wl := range map[string]*utiltestingapi.WorkloadWrapper{
		"in the queue": retryWorkload(start),
		"holds quota":  retryWorkload(start).SimpleReserveQuota("cq", "flavor", start),
	} {
		t.Run(name, func(t *testing.T) {
			f := newRetryFixture(t, wl.AdmissionChecks(rejected, kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending}).Obj(), start)
			got := f.reconcileAt(0, 1, 0)
			f.expectReason(got, kueue.WorkloadDeactivationTarget, kueue.WorkloadEvictedByAdmissionCheck)
			const most = 32 * 1024
			for _, cond := range got.Status.Conditions {
				if len(cond.Message) > most {
					t.Errorf("The message of %s has %d characters, a condition holds %d", cond.Type, len(cond.Message), most)
				}
			}
			for _, event := range f.recorder.RecordedEvents {
				if !strings.Contains(event.Message, "90% used") {
					t.Errorf("The event %s has other words: %s", event.Reason, event.Message)
				}
			}
		})
	}
}

func (f *retryFixture) expectReason(wl *kueue.Workload, conditionType, want string) {
	f.Helper()
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, conditionType); cond == nil || cond.Reason != want {
		f.Errorf("Unexpected condition %s: %v, want the reason %s", conditionType, cond, want)
	}
}

// With DRA nobody files a workload in the queues of a replica that is elected later.
func TestReleaseOfWhatIsNotFiledWakesOthers(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			forget := func(f *retryFixture) {
				f.queues.DeleteAndForgetWorkload(logr.Discard(), workload.Key(f.workload()))
			}
			if isTried := wakesOthers(t, start, forget, (*retryFixture).finish); isTried != gate {
				t.Errorf("Tried again: %v, want %v", isTried, gate)
			}
		})
	}
}

// newActiveRetryFixture is newRetryFixture with a ClusterQueue that the cache has as
// active. The reasons of what is pending depend on it.
func newActiveRetryFixture(t *testing.T, wl *kueue.Workload, start time.Time) *retryFixture {
	f := newRetryFixture(t, wl, start)
	log := ctrl.LoggerFrom(f.ctx)
	cq := &kueue.ClusterQueue{}
	if err := f.client.Get(f.ctx, client.ObjectKey{Name: "cq"}, cq); err != nil {
		t.Fatalf("Getting the ClusterQueue: %v", err)
	}
	cache := f.reconciler.cache
	cache.AddOrUpdateResourceFlavor(log, utiltestingapi.MakeResourceFlavor("flavor").Obj())
	for _, name := range []string{"a", "b"} {
		cache.AddOrUpdateAdmissionCheck(log, utiltestingapi.MakeAdmissionCheck(name).ControllerName("test").Active(metav1.ConditionTrue).Obj())
	}
	if err := cache.AddClusterQueue(f.ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	return f
}

func TestDelayedRetryWithUnadmittedWorkloadsObservability(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for _, explicit := range []bool{false, true} {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
		features.SetFeatureGateDuringTest(t, features.UnadmittedWorkloadsObservability, true)
		features.SetFeatureGateDuringTest(t, features.UnadmittedWorkloadsExplicitStatus, explicit)
		f := newActiveRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(
			kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)},
			kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(start)},
		).Obj(), start)
		f.retry("a", 60)
		wl := f.reconcileAt(0, 1, 0)
		f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadWaitingForRetry)
		f.expectReason(wl, kueue.WorkloadAdmitted, kueue.WorkloadAdmittedReasonNoReservation)
		for _, after := range []time.Duration{0, time.Second, 59 * time.Second} {
			wl = f.reconcileAt(after, 0, 60*time.Second-after)
			f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadWaitingForRetry)
			f.expectQueued(0, 1)
		}
		wl = f.reconcileAt(60*time.Second, 1, 0)
		f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadQuotaReservedReasonPendingEvaluation)
		f.expectQueued(1, 0)
	}
}

// What a job on hold gave back is not to be queued for the retry of a check.
func TestDelayedRetryOnHold(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	pending := kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)}
	ready := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(start)}
	hold := func(f *retryFixture) {
		f.change(func(wl *kueue.Workload) {
			workload.UnsetQuotaReservationWithCondition(wl, kueue.WorkloadOnHold, "Job is on hold", f.clock.Now())
		})
	}
	endHold := func(f *retryFixture) {
		f.change(func(wl *kueue.Workload) {
			workload.UnsetQuotaReservationWithCondition(wl, "Pending", "Workload no longer on hold", f.clock.Now())
		})
	}
	setUp := func(t *testing.T, gate bool) *retryFixture {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
		features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
		return newActiveRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmittedAt(true, start).AdmissionChecks(pending, ready).Obj(), start)
	}

	t.Run("a check asks for a retry on hold", func(t *testing.T) {
		f := setUp(t, true)
		hold(f)
		f.retry("a", 60)
		for _, after := range []time.Duration{0, 60 * time.Second, 90 * time.Second} {
			f.expectReason(f.reconcileAt(after, 0, 0), kueue.WorkloadQuotaReserved, kueue.WorkloadOnHold)
			f.expectQueued(0, 0)
		}
		endHold(f)
		f.expectQueued(0, 1)
		f.expectRequeueAt(f.reconcileAt(90*time.Second, 1, 60*time.Second), 150*time.Second)
		f.reconcileAt(150*time.Second, 1, 0)
		f.expectQueued(1, 0)
	})

	t.Run("put on hold while the job is stopped for a retry", func(t *testing.T) {
		f := setUp(t, true)
		f.retry("a", 60)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
		hold(f)
		for _, after := range []time.Duration{0, 30 * time.Second, 90 * time.Second} {
			wl := f.reconcileAt(after, 0, 0)
			f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadOnHold)
			f.expectRequeueAt(wl, 60*time.Second)
			f.expectQueued(0, 0)
		}
		endHold(f)
		wl := f.reconcileAt(90*time.Second, 1, 0)
		f.expectQueued(1, 0)
		if got := ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0); got != 1 || workload.HasRetryChecks(wl) {
			t.Errorf("Unexpected checks: %v", wl.Status.AdmissionChecks)
		}
	})

	for name, stopped := range map[string]bool{"put on hold while it runs": false, "put on hold while the job is stopped for a retry": true} {
		t.Run("a check rejects on hold, "+name, func(t *testing.T) {
			f := setUp(t, true)
			if stopped {
				f.retry("a", 60)
				f.reconcileAt(0, 1, 0)
			}
			hold(f)
			f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[1].State = kueue.CheckStateRejected })
			wl := f.reconcileAt(time.Second, 1, 0)
			f.expectReason(wl, kueue.WorkloadDeactivationTarget, kueue.WorkloadEvictedByAdmissionCheck)
			if wl = f.reconcileAt(time.Second, 0, 0); workload.IsActive(wl) {
				t.Error("Unexpected active workload")
			}
			wl = f.reconcileAt(2*time.Second, 1, 0)
			f.reconcileAt(3*time.Second, 0, 0)
			f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadOnHold)
			f.expectReason(wl, kueue.WorkloadEvicted, "DeactivatedDueToAdmissionCheck")
			if workload.HasRejectedChecks(wl) || workload.HasRetryChecks(wl) || wl.Status.RequeueState != nil {
				t.Errorf("Unexpected status: %v", wl.Status)
			}
			f.expectQueued(0, 0)
		})
	}

	t.Run("deactivated on hold", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f := newActiveRetryFixture(t, retryWorkload(start).Active(false).
			AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](1)}, ready).
			Conditions(
				metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: kueue.WorkloadOnHold},
				metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadDeactivated},
			).Obj(), start)
		wl := f.reconcileAt(0, 1, 0)
		f.expectReason(wl, kueue.WorkloadQuotaReserved, kueue.WorkloadOnHold)
		f.expectReason(wl, kueue.WorkloadRequeued, kueue.WorkloadDeactivated)
		if workload.HasRetryChecks(wl) || wl.Status.AdmissionChecks[0].RetryCount != nil {
			t.Errorf("Unexpected checks: %v", wl.Status.AdmissionChecks)
		}
	})

	t.Run("with the gate off it is left alone", func(t *testing.T) {
		f := setUp(t, false)
		f.retry("a", 60)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
		hold(f)
		f.reconcileAt(0, 0, 60*time.Second)
		f.reconcileAt(60*time.Second, 1, 0) // removes requeueAt
		for range 2 {
			f.expectReason(f.reconcileAt(60*time.Second, 0, 0), kueue.WorkloadQuotaReserved, kueue.WorkloadOnHold)
			f.expectQueued(0, 0)
		}
	})
}

// What Kueue has done with the gate off does not strand a workload when it goes on,
// and the other way round.
func TestDelayedRetryLeftovers(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	pending := kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)}
	ready := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(start)}
	reserved := retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending, ready)
	setUp := func(t *testing.T, wl *kueue.Workload, gate bool) *retryFixture {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
		features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
		return newActiveRetryFixture(t, wl, start)
	}
	expectCounts := func(f *retryFixture, wl *kueue.Workload, a, b int32) {
		f.Helper()
		for i, want := range []int32{a, b} {
			check := wl.Status.AdmissionChecks[i]
			// Kueue leaves the delays with the gate off.
			stray := check.RequeueAfterSeconds != nil && features.Enabled(features.ACRequeueAfter)
			if check.State != kueue.CheckStatePending || stray || ptr.Deref(check.RetryCount, 0) != want {
				f.Errorf("Unexpected check: %v, want Pending, and the count %d", check, want)
			}
		}
	}

	t.Run("on while the quota is kept for the delay", func(t *testing.T) {
		f := setUp(t, reserved.Clone().Obj(), false)
		f.retry("a", 60)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
		f.reconcileAt(10*time.Second, 0, 50*time.Second)

		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		wl := f.reconcileAt(10*time.Second, 1, 0)
		f.expectRequeueAt(wl, 70*time.Second)
		f.expectQueued(0, 1)
		if workload.HasQuotaReservation(wl) || !workloadevict.IsEvicted(wl) {
			t.Errorf("Unexpected status after the gate went on: %v", wl.Status)
		}
		f.reconcileAt(10*time.Second, 0, 60*time.Second)
		expectCounts(f, f.reconcileAt(70*time.Second, 1, 0), 1, 0)
		f.expectQueued(1, 0)
	})

	t.Run("on while the job is stopped after the delay, the retry counted", func(t *testing.T) {
		f := setUp(t, reserved.Clone().AdmittedAt(true, start).Obj(), false)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		expectCounts(f, f.reconcileAt(60*time.Second, 1, 0), 1, 0)

		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		f.reconcileAt(61*time.Second, 1, 0) // removes the delay
		f.reconcileAt(61*time.Second, 0, 0)
		f.release()
		wl := f.reconcileAt(62*time.Second, 1, 0)
		expectCounts(f, wl, 1, 0)
		f.expectQueued(1, 0)
		if wl.Status.RequeueState != nil {
			t.Errorf("Unexpected requeueState: %v", wl.Status.RequeueState)
		}
		f.reconcileAt(62*time.Second, 0, 0)
	})

	t.Run("on after the quota was released, the retry counted", func(t *testing.T) {
		f := setUp(t, reserved.Clone().Obj(), false)
		f.retry("a", 60)
		f.reconcileAt(0, 1, 0)
		f.reconcileAt(60*time.Second, 1, 0)
		f.release()
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		expectCounts(f, f.reconcileAt(60*time.Second, 1, 0), 1, 0)
		f.expectQueued(1, 0)
	})

	for _, requeueAfterSeconds := range []int32{0, 60} {
		t.Run("on while it is stuck in the queue", func(t *testing.T) {
			f := setUp(t, retryWorkload(start).AdmissionChecks(pending, ready).Obj(), false)
			f.retry("a", requeueAfterSeconds)
			f.change(func(wl *kueue.Workload) { wl.Status.AdmissionChecks[0].RetryCount = ptr.To[int32](3) })
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			if delay := time.Duration(requeueAfterSeconds) * time.Second; delay > 0 {
				f.expectRequeueAt(f.reconcileAt(time.Second, 1, delay), delay+time.Second)
				f.expectQueued(0, 1)
			}
			expectCounts(f, f.reconcileAt(61*time.Second, 1, 0), 4, 0)
			f.expectQueued(1, 0)
		})
	}

	t.Run("off while the job is stopped", func(t *testing.T) {
		f := setUp(t, reserved.Clone().AdmittedAt(true, start).Obj(), true)
		f.retry("a", 60)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
		f.reconcileAt(10*time.Second, 0, 50*time.Second)
		f.release()
		f.reconcileAt(20*time.Second, 0, 40*time.Second)
		f.expectQueued(0, 1)
		expectCounts(f, f.reconcileAt(60*time.Second, 1, 0), 1, 0)
		f.expectQueued(1, 0)
	})

	t.Run("off while it is stuck in the queue", func(t *testing.T) {
		f := setUp(t, retryWorkload(start).AdmissionChecks(pending, ready).Obj(), true)
		f.retry("a", 60)
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
		f.expectRequeueAt(f.reconcileAt(0, 1, 0), 60*time.Second)
		f.reconcileAt(59*time.Second, 0, time.Second)
		f.expectQueued(0, 1)
		expectCounts(f, f.reconcileAt(60*time.Second, 1, 0), 1, 0)
		f.expectQueued(1, 0)
	})
}

// The penalty of admission fair sharing is for a workload that is to be admitted soon.
func TestWaitingIsNotChargedToTheQueue(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			start := time.Now().Truncate(time.Second)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			reserved := retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)})
			f := newRetryFixture(t, reserved.Obj(), start)
			f.reconciler.admissionFSConfig = &config.AdmissionFairSharing{
				UsageHalfLifeTime: metav1.Duration{Duration: time.Minute}, UsageSamplingInterval: metav1.Duration{Duration: time.Minute}}
			oldWl := f.workload()
			lqKey := qutil.KeyFromWorkload(oldWl)
			f.queues.AfsUsageLedger.PushPenalty(lqKey, queueafs.WorkloadReference(workload.Key(oldWl)), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, start)
			newWl := oldWl.DeepCopy()
			newWl.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
			workload.UnsetQuotaReservationWithCondition(newWl, kueue.WorkloadWaitingForRetry, "", start)
			workload.SetRequeuedCondition(newWl, kueue.WorkloadEvictedByAdmissionCheck, "", false)
			f.reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: oldWl, ObjectNew: newWl})
			if got := f.queues.AfsUsageLedger.HasPendingPenalty(lqKey); got == gate {
				t.Errorf("Unexpected penalty: %t, want %t", got, !gate)
			}
		})
	}
}

// A backoff that is over ends with a write, whose event may come before the rest of
// Reconcile. The workload is queued with its resources adjusted.
func TestDelayedRetryAfterBackoff(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		wantWrites int
	}{
		"no condition tells of it": {wantWrites: 1},
		"a condition tells of it": {
			conditions: []metav1.Condition{{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByPodsReadyTimeout}},
			wantWrites: 2,
		},
	} {
		for _, eventFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the event comes first: %t", name, eventFirst), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
				features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
				podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Limit(corev1.ResourceCPU, "1").Obj()
				f := newActiveRetryFixture(t, retryWorkload(start).PodSets(*podSet).
					RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(start.Add(time.Minute)))).Conditions(tc.conditions...).Obj(), start)
				f.eventFirst = eventFirst
				f.expectQueued(0, 1)
				for range tc.wantWrites {
					f.reconcileAt(time.Minute, 1, 0)
					f.expectQueuedRequest("1")
				}
				f.expectQueued(1, 0)
			})
		}
	}
}

// A pod group that is stopped has lost its pods. Reconcile queues what requests of DRA once
// it is admissible; until then it is in no queue, once its wait is over.
func TestPodGroupWithDRALeavesTheQueues(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, draGate, true)
	start := time.Now().Truncate(time.Second)
	podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Request(corev1.ResourceCPU, "1").ResourceClaimTemplate("claim", "template").Obj()
	f := newRetryFixture(t, retryWorkload(start).PodSets(*podSet).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(
		kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), LastTransitionTime: metav1.NewTime(start)},
		kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending},
	).Obj(), start)
	f.reconcileAt(0, 1, 0)
	f.change(func(wl *kueue.Workload) {
		apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadWaitingForReplacementPods, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck})
	})
	f.reconcileAt(time.Second, 0, 59*time.Second)
	f.expectQueued(0, 1)
	f.reconcileAt(60*time.Second, 1, 0)
	f.expectQueued(0, 0)
}

// A DeviceClass that has the extended resource may come later.
func TestConditionsOfWorkloadWithExtendedResource(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.KueueDRAIntegrationExtendedResource, true)
	expectConditionsCreatedByApply(t, utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Request("example.com/gpu", "1").Obj())
}

// A reservation of what requests DRA is being written when Reconcile sees the workload
// without it, and not admissible: it stays accounted for.
func TestReservationWithDRAStaysAccountedFor(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, draGate, true)
	start := time.Now().Truncate(time.Second)
	podSet := utiltestingapi.MakePodSet(kueue.DefaultPodSetName, 1).Request(corev1.ResourceCPU, "1").ResourceClaimTemplate("claim", "template").Obj()
	pending := retryWorkload(start).PodSets(*podSet).AdmissionChecks(
		kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending}, kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending}).
		Condition(metav1.Condition{Type: kueue.WorkloadWaitingForReplacementPods, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}).Obj()
	f := newActiveRetryFixture(t, pending, start)
	if err := f.client.Create(f.ctx, utiltesting.MakeResourceClaimTemplate("template", pending.Namespace).Obj()); err != nil {
		t.Fatalf("Creating the ResourceClaimTemplate: %v", err)
	}
	assumed := pending.DeepCopy()
	workload.SetQuotaReservation(assumed, utiltestingapi.MakeAdmission("cq").Obj(), f.clock)
	f.reconciler.cache.AddOrUpdateWorkload(ctrl.LoggerFrom(f.ctx), assumed)
	if _, err := f.reconciler.Reconcile(f.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pending)}); err != nil {
		t.Fatalf("Reconciling: %v", err)
	}
	info := workload.NewInfo(assumed)
	info.ClusterQueue = "cq"
	if !f.reconciler.cache.IsAdded(*info) {
		t.Error("The reservation is not accounted for any more")
	}
}
