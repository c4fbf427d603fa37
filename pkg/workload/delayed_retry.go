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
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/api"
	stringsutils "sigs.k8s.io/kueue/pkg/util/strings"
)

// retryMessagePrefix starts the message of the conditions while a workload waits
// for the retry of its admission checks. In the Evicted condition it tells that
// requeueAt was derived from the checks, and so may move back with them.
const retryMessagePrefix = "Admission check(s) "

// backoffMessagePrefix starts the message if a longer backoff keeps it waiting.
const backoffMessagePrefix = "Backoff of the workload, "

// noRetryMessage is the message when all checks have withdrawn their Retry.
const noRetryMessage = "No admission check asks for a retry any more"

// RetryAction is the next step that the admission checks of a workload ask for.
type RetryAction string

const (
	// RetryNone: the checks ask for nothing now.
	RetryNone RetryAction = ""
	// RetryEvict: the workload holds quota, evict it and record the deadline.
	RetryEvict RetryAction = "Evict"
	// RetryReject: a check rejected the workload after its eviction, deactivate it.
	RetryReject RetryAction = "Reject"
	// RetryHold: the workload is queued, take it out of the queue and record the deadline.
	RetryHold RetryAction = "Hold"
	// RetryRecord: the workload waits, and its deadline has changed.
	RetryRecord RetryAction = "Record"
	// RetryWait: the workload waits for its deadline, nothing is to be written.
	RetryWait RetryAction = "Wait"
	// RetryRequeue: the deadline is over, reset the checks and requeue.
	RetryRequeue RetryAction = "Requeue"
	// RetryForget: the workload is deactivated, forget all that its checks asked for.
	RetryForget RetryAction = "Forget"
	// RetryReactivate: the workload was deactivated by Kueue and is active again, requeue it.
	RetryReactivate RetryAction = "Reactivate"
)

// RetryPlan is the outcome of PlanRetry.
type RetryPlan struct {
	Action RetryAction
	// EvictedAt is the time of the eviction, from which the delays count at the
	// earliest. For RetryEvict and RetryHold it is the time to record.
	EvictedAt time.Time
	// Deadline is the time, in whole seconds, before which the workload must not
	// have quota reserved. Not before EvictedAt.
	Deadline time.Time
	// Message says which checks asked for the retry, and until when.
	Message string
	// Checks are those in state Retry.
	Checks []kueue.AdmissionCheckState
	// ReleasesQuota is true for a RetryEvict with no job to stop first.
	ReleasesQuota bool
}

// RetryContext is what PlanRetry has to know beside the workload.
type RetryContext struct {
	// Now is the current time.
	Now time.Time
	// IsRequired returns false for checks that the ClusterQueue does not ask for
	// any more. They are ignored.
	IsRequired func(kueue.AdmissionCheckReference) bool
	// PodsReadyBackoff is the longest time that WaitForPodsReady can have the
	// workload wait after its last eviction. Zero when that is not known.
	PodsReadyBackoff time.Duration
	// ReplacesSlice is true for the slice of an elastic job that is to take over
	// from another one, whose pods run on while this one is not admitted.
	ReplacesSlice bool
}

