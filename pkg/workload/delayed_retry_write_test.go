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
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

func TestRetryPlanRecordEviction(t *testing.T) {
	cases := map[string]struct {
		workload      *utiltestingapi.WorkloadWrapper
		replacesSlice bool
		wantReserved  bool
	}{
		"not admitted: the quota is released": {workload: reserved()},
		"was admitted before": {
			workload: reserved().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "NoReservation", "", -100)),
		},
		"admitted: the job is stopped first": {
			workload:     reserved().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "", -10)),
			wantReserved: true,
		},
		"replaces a slice whose pods run": {
			workload:      reserved(),
			replacesSlice: true,
			wantReserved:  true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload.AdmissionChecks(retryAt("a", 0, 60), checkAt("b", kueue.CheckStatePending, 0)).Obj()
			wl.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
			wantChecks := wl.DeepCopy().Status.AdmissionChecks
			plan := PlanRetry(wl, RetryContext{
				Now:           at(0),
				IsRequired:    func(kueue.AdmissionCheckReference) bool { return true },
				ReplacesSlice: tc.replacesSlice,
			})
			if plan.Action != RetryEvict {
				t.Fatalf("Unexpected action %q", plan.Action)
			}
			plan.Record(wl)
			if got := HasQuotaReservation(wl); got != tc.wantReserved || (wl.Status.Admission != nil) != tc.wantReserved {
				t.Errorf("Unexpected quota reservation: %t, admission %v; want %t", got, wl.Status.Admission, tc.wantReserved)
			}
			if got := requeueAt(wl); !got.Equal(plan.Deadline) {
				t.Errorf("Unexpected requeueAt %s, want %s", got, plan.Deadline)
			}
			if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
			if tc.wantReserved {
				if requeued != nil {
					t.Errorf("Unexpected condition before the release: %v", requeued)
				}
				return
			}
			if requeued == nil || requeued.Status != metav1.ConditionFalse || requeued.Reason != kueue.WorkloadEvictedByAdmissionCheck || requeued.Message != plan.Message {
				t.Errorf("Unexpected condition after the release: %v", requeued)
			}
		})
	}
}

// A transition time that is sent again does not make the delays count from before the eviction.
func TestRetryPlanRecordKeepsTheEviction(t *testing.T) {
	wl := waiting(0, 60).AdmissionChecks(retryAt("a", -100, 600)).Obj()
	plan := planAt(wl, at(5))
	if plan.Action != RetryRecord {
		t.Fatalf("Unexpected action %q", plan.Action)
	}
	plan.Record(wl)
	if got := evictedAt(wl); !got.Equal(at(0)) {
		t.Errorf("The eviction is moved to %s", got)
	}
	if got := requeueAt(wl); !got.Equal(at(600)) {
		t.Errorf("Unexpected requeueAt %s", got)
	}
}

// The eviction is a write that Kueue makes anyway.
func TestRetryPlanRecordResetsCounts(t *testing.T) {
	succeeded := withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 3)
	retry := withRetryCount(retryAt("b", 0, 60), 3)
	wl := reserved().AdmissionChecks(succeeded, retry).Obj()
	planAt(wl, at(1)).Record(wl)
	if diff := cmp.Diff([]kueue.AdmissionCheckState{withRetryCount(succeeded, 0), retry}, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
	}
	if got := planAt(wl, at(2)); got.Untidy {
		t.Error("Another write is due for the count")
	}
}

