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

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// followQueueName gives a workload the queue that its job has now, unless another
// controller does.
func (r *JobReconciler) followQueueName(ctx context.Context, job GenericJob, wl *kueue.Workload) error {
	return r.handleQueueNameChange(ctx, job, wl)
}

// updatePriorityOfWaiting has nothing to do: every workload has got the priority of
// its job already.
func (r *JobReconciler) updatePriorityOfWaiting(context.Context, GenericJob, client.Object, *kueue.Workload) (bool, error) {
	return false, nil
}
