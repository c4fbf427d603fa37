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

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// isStoppedForRetry returns true if nothing of the job is left to stop while its
// workload waits, without quota, for the retry of its admission checks. The quota
// was released when the job had been stopped, or had not been started yet. The pods of
// an elastic job may be those of the slice that this one is to replace.
//
// Only batch/v1 Jobs send a patch whenever they are stopped, and do not count as
// suspended before all of it is done.
func (r *JobReconciler) isStoppedForRetry(ctx context.Context, job GenericJob, wl *kueue.Workload) bool {
	_, evictedByCheck := workload.IsEvictedByAdmissionCheck(wl)
	isStoppedJob := job.GVK() == batchv1.SchemeGroupVersion.WithKind("Job") && job.IsSuspended()
	waits := features.Enabled(features.ACRequeueAfter) && evictedByCheck && !workload.HasQuotaReservation(wl)
	return waits && isStoppedJob || r.replacesSliceWithQuota(ctx, wl)
}

// replacesSliceWithQuota returns true if the workload is an evicted slice without quota,
// that is to replace another one, which holds its quota to stay. It waits for its checks,
// or is deactivated, as by a rejection. With the gate off it can only have been left waiting.
func (r *JobReconciler) replacesSliceWithQuota(ctx context.Context, wl *kueue.Workload) bool {
	_, evictedByCheck := workload.IsEvictedByAdmissionCheck(wl)
	if workload.HasQuotaReservation(wl) || !evictedByCheck && !features.Enabled(features.ACRequeueAfter) {
		return false
	}
	slice, err := workloadslicing.FindReplaced(ctx, r.client, wl)
	return err == nil && slice != nil && workload.HasQuotaReservation(slice) && !workload.IsEvicted(slice) && !workload.IsFinished(slice)
}

// lostReplacedSlice returns true if the workload is a slice without quota, and the one that
// it is to replace has lost its own, as by an eviction. With the gate off the pods of that
// one run on.
func (r *JobReconciler) lostReplacedSlice(ctx context.Context, wl *kueue.Workload) bool {
	if !features.Enabled(features.ACRequeueAfter) || !workloadslicing.ScaledUp(wl) {
		return false
	}
	slice, err := workloadslicing.FindReplaced(ctx, r.client, wl)
	if err != nil || slice != nil && workload.HasQuotaReservation(slice) && !workload.IsFinished(slice) {
		return false
	}
	// Its end may be that it was replaced, since the workload was read.
	latest := &kueue.Workload{}
	err = r.client.Get(ctx, client.ObjectKeyFromObject(wl), latest)
	return err == nil && !workload.HasQuotaReservation(latest)
}

// moveWaiting gives the workload of a job that waits, suspended and without quota,
// the queue and the priority that the job has now, and returns whether it had to.
// Without a delay the workload is queued before anybody moves it, and gets both then.
func (r *JobReconciler) moveWaiting(ctx context.Context, job GenericJob, object client.Object, wl *kueue.Workload) (bool, error) {
	if !features.Enabled(features.ACRequeueAfter) || !workload.IsActive(wl) || workload.HasQuotaReservation(wl) || !job.IsSuspended() {
		return false, nil
	}
	queue := wl.Spec.QueueName
	if err := r.followQueueName(ctx, job, wl); err != nil {
		return false, fmt.Errorf("updating the queue of the workload: %w", err)
	}
	if wl.Spec.QueueName != queue {
		return true, nil
	}
	return r.updatePriorityOfWaiting(ctx, job, object, wl)
}