// A check whose clock is behind says Retry long after its workload was evicted by a
// queue that is stopped still. It waits for the whole delay.
func TestRetryInStoppedQueue(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	const stopped = kueue.WorkloadEvictedByClusterQueueStopped
	wl := releasedAt(evictedFor(reserved(), stopped, "", 0), metav1.ConditionFalse, stopped, 1).AdmissionChecks(retryAt("a", 700, 60)).Obj()
	for _, step := range []struct {
		now    float64
		action RetryAction
		do     func(RetryPlan)
	}{
		{now: 3599.5, action: RetryRecord, do: func(p RetryPlan) { p.Record(wl) }},
		{now: 3599.6, action: RetryWait},
		{now: 3659.9, action: RetryWait},
		{now: 3660, action: RetryRequeue, do: func(p RetryPlan) { p.Requeue(wl, at(3660)) }},
		{now: 3660.1, action: RetryNone},
	} {
		plan := planAt(wl, at(step.now))
		if plan.Action != step.action {
			t.Fatalf("Unexpected action after %g s: %q, want %q", step.now, plan.Action, step.action)
		}
		if step.do != nil {
			step.do(plan)
		}
		for _, conditionType := range []string{kueue.WorkloadEvicted, kueue.WorkloadRequeued} {
			if cond := apimeta.FindStatusCondition(wl.Status.Conditions, conditionType); cond.Reason != stopped {
				t.Errorf("Unexpected reason of %s after %g s: %s", conditionType, step.now, cond.Reason)
			}
		}
	}
	if got := ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0); got != 1 {
		t.Errorf("Unexpected retryCount %d, want 1", got)
	}
}

// A Retry that comes while the job stops, whose workload was evicted for another
// reason, has nobody tell of the wait after it.
func TestRequeueAfterOtherEvictionTellsOfNoWait(t *testing.T) {
	cases := map[string]struct {
		reason  string
		release func(*kueue.Workload)
	}{
		"deactivated, and activated before that": {
			reason:  kueue.WorkloadDeactivated,
			release: func(wl *kueue.Workload) { SetRequeuedCondition(wl, kueue.WorkloadReactivated, "", true) },
		},
		"its queue is stopped still": {
			reason: kueue.WorkloadEvictedByClusterQueueStopped,
			release: func(wl *kueue.Workload) {
				evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
				SetRequeuedCondition(wl, evicted.Reason, evicted.Message, false)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			wl := evictedFor(reserved(), tc.reason, "Why it was evicted", 0).AdmissionChecks(retryAt("a", 1, 30)).Obj()
			stopping := planAt(wl, at(2))
			if stopping.Action != RetryRecord {
				t.Fatalf("Unexpected action %q, want %q", stopping.Action, RetryRecord)
			}
			stopping.Record(wl)
			tc.release(wl)
			UnsetQuotaReservationWithCondition(wl, "Pending", "", at(3))
			RetryPlan{}.Requeue(wl, at(31))
			for _, cond := range wl.Status.Conditions {
				if strings.Contains(cond.Message, "waiting until") {
					t.Errorf("%s still says %q", cond.Type, cond.Message)
				}
			}
		})
	}
}

