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
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// RetryAction is the next step that the admission checks of a workload ask for.
type RetryAction string

const (
	// RetryNone: nothing is due, or the rest of Kueue sees to it.
	RetryNone RetryAction = ""
	// RetryEvict: the workload holds quota, evict it and record the deadline.
	RetryEvict RetryAction = "Evict"
	// RetryReject: a check rejected the workload after its eviction, deactivate it.
	RetryReject RetryAction = "Reject"
	// RetryGiveUp: a check may not be retried any more, deactivate the workload.
	RetryGiveUp RetryAction = "GiveUp"
	// RetryHold: the workload is queued, take it out of the queue and record the deadline.
	RetryHold RetryAction = "Hold"
	// RetryRecord: the workload was evicted, and its deadline is not the recorded one.
	RetryRecord RetryAction = "Record"
	// RetryWait: nothing is to be written before the deadline.
	RetryWait RetryAction = "Wait"
	// RetryRequeue: the deadline is over, reset the checks and requeue.
	RetryRequeue RetryAction = "Requeue"
	// RetryDeactivate: the workload is to be deactivated, make it inactive.
	RetryDeactivate RetryAction = "Deactivate"
	// RetryForget: the workload is deactivated, forget all that its checks asked for.
	RetryForget RetryAction = "Forget"
	// RetryReactivate: the workload was deactivated and is active again, requeue it.
	RetryReactivate RetryAction = "Reactivate"
)

// retryDemand is what the admission checks of a workload ask for, against what
// was recorded for them.
type retryDemand int

const (
	// demandNothing: no check is in Retry, and nothing is left of an earlier one.
	demandNothing retryDemand = iota
	// demandAhead: the deadline is ahead, but not the recorded one.
	demandAhead
	// demandAheadRecorded: the deadline is ahead, and recorded.
	demandAheadRecorded
	// demandOver: the deadline is over, and not the recorded one.
	demandOver
	// demandOverRecorded: the deadline is over, and recorded.
	demandOverRecorded
	// demandRejected: a check is in Rejected.
	demandRejected
	// demandExhausted: a check that asks for a retry may not be retried any more.
	demandExhausted
)

// retryActions leads from the state of a workload and the demand of its checks
// to the action, which is RetryNone where none is named. The KEP has it as a table.
var retryActions = map[RetryState]map[retryDemand]RetryAction{
	RetryStateReserved: {
		demandAhead:         RetryEvict,
		demandAheadRecorded: RetryEvict,
		demandOver:          RetryEvict,
		demandOverRecorded:  RetryEvict,
		demandExhausted:     RetryGiveUp,
	},
	RetryStateStopping: {
		demandAhead:     RetryRecord,
		demandOver:      RetryRecord,
		demandRejected:  RetryReject,
		demandExhausted: RetryGiveUp,
	},
	RetryStateWaiting: {
		demandAhead:         RetryRecord,
		demandAheadRecorded: RetryWait,
		demandOver:          RetryRequeue,
		demandOverRecorded:  RetryRequeue,
		demandRejected:      RetryReject,
		demandExhausted:     RetryGiveUp,
	},
	RetryStateKeptOut: {
		demandAhead:         RetryRecord,
		demandAheadRecorded: RetryWait,
		demandOver:          RetryRequeue,
		demandOverRecorded:  RetryRequeue,
		demandRejected:      RetryReject,
		demandExhausted:     RetryGiveUp,
	},
	RetryStateQueued: {
		demandAhead:         RetryHold,
		demandAheadRecorded: RetryHold,
		demandOver:          RetryRequeue,
		demandOverRecorded:  RetryRequeue,
		demandRejected:      RetryReject,
		demandExhausted:     RetryGiveUp,
	},
	// A retry is for the end of the hold.
	RetryStateOnHold: {
		demandRejected: RetryReject,
	},
	RetryStateReactivated: {
		demandNothing:       RetryReactivate,
		demandAhead:         RetryReactivate,
		demandAheadRecorded: RetryReactivate,
		demandOver:          RetryReactivate,
		demandOverRecorded:  RetryReactivate,
		demandRejected:      RetryReject,
		demandExhausted:     RetryReactivate,
	},
}

