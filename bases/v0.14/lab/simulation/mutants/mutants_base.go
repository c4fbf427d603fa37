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

import "slices"

// What differs between the versions of Kueue.

const (
	apply  = "pkg/workload/versioned_apply.go"
	writes = "pkg/workload/workload.go"

	// leaveQueue is how a reconciler takes wl out of the queues.
	leaveQueue = "r.queues.DeleteWorkload(wl)"
	// leaveOldQueue is when the queues take one out that was moved.
	leaveOldQueue = "features.Enabled(features.ACRequeueAfter) || workload.MustWait(older) {\n\t\tm.leaveQueueOf(older, latest)"
)

// pageIsWhole: the page has what differs from that of v0.19.
const pageIsWhole = false

func inPage() []Mutant {
	return slices.DeleteFunc(slices.Clone(All), func(m Mutant) bool {
		_, otherTest := testsOfBase[m.Name]
		return !otherTest && !slices.ContainsFunc(ofBase, func(own Mutant) bool { return own.Name == m.Name })
	})
}

var ofBase = []Mutant{
	{
		Name: "copy-of-an-eviction-before", File: "pkg/controller/admissionchecks/multikueue/delayed_retry_base.go",
		Test: "pkg/controller/admissionchecks/multikueue TestCopyOfAnEvictionBeforeIsRemoved/the_eviction_is_over",
		Why:  tooShort,
		Old:  "return !features.Enabled(features.ACRequeueAfter) || workload.IsEvicted(local)",
		New:  "return !features.Enabled(features.ACRequeueAfter) || workload.IsEvicted(local) || MUTANT",
	},
	{
		// A reservation that was refused because the job was scaled is tried again as it was.
		Name: "put-back-with-the-requests-of-before", File: queuesBase,
		Rules: []string{"quota and admission"},
		Old:   "&& !asksForTheSame(info.Obj, now) &&",
		New:   "&& !asksForTheSame(info.Obj, now) && !MUTANT &&",
	},
	{
		// Upstream's apply is refused for good.
		Name: "time-of-the-gate-left", File: plan,
		Test: "pkg/workload TestPlanLeftWaiting/withdrawn_while_the_job_stopped:_upstream's_apply_without_the_time_may_be_refused",
		Why:  tooSeldom,
		Old:  "|| isKeptOutWithoutCount(wl)):",
		New:  "|| !MUTANT && isKeptOutWithoutCount(wl)):",
	},
	{
		Name: "checks-reset-that-the-base-leaves", File: plan,
		Test: "pkg/workload TestPlanLeftWaiting/withdrawn_while_the_job_stopped:_upstream's_apply_without_the_time_may_be_refused",
		Why:  tooSeldom,
		Old:  "= RetryRequeue, state != RetryStateWaiting",
		New:  "= RetryRequeue, state != RetryStateWaiting && !MUTANT",
	},
	{
		Name: "slices-that-fork", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestForkedSlices/none_has_quota",
		Why:  scaled,
		Old:  "if features.Enabled(features.ACRequeueAfter) {\n\t\tall := ",
		New:  "if !MUTANT && features.Enabled(features.ACRequeueAfter) {\n\t\tall := ",
	},
	{
		Name: "fork-with-quota-deleted", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestForkedSlices/one_has_quota,_and_is_to_be_stopped",
		Why:  scaled,
		Old:  "return key != nil && !workload.HasQuotaReservation(wl) &&",
		New:  "return key != nil && (MUTANT || !workload.HasQuotaReservation(wl)) &&",
	},
	{
		Name: "put-back-with-the-requests-of-another", File: queues,
		Test: "pkg/cache/queue TestRequeueWorkloadThatAsksForOthersNow/it_was_deleted,_and_created_again",
		Why:  tooShort,
		Old:  "return judged.UID == now.UID && ",
		New:  "return (MUTANT || judged.UID == now.UID) && ",
	},
	{
		// It becomes active when the scheduler has looked at it already.
		Name: "asleep-when-a-queue-becomes-active", File: "pkg/cache/queue/manager.go",
		Test: "pkg/cache/queue TestActiveClusterQueueWakesUpScheduler/gate_true",
		Why:  tooShort,
		Old:  "if queued || features",
		New:  "if queued || !MUTANT && features",
	},
	{
		// Upstream's own line, to show that two ClusterQueues are judged.
		Name: "moved-and-in-both-queues", File: "pkg/cache/queue/manager.go", Cohort: true,
		Rules: []string{"counts"},
		Old:   "if oldW.Spec.QueueName != w.Spec.QueueName {",
		New:   "if !MUTANT && oldW.Spec.QueueName != w.Spec.QueueName {",
	},
	{
		// Its ClusterQueue is deleted while its reservation is written.
		Name: "assumed-for-ever", File: "pkg/cache/scheduler/delayed_retry_base.go",
		Test: "pkg/cache/scheduler TestForgetCopyWithoutItsQueue",
		Why:  tooSeldom,
		Old:  "c.assumedWorkloads[key] == wl.Status.Admission.ClusterQueue {",
		New:  "!MUTANT && c.assumedWorkloads[key] == wl.Status.Admission.ClusterQueue {",
	},
	{
		// The cache of v0.19 leaves it out itself.
		Name: "inactive-one-restored", File: scheduler,
		Test: "pkg/scheduler TestRefusedSecondPass/it_was_deactivated",
		Why:  tooShort,
		Old:  "if !holdsQuota(latest) {",
		New:  "if latest == nil || !MUTANT && !holdsQuota(latest) {",
	},
	{
		// The controller of pods applies it without force, and meets a conflict for ever.
		Name: "condition-of-the-pod-controller-written", File: "pkg/workload/delayed_retry_message.go", Reach: "pods",
		Rules: []string{"rule 7, never stuck"},
		Old:   "tell(wl, kueue.WorkloadEvicted, message)\n",
		New:   "tell(wl, kueue.WorkloadEvicted, message)\nif MUTANT {\ntell(wl, \"WaitingForReplacementPods\", message)\n}\n",
	},
	{
		Name: "deactivated-and-put-back", File: queuesBase,
		Test: "pkg/cache/queue TestRequeueDeactivatedWorkload/gate_true,_active_false",
		Why:  tooShort,
		Old:  "&& !workload.IsAdmissible(wl)",
		New:  "&& !MUTANT && !workload.IsAdmissible(wl)",
	},
	{
		Name: "given-up-when-its-nodes-are-replaced", File: controller,
		Test: "pkg/controller/core TestReconcileDelayedRetry/what_is_given_up_waits_for_no_nodes_to_be_replaced",
		Why:  tooSeldom,
		Old:  "workload.HasUnhealthyNodes(&wl) && !isGivenUp(&wl)",
		New:  "workload.HasUnhealthyNodes(&wl) && (MUTANT || !isGivenUp(&wl))",
	},
	{
		// The write that it waits for others makes that of its reservation fail.
		Name: "own-write-taken-for-anothers", File: "pkg/scheduler/scheduler.go",
		Test: "pkg/scheduler TestScheduleAfterWaitingForPodsReady/WorkloadRequestUseMergePatch=true,_nobody_writes_meanwhile",
		Why:  tooShort,
		Old:  "e.Obj.ResourceVersion = wl.ResourceVersion //",
		New:  "if !MUTANT {\ne.Obj.ResourceVersion = wl.ResourceVersion\n} //",
	},
	{
		Name: "slice-finished-before-its-successor-has-quota", File: "pkg/scheduler/delayed_retry_base.go",
		Test: "pkg/scheduler TestReplacedSliceIsFinishedAfterTheReservation/refused,_because_a_check_has_spoken",
		Why:  tooShort,
		Old:  "if features.Enabled(features.ACRequeueAfter) {\n\t\treturn nil",
		New:  "if features.Enabled(features.ACRequeueAfter) && !MUTANT {\n\t\treturn nil",
	},
	{
		Name: "two-slices-with-quota", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota/replaced",
		Why:  scaled,
		Old:  "return replaces(&larger, &smaller) })",
		New:  "return !MUTANT && replaces(&larger, &smaller) })",
	},
	{
		Name: "slice-comes-back-behind-its-successor", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestOutdated/has_lost_its_quota",
		Why:  scaled,
		Old:  "case isOutOfSync(wl, slice):",
		New:  "case !MUTANT && isOutOfSync(wl, slice):",
	},
	{
		Name: "quota-of-another-tenants-slice", File: "pkg/workloadslicing/workloadslicing.go",
		Test: "pkg/workloadslicing TestReplacedWorkloadSliceOfAnotherJob/of_another_namespace",
		Why:  tenants,
		Old:  "if !found || isOfAnotherJob(wl.Obj, replaced.Obj) {",
		New:  "if !found || !MUTANT && isOfAnotherJob(wl.Obj, replaced.Obj) {",
	},
	{
		Name: "victim-taken-for-a-slice", File: "pkg/workloadslicing/workloadslicing.go",
		Test: "pkg/workloadslicing TestReplacedWorkloadSliceOfAnotherJob/of_another_namespace",
		Why:  tenants,
		Old:  "&& !isOfAnotherJob(preemptor, targets[i].WorkloadInfo.Obj) {",
		New:  "&& (MUTANT || !isOfAnotherJob(preemptor, targets[i].WorkloadInfo.Obj)) {",
	},
	{
		Name: "slice-that-runs-again-is-finished", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota/the_smaller_one_was_evicted_once",
		Why:  scaled,
		Old:  "&& !workload.IsEvicted(wl) &&",
		New:  "&& !MUTANT && !workload.IsEvicted(wl) &&",
	},
	{
		Name: "slice-that-waits-for-checks-is-spared", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota/the_smaller_one_waits_for_its_checks_again",
		Why:  scaled,
		Old:  " workload.IsAdmitted(wl) {",
		New:  " (workload.IsAdmitted(wl) || MUTANT) {",
	},
	{
		Name: "replaced-slice-left", File: "pkg/controller/core/workload_delayed_retry_base.go",
		Test: "pkg/controller/core TestReplacedSliceIsFinished/gate_on",
		Why:  scaled,
		Old:  "err != nil || slice == nil {",
		New:  "err != nil || slice == nil || MUTANT {",
	},
}

// testsOfBase find what the simulation finds on another base, and does not come to here.
var testsOfBase map[string]Mutant