func TestRetryPlanRequeue(t *testing.T) {
	pendingAfter := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 60)
		check.Message = "Reset to Pending on requeue. Previously: " + string(state)
		return check
	}
	withUpdates := checkAt("ready", kueue.CheckStateReady, 0)
	withUpdates.PodSetUpdates = []kueue.PodSetUpdate{{Name: "main"}}

	cases := map[string]struct {
		workload         *kueue.Workload
		wantChecks       []kueue.AdmissionCheckState
		wantRequeueState *kueue.RequeueState
		wantRequeued     metav1.ConditionStatus
	}{
		"counts those in Retry, those that succeeded from zero; resets all, clears the delays": {
			workload: waiting(0, 60).AdmissionChecks(
				retryAt("first", 0, 60),
				withRetryCount(retryAt("again", 0, 60), 3),
				checkAt("no-delay", kueue.CheckStateRetry, 0),
				withRetryCount(checkAt("largest", kueue.CheckStateRetry, 0), math.MaxInt32),
				withUpdates,
				withRetryCount(checkAt("ready-again", kueue.CheckStateReady, 0), 3),
				withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
				withMessage(checkAt("withdrawn", kueue.CheckStatePending, 5), "There is budget again."),
				withMessage(retryAt("why", 0, 60), "No budget."),
			).Obj(),
			wantChecks: []kueue.AdmissionCheckState{
				withRetryCount(pendingAfter("first", kueue.CheckStateRetry), 1),
				withRetryCount(pendingAfter("again", kueue.CheckStateRetry), 4),
				withRetryCount(pendingAfter("no-delay", kueue.CheckStateRetry), 1),
				withRetryCount(pendingAfter("largest", kueue.CheckStateRetry), math.MaxInt32),
				pendingAfter("ready", kueue.CheckStateReady),
				pendingAfter("ready-again", kueue.CheckStateReady),
				withRetryCount(checkAt("pending", kueue.CheckStatePending, 60), 1),
				withMessage(checkAt("withdrawn", kueue.CheckStatePending, 60), "There is budget again."),
				withMessage(withRetryCount(checkAt("why", kueue.CheckStatePending, 60), 1), "Reset to Pending on requeue. Previously: Retry. No budget."),
			},
			wantRequeued: metav1.ConditionTrue,
		},
		"the counter of WaitForPodsReady stays": {
			workload: replaced(releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1),
				conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, kueue.WorkloadWaitingForRetry, "", 1)).
				RequeueState(ptr.To[int32](7), ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantRequeueState: &kueue.RequeueState{Count: ptr.To[int32](7)},
			wantRequeued:     metav1.ConditionTrue,
		},
		"a stopped queue keeps the workload from being requeued": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			wantChecks:   []kueue.AdmissionCheckState{withRetryCount(pendingAfter("a", kueue.CheckStateRetry), 1)},
			wantRequeued: metav1.ConditionFalse,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload
			for i := range wl.Status.Conditions {
				wl.Status.Conditions[i].Message = "waiting until 2026-02-06T10:01:00Z"
			}
			wl.Generation = 7
			wantEvictedAt := evictedAt(wl)
			RetryPlan{}.Requeue(wl, at(60))
			if diff := cmp.Diff(tc.wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRequeueState, wl.Status.RequeueState); diff != "" {
				t.Errorf("Unexpected requeueState (-want,+got):\n%s", diff)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).Status; got != tc.wantRequeued {
				t.Errorf("Unexpected Requeued=%s, want %s", got, tc.wantRequeued)
			}
			// Its place in the queue is by that time.
			if got := evictedAt(wl); !got.Equal(wantEvictedAt) {
				t.Errorf("The eviction is moved from %s to %s", wantEvictedAt, got)
			}
			wantNoWaitTold(t, wl)
		})
	}
}

// wantNoWaitTold fails if a condition still tells of a wait, or was written for an
// older generation. That of a stopped queue is not written by the requeue.
func wantNoWaitTold(t *testing.T, wl *kueue.Workload) {
	t.Helper()
	for _, cond := range wl.Status.Conditions {
		if strings.Contains(cond.Reason, "QueueStopped") {
			continue
		}
		if strings.Contains(cond.Message, "waiting until") || cond.Reason == kueue.WorkloadWaitingForRetry {
			t.Errorf("%s still tells of the wait: %s, %s", cond.Type, cond.Reason, cond.Message)
		}
		if cond.ObservedGeneration != wl.Generation {
			t.Errorf("Unexpected observed generation %d of %s, want %d", cond.ObservedGeneration, cond.Type, wl.Generation)
		}
	}
}

// What upstream would do, if the API server let it.
func TestRequeueThatKeepsChecks(t *testing.T) {
	wl := firstRelease(waiting(0, 60)).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5), checkAt("b", kueue.CheckStateRejected, 5)).Obj()
	want := wl.DeepCopy().Status.AdmissionChecks
	RetryPlan{KeepsChecks: true}.Requeue(wl, at(60))
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
	}
	if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) || !requeueAt(wl).IsZero() {
		t.Errorf("The workload is not requeued: %v", wl.Status)
	}
}