// PlanRetry decides what is due for wl, which is not finished, because of its
// admission checks in state Retry or Rejected. It depends on its arguments alone.
//
// See keps/3258-delayed-admission-check-retries for the rules.
func PlanRetry(wl *kueue.Workload, rctx RetryContext) RetryPlan {
	if !IsActive(wl) {
		if IsEvicted(wl) && hasRetryTraces(wl) {
			return RetryPlan{Action: RetryForget}
		}
		return RetryPlan{}
	}
	if apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) {
		return RetryPlan{}
	}
	var retry []kueue.AdmissionCheckState
	rejected := false
	for _, check := range wl.Status.AdmissionChecks {
		if rctx.IsRequired(check.Name) {
			rejected = rejected || check.State == kueue.CheckStateRejected
			if check.State == kueue.CheckStateRetry {
				retry = append(retry, check)
			}
		}
	}

	if HasQuotaReservation(wl) && !IsEvicted(wl) {
		if rejected || len(retry) == 0 {
			return RetryPlan{}
		}
		plan := newRetryPlan(RetryEvict, wl, retry, retryStart(retry, rctx.Now), rctx)
		plan.ReleasesQuota = !IsAdmitted(wl) && !rctx.ReplacesSlice
		return plan
	}
	if rejected {
		return RetryPlan{Action: RetryReject}
	}

	var evictedAt time.Time
	if IsEvicted(wl) {
		evictedAt = apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time
	}

	_, evictedByCheck := IsEvictedByAdmissionCheck(wl)
	if HasQuotaReservation(wl) {
		// The quota is released by the controller of the job.
		plan := newRetryPlan(RetryRecord, wl, retry, evictedAt, rctx)
		nothingToWaitFor := requeueAt(wl).IsZero() && !rctx.Now.Before(plan.Deadline)
		if (len(retry) == 0 && !evictedByCheck) || plan.Deadline.Equal(requeueAt(wl)) || nothingToWaitFor {
			return RetryPlan{}
		}
		return plan
	}

	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	queued := requeued == nil || requeued.Status == metav1.ConditionTrue
	switch {
	case !queued && requeued.Reason == kueue.WorkloadDeactivated:
		return RetryPlan{}
	case !queued && strings.HasPrefix(requeued.Reason, ReasonWithCause(kueue.WorkloadDeactivated, "")):
		return RetryPlan{Action: RetryReactivate}
	case len(retry) > 0 || requeueAt(wl).After(otherBackoff(wl, rctx.PodsReadyBackoff)) || (!queued && hasDelay(wl.Status.AdmissionChecks)):
		// A check asks for a retry, or has asked and left a trace.
	case queued && (requeueAt(wl).IsZero() || !evictedByCheck):
		return RetryPlan{}
	case !queued && (requeued.Reason != kueue.WorkloadEvictedByAdmissionCheck || !IsEvicted(wl)):
		return RetryPlan{}
	}

	if queued && requeueAt(wl).IsZero() {
		plan := newRetryPlan(RetryHold, wl, retry, retryStart(retry, rctx.Now), rctx)
		if !rctx.Now.Before(plan.Deadline) {
			plan.Action = RetryRequeue
		}
		return plan
	}

	plan := newRetryPlan(RetryWait, wl, retry, evictedAt, rctx)
	switch {
	case !rctx.Now.Before(plan.Deadline):
		plan.Action = RetryRequeue
	case queued || !plan.Deadline.Equal(requeueAt(wl)):
		plan.Action = RetryRecord
	}
	return plan
}

// PlanLeftWaiting decides what is due, with the gate off, for a workload that
// was waiting for the retry of its checks when the gate was switched off, which
// the messages tell: it is requeued at the time that was recorded last, or
// forgets its retries if it is deactivated before.
func PlanLeftWaiting(wl *kueue.Workload, now time.Time) RetryPlan {
	plan := RetryPlan{Deadline: requeueAt(wl)}
	switch {
	case !IsActive(wl):
		// The time goes with the deactivation, and the checks would stay in Retry.
		if IsLeftWaiting(wl) {
			plan.Action = RetryForget
		}
	case apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) || !IsWaitingForRetry(wl):
	case now.Before(plan.Deadline):
		plan.Action = RetryWait
	default:
		plan.Action = RetryRequeue
	}
	return plan
}

// IsLeftWaiting returns true if the workload has a time to wait for that was
// recorded with the gate on.
func IsLeftWaiting(wl *kueue.Workload) bool {
	return !requeueAt(wl).IsZero() && slices.ContainsFunc(wl.Status.Conditions, tellsOfRetry) &&
		(HasRetryChecks(wl) || HasRejectedChecks(wl) || apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued))
}

// IsWaitingForRetry returns true if the workload waits, without quota, for the
// retry of its checks.
func IsWaitingForRetry(wl *kueue.Workload) bool {
	return !HasQuotaReservation(wl) && IsLeftWaiting(wl)
}

// tellsOfRetry returns true if the message was written with the gate on.
func tellsOfRetry(cond metav1.Condition) bool {
	return strings.HasPrefix(cond.Message, retryMessagePrefix) || strings.HasPrefix(cond.Message, backoffMessagePrefix) || cond.Message == noRetryMessage
}

