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
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// reconcileDelayedRetry carries out what workload.PlanRetry decides, with at
// most one write. It returns true if there is nothing else to be done in this
// reconciliation.
//
// With the gate off it does no more than to requeue the workloads that were
// waiting when the gate was switched off, or to reset those of them that are
// deactivated.
func (r *WorkloadReconciler) reconcileDelayedRetry(ctx context.Context, wl *kueue.Workload) (bool, ctrl.Result, error) {
	now := r.clock.Now()
	restarted, err := r.isQueueRestarted(ctx, wl)
	if err != nil {
		return true, ctrl.Result{}, err
	}
	if restarted {
		// It is the delay now that keeps the workload waiting.
		wl = wl.DeepCopy()
		workload.SetRequeuedCondition(wl, kueue.WorkloadClusterQueueRestarted, "The queue was restarted after being stopped", true)
	}
	plan, err := r.planRetry(ctx, wl, now)
	if err != nil {
		return true, ctrl.Result{}, err
	}

	log := ctrl.LoggerFrom(ctx).WithValues("action", plan.Action, "deadline", plan.Deadline)
	delays := plan.NewDelays(wl)
	var result ctrl.Result
	switch plan.Action {
	case workload.RetryNone:
		return false, ctrl.Result{}, nil
	case workload.RetryReject:
		_, err = r.reconcileCheckBasedEviction(ctx, wl)
	case workload.RetryEvict:
		log.V(3).Info("Workload is evicted due to admission checks")
		err = workload.Evict(ctx, r.client, r.recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, plan.Message, "", fixedClock{r.clock, plan.EvictedAt},
			workload.WithCustomPrepare(func() (*kueue.Workload, error) {
				plan.RecordDeadline(wl)
				return wl, nil
			}))
		if err == nil {
			r.reportDelays(wl, delays)
		}
	case workload.RetryHold, workload.RetryRecord:
		log.V(3).Info("Workload has to wait for the retry of its admission checks")
		inQueue := !restarted && !apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)
		err = workload.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func() (*kueue.Workload, bool, error) {
			plan.RecordDeadline(wl)
			return wl, true, nil
		})
		if err == nil {
			r.reportDelays(wl, delays)
			r.recorder.Event(wl, corev1.EventTypeNormal, "RequeueDelayed", api.TruncateEventMessage(plan.Message))
			if inQueue {
				// Before the update event does: the scheduler would try in vain.
				r.queues.DeleteWorkload(wl)
			}
		}
		result.RequeueAfter = plan.Deadline.Sub(now)
	case workload.RetryWait:
		result.RequeueAfter = plan.Deadline.Sub(now)
	case workload.RetryReactivate:
		err = workload.PatchAdmissionStatus(ctx, r.client, wl, r.clock, func() (*kueue.Workload, bool, error) {
			return wl, workload.SetRequeuedCondition(wl, kueue.WorkloadReactivated, "The workload was reactivated", true), nil
		})
	case workload.RetryForget:
		log.V(3).Info("Retries are forgotten, the workload is deactivated")
		err = r.mergePatchStatus(ctx, wl, func() { plan.Forget(wl, now) })
	case workload.RetryRequeue:
		log.V(3).Info("Workload is requeued for the retry of its admission checks")
		if err = r.mergePatchStatus(ctx, wl, func() { plan.Requeue(wl, now) }); err == nil {
			r.reportRequeue(wl, plan)
			r.recorder.Event(wl, corev1.EventTypeNormal, "Requeued", "The workload is requeued for the retry of its admission checks")
		}
	}
	if err != nil {
		return true, ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("delayed retry, %s: %w", plan.Action, err))
	}
	return true, result, nil
}

func (r *WorkloadReconciler) reportDelays(wl *kueue.Workload, delays []kueue.AdmissionCheckState) {
	if cqName, found := r.queues.ClusterQueueForWorkload(wl); found {
		for _, check := range delays {
			metrics.ReportAdmissionCheckRetryDelay(cqName, check.Name, time.Duration(*check.RequeueAfterSeconds)*time.Second)
		}
	}
}

func (r *WorkloadReconciler) reportRequeue(wl *kueue.Workload, plan workload.RetryPlan) {
	cqName, found := r.queues.ClusterQueueForWorkload(wl)
	if !found {
		return
	}
	for _, check := range plan.Checks {
		metrics.ReportAdmissionCheckRetry(cqName, check.Name)
	}
	if plan.Deadline.After(plan.EvictedAt) {
		metrics.ReportAdmissionCheckRetryLateness(cqName, r.clock.Since(plan.Deadline))
	}
}

