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

package requeue

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

var testNow = time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)

func at(seconds int) time.Time {
	return testNow.Add(time.Duration(seconds) * time.Second)
}

func retryCheck(name kueue.AdmissionCheckReference, since time.Time, delay *int32) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: name, State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(since), RequeueAfterSeconds: delay}
}

func checkIn(name kueue.AdmissionCheckReference, state kueue.CheckState) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(at(-100))}
}

func condition(conditionType, reason string, status metav1.ConditionStatus, since time.Time) metav1.Condition {
	return metav1.Condition{Type: conditionType, Reason: reason, Status: status, LastTransitionTime: metav1.NewTime(since)}
}

func evictedFor(reason string, since time.Time) metav1.Condition {
	return condition(kueue.WorkloadEvicted, reason, metav1.ConditionTrue, since)
}

func requeuedFalse(reason string) metav1.Condition {
	return condition(kueue.WorkloadRequeued, reason, metav1.ConditionFalse, at(-1))
}

func TestNext(t *testing.T) {
	type step struct {
		Action Action
		Until  time.Time
	}
	admission := utiltestingapi.MakeAdmission("cq").Obj()
	queued := func() *utiltestingapi.WorkloadWrapper { return utiltestingapi.MakeWorkload("wl", "ns").UID("uid") }
	reserved := func() *utiltestingapi.WorkloadWrapper { return queued().ReserveQuotaAt(admission, at(-50)) }
	waiting := func() *utiltestingapi.WorkloadWrapper {
		return queued().Conditions(evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10)), requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck))
	}
	requeueAt := func(seconds int) *metav1.Time { return ptr.To(metav1.NewTime(at(seconds))) }

	cases := map[string]struct {
		gateOff  bool
		wl       *kueue.Workload
		now      time.Time
		policies Policies
		want     step
	}{
		"no check": {
			wl:   queued().Obj(),
			want: step{Action: None},
		},
		"rejected when it is deactivated already": {
			wl:   queued().Active(false).Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).AdmissionChecks(checkIn("a", kueue.CheckStateRejected)).Obj(),
			want: step{Action: None},
		},
		"reactivated: a rejection from before does not count": {
			wl:   queued().Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).AdmissionChecks(checkIn("a", kueue.CheckStateRejected)).Obj(),
			want: step{Action: Reset},
		},
		"reactivated before its reset: a count from before does not count": {
			wl: queued().Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](2)}).Obj(),
			want: step{Action: Reset},
		},
		"reactivated after its reset": {
			wl:   queued().Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).AdmissionChecks(checkIn("a", kueue.CheckStatePending)).Obj(),
			want: step{Action: None},
		},
		"reactivated, a check asks for a retry: the eviction ends first": {
			wl:   queued().Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).AdmissionChecks(retryCheck("a", at(-5), ptr.To[int32](60))).Obj(),
			want: step{Action: None},
		},
		"reactivated before its quota was released: rejected": {
			wl:   reserved().Condition(evictedFor(kueue.WorkloadDeactivated, at(-10))).AdmissionChecks(checkIn("a", kueue.CheckStateRejected)).Obj(),
			want: step{Action: Reject},
		},
		"reserved, pending": {
			wl:   reserved().AdmissionChecks(checkIn("a", kueue.CheckStatePending)).Obj(),
			want: step{Action: None},
		},
		"reserved: evict at once, the delay counts from the eviction": {
			wl:   reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			now:  testNow.Add(time.Millisecond),
			want: step{Action: Evict, Until: at(61)},
		},
		"reserved, no delay": {
			wl:   reserved().AdmissionChecks(retryCheck("a", at(500), nil)).Obj(),
			want: step{Action: Evict},
		},
		"reserved, a delay of 0": {
			wl:   reserved().AdmissionChecks(retryCheck("a", at(500), ptr.To[int32](0))).Obj(),
			want: step{Action: Evict},
		},
		"evicted, the job is being stopped: the deadline follows": {
			wl: reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60)), retryCheck("b", at(-5), ptr.To[int32](90))).
				Condition(evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10))).Obj(),
			want: step{Action: Wait, Until: at(85)},
		},
		"evicted for another reason: the delay counts from the transition": {
			wl: reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).
				Condition(evictedFor(kueue.WorkloadEvictedByPreemption, at(-10))).Obj(),
			want: step{Action: Wait, Until: at(40)},
		},
		"evicted, no check asks for a retry": {
			wl: reserved().AdmissionChecks(checkIn("a", kueue.CheckStatePending)).
				Condition(evictedFor(kueue.WorkloadEvictedByPreemption, at(-10))).Obj(),
			want: step{Action: None},
		},
		"waits": {
			wl:   waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want: step{Action: Wait, Until: at(50)},
		},
		"waits, another check has become ready": {
			wl: waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60)), kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](1)}).
				RequeueState(nil, requeueAt(50)).Obj(),
			want: step{Action: ResetCounts, Until: at(50)},
		},
		"waits: fractions do not make it early": {
			wl:   waiting().AdmissionChecks(retryCheck("a", at(0).Add(time.Millisecond), ptr.To[int32](60))).Obj(),
			want: step{Action: Wait, Until: at(61)},
		},
		"waits: the longest that there is": {
			wl:   waiting().AdmissionChecks(retryCheck("a", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), ptr.To[int32](math.MaxInt32))).Obj(),
			want: step{Action: Wait, Until: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
		},
		"the deadline is over": {
			wl:   waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](10))).Obj(),
			want: step{Action: Requeue, Until: at(0)},
		},
		"withdrawn": {
			wl:   waiting().AdmissionChecks(checkIn("a", kueue.CheckStateReady)).RequeueState(nil, requeueAt(500)).Obj(),
			want: step{Action: Requeue},
		},
		"withdrawn, the backoff of WaitForPodsReady goes on": {
			wl: queued().AdmissionChecks(checkIn("a", kueue.CheckStateReady)).RequeueState(ptr.To[int32](1), requeueAt(500)).
				Conditions(evictedFor(kueue.WorkloadEvictedByPodsReadyTimeout, at(-10)), requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
			want: step{Action: Wait, Until: at(500)},
		},
		"a retry in a backoff of WaitForPodsReady: the later one counts": {
			wl: queued().AdmissionChecks(retryCheck("a", at(0), ptr.To[int32](60))).RequeueState(ptr.To[int32](1), requeueAt(500)).
				Conditions(evictedFor(kueue.WorkloadEvictedByPodsReadyTimeout, at(-10)), requeuedFalse(kueue.WorkloadEvictedByPodsReadyTimeout)).Obj(),
			want: step{Action: Wait, Until: at(500)},
		},
		"a backoff of WaitForPodsReady alone": {
			wl: queued().AdmissionChecks(checkIn("a", kueue.CheckStatePending)).RequeueState(ptr.To[int32](1), requeueAt(500)).
				Conditions(evictedFor(kueue.WorkloadEvictedByPodsReadyTimeout, at(-10)), requeuedFalse(kueue.WorkloadEvictedByPodsReadyTimeout)).Obj(),
			want: step{Action: None},
		},
		"withdrawn, long after a timeout of WaitForPodsReady": {
			wl: queued().Conditions(requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck)).AdmissionChecks(checkIn("a", kueue.CheckStatePending)).
				RequeueState(ptr.To[int32](1), requeueAt(20)).Obj(),
			want: step{Action: Requeue},
		},
		"a retry of a slice in the queue: the job would make an evicted one anew": {
			wl: queued().Annotation(constants.ElasticJobAnnotation, "true").
				AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want: step{Action: Wait, Until: at(40)},
		},
		"a retry in the queue, with a time of before": {
			wl:   queued().AdmissionChecks(retryCheck("a", at(-500), ptr.To[int32](60))).Obj(),
			want: step{Action: Wait, Until: at(60)},
		},
		"a retry without a delay in the queue": {
			wl:   queued().AdmissionChecks(retryCheck("a", at(0), nil)).Obj(),
			want: step{Action: Requeue},
		},
		"rejected while it holds quota": {
			wl:   reserved().AdmissionChecks(checkIn("a", kueue.CheckStateRejected)).Obj(),
			want: step{Action: Reject},
		},
		"rejected while it waits": {
			wl:   waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60)), checkIn("b", kueue.CheckStateRejected)).Obj(),
			want: step{Action: Reject},
		},
		"rejected, about to be deactivated": {
			wl: reserved().AdmissionChecks(checkIn("a", kueue.CheckStateRejected)).
				Condition(condition(kueue.WorkloadDeactivationTarget, kueue.WorkloadEvictedByAdmissionCheck, metav1.ConditionTrue, at(0))).Obj(),
			want: step{Action: None},
		},
		"deactivated while it holds quota: evicted by the rest of the reconciliation": {
			wl:   reserved().Active(false).AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want: step{Action: None},
		},
		"deactivated in the queue: evicted by the rest of the reconciliation": {
			wl:   queued().Active(false).AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want: step{Action: None},
		},
		"deactivated while it waits": {
			wl:   waiting().Active(false).AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want: step{Action: Reset},
		},
		"deactivated after a preemption, without checks: as without the gate": {
			wl:   queued().Active(false).Conditions(evictedFor(kueue.WorkloadEvictedByPreemption, at(-10))).Obj(),
			want: step{Action: None},
		},
		"deactivated, and reset": {
			wl:   queued().Active(false).AdmissionChecks(checkIn("a", kueue.CheckStatePending)).Conditions(evictedFor(kueue.WorkloadDeactivated, at(-10))).Obj(),
			want: step{Action: None},
		},
		"deactivated, an apply could not remove the delay": {
			wl: queued().Active(false).AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending, RequeueAfterSeconds: ptr.To[int32](60)}).
				Conditions(evictedFor(kueue.WorkloadDeactivated, at(-10))).Obj(),
			want: step{Action: Reset},
		},
		"ready: counts from 0": {
			wl: reserved().AdmissionChecks(checkIn("a", kueue.CheckStatePending),
				kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](2)}).Obj(),
			want: step{Action: ResetCounts},
		},
		"all ready: the count goes with the admission": {
			wl:   reserved().AdmissionChecks(kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](2)}).Obj(),
			want: step{Action: None},
		},
		"a policy's delay": {
			wl:       reserved().AdmissionChecks(retryCheck("a", at(-20), nil)).Obj(),
			policies: Policies{"a": {Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}},
			want:     step{Action: Evict, Until: at(30)},
		},
		"a policy's delay: 0 of the check wins": {
			wl:       reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](0))).Obj(),
			policies: Policies{"a": {Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}},
			want:     step{Action: Evict},
		},
		"a policy's delay stays while the workload waits": {
			wl: waiting().AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry,
				LastTransitionTime: metav1.NewTime(at(-20)), PolicyDelaySeconds: ptr.To[int32](60)}).Obj(),
			policies: Policies{"a": {Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}},
			want:     step{Action: Wait, Until: at(50)},
		},
		"a policy's delay that a controller has copied does not count": {
			wl: reserved().AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry,
				LastTransitionTime: metav1.NewTime(at(-20)), PolicyDelaySeconds: ptr.To[int32](60)}).Obj(),
			policies: Policies{"a": {Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}},
			want:     step{Action: Evict, Until: at(30)},
		},
		"a policy's limit, also with a delay of the check's own": {
			wl: reserved().AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry,
				RequeueAfterSeconds: ptr.To[int32](5), RetryCount: ptr.To[int32](3)}).Obj(),
			policies: Policies{"a": {Strategy: kueue.AdmissionCheckRetryStatic, LimitCount: ptr.To[int32](3)}},
			want:     step{Action: Deactivate},
		},
		"gate off: left waiting": {
			gateOff: true,
			wl:      waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](10))).RequeueState(nil, requeueAt(0)).Obj(),
			want:    step{Action: Requeue, Until: at(0)},
		},
		"gate off: rejected while it waited": {
			gateOff: true,
			wl: waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](10)), checkIn("b", kueue.CheckStateRejected)).
				RequeueState(nil, requeueAt(0)).Obj(),
			want: step{Action: None},
		},
		"gate off: not yet": {
			gateOff: true,
			wl:      waiting().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).RequeueState(nil, requeueAt(50)).Obj(),
			want:    step{Action: None},
		},
		"gate off: deactivated while it waited": {
			gateOff: true,
			wl:      waiting().Active(false).AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).RequeueState(nil, requeueAt(50)).Obj(),
			want:    step{Action: Reset},
		},
		"gate off: deactivated while its job is stopped": {
			gateOff: true,
			wl: reserved().Active(false).AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).RequeueState(nil, requeueAt(50)).
				Condition(evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10))).Condition(requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
			want: step{Action: Reset},
		},
		"gate off: its job is stopped": {
			gateOff: true,
			wl: reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](10))).RequeueState(nil, requeueAt(0)).
				Condition(evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10))).Condition(requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
			want: step{Action: None},
		},
		"gate off: nothing else": {
			gateOff: true,
			wl:      reserved().AdmissionChecks(retryCheck("a", at(-20), ptr.To[int32](60))).Obj(),
			want:    step{Action: None},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			if tc.now.IsZero() {
				tc.now = testNow
			}
			before := tc.wl.DeepCopy()
			got := Next(tc.wl, tc.now, tc.policies)
			if diff := cmp.Diff(tc.want, step{Action: got.Action, Until: got.Until}); diff != "" {
				t.Errorf("Unexpected step (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.wl); diff != "" {
				t.Errorf("Next changed the workload (-before,+after):\n%s", diff)
			}
		})
	}
}

