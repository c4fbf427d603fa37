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
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// Record puts the deadline of the plan into requeueAt and, together with the
// checks that asked for it, into the messages of the conditions. A RetryEvict and
// a RetryHold evict the workload; the quota is released if the plan does.
func (p RetryPlan) Record(wl *kueue.Workload) {
	recordTime(wl, p.Deadline, p.EvictedAt)
	wl.Status.RequeueState.ObservedRetries = p.Observed
	for _, check := range p.Checks {
		// What was recorded for the Retry before is no delay of this one.
		if said := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name); said.LastTransitionTime.Equal(&check.LastTransitionTime) {
			said.RequeueAfterSeconds = check.RequeueAfterSeconds
		}
	}
	for i := range wl.Status.AdmissionChecks {
		if check := &wl.Status.AdmissionChecks[i]; countsAfterSuccess(wl, *check) {
			check.RetryCount = ptr.To[int32](0)
		}
	}
	switch p.Action {
	case RetryEvict, RetryHold:
		workloadevict.SetEvictedCondition(wl, p.EvictedAt, kueue.WorkloadEvictedByAdmissionCheck, p.Message)
		// A workload that was requeued has the condition still true.
		apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(p.EvictedAt)
		if p.Action == RetryHold {
			endTurnInQueue(wl, p.EvictedAt, p.Message)
		}
	default:
		tellOfEviction(wl, p.Message)
		if p.EvictedAt.After(evictedAt(wl)) { // the wait starts
			apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(p.EvictedAt)
		}
	}
	if HasQuotaReservation(wl) && !p.ReleasesQuota {
		return
	}
	UnsetQuotaReservationWithCondition(wl, kueue.WorkloadWaitingForRetry, p.Message, p.EvictedAt)
	if !isKeptOut(wl) || isKeptOutByBackoff(wl) {
		SetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck, p.Message, false)
	}
}

// GiveUp has the workload deactivated, because checks may not be retried any more.
func (p RetryPlan) GiveUp(wl *kueue.Workload) {
	SetDeactivationTarget(wl, kueue.WorkloadAdmissionCheckRetryLimitExceeded, api.TruncateConditionMessage(p.Message))
}

func recordTime(wl *kueue.Workload, deadline, evictedAt time.Time) {
	backoff := times.Storable(backoffUntil(wl))
	if wl.Status.RequeueState == nil {
		wl.Status.RequeueState = &kueue.RequeueState{}
	}
	wl.Status.RequeueState.RequeueAt = ptr.To(metav1.NewTime(deadline))
	if wl.Status.RequeueState.Count != nil {
		wl.Status.RequeueState.BackoffUntil = ptr.To(metav1.NewTime(times.Later(backoff, evictedAt.Truncate(time.Second))))
	}
}

// Requeue ends the wait of the workload: it sets all admission checks back to
// Pending, counts the retry of those in state Retry, lets those that succeeded
// count from zero, and sets Requeued, unless a stopped queue keeps it false. No
// condition tells of the wait any more.
func (p RetryPlan) Requeue(wl *kueue.Workload, now time.Time) {
	if _, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl); evictedByCheck || tellsOfWait(wl) || isRecordedForChecks(wl) {
		tellOfEviction(wl, waitOverMessage(checksInRetry(wl)))
	}
	forgetTime(wl)
	if p.KeepsChecks {
		SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, backoffFinishedMessage, true)
		return
	}
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		retryCount := check.RetryCount
		switch check.State {
		case kueue.CheckStateReady:
			retryCount = nil
		case kueue.CheckStateRetry:
			retryCount = ptr.To(min(ptr.Deref(retryCount, 0), math.MaxInt32-1) + 1)
		}
		*check = pendingAgain(*check, now, "requeue")
		check.RetryCount = retryCount
	}
	ForgetWorker(wl)
	if !isKeptOut(wl) || isKeptOutByBackoff(wl) {
		SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, backoffFinishedMessage, true)
	}
	if apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved) != nil {
		UnsetQuotaReservationWithCondition(wl, pendingReason(), backoffFinishedMessage, now)
	}
}

