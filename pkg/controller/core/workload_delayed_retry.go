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
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workload/times"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// longestRequeueAfter bounds how long a reconcile request stays in the work queue,
// which knows no removal: that of a deleted workload is gone after it.
const longestRequeueAfter = 24 * time.Hour

// reconcileDelayedRetry carries out what workload.PlanRetry decides, with at
// most one write, or one that tidies before the rest; where Reconcile queues the
// workload, an apply may create conditions before. It returns true if there is
// nothing else to be done in this reconciliation. Policies finds those of the checks,
// which have none if it is nil.
//
// With the gate off it does no more than to requeue the workloads that were
// waiting when the gate was switched off, or to reset those of them that are
// deactivated.
func (r *WorkloadReconciler) reconcileDelayedRetry(ctx context.Context, wl *kueue.Workload, policies policyLookup) (bool, ctrl.Result, error) {
	now := r.clock.Now()
	if features.Enabled(features.ACRequeueAfter) {
		times.Repair(wl)
	}
	restarted, err := r.isQueueRestarted(ctx, wl)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	if restarted {
		// It is the delay now that keeps the workload waiting.
		wl = wl.DeepCopy()
		workload.SetRequeuedCondition(wl, kueue.WorkloadClusterQueueRestarted, "The queue was restarted after being stopped", true)
	}
	cq, err := r.clusterQueueFor(ctx, wl)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	plan, err := planRetry(ctx, wl, cq, policies, now)
	if err != nil {
		return true, ctrl.Result{}, fmt.Errorf("delayed retry, planning: %w", err)
	}

	log := ctrl.LoggerFrom(ctx).WithValues("action", plan.Action, "deadline", plan.Deadline)
	if plan.Untidy {
		log.V(3).Info("Delays and counts that mean nothing any more are removed")
		wrote, err := r.tidy(ctx, wl, plan)
		if err != nil || wrote && restarted { // restarted: what follows has another copy
			return true, ctrl.Result{}, err
		}
	}
	delays, news := plan.NewDelays(wl), plan.IsNews(wl)
	var result ctrl.Result
	switch plan.Action {
	case workload.RetryNone:
		if cq != nil && !restarted && !workload.HasQuotaReservation(wl) {
			// The queues keep it out for an answer that nobody asks for, also once its queue,
			// without which the rest of Reconcile removes none, runs again.
			if wrote, err := r.reconcileSyncAdmissionChecks(ctx, wl, cq); wrote || err != nil {
				return true, ctrl.Result{}, err
			}
		}
		return r.awaitBackoff(ctx, wl, now)
	case workload.RetryReject:
		_, err = r.reconcileCheckBasedEviction(ctx, wl)
	case workload.RetryGiveUp:
		log.V(3).Info("Workload is deactivated, admission checks were retried as often as they may be")
		if err = r.applyStatus(ctx, wl, plan.GiveUp); err == nil {
			r.reportLimit(ctx, wl, plan)
		}
	case workload.RetryEvict:
		log.V(3).Info("Workload is evicted due to admission checks")
		admission := wl.Status.Admission // which the eviction may release
		if err = r.evictForRetry(ctx, wl, plan); err == nil {
			reportEviction(admission, plan.Checks)
			r.reportDelays(ctx, wl, delays)
		}
	case workload.RetryHold, workload.RetryRecord:
		log.V(3).Info("Workload has to wait for the retry of its admission checks")
		if err = r.applyStatus(ctx, wl, plan.Record); err == nil {
			r.reportDelays(ctx, wl, delays)
			if news {
				r.reportEvent(wl, corev1.EventTypeNormal, "RequeueDelayed", plan.Message)
			}
		}
		result.RequeueAfter = requeueAfter(plan, now)
	case workload.RetryWait:
		if cq != nil {
			_, err = r.reconcileSyncAdmissionChecks(ctx, wl, cq)
		}
		if r.isQueuedByReconcile(wl) && workload.IsActive(wl) {
			// It counts as pending; what it requests of DRA does not matter yet.
			r.addAdjusted(ctx, wl)
		}
		// Its LocalQueue may be new, and what the queues say of themselves without it.
		r.notifyWatchers(wl, wl)
		result.RequeueAfter = requeueAfter(plan, now)
	case workload.RetryReactivate:
		err = r.applyStatus(ctx, wl, func(wl *kueue.Workload) {
			workload.SetRequeuedCondition(wl, kueue.WorkloadReactivated, "The workload was reactivated", true)
		})
	case workload.RetryDeactivate:
		wl.Spec.Active = ptr.To(false)
		err = r.client.Update(ctx, wl)
	case workload.RetryForget:
		log.V(3).Info("Retries are forgotten, the workload is deactivated")
		_, waited := workload.RetryDeadline(wl)
		if err = r.mergeConditions(ctx, wl, func(wl *kueue.Workload) { workload.Forget(wl, now) }); err == nil && waited {
			evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
			r.reportEvent(wl, corev1.EventTypeNormal, "EvictedDueTo"+evicted.Reason, evicted.Message)
		}
	case workload.RetryRequeue:
		log.V(3).Info("Workload is requeued for the retry of its admission checks")
		dueAt := plan.DueAt(wl)
		if err = r.mergeConditions(ctx, wl, func(wl *kueue.Workload) { plan.Requeue(wl, now) }); err == nil {
			r.reportRequeue(ctx, wl, plan, dueAt)
			r.reportEvent(wl, corev1.EventTypeNormal, "Requeued", "The workload is requeued for the retry of its admission checks")
		}
	}
	if err != nil {
		return true, ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("delayed retry, %s: %w", plan.Action, err))
	}
	return true, result, nil
}

