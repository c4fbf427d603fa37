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

package requeue

import (
	"math"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// IsWaitingForRetry returns true if the status says that the workload waits for the retry of its
// checks. A check in Retry that was not acted on yet is none: see MustWait.
func IsWaitingForRetry(wl *kueue.Workload) bool {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return requeued != nil && requeued.Status == metav1.ConditionFalse && requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck
}

// MustWait returns true if the workload must not be queued: because Requeued is False,
// for whatever reason, or because a check asks for a retry or rejects the workload and
// that was not acted on yet.
func MustWait(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) &&
		(apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) ||
			workload.HasRetryChecks(wl) || workload.HasRejectedChecks(wl))
}

// WaitChanged returns true if the workload begins or ceases to wait, or waits until another time.
// One that was preempted while the gate was off has a requeueAt, too, though Requeued is True.
func WaitChanged(oldWl, newWl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) &&
		(MustWait(oldWl) != MustWait(newWl) || !RequeueAt(oldWl).Equal(RequeueAt(newWl)))
}

// RequeueAt returns the time until which the workload waits, or zero.
func RequeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil {
		return time.Time{}
	}
	return ptr.Deref(wl.Status.RequeueState.RequeueAt, metav1.Time{}).Time
}

// IsRecorded returns true if the workload waits as the step says. The messages of checks
// may change as often as they like.
func (s Step) IsRecorded(wl *kueue.Workload) bool {
	return IsWaitingForRetry(wl) && RequeueAt(wl).Equal(s.Until)
}

// Record has the workload wait until the time of the step, and evicts it if the wait begins.
func (s Step) Record(wl *kueue.Workload) {
	if !s.EvictedAt.IsZero() {
		// A condition that is True already would keep its time.
		apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)
		workloadevict.SetEvictedCondition(wl, s.EvictedAt, kueue.WorkloadEvictedByAdmissionCheck, s.EvictionMessage())
		wl.Status.ClusterName, wl.Status.NominatedClusterNames = nil, nil
	}
	setRequeueAt(wl, s.Until)
	workload.SetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck, s.WaitMessage(), false)
	for _, retry := range s.Retries {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, retry.Name)
		// Some clients send fractions of a second, which our write would cut off.
		check.LastTransitionTime = metav1.NewTime(workloadpatching.RoundUp(check.LastTransitionTime.Time))
		if retry.fromPolicy {
			check.PolicyDelaySeconds = ptr.To(retry.DelaySeconds)
		}
	}
	workload.ResetRetryCounts(wl)
}

// SetRequeuedOnRelease sets the condition Requeued of an evicted workload that releases
// its quota, unless the workload waits for the retry of its checks: then it stays so,
// whatever it was evicted for.
func SetRequeuedOnRelease(wl *kueue.Workload, evicted *metav1.Condition, requeued bool) bool {
	if workload.IsActive(wl) {
		if IsWaitingForRetry(wl) { // also with the gate off by now
			return false
		}
		if features.Enabled(features.ACRequeueAfter) && workload.HasRetryChecks(wl) { // the next reconciliation records until when
			return workload.SetRequeuedCondition(wl, kueue.WorkloadEvictedByAdmissionCheck, evicted.Message, false)
		}
	}
	return workload.SetRequeuedCondition(wl, evicted.Reason, evicted.Message, requeued)
}

// Requeue puts the workload back into the queue. The checks that asked for a retry count
// it.
func (s Step) Requeue(wl *kueue.Workload, now time.Time) {
	setRequeueAt(wl, time.Time{})
	workload.SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, s.requeueMessage(), true)
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		switch check.State {
		case kueue.CheckStateReady:
			check.RetryCount = nil // removed, since this is written by a merge patch
		case kueue.CheckStateRetry:
			count := ptr.Deref(check.RetryCount, 0)
			if count < math.MaxInt32 {
				count++
			}
			check.RetryCount = &count
		}
		resetCheck(check, check.RetryCount, now)
	}
}

// ResetDeactivated removes what a deactivated workload has of its retries. If it was
// evicted for something else, or waits, the deactivation is an eviction of its own, from
// which a retention counts.
func ResetDeactivated(wl *kueue.Workload, now time.Time) {
	if !workloadevict.IsEvictedByDeactivation(wl) {
		reason, message := kueue.WorkloadDeactivated, "The workload is deactivated"
		if target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget); target != nil {
			reason = workloadpatching.ReasonWithCause(reason, target.Reason)
			message += " due to " + target.Message
		}
		apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadEvicted)
		workloadevict.SetEvictedCondition(wl, now, reason, message)
		if !workload.HasQuotaReservation(wl) {
			workload.SetRequeuedCondition(wl, reason, message, false)
		}
	}
	apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	wl.Status.RequeueState = nil
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		if check.State != kueue.CheckStatePending {
			resetCheck(check, nil, now)
		}
		check.RequeueAfterSeconds, check.PolicyDelaySeconds, check.RetryCount = nil, nil, nil
	}
}

func hasCountsOfReadyChecks(wl *kueue.Workload) bool {
	return slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0
	})
}

// hasRetryState returns true if the workload has something left of its retries.
func hasRetryState(wl *kueue.Workload) bool {
	return wl.Status.RequeueState != nil || slices.ContainsFunc(wl.Status.AdmissionChecks, isRetryState)
}

func isRetryState(check kueue.AdmissionCheckState) bool {
	return check.State == kueue.CheckStateRetry || check.RequeueAfterSeconds != nil || check.PolicyDelaySeconds != nil || ptr.Deref(check.RetryCount, 0) > 0
}

func resetCheck(check *kueue.AdmissionCheckState, retryCount *int32, now time.Time) {
	message := check.Message
	if check.State != kueue.CheckStatePending {
		message = "Reset to Pending for the next attempt. Previously: " + string(check.State)
	}
	*check = kueue.AdmissionCheckState{
		Name:               check.Name,
		State:              kueue.CheckStatePending,
		Message:            message,
		LastTransitionTime: metav1.NewTime(now),
		RetryCount:         retryCount,
	}
}

// setRequeueAt leaves the count of WaitForPodsReady as it is.
func setRequeueAt(wl *kueue.Workload, until time.Time) {
	requeueState := ptr.Deref(wl.Status.RequeueState, kueue.RequeueState{})
	requeueState.RequeueAt = nil
	if !until.IsZero() {
		requeueState.RequeueAt = ptr.To(metav1.NewTime(until))
	}
	wl.Status.RequeueState = &requeueState
	if requeueState == (kueue.RequeueState{}) {
		wl.Status.RequeueState = nil
	}
}