// MustConclude returns true if the workload has finished in a wait that its checks asked
// for, and still tells of it. A backoff of WaitForPodsReady is none.
func MustConclude(wl *kueue.Workload) bool {
	return workloadfinish.IsFinished(wl) && (tellsOfWait(wl) || isRecordedForChecks(wl))
}

// Conclude ends the wait of a workload for which MustConclude is true, as it is for a job
// that completes while it is stopped. It is not requeued, and what its checks ask for
// stays as it is; but no condition tells of the wait any more.
func Conclude(wl *kueue.Workload, now time.Time) {
	message := finishedMessage(checksInRetry(wl))
	tellOfEviction(wl, message)
	if isKeptOutByBackoff(wl) {
		tell(wl, kueue.WorkloadRequeued, message)
	}
	// The release of the quota may have copied what Evicted said.
	if reserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved); reserved != nil && !HasQuotaReservation(wl) && !isOnHold(wl) {
		UnsetQuotaReservationWithCondition(wl, pendingReason(), message, now)
	}
	forgetTime(wl)
}

// forgetTime removes the time until which the workload waits, and all that belongs to it
// but the count of WaitForPodsReady.
func forgetTime(wl *kueue.Workload) {
	if wl.Status.RequeueState == nil {
		return
	}
	wl.Status.RequeueState.RequeueAt = nil
	wl.Status.RequeueState.BackoffUntil = nil
	wl.Status.RequeueState.ObservedRetries = nil
	if wl.Status.RequeueState.Count == nil {
		wl.Status.RequeueState = nil
	}
}

// ForgetWorker removes what tells of worker clusters from a workload without quota, whose
// check that has chosen one is asked again. The API server does not take another name in
// the place of this one.
func ForgetWorker(wl *kueue.Workload) {
	if !HasQuotaReservation(wl) {
		wl.Status.ClusterName = nil
		wl.Status.NominatedClusterNames = nil
	}
}

// EndBackoff requeues a workload at the end of a backoff of another's, as Kueue does
// without the gate.
func EndBackoff(wl *kueue.Workload) {
	forgetTime(wl)
	SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, backoffFinishedMessage, true)
}

// pendingAgain returns the check, set back to Pending at now, without all that its
// controller has set.
func pendingAgain(check kueue.AdmissionCheckState, now time.Time, occasion string) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{
		Name:               check.Name,
		State:              kueue.CheckStatePending,
		LastTransitionTime: metav1.NewTime(now),
		Message:            resetMessage(check, occasion),
	}
}

// Tidy removes the delays of checks that are not in Retry, and the counts of
// those that have succeeded.
func Tidy(wl *kueue.Workload) {
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		if countsAfterSuccess(wl, *check) {
			check.RetryCount = nil
		}
		if hasStrayDelay(*check) {
			check.RequeueAfterSeconds = nil
		}
	}
}

// Forget removes everything that retries have left on a deactivated workload, so
// that it is as new when it is activated again. The conditions tell of the
// deactivation, and when it was.
func Forget(wl *kueue.Workload, now time.Time) {
	if !workloadevict.IsEvictedByDeactivation(wl) || IsDeactivatedAgain(wl) {
		reason, message := kueue.WorkloadDeactivated, "The workload is deactivated"
		if target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget); target != nil {
			reason = workloadpatching.ReasonWithCause(reason, target.Reason)
			message = fmt.Sprintf("%s due to %s", message, target.Message)
		}
		workloadevict.SetEvictedCondition(wl, now, reason, message)
		apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(now)
	}
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	// The plain reason, after which a Kueue without the gate queues it again, too.
	SetRequeuedCondition(wl, kueue.WorkloadDeactivated, evicted.Message, false)
	apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).LastTransitionTime = metav1.NewTime(now)
	if !HasQuotaReservation(wl) && !isOnHold(wl) {
		UnsetQuotaReservationWithCondition(wl, pendingReason(), evicted.Message, now)
	}
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		if check.State != kueue.CheckStatePending {
			*check = pendingAgain(*check, now, "deactivation")
		}
		check.RequeueAfterSeconds = nil
		check.RetryCount = nil
	}
	ForgetWorker(wl)
	wl.Status.RequeueState = nil
	apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
}

