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
	"encoding/json"
	"iter"
	"maps"
	"math"
	"strconv"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// The number of an attempt is
//
//	offset + retryCount + 1
//
// The retryCount of the check counts the retries of the present series, which
// ends with a success; limit and backoff follow from it. The offset is the last
// number of the series before. So the request of attempt n has led to a retry
// that was counted if, and only if, n <= offset + retryCount.
//
// A success is recorded before the check shows it: once the count was reset, or
// the request deleted, nothing else tells that its number was used. So it is with
// a failure whose request is gone. While the count is zero the offset follows from
// that record as well. It is recorded itself before the check asks for a retry.

const (
	// attemptOffsetsAnnotation of a Workload holds the offsets of its checks, as a
	// JSON object from the name of the check to a positive integer. A check that
	// has no entry has the offset 0.
	attemptOffsetsAnnotation = "kueue.x-k8s.io/provisioning-attempt-offsets"

	// usedAttemptsAnnotation holds, in the same form, the numbers of the last
	// requests that were provisioned, or are gone, or about to be, after they had failed.
	usedAttemptsAnnotation = "kueue.x-k8s.io/provisioning-used-attempts"
)

// attemptNumbers has a number for each check that has one.
type attemptNumbers map[kueue.AdmissionCheckReference]int32

// attemptNumbersOf returns what is recorded in the annotation. What makes no
// sense is ignored.
func attemptNumbersOf(wl *kueue.Workload, annotation string) attemptNumbers {
	var numbers attemptNumbers
	if err := json.Unmarshal([]byte(wl.Annotations[annotation]), &numbers); err != nil || numbers == nil {
		return make(attemptNumbers)
	}
	maps.DeleteFunc(numbers, isNoAttempt)
	return numbers
}

func isNoAttempt(_ kueue.AdmissionCheckReference, number int32) bool {
	return number <= 0
}

func attemptOffsetsOf(wl *kueue.Workload) attemptNumbers {
	return attemptNumbersOf(wl, attemptOffsetsAnnotation)
}

func usedAttemptsOf(wl *kueue.Workload) attemptNumbers {
	return attemptNumbersOf(wl, usedAttemptsAnnotation)
}

// mostRetries is far from what Kueue counts to. A larger number, which somebody else has
// written, would be one too large for the number of an attempt.
const mostRetries = math.MaxInt32 / 2

// retriesOf returns the retries of the present series: none for a check that
// succeeded, whether its count was reset already or not.
func retriesOf(check *kueue.AdmissionCheckState) int32 {
	if check.State == kueue.CheckStateReady {
		return 0
	}
	return min(ptr.Deref(check.RetryCount, 0), mostRetries)
}

// attemptOffset returns the last number of the series before the present one.
func attemptOffset(check *kueue.AdmissionCheckState, offsets, used attemptNumbers) int32 {
	if retriesOf(check) > 0 {
		return offsets[check.Name]
	}
	return max(offsets[check.Name], used[check.Name]-1)
}

// keepsQuota returns true if the workload has its quota reserved to stay.
func keepsQuota(wl *kueue.Workload) bool {
	return workload.HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl)
}

// asksForRetry returns true if the request calls for a retry, unless it did so
// before. With the gate off the retries are counted in requeueState instead.
func asksForRetry(wl *kueue.Workload, pr *autoscaling.ProvisioningRequest) bool {
	return features.Enabled(features.ACRequeueAfter) &&
		(isFailed(pr) || (isBookingExpired(pr) && !isCapacityRevoked(pr) && !workload.IsAdmitted(wl)))
}

// retriedWithGateOff returns true if the failed request has led to a retry that
// was counted in requeueState only: since it failed the check was set back to
// Pending, as every eviction with the gate off does it. With the gate on a check
// in Retry keeps that state until its retry is counted. A check that was Ready
// is set back by other evictions as well, so there it has to be the last one.
func retriedWithGateOff(wl *kueue.Workload, check *kueue.AdmissionCheckState, last lastRequest, provisioned bool) bool {
	if !asksForRetry(wl, last.request) || check.State != kueue.CheckStatePending || check.RetryCount != nil || requeueCount(wl) == 0 ||
		last.request.CreationTimestamp.After(check.LastTransitionTime.Time) || failure(last.request).LastTransitionTime.After(check.LastTransitionTime.Time) {
		return false
	}
	evicted, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return !provisioned || (byCheck && evicted.LastTransitionTime.Equal(&check.LastTransitionTime))
}

// requeueCount returns the counter of WaitForPodsReady, and of the checks while
// the gate was off.
func requeueCount(wl *kueue.Workload) int32 {
	if wl.Status.RequeueState == nil {
		return 0
	}
	return ptr.Deref(wl.Status.RequeueState.Count, 0)
}

// failure returns the condition for which pr asks for a retry.
func failure(pr *autoscaling.ProvisioningRequest) *metav1.Condition {
	if isFailed(pr) {
		return apimeta.FindStatusCondition(pr.Status.Conditions, autoscaling.Failed)
	}
	return apimeta.FindStatusCondition(pr.Status.Conditions, autoscaling.BookingExpired)
}

// wasForgotten returns true if pr has failed in a life of the workload that ended
// with a deactivation, which resets the counts. Reactivated, the workload does not
// answer for it any more. The Requeued condition tells of the reactivation until
// the next eviction.
func wasForgotten(wl *kueue.Workload, check *kueue.AdmissionCheckState, pr *autoscaling.ProvisioningRequest) bool {
	if !workload.IsActive(wl) || (check.State == kueue.CheckStatePending && workloadevict.IsEvictedByDeactivation(wl)) {
		return true
	}
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return check.State == kueue.CheckStatePending &&
		requeued != nil && requeued.Status == metav1.ConditionTrue && requeued.Reason == kueue.WorkloadReactivated &&
		pr.CreationTimestamp.Before(&requeued.LastTransitionTime) && !failure(pr).LastTransitionTime.After(requeued.LastTransitionTime.Time)
}

