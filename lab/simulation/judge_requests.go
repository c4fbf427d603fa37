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

package simulation

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// ProvisioningRequests: rule 14.

// request: a new one has no number of before, and belongs to a workload that was seen to
// hold quota.
func (j *judge) request(write memapi.Write) {
	name := requestedFor(write.New)
	attempt, _ := strconv.Atoi(write.New.GetName()[strings.LastIndex(write.New.GetName(), "-")+1:])
	last := j.requests[name]
	if write.Old != nil {
		conditions, _, _ := unstructured.NestedSlice(write.New.Object, "status", "conditions")
		for _, condition := range conditions {
			if c := condition.(map[string]any); attempt == last.attempt && c["status"] == "True" {
				last.failed = last.failed || c["type"] == autoscaling.Failed
				last.revoked = last.revoked || c["type"] == autoscaling.CapacityRevoked
				last.provisioned = last.provisioned || c["type"] == autoscaling.Provisioned
				j.requests[name] = last
			}
		}
		return
	}
	j.seenEvents["requests"]++
	j.world.note("  %s creates %s", write.Caller, write.New.GetName())
	isAnew := attempt == 1 && last.goneGateOff
	misnumbered := attempt < last.attempt && !isAnew
	if misnumbered && !last.muddled && features.Enabled(features.ACRequeueAfter) {
		j.fail("rule 14", "%s is created after attempt %d, failed: %v", write.New.GetName(), last.attempt, last.failed)
	}
	j.requests[name] = lastRequest{attempt: attempt, muddled: last.muddled || misnumbered}
	wl := j.versions[name][j.decidedOn.cached[name]]
	// A reconciliation that starts an informer waits for it.
	if j.decided.Sub(j.decidedOn.at[name]) < 300*time.Millisecond {
		return
	}
	if wl != nil && features.Enabled(features.ACRequeueAfter) && (!workload.HasQuotaReservation(wl) || workloadevict.IsEvicted(wl) || workloadCheck(wl, j.world.config.provisioningCheck()).State == kueue.CheckStateRetry) {
		j.fail("rule 14", "%s is created for a workload that waits: %s", write.New.GetName(), describe(wl))
	}
}

func (j *judge) requestDeleted(write memapi.Write) {
	name := requestedFor(write.Old)
	if last := j.requests[name]; !features.Enabled(features.ACRequeueAfter) {
		last.muddled, last.goneGateOff = last.muddled || last.failed, true
		j.requests[name] = last
	}
}

// requestedFor returns the name of the workload that a request is for.
func requestedFor(request *unstructured.Unstructured) string {
	for _, owner := range request.GetOwnerReferences() {
		return owner.Name
	}
	return ""
}

// isOfProvisioning: the controller of ProvisioningRequests applies all checks as they are,
// and owns their delays from then on. operators.md has it.
func isOfProvisioning(owner string) bool {
	return owner == string(kueue.ProvisioningRequestControllerName)
}
