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

// Package requeue decides when a workload whose admission checks ask for a retry is
// evicted, waits and is requeued (KEP-3258).
//
// A wait is a part of the status: requeueState.requeueAt, and the condition Requeued, which is
// False with the reason AdmissionCheck. Next computes it from the workload, the policies of
// its checks and the time; the workload controller writes what differs.
package requeue

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// Action is what the workload controller does next.
type Action string

const (
	// None leaves the workload to the rest of the reconciliation.
	None Action = "None"
	// Reject has the workload deactivated, since a check rejects it.
	Reject Action = "Reject"
	// Deactivate has the workload deactivated, since a check is over the limit of its policy.
	Deactivate Action = "Deactivate"
	// Reset removes what a deactivated workload has of its retries, or a reactivated one of answers
	// from before.
	Reset Action = "Reset"
	// Evict evicts the workload from its quota, which is released at once unless its job has to
	// be stopped before. The wait begins with the same write.
	Evict Action = "Evict"
	// Wait keeps the workload out of the queue. If it was in the queue, it is evicted from there.
	Wait Action = "Wait"
	// Requeue puts the workload back into the queue, with all its checks Pending.
	Requeue Action = "Requeue"
	// ResetCounts sets the retry counts of the checks that are Ready to 0.
	ResetCounts Action = "ResetCounts"
)

// Retry is what a check in the state Retry asks for.
type Retry struct {
	kueue.AdmissionCheckState
	// DelaySeconds is the delay that counts: that of the check, or that of its policy.
	DelaySeconds int32
	// fromPolicy is true for a delay of the policy.
	fromPolicy bool
}

// Step is the next action for a workload, and what it is due to.
type Step struct {
	Action Action
	// Retries are the checks in the state Retry; to deactivate, those over their limit.
	Retries []Retry
	// Until is the time at which the workload is to be requeued, in whole seconds, or
	// zero if nothing asks for a delay.
	Until time.Time
	// EvictedAt is the time of the eviction with which the wait begins, from the quota or from
	// the queue, to be written into the condition Evicted. It is zero if the workload waits
	// already.
	EvictedAt time.Time
}

// state is what the rules look at.
type state struct {
	wl       *kueue.Workload
	now      time.Time
	policies Policies
	retries  []Retry

	evictedAt, until time.Time
}

// rules are asked in this order, and the first that applies decides.
var rules = []func(*state) (Step, bool){
	inactive,
	deactivating,
	reactivated,
	rejected,
	limitExceeded,
	noRetry,
	holdsQuota,
	deadlineAhead,
	deadlineOver,
}

// Next returns the next step for an unfinished workload at the time now. Policies has the
// retry policies of its checks.
//
// With the gate ACRequeueAfter off it only looks after workloads that would be stuck, or keep
// something of their retries when they are deactivated.
func Next(wl *kueue.Workload, now time.Time, policies Policies) Step {
	if len(wl.Status.AdmissionChecks) == 0 && !IsWaitingForRetry(wl) {
		return Step{Action: None}
	}
	s := &state{wl: wl, now: now, policies: policies}
	s.retries = retriesOf(wl, policies)
	if len(s.retries) > 0 && mustEvict(wl, now) {
		s.evictedAt = workloadpatching.RoundUp(now)
	}
	s.until = deadline(wl, s.retries, s.evictedAt)
	if !features.Enabled(features.ACRequeueAfter) {
		return s.gateOff()
	}
	for _, rule := range rules {
		if step, applies := rule(s); applies {
			return step
		}
	}
	return Step{Action: None}
}

// inactive: a deactivated workload keeps nothing of its retries. It is evicted first, by the
// rest of the reconciliation, unless it waits and so is evicted already.
func inactive(s *state) (Step, bool) {
	if workload.IsActive(s.wl) {
		return Step{}, false
	}
	if !workloadevict.IsEvicted(s.wl) {
		return Step{Action: None}, true
	}
	if !workloadevict.IsEvictedByDeactivation(s.wl) || hasRetryState(s.wl) {
		return Step{Action: Reset}, true
	}
	return Step{Action: None}, true
}

