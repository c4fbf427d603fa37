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

package evict

import (
	"slices"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
)

// keepsCheckStates returns true if an eviction leaves the checks as they are: one of them
// asks for a retry, and all are reset when the workload is requeued, or one rejects the
// workload, which is about to be deactivated.
func keepsCheckStates(w *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !IsEvictedByDeactivation(w) &&
		slices.ContainsFunc(w.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
			return check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected
		})
}