// RetryPlan is the outcome of PlanRetry.
type RetryPlan struct {
	Action RetryAction
	// EvictedAt is the time of the eviction, from which the delays count at the
	// earliest. It is now, and to be recorded, where a wait starts.
	EvictedAt time.Time
	// Deadline is the time, in whole seconds, before which the workload must not
	// have quota reserved. For the RetryWait of one that is deactivated it is the time
	// to look at it again.
	Deadline time.Time
	// Message says which checks asked for the retry, until when, and why.
	Message string
	// Checks are those in state Retry, with the delays that policies give them. For
	// RetryGiveUp they are those that may not be retried any more.
	Checks []kueue.AdmissionCheckState
	// Observed are those whose policies were looked at, to be recorded.
	Observed []kueue.ObservedRetry
	// ReleasesQuota is true for a RetryEvict with no job to stop first.
	ReleasesQuota bool
	// Untidy is true if a delay or a count that means nothing any more is to be
	// removed, before the action, which writes nothing.
	Untidy bool
	// ResetsCounts is true if a count is among what is removed.
	ResetsCounts bool
	// KeepsChecks is true for a RetryRequeue, with the gate off, that leaves the checks as
	// they are: none asks for a retry.
	KeepsChecks bool
}

// RetryPolicy is what delays the retries of a check that asks for no delay itself,
// and limits those of one that does.
type RetryPolicy interface {
	// DelaySeconds returns the delay, in seconds from 0 to the largest int32, of the
	// retry that follows on count others.
	DelaySeconds(count int32) int32
	// Allows returns true if the check may be retried once more after count retries,
	// from 0 on.
	Allows(count int32) bool
}

// RetryContext is what PlanRetry has to know beside the workload.
type RetryContext struct {
	// Now is the current time.
	Now time.Time
	// IsRequired returns false for checks that the ClusterQueue does not ask for
	// any more. They are ignored. If it is nil, none are.
	IsRequired func(kueue.AdmissionCheckReference) bool
	// ReplacesSlice is true for the slice of an elastic job that is to take over
	// from another one, whose pods run on while this one is not admitted.
	ReplacesSlice bool
	// Policies are those of checks in state Retry. Nil if checks cannot have any.
	Policies map[kueue.AdmissionCheckReference]RetryPolicy
}

// PlanRetry decides what is due for wl, which is not finished, because of its
// admission checks in state Retry or Rejected. It depends on its arguments alone.
//
// The rules are those of the KEP.
func PlanRetry(wl *kueue.Workload, rctx RetryContext) RetryPlan {
	state := StateOf(wl)
	switch {
	case isDeactivatedInQueue(wl):
		return RetryPlan{Action: RetryForget}
	case state == RetryStateInactive && IsActive(wl) && workloadevict.IsEvicted(wl):
		// Before what holds up one that is to be queued, as resources that DRA does not know.
		// Nobody has evicted the others, which the rest of Kueue does.
		return RetryPlan{Action: RetryDeactivate}
	case state == RetryStateInactive:
		return planInactive(wl, rctx.Now)
	}

	plan := RetryPlan{EvictedAt: evictedAt(wl)}
	rejected := false
	for _, check := range wl.Status.AdmissionChecks {
		if rctx.IsRequired == nil || rctx.IsRequired(check.Name) {
			rejected = rejected || check.State == kueue.CheckStateRejected
			if check.State == kueue.CheckStateRetry {
				plan.Checks = append(plan.Checks, check)
			}
		}
	}
	exhausted, unrecorded := plan.observe(wl, state, rctx.Policies)
	switch {
	case state == RetryStateReserved || state == RetryStateQueued:
		plan.EvictedAt = evictionTime(plan.Checks, rctx.Now)
	case state == RetryStateKeptOut && workloadevict.IsEvicted(wl) && (requeueAt(wl).IsZero() || !isKeptOut(wl) && !requeueAt(wl).After(rctx.Now)):
		// By a queue that was stopped, maybe long ago, or a backoff that is over: no eviction
		// told of the delays.
		plan.EvictedAt = times.Later(plan.EvictedAt, evictionTime(plan.Checks, rctx.Now))
	}
	until := plan.setDeadline(backoffUntil(wl))
	plan.Action = retryActions[state][plan.demandOf(wl, state, retryFacts{
		rejected: rejected, exhausted: len(exhausted) > 0, unrecorded: unrecorded, ahead: rctx.Now.Before(until),
	})]
	plan.Untidy = (plan.Action == RetryNone || plan.Action == RetryWait) && isUntidy(wl)
	plan.ResetsCounts = plan.Untidy && resetsCounts(wl)
	plan.ReleasesQuota = plan.Action == RetryEvict && !mayRun(wl) && !rctx.ReplacesSlice
	switch plan.Action {
	case RetryNone, RetryReject, RetryReactivate:
		return RetryPlan{Action: plan.Action, Untidy: plan.Untidy, ResetsCounts: plan.ResetsCounts}
	case RetryGiveUp:
		return RetryPlan{Action: plan.Action, Checks: exhausted, Message: exhaustedMessage(exhausted)}
	default:
		plan.Message = waitMessage(plan.Checks, plan.EvictedAt, plan.Deadline, backoffUntil(wl))
		return plan
	}
}