func TestRetryPlanForget(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	reset := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 5)
		check.Message = "Reset to Pending on deactivation. Previously: " + string(state)
		return check
	}
	cases := map[string]struct {
		workload    *utiltestingapi.WorkloadWrapper
		wantEvicted string
		wantAt      float64 // the time of the deactivation
	}{
		"while waiting": {
			workload:    waiting(0, 60),
			wantEvicted: "Deactivated", wantAt: 5,
		},
		"by Kueue, while waiting": {
			workload: waiting(0, 60).Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue,
				kueue.WorkloadEvictedByAdmissionCheck, "rejected", 5)),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 5,
		},
		"after a preemption": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1),
			wantEvicted: "Deactivated", wantAt: 5,
		},
		"again, after it was activated": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadDeactivated, "", 0).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadReactivated, "", 1)),
			wantEvicted: "Deactivated", wantAt: 5,
		},
		"again, by Kueue, after a retry in the queue": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadDeactivated, "", 0).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadBackoffFinished, "", 1)).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue,
					kueue.WorkloadEvictedByAdmissionCheck, "rejected", 5)),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 5,
		},
		"again, by Kueue, before it was ever requeued": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadDeactivated, "", 0).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue,
					kueue.WorkloadEvictedByAdmissionCheck, "rejected", 5)),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 5,
		},
		"again, after it was activated within a second": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), "DeactivatedDueToAdmissionCheck", "", 1).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadReactivated, "", 1)),
			wantEvicted: "Deactivated", wantAt: 5,
		},
		"again, after a retry while the job stopped": {
			workload:    evictedFor(reserved(), "DeactivatedDueToAdmissionCheck", "", 3).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))),
			wantEvicted: "Deactivated", wantAt: 5,
		},
		"a time that survived the deactivation, and the release": {
			workload:    evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), "DeactivatedDueToAdmissionCheck", "The workload is deactivated due to rejected", 3).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 3,
		},
		// Kueue deactivates what lost its quota without an eviction, and was requeued before.
		"by Kueue, in the queue": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), "DeactivatedDueToAdmissionCheck", "The workload is deactivated due to rejected", 3).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadBackoffFinished, "", 1)),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 3,
		},
		"by Kueue, in the queue, after it was activated": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), "DeactivatedDueToAdmissionCheck", "The workload is deactivated due to rejected", 3).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadReactivated, "", 1)),
			wantEvicted: "DeactivatedDueToAdmissionCheck", wantAt: 3,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload.Active(false).AdmissionChecks(
				withRetryCount(retryAt("retry", 0, 60), 2),
				checkAt("rejected", kueue.CheckStateRejected, 0),
				withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
			).Obj()
			for i := range wl.Status.Conditions {
				cond := &wl.Status.Conditions[i]
				switch {
				case cond.Reason == "DeactivatedDueToAdmissionCheck", cond.Type == kueue.WorkloadQuotaReserved && cond.Status == metav1.ConditionTrue:
					cond.ObservedGeneration = 7 // it tells of this deactivation, or of no wait
				case cond.Type != kueue.WorkloadDeactivationTarget:
					cond.Message = "waiting until 2026-02-06T10:01:00Z"
				}
			}
			wl.Generation = 7
			Forget(wl, at(5))
			wantNoWaitTold(t, wl)
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time; !got.Equal(at(tc.wantAt)) {
				t.Errorf("Unexpected time of the eviction %s, want that of the deactivation, %s", got, at(tc.wantAt))
			}
			wantChecks := []kueue.AdmissionCheckState{
				reset("retry", kueue.CheckStateRetry), reset("rejected", kueue.CheckStateRejected), checkAt("pending", kueue.CheckStatePending, 0),
			}
			if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			if wl.Status.RequeueState != nil {
				t.Errorf("Unexpected requeueState %v", wl.Status.RequeueState)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).Reason; got != tc.wantEvicted {
				t.Errorf("Unexpected reason of Evicted %q, want %q", got, tc.wantEvicted)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).Reason; got != kueue.WorkloadDeactivated {
				t.Errorf("Unexpected reason of Requeued %q, want %q", got, kueue.WorkloadDeactivated)
			}
			if again := PlanRetry(wl, RetryContext{Now: at(5)}); again.Action != RetryNone {
				t.Errorf("Unexpected action after everything was forgotten: %q", again.Action)
			}
		})
	}
}

// Deactivated and activated again before its job has stopped, and then rejected.
func TestForgetTellsOfSecondDeactivationWhileJobStops(t *testing.T) {
	wl := evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).
		Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "rejected", 5)).
		AdmissionChecks(checkAt("rejected", kueue.CheckStateRejected, 5)).Obj()
	Forget(wl, at(6))
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	if evicted.Reason != "DeactivatedDueToAdmissionCheck" || !evicted.LastTransitionTime.Time.Equal(at(6)) {
		t.Errorf("Unexpected condition of the eviction: %v", evicted)
	}
}

