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

package provisioning

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The number of an attempt is
//
//	offset + retryCount + 1
//
// The retryCount of the check counts the retries of the present series, which
// ends with a success; limit and backoff follow from it. The offset is the last
// number of the series before. So the request of attempt n has led to a retry
// that was counted if, and only if, n <= offset + retryCount.

const (
	// attemptOffsetsAnnotation of a Workload holds the offsets of its checks, as a
	// JSON object from the name of the check to a positive integer. A check that
	// has no entry has the offset 0.
	attemptOffsetsAnnotation = "kueue.x-k8s.io/provisioning-attempt-offsets"

	// evictedWithGateOffMessage ends the message of the Evicted condition if the
	// last eviction was by an admission check with the gate off.
	evictedWithGateOffMessage = "At least one admission check is false"
)

type attemptOffsets map[kueue.AdmissionCheckReference]int32

// attemptOffsetsOf returns the recorded offsets. What makes no sense is ignored.
func attemptOffsetsOf(wl *kueue.Workload) attemptOffsets {
	var offsets attemptOffsets
	if err := json.Unmarshal([]byte(wl.Annotations[attemptOffsetsAnnotation]), &offsets); err != nil || offsets == nil {
		return make(attemptOffsets)
	}
	maps.DeleteFunc(offsets, func(_ kueue.AdmissionCheckReference, offset int32) bool { return offset <= 0 })
	return offsets
}

// nextAttempt returns the number for a new request of the check, which is
// attempt with the gate off.
func nextAttempt(wl *kueue.Workload, checkName kueue.AdmissionCheckReference, attempt int32) int32 {
	check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
	if !features.Enabled(features.ACRequeueAfter) || check == nil {
		return attempt
	}
	return attemptOffsetsOf(wl)[checkName] + ptr.Deref(check.RetryCount, 0) + 1
}

// holdsQuota returns true if the workload has its quota reserved to stay.
func holdsQuota(wl *kueue.Workload) bool {
	return workload.HasQuotaReservation(wl) && !workload.IsEvicted(wl)
}

// hearsRequests returns true if the requests of the workload matter also while
// it holds no quota: they may fail, and the numbers of their attempts count.
func hearsRequests(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workload.IsFinished(wl)
}

// asksForRetry returns true if the request calls for a retry, unless it did so
// before. With the gate off the retries are counted in requeueState instead.
func asksForRetry(wl *kueue.Workload, pr *autoscaling.ProvisioningRequest) bool {
	return features.Enabled(features.ACRequeueAfter) &&
		(isFailed(pr) || (isBookingExpired(pr) && !isCapacityRevoked(pr) && !workload.IsAdmitted(wl)))
}

// retriedWithGateOff returns true if the request has failed before the workload
// lost its quota for the last time, by an admission check and with the gate off.
// The Evicted condition tells it until the next eviction.
func retriedWithGateOff(wl *kueue.Workload, pr *autoscaling.ProvisioningRequest) bool {
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	if evicted == nil || !strings.HasSuffix(evicted.Message, evictedWithGateOffMessage) || !asksForRetry(wl, pr) {
		return false
	}
	return !apimeta.FindStatusCondition(pr.Status.Conditions, failure(pr)).LastTransitionTime.After(evicted.LastTransitionTime.Time)
}

// failure returns the type of the condition for which pr asks for a retry.
func failure(pr *autoscaling.ProvisioningRequest) string {
	if isFailed(pr) {
		return autoscaling.Failed
	}
	return autoscaling.BookingExpired
}

// updateForRetry updates the state of the check for a request, of the given
// attempt, that has failed or whose booking has expired: Retry with a backoff,
// or Rejected when the limit of the strategy is reached. It returns false if
// there is nothing to change, because the request has led to a retry before.
func updateForRetry(check *kueue.AdmissionCheckState, pr *autoscaling.ProvisioningRequest, attempt, offset int32, strategy *kueue.ProvisioningRequestRetryStrategy, now time.Time) bool {
	retries := ptr.Deref(check.RetryCount, 0)
	if check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected || attempt <= offset+retries {
		return false
	}
	message := "Retrying after failure: "
	if !isFailed(pr) {
		message = "Retrying after booking expired: "
	}
	// The API drops fractions of seconds, which would cut the backoff short.
	check.LastTransitionTime = metav1.NewTime(now.Add(time.Second - 1).Truncate(time.Second))
	check.State, check.RequeueAfterSeconds = kueue.CheckStateRejected, nil
	check.Message = apimeta.FindStatusCondition(pr.Status.Conditions, failure(pr)).Message
	if retries < *strategy.BackoffLimitCount {
		check.State = kueue.CheckStateRetry
		check.Message = message + check.Message
		check.RequeueAfterSeconds = ptr.To(backoffSeconds(retries, *strategy.BackoffBaseSeconds, *strategy.BackoffMaxSeconds))
	}
	return true
}

