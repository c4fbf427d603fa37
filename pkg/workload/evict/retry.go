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
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
)

// resetChecksUnlessRetried leaves the checks as they are in an eviction for a retry, since all
// are reset when the workload is requeued. Another eviction, but for a deactivation, leaves those
// which ask for a retry, or reject the workload, and were not acted on yet; if they withdraw that,
// no answer from before the eviction may count. A check that was Ready counts its retries from 0.
func resetChecksUnlessRetried(w *kueue.Workload, now time.Time) {
	if !features.Enabled(features.ACRequeueAfter) {
		ResetChecksOnEviction(w, now)
		return
	}
	if _, byCheck := IsEvictedByAdmissionCheck(w); byCheck {
		return
	}
	before := slices.Clone(w.Status.AdmissionChecks)
	ResetChecksOnEviction(w, now)
	for i, check := range before {
		switch {
		case check.State == kueue.CheckStateReady && check.RetryCount != nil:
			// Set to 0, not nil: an apply cannot remove a field that another manager owns, too.
			w.Status.AdmissionChecks[i].RetryCount = new(int32)
		case check.State != kueue.CheckStateReady && !IsEvictedByDeactivation(w):
			w.Status.AdmissionChecks[i] = check
		}
	}
}