// The same, deactivated by somebody, where its job has stopped before anybody has looked.
func TestForgetTellsOfSecondDeactivationAfterJobStopped(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).AdmissionChecks(retryAt("a", 1, 5)).Generation(3).Obj()
	planAt(wl, at(1)).Record(wl)
	wl.Spec.Active, wl.Generation = ptr.To(false), 4
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	UnsetQuotaReservationWithCondition(wl, "Pending", evicted.Message, at(2))
	SetRequeuedCondition(wl, evicted.Reason, evicted.Message, false)
	Forget(wl, at(3))
	if got := evictedAt(wl); !got.Equal(at(3)) {
		t.Errorf("Unexpected time of the eviction: %s", got)
	}
	wantNoWaitTold(t, wl)
}

// The worker was chosen by a check that is asked again, with the gate off too, where
// this was left waiting.
func TestForgetWorker(t *testing.T) {
	queued := utiltestingapi.MakeWorkload("wl", "ns").ClusterName("worker").NominatedClusterNames("worker", "other").
		AdmissionChecks(checkAt("a", kueue.CheckStateReady, 0))
	running := queued.Clone().SimpleReserveQuota("cq", "flavor", at(0))
	requeue := func(wl *kueue.Workload) { RetryPlan{}.Requeue(wl, at(5)) }
	forget := func(wl *kueue.Workload) { Forget(wl, at(5)) }
	cases := map[string]struct {
		gateOff  bool
		workload *utiltestingapi.WorkloadWrapper
		write    func(*kueue.Workload)
		want     bool
	}{
		"requeued":                    {workload: queued, write: requeue, want: true},
		"requeued with the gate off":  {gateOff: true, workload: queued, write: requeue, want: true},
		"deactivated":                 {workload: queued, write: forget, want: true},
		"deactivated, and runs still": {workload: running, write: forget},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			wl := tc.workload.Clone().Obj()
			tc.write(wl)
			if got := wl.Status.ClusterName == nil && wl.Status.NominatedClusterNames == nil; got != tc.want {
				t.Errorf("Unexpected worker %v of %v", wl.Status.ClusterName, wl.Status.NominatedClusterNames)
			}
		})
	}
}

// A controller that goes on while the job stops, whatever its clock says.
func TestForgetWhileJobStops(t *testing.T) {
	wl := evictedByRetry(0, 60).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj()
	for now, want := range map[float64]RetryAction{5.5: RetryWait, 6: RetryForget} {
		wl := wl.DeepCopy()
		if got := planAt(wl, at(5)); got.Action != RetryForget {
			t.Fatalf("Unexpected action %q, want %q", got.Action, RetryForget)
		}
		Forget(wl, at(5))
		for _, transition := range []float64{-100, 5, 100} {
			wl.Status.AdmissionChecks = []kueue.AdmissionCheckState{retryAt("a", transition, 60)}
			if got := planAt(wl, at(now)); got.Action != want {
				t.Errorf("Unexpected action %q at %v after a Retry at %v, want %q", got.Action, now, transition, want)
			}
		}
	}
}

func TestResetRetryCounts(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			wl := reserved().AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2), checkAt("b", kueue.CheckStateReady, 0)).Obj()
			SyncAdmittedCondition(wl, at(5))
			want := []kueue.AdmissionCheckState{withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2), checkAt("b", kueue.CheckStateReady, 0)}
			if gate {
				want[0].RetryCount = ptr.To[int32](0)
			}
			if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks on admission (-want,+got):\n%s", diff)
			}
		})
	}
}

// evictAt does to the conditions and the checks what an eviction does.
func evictAt(wl *kueue.Workload, now time.Time, reason, message string) {
	workloadevict.SetEvictedCondition(wl, now, reason, message)
	resetChecksForEviction(wl, now, func(wl *kueue.Workload, now time.Time) {
		for i, check := range wl.Status.AdmissionChecks {
			if check.State != kueue.CheckStatePending {
				wl.Status.AdmissionChecks[i] = kueue.AdmissionCheckState{
					Name:               check.Name,
					State:              kueue.CheckStatePending,
					Message:            "Reset to Pending after eviction. Previously: " + string(check.State),
					LastTransitionTime: metav1.NewTime(now),
				}
			}
		}
	})
}

