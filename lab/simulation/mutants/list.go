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

package mutants

import (
	"slices"
	"strings"
)

const (
	deadline   = "pkg/workload/delayed_retry_deadline.go"
	plan       = "pkg/workload/delayed_retry_plan.go"
	policy     = "pkg/workload/delayed_retry_policy.go"
	write      = "pkg/workload/delayed_retry_write.go"
	message    = "pkg/workload/delayed_retry_message.go"
	times      = "pkg/workload/times/times.go"
	reconciler = "pkg/controller/core/workload_delayed_retry.go"
	tidying    = "pkg/controller/core/workload_delayed_retry_tidy.go"
	queues     = "pkg/cache/queue/delayed_retry.go"
	queuesBase = "pkg/cache/queue/delayed_retry_base.go"
	scheduler  = "pkg/scheduler/delayed_retry.go"
	state      = "pkg/workload/delayed_retry_state.go"
	controller = "pkg/controller/core/workload_controller.go"
	jobs       = "pkg/controller/jobframework/delayed_retry.go"
	attempts   = "pkg/controller/admissionchecks/provisioning/delayed_retry_attempts.go"
	requests   = "pkg/controller/admissionchecks/provisioning/delayed_retry.go"
)

// Why the simulation does not find what a test finds.
const (
	tooShort  = "its moment is as short as two requests, or a second"
	tooSeldom = "needs several things at once, which few schedules have"
	unread    = "changes words or metrics that the judge does not read"
	pace      = "changes how soon Kueue writes again, which the judge does not ask"
	records   = "needs a policy that changes, or a record that an old client drops, at one moment"
	scaled    = "needs a job that is scaled while a check speaks of one of its slices"
	tenants   = "needs a slice that names one of another job, which nobody there forges"
	oneFlavor = "needs a ProvisioningRequest for one flavor alone"
	noDRA     = "needs DRA"
)

