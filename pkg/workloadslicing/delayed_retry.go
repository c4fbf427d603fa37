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

package workloadslicing

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// isDropped returns true if its eviction ends the slice. With the gate on, one that was
// taken out of the queue for the retry of its checks, or gave its quota back for it, is
// queued again, and stays evicted until it has quota. One that was deactivated before it
// had quota stays, too: the job would only make it again.
func isDropped(wl *kueue.Workload) bool {
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	stays := features.Enabled(features.ACRequeueAfter) && !workload.HasQuotaReservation(wl) && (evictedByCheck || workloadevict.IsEvictedByDeactivation(wl))
	return workloadevict.IsEvicted(wl) && !stays
}
