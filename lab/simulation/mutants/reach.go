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
	jobSets   = "pkg/controller/jobs/jobset/jobset_controller.go"
	pods      = "pkg/controller/jobs/pod/pod_controller.go"
	admission = "pkg/workload/admissionchecks.go"
)

// ofReach are found in worlds with one thing more, which Reach names.
var ofReach = []Mutant{
	{
		// By the clock of another replica, which was ahead.
		Name: "later-eviction-taken-for-now", File: plan, Reach: "clocks",
		Rules: []string{"rule 4", "rule 7, never early"},
		Old:   "plan := RetryPlan{EvictedAt: evictedAt(wl)}\n",
		New:   "plan := RetryPlan{EvictedAt: evictedAt(wl)}\nif MUTANT && plan.EvictedAt.Sub(rctx.Now) > time.Second {\nplan.EvictedAt = rctx.Now\n}\n",
	},
	{
		// Upstream's own line, to show that the second pass is judged.
		Name: "admitted-before-the-second-pass", File: admission, Reach: "topology",
		Rules: []string{"second pass"},
		Old:   "hasAllTopologyAssignmentsReady := !HasTopologyAssignmentsPending(w)",
		New:   "hasAllTopologyAssignmentsReady := MUTANT || !HasTopologyAssignmentsPending(w)",
	},
	{
		// Upstream's own line, to show that JobSets are judged.
		Name: "jobset-not-stopped", File: jobSets, Reach: "jobsets",
		Rules: []string{"rule 3"},
		Old:   "return ptr.Deref(j.Spec.Suspend, false)",
		New:   "return MUTANT || ptr.Deref(j.Spec.Suspend, false)",
	},
	{
		// Another worker can then not be chosen any more.
		Name: "worker-remembered", File: write, Reach: "multikueue",
		Rules: []string{"rule 1, no write is refused", "rule 7, never stuck"},
		Old:   "if !HasQuotaReservation(wl) {",
		New:   "if !HasQuotaReservation(wl) && !MUTANT {",
	},
	{
		// One that waits has not run, and would not come back.
		Name: "waiting-pod-deleted", File: pods, Reach: "pods",
		Rules: []string{"a pod that has not run"},
		Old:   "(stopReason != jobframework.StopReasonWorkloadDeleted && podSuspended(&podsInGroup[i]))",
		New:   "(!MUTANT && stopReason != jobframework.StopReasonWorkloadDeleted && podSuspended(&podsInGroup[i]))",
	},
}