// mergeConditions is mergeStatus for what may create conditions. Of a workload that is
// queued by Reconcile, now or once it requests what DRA has, upstream leaves conditions
// out of later applies: the API server refuses that for one that a merge patch has
// created, and so an apply does it before.
func (r *WorkloadReconciler) mergeConditions(ctx context.Context, wl *kueue.Workload, update func(*kueue.Workload)) error {
	if mayRequestDRA(wl) {
		updated := wl.DeepCopy()
		update(updated)
		created := slices.DeleteFunc(updated.Status.Conditions, func(cond metav1.Condition) bool {
			return apimeta.FindStatusCondition(wl.Status.Conditions, cond.Type) != nil
		})
		if len(created) > 0 {
			if err := r.applyStatus(ctx, wl, func(wl *kueue.Workload) {
				wl.Status.Conditions = append(wl.Status.Conditions, created...)
			}); err != nil {
				return err
			}
		}
	}
	return r.mergeStatus(ctx, wl, func() { update(wl) })
}

// conclude ends the wait of a workload that has finished, in one write.
func (r *WorkloadReconciler) conclude(ctx context.Context, wl *kueue.Workload) error {
	if !features.Enabled(features.ACRequeueAfter) || !workload.MustConclude(wl) || !wl.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.mergeConditions(ctx, wl, func(wl *kueue.Workload) { workload.Conclude(wl, r.clock.Now()) }); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("delayed retry, ending the wait of a finished workload: %w", err))
	}
	r.reportEvent(wl, corev1.EventTypeNormal, kueue.WorkloadFinished, "The workload has finished before it was requeued for the retry of its admission checks")
	return nil
}

// awaitBackoff queues a workload at the end of a backoff that no condition tells
// of, where the gate off starts a timer.
func (r *WorkloadReconciler) awaitBackoff(ctx context.Context, wl *kueue.Workload, now time.Time) (bool, ctrl.Result, error) {
	until, found := workload.BackoffWithoutCondition(r.asReconcileQueues(wl))
	if !found {
		return false, ctrl.Result{}, nil
	}
	if now.Before(until) {
		if r.isQueuedByReconcile(wl) {
			r.addAdjusted(ctx, wl)
		}
		return true, ctrl.Result{RequeueAfter: min(until.Sub(now), longestRequeueAfter)}, nil
	}
	if apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) {
		// What Reconcile queues without the condition would have it again once it is tried.
		if err := r.applyStatus(ctx, wl, workload.EndBackoff); err != nil {
			return true, ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("ending the backoff: %w", err))
		}
		return true, ctrl.Result{}, nil
	}
	if r.isQueuedByReconcile(wl) {
		return false, ctrl.Result{}, nil // with its resources
	}
	r.addAdjusted(ctx, wl)
	return false, ctrl.Result{}, nil
}

// asReconcileQueues returns the workload as Reconcile queues it, if it is for it to do:
// without the condition that keeps it out of the queue.
func (r *WorkloadReconciler) asReconcileQueues(wl *kueue.Workload) *kueue.Workload {
	if !r.isQueuedByReconcile(wl) || !apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) {
		return wl
	}
	wl = wl.DeepCopy()
	apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadRequeued)
	return wl
}

// addAdjusted puts the workload into the queues, with its resources adjusted, as the
// event handlers do.
func (r *WorkloadReconciler) addAdjusted(ctx context.Context, wl *kueue.Workload) {
	wlCopy := wl.DeepCopy()
	workload.AdjustResources(ctx, r.client, wlCopy)
	r.addToQueues(ctx, wlCopy)
}