func TestWaitAndRequeue(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").
		ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), at(-50)).
		RequeueState(ptr.To[int32](1), nil).
		AdmissionChecks(
			kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), RetryCount: ptr.To[int32](2), Message: "no budget"},
			kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](4)},
			kueue.AdmissionCheckState{Name: "c", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](1), Message: "asking"},
			kueue.AdmissionCheckState{Name: "d", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](math.MaxInt32)},
		).Obj()
	wl.Status.ClusterName = ptr.To("worker")
	policies := Policies{"d": {Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}}

	step := Next(wl, testNow, policies)
	step.Record(wl)
	if wl.Status.ClusterName != nil {
		t.Errorf("The workload that waits still has the worker %s", *wl.Status.ClusterName)
	}
	apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: "Pending", Message: step.EvictionMessage()})
	wl.Status.Admission = nil
	if !step.IsRecorded(wl) {
		t.Errorf("The wait is not recorded: %v", wl.Status)
	}
	wantChecks := []kueue.AdmissionCheckState{
		{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), RetryCount: ptr.To[int32](2), Message: "no budget"},
		{Name: "b", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](0)},
		{Name: "c", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](1), Message: "asking"},
		{Name: "d", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](math.MaxInt32), PolicyDelaySeconds: ptr.To[int32](30)},
	}
	if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks of the workload that waits (-want,+got):\n%s", diff)
	}
	wantConditions := []metav1.Condition{
		{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: "Pending", Message: `Evicted due to AdmissionChecks in Retry state: "a" after 60 s (no budget); "d" after 30 s`},
		{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: "AdmissionCheck", Message: `Evicted due to AdmissionChecks in Retry state: "a" after 60 s (no budget); "d" after 30 s`},
		{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: "AdmissionCheck", Message: `Waiting until 2026-02-06T10:01:00Z due to AdmissionChecks in Retry state: "a" after 60 s (no budget); "d" after 30 s`},
	}
	ignore := cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")
	if diff := cmp.Diff(wantConditions, wl.Status.Conditions, ignore); diff != "" {
		t.Errorf("Unexpected conditions of the workload that waits (-want,+got):\n%s", diff)
	}

	step = Next(wl, at(60), policies)
	if step.Action != Requeue {
		t.Fatalf("Unexpected action at the deadline: %s", step.Action)
	}
	step.Requeue(wl, at(60))
	now := metav1.NewTime(at(60))
	wantChecks = []kueue.AdmissionCheckState{
		{Name: "a", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](3), LastTransitionTime: now, Message: "Reset to Pending for the next attempt. Previously: Retry"},
		{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: now, Message: "Reset to Pending for the next attempt. Previously: Ready"},
		{Name: "c", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](1), LastTransitionTime: now, Message: "asking"},
		{Name: "d", State: kueue.CheckStatePending, RetryCount: ptr.To[int32](math.MaxInt32), LastTransitionTime: now, Message: "Reset to Pending for the next attempt. Previously: Retry"},
	}
	if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks after the requeue (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(&kueue.RequeueState{Count: ptr.To[int32](1)}, wl.Status.RequeueState); diff != "" {
		t.Errorf("Unexpected requeueState after the requeue (-want,+got):\n%s", diff)
	}
	if MustWait(wl) {
		t.Error("The workload must not wait any more")
	}
}

