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
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// pendingReason returns the reason of QuotaReserved=False of a workload that is to
// be tried again.
func pendingReason() string {
	return UnadmittedWorkloadReasonWithFallback(kueue.WorkloadQuotaReservedReasonPendingEvaluation, "Pending")
}

// endTurnInQueue takes back what the workload was granted while it was queued, as an
// eviction does: it must not preempt others until it is its turn again.
func endTurnInQueue(wl *kueue.Workload, now time.Time, message string) {
	workloadevict.ClosePreemptionGates(wl, now, kueue.WorkloadEvictedByAdmissionCheck, message)
}

func init() {
	workloadevict.ResetChecks = resetChecksForEviction
}