// resetChecksForEviction sets the checks to Pending as the eviction of the
// workload, at now, asks for. A delay that a check asked for, and a rejection, hold
// whatever the reason of the eviction, and when a check is that reason, the
// controllers of all may speak until the workload is requeued: these states are
// left alone, and the deadline is recorded with the eviction. The rest is for reset.
func resetChecksForEviction(wl *kueue.Workload, now time.Time, reset func(*kueue.Workload, time.Time)) {
	if !features.Enabled(features.ACRequeueAfter) {
		reset(wl, now)
		return
	}
	before := slices.Clone(wl.Status.AdmissionChecks)
	reset(wl, now)
	deactivated := workloadevict.IsEvictedByDeactivation(wl)
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	for i, check := range before {
		after := &wl.Status.AdmissionChecks[i]
		if !deactivated && (evictedByCheck || isAnswer(check.State)) {
			*after = check
			continue
		}
		after.RequeueAfterSeconds = nil
		after.RetryCount = check.RetryCount
		if (deactivated || check.State == kueue.CheckStateReady) && check.RetryCount != nil {
			after.RetryCount = ptr.To[int32](0)
		}
	}
	if retry := checksInRetry(wl); len(retry) > 0 && !evictedByCheck {
		// A check may get a delay after the eviction, by its controller or a policy.
		evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
		if evicted.LastTransitionTime.Time.Equal(now) {
			evicted.LastTransitionTime = metav1.NewTime(times.RoundedUp(now))
		}
		plan := RetryPlan{Action: RetryRecord, Checks: retry, Observed: observedBefore(wl, retry), EvictedAt: evicted.LastTransitionTime.Time}
		plan.setDeadline(backoffUntil(wl))
		plan.Message = waitMessage(plan.Checks, plan.EvictedAt, plan.Deadline, backoffUntil(wl))
		plan.Record(wl)
	}
}

// observedBefore returns the record of an eviction that looks at no policy. What has not
// been looked at stands in it all the same, so that it is not taken for one whose record
// was dropped. It has no more entries than there are checks.
func observedBefore(wl *kueue.Workload, retry []kueue.AdmissionCheckState) []kueue.ObservedRetry {
	record := slices.DeleteFunc(slices.Clone(observedRetries(wl)), func(observed kueue.ObservedRetry) bool {
		return admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, observed.Name) == nil
	})
	if !features.Enabled(features.ACRetryStrategy) {
		return record
	}
	for _, check := range retry {
		if _, found := observedRetry(record, check.Name); !found {
			record = append(record, kueue.ObservedRetry{Name: check.Name, LastTransitionTime: notLookedAt})
		}
	}
	return record
}

func checksInRetry(wl *kueue.Workload) []kueue.AdmissionCheckState {
	return slices.DeleteFunc(slices.Clone(wl.Status.AdmissionChecks), func(check kueue.AdmissionCheckState) bool {
		return check.State != kueue.CheckStateRetry
	})
}

// KeepWaiting has the conditions of a workload that was evicted, and whose quota
// was just released, say that it waits if a deadline is recorded: an eviction by
// preemption would have it queued.
func KeepWaiting(wl *kueue.Workload) {
	if !features.Enabled(features.ACRequeueAfter) || !isRecordedForChecks(wl) || HasQuotaReservation(wl) || workloadevict.IsEvictedByDeactivation(wl) {
		return
	}
	apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved).Reason = kueue.WorkloadWaitingForRetry
	if requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued); !isKeptOut(wl) {
		SetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck, requeued.Message, false)
	}
}

// resetRetryCounts makes the checks of a workload that becomes admitted count
// from zero again.
func resetRetryCounts(wl *kueue.Workload, admitted metav1.ConditionStatus) {
	if admitted != metav1.ConditionTrue || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	for i := range wl.Status.AdmissionChecks {
		if check := &wl.Status.AdmissionChecks[i]; check.RetryCount != nil {
			check.RetryCount = ptr.To[int32](0)
		}
	}
}
