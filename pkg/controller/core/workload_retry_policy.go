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

package core

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

// retryPolicies returns the policies that spec.retry of their AdmissionChecks has for
// the checks of wl in state Retry, or nil with the gate off. ProvisioningRequests
// have a retryStrategy of their own.
func (r *WorkloadReconciler) retryPolicies(ctx context.Context, wl *kueue.Workload) (map[kueue.AdmissionCheckReference]workload.RetryPolicy, error) {
	if !features.Enabled(features.ACRetryStrategy) {
		return nil, nil
	}
	policies := make(map[kueue.AdmissionCheckReference]workload.RetryPolicy)
	for _, check := range wl.Status.AdmissionChecks {
		if check.State != kueue.CheckStateRetry {
			continue
		}
		ac := &kueue.AdmissionCheck{}
		if err := r.client.Get(ctx, types.NamespacedName{Name: string(check.Name)}, ac); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, err
		}
		if ac.Spec.Retry != nil && ac.Spec.ControllerName != kueue.ProvisioningRequestControllerName {
			policies[check.Name] = workload.RetryPolicyFor(wl.UID, check.Name, ac.Spec.Retry)
		}
	}
	return policies, nil
}