// notLookedAt is the transition time, in the record, of a Retry that was not looked at.
var notLookedAt = metav1.Unix(0, 0)

// observe gives the checks that ask for no delay that of their policy, and returns
// those that may not be retried any more. Both are looked at when a Retry comes, and
// recorded with it, because policies may change while the workload waits. It also
// returns true if there is a Retry that is to be recorded for that alone.
func (p *RetryPlan) observe(wl *kueue.Workload, state RetryState, policies map[kueue.AdmissionCheckReference]RetryPolicy) (exhausted []kueue.AdmissionCheckState, unrecorded bool) {
	var record []kueue.ObservedRetry
	told := false
	if state != RetryStateReserved && state != RetryStateQueued {
		record, told = observedRetries(wl), isToldToWait(wl)
	}
	held, byOthers := p.heldDelay(wl)
	for i := range p.Checks {
		check := &p.Checks[i]
		before, found := observedRetry(record, check.Name)
		if policies == nil && !found {
			continue
		}
		// A controller that sets what Kueue has set says the same.
		own := before.DelaySeconds != nil && ptr.Equal(before.DelaySeconds, check.RequeueAfterSeconds)
		asks := check.RequeueAfterSeconds != nil && !own
		same := found && before.LastTransitionTime.Equal(&check.LastTransitionTime)
		// Said again without a delay, where there was no policy, it says nothing new: a policy
		// that comes is not for those that wait.
		known := same && (asks || before.DelaySeconds != nil) || found && !asks && ptr.Equal(before.DelaySeconds, ptr.To[int32](0))
		policy, hasPolicy := policies[check.Name]
		observed := kueue.ObservedRetry{Name: check.Name, LastTransitionTime: check.LastTransitionTime}
		switch {
		case known || policies == nil:
			observed = before
			if check.RequeueAfterSeconds == nil && before.DelaySeconds != nil {
				check.LastTransitionTime = before.LastTransitionTime // what was recorded holds
			}
		case told && len(record) == 0 && (!p.isLate(*check) || checkDeadline(*check, p.EvictedAt).Equal(requeueAt(wl))):
			// The gate was off, or a controller that does not know the record has dropped
			// it, and would drop it again.
			observed.DelaySeconds = ptr.To(held)
			unrecorded = unrecorded || (byOthers && !asks)
		default:
			count := ptr.Deref(check.RetryCount, 0)
			if hasPolicy && !same && !policy.Allows(count) {
				exhausted = append(exhausted, *check)
			}
			isOpen := before.LastTransitionTime.Equal(&notLookedAt)
			unrecorded = unrecorded || ((len(record) > 0 || !told) && (hasPolicy || isOpen || !asks))
			observed.DelaySeconds = ptr.To[int32](0)
			if own {
				observed.DelaySeconds = before.DelaySeconds
			} else if hasPolicy {
				observed.DelaySeconds = ptr.To(policy.DelaySeconds(count))
			}
		}
		switch {
		case asks:
			observed.DelaySeconds = nil
		case hasPolicy || ptr.Deref(observed.DelaySeconds, 0) > 0:
			check.RequeueAfterSeconds = observed.DelaySeconds
		default:
			check.RequeueAfterSeconds = nil
		}
		p.Observed = append(p.Observed, observed)
	}
	// Those that were withdrawn stay, so that a record that is empty was dropped.
	for _, before := range record {
		if _, again := observedRetry(p.Observed, before.Name); !again && admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, before.Name) != nil {
			p.Observed = append(p.Observed, before)
		}
	}
	return exhausted, unrecorded
}

