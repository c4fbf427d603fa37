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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/concurrentadmission"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// reconcileRetry carries out what requeue.Next decides for an unfinished workload, with at
// most one write. It returns true if there is nothing else to do in this reconciliation.
func (r *WorkloadReconciler) reconcileRetry(ctx context.Context, wl *kueue.Workload) (bool, ctrl.Result, error) {
	if features.Enabled(features.ConcurrentAdmission) && concurrentadmission.IsParent(wl) {
		// Parent Workloads are not supposed to have admission checks.
		return false, ctrl.Result{}, nil
	}
	if removed, err := r.removeObsoleteRetries(ctx, wl); removed || err != nil {
		return true, ctrl.Result{}, err
	}
	policies, err := r.retryPolicies(ctx, wl)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	now := r.clock.Now()
	step := requeue.Next(wl, now, policies)
	if step.Action == requeue.None {
		return false, ctrl.Result{}, nil
	}
	log := ctrl.LoggerFrom(ctx).WithValues("action", step.Action, "until", step.Until)
	log.V(3).Info("Reconcile the retries of admission checks")

	var result ctrl.Result
	switch step.Action {
	case requeue.Evict:
		err = r.evictForRetry(ctx, wl, step, now)
	case requeue.Wait:
		if !step.IsRecorded(wl) {
			err = r.recordWait(ctx, wl, step)
		}
		if !workload.HasQuotaReservation(wl) {
			result.RequeueAfter = step.Until.Sub(now)
			r.queueWaitingDRA(ctx, wl)
		}
	case requeue.Requeue:
		if err = r.patchRetry(ctx, wl, func() { step.Requeue(wl, now) }); err == nil {
			r.reportRequeue(wl, step)
		}
	case requeue.Deactivate:
		err = r.deactivateForCheck(ctx, wl, step)
	case requeue.Reset:
		err = r.patchRetry(ctx, wl, func() { requeue.ResetDeactivated(wl, now) })
	case requeue.ResetCounts:
		err = r.patchRetry(ctx, wl, func() { workload.ResetRetryCounts(wl) })
	}
	return true, result, client.IgnoreNotFound(err)
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

// patchRetry writes with a merge patch: the delays belong to the field managers of the
// controllers of the checks, and an apply does not remove what others own.
func (r *WorkloadReconciler) patchRetry(ctx context.Context, wl *kueue.Workload, update func()) error {
	return clientutil.PatchStatus(ctx, r.client, wl, func() (bool, error) {
		update()
		return true, nil
	})
}

// evictForRetry evicts the workload, and releases the quota with the same write if no job
// has to be stopped: it was not admitted. The pods of a slice run on in the larger one that
// replaces it, and the quota of a variant is released after that of its parent.
func (r *WorkloadReconciler) evictForRetry(ctx context.Context, wl *kueue.Workload, step requeue.Step, now time.Time) error {
	log := ctrl.LoggerFrom(ctx)
	cqName := ptr.Deref(wl.Status.Admission, kueue.Admission{}).ClusterQueue
	release := !workload.IsAdmitted(wl) && !workload.IsElasticWorkload(wl) && !concurrentadmission.IsVariant(wl)
	exposeLqMetrics := r.cache.ShouldExposeLocalQueueMetricsForWorkload(log, wl)
	err := workloadevict.Evict(ctx, r.client, r.recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, step.EvictionMessage(), "", r.clock, exposeLqMetrics, r.roleTracker, r.customLabels,
		workloadevict.WithCustomPrepare(func(wl *kueue.Workload) {
			step.Record(wl)
			if release {
				step.Release(wl, now)
			}
		}))
	if err == nil {
		r.reportDelays(cqName, step)
	}
	return err
}

func (r *WorkloadReconciler) recordWait(ctx context.Context, wl *kueue.Workload, step requeue.Step) error {
	err := workloadpatching.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func(wl *kueue.Workload) (bool, error) {
		step.Record(wl)
		return true, nil
	})
	if err == nil && !step.Until.IsZero() {
		r.recorder.Eventf(wl, nil, corev1.EventTypeNormal, "RequeueDelayed", "RequeueDelayed", "%s", api.TruncateEventMessage(step.WaitMessage()))
		if cqName, found := r.queues.ClusterQueueForWorkload(wl); found {
			r.reportDelays(cqName, step)
		}
	}
	return err
}

func (r *WorkloadReconciler) deactivateForCheck(ctx context.Context, wl *kueue.Workload, step requeue.Step) error {
	err := workloadpatching.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func(wl *kueue.Workload) (bool, error) {
		return workload.SetDeactivationTarget(wl, step.Reason, api.TruncateConditionMessage(step.Message)), nil
	})
	if err != nil {
		return err
	}
	eventReason := step.Reason
	if step.Reason == kueue.WorkloadEvictedByAdmissionCheck {
		eventReason = "AdmissionCheckRejected"
	}
	r.recorder.Eventf(wl, nil, corev1.EventTypeWarning, eventReason, eventReason, "%s", api.TruncateEventMessage("Deactivated due to "+step.Message))
	if cqName, found := r.queues.ClusterQueueForWorkload(wl); found {
		for _, retry := range step.Retries {
			metrics.ReportAdmissionCheckRetryLimitExceeded(cqName, retry.Name, r.customLabels.CQGet(cqName), r.roleTracker)
		}
	}
	return nil
}

// removeObsoleteRetries removes the checks that the ClusterQueue does not ask for any more,
// so that they neither evict the workload nor keep it waiting.
func (r *WorkloadReconciler) removeObsoleteRetries(ctx context.Context, wl *kueue.Workload) (bool, error) {
	if !features.Enabled(features.ACRequeueAfter) || !workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl) {
		return false, nil
	}
	cqName, found := r.queues.ClusterQueueForWorkload(wl)
	if !found {
		return false, nil
	}
	cq := &kueue.ClusterQueue{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: string(cqName)}, cq); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return r.reconcileSyncAdmissionChecks(ctx, wl, cq)
}

// releasedChecks returns the checks for certain flavors that a workload has from an earlier
// admission. They keep their states and counts while it has no flavors, but for those that
// are Ready: the next flavors are to be asked for anew, at the requeue if there is one.
func releasedChecks(wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	released := sets.New[kueue.AdmissionCheckReference]()
	if !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil {
		return released
	}
	checks := admissioncheck.NewAdmissionChecks(cq)
	for _, check := range wl.Status.AdmissionChecks {
		if _, found := checks[check.Name]; found && (check.State != kueue.CheckStateReady || requeue.MustWait(wl)) {
			released.Insert(check.Name)
		}
	}
	return released
}

func (r *WorkloadReconciler) reportDelays(cqName kueue.ClusterQueueReference, step requeue.Step) {
	for _, retry := range step.Retries {
		if retry.DelaySeconds > 0 {
			metrics.ReportAdmissionCheckRetryDelay(cqName, retry.Name, time.Duration(retry.DelaySeconds)*time.Second, r.customLabels.CQGet(cqName), r.roleTracker)
		}
	}
}

func (r *WorkloadReconciler) reportRequeue(wl *kueue.Workload, step requeue.Step) {
	cqName, found := r.queues.ClusterQueueForWorkload(wl)
	if !found {
		return
	}
	for _, retry := range step.Retries {
		metrics.ReportAdmissionCheckRetry(cqName, retry.Name, r.customLabels.CQGet(cqName), r.roleTracker)
	}
	if !step.Until.IsZero() {
		metrics.ReportAdmissionCheckRetryLateness(cqName, r.clock.Since(step.Until), r.customLabels.CQGet(cqName), r.roleTracker)
	}
}
