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

package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestPlanRetryConverges carries out plan after plan, as Reconcile does, and
// expects that the deadline recorded last is the one at which the wait ends.
func TestPlanRetryConverges(t *testing.T) {
	cases := map[string]*kueue.Workload{
		"evicted, a longer delay":      evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 120)).Obj(),
		"evicted, withdrawn":           evictedByRetry(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
		"waiting, a longer delay":      waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 59, 60)).Obj(),
		"waiting, shortened":           waiting(0, 60).AdmissionChecks(retryAt("a", 5, 10)).Obj(),
		"preempted, quota held":        evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", 5, 60)).Obj(),
		"preempted, released":          releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0), metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		"queued, a late Retry":         requeuedWorkload().AdmissionChecks(retryAt("a", -45, 60)).Obj(),
		"the queue is stopped":         releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		"PodsReadyTimeout with a wait": releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(retryAt("a", 10, 120)).Obj(),
	}
	for name, wl := range cases {
		t.Run(name, func(t *testing.T) {
			now := at(5.3)
			plan := planAt(wl, now)
			if plan.Action != RetryRecord && plan.Action != RetryHold {
				t.Fatalf("Unexpected first action %q", plan.Action)
			}
			plan.Record(wl)
			next := planAt(wl, now)
			if HasQuotaReservation(wl) {
				if next.Action != RetryNone {
					t.Errorf("Unexpected action after the deadline was recorded: %q", next.Action)
				}
				return
			}
			if next.Action != RetryWait || !next.Deadline.Equal(plan.Deadline) {
				t.Errorf("Unexpected plan after the deadline was recorded: %v, want to wait until %s", next, plan.Deadline)
			}
			if early := planAt(wl, plan.Deadline.Add(-time.Nanosecond)); early.Action != RetryWait {
				t.Errorf("Unexpected action before the deadline: %q", early.Action)
			}
			due := planAt(wl, plan.Deadline)
			if due.Action != RetryRequeue {
				t.Fatalf("Unexpected action at the deadline: %q", due.Action)
			}
			due.Requeue(wl, plan.Deadline)
			if after := planAt(wl, plan.Deadline); after.Action != RetryNone {
				t.Errorf("Unexpected action after the requeue: %q", after.Action)
			}
		})
	}
}