func requeueAfter(plan workload.RetryPlan, now time.Time) time.Duration {
	return min(plan.Deadline.Sub(now), longestRequeueAfter)
}

// report calls report with the name of the ClusterQueue, of which there are no metrics
// where it is gone.
func (r *WorkloadReconciler) report(ctx context.Context, wl *kueue.Workload, report func(kueue.ClusterQueueReference)) {
	if _, cq, err := r.queuesOf(ctx, wl); err == nil && cq != nil {
		report(kueue.ClusterQueueReference(cq.Name))
	}
}

func reportEviction(admission *kueue.Admission, checks []kueue.AdmissionCheckState) {
	if admission == nil {
		return
	}
	for _, check := range checks {
		metrics.ReportAdmissionCheckEviction(admission.ClusterQueue, check.Name)
	}
}

func (r *WorkloadReconciler) reportDelays(ctx context.Context, wl *kueue.Workload, delays []kueue.AdmissionCheckState) {
	if len(delays) == 0 {
		return
	}
	r.report(ctx, wl, func(cqName kueue.ClusterQueueReference) {
		for _, check := range delays {
			metrics.ReportAdmissionCheckRetryDelay(cqName, check.Name, time.Duration(*check.RequeueAfterSeconds)*time.Second)
		}
	})
}

func (r *WorkloadReconciler) reportLimit(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan) {
	r.reportEvent(wl, corev1.EventTypeWarning, kueue.WorkloadAdmissionCheckRetryLimitExceeded, "The workload is to be deactivated due to "+plan.Message)
	r.report(ctx, wl, func(cqName kueue.ClusterQueueReference) {
		for _, check := range plan.Checks {
			metrics.ReportAdmissionCheckRetryLimitExceeded(cqName, check.Name)
		}
	})
}

// reportRequeue reports how late it was since dueAt, unless that is zero.
func (r *WorkloadReconciler) reportRequeue(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan, dueAt time.Time) {
	r.report(ctx, wl, func(cqName kueue.ClusterQueueReference) {
		for _, check := range plan.Checks {
			metrics.ReportAdmissionCheckRetry(cqName, check.Name)
		}
		if !dueAt.IsZero() {
			metrics.ReportAdmissionCheckRetryLateness(cqName, max(0, r.clock.Since(dueAt)))
		}
	})
}

// policyLookup returns the policies of the checks of wl that are in state Retry.
type policyLookup func(ctx context.Context, wl *kueue.Workload) (map[kueue.AdmissionCheckReference]workload.RetryPolicy, error)

func planRetry(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue, policies policyLookup, now time.Time) (workload.RetryPlan, error) {
	if !features.Enabled(features.ACRequeueAfter) {
		return workload.PlanLeftWaiting(wl, now), nil
	}
	rctx := workload.RetryContext{Now: now, ReplacesSlice: workloadslicing.ScaledUp(wl)}
	if cq != nil {
		rctx.IsRequired = requiredChecks(ctx, wl, cq).Has
	}
	if policies != nil {
		var err error
		if rctx.Policies, err = policies(ctx, wl); err != nil {
			return workload.RetryPlan{}, err
		}
	}
	return workload.PlanRetry(wl, rctx), nil
}

// isQueueRestarted returns true if Requeued is still false because of a stopped
// queue that runs again.
func (r *WorkloadReconciler) isQueueRestarted(ctx context.Context, wl *kueue.Workload) (bool, error) {
	if !features.Enabled(features.ACRequeueAfter) || (!isDisabledRequeuedByLocalQueueStopped(wl) && !isDisabledRequeuedByClusterQueueStopped(wl)) {
		return false, nil
	}
	lq, cq, err := r.queuesOf(ctx, wl)
	if err != nil || cq == nil {
		return false, err
	}
	return ptr.Deref(lq.Spec.StopPolicy, kueue.None) == kueue.None && ptr.Deref(cq.Spec.StopPolicy, kueue.None) == kueue.None, nil
}

// clusterQueueFor returns the ClusterQueue of the workload, or nil, if the plan
// for it can depend on that.
func (r *WorkloadReconciler) clusterQueueFor(ctx context.Context, wl *kueue.Workload) (*kueue.ClusterQueue, error) {
	if !features.Enabled(features.ACRequeueAfter) || (!workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl)) {
		return nil, nil
	}
	cqName, found := r.queues.ClusterQueueForWorkload(wl)
	if !found {
		if workload.StateOf(wl) == workload.RetryStateReserved {
			return nil, nil // as the rest of Reconcile, which sees to it
		}
		_, cq, err := r.queuesOf(ctx, wl)
		return cq, err
	}
	cq := &kueue.ClusterQueue{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: string(cqName)}, cq); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cq, nil
}

