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

package concurrentadmission

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// mayPreempt returns true if it can be the variant's turn to preempt others. With the
// gate on it is not that of a variant that waits.
func mayPreempt(variant *kueue.Workload) bool {
	if features.Enabled(features.ACRequeueAfter) && workload.MustWait(variant) {
		return false
	}
	return workload.IsAdmissible(variant)
}

// staysInactive returns true, with the gate on, for a variant that a check had
// deactivated, by a rejection or because it was retried as often as it may be. To be
// activated with the others it would be tried, and deactivated, without end.
func staysInactive(variant *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && slices.ContainsFunc(variant.Status.Conditions, func(cond metav1.Condition) bool {
		target, evicted := cond.Type == kueue.WorkloadDeactivationTarget, cond.Type == kueue.WorkloadEvicted
		return cond.Status == metav1.ConditionTrue && slices.ContainsFunc([]string{
			kueue.WorkloadEvictedByAdmissionCheck, kueue.WorkloadAdmissionCheckRetryLimitExceeded,
		}, func(cause string) bool {
			return target && cond.Reason == cause || evicted && cond.Reason == workloadpatching.ReasonWithCause(kueue.WorkloadDeactivated, cause)
		})
	})
}