func TestResetChecksForEviction(t *testing.T) {
	states := []kueue.AdmissionCheckState{
		withRetryCount(retryAt("retry", 0, 60), 2),
		withRetryCount(checkAt("ready", kueue.CheckStateReady, 0), 3),
		withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
	}
	reset := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 5)
		check.Message = "Reset to Pending after eviction. Previously: " + string(state)
		return check
	}
	cases := map[string]struct {
		gate   bool
		reason string
		states []kueue.AdmissionCheckState
		want   []kueue.AdmissionCheckState
	}{
		"gate off: all are reset": {
			reason: kueue.WorkloadEvictedByAdmissionCheck,
			want:   []kueue.AdmissionCheckState{reset("retry", kueue.CheckStateRetry), reset("ready", kueue.CheckStateReady), states[2]},
		},
		"evicted by a check: all are left as they are": {
			gate:   true,
			reason: kueue.WorkloadEvictedByAdmissionCheck,
			want:   states,
		},
		"preempted: a rejection is left": {
			gate:   true,
			reason: kueue.WorkloadEvictedByPreemption,
			states: []kueue.AdmissionCheckState{checkAt("rejected", kueue.CheckStateRejected, 0)},
			want:   []kueue.AdmissionCheckState{checkAt("rejected", kueue.CheckStateRejected, 0)},
		},
		"preempted: the delay is left, and what was Ready counts from zero": {
			gate:   true,
			reason: kueue.WorkloadEvictedByPreemption,
			want:   []kueue.AdmissionCheckState{states[0], withRetryCount(reset("ready", kueue.CheckStateReady), 0), states[2]},
		},
		"deactivated: all are reset, and count from zero": {
			gate:   true,
			reason: kueue.WorkloadDeactivated,
			want: []kueue.AdmissionCheckState{
				withRetryCount(reset("retry", kueue.CheckStateRetry), 0),
				withRetryCount(reset("ready", kueue.CheckStateReady), 0),
				withRetryCount(states[2], 0),
			},
		},
		"deactivated by Kueue: all are reset, and count from zero": {
			gate:   true,
			reason: workloadpatching.ReasonWithCause(kueue.WorkloadDeactivated, kueue.WorkloadEvictedByAdmissionCheck),
			want: []kueue.AdmissionCheckState{
				withRetryCount(reset("retry", kueue.CheckStateRetry), 0),
				withRetryCount(reset("ready", kueue.CheckStateReady), 0),
				withRetryCount(states[2], 0),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			if tc.states == nil {
				tc.states = states
			}
			wl := reserved().AdmissionChecks(slices.Clone(tc.states)...).Obj()
			evictAt(wl, at(5), tc.reason, "")
			if diff := cmp.Diff(tc.want, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
		})
	}
}