// All are built together, and switched on one at a time.
var All = append([]Mutant{
	{
		// As upstream resets them, so that a retry is forgotten with its delay.
		Name: "reset-at-eviction", File: write,
		Rules: []string{"rule 3"},
		Old:   `if !deactivated && (evictedByCheck || isAnswer(check.State)) {`,
		New:   `if !MUTANT && !deactivated && (evictedByCheck || isAnswer(check.State)) {`,
	},
	{
		// The stuck state of the KEP.
		Name: "lost-late-retry", File: plan,
		Rules: []string{"rule 4", "rule 7, never stuck"},
		Old:   "state := StateOf(wl)\n",
		New:   "state := StateOf(wl)\nif MUTANT && state == RetryStateQueued {\nreturn RetryPlan{}\n}\n",
	},
	{
		// Its delay is over when it comes, if the clock of its controller is behind.
		Name: "retry-in-a-stopped-queue-counts-from-the-eviction", File: plan,
		Test: "pkg/workload TestRetryInStoppedQueue",
		Why:  tooSeldom,
		Old:  "case state == RetryStateKeptOut &&",
		New:  "case !MUTANT && state == RetryStateKeptOut &&",
	},
	{
		// An old transition time, sent again, would shorten the delays of the others.
		Name: "eviction-moved-back", File: write,
		Rules: []string{"rule 1"},
		Old:   "if p.EvictedAt.After(evictedAt(wl)) { // the wait starts",
		New:   "if checks := p.Checks; MUTANT && len(checks) > 0 && checks[0].LastTransitionTime.Time.Before(evictedAt(wl)) {\napimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = checks[0].LastTransitionTime\n} else if p.EvictedAt.After(evictedAt(wl)) { // the wait starts",
	},
	{
		// Where it stands in the queue is by the time of the eviction.
		Name: "requeued-at-the-end-of-the-queue", File: write,
		Rules: []string{"rule 16"},
		Old:   "if p.KeepsChecks {",
		New:   "if evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); MUTANT && evicted != nil {\nevicted.LastTransitionTime = metav1.NewTime(now)\n}\nif p.KeepsChecks {",
	},
	{
		Name: "answer-that-nobody-asks-for-kept", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_check_that_the_ClusterQueue_asks_no_more_for_says_Retry_in_a_stopped_LocalQueue,_while_the_workload_is_pending",
		Why:  tooSeldom,
		Old:  "if cq != nil && !restarted && !workload.HasQuotaReservation(wl) {",
		New:  "if !MUTANT && cq != nil && !restarted && !workload.HasQuotaReservation(wl) {",
	},
	{
		// As the base, which looks for the resources first.
		Name: "target-of-a-deactivation-not-acted-on", File: plan,
		Test: "pkg/controller/core TestRejectedWorkloadWithDRA",
		Why:  noDRA,
		Old:  "case state == RetryStateInactive && IsActive(wl) &&",
		New:  "case !MUTANT && state == RetryStateInactive && IsActive(wl) &&",
	},
	{
		Name: "no-limit-in-a-backoff", File: plan,
		Test: "pkg/workload TestPlanRetryWithPolicies/in_a_backoff_of_WaitForPodsReady:_the_limit_is_reached",
		Why:  tooSeldom,
		Old:  "case facts.exhausted:",
		New:  "case facts.exhausted && !(MUTANT && state == RetryStateKeptOut):",
	},
	{
		Name: "deactivation-by-a-clock-ahead-kept", File: plan,
		Test: "pkg/workload TestPlanRetry/deactivated,_and_the_clock_of_the_leader_before_was_ahead",
		Why:  tooSeldom,
		Old:  "now.Before(again) && !last.After(now) {",
		New:  "now.Before(again) && (MUTANT || !last.After(now)) {",
	},
	{
		Name: "delay-of-a-policy-not-observed", File: plan,
		Test: "pkg/controller/core TestReconcileRetryPolicy/each_retry_waits_longer,_no_write_more,_then_the_limit;_WorkloadRequestUseMergePatch=false",
		Why:  unread,
		Old:  "return check.RequeueAfterSeconds == nil || (p.Action",
		New:  "return check.RequeueAfterSeconds == nil || MUTANT && len(p.Observed) > 0 || (p.Action",
	},
	{
		Name: "limit-off-by-one", File: policy, Policy: true,
		Rules: []string{"rule 17, limit"},
		Old:   "count < *p.spec.LimitCount",
		New:   "(count < *p.spec.LimitCount || MUTANT && count == *p.spec.LimitCount)",
	},
	{
		// A controller that asks for 0 wants its workload back at once.
		Name: "zero-taken-for-none", File: plan, Policy: true,
		Rules: []string{"rule 7, never stuck"},
		Old:   "asks := check.RequeueAfterSeconds != nil",
		New:   "asks := check.RequeueAfterSeconds != nil && !(MUTANT && *check.RequeueAfterSeconds == 0)",
	},
	{
		Name: "policy-over-a-delay-of-its-own", File: plan, Policy: true,
		Rules: []string{"rule 3", "rule 7, never stuck"},
		Old:   "asks := check.RequeueAfterSeconds",
		New:   "asks := !MUTANT && check.RequeueAfterSeconds",
	},
	{
		Name: "jitter-that-shortens", File: policy, Policy: true,
		Rules: []string{"rule 17, delay"},
		Old:   "return wholeSeconds(delay.Mul(",
		New:   "if MUTANT {\njitter.Neg(jitter)\n}\nreturn wholeSeconds(delay.Mul(",
	},
	{
		Name: "count-of-another-check", File: plan, Policy: true,
		Rules: []string{"rule 17, limit", "rule 3"},
		Old:   "count := ptr.Deref(check.RetryCount, 0)",
		New:   "count := ptr.Deref(check.RetryCount, 0)\nif MUTANT {\ncount = ptr.Deref(p.Checks[0].RetryCount, 0)\n}",
	},
	{
		Name: "double-count", File: write,
		Rules: []string{"rule 6 and 10"},
		Old:   "case kueue.CheckStateRetry:\n\t\t\tretryCount =",
		New:   "case kueue.CheckStateRetry:\nif MUTANT {\nretryCount = ptr.To(ptr.Deref(retryCount, 0) + 1)\n}\n\t\t\tretryCount =",
	},
	{
		Name: "apply-from-an-old-copy", File: writes,
		Rules: []string{"rule 9", "rule 6 and 10", "rule 7, never early"},
		Old:   "if features.Enabled(features.ACRequeueAfter) {\n\t\treturn patchVersion",
		New:   "if !MUTANT && features.Enabled(features.ACRequeueAfter) {\n\t\treturn patchVersion",
	},
	{
		Name: "apply-over-what-was-not-seen", File: apply,
		Rules: []string{"rule 9", "rule 6 and 10", "rule 7, never early", "quota and admission"},
		Old:   "if !canApplyTo(",
		New:   "if !MUTANT && !canApplyTo(",
	},
	{
		// The delay is cut short by the fraction of a second that the API drops.
		Name: "eviction-in-the-past", File: deadline,
		Rules: []string{"rule 1"},
		Old:   "return times.RoundedUp(now)",
		New:   "if MUTANT {\nreturn now\n}\nreturn times.RoundedUp(now)",
	},
	{
		Name: "fraction-of-a-transition-cut", File: times,
		Rules: []string{"rule 4"},
		Old:   `if check.State == kueue.CheckStateRetry {`,
		New:   `if check.State == kueue.CheckStateRetry && !MUTANT {`,
	},
	{
		// For controllers that send old transition times again.
		Name: "deadline-from-the-transition-alone", File: deadline,
		Rules: []string{"rule 3", "rule 4"},
		Old:   "start := times.Later(check.LastTransitionTime.Time, evictedAt)",
		New:   "start := times.Later(check.LastTransitionTime.Time, evictedAt)\nif MUTANT {\nstart = check.LastTransitionTime.Time\n}",
	},
	{
		Name: "no-delay-counts-from-the-transition", File: deadline,
		Rules: []string{"rule 7, never stuck"},
		Old:   "return ptr.Deref(check.RequeueAfterSeconds, 0) > 0",
		New:   `return ptr.Deref(check.RequeueAfterSeconds, 0) > 0 || MUTANT && check.RequeueAfterSeconds != nil`,
	},
	{
		Name: "no-latest-time", File: times,
		Rules: []string{"rule 1, no write is refused", "conditions, old times", "rule 5"},
		Old:   "if t = RoundedUp(t); t.After(latestTime) {",
		New:   `if t = RoundedUp(t); t.After(latestTime) && !MUTANT {`,
	},
	{
		Name: "times-not-repaired", File: times,
		Rules: []string{"rule 1, no write is refused"},
		Old:   "func repaired(wl *kueue.Workload, t metav1.Time) metav1.Time {\n\tswitch {\n",
		New:   "func repaired(wl *kueue.Workload, t metav1.Time) metav1.Time {\n\tswitch {\ncase MUTANT:\nreturn t\n",
	},
	{
		// As the later releases of upstream do.
		Name: "quota-kept-for-the-delay", File: reconciler,
		Rules: []string{"rule 3"},
		Old:   "case workload.RetryEvict:\n",
		New:   "case workload.RetryEvict:\nif MUTANT && plan.Deadline.After(now) {\nreturn true, ctrl.Result{RequeueAfter: plan.Deadline.Sub(now)}, nil\n}\n",
	},
	{
		// Retried, or deactivated, for a check that nobody asks for.
		Name: "dropped-check-heard-in-a-stopped-queue", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_check_that_the_ClusterQueue_asks_no_more_for_says_Retry_in_a_stopped_LocalQueue,_while_the_workload_is_pending",
		Why:  tooSeldom,
		Old:  "if workload.StateOf(wl) == workload.RetryStateReserved {\n\t\t\treturn nil, nil //",
		New:  "if state := workload.StateOf(wl); state == workload.RetryStateReserved || (MUTANT && state == workload.RetryStateQueued) {\n\t\t\treturn nil, nil //",
	},
	{
		Name: "wiped-at-the-release", File: reconciler,
		Rules: []string{"rule 4"},
		Old:   `if !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil`,
		New:   `if MUTANT || !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil`,
	},
	{
		Name: "quota-kept-for-a-job-that-never-ran", File: state,
		Test: "pkg/workload TestPlanRetry/quota_reserved,_and_told_a_second_later_that_it_is_not_admitted",
		Why:  tooShort,
		Old:  "wasAdmitted(wl) &&",
		New:  "(MUTANT || wasAdmitted(wl)) &&",
	},
	{
		// Before the job is stopped.
		Name: "quota-released-at-the-eviction", File: plan,
		Rules: []string{"rule 3"},
		Old:   `plan.Action == RetryEvict && !mayRun(wl)`,
		New:   `plan.Action == RetryEvict && (!mayRun(wl) || MUTANT)`,
	},
	{
		Name: "late-reject-ignored", File: plan,
		Rules: []string{"rule 8"},
		Old:   "case facts.rejected:\n",
		New:   "case facts.rejected && !MUTANT:\n",
	},
	{
		Name: "deactivation-leaves-traces", File: plan,
		Rules: []string{"rule 11", "conditions, old times", "gate off, never stuck"},
		Old:   `!hasRetryTraces(wl) {`,
		New:   `!hasRetryTraces(wl) || MUTANT {`,
	},
	{
		// What counts from the deactivation would count from the eviction before it.
		Name: "deactivated-at-the-eviction", File: write,
		Rules: []string{"rule 11", "rule 11, retention"},
		Old:   "apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(now)",
		New:   "if !MUTANT {\napimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(now)\n}",
	},
	{
		Name: "delay-kept-at-the-requeue", File: write,
		Rules: []string{"rule 6"},
		Old:   `Name:               check.Name,`,
		New:   `RequeueAfterSeconds: map[bool]*int32{true: check.RequeueAfterSeconds}[MUTANT], Name: check.Name,`,
	},
	{
		Name: "wait-told-after-it", File: write,
		Rules: []string{"conditions, old times"},
		Old:   `evictedByCheck || tellsOfWait(wl) || isRecordedForChecks(wl) {`,
		New:   `(evictedByCheck || tellsOfWait(wl) || isRecordedForChecks(wl)) && !MUTANT {`,
	},
	{
		Name: "wait-told-without-its-end", File: message,
		Rules: []string{"conditions, words"},
		Old:   `return fmt.Sprintf("%s, waiting until %s%s", asked, until, ownWords(retry))`,
		New:   "if MUTANT {\nreturn asked + ownWords(retry)\n}\nreturn fmt.Sprintf(\"%s, waiting until %s%s\", asked, until, ownWords(retry))",
	},
	{
		Name: "recorded-again-and-again", File: plan,
		Rules: []string{"rule 5"},
		Old:   "return p.Deadline.Equal(requeueAt(wl)) && (Has",
		New:   "return !MUTANT && p.Deadline.Equal(requeueAt(wl)) && (Has",
	},
	{
		Name: "wait-told-by-a-stopped-queue", File: message,
		Test: "pkg/workload TestRequeueAfterOtherEvictionTellsOfNoWait/its_queue_is_stopped_still",
		Why:  unread,
		Old:  `isKeptOut(wl) && requeued.Reason == evicted.Reason {`,
		New:  `!MUTANT && isKeptOut(wl) && requeued.Reason == evicted.Reason {`,
	},
	{
		Name: "count-of-pods-ready-cleared", File: write,
		Rules: []string{"rule 13"},
		Old:   `if wl.Status.RequeueState.Count == nil {`,
		New:   `if wl.Status.RequeueState.Count == nil || MUTANT {`,
	},
	{
		Name: "later-delay-not-recorded", File: plan,
		Rules: []string{"rule 4", "counts"},
		Old:   `p.Deadline.Equal(requeueAt(wl)) && (HasQuota`,
		New:   `(p.Deadline.Equal(requeueAt(wl)) || MUTANT && !requeueAt(wl).IsZero()) && (HasQuota`,
	},
	{
		Name: "never-looked-at-again", File: reconciler,
		Rules: []string{"rule 7, never stuck", "gate off, never stuck", "counts"},
		Old:   "result.RequeueAfter = requeueAfter(plan, now)\n\tcase workload.RetryReactivate:",
		New:   "if !MUTANT {\nresult.RequeueAfter = requeueAfter(plan, now)\n}\n\tcase workload.RetryReactivate:",
	},
	{
		Name: "waiting-in-the-heap", File: queues,
		Rules: []string{"rule 7, never early", "counts"},
		Old:   `if !workload.MustWait(wInfo.Obj) &&`,
		New:   `if MUTANT || !workload.MustWait(wInfo.Obj) &&`,
	},
	{
		// As the first release did, after its own write.
		Name: "taken-out-of-the-queue-by-the-reconciler", File: reconciler,
		Rules: []string{"counts"},
		Old:   `r.reportEvent(wl, corev1.EventTypeNormal, "RequeueDelayed", plan.Message)`,
		New:   "r.reportEvent(wl, corev1.EventTypeNormal, \"RequeueDelayed\", plan.Message)\nif MUTANT {\n" + leaveQueue + "\n}",
	},
	{
		Name: "count-not-reset", File: write,
		Rules: []string{"rule 6 and 10"},
		Old:   "case kueue.CheckStateReady:\n\t\t\tretryCount = nil",
		New:   "case kueue.CheckStateReady:\nif !MUTANT {\nretryCount = nil\n}",
	},
	{
		Name: "success-not-written", File: plan,
		Rules: []string{"rule 10"},
		Old:   `return check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 &&`,
		New:   `return !MUTANT && check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 &&`,
	},
	{
		Name: "stray-delay-left", File: plan,
		Rules: []string{"a delay without Retry"},
		Old:   `return check.State != kueue.CheckStateRetry && check.RequeueAfterSeconds != nil`,
		New:   `return check.State != kueue.CheckStateRetry && check.RequeueAfterSeconds != nil && !MUTANT`,
	},
	{
		// Of the old attempt, which fails again, or is looked at again.
		Name: "counted-request-asks-again", File: requests,
		Rules: []string{"rule 7, never stuck"},
		Old:   `attempt <= offset+retries {`,
		New:   `!MUTANT && attempt <= offset+retries {`,
	},
	{
		Name: "one-retry-too-many", File: requests,
		Rules: []string{"rule 14"},
		Old:   `if retries < *strategy.BackoffLimitCount {`,
		New:   `if retries < *strategy.BackoffLimitCount || MUTANT && retries == *strategy.BackoffLimitCount {`,
	},
	{
		// As fast as its controller sends it.
		Name: "stray-delay-removed-without-a-pause", File: tidying,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_delay_that_is_sent_with_each_state_is_removed_once_a_second:_Pending",
		Why:  pace,
		Old:  `if until, found := tidied.Get(key); found && now`,
		New:  `if until, found := tidied.Get(key); found && !MUTANT && now`,
	},
	{
		Name: "success-counted-from-after-a-pause", File: tidying,
		Test: "pkg/controller/core TestReconcileDelayedRetry/while_the_tidying_pauses,_a_success_is_counted_from,_and_a_rejection_acted_on",
		Why:  pace,
		Old:  `!plan.ResetsCounts {`,
		New:  `(MUTANT || !plan.ResetsCounts) {`,
	},
	// The queues.
	{
		Name: "old-copy-queued", File: queues,
		Test: "pkg/cache/queue TestAddOrUpdateOfAnOldCopy/the_copy_from_before_a_wait_does_not_put_it_into_the_heap",
		Why:  tooShort,
		Old:  `case latest.ResourceVersion == w.ResourceVersion:`,
		New:  `case latest.ResourceVersion == w.ResourceVersion || MUTANT:`,
	},
	{
		Name: "old-wait-queued-with-the-gate-off", File: queues,
		Test: "pkg/cache/queue TestAddOrUpdateOfAnOldCopy/nor_does_that_of_a_retry,_with_the_gate_off",
		Why:  tooShort,
		Old:  `&& !workload.MustWait(w) ||`,
		New:  `&& (MUTANT || !workload.MustWait(w)) ||`,
	},
	{
		// What the scheduler has judged says nothing about what it is now.
		Name: "put-back-as-judged", File: queues,
		Test: "pkg/cache/queue TestRequeueWorkloadThatWasJudgedBefore/the_check_was_set_back",
		Why:  tooShort,
		Old:  `if !features.Enabled(features.ACRequeueAfter) || isMakingRoom(reason) ||`,
		New:  `if MUTANT || !features.Enabled(features.ACRequeueAfter) || isMakingRoom(reason) ||`,
	},
	{
		Name: "waiting-after-the-wait", File: queues,
		Rules: []string{"counts", "positions"},
		Old:   "c.stopWaiting(workloadKey(wInfo))",
		New:   "if !MUTANT {\nc.stopWaiting(workloadKey(wInfo))\n}",
	},
	{
		Name: "in-the-heap-and-waiting", File: queues,
		Rules: []string{"counts", "positions"},
		Old:   "c.takeOut(wInfo.Obj)\n",
		New:   "if !MUTANT {\nc.takeOut(wInfo.Obj)\n}\n",
	},
	{
		Name: "kept-out-after-a-backoff", File: queues,
		Test: "pkg/cache/queue TestAddFromLocalQueueWhileWaiting/the_same,_over",
		Why:  tooSeldom,
		Old:  `|| c.backoffWaitingTimeExpired(wInfo)) {`,
		New:  `|| !MUTANT && c.backoffWaitingTimeExpired(wInfo)) {`,
	},
	{
		// As the base does until the next event of the ClusterQueue.
		Name: "counts-in-a-closed-queue", File: queues,
		Test: "pkg/cache/queue TestDeleteLocalQueueReportsWhatRemains/gate_true",
		Why:  tooSeldom,
		Old:  "m.reportPending(cq)\n",
		New:  "if !MUTANT {\nm.reportPending(cq)\n}\n",
	},
	{
		Name: "gauge-forgets", File: queues,
		Rules: []string{"counts"},
		Old:   "waits.Workloads++",
		New:   "if !MUTANT {\nwaits.Workloads++\n}",
	},
	{
		// It counts in both.
		Name: "old-queue-not-left", File: queuesBase,
		Test: "pkg/cache/queue TestMovedWorkloadLeavesItsQueue/its_LocalQueue_is_new:_false",
		Why:  tooShort,
		Old:  leaveOldQueue,
		New:  strings.Replace(leaveOldQueue, "features.Enabled", "!MUTANT && features.Enabled", 1),
	},
	{
		Name: "second-pass-as-it-was-planned", File: queues,
		Test: "pkg/cache/queue TestSecondPassHasAdjustedResources",
		Why:  tooSeldom,
		Old:  "if !features.Enabled(features.ACRequeueAfter) || w.ResourceVersion == \"\" {\n\t\treturn w",
		New:  "if MUTANT || !features.Enabled(features.ACRequeueAfter) || w.ResourceVersion == \"\" {\n\t\treturn w",
	},
	// The scheduler.
	{
		Name: "note-lost", File: scheduler,
		Test: "pkg/scheduler TestRequeueAfterRefusedNote/a_check_spoke",
		Why:  tooShort,
		Old:  "if isRefused(err) {\n\t\ts.requeueAtOnce",
		New:  "if !MUTANT && isRefused(err) {\n\t\ts.requeueAtOnce",
	},
	{
		// The scheduler stands still with a copy that is old.
		Name: "waits-for-pods-with-what-it-has-seen", File: scheduler,
		Test: "pkg/scheduler TestScheduleAfterWaitingForPodsReady/WorkloadRequestUseMergePatch=false,_somebody_wrote_before",
		Why:  tooShort,
		Old:  "if !isRefused(err) {",
		New:  "if MUTANT || !isRefused(err) {",
	},
	{
		Name: "quota-of-a-refused-note-for-nobody", File: scheduler,
		Test: "pkg/scheduler TestQuotaOfRefusedNoteIsForOthers",
		Why:  tooShort,
		Old:  "s.queueInadmissible(ctx, e.ClusterQueue)\n\treturn true",
		New:  "if !MUTANT {\ns.queueInadmissible(ctx, e.ClusterQueue)\n}\n\treturn true",
	},
	{
		Name: "flavor-of-a-refused-note-tried", File: scheduler,
		Test: "pkg/scheduler TestScheduleAfterWaitingForPodsReady/WorkloadRequestUseMergePatch=false,_somebody_wrote_before",
		Why:  tooShort,
		Old:  "e.LastAssignment = nil // nothing",
		New:  "if !MUTANT {\ne.LastAssignment = nil\n}// nothing",
	},
	{
		Name: "reservation-not-restored", File: "pkg/cache/scheduler/delayed_retry.go",
		Test: "pkg/scheduler TestRefusedSecondPass/a_check_spoke",
		Why:  tooShort,
		Old:  "if latest == nil {\n\t\treturn false",
		New:  "if latest == nil || MUTANT {\n\t\treturn false",
	},
	{
		// Until something else happens in their ClusterQueue.
		Name: "quota-of-a-refused-reservation-for-nobody", File: scheduler,
		Test: "pkg/scheduler TestQuotaOfRefusedReservationIsForOthers",
		Why:  tooShort,
		Old:  "// Others found the quota taken, and the workload may have to wait now.\n\ts.queueInadmissible(ctx, e.ClusterQueue)",
		New:  "if !MUTANT {\ns.queueInadmissible(ctx, e.ClusterQueue)\n}",
	},
	{
		// The workload gives up at flavors that it has not tried.
		Name: "flavor-of-a-refused-reservation-tried", File: scheduler,
		Test: "pkg/scheduler TestScheduleAfterRefusal/moved_to_another_queue_meanwhile:_true",
		Why:  tooShort,
		Old:  "e.LastAssignment = nil\n\t}\n\treturn e\n",
		New:  "if !MUTANT {\ne.LastAssignment = nil\n}\n\t}\n\treturn e\n",
	},
	{
		Name: "next-reservation-forgotten", File: "pkg/cache/scheduler/delayed_retry.go",
		Test: "pkg/scheduler TestRefusalAfterTheNextReservation",
		Why:  tooSeldom,
		Old:  "if info != nil && info.Obj != wl {",
		New:  "if !MUTANT && info != nil && info.Obj != wl {",
	},
	{
		Name: "reason-written-over", File: scheduler,
		Test: "pkg/scheduler TestRequeueWhileWaiting/it_waits",
		Why:  tooShort,
		Old:  "_, waits := workload.RetryDeadline(wl)\n\treturn waits",
		New:  "_, waits := workload.RetryDeadline(wl)\n\treturn waits && !MUTANT",
	},
	// The workload controller.
	{
		Name: "restart-unseen", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/the_queue_that_has_evicted_the_workload_runs_again_after_30s",
		Why:  tooSeldom,
		Old:  `if !features.Enabled(features.ACRequeueAfter) || (!isDisabledRequeued`,
		New:  `if MUTANT || !features.Enabled(features.ACRequeueAfter) || (!isDisabledRequeued`,
	},
	{
		Name: "every-check-required", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_check_that_the_queue_does_not_ask_for_cannot_evict",
		Why:  tooShort,
		Old:  `requiredChecks(ctx, wl, cq).Has`,
		New:  "func(name kueue.AdmissionCheckReference) bool {\nreturn MUTANT || requiredChecks(ctx, wl, cq).Has(name)\n}",
	},
	{
		Name: "reject-unheard", File: reconciler,
		Rules: []string{"rule 8"},
		Old:   `return features.Enabled(features.ACRequeueAfter) && workload.HasRejectedChecks(wl)`,
		New:   `return !MUTANT && features.Enabled(features.ACRequeueAfter) && workload.HasRejectedChecks(wl)`,
	},
	{
		Name: "backoff-not-looked-at-again", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_backoff_that_no_condition_tells_of_ends_in_the_queue",
		Why:  tooSeldom,
		Old:  `return true, ctrl.Result{RequeueAfter: min(until.Sub(now), longestRequeueAfter)}, nil`,
		New:  "if MUTANT {\nreturn true, ctrl.Result{}, nil\n}\nreturn true, ctrl.Result{RequeueAfter: min(until.Sub(now), longestRequeueAfter)}, nil",
	},
	{
		Name: "not-queued-after-a-backoff", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_backoff_that_no_condition_tells_of_ends_in_the_queue",
		Why:  tooSeldom,
		Old:  "r.addAdjusted(ctx, wl)\n\treturn false, ctrl.Result{}, nil",
		New:  "if !MUTANT {\nr.addAdjusted(ctx, wl)\n}\n\treturn false, ctrl.Result{}, nil",
	},
	{
		Name: "checks-not-synced-while-it-waits", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/the_queue_asks_for_another_check_while_the_workload_waits",
		Why:  tooSeldom,
		Old:  "if cq != nil {\n\t\t\t_, err = r.reconcileSyncAdmissionChecks",
		New:  "if cq != nil && !MUTANT {\n\t\t\t_, err = r.reconcileSyncAdmissionChecks",
	},
	{
		Name: "watchers-not-told", File: reconciler,
		Test: "pkg/controller/core TestReconcileDelayedRetry/a_look_at_a_workload_that_waits_has_the_queues_tell_of_it",
		Why:  unread,
		Old:  "r.notifyWatchers(wl, wl)",
		New:  "if !MUTANT {\nr.notifyWatchers(wl, wl)\n}",
	},
	{
		// Until the base's timer queues it.
		Name: "not-queued-while-it-waits", File: controller,
		Rules: []string{"counts"},
		Old:   "immediate := backoff <= 0 || features",
		New:   "immediate := backoff <= 0 || !MUTANT && features",
	},
	// The state.
	{
		Name: "quota-free-while-pods-run", File: state,
		Test: "pkg/workload TestPlanRetry/quota_reserved,_admitted_until_a_check_was_added:_its_pods_may_run",
		Why:  tooSeldom,
		Old:  "return IsAdmitted(wl) ||\n",
		New:  "return IsAdmitted(wl) || !MUTANT &&\n",
	},
	{
		Name: "old-backoff-for-that-of-the-checks", File: state,
		Test: "pkg/workload TestPlanRetry/evicted_by_PodsReadyTimeout:_a_backoff_of_an_earlier_eviction_is_not_the_present_one",
		Why:  tooSeldom,
		Old:  `!state.BackoffUntil.Time.Before(evictedAt(wl)))`,
		New:  `(MUTANT || !state.BackoffUntil.Time.Before(evictedAt(wl))))`,
	},
	{
		Name: "backoff-forgotten", File: state,
		Test: "pkg/workload TestRecordedWait/a_backoff_that_the_checks_have_moved",
		Why:  tooSeldom,
		Old:  "return wl.Status.RequeueState.BackoffUntil.Time\n",
		New:  "if MUTANT {\nreturn time.Time{}\n}\nreturn wl.Status.RequeueState.BackoffUntil.Time\n",
	},
	{
		Name: "reactivation-unseen", File: state,
		Rules: []string{"rule 7, never stuck"},
		Old:   `case keptOut && strings.HasPrefix(requeued.Reason, kueue.WorkloadDeactivated):`,
		New:   `case keptOut && !MUTANT && strings.HasPrefix(requeued.Reason, kueue.WorkloadDeactivated):`,
	},
	{
		Name: "scheduled-before-the-reconciler", File: state,
		Rules: []string{"rule 7, free quota"},
		Old:   `return isRecordedForChecks(wl) || HasRetryChecks(wl) || HasRejectedChecks(wl) ||`,
		New:   `return isRecordedForChecks(wl) || !MUTANT && (HasRetryChecks(wl) || HasRejectedChecks(wl)) ||`,
	},
	{
		Name: "left-waiting-for-ever", File: state, Switched: true,
		Rules: []string{"gate off, never stuck"},
		Old:   "default:\n\t\treturn RetryStateWaiting",
		New:   "case MUTANT:\nreturn RetryStateQueued\ndefault:\n\t\treturn RetryStateWaiting",
	},
	{
		Name: "left-waiting-and-early", File: plan, Switched: true,
		Rules: []string{"gate off, never early"},
		Old:   `isDue := !now.Before(plan.Deadline)`,
		New:   `isDue := MUTANT || !now.Before(plan.Deadline)`,
	},
	// What is written.
	{
		Name: "no-deadline-with-another-eviction", File: write,
		Test: "pkg/workload TestEvictionRecordsTheDeadline/a_delay,_which_no_fraction_of_a_second_cuts",
		Why:  tooSeldom,
		Old:  `len(retry) > 0 && !evictedByCheck {`,
		New:  `len(retry) > 0 && !evictedByCheck && !MUTANT {`,
	},
	{
		// It escapes its limit, and a policy that comes is for it.
		Name: "looked-at-by-another-eviction", File: plan,
		Test: "pkg/workload TestObservedRetries/an_eviction_has_recorded_a_delay,_and_nobody_has_looked_for_a_policy_yet",
		Why:  records,
		Old:  "isOpen ||",
		New:  "isOpen && !MUTANT ||",
	},
	{
		Name: "written-for-each-bare-retry", File: plan,
		Test: "pkg/workload TestObservedRetries/a_Retry_without_a_policy,_said_again,_is_worth_no_write:_its_controller_may_say_it_all_the_time",
		Why:  records,
		Old:  "|| found && !asks &&",
		New:  "|| found && !asks && !MUTANT &&",
	},
	{
		Name: "success-counted-from-after-the-eviction", File: write,
		Test: "pkg/workload TestRetryPlanRecordResetsCounts",
		Why:  pace,
		Old:  "if check := &wl.Status.AdmissionChecks[i]; countsAfterSuccess(wl, *check) {",
		New:  "if check := &wl.Status.AdmissionChecks[i]; !MUTANT && countsAfterSuccess(wl, *check) {",
	},
	{
		Name: "counts-from-an-eviction-long-ago", File: plan,
		Test: "pkg/workload TestPlanRetry/a_backoff_of_before_is_over,_which_nobody_has_removed:_a_delay_begins",
		Why:  tooSeldom,
		Old:  "|| !isKeptOut(wl) && !requeueAt(wl).After(rctx.Now)):",
		New:  "|| !MUTANT && !isKeptOut(wl) && !requeueAt(wl).After(rctx.Now)):",
	},
	{
		Name: "delay-of-another-eviction-not-told", File: "pkg/workload/delayed_retry_report.go",
		Test: "pkg/workload TestReportWait/a_delay",
		Why:  unread,
		Old:  "|| reason == kueue.WorkloadEvictedByAdmissionCheck {",
		New:  "|| MUTANT || reason == kueue.WorkloadEvictedByAdmissionCheck {",
	},
	{
		Name: "retry-taken-back-by-another-eviction", File: write,
		Test: "pkg/workload TestResetChecksForEviction/preempted:_the_delay_is_left,_and_what_was_Ready_counts_from_zero",
		Why:  tooSeldom,
		Old:  `(evictedByCheck || isAnswer(check.State)) {`,
		New:  `(evictedByCheck || !MUTANT && isAnswer(check.State)) {`,
	},
	{
		Name: "another-eviction-in-the-past", File: write,
		Test: "pkg/workload TestEvictionRecordsTheDeadline/no_delay_yet,_and_no_fraction_of_a_second_cuts_one_that_comes",
		Why:  tooShort,
		Old:  "evicted.LastTransitionTime = metav1.NewTime(times.RoundedUp(now))",
		New:  "if !MUTANT {\nevicted.LastTransitionTime = metav1.NewTime(times.RoundedUp(now))\n}",
	},
	{
		Name: "preempted-and-queued", File: write,
		Test: "pkg/workload TestKeepWaiting/a_deadline",
		Why:  tooSeldom,
		Old:  `if !features.Enabled(features.ACRequeueAfter) || !isRecordedForChecks(wl) ||`,
		New:  `if MUTANT || !features.Enabled(features.ACRequeueAfter) || !isRecordedForChecks(wl) ||`,
	},
	{
		Name: "backoff-not-recorded", File: write,
		Test: "pkg/workload TestEvictionRecordsTheDeadline/a_shorter_backoff_of_WaitForPodsReady_is_kept_beside",
		Why:  tooSeldom,
		Old:  "if wl.Status.RequeueState.Count != nil {\n",
		New:  "if wl.Status.RequeueState.Count != nil && !MUTANT {\n",
	},
	{
		Name: "count-outlives-the-admission", File: write,
		Rules: []string{"rule 6 and 10"},
		Old:   `if admitted != metav1.ConditionTrue ||`,
		New:   `if MUTANT || admitted != metav1.ConditionTrue ||`,
	},
	{
		Name: "old-transition-at-the-requeue", File: write,
		Rules: []string{"rule 6"},
		Old:   `LastTransitionTime: metav1.NewTime(now),`,
		New:   `LastTransitionTime: map[bool]metav1.Time{false: metav1.NewTime(now), true: check.LastTransitionTime}[MUTANT],`,
	},
	{
		Name: "count-outlives-the-deactivation", File: write,
		Test: "pkg/workload TestRetryPlanForget/while_waiting",
		Why:  tooSeldom,
		Old:  "check.RequeueAfterSeconds = nil\n\t\tcheck.RetryCount = nil",
		New:  "check.RequeueAfterSeconds = nil\nif !MUTANT {\ncheck.RetryCount = nil\n}",
	},
	{
		Name: "time-outlives-the-deactivation", File: write,
		Test: "pkg/workload TestRetryPlanForget/while_waiting",
		Why:  tooSeldom,
		Old:  "wl.Status.RequeueState = nil\n\tapimeta.Remove",
		New:  "if !MUTANT {\nwl.Status.RequeueState = nil\n}\n\tapimeta.Remove",
	},
	{
		Name: "requeued-in-a-stopped-queue", File: write,
		Test: "pkg/workload TestRetryPlanRequeue/a_stopped_queue_keeps_the_workload_from_being_requeued",
		Why:  tooSeldom,
		Old:  "if !isKeptOut(wl) || isKeptOutByBackoff(wl) {\n\t\tSetRequeuedCondition(wl, kueue.WorkloadBackoffFinished,",
		New:  "if MUTANT || !isKeptOut(wl) || isKeptOutByBackoff(wl) {\n\t\tSetRequeuedCondition(wl, kueue.WorkloadBackoffFinished,",
	},
	{
		Name: "hold-from-an-old-eviction", File: write,
		Rules: []string{"rule 1"},
		Old:   "still true.\n\t\tapimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(p.EvictedAt)",
		New:   "still true.\nif !MUTANT {\napimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(p.EvictedAt)\n}",
	},
	{
		Name: "told-to-wait-and-queued", File: write,
		Rules: []string{"rule 4", "rule 5"},
		Old:   "if !isKeptOut(wl) || isKeptOutByBackoff(wl) {\n\t\tSetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck,",
		New:   "if !MUTANT && (!isKeptOut(wl) || isKeptOutByBackoff(wl)) {\n\t\tSetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck,",
	},
	{
		// An eviction of what the scheduler has only assumed: quota without admission.
		Name: "conditions-without-the-admission", File: apply,
		Test: "pkg/workload TestMergePatchOfAssumed/assumed",
		Why:  tooShort,
		Old:  "if base.Status.Admission != nil {",
		New:  "if base.Status.Admission != nil && !MUTANT {",
	},
	{
		Name: "delay-applied", File: apply, Policy: true,
		Rules: []string{"rule 6, a delay is its controller's"},
		Old:   "return observed.Name == check.Name && ptr.Equal(",
		New:   "return MUTANT || observed.Name == check.Name && ptr.Equal(",
	},
	{
		Name: "apply-over-another-spec", File: apply,
		Test: "pkg/workload TestLooseApplyAfterAnotherWrite/its_spec_has_changed",
		Why:  tooShort,
		Old:  "seen.Generation == latest.Generation &&",
		New:  "(MUTANT || seen.Generation == latest.Generation) &&",
	},
	{
		Name: "strict-and-written-again", File: apply,
		Test: "pkg/workload TestLooseApplyAfterAnotherWrite/a_strict_apply",
		Why:  tooShort,
		Old:  "if strict || !apierrors",
		New:  "if strict && !MUTANT || !apierrors",
	},
	// The plan.
	{
		Name: "earliest-deadline", File: deadline,
		Rules: []string{"rule 3", "rule 7, never early"},
		Old:   "deadline = times.Later(deadline, checkDeadline(check, evictedAt))",
		New:   "if other := checkDeadline(check, evictedAt); MUTANT && other.Before(deadline) {\ndeadline = other\n} else {\ndeadline = times.Later(deadline, other)\n}",
	},
	{
		// A tolerance for clocks that differ.
		Name: "two-seconds-early", File: plan,
		Rules: []string{"rule 7, never early"},
		Old:   "ahead: rctx.Now.Before(until),",
		New:   "ahead: rctx.Now.Before(until) && !(MUTANT && until.Sub(rctx.Now) < 2*time.Second),",
	},
	{
		Name: "words-of-another-generation", File: message, Cohort: true,
		Rules: []string{"conditions, generation"},
		Old:   "cond.ObservedGeneration = wl.Generation",
		New:   "if !MUTANT {\ncond.ObservedGeneration = wl.Generation\n}",
	},
	{
		Name: "withdrawal-unseen", File: plan,
		Rules: []string{"rule 4", "rule 1, no write is refused"},
		Old:   "leftOver := state == RetryStateWaiting ||",
		New:   "leftOver := !MUTANT && state == RetryStateWaiting ||",
	},
	{
		Name: "late-retry-unheard-while-it-stops", File: plan,
		Test: "pkg/workload TestPlanRetry/evicted,_quota_held:_a_longer_delay",
		Why:  tooShort,
		Old:  "plan.Untidy = (plan.Action",
		New:  "if MUTANT && state == RetryStateStopping && plan.Action == RetryRecord {\nplan.Action = RetryNone\n}\nplan.Untidy = (plan.Action",
	},
	{
		Name: "late-for-a-deadline-that-was-moved", File: plan,
		Test: "pkg/workload TestDueAt/shortened_into_the_past",
		Why:  unread,
		Old:  "if !p.Deadline.After(p.EvictedAt) || !p.Deadline.Equal(requeueAt(wl)) {",
		New:  "if !p.Deadline.After(p.EvictedAt) || !MUTANT && !p.Deadline.Equal(requeueAt(wl)) {",
	},
	{
		Name: "late-while-the-job-stops", File: plan,
		Test: "pkg/workload TestDueAt/the_job_stopped_after_it",
		Why:  unread,
		Old:  "if quotaReserved == nil {\n\t\treturn p.Deadline",
		New:  "if MUTANT || quotaReserved == nil {\n\t\treturn p.Deadline",
	},
	{
		// Nothing is written of a reactivation before it, or in the same second.
		Name: "second-deactivation-unseen", File: plan,
		Test: "pkg/workload TestRetryPlanForget/again,_by_Kueue,_before_it_was_ever_requeued",
		Why:  tooShort,
		Old:  "if isTargetOfCheck(wl) ||",
		New:  "if !MUTANT && isTargetOfCheck(wl) ||",
	},
	{
		Name: "second-deactivation-after-the-job-stopped-unseen", File: plan,
		Test: "pkg/workload TestForgetTellsOfSecondDeactivationAfterJobStopped",
		Why:  tooSeldom,
		Old:  "|| evicted.ObservedGeneration < wl.Generation",
		New:  "|| !MUTANT && evicted.ObservedGeneration < wl.Generation",
	},
	{
		// It keeps the words, the time and the cause of the one before.
		Name: "second-deactivation-while-the-job-stops-unseen", File: plan,
		Test: "pkg/workload TestRetryPlanForget/again,_after_a_retry_while_the_job_stopped",
		Why:  tooSeldom,
		Old:  "|| isRecordedSinceEviction(wl) {",
		New:  "|| !MUTANT && isRecordedSinceEviction(wl) {",
	},
	{
		Name: "reactivated-in-the-same-second", File: plan,
		Test: "pkg/workload TestRetryPlanForget/again,_after_it_was_activated_within_a_second",
		Why:  tooShort,
		Old:  "return isReactivated ||",
		New:  "return !MUTANT && isReactivated ||",
	},
	{
		// It was requeued before, and lost its quota without an eviction.
		Name: "cause-of-deactivation-lost", File: plan,
		Test: "pkg/workload TestRetryPlanForget/by_Kueue,_in_the_queue",
		Why:  unread,
		Old:  "requeued.LastTransitionTime.After(evictedAt(wl))\n}",
		New:  "(MUTANT || requeued.LastTransitionTime.After(evictedAt(wl)))\n}",
	},
	{
		// With the gate off nobody queues it again.
		Name: "deactivated-by-a-reason-of-ours", File: write,
		Test: "pkg/workload TestRetryPlanForget/by_Kueue,_while_waiting",
		Why:  tooSeldom,
		Old:  "SetRequeuedCondition(wl, kueue.WorkloadDeactivated, evicted.Message, false)",
		New:  "reason := evicted.Reason\nif !MUTANT {\nreason = kueue.WorkloadDeactivated\n}\nSetRequeuedCondition(wl, reason, evicted.Message, false)",
	},
	{
		Name: "success-for-another-flavor", File: reconciler,
		Test: "pkg/controller/core TestWithReleasedChecks/succeeded,_and_nothing_waits:_it_is_asked_anew",
		Why:  tooSeldom,
		Old:  "kept := check.State != kueue.CheckStateReady ||",
		New:  "kept := MUTANT || check.State != kueue.CheckStateReady ||",
	},
	{
		Name: "requeue-unreported", File: reconciler,
		Rules: []string{"events"},
		Old:   `r.reportEvent(wl, corev1.EventTypeNormal, "Requeued",`,
		New:   "if MUTANT {\nbreak\n}\nr.reportEvent(wl, corev1.EventTypeNormal, \"Requeued\",",
	},
	{
		Name: "delay-unreported", File: reconciler,
		Rules: []string{"events"},
		Old:   "if news {",
		New:   "if news && !MUTANT {",
	},
	{
		Name: "end-by-deactivation-unreported", File: reconciler,
		Rules: []string{"events"},
		Old:   "err == nil && waited {",
		New:   "err == nil && waited && !MUTANT {",
	},
	{
		Name: "finished-and-still-waiting", File: reconciler,
		Test: "pkg/controller/core TestFinishedWhileWaiting/gate_true",
		Why:  tooSeldom,
		Old:  "!features.Enabled(features.ACRequeueAfter) || !workload.MustConclude(wl)",
		New:  "MUTANT || !features.Enabled(features.ACRequeueAfter) || !workload.MustConclude(wl)",
	},
	{
		Name: "no-wait-while-stopping", File: state,
		Test: "pkg/workload TestRecordedWait/its_job_is_being_stopped",
		Why:  unread,
		Old:  "!requeueAt(wl).IsZero() && !keepsQuota &&",
		New:  "!requeueAt(wl).IsZero() && !keepsQuota && !(MUTANT && HasQuotaReservation(wl)) &&",
	},
	{
		Name: "condition-created-by-a-merge-patch", File: reconciler,
		Test: "pkg/controller/core TestConditionsOfWorkloadWithDRA",
		Why:  noDRA,
		Old:  "if len(created) > 0 {",
		New:  "if len(created) > 0 && !MUTANT {",
	},
	{
		Name: "request-of-another-check-unheard", File: "pkg/controller/admissionchecks/provisioning/controller.go",
		Test: "pkg/controller/admissionchecks/provisioning TestReconcileDelayedRetry/failed,_and_the_request_of_a_check_that_has_succeeded_is_gone,_WorkloadRequestUseMergePatch=false,_stopped_after_0_writes",
		Why:  tooShort,
		Old:  "\tif hearsRequests(wl) {",
		New:  "\tif hearsRequests(wl) && !MUTANT {",
	},
	{
		Name: "deactivated-rejected-again", File: "pkg/controller/admissionchecks/multikueue/delayed_retry.go",
		Test: "pkg/controller/admissionchecks/multikueue TestDeactivatedIsNotRejectedAgain/deactivated",
		Why:  tooShort,
		Old:  "return features.Enabled(features.ACRequeueAfter) && !workload.IsActive(wl)",
		New:  "return features.Enabled(features.ACRequeueAfter) && !workload.IsActive(wl) && !MUTANT",
	},
	{
		Name: "workers-for-what-was-not-started", File: "pkg/workload/delayed_retry_stopping.go",
		Test: "pkg/workload TestKeepsCheckStates/its_job_was_not_started",
		Why:  tooSeldom,
		Old:  "|| IsAdmitted(wl))",
		New:  "|| IsAdmitted(wl) || MUTANT)",
	},
	{
		Name: "no-workers-for-a-larger-slice", File: "pkg/workload/delayed_retry_stopping.go",
		Test: "pkg/workload TestKeepsCheckStates/pods_of_the_slice_before",
		Why:  tooSeldom,
		Old:  "&& (evictedByCheck",
		New:  "&& (evictedByCheck && !MUTANT",
	},
	{
		Name: "others-asleep-after-a-release", File: reconciler,
		Test: "pkg/controller/core TestReleaseWakesOthers/evicted,_its_LocalQueue_stopped,_gate_true",
		Why:  tooSeldom,
		Old:  "!features.Enabled(features.ACRequeueAfter) || !holdsQuota(old) {",
		New:  "MUTANT || !features.Enabled(features.ACRequeueAfter) || !holdsQuota(old) {",
	},
	{
		Name: "multikueue-counts-on", File: "pkg/controller/admissionchecks/multikueue/delayed_retry.go",
		Test: "pkg/controller/admissionchecks/multikueue TestEvictedForRetryNeedsNoWorker/not_evicted,_without_a_worker",
		Why:  tooSeldom,
		Old:  "acs.State != kueue.CheckStateReady || next",
		New:  "MUTANT || acs.State != kueue.CheckStateReady || next",
	},
	{
		Name: "others-asleep-when-quota-moves", File: reconciler,
		Test: "pkg/controller/core TestMoveOfQuotaWakesOthers/to_another_flavor,_gate_true",
		Why:  tooSeldom,
		Old:  "return a.ClusterQueue == b.ClusterQueue &&",
		New:  "return MUTANT || a.ClusterQueue == b.ClusterQueue &&",
	},
	{
		// No other one is nominated while the check of MultiKueue is Ready.
		Name: "worker-forgotten-too-soon", File: reconciler,
		Test: "pkg/controller/core TestWorkerIsForgottenWithItsCheck/its_check_stays",
		Why:  tooSeldom,
		Old:  "&& slices.Contains(chosenBy, check.Name)",
		New:  "&& !MUTANT && slices.Contains(chosenBy, check.Name)",
	},
	{
		// A success of another check does not tell that the worker is to stay.
		Name: "worker-outlives-its-check", File: reconciler,
		Test: "pkg/controller/core TestWorkerIsForgottenWithItsCheck/its_check_goes,_another_one_stays_Ready",
		Why:  tooSeldom,
		Old:  "&& slices.Contains(chosenBy, check.Name)",
		New:  "&& (MUTANT || slices.Contains(chosenBy, check.Name))",
	},
	{
		Name: "job-stopped-for-its-larger-slice", File: jobs,
		Test: "pkg/controller/jobframework TestIsStoppedForRetry/runs_as_the_slice_that_is_to_be_replaced",
		Why:  scaled,
		Old:  "|| r.replacesSliceWithQuota(ctx, wl)",
		New:  "|| !MUTANT && r.replacesSliceWithQuota(ctx, wl)",
	},
	{
		Name: "job-stopped-for-its-rejected-slice", File: jobs,
		Test: "pkg/controller/jobframework TestIsStoppedForRetry/runs_as_the_slice_whose_larger_one_is_rejected",
		Why:  scaled,
		Old:  "!evictedByCheck && !features.Enabled(features.ACRequeueAfter) {",
		New:  "!evictedByCheck && (MUTANT || !features.Enabled(features.ACRequeueAfter)) {",
	},
	{
		Name: "job-of-a-rejected-slice-deleted", File: jobs,
		Test: "pkg/controller/jobframework TestJobOfRejectedSliceIsKept/runs_as_the_smaller_slice",
		Why:  scaled,
		Old:  "return r.runsAsReplacedSlice(ctx, job, wl) ||",
		New:  "return !MUTANT && r.runsAsReplacedSlice(ctx, job, wl) ||",
	},
	{
		// The time of a deactivation that is over.
		Name: "job-deleted-that-is-deactivated-again", File: jobs,
		Rules: []string{"rule 11, retention"},
		Old:   "&& workload.IsDeactivatedAgain(wl)",
		New:   "&& !MUTANT && workload.IsDeactivatedAgain(wl)",
	},
	{
		Name: "job-kept-that-does-not-run", File: jobs,
		Test: "pkg/controller/jobframework TestJobOfRejectedSliceIsKept/has_not_started,_or_is_stopped",
		Why:  scaled,
		Old:  "(!job.IsSuspended() ||",
		New:  "(MUTANT || !job.IsSuspended() ||",
	},
	{
		Name: "job-deleted-that-runs-elsewhere", File: jobs,
		Test: "pkg/controller/jobframework TestJobOfRejectedSliceIsKept/runs_on_another_cluster",
		Why:  scaled,
		Old:  "slice.Status.ClusterName != nil)",
		New:  "slice.Status.ClusterName != nil && !MUTANT)",
	},
	{
		Name: "wait-told-after-the-end", File: "pkg/workload/delayed_retry_write.go",
		Test: "pkg/workload TestConcludeAfterTheRelease",
		Why:  tooSeldom,
		Old:  "&& !HasQuotaReservation(wl) && !isOnHold(wl) {\n\t\tUnsetQuotaReservationWithCondition(wl, pendingReason(), message, now)\n\t}\n\tforgetTime(wl)",
		New:  "&& !HasQuotaReservation(wl) && !isOnHold(wl) && (!MUTANT || tellsOfWait(wl)) {\n\t\tUnsetQuotaReservationWithCondition(wl, pendingReason(), message, now)\n\t}\n\tforgetTime(wl)",
	},
	{
		Name: "put-back-before-dra-is-looked-up", File: queues,
		Test: "pkg/cache/queue TestRequeueWorkloadWithDRAThatAsksForOthersNow/reconciled_before_false",
		Why:  noDRA,
		Old:  "&& m.isQueuedByReconcile(now) && !asksForTheSame(judged, now)",
		New:  "&& !MUTANT && m.isQueuedByReconcile(now) && !asksForTheSame(judged, now)",
	},
	{
		Name: "slice-of-another-tenant", File: "pkg/workloadslicing/delayed_retry_slices.go",
		Test: "pkg/controller/jobframework TestIsStoppedForRetry/the_slice_is_of_another_job",
		Why:  tenants,
		Old:  "owner == nil || other == nil ||",
		New:  "MUTANT || owner == nil || other == nil ||",
	},
	// Policies.
	{
		// Its times are those of the first deactivation.
		Name: "deactivated-again-unseen", File: plan,
		Test: "pkg/workload TestPlanRetry/deactivated_again,_nothing_left",
		Why:  tooShort,
		Old:  "case isDeactivatedInQueue(wl):",
		New:  "case !MUTANT && isDeactivatedInQueue(wl):",
	},
	{
		Name: "limit-looked-at-again", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/a_Retry_said_again,_then_a_policy_comes",
		Why:  records,
		Old:  "case known || policies == nil:",
		New:  "case known && !MUTANT || policies == nil:",
	},
	{
		Name: "one-jitter-for-all", File: policy, Policy: true,
		Rules: []string{"rule 17, delay"},
		Old:   `fmt.Appendf(nil, "%s/%s/%d", p.uid, p.check, count))`,
		New:   "fmt.Appendf(nil, \"%s/%s/%d\", p.uid, p.check, count))\nif MUTANT {\nsum = sha256.Sum256([]byte(p.check))\n}",
	},
	{
		Name: "no-backoff-by-policy", File: policy, Policy: true,
		Test: "pkg/workload TestRetryPolicyDelaySeconds/backoff_doubles",
		Why:  tooSeldom,
		Old:  "for ; count > 0 && result",
		New:  "for ; !MUTANT && count > 0 && result",
	},
	{
		Name: "delay-not-shown", File: write, Policy: true,
		Rules: []string{"rule 3"},
		Old:   "; said.LastTransitionTime.Equal(",
		New:   "; !MUTANT && said.LastTransitionTime.Equal(",
	},
	{
		// A change of the policy moves those that wait.
		Name: "delay-of-the-policy-as-it-is-now", File: plan, Policy: true,
		Rules: []string{"rule 4", "rule 7, never early", "rule 7, never stuck"},
		Old:   "check.RequeueAfterSeconds = observed.DelaySeconds",
		New:   "if MUTANT && hasPolicy {\nobserved.DelaySeconds = ptr.To(policy.DelaySeconds(ptr.Deref(check.RetryCount, 0)))\n}\ncheck.RequeueAfterSeconds = observed.DelaySeconds",
	},
	{
		Name: "retry-not-recorded", File: write, Policy: true,
		Rules: []string{"rule 3", "rule 7, never stuck"},
		Old:   "wl.Status.RequeueState.ObservedRetries = p.Observed",
		New:   "if !MUTANT {\nwl.Status.RequeueState.ObservedRetries = p.Observed\n}",
	},
	{
		Name: "new-retry-taken-for-the-old", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/a_Retry_with_another_transition_time_is_a_new_one",
		Why:  records,
		Old:  "same := found && before",
		New:  "same := found && MUTANT || found && before",
	},
	{
		Name: "eviction-for-another-reason-taken-for-a-look", File: write, Policy: true,
		Test: "pkg/workload TestObservedRetriesAfterEvictionForAnotherReason/a_late_Retry",
		Why:  records,
		Old:  "if !features.Enabled(features.ACRetryStrategy) {",
		New:  "if MUTANT || !features.Enabled(features.ACRetryStrategy) {",
	},
	{
		Name: "limit-looked-at-with-a-withdrawn-delay", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/a_delay_of_its_controller's_own_is_given_up,_with_another_limit_than_when_it_came",
		Why:  records,
		Old:  "hasPolicy && !same && !policy.Allows(count)",
		New:  "hasPolicy && (MUTANT || !same) && !policy.Allows(count)",
	},
	{
		// An old client's update drops the record. To record it again would be a fight.
		Name: "dropped-record-written-again", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/the_record_is_dropped,_with_the_delay",
		Why:  records,
		Old:  "case told && len(record) == 0 &&",
		New:  "case told && !MUTANT && len(record) == 0 &&",
	},
	{
		// What Kueue has applied it takes away when it applies something else.
		Name: "own-delay-taken-for-the-controllers", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/a_new_Retry_has_the_delay_of_the_one_before_still,_whose_policy_is_gone",
		Why:  records,
		Old:  "own := before.DelaySeconds != nil &&",
		New:  "own := !MUTANT && before.DelaySeconds != nil &&",
	},
	{
		// A change of its policy would move a Retry that a backoff hides.
		Name: "retry-in-a-backoff-not-recorded", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetriesInBackoff",
		Why:  records,
		Old:  "(len(record) > 0 || !told) &&",
		New:  "(len(record) > 0 || !told && !MUTANT) &&",
	},
	{
		// A write that says nothing, for each Retry with a delay of its own.
		Name: "recorded-for-nothing", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetriesWithoutPolicy",
		Why:  records,
		Old:  "(hasPolicy ||",
		New:  "(MUTANT || hasPolicy ||",
	},
	{
		Name: "withdrawn-retry-not-recorded", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/a_withdrawn_Retry_stays_in_the_record,_that_of_a_check_that_is_gone_does_not",
		Why:  records,
		Old:  "for _, before := range record {",
		New:  "for _, before := range record {\nif MUTANT {\nbreak\n}",
	},
	{
		// One that asks for no delay would wait on when the other has withdrawn its own.
		Name: "delay-of-another-check-held", File: plan, Policy: true,
		Test: "pkg/workload TestObservedRetries/the_gate_is_switched_on_while_one_waits_for_another's_delay",
		Why:  records,
		Old:  "if byOthers || requeueAt(wl).Equal(backoffUntil(wl)) {",
		New:  "if !MUTANT && byOthers || requeueAt(wl).Equal(backoffUntil(wl)) {",
	},
	{
		Name: "record-forgotten-by-another-eviction", File: write, Policy: true,
		Test: "pkg/workload TestObservedRetriesOfAnotherEviction",
		Why:  records,
		Old:  "Observed: observedBefore(wl, retry), EvictedAt:",
		New:  "Observed: slices.DeleteFunc(observedBefore(wl, retry), func(kueue.ObservedRetry) bool { return MUTANT }), EvictedAt:",
	},
	// Deactivation.
	{
		Name: "no-brake-for-old-transition-times", File: plan,
		Test: "pkg/workload TestPlanRetry/deactivated,_and_the_check_goes_on_with_an_old_transition_time",
		Why:  pace,
		Old:  "isKeptOut(wl) && hasAnswers(wl) {",
		New:  "isKeptOut(wl) && hasAnswers(wl) && !MUTANT {",
	},
	// ProvisioningRequests.
	{
		Name: "number-without-its-offset", File: requests,
		Rules: []string{"rule 14", "rule 7, never stuck"},
		Old:   "return attemptOffset(check, attemptOffsetsOf(wl), usedAttemptsOf(wl)) + retriesOf(check) + 1",
		New:   "if MUTANT {\nreturn retriesOf(check) + 1\n}\nreturn attemptOffset(check, attemptOffsetsOf(wl), usedAttemptsOf(wl)) + retriesOf(check) + 1",
	},
	{
		Name: "deaf-while-it-waits", File: requests,
		Test: "pkg/controller/admissionchecks/provisioning TestReconcileDelayedRetry/the_booking_of_a_ready_check_expired_while_the_workload_waits,_after_the_last_retry,_WorkloadRequestUseMergePatch=false,_stopped_after_0_writes",
		Why:  tooShort,
		Old:  "return features.Enabled(features.ACRequeueAfter) && !workload",
		New:  "return !MUTANT && features.Enabled(features.ACRequeueAfter) && !workload",
	},
	{
		Name: "backoff-that-does-not-grow", File: requests,
		Rules: []string{"rule 14"},
		Old:   "for ; retries > 0 && 0 < seconds",
		New:   "for ; !MUTANT && retries > 0 && 0 < seconds",
	},
	{
		Name: "success-keeps-the-count", File: requests,
		Test: "pkg/controller/admissionchecks/provisioning TestReconcileDelayedRetry/provisioned_after_retries,_WorkloadRequestUseMergePatch=false,_stopped_after_0_writes",
		Why:  tooSeldom,
		Old:  "if succeeded && check.State",
		New:  "if !MUTANT && succeeded && check.State",
	},
	{
		Name: "request-for-a-check-of-another-flavor", File: requests,
		Test: "pkg/controller/admissionchecks/provisioning TestReconcileDelayedRetry/reserved_on_a_flavor_that_does_not_ask_for_the_check,_WorkloadRequestUseMergePatch=false,_stopped_after_0_writes",
		Why:  oneFlavor,
		Old:  "if !keepsQuota(wl) || wl.Status.Admission == nil {",
		New:  "if MUTANT || !keepsQuota(wl) || wl.Status.Admission == nil {",
	},
	{
		Name: "used-number-forgotten", File: attempts,
		Test: "pkg/controller/admissionchecks/provisioning TestPlanAttempts/ready,_and_the_request_gone",
		Why:  tooShort,
		Old:  "if number > used[checkName] {",
		New:  "if !MUTANT && number > used[checkName] {",
	},
	// Jobs.
	{
		Name: "moved-job-stays", File: jobs, Cohort: true,
		Rules: []string{"rule 18"},
		Old:   "if !features.Enabled(features.ACRequeueAfter) || !workload.IsActive(wl) ||",
		New:   "if MUTANT || !features.Enabled(features.ACRequeueAfter) || !workload.IsActive(wl) ||",
	},
	{
		Name: "evicted-job-not-stopped", File: "pkg/controller/jobframework/reconciler.go",
		Rules: []string{"rule 3", "rule 3, pods", "rule 7, never stuck"},
		Old:   "stopReason == StopReasonWorkloadEvicted && r.isStoppedForRetry(ctx, job, wl) {",
		New:   "stopReason == StopReasonWorkloadEvicted && (MUTANT || r.isStoppedForRetry(ctx, job, wl)) {",
	},
	{
		Name: "stopped-again-and-again", File: jobs,
		Test: "pkg/controller/jobframework TestIsStoppedForRetry/suspended,_quota_released",
		Why:  tooShort,
		Old:  "waits && isStoppedJob ||",
		New:  "waits && isStoppedJob && !MUTANT ||",
	},
}, slices.Concat(ofBase, ofReach)...)
