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
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// reconcileRetryOfChecks carries out what requeue.Next decides for an unfinished workload,
// with at most one write. It returns true if there is nothing else to do in this
// reconciliation.
func (r *WorkloadReconciler) reconcileRetryOfChecks(ctx context.Context, wl *kueue.Workload) (bool, ctrl.Result, error) {
	if synced, err := r.syncChecksBeforeRetry(ctx, wl); synced || err != nil {
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
		// The release of the quota brings an evicted workload back here.
		if err == nil && !workload.HasQuotaReservation(wl) {
			result.RequeueAfter = step.Until.Sub(now)
			r.queueWaitingDRA(ctx, wl)
		}
	case requeue.Requeue:
		if err = r.patchRetry(ctx, wl, func() { step.Requeue(wl, now) }); err == nil {
			r.reportRequeue(wl, step)
		}
	case requeue.Reject:
		_, err = r.reconcileCheckBasedEviction(ctx, wl)
	case requeue.Deactivate:
		err = r.deactivateForLimit(ctx, wl, step)
	case requeue.Reset:
		err = r.patchRetry(ctx, wl, func() { requeue.ResetDeactivated(wl, now) })
	case requeue.ResetCounts:
		err = r.patchRetry(ctx, wl, func() { workload.ResetRetryCounts(wl) })
	}
	return true, result, client.IgnoreNotFound(err)
}

// evictForRetry evicts the workload, and releases the quota with the same write if no job
// has to be stopped before: it was not admitted.
func (r *WorkloadReconciler) evictForRetry(ctx context.Context, wl *kueue.Workload, step requeue.Step, now time.Time) error {
	cqName := ptr.Deref(wl.Status.Admission, kueue.Admission{}).ClusterQueue
	release := !workload.IsAdmitted(wl) && !isReleasedLater(wl)
	// Record sets the time of Evicted, rounded up. Evict keeps it, since the condition is True by then.
	err := r.evictByCheck(ctx, wl, step.EvictionMessage(), func(wl *kueue.Workload) {
		step.Record(wl)
		if release {
			releaseQuota(wl, step.EvictionMessage(), now)
		}
	})
	if err == nil {
		r.reportDelays(cqName, step)
	}
	return err
}

func (r *WorkloadReconciler) recordWait(ctx context.Context, wl *kueue.Workload, step requeue.Step) error {
	err := r.applyRetry(ctx, wl, step.Record)
	if err == nil && !step.Until.IsZero() {
		r.recordRetryEvent(wl, corev1.EventTypeNormal, "RequeueDelayed", step.WaitMessage())
		if cqName, found := r.queues.ClusterQueueForWorkload(wl); found {
			r.reportDelays(cqName, step)
		}
	}
	return err
}

func (r *WorkloadReconciler) deactivateForLimit(ctx context.Context, wl *kueue.Workload, step requeue.Step) error {
	reason, message := kueue.WorkloadAdmissionCheckRetryLimitExceeded, step.LimitMessage()
	err := r.applyRetry(ctx, wl, func(wl *kueue.Workload) {
		workload.SetDeactivationTarget(wl, reason, api.TruncateConditionMessage(message))
	})
	if err != nil {
		return err
	}
	r.recordRetryEvent(wl, corev1.EventTypeWarning, reason, "Deactivated due to "+message)
	if cqName, found := r.queues.ClusterQueueForWorkload(wl); found {
		for _, retry := range step.Retries {
			metrics.ReportAdmissionCheckRetryLimitExceeded(r.retryLabelValues(cqName, retry.Name))
		}
	}
	return nil
}

// syncChecksBeforeRetry removes the checks that the ClusterQueue does not ask for any more,
// so that they neither evict the workload nor keep it waiting.
func (r *WorkloadReconciler) syncChecksBeforeRetry(ctx context.Context, wl *kueue.Workload) (bool, error) {
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

// checksOfReleasedFlavors returns the checks bound to flavors that stay on a workload without
// admission, so that their delays and counts survive. One that is Ready goes, as the next
// flavors need a new answer; while the workload waits, the requeue resets it.
func checksOfReleasedFlavors(wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
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

// reportRetryWaits has the metrics report from now on who waits.
func (r *WorkloadReconciler) reportRetryWaits() {
	if !features.Enabled(features.ACRequeueAfter) {
		return
	}
	metrics.ReportRetryWaits(r.queues.RetryWaits, func(cqName kueue.ClusterQueueReference) []string {
		return r.retryLabelValues(cqName)
	})
}

func (r *WorkloadReconciler) reportDelays(cqName kueue.ClusterQueueReference, step requeue.Step) {
	for _, retry := range step.Retries {
		if retry.DelaySeconds > 0 {
			metrics.ReportAdmissionCheckRetryDelay(time.Duration(retry.DelaySeconds)*time.Second, r.retryLabelValues(cqName, retry.Name))
		}
	}
}

func (r *WorkloadReconciler) reportRequeue(wl *kueue.Workload, step requeue.Step) {
	cqName, found := r.queues.ClusterQueueForWorkload(wl)
	if !found {
		return
	}
	for _, retry := range step.Retries {
		metrics.ReportAdmissionCheckRetry(r.retryLabelValues(cqName, retry.Name))
	}
	if !step.Until.IsZero() {
		metrics.ReportAdmissionCheckRetryLateness(r.clock.Since(step.Until), r.retryLabelValues(cqName))
	}
}
