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
	apply  = "pkg/workload/versioned_apply.go"
	writes = "pkg/workload/workload.go"

	// leaveQueue is how a reconciler takes wl out of the queues.
	leaveQueue = "r.queues.DeleteWorkload(wl)"
	// leaveOldQueue is when the queues take one out that was moved.
	leaveOldQueue = "features.Enabled(features.ACRequeueAfter) || workload.MustWait(older) {\n\t\tm.leaveQueueOf(older, latest)"
)

var ofBase = []Mutant{
	{
		Name: "copy-of-an-eviction-before", File: "pkg/controller/admissionchecks/multikueue/delayed_retry_base.go",
		Test: "pkg/controller/admissionchecks/multikueue TestCopyOfAnEvictionBeforeIsRemoved",
		Old:  "return !features.Enabled(features.ACRequeueAfter) || workload.IsEvicted(local)",
		New:  "return !features.Enabled(features.ACRequeueAfter) || workload.IsEvicted(local) || MUTANT",
	},
	{
		Name: "slice-finished-before-its-successor-has-quota", File: "pkg/scheduler/delayed_retry_base.go",
		Test: "pkg/scheduler TestReplacedSliceIsFinishedAfterTheReservation",
		Old:  "if features.Enabled(features.ACRequeueAfter) {\n\t\treturn nil",
		New:  "if features.Enabled(features.ACRequeueAfter) && !MUTANT {\n\t\treturn nil",
	},
	{
		Name: "two-slices-with-quota", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota",
		Old:  "return replaces(&larger, &smaller) })",
		New:  "return !MUTANT && replaces(&larger, &smaller) })",
	},
	{
		Name: "quota-of-another-tenants-slice", File: "pkg/workloadslicing/workloadslicing.go",
		Test: "pkg/workloadslicing TestReplacedWorkloadSliceOfAnotherJob",
		Old:  "if !found || isOfAnotherJob(wl.Obj, replaced.Obj) {",
		New:  "if !found || !MUTANT && isOfAnotherJob(wl.Obj, replaced.Obj) {",
	},
	{
		Name: "victim-taken-for-a-slice", File: "pkg/workloadslicing/workloadslicing.go",
		Test: "pkg/workloadslicing TestReplacedWorkloadSliceOfAnotherJob",
		Old:  "&& !isOfAnotherJob(preemptor, targets[i].WorkloadInfo.Obj) {",
		New:  "&& (MUTANT || !isOfAnotherJob(preemptor, targets[i].WorkloadInfo.Obj)) {",
	},
	{
		Name: "slice-that-runs-again-is-finished", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota",
		Old:  "&& !workload.IsEvicted(wl) &&",
		New:  "&& !MUTANT && !workload.IsEvicted(wl) &&",
	},
	{
		Name: "slice-that-waits-for-checks-is-spared", File: "pkg/workloadslicing/delayed_retry_base.go",
		Test: "pkg/workloadslicing TestTwoSlicesWithQuota",
		Old:  " workload.IsAdmitted(wl) {",
		New:  " (workload.IsAdmitted(wl) || MUTANT) {",
	},
	{
		Name: "replaced-slice-left", File: "pkg/controller/core/workload_delayed_retry_base.go",
		Test: "pkg/controller/core TestReplacedSliceIsFinished",
		Old:  "err != nil || slice == nil {",
		New:  "err != nil || slice == nil || MUTANT {",
	},
}

// testsOfBase find what the simulation finds on another base, and does not come to here.
var testsOfBase map[string]string
