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

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/times"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// evictForRetry evicts the workload, and records what the plan says.
func (r *WorkloadReconciler) evictForRetry(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan) error {
	return workload.Evict(ctx, r.client, r.recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, plan.Message, "", r.clock,
		workload.WithCustomPrepare(func() (*kueue.Workload, error) {
			plan.Record(wl)
			return wl, nil
		}))
}

// isGivenUp returns true for a workload that is deactivated, or is to be: it waits for
// no nodes to be replaced.
func isGivenUp(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && (!workload.IsActive(wl) || workload.HasRejectedChecks(wl) ||
		apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget))
}

// applyStatus applies the status that update sets, as all of Kueue does.
func (r *WorkloadReconciler) applyStatus(ctx context.Context, wl *kueue.Workload, update func(*kueue.Workload)) error {
	return workload.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func() (*kueue.Workload, bool, error) {
		update(wl)
		return wl, true, nil
	})
}

// mergeStatus writes what server-side apply cannot: requeueAfterSeconds belongs to
// the field manager of the check's controller, and only an update or a merge patch
// removes it.
func (r *WorkloadReconciler) mergeStatus(ctx context.Context, wl *kueue.Workload, update func()) error {
	return clientutil.PatchStatus(ctx, r.client, wl, func() (client.Object, bool, error) {
		update()
		times.Repair(wl)
		return wl, true, nil
	})
}

func (r *WorkloadReconciler) reportEvent(wl *kueue.Workload, eventType, reason, message string) {
	r.recorder.Event(wl, eventType, reason, api.TruncateEventMessage(message))
}

// isQueuedByReconcile returns true if the event handlers leave it to Reconcile to
// queue the workload: what it requests has to be looked up first.
func (r *WorkloadReconciler) isQueuedByReconcile(wl *kueue.Workload) bool {
	return features.Enabled(features.DynamicResourceAllocation) && workload.HasDRA(wl)
}

// mayRequestDRA returns true if isQueuedByReconcile is true for the workload at some time,
// whatever the gate says now.
func mayRequestDRA(wl *kueue.Workload) bool {
	return workload.HasDRA(wl)
}

// addToQueues puts the workload into the queues. Without its queue it is queued
// with that.
func (r *WorkloadReconciler) addToQueues(_ context.Context, wl *kueue.Workload) {
	_ = r.queues.AddOrUpdateWorkload(wl)
}

// checksOfFlavors returns the admission checks that the ClusterQueue asks for on
// the flavors that are assigned to the workload.
func checksOfFlavors(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	return workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, admissioncheck.NewAdmissionChecks(cq))
}

// finishReplacedSlice finishes the slice that the workload has replaced where the
// scheduler could not, which does so after the reservation, and may be stopped or refused
// in between; and one that is out of sync. With the gate off it is one that was left by a
// switch.
func (r *WorkloadReconciler) finishReplacedSlice(ctx context.Context, wl *kueue.Workload) error {
	slice, reason, err := workloadslicing.Outdated(ctx, r.client, wl)
	if err != nil || slice == nil {
		return err
	}
	const message = "Another slice of the job holds quota in its place"
	if err := workloadslicing.Finish(ctx, r.client, r.clock, slice, reason, message); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.reportEvent(slice, corev1.EventTypeNormal, reason, message)
	if reason == kueue.WorkloadSliceReplaced {
		metrics.ReportReplacedWorkloadSlices(slice.Status.Admission.ClusterQueue)
	}
	return nil
}

// isReleaseSeen returns true if the base looks into the ClusterQueue for those that have room
// once the workload has released its quota there.
func (r *WorkloadReconciler) isReleaseSeen(wl *kueue.Workload, cq kueue.ClusterQueueReference) bool {
	ofQueue, _ := r.queues.ClusterQueueForWorkload(wl)
	return ofQueue == cq
}

// retryInadmissible has the scheduler try those again that did not fit in the ClusterQueue
// and its cohort.
func (r *WorkloadReconciler) retryInadmissible(cq kueue.ClusterQueueReference) {
	r.queues.QueueInadmissibleWorkloads(context.Background(), sets.New(cq))
}
