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

// What differs between the versions of Kueue.

const (
	apply     = "pkg/workload/patching/versioned_apply.go"
	applyBase = "pkg/workload/patching/versioned_apply_base.go"
	writes    = "pkg/workload/patching/patching.go"

	// leaveQueue is how a reconciler takes wl out of the queues.
	leaveQueue = "r.queues.DeleteWorkload(ctrl.LoggerFrom(ctx), workload.Key(wl))"
	// leaveOldQueue is when the queues take one out that was moved.
	leaveOldQueue = "features.Enabled(features.ACRequeueAfter) {\n\t\tm.deleteWorkloadWithoutLock"
)

// pageIsWhole: the page has all mutants, and tells of what readers have found.
const pageIsWhole = true

func inPage() []Mutant { return All }

var ofBase = []Mutant{
	{
		Name: "cleaned-up-before-it-is-recorded", File: "pkg/controller/admissionchecks/provisioning/delayed_retry_base.go",
		Test: "pkg/controller/admissionchecks/provisioning TestCleanupOnEviction/heard_of_after_another_check's_eviction,_and_deactivated_before_anybody_looks_again",
		Why:  tooShort,
		Old:  "(check.State != kueue.CheckStatePending || last.attempt >",
		New:  "(!MUTANT && check.State != kueue.CheckStatePending || check.State == kueue.CheckStatePending && last.attempt >",
	},
	{
		// Upstream tries a merge patch again on what a check has said since.
		Name: "merge-patch-over-what-was-not-seen", File: applyBase, MergePatch: true,
		Rules: []string{"rule 9", "rule 6 and 10", "rule 7, never early"},
		Old:   "case !canApplyTo(seen, latest, clk):",
		New:   "case !MUTANT && !canApplyTo(seen, latest, clk):",
	},
	{
		// Upstream's own delays: with the quota held, and counted in another way.
		Name: "upstream-records-the-delay", File: controller,
		Rules: []string{"rule 3", "rule 4", "rule 6 and 10"},
		Old:   "requeueAt != nil && !features.Enabled(features.ACRequeueAfter) {",
		New:   "requeueAt != nil && (!features.Enabled(features.ACRequeueAfter) || MUTANT) {",
	},
	{
		// Left out, as one that the scheduler tries, when it comes back.
		Name: "head-with-quota-not-forgotten", File: queuesBase,
		Test: "pkg/cache/queue TestHeadOfALocalQueueThatWasGone/ACRequeueAfter=true,_reserved=true",
		Why:  tooSeldom,
		Old:  "\tc.delete(ctrl.Log, key)\n\treturn isHead",
		New:  "\tif !MUTANT {\n\t\tc.delete(ctrl.Log, key)\n\t}\n\treturn isHead",
	},
	{
		Name: "filed-to-wait-taken-for-looked-up", File: queuesBase,
		Test: "pkg/cache/queue TestRequeueWorkloadWithDRAThatWasFiledToWait",
		Why:  noDRA,
		Old:  "|| isFiledToWait(queued.Obj)",
		New:  "|| !MUTANT && isFiledToWait(queued.Obj)",
	},
	{
		Name: "filed-late-and-unknown", File: queuesBase,
		Test: "pkg/cache/queue TestReleaseOfWhatWasFiledLate/ACRequeueAfter=true",
		Why:  tooSeldom,
		Old:  "if m.localQueues[now] == nil {",
		New:  "if MUTANT || m.localQueues[now] == nil {",
	},
	{
		Name: "release-of-an-unknown-one-unseen", File: "pkg/controller/core/workload_delayed_retry_base.go",
		Test: "pkg/controller/core TestReleaseOfWhatIsNotFiledWakesOthers/gate_true",
		Why:  noDRA,
		Old:  "kueue.ClusterQueueReference) bool {\n\treturn false",
		New:  "kueue.ClusterQueueReference) bool {\n\treturn MUTANT",
	},
	{
		Name: "asleep-when-a-queue-becomes-active", File: "pkg/cache/queue/inadmissible_workloads.go",
		Test: "pkg/cache/queue TestActiveClusterQueueWakesUpScheduler/gate_true",
		Why:  tooShort,
		Old:  "m.lookAgain()",
		New:  "if !MUTANT {\nm.lookAgain()\n}",
	},
	{
		// A pod group that lost a pod would wait in the gauges, until it has another.
		Name: "inadmissible-among-the-waiting", File: queuesBase, Reach: "pods",
		Rules: []string{"counts"},
		Old:   "w != nil && !workload.MustWaitForChecks(w)",
		New:   "w != nil && !MUTANT && !workload.MustWaitForChecks(w)",
	},
	{
		// Each pod group that is stopped has lost its pods.
		Name: "stopped-pod-group-not-filed", File: "pkg/workload/workload.go", Reach: "pods",
		Rules: []string{"counts"},
		Old:   "kueue.WorkloadWaitingForReplacementPods) || MustWaitForChecks(w))",
		New:   "kueue.WorkloadWaitingForReplacementPods) || !MUTANT && MustWaitForChecks(w))",
	},
	{
		Name: "head-of-a-local-queue-that-was-gone", File: queuesBase,
		Test: "pkg/cache/queue TestHeadOfALocalQueueThatWasGone",
		Why:  tooSeldom,
		Old:  "cq != nil && features.Enabled(features.ACRequeueAfter) {",
		New:  "cq != nil && features.Enabled(features.ACRequeueAfter) && !MUTANT {",
	},
	{
		// What keeps it out besides may take long: a stopped queue, a backoff.
		Name: "over-but-kept-out-among-the-waiting", File: queuesBase,
		Test: "pkg/cache/queue TestPodGroupThatLostAPod",
		Why:  tooSeldom,
		Old:  "cq != nil && cq.isWaiting(workload.Key(w))",
		New:  "cq != nil && cq.isWaiting(workload.Key(w)) && !(MUTANT && workload.MustWait(w))",
	},
	{
		// Reconcile queues what needs DRA, if it is admissible.
		Name: "pod-group-with-dra-among-the-waiting", File: "pkg/controller/core/workload_controller.go",
		Test: "pkg/controller/core TestPodGroupWithDRALeavesTheQueues",
		Why:  tooSeldom,
		Old:  "dra.NeedsDRAReconcile(e.ObjectNew, r.draBackedResources) && workload.IsAdmissible(wlCopy):",
		New:  "dra.NeedsDRAReconcile(e.ObjectNew, r.draBackedResources) && (MUTANT || workload.IsAdmissible(wlCopy)):",
	},
	{
		// Charged by name while the next reservation is written.
		Name: "penalty-of-the-next-reservation", File: scheduler,
		Test: "pkg/scheduler TestPenaltyOfTheNextReservation",
		Why:  "needs admission fair sharing, which the simulation does not have",
		Old:  "return isAccountedFor\n",
		New:  "return isAccountedFor && !MUTANT\n",
	},
	{
		// Reconcile sees it without the reservation that is being written.
		Name: "reservation-forgotten-by-reconcile", File: "pkg/controller/core/workload_controller.go",
		Test: "pkg/controller/core TestReservationWithDRAStaysAccountedFor",
		Why:  noDRA,
		Old:  "} else if !features.Enabled(features.ACRequeueAfter) {\n\t\t\tif !r.cache",
		New:  "} else if MUTANT || !features.Enabled(features.ACRequeueAfter) {\n\t\t\tif !r.cache",
	},
	{
		// That a DeviceClass has it may be known later.
		Name: "extended-resource-taken-for-none-of-dra", File: "pkg/controller/core/workload_delayed_retry_base.go",
		Test: "pkg/controller/core TestConditionsOfWorkloadWithExtendedResource",
		Why:  noDRA,
		Old:  "|| slices.ContainsFunc(wl.Spec.PodSets, requestsExtendedResource)",
		New:  "|| !MUTANT && slices.ContainsFunc(wl.Spec.PodSets, requestsExtendedResource)",
	},
	{
		Name: "waiting-slice-finished", File: "pkg/workloadslicing/delayed_retry.go",
		Test: "pkg/workloadslicing TestSliceWaitsForRetry",
		Why:  scaled,
		Old:  "return workloadevict.IsEvicted(wl) && !stays",
		New:  "return workloadevict.IsEvicted(wl) && (MUTANT || !stays)",
	},
	{
		Name: "child-of-a-larger-slice-suspended", File: "pkg/controller/jobframework/reconciler.go",
		Test: "pkg/controller/jobframework TestShouldSuspendChildOfElasticJob",
		Why:  scaled,
		Old:  "&& !r.replacesSliceWithQuota(ctx, ancestorNotFinishedWorkload)",
		New:  "&& (MUTANT || !r.replacesSliceWithQuota(ctx, ancestorNotFinishedWorkload))",
	},
	{
		Name: "rejection-in-too-many-words", File: "pkg/controller/core/workload_delayed_retry_base.go",
		Test: "pkg/controller/core TestRejectedWithManyWords",
		Why:  unread,
		Old:  "return api.TruncateConditionMessage(message)",
		New:  "if MUTANT {\nreturn message\n}\nreturn api.TruncateConditionMessage(message)",
	},
	{
		Name: "request-about-to-be-deleted-taken-for-a-success", File: attempts,
		Test: "pkg/controller/admissionchecks/provisioning TestRequestThatFailsBeforeItIsDeletedKeepsTheCount",
		Why:  tooSeldom,
		Old:  "succeeded && !cleansUpRequests(wl)",
		New:  "succeeded && (MUTANT || !cleansUpRequests(wl))",
	},
}

// testsOfBase find what the simulation finds on another base, and does not come to here:
// v0.19 moves those that found no quota later, and in batches; that a worker's name stays
// was not found in 120 schedules.
var testsOfBase = map[string]Mutant{
	"scheduled-before-the-reconciler": {Test: "pkg/cache/queue TestRequeueWorkloadThatWasJudgedBefore", Why: tooShort},
	"worker-remembered":               {Test: "pkg/workload TestForgetWorker", Why: tooSeldom},
}