func TestResetDeactivated(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := utiltestingapi.MakeWorkload("wl", "ns").Active(false).
		Conditions(
			evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10)),
			requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck),
			metav1.Condition{Type: kueue.WorkloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck, Message: "words"},
		).
		RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(500)))).
		AdmissionChecks(
			kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60), RetryCount: ptr.To[int32](2)},
			kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateRejected},
			checkIn("c", kueue.CheckStateReady),
		).Obj()
	ResetDeactivated(wl, testNow)
	message := "The workload is deactivated due to words"
	want := []metav1.Condition{
		{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: "DeactivatedDueToAdmissionCheck", Message: message, LastTransitionTime: metav1.NewTime(at(-1))},
		{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: "DeactivatedDueToAdmissionCheck", Message: message, LastTransitionTime: metav1.NewTime(testNow)},
	}
	if diff := cmp.Diff(want, wl.Status.Conditions); diff != "" {
		t.Errorf("Unexpected conditions after the deactivation (-want,+got):\n%s", diff)
	}
	reset := "Reset to Pending for the next attempt. Previously: "
	wantChecks := []kueue.AdmissionCheckState{
		{Name: "a", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(testNow), Message: reset + "Retry"},
		{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(testNow), Message: reset + "Rejected"},
		{Name: "c", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(testNow), Message: reset + "Ready"},
	}
	if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks after the deactivation (-want,+got):\n%s", diff)
	}
	if wl.Status.RequeueState != nil {
		t.Errorf("Unexpected requeueState after the deactivation: %v", wl.Status.RequeueState)
	}
}

