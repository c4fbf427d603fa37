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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// The stages of a workload on its way through a delayed retry.
func evictedFor(wl *utiltestingapi.WorkloadWrapper, reason, message string, transition float64) *utiltestingapi.WorkloadWrapper {
	return wl.Condition(conditionAt(kueue.WorkloadEvicted, metav1.ConditionTrue, reason, message, transition))
}

func evictedByRetry(transition, requeueAt float64) *utiltestingapi.WorkloadWrapper {
	return evictedFor(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "Admission check(s) a asked for a retry", transition).
		RequeueState(nil, ptr.To(metav1.NewTime(at(requeueAt))))
}

func releasedAt(wl *utiltestingapi.WorkloadWrapper, requeued metav1.ConditionStatus, reason string, transition float64) *utiltestingapi.WorkloadWrapper {
	wl = replaced(wl, conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "", transition))
	return replaced(wl, conditionAt(kueue.WorkloadRequeued, requeued, reason, "", transition))
}

func waiting(evicted, requeueAt float64) *utiltestingapi.WorkloadWrapper {
	wl := releasedAt(evictedByRetry(evicted, requeueAt), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, evicted+1)
	return replaced(wl, conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, kueue.WorkloadWaitingForRetry, "", evicted+1))
}

// firstRelease returns the workload as the first release of this gate wrote it.
func firstRelease(wl *utiltestingapi.WorkloadWrapper) *utiltestingapi.WorkloadWrapper {
	return replaced(wl, conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "Admission check(s) a asked for a retry", 1))
}

func withBackoffUntil(wl *kueue.Workload, until time.Time) *kueue.Workload {
	wl.Status.RequeueState.BackoffUntil = ptr.To(metav1.NewTime(until))
	return wl
}

func requeuedWorkload() *utiltestingapi.WorkloadWrapper {
	return releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "Admission check(s) a asked for a retry", -50),
		metav1.ConditionTrue, kueue.WorkloadBackoffFinished, -40)
}

func TestStateOf(t *testing.T) {
	queued := func() *utiltestingapi.WorkloadWrapper { return utiltestingapi.MakeWorkload("wl", "ns") }
	backoff := func() *utiltestingapi.WorkloadWrapper {
		return releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
			metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
			RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60))))
	}
	cases := map[string]struct {
		workload *kueue.Workload
		want     RetryState
	}{
		"new":                     {workload: queued().Obj(), want: RetryStateQueued},
		"requeued":                {workload: requeuedWorkload().Obj(), want: RetryStateQueued},
		"reserved":                {workload: reserved().Obj(), want: RetryStateReserved},
		"evicted, quota held":     {workload: evictedByRetry(0, 60).Obj(), want: RetryStateStopping},
		"waiting":                 {workload: waiting(0, 60).Obj(), want: RetryStateWaiting},
		"waiting, first release":  {workload: firstRelease(waiting(0, 60)).Obj(), want: RetryStateWaiting},
		"deactivated":             {workload: waiting(0, 60).Active(false).Obj(), want: RetryStateInactive},
		"about to be deactivated": {workload: waiting(0, 60).Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "Test", "", 5)).Obj(), want: RetryStateInactive},
		"reactivated": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 1).Obj(),
			want:     RetryStateReactivated,
		},
		"reactivated after Kueue had deactivated it": {
			workload: releasedAt(evictedFor(reserved(), "DeactivatedDueToAdmissionCheck", "", 0), metav1.ConditionFalse, "DeactivatedDueToAdmissionCheck", 1).Obj(),
			want:     RetryStateReactivated,
		},
		"a backoff of WaitForPodsReady":                             {workload: backoff().Obj(), want: RetryStateKeptOut},
		"a backoff that a check has moved":                          {workload: withBackoffUntil(backoff().Obj(), at(30)), want: RetryStateWaiting},
		"a backoff that no condition tells of":                      {workload: replaced(backoff(), conditionAt(kueue.WorkloadRequeued, metav1.ConditionTrue, "Test", "", 1)).Obj(), want: RetryStateKeptOut},
		"a stopped queue":                                           {workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).Obj(), want: RetryStateKeptOut},
		"a stopped queue, and a delay":                              {workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).Obj(), want: RetryStateWaiting},
		"evicted by a check with the gate off, and released":        {workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).Obj(), want: RetryStateWaiting},
		"not requeued, but not evicted: left to what has set it so": {workload: queued().Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, "", 0)).Obj(), want: RetryStateKeptOut},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := StateOf(tc.workload); got != tc.want {
				t.Errorf("Unexpected state %q, want %q", got, tc.want)
			}
		})
	}
}

// What the queues and the metrics ask for follows from the state as recorded.
func TestRecordedWait(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	queued := func() *utiltestingapi.WorkloadWrapper { return utiltestingapi.MakeWorkload("wl", "ns") }
	cases := map[string]struct {
		workload         *kueue.Workload
		wantMustWait     bool
		wantOnlyKeptOut  bool
		wantDeadline     time.Time
		wantBackoffUntil time.Time
		wantUnheard      bool
	}{
		"queued":                   {workload: queued().Obj()},
		"queued, a check in Retry": {workload: queued().AdmissionChecks(retryAt("a", 0, 60)).Obj(), wantMustWait: true},
		"queued, a check rejects":  {workload: queued().AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 0)).Obj(), wantMustWait: true},
		"waiting":                  {workload: waiting(0, 60).Obj(), wantMustWait: true, wantDeadline: at(60)},
		"its job is being stopped": {
			workload:     evictedFor(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "", 0).AdmissionChecks(retryAt("a", 0, 60)).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantMustWait: true,
			wantDeadline: at(60),
		},
		"holds quota, and has a time from before": {
			workload:     reserved().AdmissionChecks(retryAt("a", 0, 60)).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantMustWait: true,
		},
		"a backoff of WaitForPodsReady, kept out by a condition": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantMustWait:     true,
			wantOnlyKeptOut:  true,
			wantBackoffUntil: at(60),
		},
		"a backoff that the checks have moved": {
			workload:         withBackoffUntil(waiting(0, 60).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(), at(30)),
			wantMustWait:     true,
			wantDeadline:     at(60),
			wantBackoffUntil: at(30),
		},
		"a backoff that no condition tells of": {
			workload:         queued().RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantBackoffUntil: at(60),
			wantUnheard:      true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := MustWait(tc.workload); got != tc.wantMustWait {
				t.Errorf("Unexpected MustWait %t, want %t", got, tc.wantMustWait)
			}
			if got, want := MustWaitForChecks(tc.workload), tc.wantMustWait && !tc.wantOnlyKeptOut; got != want {
				t.Errorf("Unexpected MustWaitForChecks %t, want %t", got, want)
			}
			if got, waits := RetryDeadline(tc.workload); waits != !tc.wantDeadline.IsZero() || waits && !got.Equal(tc.wantDeadline) {
				t.Errorf("Unexpected deadline %s, waits %t; want %s", got, waits, tc.wantDeadline)
			}
			if got := backoffUntil(tc.workload); !got.Equal(tc.wantBackoffUntil) {
				t.Errorf("Unexpected backoffUntil %s, want %s", got, tc.wantBackoffUntil)
			}
			if _, got := BackoffWithoutCondition(tc.workload); got != tc.wantUnheard {
				t.Errorf("Unexpected backoff without a condition: %t, want %t", got, tc.wantUnheard)
			}
		})
	}
}