// heldDelay returns the delay of a check that asks for none, in a wait without a
// record: the rest of it, unless the delays that other checks ask for explain it, or a
// backoff. It also returns whether they do, which they may withdraw.
func (p *RetryPlan) heldDelay(wl *kueue.Workload) (seconds int32, byOthers bool) {
	byOthers = latestDeadline(p.Checks, p.EvictedAt, time.Time{}).Equal(requeueAt(wl))
	if byOthers || requeueAt(wl).Equal(backoffUntil(wl)) {
		return 0, byOthers
	}
	return secondsUntil(requeueAt(wl), p.EvictedAt), false
}

// isLate returns true if the check has spoken after the eviction for sure: both times
// are in whole seconds.
func (p *RetryPlan) isLate(check kueue.AdmissionCheckState) bool {
	return check.LastTransitionTime.After(p.EvictedAt)
}

// observedRetries returns the record of the Retries that were looked at.
func observedRetries(wl *kueue.Workload) []kueue.ObservedRetry {
	if wl.Status.RequeueState == nil {
		return nil
	}
	return wl.Status.RequeueState.ObservedRetries
}

// observedRetry returns what the record has of the check, and whether it has it.
func observedRetry(record []kueue.ObservedRetry, name kueue.AdmissionCheckReference) (kueue.ObservedRetry, bool) {
	i := slices.IndexFunc(record, func(observed kueue.ObservedRetry) bool { return observed.Name == name })
	if i < 0 {
		return kueue.ObservedRetry{}, false
	}
	return record[i], true
}

// setDeadline fills in the deadline, and returns the time until which there is something
// to wait for: where there is nothing, the time of the eviction has to be recorded all
// the same.
func (p *RetryPlan) setDeadline(backoffUntil time.Time) time.Time {
	until := latestDeadline(p.Checks, p.EvictedAt, backoffUntil)
	p.Deadline = times.Later(p.EvictedAt.Truncate(time.Second), until)
	return until
}

// retryFacts is what demandOf has to know beside the workload and the plan.
type retryFacts struct {
	rejected   bool // a check is in Rejected
	exhausted  bool // a check may not be retried any more
	unrecorded bool // there is a Retry that is not recorded
	ahead      bool // there is something to wait for
}

func (p *RetryPlan) demandOf(wl *kueue.Workload, state RetryState, facts retryFacts) retryDemand {
	// An earlier Retry may have been withdrawn.
	leftOver := state == RetryStateWaiting || (state == RetryStateStopping && isRecordedForChecks(wl))
	recorded := p.isRecorded(wl) && !facts.unrecorded
	switch {
	case facts.rejected:
		return demandRejected
	case facts.exhausted:
		return demandExhausted
	case len(p.Checks) == 0 && !leftOver:
		return demandNothing
	case facts.ahead && recorded:
		return demandAheadRecorded
	case facts.ahead:
		return demandAhead
	case recorded:
		return demandOverRecorded
	default:
		return demandOver
	}
}

// planInactive looks for what a deactivated workload has left of its retries. The
// answers of a controller that goes on after it are not removed more often than
// once a second.
func planInactive(wl *kueue.Workload, now time.Time) RetryPlan {
	if IsActive(wl) || !workloadevict.IsEvicted(wl) || !hasRetryTraces(wl) {
		return RetryPlan{}
	}
	if workloadevict.IsEvictedByDeactivation(wl) && isKeptOut(wl) && hasAnswers(wl) {
		// Forget sets it, whatever the times of the checks say.
		last := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).LastTransitionTime.Time
		if again := last.Add(time.Second); now.Before(again) && !last.After(now) {
			return RetryPlan{Action: RetryWait, Deadline: again}
		}
	}
	return RetryPlan{Action: RetryForget}
}