// newRetryPlan fills in the deadline: the latest of the delays of the checks,
// each counted from evictedAt or from the transition of the check, whichever is
// later, and of the backoff that the workload has to observe apart from them.
func newRetryPlan(action RetryAction, wl *kueue.Workload, retry []kueue.AdmissionCheckState, evictedAt time.Time, rctx RetryContext) RetryPlan {
	plan := RetryPlan{Action: action, EvictedAt: evictedAt, Checks: retry}
	deadline := evictedAt
	names := make([]kueue.AdmissionCheckReference, 0, len(retry))
	for _, check := range retry {
		names = append(names, check.Name)
		deadline = later(deadline, plan.DeadlineOf(check))
	}
	slices.Sort(names)

	backoff := otherBackoff(wl, rctx.PodsReadyBackoff)
	plan.Deadline = later(deadline, backoff).Truncate(time.Second)
	until := plan.Deadline.UTC().Format(time.RFC3339)
	switch {
	case backoff.After(deadline):
		plan.Message = backoffMessagePrefix + "waiting until " + until
		if len(names) > 0 {
			plan.Message += fmt.Sprintf("; retry of admission check(s) %s after it", stringsutils.Join(names, ","))
		}
	case len(names) == 0:
		plan.Message = noRetryMessage
	case deadline.After(evictedAt):
		plan.Message = fmt.Sprintf("%s%s asked for a retry, waiting until %s", retryMessagePrefix, stringsutils.Join(names, ","), until)
	default:
		plan.Message = fmt.Sprintf("%s%s asked for a retry", retryMessagePrefix, stringsutils.Join(names, ","))
	}
	return plan
}

// DeadlineOf returns the time before which the check does not want the workload
// to be tried again: the eviction, if it asks for no delay.
func (p RetryPlan) DeadlineOf(check kueue.AdmissionCheckState) time.Time {
	if check.RequeueAfterSeconds == nil {
		return p.EvictedAt
	}
	start := later(check.LastTransitionTime.Time, p.EvictedAt)
	return start.Add(time.Duration(*check.RequeueAfterSeconds) * time.Second)
}

// NewDelays returns the checks whose delays wl is about to begin to observe: all
// that ask for one when its wait starts, then those that move its deadline on.
func (p RetryPlan) NewDelays(wl *kueue.Workload) []kueue.AdmissionCheckState {
	return slices.DeleteFunc(slices.Clone(p.Checks), func(check kueue.AdmissionCheckState) bool {
		movesOn := p.DeadlineOf(check).Equal(p.Deadline) && p.Deadline.After(requeueAt(wl))
		return check.RequeueAfterSeconds == nil || (p.Action == RetryRecord && !movesOn)
	})
}

// retryStart returns now, rounded up to a whole second when a check asks for a
// delay: the API drops fractions of seconds, which would cut the delay short.
func retryStart(retry []kueue.AdmissionCheckState, now time.Time) time.Time {
	if whole := now.Truncate(time.Second); hasDelay(retry) && whole.Before(now) {
		return whole.Add(time.Second)
	}
	return now
}

func hasDelay(checks []kueue.AdmissionCheckState) bool {
	return slices.ContainsFunc(checks, func(check kueue.AdmissionCheckState) bool {
		return ptr.Deref(check.RequeueAfterSeconds, 0) > 0
	})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

// otherBackoff returns the time until which the workload has to wait for another
// reason than the delays of its checks: a PodsReadyTimeout, or an admission check
// that uses requeueState. Zero if there is none.
func otherBackoff(wl *kueue.Workload, podsReadyBackoff time.Duration) time.Time {
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	if evicted == nil || evicted.Status != metav1.ConditionTrue {
		return requeueAt(wl)
	}
	switch {
	case evicted.Reason == kueue.WorkloadEvictedByPodsReadyTimeout && podsReadyBackoff > 0:
		// A longer delay may have moved requeueAt since.
		if longest := evicted.LastTransitionTime.Add(podsReadyBackoff); longest.Before(requeueAt(wl)) {
			return longest
		}
		return requeueAt(wl)
	case evicted.Reason == kueue.WorkloadEvictedByPodsReadyTimeout,
		evicted.Reason == kueue.WorkloadEvictedByAdmissionCheck && !strings.HasPrefix(evicted.Message, retryMessagePrefix):
		return requeueAt(wl)
	default:
		return time.Time{}
	}
}

// RecordDeadline puts the deadline of the plan into requeueAt and, together with
// the checks that asked for it, into the messages of the conditions. It releases
// the quota if the plan does.
func (p RetryPlan) RecordDeadline(wl *kueue.Workload) {
	if wl.Status.RequeueState == nil {
		wl.Status.RequeueState = &kueue.RequeueState{}
	}
	wl.Status.RequeueState.RequeueAt = ptr.To(metav1.NewTime(p.Deadline))
	if p.ReleasesQuota {
		UnsetQuotaReservationWithCondition(wl, "Pending", p.Message, p.EvictedAt)
	}
	if p.Action == RetryHold {
		SetEvictedCondition(wl, p.EvictedAt, kueue.WorkloadEvictedByAdmissionCheck, p.Message)
		// A workload that was requeued has the condition still true.
		apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(p.EvictedAt)
	}
	if evicted, byCheck := IsEvictedByAdmissionCheck(wl); byCheck {
		evicted.Message = api.TruncateConditionMessage(p.Message)
	}
	if HasQuotaReservation(wl) {
		return
	}
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved); cond != nil {
		cond.Message = api.TruncateConditionMessage(p.Message)
	}
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued); cond == nil ||
		cond.Status == metav1.ConditionTrue ||
		cond.Reason == kueue.WorkloadEvictedByAdmissionCheck || cond.Reason == kueue.WorkloadEvictedByPodsReadyTimeout {
		SetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck, p.Message, false)
	}
}