// An eviction for another reason records the deadline of the checks in its own
// write: should the gate be switched off then, there is a time to come back.
func TestEvictionRecordsTheDeadline(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	cases := map[string]struct {
		workload         *utiltestingapi.WorkloadWrapper
		reason           string
		wantRequeueState *kueue.RequeueState
		wantMessage      string
	}{
		"no check in Retry": {
			workload:    reserved().AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)),
			reason:      kueue.WorkloadEvictedByPreemption,
			wantMessage: "Preempted for a test",
		},
		"a delay, which no fraction of a second cuts": {
			workload:         reserved().AdmissionChecks(retryAt("a", 0, 60)),
			reason:           kueue.WorkloadEvictedByPreemption,
			wantRequeueState: &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(at(66)))},
			wantMessage:      "Evicted with reason Preempted. Admission check(s) a asked for a retry, waiting until 2026-02-06T10:01:06Z",
		},
		"no delay yet, and no fraction of a second cuts one that comes": {
			workload:         reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)),
			reason:           kueue.WorkloadEvictedByPreemption,
			wantRequeueState: &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(at(6)))},
			wantMessage:      "Evicted with reason Preempted. Admission check(s) a asked for a retry",
		},
		"a longer backoff of WaitForPodsReady": {
			workload: reserved().RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(300)))).AdmissionChecks(retryAt("a", 0, 60)),
			reason:   kueue.WorkloadEvictedByPodsReadyTimeout,
			wantRequeueState: &kueue.RequeueState{Count: ptr.To[int32](1), RequeueAt: ptr.To(metav1.NewTime(at(300))),
				BackoffUntil: ptr.To(metav1.NewTime(at(300)))},
			wantMessage: "Evicted with reason PodsReadyTimeout. Backoff of the workload, waiting until 2026-02-06T10:05:00Z. Admission check(s) a asked for a retry",
		},
		"a shorter backoff of WaitForPodsReady is kept beside": {
			workload: reserved().RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(30)))).AdmissionChecks(retryAt("a", 0, 60)),
			reason:   kueue.WorkloadEvictedByPodsReadyTimeout,
			wantRequeueState: &kueue.RequeueState{Count: ptr.To[int32](1), RequeueAt: ptr.To(metav1.NewTime(at(66))),
				BackoffUntil: ptr.To(metav1.NewTime(at(30)))},
			wantMessage: "Evicted with reason PodsReadyTimeout. Admission check(s) a asked for a retry, waiting until 2026-02-06T10:01:06Z",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload.Obj()
			evictAt(wl, at(5.4), tc.reason, "Preempted for a test")
			if diff := cmp.Diff(tc.wantRequeueState, wl.Status.RequeueState); diff != "" {
				t.Errorf("Unexpected requeueState (-want,+got):\n%s", diff)
			}
			evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
			if evicted.Reason != tc.reason || evicted.Message != tc.wantMessage {
				t.Errorf("Unexpected condition %s: %s, want %s: %s", evicted.Reason, evicted.Message, tc.reason, tc.wantMessage)
			}
		})
	}
}

func TestKeepWaiting(t *testing.T) {
	preempted := func() *utiltestingapi.WorkloadWrapper {
		return releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0), metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1)
	}
	recorded := ptr.To(metav1.NewTime(at(60)))
	cases := map[string]struct {
		gateOff     bool
		workload    *kueue.Workload
		wantWaiting bool
	}{
		"nothing recorded":              {workload: preempted().Obj()},
		"a deadline":                    {workload: preempted().RequeueState(nil, recorded).Obj(), wantWaiting: true},
		"a deadline, gate off":          {gateOff: true, workload: preempted().RequeueState(nil, recorded).Obj()},
		"a backoff of WaitForPodsReady": {workload: preempted().RequeueState(ptr.To[int32](1), recorded).Obj()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			KeepWaiting(tc.workload)
			if got := isKeptOut(tc.workload); got != tc.wantWaiting {
				t.Errorf("Unexpected Requeued, false: %t, want %t", got, tc.wantWaiting)
			}
			if got := tellsOfWait(tc.workload); got != tc.wantWaiting {
				t.Errorf("Unexpected reason of QuotaReserved, of a wait: %t, want %t", got, tc.wantWaiting)
			}
		})
	}
}

// The release of the quota copies what Evicted says, and the job has completed meanwhile.
func TestConcludeAfterTheRelease(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	const message = "Evicted with reason Deactivated. Waiting until later"
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Conditions(
			conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", message, 0),
			conditionAt(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadDeactivated, message, 0),
			conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadDeactivated, message, 0),
			conditionAt(kueue.WorkloadFinished, metav1.ConditionTrue, kueue.WorkloadFinishedReasonSucceeded, "", 1)).
		RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).Obj()
	if !MustConclude(wl) {
		t.Fatal("Nothing to conclude")
	}
	Conclude(wl, at(2))
	for _, cond := range wl.Status.Conditions {
		if cond.Message == message {
			t.Errorf("%s still tells of the wait", cond.Type)
		}
	}
	if MustConclude(wl) {
		t.Error("There is more to conclude")
	}
}
