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
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// KeepsCheckStates returns true if the checks of the workload have the states that they
// had when it was evicted: it holds its quota until pods are stopped, its own or those of
// the slice that it has replaced. With the gate off they are Pending by then. Whoever
// helps to stop a job whose check is Pending, or waits for other checks before, does not
// have to look at the states.
func KeepsCheckStates(wl *kueue.Workload) bool {
	// What a check evicts before there are pods gives its quota back in the same write.
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return features.Enabled(features.ACRequeueAfter) && StateOf(wl) == RetryStateStopping && (evictedByCheck || IsAdmitted(wl))
}