func BenchmarkRetryNext(b *testing.B) {
	admission := utiltestingapi.MakeAdmission("cq").Obj()
	waiting := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").
		Conditions(evictedFor(kueue.WorkloadEvictedByAdmissionCheck, at(-10)), requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck))
	stages := []struct {
		name  string
		wl    *utiltestingapi.WorkloadWrapper
		state kueue.CheckState
		now   time.Time
		want  Action
	}{
		{name: "Reserved", wl: utiltestingapi.MakeWorkload("wl", "ns").ReserveQuotaAt(admission, at(-50)), state: kueue.CheckStatePending, now: testNow, want: None},
		{name: "Evict", wl: utiltestingapi.MakeWorkload("wl", "ns").ReserveQuotaAt(admission, at(-50)), state: kueue.CheckStateRetry, now: testNow, want: Evict},
		{name: "Wait", wl: waiting, state: kueue.CheckStateRetry, now: testNow, want: Wait},
		{name: "Requeue", wl: waiting, state: kueue.CheckStateRetry, now: at(60), want: Requeue},
	}
	for _, stage := range stages {
		for _, checks := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/checks=%d", stage.name, checks), func(b *testing.B) {
				features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, true)
				wl := stage.wl.DeepCopy()
				for i := range checks {
					check := checkIn(kueue.AdmissionCheckReference(fmt.Sprintf("check-%d", i)), stage.state)
					if stage.state == kueue.CheckStateRetry {
						check = retryCheck(check.Name, at(-20), ptr.To(int32(60-i)))
					}
					wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, check)
				}
				if step := Next(wl, stage.now, nil); step.Action != stage.want {
					b.Fatalf("Unexpected action %s, want %s", step.Action, stage.want)
				}
				b.ReportAllocs()
				for b.Loop() {
					Next(wl, stage.now, nil)
				}
			})
		}
	}
}

