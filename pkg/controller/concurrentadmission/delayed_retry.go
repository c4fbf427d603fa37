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
	"context"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
// activated with the others it would be tried, and deactivated, without end. It goes
// on if it is activated by hand, or its parent is deactivated, and activated again.
func staysInactive(variant *kueue.Workload) bool {
	if !features.Enabled(features.ACRequeueAfter) {
		return false
	}
	target := apimeta.FindStatusCondition(variant.Status.Conditions, kueue.WorkloadDeactivationTarget)
	evicted := apimeta.FindStatusCondition(variant.Status.Conditions, kueue.WorkloadEvicted)
	requeued := apimeta.FindStatusCondition(variant.Status.Conditions, kueue.WorkloadRequeued)
	return slices.ContainsFunc([]string{kueue.WorkloadEvictedByAdmissionCheck, kueue.WorkloadAdmissionCheckRetryLimitExceeded}, func(cause string) bool {
		return has(target, cause) || has(evicted, workloadpatching.ReasonWithCause(kueue.WorkloadDeactivated, cause)) &&
			!(requeued != nil && requeued.Status == metav1.ConditionTrue && requeued.LastTransitionTime.After(evicted.LastTransitionTime.Time))
	})
}

func has(cond *metav1.Condition, reason string) bool {
	return cond != nil && cond.Status == metav1.ConditionTrue && cond.Reason == reason
}

// forgetChecks makes the parent, which is deactivated, the cause of the deactivation of
// its variants: whoever activates it has all of them tried again.
func (r *variantReconciler) forgetChecks(ctx context.Context, variants []kueue.Workload) error {
	for i := range variants {
		if workload.IsActive(&variants[i]) || !staysInactive(&variants[i]) {
			continue
		}
		err := workloadpatching.PatchAdmissionStatus(ctx, r.client, &variants[i], r.clock, func(variant *kueue.Workload) (bool, error) {
			evicted := apimeta.FindStatusCondition(variant.Status.Conditions, kueue.WorkloadEvicted)
			if evicted == nil || evicted.Status != metav1.ConditionTrue {
				return false, nil // it is evicted first
			}
			evicted.Reason = kueue.WorkloadDeactivated
			return true, nil
		})
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return nil
}
