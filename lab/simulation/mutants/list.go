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

const (
	next       = "pkg/workload/requeue/next.go"
	status     = "pkg/workload/requeue/status.go"
	policy     = "pkg/workload/requeue/policy.go"
	reconciler = "pkg/controller/core/workload_retry.go"
	queues     = "pkg/cache/queue/retry.go"
	heap       = "pkg/cache/queue/cluster_queue.go"
	requests   = "pkg/controller/admissionchecks/provisioning/retry.go"
	controller = "pkg/controller/core/workload_controller.go"
	scheduler  = "pkg/scheduler/scheduler.go"
	strict     = "pkg/workload/patching/strict.go"
	applies    = "pkg/workload/patching/retry.go"
	evict      = "pkg/workload/evict/retry.go"
)

// All are built together, and switched on one at a time.
var All = []Mutant{
	// Rules 1 and 2: the deadline.
	{
		// The API drops the fraction of a second.
		Name: "eviction-in-the-past", File: next, Rules: []string{"rule 1"},
		Old: "s.until = deadline(",
		New: "if MUTANT && !s.evictedAt.IsZero() {\ns.evictedAt = now\n}\ns.until = deadline(",
	},
	{
		Name: "fraction-of-a-transition-cut", File: next, Rules: []string{"rule 3", "rule 4"},
		Old: "until = later(until, start.Add(",
		New: "if MUTANT {\nstart = later(evictedAt, retry.LastTransitionTime.Truncate(time.Second))\n}\nuntil = later(until, start.Add(",
	},
	{
		// For controllers that send old transition times again.
		Name: "deadline-from-the-transition-alone", File: next, Rules: []string{"rule 3", "rule 4"},
		Old: "until = later(until, start.Add(",
		New: "if MUTANT {\nstart = retry.LastTransitionTime.Add(time.Second - 1).Truncate(time.Second)\n}\nuntil = later(until, start.Add(",
	},
	{
		Name: "no-delay-counts-from-the-transition", File: next, Rules: []string{"rule 3", "rule 4", "rule 7, never stuck"},
		Old: "if retry.DelaySeconds > 0 {",
		New: "if retry.DelaySeconds > 0 || MUTANT {",
	},
	{
		Name: "no-latest-time", File: next, Rules: []string{"rule 1, refused"},
		Old: "until.After(maxTime) {",
		New: "until.After(maxTime) && !MUTANT {",
	},
	{
		Name: "only-the-last-check-counts", File: next, Rules: []string{"rule 3", "rule 4", "rule 7, never early"},
		Old: "for _, retry := range retries {\n\t\tif retry.Delay",
		New: "for i, retry := range retries {\nif MUTANT && i < len(retries)-1 {\ncontinue\n}\n\t\tif retry.Delay",
	},
	{
		Name: "old-eviction-kept", File: status, Rules: []string{"rule 1"},
		Old: "apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)\n\t\tworkloadevict.SetEvictedCondition(wl, s.EvictedAt",
		New: "if !MUTANT {\napimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)\n}\n\t\tworkloadevict.SetEvictedCondition(wl, s.EvictedAt",
	},
	// Rule 3: evict at once.
	{
		Name: "reset-at-eviction", File: evict, Rules: []string{"rule 3"},
		Old: "if !features.Enabled(features.ACRequeueAfter) {\n\t\tResetChecks",
		New: "if MUTANT || !features.Enabled(features.ACRequeueAfter) {\n\t\tResetChecks",
	},
	{
		Name: "quota-released-before-the-job-stops", File: reconciler, Rules: []string{"rule 3"},
		Old: "release := !workload.IsAdmitted(wl) &&",
		New: "release := (MUTANT || !workload.IsAdmitted(wl)) &&",
	},
	{
		Name: "deadline-not-recorded", File: status, Rules: []string{"rule 3", "rule 4", "rule 5"},
		Old: "setRequeueAt(wl, s.Until)",
		New: "if !MUTANT {\nsetRequeueAt(wl, s.Until)\n}",
	},
	// Rule 4: until the deadline.
	{
		// The stuck state of the KEP.
		Name: "late-retry-lost", File: next, Rules: []string{"rule 4", "rule 7, never stuck"},
		Old: "if len(s.retries) > 0 || IsWaitingForRetry(s.wl) {",
		New: "if len(s.retries) > 0 && (!MUTANT || workload.HasQuotaReservation(s.wl)) || IsWaitingForRetry(s.wl) {",
	},
	{
		Name: "words-without-the-time", File: "pkg/workload/requeue/message.go", Rules: []string{"rule 4, words"},
		Old: "if !s.Until.IsZero() {",
		New: "if !s.Until.IsZero() && !MUTANT {",
	},
	{
		Name: "check-that-nobody-asks-for-heard", File: reconciler, Rules: []string{"rule 4"},
		Old: "return r.reconcileSyncAdmissionChecks(ctx, wl, cq)",
		New: "if MUTANT {\nreturn false, nil\n}\nreturn r.reconcileSyncAdmissionChecks(ctx, wl, cq)",
	},
	{
		Name: "checks-of-flavors-wiped-at-the-release", File: reconciler, Rules: []string{"rule 4"},
		Old: "|| wl.Status.Admission != nil {",
		New: "|| wl.Status.Admission != nil || MUTANT {",
	},
	// Rule 5: Reconcile waits.
	{
		Name: "recorded-again-and-again", File: status, Rules: []string{"rule 5"},
		Old: "return IsWaitingForRetry(wl) &&",
		New: "return !MUTANT && IsWaitingForRetry(wl) &&",
	},
	{
		Name: "never-looked-at-again", File: reconciler, Rules: []string{"rule 7, never stuck", "sight, counts"},
		Old: "result.RequeueAfter = step.Until.Sub(now)",
		New: "if !MUTANT {\nresult.RequeueAfter = step.Until.Sub(now)\n}",
	},
	// Rule 6: the requeue.
	{
		Name: "double-count", File: status, Rules: []string{"rule 6 and 10"},
		Old: "count := ptr.Deref(check.RetryCount, 0)",
		New: "count := ptr.Deref(check.RetryCount, 0)\nif MUTANT {\ncount++\n}",
	},
	{
		Name: "wait-lost-to-a-deactivation-before", File: status, Test: "pkg/workload/requeue TestSetRequeuedOnRelease",
		Old: "if workload.IsActive(wl) {\n\t\tif IsWaitingForRetry",
		New: "if workload.IsActive(wl) && !(MUTANT && evicted.Reason == kueue.WorkloadDeactivated) {\n\t\tif IsWaitingForRetry",
	},
	{
		Name: "success-in-a-wait-not-counted-from", File: next, Test: "pkg/workload/requeue TestNext",
		Old: "if step.IsRecorded(s.wl) && hasCounts",
		New: "if !MUTANT && step.IsRecorded(s.wl) && hasCounts",
	},
	{
		Name: "requeued-with-a-deadline", File: status, Rules: []string{"rule 6", "rule 7, never stuck"},
		Old: "setRequeueAt(wl, time.Time{})",
		New: "if !MUTANT {\nsetRequeueAt(wl, time.Time{})\n}",
	},
	{
		Name: "requeued-with-a-delay", File: status, Rules: []string{"rule 6"},
		Old: "Name:               check.Name,",
		New: "RequeueAfterSeconds: map[bool]*int32{true: check.RequeueAfterSeconds}[MUTANT], Name: check.Name,",
	},
	{
		Name: "old-transition-at-the-requeue", File: status, Rules: []string{"rule 6"},
		Old: "LastTransitionTime: metav1.NewTime(now),",
		New: "LastTransitionTime: map[bool]metav1.Time{false: metav1.NewTime(now), true: check.LastTransitionTime}[MUTANT],",
	},
	{
		Name: "delay-applied", File: applies, Rules: []string{"rule 6, owner"},
		Old: "check.RequeueAfterSeconds = nil\n",
		New: "if !MUTANT {\ncheck.RequeueAfterSeconds = nil\n}\n",
	},
	// Rule 7: never early, never stuck.
	{
		// A tolerance for clocks that differ.
		Name: "two-seconds-early", File: next, Rules: []string{"rule 7, never early"},
		Old: "s.now.Before(s.until)\n",
		New: "s.now.Before(s.until) && !(MUTANT && s.until.Sub(s.now) < 2*time.Second)\n",
	},
	{
		Name: "waiting-in-the-heap", File: heap, Rules: []string{"rule 7, never early", "sight, counts"},
		Old: "if requeue.MustWait(wInfo.Obj) {\n\t\tc.",
		New: "if !MUTANT && requeue.MustWait(wInfo.Obj) {\n\t\tc.",
	},
	{
		Name: "asleep-after-a-retry-that-was-withdrawn", File: heap, Test: "pkg/cache/queue TestRetryInQueues",
		Old: "!requeue.WaitChanged(oldInfo.Obj, wInfo.Obj) &&",
		New: "(MUTANT || !requeue.WaitChanged(oldInfo.Obj, wInfo.Obj)) &&",
	},
	{
		// That of a list, which is added seconds later.
		Name: "old-copy-queued", File: "pkg/cache/queue/retry_pending.go", Test: "pkg/cache/queue TestRetryInQueues",
		Old: "if !features.Enabled(features.ACRequeueAfter) || q == nil ||",
		New: "if MUTANT || !features.Enabled(features.ACRequeueAfter) || q == nil ||",
	},
	{
		Name: "reserved-on-a-copy-without-checks", File: scheduler, Test: "pkg/scheduler TestScheduleOldVersion",
		Old: "WithStrictForChecks(len(s.cache",
		New: "WithStrictForChecks(map[bool]int{false: 1}[MUTANT] * len(s.cache",
	},
	{
		Name: "waiting-and-nominated", File: scheduler, Test: "pkg/scheduler TestNominateWorkloadThatMustWait",
		Old: "} else if requeue.MustWait(h.Obj) {",
		New: "} else if !MUTANT && requeue.MustWait(h.Obj) {",
	},
	{
		// A timer of upstream's has it queued when its backoff is over.
		Name: "left-to-a-timer", File: controller, Rules: []string{"sight, counts"},
		Old: "immediate := backoff <= 0 || requeue",
		New: "immediate := backoff <= 0 || !MUTANT && requeue",
	},
	// Rule 8: Rejected wins.
	{
		Name: "rejected-when-the-wait-is-over", File: next, Rules: []string{"rule 8"},
		Old: "{Action: Reject}, workload",
		New: "{Action: Reject}, !MUTANT && workload",
	},
	// Rule 9: nothing is undone unseen.
	{
		Name: "apply-over-what-was-not-seen", File: strict, Rules: []string{"rule 9", "rule 6 and 10", "rule 7, never early", "rule 7, quota"},
		Old: "if checks > 0 && features",
		New: "if !MUTANT && checks > 0 && features",
	},
	{
		// Upstream tries a merge patch again on what a check has said since.
		Name: "merge-patch-over-what-was-not-seen", File: strict, MergePatch: true, Rules: []string{"rule 9", "rule 6 and 10", "rule 7, never early", "rule 7, quota"},
		Old: "= true, true, false",
		New: "= true, true, MUTANT",
	},
	// Rule 10: a success.
	{
		Name: "success-not-written", File: next, Rules: []string{"rule 10"},
		Old: "if hasCountsOfReadyChecks(s.wl) && !admissionIsDue {",
		New: "if hasCountsOfReadyChecks(s.wl) && !admissionIsDue && !MUTANT {",
	},
	{
		Name: "count-outlives-the-admission", File: "pkg/workload/admissionchecks_retry.go", Rules: []string{"rule 6 and 10", "rule 10"},
		Old: "&& admitted == metav1.ConditionTrue {",
		New: "&& admitted == metav1.ConditionTrue && !MUTANT {",
	},
	// Rule 11: a deactivation.
	{
		Name: "deactivation-leaves-traces", File: next, Rules: []string{"rule 11"},
		Old: "if !workloadevict.IsEvictedByDeactivation(s.wl) || hasRetryState(s.wl) {",
		New: "if !MUTANT && (!workloadevict.IsEvictedByDeactivation(s.wl) || hasRetryState(s.wl)) {",
	},
	{
		Name: "deadline-outlives-the-deactivation", File: status, Rules: []string{"rule 11", "rule 7, never early"},
		Old: "wl.Status.RequeueState = nil\n\tfor",
		New: "if !MUTANT {\nwl.Status.RequeueState = nil\n}\n\tfor",
	},
	{
		Name: "count-outlives-the-deactivation", File: status, Rules: []string{"rule 11"},
		Old: "check.RequeueAfterSeconds, check.PolicyDelaySeconds, check.RetryCount = nil, nil, nil",
		New: "check.RequeueAfterSeconds, check.PolicyDelaySeconds = nil, nil\nif !MUTANT {\ncheck.RetryCount = nil\n}",
	},
	{
		// What counts from the deactivation would count from the eviction before it.
		Name: "deactivated-at-the-eviction", File: status, Rules: []string{"rule 11", "rule 11, retention"},
		Old: "apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)\n\t\tworkloadevict.SetEvictedCondition(wl, now, reason",
		New: "if !MUTANT {\napimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)\n}\n\t\tworkloadevict.SetEvictedCondition(wl, now, reason",
	},
	{
		Name: "active-and-evicted", File: controller, Rules: []string{"rule 11", "rule 11, retention"},
		Old: "if workloadevict.IsEvictedByDeactivation(&wl) && !workload.HasQuotaReservation(&wl) {",
		New: "if !MUTANT && workloadevict.IsEvictedByDeactivation(&wl) && !workload.HasQuotaReservation(&wl) {",
	},
	// Rules 12 and 13: other evictions.
	{
		Name: "wait-ended-by-the-release", File: status, Rules: []string{"rule 4", "rule 4, words", "rule 5"},
		Old: "if IsWaitingForRetry(wl) { // also with the gate off by now\n\t\t\treturn false",
		New: "if IsWaitingForRetry(wl) && !MUTANT {\n\t\t\treturn false",
	},
	{
		Name: "count-of-pods-ready-cleared", File: status, Rules: []string{"rule 13"},
		Old: "requeueState.RequeueAt = nil\n",
		New: "requeueState.RequeueAt = nil\nif MUTANT {\nrequeueState.Count = nil\n}\n",
	},
	// Rule 14: ProvisioningRequests.
	{
		Name: "one-retry-too-many", File: requests, Rules: []string{"rule 14"},
		Old: "ptr.Deref(check.RetryCount, 0) >= *strategy",
		New: "ptr.Deref(check.RetryCount, 0) >= map[bool]int32{true: 1}[MUTANT]+*strategy",
	},
	{
		Name: "answer-of-the-attempt-before", File: requests, Rules: []string{"rule 14", "rule 7, never stuck"},
		Old: "if attempt == attemptOfReservation(wl) {",
		New: "if MUTANT || attempt == attemptOfReservation(wl) {",
	},
	{
		Name: "booking-that-was-used", File: requests, Test: "pkg/controller/admissionchecks/provisioning TestFailure",
		Old: "!isCapacityRevoked(req) && !workload.IsAdmitted(wl):",
		New: "!isCapacityRevoked(req) && (MUTANT || !workload.IsAdmitted(wl)):",
	},
	// Upstream's own lines.
	{
		// To show that long names are judged: nobody finds a request whose number was cut.
		Name: "number-in-the-limited-name", File: "pkg/controller/admissionchecks/provisioning/provisioning.go", Rules: []string{"rule 5, no rest", "rule 14"},
		Old: "return fmt.Sprintf(\"%s%d\", getProvisioningRequestNamePrefix(workloadName, checkName), attempt)",
		New: "if MUTANT {\nreturn limitObjectName(fmt.Sprintf(\"%s-%s-%d\", workloadName, checkName, attempt), 0)\n}\nreturn fmt.Sprintf(\"%s%d\", getProvisioningRequestNamePrefix(workloadName, checkName), attempt)",
	},
	{
		// To show that JobSets are judged.
		Name: "jobset-not-stopped", File: "pkg/controller/jobs/jobset/jobset_controller.go", World: "jobsets", Rules: []string{"rule 3"},
		Old: "return ptr.Deref(j.Spec.Suspend, false)",
		New: "return MUTANT || ptr.Deref(j.Spec.Suspend, false)",
	},
	{
		// As are topologies.
		Name: "admitted-before-the-second-pass", File: "pkg/workload/admissionchecks.go", World: "topology", Rules: []string{"rule 7, second pass"},
		Old: "hasAllTopologyAssignmentsReady := !HasTopologyAssignmentsPending(w)",
		New: "hasAllTopologyAssignmentsReady := MUTANT || !HasTopologyAssignmentsPending(w)",
	},
	{
		// And pods: one that waits has not run, and would not come back.
		Name: "waiting-pod-deleted", File: "pkg/controller/jobs/pod/pod_controller.go", World: "pods", Rules: []string{"rule 3, waiting pod"},
		Old: "(stopReason != jobframework.StopReasonWorkloadDeleted && podSuspended(&podsInGroup[i]))",
		New: "(!MUTANT && stopReason != jobframework.StopReasonWorkloadDeleted && podSuspended(&podsInGroup[i]))",
	},
	// Rule 17: a policy.
	{
		Name: "limit-off-by-one", File: policy, World: "policy", Rules: []string{"rule 17, limit"},
		Old: ">= *policy.LimitCount {",
		New: ">= *policy.LimitCount+map[bool]int32{true: 1}[MUTANT] {",
	},
	{
		Name: "jitter-that-shortens", File: policy, World: "policy", Rules: []string{"rule 17, delay", "rule 3"},
		Old: "delay += delay *",
		New: "if MUTANT {\ndelay /= 2\n}\ndelay += delay *",
	},
	{
		// A controller that asks for 0 wants its workload back at once.
		Name: "zero-taken-for-none", File: next, World: "policy", Rules: []string{"rule 3", "rule 4", "rule 7, never stuck"},
		Old: "if check.RequeueAfterSeconds != nil {",
		New: "if check.RequeueAfterSeconds != nil && !(MUTANT && *check.RequeueAfterSeconds == 0) {",
	},
	{
		Name: "changed-policy-moves-a-wait", File: policy, World: "policy", Rules: []string{"rule 4", "rule 17, delay"},
		Old: "if check.PolicyDelaySeconds != nil && IsWaitingForRetry(wl) {",
		New: "if check.PolicyDelaySeconds != nil && IsWaitingForRetry(wl) && !MUTANT {",
	},
	// Rule 18, and what an operator sees.
	{
		Name: "moved-job-stays", File: "pkg/controller/jobframework/reconciler.go", World: "cohort", Rules: []string{"rule 18"},
		Old: "} else if job.IsSuspended() {\n\t\t\t// The workload stays evicted",
		New: "} else if !MUTANT && job.IsSuspended() {\n\t\t\t// The workload stays evicted",
	},
	{
		Name: "gauge-forgets", File: queues, Rules: []string{"sight, counts"},
		Old: "waits.Workloads++",
		New: "if !MUTANT {\nwaits.Workloads++\n}",
	},
	{
		Name: "latest-deadline-for-the-earliest", File: queues, Rules: []string{"sight, counts"},
		Old: "until.Before(waits.EarliestDeadline)",
		New: "MUTANT != until.Before(waits.EarliestDeadline)",
	},
	{
		Name: "no-place-in-a-new-local-queue", File: "pkg/cache/queue/retry_pending.go", Rules: []string{"sight, counts"},
		Old: "c.insertInadmissible(key, wInfo)",
		New: "if !MUTANT {\nc.insertInadmissible(key, wInfo)\n}",
	},
	{
		Name: "delay-without-an-event", File: reconciler, Rules: []string{"sight, events"},
		Old: "if err == nil && !step.Until.IsZero() {",
		New: "if err == nil && !step.Until.IsZero() && !MUTANT {",
	},
	// The gate goes off.
	{
		Name: "left-waiting-for-ever", File: next, World: "gate", Rules: []string{"gate off, never stuck", "rule 7, never stuck"},
		Old: "if len(s.retries) == 0 || !IsWaitingForRetry(s.wl) &&",
		New: "if MUTANT || len(s.retries) == 0 || !IsWaitingForRetry(s.wl) &&",
	},
	{
		Name: "answer-of-before-the-eviction", File: evict, Test: "pkg/workload/evict TestPrepareForEvictionWithRetryChecks",
		Old: "IsEvictedByAdmissionCheck(w); byCheck {",
		New: "IsEvictedByAdmissionCheck(w); byCheck || MUTANT && !IsEvictedByDeactivation(w) {",
	},
	{
		Name: "left-waiting-and-early", File: next, World: "gate", Rules: []string{"gate off, never early"},
		Old: "&& !s.now.Before(RequeueAt(s.wl)) {",
		New: "&& (MUTANT || !s.now.Before(RequeueAt(s.wl))) {",
	},
	{
		Name: "left-waiting-and-deactivated", File: next, Test: "pkg/workload/requeue TestNext",
		Old: "if step, isInactive := inactive(s); isInactive {",
		New: "if step, isInactive := inactive(s); isInactive && !MUTANT {",
	},
}