// hasAnswers returns true if a controller has answered since Kueue has removed what
// Kueue itself sets, be it with a delay alone.
func hasAnswers(wl *kueue.Workload) bool {
	counts := func(check kueue.AdmissionCheckState) bool { return check.RetryCount != nil }
	answers := func(check kueue.AdmissionCheckState) bool { return isAnswer(check.State) }
	checks := wl.Status.AdmissionChecks
	return slices.ContainsFunc(checks, answers) || wl.Status.RequeueState == nil && !isTargetOfCheck(wl) && !slices.ContainsFunc(checks, counts)
}

func isAnswer(state kueue.CheckState) bool {
	return state == kueue.CheckStateRetry || state == kueue.CheckStateRejected
}

// PlanLeftWaiting decides what is due, with the gate off, for a workload that was
// waiting when the gate was switched off: it is requeued at the time that was
// recorded last, whatever its checks ask for since, or forgets its retries if it
// is deactivated before.
func PlanLeftWaiting(wl *kueue.Workload, now time.Time) RetryPlan {
	plan := RetryPlan{Deadline: times.Storable(requeueAt(wl))}
	isDue := !now.Before(plan.Deadline)
	switch state := stateOfLeftWaiting(wl); {
	case state == RetryStateInactive:
		rejected := isTargetOfCheck(wl) && (tellsOfWait(wl) || HasRejectedChecks(wl) && isTargetSinceEviction(wl))
		if rejected || (!requeueAt(wl).IsZero() && HasRetryChecks(wl)) {
			return planInactive(wl, now)
		}
		return RetryPlan{}
	case isDue && (state == RetryStateWaiting || isKeptOutWithoutCount(wl)):
		plan.Action, plan.KeepsChecks = RetryRequeue, state != RetryStateWaiting
		return plan
	case state == RetryStateWaiting:
		plan.Action = RetryWait
		return plan
	default:
		return RetryPlan{}
	}
}

// isKeptOutWithoutCount returns true if the gate has evicted the workload, its quota was
// released with the gate off, and no check asks for the retry any more. The rest of Kueue
// waits for requeueAt, too, but its apply leaves an empty requeueState then, which the API
// server refuses for good if another client has written the time.
func isKeptOutWithoutCount(wl *kueue.Workload) bool {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return !endsBackoffsInQueue && !requeueAt(wl).IsZero() && wl.Status.RequeueState.Count == nil && !HasQuotaReservation(wl) && !isOnHold(wl) &&
		isKeptOut(wl) && requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck && !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
}

// IsNews returns true if wl is not known yet to wait until the deadline.
func (p RetryPlan) IsNews(wl *kueue.Workload) bool {
	return p.Action == RetryHold || !p.isRecorded(wl)
}

// isRecorded returns true if wl, which is evicted, is known to wait until the deadline.
func (p RetryPlan) isRecorded(wl *kueue.Workload) bool {
	return p.Deadline.Equal(requeueAt(wl)) && (HasQuotaReservation(wl) || isKeptOut(wl))
}

// NewDelays returns the checks whose delays wl is about to begin to observe: all
// that ask for one when its wait starts, then those that move its deadline on.
func (p RetryPlan) NewDelays(wl *kueue.Workload) []kueue.AdmissionCheckState {
	return slices.DeleteFunc(slices.Clone(p.Checks), func(check kueue.AdmissionCheckState) bool {
		movesOn := checkDeadline(check, p.EvictedAt).Equal(p.Deadline) && p.Deadline.After(requeueAt(wl))
		return check.RequeueAfterSeconds == nil || (p.Action == RetryRecord && !movesOn)
	})
}

// DueAt returns the time from which on the requeue of wl is late: the recorded deadline,
// or the release of the quota where the job took longer to stop. Zero if there was no
// wait, or if another deadline, which is over, was not recorded.
func (p RetryPlan) DueAt(wl *kueue.Workload) time.Time {
	if !p.Deadline.After(p.EvictedAt) || !p.Deadline.Equal(requeueAt(wl)) {
		return time.Time{}
	}
	quotaReserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	if quotaReserved == nil {
		return p.Deadline
	}
	return times.Later(p.Deadline, quotaReserved.LastTransitionTime.Time)
}