// deactivating: the rest of the reconciliation deactivates the workload.
func deactivating(s *state) (Step, bool) {
	return Step{Action: None}, apimeta.IsStatusConditionTrue(s.wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
}

// reactivated: the rest of the reconciliation ends the eviction for the deactivation. Before, what
// a check said of the deactivated workload is reset: a rejection would deactivate it anew each
// time. So is what is left if it was activated again before its Reset.
func reactivated(s *state) (Step, bool) {
	if !workloadevict.IsEvictedByDeactivation(s.wl) || workload.HasQuotaReservation(s.wl) {
		return Step{}, false
	}
	isLeft := len(s.retries) == 0 && !IsWaitingForRetry(s.wl) && hasRetryState(s.wl)
	if isLeft || workload.HasRejectedChecks(s.wl) {
		return Step{Action: Reset}, true
	}
	return Step{Action: None}, true
}

// rejected: a rejection wins, whether the workload holds quota or waits.
func rejected(s *state) (Step, bool) {
	return Step{Action: Reject}, workload.HasRejectedChecks(s.wl)
}

// limitExceeded: a check that was retried as often as its policy allows is as good as Rejected.
func limitExceeded(s *state) (Step, bool) {
	exceeded := s.policies.exceeded(s.retries)
	return Step{Action: Deactivate, Retries: exceeded}, len(exceeded) > 0
}

// noRetry: no check asks for a retry, and the workload does not wait for one. The counts
// of checks that are Ready go with the admission, if that is due.
func noRetry(s *state) (Step, bool) {
	if len(s.retries) > 0 || IsWaitingForRetry(s.wl) {
		return Step{}, false
	}
	admissionIsDue := workload.HasQuotaReservation(s.wl) && !workload.IsAdmitted(s.wl) && workload.HasAllChecksReady(s.wl)
	if hasCountsOfReadyChecks(s.wl) && !admissionIsDue {
		return Step{Action: ResetCounts}, true
	}
	return Step{Action: None}, true
}

// holdsQuota: the eviction does not wait for the deadline. It ends when the job has
// stopped; until then the checks may move the deadline.
func holdsQuota(s *state) (Step, bool) {
	if !workload.HasQuotaReservation(s.wl) {
		return Step{}, false
	}
	switch {
	case workloadevict.IsEvicted(s.wl):
		return s.step(Wait), true
	case len(s.retries) > 0:
		return s.step(Evict), true
	default:
		return Step{Action: None}, true
	}
}

// deadlineAhead: no check may be retried before the deadline of all. The counts of checks
// that have become Ready go with the record of the wait, if that is due.
func deadlineAhead(s *state) (Step, bool) {
	step := s.step(Wait)
	if step.IsRecorded(s.wl) && hasCountsOfReadyChecks(s.wl) {
		step.Action = ResetCounts
	}
	return step, s.now.Before(s.until)
}

// deadlineOver: the workload is tried again.
func deadlineOver(s *state) (Step, bool) {
	return s.step(Requeue), true
}

// gateOff requeues a workload without quota at its requeueAt if a check is in Retry: the
// scheduler refuses it, and without the gate only an eviction from its quota resets the check.
// A deactivated one is reset: the deactivation removes requeueAt, and NeedsRequeueAtUpdate,
// which looks at the delays alone, would set it again.
func (s *state) gateOff() Step {
	if len(s.retries) == 0 || !IsWaitingForRetry(s.wl) && RequeueAt(s.wl).IsZero() {
		return Step{Action: None}
	}
	if step, isInactive := inactive(s); isInactive {
		return step
	}
	if !workload.HasQuotaReservation(s.wl) && !workload.HasRejectedChecks(s.wl) && !s.now.Before(RequeueAt(s.wl)) {
		return s.step(Requeue)
	}
	return Step{Action: None}
}

func (s *state) step(action Action) Step {
	return Step{Action: action, Retries: s.retries, Until: s.until, EvictedAt: s.evictedAt}
}

// retriesOf returns the checks in Retry, with their delays.
func retriesOf(wl *kueue.Workload, policies Policies) []Retry {
	var retries []Retry
	for _, check := range workload.RetryChecks(wl) {
		retry := Retry{AdmissionCheckState: check}
		if check.RequeueAfterSeconds != nil {
			retry.DelaySeconds = *check.RequeueAfterSeconds
		} else {
			retry.DelaySeconds, retry.fromPolicy = policies.delay(wl, check)
		}
		retries = append(retries, retry)
	}
	return retries
}

// deadline returns the time at which the workload is to be requeued: when the longest
// delay is over, and not before the end of a backoff.
func deadline(wl *kueue.Workload, retries []Retry, evictedAt time.Time) time.Time {
	until := backoffUntil(wl)
	if evicted, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl); byCheck && evictedAt.IsZero() {
		evictedAt = evicted.LastTransitionTime.Time
	}
	for _, retry := range retries {
		if retry.DelaySeconds > 0 {
			start := later(evictedAt, workloadpatching.RoundUp(retry.LastTransitionTime.Time))
			until = later(until, start.Add(time.Duration(retry.DelaySeconds)*time.Second))
		}
	}
	if maxTime := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC); until.After(maxTime) {
		return maxTime // the API holds no later one
	}
	return until
}

// mustEvict returns true if a check in Retry evicts the workload now: from its quota, or
// from the queue. In a backoff it is out of the queue already. A slice without quota must not
// be evicted: its job would make it anew.
func mustEvict(wl *kueue.Workload, now time.Time) bool {
	if workload.HasQuotaReservation(wl) {
		return !workloadevict.IsEvicted(wl)
	}
	return !IsWaitingForRetry(wl) && !now.Before(RequeueAt(wl)) && !workload.IsElasticWorkload(wl)
}

// backoffUntil returns requeueAt if a backoff has set it, and not the checks. After a timeout of
// WaitForPodsReady it cannot be told apart, and is kept.
func backoffUntil(wl *kueue.Workload) time.Time {
	if _, byPodsReady := workloadevict.IsEvictedByPodsReadyTimeout(wl); IsWaitingForRetry(wl) && !byPodsReady {
		return time.Time{}
	}
	return RequeueAt(wl)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
