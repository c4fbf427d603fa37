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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
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
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	isStoppedJob := job.GVK() == batchv1.SchemeGroupVersion.WithKind("Job") && job.IsSuspended()
	waits := features.Enabled(features.ACRequeueAfter) && evictedByCheck && !workload.HasQuotaReservation(wl)
	return waits && isStoppedJob || r.replacesSliceWithQuota(ctx, wl)
}

// replacesSliceWithQuota returns true if the workload is to replace a slice that holdingSlice
// returns.
func (r *JobReconciler) replacesSliceWithQuota(ctx context.Context, wl *kueue.Workload) bool {
	return r.holdingSlice(ctx, wl) != nil
}

// keepsJob returns true if the retention of what Kueue has deactivated is not for the job of
// the workload, which is deactivated: the job runs as the slice that this one is to replace,
// or the workload was active since the deactivation that Evicted tells of. The last one is
// still to be recorded then, with its own reason and time.
func (r *JobReconciler) keepsJob(ctx context.Context, job GenericJob, wl *kueue.Workload) bool {
	return r.runsAsReplacedSlice(ctx, job, wl) || features.Enabled(features.ACRequeueAfter) && workload.IsDeactivatedAgain(wl)
}

// runsAsReplacedSlice returns true if the job runs as such a slice, here or elsewhere.
func (r *JobReconciler) runsAsReplacedSlice(ctx context.Context, job GenericJob, wl *kueue.Workload) bool {
	slice := r.holdingSlice(ctx, wl)
	return slice != nil && (!job.IsSuspended() || slice.Status.ClusterName != nil)
}

// holdingSlice returns the slice that an evicted one without quota is to replace, if it
// holds quota to stay. The evicted one waits for its checks, or is deactivated, as by a
// rejection. With the gate off it can only have been left waiting.
func (r *JobReconciler) holdingSlice(ctx context.Context, wl *kueue.Workload) *kueue.Workload {
	_, evictedByCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	if workload.HasQuotaReservation(wl) || !evictedByCheck && !features.Enabled(features.ACRequeueAfter) {
		return nil
	}
	slice, err := workloadslicing.FindReplaced(ctx, r.client, wl)
	if err != nil || slice == nil || !workload.HasQuotaReservation(slice) || workloadevict.IsEvicted(slice) || workloadfinish.IsFinished(slice) {
		return nil
	}
	return slice
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