// everyWorkload calls f with workloads in all combinations of what the decision
// looks at, whether they can come about or not.
func everyWorkload(f func(name string, wl *utiltestingapi.WorkloadWrapper)) {
	type variant struct {
		name  string
		apply func(*utiltestingapi.WorkloadWrapper)
	}
	nothing := variant{"-", func(*utiltestingapi.WorkloadWrapper) {}}
	condition := func(conditionType string, status metav1.ConditionStatus, reasons ...string) []variant {
		var all []variant
		for _, reason := range reasons {
			all = append(all, variant{fmt.Sprintf("%s=%s(%s)", conditionType, status, reason), func(wl *utiltestingapi.WorkloadWrapper) {
				replaced(wl, conditionAt(conditionType, status, reason, "", 0))
			}})
		}
		return all
	}
	quota := append(condition(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved"),
		condition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", kueue.WorkloadWaitingForRetry)...)
	evicted := append([]variant{nothing}, condition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck,
		kueue.WorkloadEvictedByPodsReadyTimeout, kueue.WorkloadEvictedByPreemption, kueue.WorkloadDeactivated)...)
	requeued := append([]variant{nothing}, append(condition(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadBackoffFinished),
		condition(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck,
			kueue.WorkloadEvictedByPodsReadyTimeout, kueue.WorkloadEvictedByClusterQueueStopped, kueue.WorkloadInadmissible, kueue.WorkloadDeactivated)...)...)
	times := []variant{nothing}
	for _, requeueAt := range []float64{-10, 0, 30, 90} {
		times = append(times, variant{fmt.Sprintf("requeueAt %v", requeueAt), func(wl *utiltestingapi.WorkloadWrapper) {
			wl.RequeueState(nil, ptr.To(metav1.NewTime(at(requeueAt))))
		}}, variant{fmt.Sprintf("requeueAt %v count 2", requeueAt), func(wl *utiltestingapi.WorkloadWrapper) {
			wl.RequeueState(ptr.To[int32](2), ptr.To(metav1.NewTime(at(requeueAt))))
		}})
		for _, backoffUntil := range []float64{-20, 0, 30} {
			times = append(times, variant{fmt.Sprintf("requeueAt %v count 2 backoffUntil %v", requeueAt, backoffUntil), func(wl *utiltestingapi.WorkloadWrapper) {
				wl.RequeueState(ptr.To[int32](2), ptr.To(metav1.NewTime(at(requeueAt))))
				withBackoffUntil(wl.Obj(), at(backoffUntil))
			}})
		}
	}
	var checks []variant
	for name, check := range map[string]kueue.AdmissionCheckState{
		"Pending":      checkAt("a", kueue.CheckStatePending, 0),
		"Ready":        checkAt("a", kueue.CheckStateReady, 0),
		"Retry":        checkAt("a", kueue.CheckStateRetry, 0),
		"Retry 60":     retryAt("a", 0, 60),
		"Retry 5.3+0":  retryAt("a", 5.3, 0),
		"Retry 0.3+60": retryAt("a", 0.3, 60),
		"Rejected":     checkAt("a", kueue.CheckStateRejected, 0),
		"Pending stray": func() kueue.AdmissionCheckState {
			c := retryAt("a", 0, 60)
			c.State = kueue.CheckStatePending
			return c
		}(),
	} {
		checks = append(checks, variant{name, func(wl *utiltestingapi.WorkloadWrapper) { wl.AdmissionChecks(check) }})
	}
	for _, q := range quota {
		for _, e := range evicted {
			for _, r := range requeued {
				for _, at := range times {
					for _, c := range checks {
						wl := utiltestingapi.MakeWorkload("wl", "ns")
						for _, v := range []variant{q, e, r, at, c} {
							v.apply(wl)
						}
						f(fmt.Sprintf("%s, %s, %s, %s, %s", q.name, e.name, r.name, at.name, c.name), wl)
					}
				}
			}
		}
	}
}

// carryOut does what the reconciler does about a plan, but for those that are the
// rest of Kueue's.
func carryOut(plan RetryPlan, wl *kueue.Workload, now time.Time) {
	if plan.Untidy {
		Tidy(wl)
	}
	switch plan.Action {
	case RetryEvict, RetryHold, RetryRecord:
		plan.Record(wl)
	case RetryRequeue:
		plan.Requeue(wl, now)
	case RetryReactivate:
		SetRequeuedCondition(wl, kueue.WorkloadReactivated, "", true)
	}
}

// isEndedByOthers returns true if the rest of Reconcile ends what keeps the
// workload out of the queue: a backoff, a stopped queue, an error of DRA.
func isEndedByOthers(wl *kueue.Workload) bool {
	return isKeptOut(wl) && !HasRetryChecks(wl) && !HasRejectedChecks(wl) && (requeueAt(wl).IsZero() || isKeptOutByBackoff(wl))
}

// Whatever a workload looks like: what the queues keep from the scheduler is
// ended, at its deadline and not before, and nothing is written twice.
func TestEveryWorkloadComesToItsEnd(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	now := at(20)
	tried := 0
	everyWorkload(func(name string, w *utiltestingapi.WorkloadWrapper) {
		tried++
		wl := w.Obj()
		first := planAt(wl, now)
		if !HasQuotaReservation(wl) && MustWait(wl) && !isEndedByOthers(wl) && first.Action == RetryNone {
			t.Errorf("%s: kept from the scheduler, and nobody ends it", name)
		}
		plan, clock := first, now
		for steps := 0; plan.Untidy || plan.Action != RetryNone && plan.Action != RetryReject; steps++ {
			if steps > 8 {
				t.Fatalf("%s: no end, first %q, now %q", name, first.Action, plan.Action)
			}
			switch {
			case plan.Action == RetryWait:
				if !plan.Deadline.Equal(requeueAt(wl)) || !clock.Before(plan.Deadline) {
					t.Errorf("%s: waits until %s, at %s, with %s recorded", name, plan.Deadline, clock, requeueAt(wl))
				}
				clock = plan.Deadline
			case plan.Action == RetryRequeue && clock.Before(plan.Deadline):
				t.Errorf("%s: requeued before its deadline", name)
			}
			before := wl.DeepCopy()
			carryOut(plan, wl, clock)
			next := planAt(wl, clock)
			if next.Action == plan.Action && plan.Action != RetryWait && (plan.Action != RetryNone || next.Untidy) {
				t.Errorf("%s: %q twice: %v, then %v", name, plan.Action, before.Status, wl.Status)
			}
			plan = next
		}
		if plan.Action == RetryNone && !HasQuotaReservation(wl) && MustWait(wl) && !isEndedByOthers(wl) {
			t.Errorf("%s: kept from the scheduler at the end", name)
		}
	})
	if tried < 10000 {
		t.Errorf("Only %d workloads were tried", tried)
	}
}

// With the gate off a workload without quota that has a check in Retry and a
// requeueAt is requeued at that time, whoever brought it there.
func TestEveryLeftWaitingWorkloadComesToItsEnd(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
	everyWorkload(func(name string, w *utiltestingapi.WorkloadWrapper) {
		wl := w.Obj()
		plan := PlanLeftWaiting(wl, at(20))
		if HasQuotaReservation(wl) || requeueAt(wl).IsZero() || !HasRetryChecks(wl) {
			return
		}
		want := RetryRequeue
		if at(20).Before(requeueAt(wl)) {
			want = RetryWait
		}
		if plan.Action != want || !plan.Deadline.Equal(requeueAt(wl)) {
			t.Errorf("%s: %q at %s, want %q", name, plan.Action, plan.Deadline, want)
		}
		plan.Requeue(wl, at(100))
		if MustWait(wl) || HasRetryChecks(wl) || !requeueAt(wl).IsZero() {
			t.Errorf("%s: still kept after the requeue", name)
		}
	})
}

// No condition of a workload that has finished tells of a wait, whenever that was.
func TestNoFinishedWorkloadTellsOfItsWait(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	concluded := 0
	everyWorkload(func(name string, w *utiltestingapi.WorkloadWrapper) {
		wl := w.Obj()
		carryOut(planAt(wl, at(20)), wl, at(20))
		w.Finished()
		var count *int32
		if wl.Status.RequeueState != nil {
			count = wl.Status.RequeueState.Count
		}
		if MustConclude(wl) {
			concluded++
			Conclude(wl, at(20))
		}
		if MustConclude(wl) {
			t.Errorf("%s: still waits: %v", name, wl.Status)
		}
		for _, cond := range wl.Status.Conditions {
			if strings.Contains(cond.Message, "waiting until") {
				t.Errorf("%s: %s tells of the wait: %q", name, cond.Type, cond.Message)
			}
		}
		if count != nil && (wl.Status.RequeueState == nil || *wl.Status.RequeueState.Count != *count) {
			t.Errorf("%s: the count of WaitForPodsReady is not %d: %v", name, *count, wl.Status.RequeueState)
		}
	})
	if concluded < 1000 {
		t.Errorf("Only %d workloads were concluded", concluded)
	}
}