// queuesOf returns the LocalQueue and the ClusterQueue of the workload, or nil for both.
// The queues in memory do not have a LocalQueue that is stopped.
func (r *WorkloadReconciler) queuesOf(ctx context.Context, wl *kueue.Workload) (*kueue.LocalQueue, *kueue.ClusterQueue, error) {
	lq, cq := &kueue.LocalQueue{}, &kueue.ClusterQueue{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: wl.Namespace, Name: string(wl.Spec.QueueName)}, lq); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if err := r.client.Get(ctx, types.NamespacedName{Name: string(lq.Spec.ClusterQueue)}, cq); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	return lq, cq, nil
}

// requiredChecks returns the admission checks that the ClusterQueue asks for,
// on any flavor while the workload has no flavors assigned.
func requiredChecks(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	if wl.Status.Admission != nil {
		return checksOfFlavors(ctx, wl, cq)
	}
	return sets.KeySet(admissioncheck.NewAdmissionChecks(cq))
}

// withReleasedChecks adds the checks of a workload whose flavors are not known
// any more because its quota was released, so that their states, delays and
// retry counts are not lost. One that has succeeded is asked anew for the next flavor,
// unless the requeue sees to it.
func withReleasedChecks(wl *kueue.Workload, cq *kueue.ClusterQueue, required sets.Set[kueue.AdmissionCheckReference]) sets.Set[kueue.AdmissionCheckReference] {
	if !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil {
		return required
	}
	released := required.Clone()
	checks := admissioncheck.NewAdmissionChecks(cq)
	for _, check := range wl.Status.AdmissionChecks {
		// A success was for the flavor of then, and has no count.
		kept := check.State != kueue.CheckStateReady || workload.MustWaitForChecks(wl)
		if _, found := checks[check.Name]; found && kept {
			released.Insert(check.Name)
		}
	}
	return released
}

// forgetWorker removes the worker cluster of a workload from it where its checks are
// about to change, unless a check of MultiKueue stays Ready: no other one is nominated
// before that is asked again.
func (r *WorkloadReconciler) forgetWorker(ctx context.Context, wl *kueue.Workload) error {
	if !features.Enabled(features.ACRequeueAfter) || wl.Status.ClusterName == nil && len(wl.Status.NominatedClusterNames) == 0 {
		return nil
	}
	chosenBy, err := admissioncheck.FilterForController(ctx, r.client, wl.Status.AdmissionChecks, kueue.MultiKueueControllerName)
	if err != nil {
		return fmt.Errorf("looking for the check that has chosen a worker: %w", err)
	}
	for _, check := range wl.Status.AdmissionChecks {
		if check.State == kueue.CheckStateReady && slices.Contains(chosenBy, check.Name) {
			return nil
		}
	}
	workload.ForgetWorker(wl)
	return nil
}

// isLateReject returns true if a check rejected the workload after its eviction.
func isLateReject(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && workload.HasRejectedChecks(wl)
}

// wakeOthers has those tried that have room once the workload has released its quota,
// where the base looks for them elsewhere, or for none: in the ClusterQueue of the LocalQueue,
// which may be stopped, deleted, made again, or another one by now. Latest is nil for one that
// was deleted. After a gap in the watch one event may tell of a release and of another quota,
// for which the base does not look.
func (r *WorkloadReconciler) wakeOthers(old, latest *kueue.Workload) {
	if !features.Enabled(features.ACRequeueAfter) || !holdsQuota(old) {
		return
	}
	if latest == nil {
		latest = old
	} else if workload.IsActive(latest) && holdsQuota(latest) {
		if !isSameQuota(old.Status.Admission, latest.Status.Admission) {
			r.retryInadmissible(old.Status.Admission.ClusterQueue)
		}
		return
	}
	if cq := old.Status.Admission.ClusterQueue; !r.isReleaseSeen(latest, cq) {
		r.retryInadmissible(cq)
	}
}

// isSameQuota returns true if both are of one ClusterQueue, with the same flavors.
func isSameQuota(a, b *kueue.Admission) bool {
	return a.ClusterQueue == b.ClusterQueue && slices.EqualFunc(a.PodSetAssignments, b.PodSetAssignments,
		func(a, b kueue.PodSetAssignment) bool { return maps.Equal(a.Flavors, b.Flavors) })
}

// holdsQuota returns true for a quota that the cache accounts for while the workload is active.
func holdsQuota(wl *kueue.Workload) bool {
	return workload.HasQuotaReservation(wl) && wl.Status.Admission != nil && !workloadfinish.IsFinished(wl)
}
