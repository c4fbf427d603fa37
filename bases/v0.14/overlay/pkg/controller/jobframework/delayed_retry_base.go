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

package jobframework

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/constants"
)

// followQueueName gives a workload the queue that its job has now.
func (r *JobReconciler) followQueueName(ctx context.Context, job GenericJob, wl *kueue.Workload) error {
	queue := QueueName(job)
	if wl.Spec.QueueName == queue {
		return nil
	}
	wl.Spec.QueueName = queue
	return r.client.Update(ctx, wl)
}

// updatePriorityOfWaiting gives a workload that waits the priority that its job has
// now, and returns whether it had to.
func (r *JobReconciler) updatePriorityOfWaiting(ctx context.Context, job GenericJob, object client.Object, wl *kueue.Workload) (bool, error) {
	if wl.Spec.PriorityClassSource != constants.WorkloadPriorityClassSource || WorkloadPriorityClassName(object) == wl.Spec.PriorityClassName {
		return false, nil
	}
	if _, err := r.updateWorkloadToMatchJob(ctx, job, object, wl); err != nil {
		return false, fmt.Errorf("updating the priority of the workload: %w", err)
	}
	return true, nil
}
