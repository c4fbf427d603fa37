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
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelpers "k8s.io/component-helpers/resource"
	ctrl "sigs.k8s.io/controller-runtime"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/api"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	utilresource "sigs.k8s.io/kueue/pkg/util/resource"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// evictForRetry evicts the workload, and records what the plan says.
func (r *WorkloadReconciler) evictForRetry(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan) error {
	exposeLqMetrics := r.cache.ShouldExposeLocalQueueMetricsForWorkload(ctrl.LoggerFrom(ctx), wl)
	return workloadevict.Evict(ctx, r.client, r.recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, plan.Message, "", r.clock,
		exposeLqMetrics, r.roleTracker, r.customLabels, workloadevict.WithCustomPrepare(plan.Record))
}

// applyStatus applies the status that update sets, as all of Kueue does.
func (r *WorkloadReconciler) applyStatus(ctx context.Context, wl *kueue.Workload, update func(*kueue.Workload)) error {
	return workloadpatching.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func(wl *kueue.Workload) (bool, error) {
		update(wl)
		return true, nil
	})
}

// mergeStatus writes what server-side apply cannot: requeueAfterSeconds belongs to
// the field manager of the check's controller, and only an update or a merge patch
// removes it.
func (r *WorkloadReconciler) mergeStatus(ctx context.Context, wl *kueue.Workload, update func()) error {
	return clientutil.PatchStatus(ctx, r.client, wl, func() (bool, error) {
		update()
		times.Repair(wl)
		return true, nil
	})
}

func (r *WorkloadReconciler) reportEvent(wl *kueue.Workload, eventType, reason, message string) {
	r.recorder.Eventf(wl, nil, eventType, reason, reason, "%s", api.TruncateEventMessage(message))
}

// isQueuedByReconcile returns true if the event handlers leave it to Reconcile to
// queue the workload: what it requests has to be looked up first.
func (r *WorkloadReconciler) isQueuedByReconcile(wl *kueue.Workload) bool {
	return dra.NeedsDRAReconcile(wl, r.draBackedResources)
}

// mayRequestDRA returns true if isQueuedByReconcile is true for the workload at some time:
// a DeviceClass may come that has its extended resource, one on hold runs again, and a
// gate may be switched.
func mayRequestDRA(wl *kueue.Workload) bool {
	return workload.HasDRA(wl) || slices.ContainsFunc(wl.Spec.PodSets, requestsExtendedResource)
}

func requestsExtendedResource(podSet kueue.PodSet) bool {
	for name := range resourcehelpers.PodRequests(&corev1.Pod{Spec: podSet.Template.Spec}, resourcehelpers.PodResourcesOptions{}) {
		if utilresource.IsExtendedResourceName(name) {
			return true
		}
	}
	return false
}

// isQueuedByEvent returns true if a workload whose backoff is over is left to the event
// of the write that says so: its handler, or Reconcile with the resources of DRA, knows
// what it requests.
func isQueuedByEvent() bool {
	return features.Enabled(features.ACRequeueAfter)
}

// storable returns a message that a condition can hold: that of a rejection has the words
// of all checks.
func storable(message string) string {
	if !features.Enabled(features.ACRequeueAfter) {
		return message
	}
	return api.TruncateConditionMessage(message)
}

// addToQueues puts the workload into the queues. Without its queue it is queued
// with that.
func (r *WorkloadReconciler) addToQueues(ctx context.Context, wl *kueue.Workload) {
	_ = r.queues.AddOrUpdateWorkload(ctrl.LoggerFrom(ctx), wl)
}

// checksOfFlavors returns the admission checks that the ClusterQueue asks for on
// the flavors that are assigned to the workload.
func checksOfFlavors(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	return workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, cq)
}

// isBackoffOver returns true if a requeueAt is not to be waited for: the workload
// has its quota, or wants none now. With the gate off it may have been left so, to
// be evicted later.
func isBackoffOver(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && (workload.HasQuotaReservation(wl) || workload.IsOnHold(wl))
}

// beginsToWait returns true if the workload has lost its quota, and must not have any
// before it is requeued: what fair sharing charged its LocalQueue for the admission
// that was due is not held against others meanwhile.
func beginsToWait(oldWl, newWl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && workload.HasQuotaReservation(oldWl) && !workload.HasQuotaReservation(newWl) && workload.MustWait(newWl)
}

// isReleaseSeen: the base looks where the queues know the workload, which they may not, as with
// DRA before this replica was elected. Where it looks, too, both make one look, a second later.
func (r *WorkloadReconciler) isReleaseSeen(*kueue.Workload, kueue.ClusterQueueReference) bool {
	return false
}

// retryInadmissible has the scheduler try those again that did not fit in the ClusterQueue
// and its cohort.
func (r *WorkloadReconciler) retryInadmissible(cq kueue.ClusterQueueReference) {
	r.queues.RetryInadmissible(cq)
}