// backoffSeconds returns base * 2^retries plus a jitter of up to 0.01%, at most
// maximum, all in seconds; zero if one of them is negative. Of the jitter only
// whole seconds count, so that the result is never less than the backoff without.
func backoffSeconds(retries, base, maximum int32) int32 {
	seconds := int64(base)
	for ; retries > 0 && 0 < seconds && seconds < int64(maximum); retries-- {
		seconds *= 2
	}
	jittered := wait.Jitter(time.Duration(seconds)*time.Second, 0.0001)
	return int32(max(0, min(int64(jittered/time.Second), int64(maximum))))
}

// wasForgotten returns true if the answer of the check, which its last request
// had led to, was reset by a deactivation. The request is not to lead to another
// one. Once that is recorded the message has to go: it says nothing about the
// requests that follow.
func wasForgotten(check kueue.AdmissionCheckState) bool {
	return ptr.Deref(check.RetryCount, 0) == 0 && check.State == kueue.CheckStatePending &&
		(strings.HasSuffix(check.Message, "after eviction. Previously: "+string(kueue.CheckStateRetry)) ||
			strings.HasSuffix(check.Message, "after eviction. Previously: "+string(kueue.CheckStateRejected)))
}

// planAttempts returns the offsets to record for the checks of wl, and the
// counts of those whose retryCount is behind their requests, because they were
// retried with the gate off. The requests in kept stay, the others of a workload
// that holds quota are about to be deleted.
func planAttempts(wl *kueue.Workload, requests []autoscaling.ProvisioningRequest, kept map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest) (attemptOffsets, map[kueue.AdmissionCheckReference]int32) {
	offsets := attemptOffsetsOf(wl)
	counts := make(map[kueue.AdmissionCheckReference]int32)
	for checkName, last := range lastRequests(wl, requests) {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		if check == nil {
			if holdsQuota(wl) {
				// The check, with its count, and its requests go.
				offsets[checkName] = max(offsets[checkName], last.attempt)
			}
			continue
		}

		retried := check.RetryCount == nil && check.State == kueue.CheckStatePending && retriedWithGateOff(wl, last.request)
		known := last.attempt - 1 - offsets[checkName]
		if retried {
			known++
		}
		count := ptr.Deref(check.RetryCount, 0)
		switch {
		case known <= count:
		case check.RetryCount == nil && wl.Status.RequeueState != nil && (retried || !isProvisioned(last.request)):
			// All its retries were with the gate off.
			count = min(known, ptr.Deref(wl.Status.RequeueState.Count, 0))
		case count > 0:
			// Some were. A success would have left the count at zero.
			count = known
		}
		if count > ptr.Deref(check.RetryCount, 0) {
			counts[checkName] = count
		}

		used := last.attempt - 1
		deleted := holdsQuota(wl) && kept[checkName] != last.request
		forgotten := count == 0 && (!workload.IsActive(wl) || wasForgotten(*check))
		if asksForRetry(wl, last.request) && check.State != kueue.CheckStateRetry && (deleted || forgotten) {
			// It will not ask for a retry.
			used++
		}
		if offset := used - count; offset > offsets[checkName] {
			offsets[checkName] = offset
		}
	}
	return offsets, counts
}

type lastRequest struct {
	request *autoscaling.ProvisioningRequest
	attempt int32
}

// lastRequests returns the request with the highest attempt of each check,
// whether the workload has that check or not.
func lastRequests(wl *kueue.Workload, requests []autoscaling.ProvisioningRequest) map[kueue.AdmissionCheckReference]lastRequest {
	last := make(map[kueue.AdmissionCheckReference]lastRequest)
	for i := range requests {
		name, found := strings.CutPrefix(requests[i].Name, wl.Name+"-")
		dash := strings.LastIndex(name, "-")
		if !found || dash < 0 {
			continue
		}
		attempt, err := strconv.ParseInt(name[dash+1:], 10, 32)
		checkName := kueue.AdmissionCheckReference(name[:dash])
		if err == nil && int32(attempt) > last[checkName].attempt {
			last[checkName] = lastRequest{request: &requests[i], attempt: int32(attempt)}
		}
	}
	return last
}

