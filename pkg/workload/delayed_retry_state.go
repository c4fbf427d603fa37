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
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// RetryState says where a workload, which is not finished, stands with regard to
// the retries of its admission checks.
type RetryState string

const (
	// RetryStateInactive: deactivated, or about to be.
	RetryStateInactive RetryState = "Inactive"
	// RetryStateOnHold: it has no quota, and its job does not want any now.
	RetryStateOnHold RetryState = "OnHold"
	// RetryStateReserved: it holds quota, and is to keep it.
	RetryStateReserved RetryState = "Reserved"
	// RetryStateStopping: it is evicted, and holds its quota until its job is stopped.
	RetryStateStopping RetryState = "Stopping"
	// RetryStateReactivated: it has no quota, and is to be queued as new.
	RetryStateReactivated RetryState = "Reactivated"
	// RetryStateWaiting: it has no quota, and waits for its admission checks.
	RetryStateWaiting RetryState = "Waiting"
	// RetryStateKeptOut: it has no quota, and something else keeps it out of the
	// queue: a backoff of WaitForPodsReady, or a stopped queue.
	RetryStateKeptOut RetryState = "KeptOut"
	// RetryStateQueued: it has no quota, and nothing keeps it out of the queue.
	RetryStateQueued RetryState = "Queued"
)

// StateOf returns the state of the workload, from its fields and from the
// reasons of its conditions alone.
func StateOf(wl *kueue.Workload) RetryState {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	switch keptOut := isKeptOut(wl); {
	case !IsActive(wl) || apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget):
		return RetryStateInactive
	case isOnHold(wl):
		return RetryStateOnHold
	case HasQuotaReservation(wl) && workloadevict.IsEvicted(wl):
		return RetryStateStopping
	case HasQuotaReservation(wl):
		return RetryStateReserved
	case keptOut && strings.HasPrefix(requeued.Reason, kueue.WorkloadDeactivated):
		return RetryStateReactivated
	case keptOut && requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck && workloadevict.IsEvicted(wl),
		isRecordedForChecks(wl),
		// A backoff that nothing else ends.
		!requeueAt(wl).IsZero() && keptOut && !isKeptOutByBackoff(wl):
		return RetryStateWaiting
	case keptOut || !requeueAt(wl).IsZero():
		return RetryStateKeptOut
	default:
		return RetryStateQueued
	}
}

// stateOfLeftWaiting is StateOf with the gate off, and tells of those alone that
// were waiting when the gate was switched off: they have a requeueAt and a check in
// Retry, which the rest of Kueue would leave as they are for good, or what only the
// gate brings, the reason of a wait or a requeueAt without a count in the queue.
// All others are Queued, which means that they are left alone.
func stateOfLeftWaiting(wl *kueue.Workload) RetryState {
	inQueue := !endsBackoffsInQueue && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
	switch {
	case !IsActive(wl):
		return RetryStateInactive
	case requeueAt(wl).IsZero(), !HasRetryChecks(wl) && !tellsOfWait(wl) && (!inQueue || wl.Status.RequeueState.Count != nil):
		return RetryStateQueued
	case HasQuotaReservation(wl), isOnHold(wl), apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget):
		return RetryStateQueued
	default:
		return RetryStateWaiting
	}
}

// MustWait returns true if the scheduler is not to consider the workload before
// it is written again: it is kept out of the queue, waits for its checks, which the
// reconciler ends, or has a check that the reconciler has yet to act on. It does
// not depend on the time, so that all replicas agree.
func MustWait(wl *kueue.Workload) bool {
	return MustWaitForChecks(wl) || features.Enabled(features.ACRequeueAfter) && isKeptOut(wl)
}

// MustWaitForChecks is MustWait without those that have to wait for what is not of
// their checks, a backoff of WaitForPodsReady or a stopped queue: they are kept out by
// a condition alone, which changes when that is over.
func MustWaitForChecks(wl *kueue.Workload) bool {
	if !features.Enabled(features.ACRequeueAfter) {
		return stateOfLeftWaiting(wl) == RetryStateWaiting
	}
	return isRecordedForChecks(wl) || HasRetryChecks(wl) || HasRejectedChecks(wl) || isKeptOut(wl) && tellsOfWait(wl)
}

