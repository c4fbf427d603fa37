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
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// retryPolicies returns the policies of the checks in Retry. ProvisioningRequests have a
// retryStrategy of their own.
func (r *WorkloadReconciler) retryPolicies(ctx context.Context, wl *kueue.Workload) (requeue.Policies, error) {
	if !features.Enabled(features.ACRetryStrategy) {
		return nil, nil
	}
	policies := make(requeue.Policies)
	for _, check := range workload.RetryChecks(wl) {
		ac := &kueue.AdmissionCheck{}
		if err := r.client.Get(ctx, types.NamespacedName{Name: string(check.Name)}, ac); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("getting the retry policy of admission check %s: %w", check.Name, err)
		}
		if ac.Spec.Retry != nil && ac.Spec.ControllerName != kueue.ProvisioningRequestControllerName {
			policies[check.Name] = ac.Spec.Retry
		}
	}
	return policies, nil
}

// workloadsInRetry returns the workloads that wait for the retry of an AdmissionCheck whose
// policy has changed: a lower limit counts at once.
func (r *WorkloadReconciler) workloadsInRetry(ctx context.Context, ac client.Object) []reconcile.Request {
	if !features.Enabled(features.ACRetryStrategy) {
		return nil
	}
	list := &kueue.WorkloadList{}
	if err := r.client.List(ctx, list, client.MatchingFields{indexer.WorkloadAdmissionCheckKey: ac.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Could not list the workloads that wait for the retry of an admission check")
	}
	var requests []reconcile.Request
	for i := range list.Items {
		check := admissioncheck.FindAdmissionCheck(list.Items[i].Status.AdmissionChecks, kueue.AdmissionCheckReference(ac.GetName()))
		if check != nil && check.State == kueue.CheckStateRetry {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