// Requeue ends the wait of the workload: it sets all admission checks back to
// Pending, counts the retry of those in state Retry, lets those that succeeded
// count from zero, and sets Requeued, unless a stopped queue keeps it false.
func (p RetryPlan) Requeue(wl *kueue.Workload, now time.Time) {
	if wl.Status.RequeueState != nil {
		wl.Status.RequeueState.RequeueAt = nil
		if wl.Status.RequeueState.Count == nil {
			wl.Status.RequeueState = nil
		}
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
		*check = kueue.AdmissionCheckState{
			Name:               check.Name,
			State:              kueue.CheckStatePending,
			LastTransitionTime: metav1.NewTime(now),
			Message:            "Reset to Pending on requeue. Previously: " + string(check.State),
			RetryCount:         retryCount,
		}
	}
	const message = "The workload backoff was finished"
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued); cond == nil ||
		cond.Status == metav1.ConditionTrue ||
		cond.Reason == kueue.WorkloadEvictedByAdmissionCheck || cond.Reason == kueue.WorkloadEvictedByPodsReadyTimeout {
		SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, message, true)
	}
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved); cond != nil {
		cond.Message = message
	}
}

// WaitsForRetry returns true if Reconcile has to requeue the workload, which has
// just lost its quota, after a retry of its checks.
func WaitsForRetry(wl *kueue.Workload) bool {
	_, evictedByCheck := IsEvictedByAdmissionCheck(wl)
	return features.Enabled(features.ACRequeueAfter) && (evictedByCheck || HasRetryChecks(wl))
}

// RetryEnded returns true if the checks of the workload were set back from
// Retry between the two versions of it, so that it is worth scheduling again.
func RetryEnded(oldWl, newWl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && HasRetryChecks(oldWl) && !HasRetryChecks(newWl)
}

// Forget removes everything that retries have left on a deactivated workload, so
// that it is as new when it is activated again.
func (p RetryPlan) Forget(wl *kueue.Workload, now time.Time) {
	resetChecksOnEviction(wl, now)
	for i := range wl.Status.AdmissionChecks {
		wl.Status.AdmissionChecks[i].RequeueAfterSeconds = nil
		wl.Status.AdmissionChecks[i].RetryCount = nil
	}
	wl.Status.RequeueState = nil

	if _, evictedByCheck := IsEvictedByAdmissionCheck(wl); evictedByCheck {
		reason, message := kueue.WorkloadDeactivated, "The workload is deactivated"
		if target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget); target != nil {
			reason = ReasonWithCause(reason, target.Reason)
			message = fmt.Sprintf("%s due to %s", message, target.Message)
		}
		SetEvictedCondition(wl, now, reason, message)
		if apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) {
			SetRequeuedCondition(wl, reason, message, false)
		}
	}
	apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
}

// hasRetryTraces returns true if a deactivated workload has something to forget.
func hasRetryTraces(wl *kueue.Workload) bool {
	_, evictedByCheck := IsEvictedByAdmissionCheck(wl)
	return evictedByCheck || slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected ||
			check.RequeueAfterSeconds != nil || check.RetryCount != nil
	})
}