func TestSetRequeuedOnRelease(t *testing.T) {
	evicted := evictedFor(kueue.WorkloadDeactivated, at(-10))
	waiting := requeuedFalse(kueue.WorkloadEvictedByAdmissionCheck)
	retry := retryCheck("a", at(-20), ptr.To[int32](60))
	cases := map[string]struct {
		gateOff    bool
		wl         *utiltestingapi.WorkloadWrapper
		requeued   bool
		wantReason string
	}{
		"preempted while it waits": {
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retry).Conditions(evicted, waiting),
			requeued:   true,
			wantReason: kueue.WorkloadEvictedByAdmissionCheck,
		},
		"deactivated while it waits": {
			wl:         utiltestingapi.MakeWorkload("wl", "ns").Active(false).AdmissionChecks(retry).Conditions(evicted, waiting),
			wantReason: kueue.WorkloadDeactivated,
		},
		"activated again before its job has stopped: it waits": {
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retry).Conditions(evicted, waiting),
			wantReason: kueue.WorkloadEvictedByAdmissionCheck,
		},
		"activated again, the retry is not recorded yet": {
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retry).Conditions(evicted),
			wantReason: kueue.WorkloadEvictedByAdmissionCheck,
		},
		"activated again, no check asks for a retry": {
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(checkIn("a", kueue.CheckStatePending)).Conditions(evicted),
			wantReason: kueue.WorkloadDeactivated,
		},
		"gate off: it waits since before": {
			gateOff:    true,
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retry).Conditions(evicted, waiting),
			requeued:   true,
			wantReason: kueue.WorkloadEvictedByAdmissionCheck,
		},
		"gate off": {
			gateOff:    true,
			wl:         utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retry).Conditions(evicted),
			wantReason: kueue.WorkloadDeactivated,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			wl := tc.wl.Obj()
			SetRequeuedOnRelease(wl, &evicted, tc.requeued)
			requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
			if requeued == nil || requeued.Status != metav1.ConditionFalse || requeued.Reason != tc.wantReason {
				t.Errorf("Unexpected condition Requeued: %v, want: False for %s", requeued, tc.wantReason)
			}
		})
	}
}