// syncDelayedRetries records what the numbers of the next attempts depend on. It
// returns true if nothing else is to be done for the workload, because it holds
// no quota, or is about to lose it for a retry. Requests that fail while it waits
// for the retry of another check still ask for theirs.
func (c *Controller) syncDelayedRetries(
	ctx context.Context,
	wl *kueue.Workload,
	checkConfig map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig,
	activeOrLastPRForChecks map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest,
	ownedPRs []autoscaling.ProvisioningRequest,
) (bool, error) {
	if !features.Enabled(features.ACRequeueAfter) {
		return false, nil
	}
	if synced, err := c.removeUnusedChecks(ctx, wl, checkConfig, ownedPRs); !synced || err != nil {
		return true, err
	}
	if err := c.recordAttempts(ctx, wl, ownedPRs, activeOrLastPRForChecks); err != nil {
		return true, err
	}

	retrying := !holdsQuota(wl)
	failed := make(map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig)
	for checkName, prc := range checkConfig {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		retrying = retrying || check.State == kueue.CheckStateRetry
		if pr := activeOrLastPRForChecks[checkName]; pr != nil && asksForRetry(wl, pr) {
			failed[checkName] = prc
		}
	}
	if !retrying || !workload.HasRetryChecks(wl) || !workload.IsActive(wl) {
		return retrying, nil
	}
	return true, c.syncCheckStates(ctx, wl, &workloadInfo{}, failed, activeOrLastPRForChecks)
}

// removeUnusedChecks leaves out the checks that the flavors of the workload do
// not ask for: the states of checks that are bound to flavors outlive the release
// of the quota, until the workload controller knows the new flavors. It returns
// false if that controller has yet to add a check that has requests, which are
// not to be taken for those of a check that was dropped.
func (c *Controller) removeUnusedChecks(ctx context.Context, wl *kueue.Workload, checkConfig map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig, requests []autoscaling.ProvisioningRequest) (bool, error) {
	if !holdsQuota(wl) || wl.Status.Admission == nil {
		return true, nil
	}
	cq := &kueue.ClusterQueue{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: string(wl.Status.Admission.ClusterQueue)}, cq); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	used := workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, admissioncheck.NewAdmissionChecks(cq))
	maps.DeleteFunc(checkConfig, func(checkName kueue.AdmissionCheckReference, _ *kueue.ProvisioningRequestConfig) bool {
		return !used.Has(checkName)
	})
	for checkName := range lastRequests(wl, requests) {
		if used.Has(checkName) && admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName) == nil {
			return false, nil
		}
	}
	return true, nil
}

// recordAttempts writes what planAttempts finds missing. The writes carry the
// resource version, since an old count would lead to wrong numbers.
func (c *Controller) recordAttempts(ctx context.Context, wl *kueue.Workload, requests []autoscaling.ProvisioningRequest, kept map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest) error {
	offsets, counts := planAttempts(wl, requests, kept)
	if len(counts) > 0 {
		if err := clientutil.PatchStatus(ctx, c.client, wl, func() (client.Object, bool, error) {
			for checkName, count := range counts {
				admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName).RetryCount = ptr.To(count)
			}
			return wl, true, nil
		}); err != nil {
			return err
		}
	}
	if !maps.Equal(offsets, attemptOffsetsOf(wl)) {
		value, err := json.Marshal(offsets)
		if err != nil {
			return err
		}
		if err := clientutil.Patch(ctx, c.client, wl, func() (client.Object, bool, error) {
			metav1.SetMetaDataAnnotation(&wl.ObjectMeta, attemptOffsetsAnnotation, string(value))
			return wl, true, nil
		}); err != nil {
			return err
		}
	}
	if !holdsQuota(wl) || !slices.ContainsFunc(wl.Status.AdmissionChecks, wasForgotten) {
		return nil
	}
	return clientutil.PatchStatus(ctx, c.client, wl, func() (client.Object, bool, error) {
		for i := range wl.Status.AdmissionChecks {
			if check := &wl.Status.AdmissionChecks[i]; wasForgotten(*check) {
				check.Message = ""
			}
		}
		return wl, true, nil
	})
}

// patchCheckStates writes the check states in wlPatch. With the gate on it is a
// merge patch with the resource version, which changes, and so owns, no more than
// what differs from wl: an apply of the whole list would own the delays that
// other checks ask for, and one without requeueState remove what it owns there.
func (c *Controller) patchCheckStates(ctx context.Context, wl, wlPatch *kueue.Workload) error {
	if !features.Enabled(features.ACRequeueAfter) {
		return c.client.Status().Patch(ctx, wlPatch, client.Apply, client.FieldOwner(kueue.ProvisioningRequestControllerName), client.ForceOwnership)
	}
	return clientutil.PatchStatus(ctx, c.client, wl, func() (client.Object, bool, error) {
		for _, check := range wlPatch.Status.AdmissionChecks {
			if existing := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name); existing != nil {
				*existing = check
			}
		}
		return wl, true, nil
	})
}
