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
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/api"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/util/roletracker"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/concurrentadmission"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// reconcileRetry leaves parents of variants out, which are not supposed to have admission
// checks.
func (r *WorkloadReconciler) reconcileRetry(ctx context.Context, wl *kueue.Workload) (bool, ctrl.Result, error) {
	if features.Enabled(features.ConcurrentAdmission) && concurrentadmission.IsParent(wl) {
		return false, ctrl.Result{}, nil
	}
	return r.reconcileRetryOfChecks(ctx, wl)
}

// patchRetry writes with a merge patch: the delays belong to the field managers of the
// controllers of the checks, and an apply does not remove what others own.
func (r *WorkloadReconciler) patchRetry(ctx context.Context, wl *kueue.Workload, update func()) error {
	return clientutil.PatchStatus(ctx, r.client, wl, func() (bool, error) {
		update()
		return true, nil
	})
}

func (r *WorkloadReconciler) applyRetry(ctx context.Context, wl *kueue.Workload, update func(*kueue.Workload)) error {
	return workloadpatching.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func(wl *kueue.Workload) (bool, error) {
		update(wl)
		return true, nil
	})
}

func (r *WorkloadReconciler) evictByCheck(ctx context.Context, wl *kueue.Workload, message string, prepare func(*kueue.Workload)) error {
	exposeLqMetrics := r.cache.ShouldExposeLocalQueueMetricsForWorkload(ctrl.LoggerFrom(ctx), wl)
	return workloadevict.Evict(ctx, r.client, r.recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, message, "", r.clock, exposeLqMetrics, r.roleTracker, r.customLabels,
		workloadevict.WithCustomPrepare(prepare))
}

// isReleasedLater returns true for a workload whose quota must not be released with the
// eviction: the pods of a slice run on in the larger one that replaces it, and the quota of
// a variant is released after that of its parent.
func isReleasedLater(wl *kueue.Workload) bool {
	return workload.IsElasticWorkload(wl) || concurrentadmission.IsVariant(wl)
}

// releaseQuota releases the quota of a job that has not started and needs no stop.
func releaseQuota(wl *kueue.Workload, message string, now time.Time) {
	reason := workload.UnadmittedWorkloadReasonWithFallback(
		kueue.WorkloadQuotaReservedReasonPendingEvaluation,
		kueue.WorkloadPending, //nolint:staticcheck // SA1019: fallback
	)
	workload.UnsetQuotaReservationWithCondition(wl, reason, message, now)
}

// queueWaitingDRA has a workload counted as pending that the event handlers leave to
// Reconcile. What it requests is looked up when it is requeued.
func (r *WorkloadReconciler) queueWaitingDRA(ctx context.Context, wl *kueue.Workload) {
	log := ctrl.LoggerFrom(ctx)
	if dra.NeedsDRAReconcile(wl, r.draBackedResources) {
		if err := r.queues.AddOrUpdateWorkload(log, wl.DeepCopy()); err != nil {
			log.V(2).Info("Failed to add DRA workload to queue", "error", err)
		}
	}
}

func (r *WorkloadReconciler) recordRetryEvent(wl *kueue.Workload, eventType, reason, message string) {
	r.recorder.Eventf(wl, nil, eventType, reason, reason, "%s", api.TruncateEventMessage(message))
}

// retryLabelValues returns the values of the labels of the metrics, of a check if one is
// given.
func (r *WorkloadReconciler) retryLabelValues(cqName kueue.ClusterQueueReference, checks ...kueue.AdmissionCheckReference) []string {
	labelValues := []string{string(cqName)}
	for _, check := range checks {
		labelValues = append(labelValues, string(check))
	}
	return append(append(labelValues, roletracker.GetRole(r.roleTracker)), r.customLabels.CQGet(cqName)...)
}