// BackoffWithoutCondition returns the time until which a backoff of another's
// lasts that no condition tells of, and whether there is one, with the gate on. It
// is over by the clock, and nobody writes that.
func BackoffWithoutCondition(wl *kueue.Workload) (time.Time, bool) {
	return requeueAt(wl), features.Enabled(features.ACRequeueAfter) &&
		!requeueAt(wl).IsZero() && !isRecordedForChecks(wl) && !isKeptOut(wl) && IsAdmissible(wl) && StateOf(wl) != RetryStateInactive
}

// isKeptOutByBackoff returns true if Requeued is false because of a backoff: it
// becomes true with its end, whereas a stopped queue keeps it false.
func isKeptOutByBackoff(wl *kueue.Workload) bool {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return isKeptOut(wl) && (requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck || requeued.Reason == kueue.WorkloadEvictedByPodsReadyTimeout)
}

// isKeptOut returns true if a condition keeps the workload out of the queue.
func isKeptOut(wl *kueue.Workload) bool {
	return apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)
}

// RetryDeadline returns the time until which the workload waits for the retry of its
// admission checks, as it was recorded, and whether it does: from its eviction on, also
// while its job is stopped.
func RetryDeadline(wl *kueue.Workload) (time.Time, bool) {
	keepsQuota := HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl)
	return requeueAt(wl), !requeueAt(wl).IsZero() && !keepsQuota && (HasRetryChecks(wl) || tellsOfWait(wl))
}

// tellsOfWait returns true if a condition says that the workload waits for the
// retry of its checks.
func tellsOfWait(wl *kueue.Workload) bool {
	cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	return cond != nil && cond.Reason == kueue.WorkloadWaitingForRetry
}

// isToldToWait returns true if the checks of the workload, which is evicted, were
// looked at, and requeueAt was recorded for them: what any client of the API leaves
// as it is says so.
func isToldToWait(wl *kueue.Workload) bool {
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return evictedByCheck && isRecordedForChecks(wl) || tellsOfWait(wl) && requeueAt(wl).After(evictedAt(wl))
}

// requeueAt returns the recorded time, or zero.
func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil {
		return time.Time{}
	}
	return times.Of(wl.Status.RequeueState.RequeueAt)
}

// isRecordedForChecks returns true if requeueAt was recorded for the checks. All
// who record another backoff keep a count beside it, which the checks have in
// retryCount: so a requeueAt without a count comes from the checks, and one with a
// count does not, unless backoffUntil stands beside it. One from before the
// eviction belongs to an earlier backoff.
func isRecordedForChecks(wl *kueue.Workload) bool {
	state := wl.Status.RequeueState
	return !requeueAt(wl).IsZero() &&
		(state.Count == nil || !times.Of(state.BackoffUntil).IsZero() && !state.BackoffUntil.Time.Before(evictedAt(wl)))
}

// backoffUntil returns the time until which the workload has to wait whatever
// its checks ask for, or zero.
func backoffUntil(wl *kueue.Workload) time.Time {
	switch {
	case !isRecordedForChecks(wl):
		return requeueAt(wl)
	case wl.Status.RequeueState.Count == nil:
		return time.Time{}
	default:
		return wl.Status.RequeueState.BackoffUntil.Time
	}
}

// mayRun returns true if the job of one that holds quota may have pods: it is admitted,
// or was so, with this quota, until a check was added.
func mayRun(wl *kueue.Workload) bool {
	admitted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadAdmitted)
	reserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	return IsAdmitted(wl) ||
		wasAdmitted(wl) && admitted != nil && reserved != nil && reserved.LastTransitionTime.Before(&admitted.LastTransitionTime)
}

// evictedAt returns the time of the eviction, or zero.
func evictedAt(wl *kueue.Workload) time.Time {
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	if evicted == nil || evicted.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return evicted.LastTransitionTime.Time
}