// mergePatchStatus writes what server-side apply cannot: requeueAfterSeconds
// belongs to the field manager of the check's controller, and only an update or
// a merge patch removes it.
func (r *WorkloadReconciler) mergePatchStatus(ctx context.Context, wl *kueue.Workload, update func()) error {
	return clientutil.PatchStatus(ctx, r.client, wl, func() (client.Object, bool, error) {
		update()
		return wl, true, nil
	})
}

// planRetry gathers what the decision depends on.
func (r *WorkloadReconciler) planRetry(ctx context.Context, wl *kueue.Workload, now time.Time) (workload.RetryPlan, error) {
	if !features.Enabled(features.ACRequeueAfter) {
		return workload.PlanLeftWaiting(wl, now), nil
	}
	var required sets.Set[kueue.AdmissionCheckReference]
	if workload.HasRetryChecks(wl) || workload.HasRejectedChecks(wl) {
		var err error
		if required, err = r.requiredChecks(ctx, wl); err != nil {
			return workload.RetryPlan{}, err
		}
	}
	return workload.PlanRetry(wl, workload.RetryContext{
		Now:              now,
		IsRequired:       required.Has,
		PodsReadyBackoff: r.podsReadyBackoff(wl),
		ReplacesSlice:    workloadslicing.ScaledUp(wl),
	}), nil
}

// podsReadyBackoff returns the longest backoff, with its jitter and the fraction
// of a second that the API drops, that the last eviction by PodsReadyTimeout can
// have led to. Zero if WaitForPodsReady is off.
func (r *WorkloadReconciler) podsReadyBackoff(wl *kueue.Workload) time.Duration {
	if r.waitForPodsReady == nil || wl.Status.RequeueState == nil {
		return 0
	}
	backoff := time.Duration(r.waitForPodsReady.requeuingBackoffBaseSeconds) * time.Second
	for n := int32(1); n < ptr.Deref(wl.Status.RequeueState.Count, 0) && backoff < r.waitForPodsReady.requeuingBackoffMaxDuration; n++ {
		backoff *= 2
	}
	backoff += backoff / 1000
	return min(backoff, r.waitForPodsReady.requeuingBackoffMaxDuration) + time.Second
}

// isQueueRestarted returns true if Requeued is still false because of a stopped
// queue that runs again.
func (r *WorkloadReconciler) isQueueRestarted(ctx context.Context, wl *kueue.Workload) (bool, error) {
	if !features.Enabled(features.ACRequeueAfter) || (!isDisabledRequeuedByLocalQueueStopped(wl) && !isDisabledRequeuedByClusterQueueStopped(wl)) {
		return false, nil
	}
	lq := kueue.LocalQueue{}
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: wl.Namespace, Name: string(wl.Spec.QueueName)}, &lq); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	cq := kueue.ClusterQueue{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: string(lq.Spec.ClusterQueue)}, &cq); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return ptr.Deref(lq.Spec.StopPolicy, kueue.None) == kueue.None && ptr.Deref(cq.Spec.StopPolicy, kueue.None) == kueue.None, nil
}

// requiredChecks returns the admission checks that the ClusterQueue asks for,
// on any flavor while the workload has no flavors assigned. Without a
// ClusterQueue these are the checks that the workload has.
func (r *WorkloadReconciler) requiredChecks(ctx context.Context, wl *kueue.Workload) (sets.Set[kueue.AdmissionCheckReference], error) {
	if cqName, ok := r.queues.ClusterQueueForWorkload(wl); ok {
		cq := kueue.ClusterQueue{}
		err := r.client.Get(ctx, types.NamespacedName{Name: string(cqName)}, &cq)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil {
			checks := admissioncheck.NewAdmissionChecks(&cq)
			if wl.Status.Admission != nil {
				return workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, checks), nil
			}
			return sets.KeySet(checks), nil
		}
	}
	required := sets.New[kueue.AdmissionCheckReference]()
	for _, check := range wl.Status.AdmissionChecks {
		required.Insert(check.Name)
	}
	return required, nil
}

// withReleasedChecks adds the checks of a workload whose flavors are not known
// any more because its quota was released, so that their states, delays and
// retry counts are not lost.
func withReleasedChecks(wl *kueue.Workload, cq *kueue.ClusterQueue, required sets.Set[kueue.AdmissionCheckReference]) sets.Set[kueue.AdmissionCheckReference] {
	if !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil {
		return required
	}
	released := required.Clone()
	checks := admissioncheck.NewAdmissionChecks(cq)
	for _, check := range wl.Status.AdmissionChecks {
		if _, found := checks[check.Name]; found {
			released.Insert(check.Name)
		}
	}
	return released
}

// isLateReject returns true if a check rejected the workload after its eviction.
func isLateReject(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && workload.HasRejectedChecks(wl)
}

// fixedClock is a clock that tells the time of an eviction.
type fixedClock struct {
	clock.Clock
	now time.Time
}

func (c fixedClock) Now() time.Time {
	return c.now
}