// isUntidy returns true if Tidy has something to remove.
func isUntidy(wl *kueue.Workload) bool {
	return resetsCounts(wl) || slices.ContainsFunc(wl.Status.AdmissionChecks, hasStrayDelay)
}

// resetsCounts returns true if Tidy has a count to reset. Kueue alone writes it, so that
// does not go on.
func resetsCounts(wl *kueue.Workload) bool {
	return slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return countsAfterSuccess(wl, check)
	})
}

// hasStrayDelay returns true for a delay that would be taken for one of the next
// Retry, if its controller then sets no more than the state.
func hasStrayDelay(check kueue.AdmissionCheckState) bool {
	return check.State != kueue.CheckStateRetry && check.RequeueAfterSeconds != nil
}

// countsAfterSuccess returns true if the check has succeeded, but still counts its
// retries, and no other write resets them: the admission does, which is due.
func countsAfterSuccess(wl *kueue.Workload, check kueue.AdmissionCheckState) bool {
	admitted := HasQuotaReservation(wl) && HasAllChecksReady(wl) && !HasTopologyAssignmentsPending(wl) && !IsAdmitted(wl)
	return check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 && !admitted
}

// isTargetOfCheck returns true if a check has had the workload deactivated.
func isTargetOfCheck(wl *kueue.Workload) bool {
	target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	return target != nil && target.Status == metav1.ConditionTrue &&
		(target.Reason == kueue.WorkloadEvictedByAdmissionCheck || target.Reason == kueue.WorkloadAdmissionCheckRetryLimitExceeded)
}

// isTargetSinceEviction returns true if the workload, which is evicted and to be
// deactivated, was evicted before a check had it deactivated: with the gate off a
// rejection is not looked at any more then.
func isTargetSinceEviction(wl *kueue.Workload) bool {
	target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return evictedByCheck || target.LastTransitionTime.After(evictedAt(wl))
}

// isDeactivatedInQueue returns true if the workload was deactivated while it was queued,
// as Requeued still says. It would not be queued again once it is active.
func isDeactivatedInQueue(wl *kueue.Workload) bool {
	return !IsActive(wl) && workloadevict.IsEvictedByDeactivation(wl) && !HasQuotaReservation(wl) && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
}

// IsDeactivatedAgain returns true if the Evicted condition of the workload, which is
// deactivated, is from a deactivation before this one: it was active in between. Forget
// records this one.
func IsDeactivatedAgain(wl *kueue.Workload) bool {
	if !workloadevict.IsEvictedByDeactivation(wl) {
		return false
	}
	// An eviction takes the target away. One of a check that is there is of a deactivation
	// since. Others may be set again while the job stops, and are left as they are.
	if isTargetOfCheck(wl) || isRecordedSinceEviction(wl) {
		return true
	}
	if !isDeactivatedInQueue(wl) {
		return false
	}
	// Times have no fractions of seconds: a reactivation is later than what it follows. One
	// from before may still be told of, where quota was lost without an eviction.
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	isReactivated := requeued.Reason == kueue.WorkloadReactivated && requeued.LastTransitionTime.Time.Equal(evictedAt(wl))
	return isReactivated || requeued.LastTransitionTime.After(evictedAt(wl))
}

// isRecordedSinceEviction returns true if a check spoke, and was heard, while the workload,
// which was evicted by a deactivation, was active again and its job stopped still. Once the
// quota is released, Evicted tells so if it was written before the spec changed again.
func isRecordedSinceEviction(wl *kueue.Workload) bool {
	if !features.Enabled(features.ACRequeueAfter) || !isRecordedForChecks(wl) {
		return false
	}
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	return HasQuotaReservation(wl) && !requeueAt(wl).Before(evictedAt(wl)) || evicted.ObservedGeneration < wl.Generation
}

// hasRetryTraces returns true if a deactivated workload has something to forget.
func hasRetryTraces(wl *kueue.Workload) bool {
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return evictedByCheck || isTargetOfCheck(wl) || tellsOfWait(wl) || isRecordedForChecks(wl) || slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return isAnswer(check.State) || check.RequeueAfterSeconds != nil || check.RetryCount != nil
	})
}