// resetChecksForEviction sets the checks to Pending as the eviction of the
// workload asks for. A delay that a check asked for holds whatever the reason of
// the eviction, and when a check is that reason, the controllers of all may
// speak until the workload is requeued: these states are left alone.
func resetChecksForEviction(wl *kueue.Workload, now time.Time) {
	if !features.Enabled(features.ACRequeueAfter) {
		resetChecksOnEviction(wl, now)
		return
	}
	before := slices.Clone(wl.Status.AdmissionChecks)
	resetChecksOnEviction(wl, now)
	_, evictedByCheck := IsEvictedByAdmissionCheck(wl)
	for i, check := range before {
		deactivated := IsEvictedByDeactivation(wl)
		switch {
		case !deactivated && (evictedByCheck || check.State == kueue.CheckStateRetry):
			wl.Status.AdmissionChecks[i] = check
		case (deactivated || check.State == kueue.CheckStateReady) && check.RetryCount != nil:
			wl.Status.AdmissionChecks[i].RetryCount = ptr.To[int32](0)
		}
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

// withoutRetryFields returns the check as Kueue applies it. What Kueue applies
// it owns: a delay would outlive its removal by the check's controller. A count
// is only ever applied to reset it.
func withoutRetryFields(check kueue.AdmissionCheckState) kueue.AdmissionCheckState {
	check.RequeueAfterSeconds = nil
	if ptr.Deref(check.RetryCount, 0) != 0 {
		check.RetryCount = nil
	}
	return check
}

// applyToVersion applies the status that update sets, as PatchAdmissionStatus
// does, to the version that it was decided on: no write undoes a check state that
// it has not seen. Unless strict, it goes on to a later version that differs in
// nothing that the write would undo. If update changes w itself, w gets the
// resource version that results, so that another write can follow.
func applyToVersion(ctx context.Context, c client.Client, w *kueue.Workload, clk clock.Clock, update func() (*kueue.Workload, bool, error), strict bool) error {
	seen := w.DeepCopy()
	updated, changed, err := update()
	if err != nil || !changed {
		return err
	}
	version := updated.ResourceVersion
	apply := func() error {
		patch := PrepareWorkloadPatch(updated, true, clk)
		patch.ResourceVersion = version
		err := ApplyAdmissionStatusPatch(ctx, c, patch)
		if err == nil && w == updated {
			w.ResourceVersion = patch.ResourceVersion
		}
		return err
	}

	refused := apply()
	if strict || !apierrors.IsConflict(refused) {
		return refused
	}
	err = wait.ExponentialBackoffWithContext(ctx, retry.DefaultRetry, func(ctx context.Context) (bool, error) {
		latest := &kueue.Workload{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(w), latest); err != nil {
			return false, err
		}
		if latest.ResourceVersion == version {
			return false, nil // the cache is behind
		}
		if !canApplyTo(seen, latest, clk) {
			return false, refused
		}
		version = latest.ResourceVersion
		err := apply()
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		return refused
	}
	return err
}

// canApplyTo returns true if latest is the workload that an apply was decided on
// for, and the apply would undo nothing there but a note on why it has no quota.
func canApplyTo(seen, latest *kueue.Workload, clk clock.Clock) bool {
	applied := func(wl *kueue.Workload) kueue.WorkloadStatus {
		status := PrepareWorkloadPatch(wl, false, clk).Status
		status.AdmissionChecks = wl.Status.AdmissionChecks
		status.ResourceRequests = nil
		apimeta.RemoveStatusCondition(&status.Conditions, kueue.WorkloadQuotaReserved)
		// What the scheduler assumed has fractions of seconds, which the API drops.
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = status.Conditions[i].LastTransitionTime.Rfc3339Copy()
		}
		if latest.Status.ClusterName == nil {
			status.ClusterName = nil // the scheduler may have taken it from an old slice
		}
		return status
	}
	return seen.UID == latest.UID && seen.Generation == latest.Generation && IsFinished(seen) == IsFinished(latest) &&
		HasQuotaReservation(seen) == HasQuotaReservation(latest) &&
		equality.Semantic.DeepEqual(applied(seen), applied(latest))
}