// planUsed returns the numbers to record of requests of the checks that were
// provisioned, or are gone, or about to be, after they had failed. A check that is Ready names its
// request. That is enough while there is one.
func planUsed(wl *kueue.Workload, checks iter.Seq[kueue.AdmissionCheckReference], requests []autoscaling.ProvisioningRequest, kept map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest) attemptNumbers {
	used := usedAttemptsOf(wl)
	requestOf := lastRequests(wl, requests)
	for checkName := range checks {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		last, exists := requestOf[checkName]
		number := int32(0)
		switch {
		case check.State == kueue.CheckStateReady:
			if !exists || cleansUpRequests(wl) || (keepsQuota(wl) && kept[checkName] != last.request) {
				number = readyAttempt(wl, check)
			}
		case exists:
			// One that has failed was heard of if its check asks for the retry, or has had it.
			isHeard := !asksForRetry(wl, last.request) || check.State != kueue.CheckStatePending || last.attempt <= attemptOffset(check, attemptOffsetsOf(wl), used)+retriesOf(check)
			if isProvisioned(last.request) || (cleansUpRequests(wl) && isHeard) {
				number = last.attempt
			}
		case check.State != kueue.CheckStatePending:
			number = attemptOffset(check, attemptOffsetsOf(wl), used) + retriesOf(check) + 1
		case retriesOf(check) > 0:
			number = attemptOffset(check, attemptOffsetsOf(wl), used) + retriesOf(check)
		}
		if number > used[checkName] {
			used[checkName] = number
		}
	}
	return used
}

// readyAttempt returns the attempt that a check that is Ready tells of. Zero if it
// needs no request.
func readyAttempt(wl *kueue.Workload, check *kueue.AdmissionCheckState) int32 {
	for _, update := range check.PodSetUpdates {
		checkName, attempt, ok := parseRequestName(wl, update.Annotations[autoscaling.ProvisioningRequestPodAnnotationKey])
		if ok && checkName == check.Name {
			return attempt
		}
	}
	return 0
}

// planAttempts returns the offsets to record for the checks of wl, and the
// counts of those whose retryCount does not follow from their requests: it is
// behind if they were retried with the gate off, and to be reset if a request was
// provisioned without its check ever being Ready, because the workload waited.
// The requests in kept stay, the others of a workload that holds quota are about
// to be deleted. The numbers in used are recorded first.
func planAttempts(wl *kueue.Workload, requests []autoscaling.ProvisioningRequest, kept map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest, used attemptNumbers) (attemptNumbers, map[kueue.AdmissionCheckReference]int32) {
	offsets := attemptOffsetsOf(wl)
	counts := make(map[kueue.AdmissionCheckReference]int32)
	for checkName, last := range lastRequests(wl, requests) {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		if check == nil {
			if keepsQuota(wl) {
				// The check, with its count, and its requests go.
				offsets[checkName] = max(offsets[checkName], last.attempt)
			}
			continue
		}

		asks := asksForRetry(wl, last.request)
		succeeded := isProvisioned(last.request) || last.attempt <= used[checkName]
		count := retriesOf(check)
		offset := attemptOffset(check, offsets, used)
		retried := retriedWithGateOff(wl, check, last, succeeded)
		known := last.attempt - 1 - offset
		if retried {
			known++
		}
		switch {
		// The number of a request that is about to be deleted is used, but tells of no success.
		case asks && (isProvisioned(last.request) || succeeded && !cleansUpRequests(wl)) && check.State == kueue.CheckStatePending && count > 0 && last.attempt > offset+count:
			count = 0
			counts[checkName] = count
		case known <= count:
		case check.RetryCount == nil && (retried || !succeeded):
			// All its retries were with the gate off.
			count = min(known, requeueCount(wl))
		case count > 0:
			// Some were. A success would have left the count at zero.
			count = known
		}
		if count > ptr.Deref(check.RetryCount, 0) {
			counts[checkName] = count
		}

		answered := last.attempt - 1
		deleted := keepsQuota(wl) && kept[checkName] != last.request
		forgotten := asks && count == 0 && wasForgotten(wl, check, last.request)
		if retried || (asks && check.State != kueue.CheckStateRetry && (deleted || forgotten)) {
			// It will not ask for a retry.
			answered++
		}
		if answered-count > offset || (asks && answered-count > offsets[checkName]) {
			offsets[checkName] = answered - count
		}
	}

	// A new request gets a number that was not used.
	for checkName, number := range used {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		if !keepsQuota(wl) || check == nil || check.State != kueue.CheckStatePending || kept[checkName] != nil {
			continue
		}
		count, planned := counts[checkName]
		if !planned {
			count = retriesOf(check)
		}
		if number-count > offsets[checkName] {
			offsets[checkName] = number - count
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
		checkName, attempt, ok := parseRequestName(wl, requests[i].Name)
		if ok && attempt > last[checkName].attempt {
			last[checkName] = lastRequest{request: &requests[i], attempt: attempt}
		}
	}
	return last
}

// parseRequestName returns the check and the attempt of a request for wl.
func parseRequestName(wl *kueue.Workload, requestName string) (kueue.AdmissionCheckReference, int32, bool) {
	name, found := strings.CutPrefix(requestName, wl.Name+"-")
	dash := strings.LastIndex(name, "-")
	if !found || dash < 0 {
		return "", 0, false
	}
	attempt, err := strconv.ParseInt(name[dash+1:], 10, 32)
	return kueue.AdmissionCheckReference(name[:dash]), int32(attempt), err == nil
}
