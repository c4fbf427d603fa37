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
	"iter"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// nextAttempt returns the number for a new request of the check, which is
// attempt with the gate off.
func nextAttempt(wl *kueue.Workload, checkName kueue.AdmissionCheckReference, attempt int32) int32 {
	check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
	if !features.Enabled(features.ACRequeueAfter) || check == nil {
		return attempt
	}
	return attemptOffset(check, attemptOffsetsOf(wl), usedAttemptsOf(wl)) + retriesOf(check) + 1
}

// hearsRequests returns true if the requests of the workload matter also while
// it holds no quota: they may fail, and the numbers of their attempts count.
func hearsRequests(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workloadfinish.IsFinished(wl)
}

// updateForRetry updates the state of the check for a request, of the given
// attempt, that has failed or whose booking has expired: Retry with a backoff,
// or Rejected when the limit of the strategy is reached. It returns false if
// there is nothing to change, because the request has led to a retry before.
func updateForRetry(check *kueue.AdmissionCheckState, pr *autoscaling.ProvisioningRequest, attempt, offset int32, strategy *kueue.ProvisioningRequestRetryStrategy, now time.Time) bool {
	retries := retriesOf(check)
	if check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected || attempt <= offset+retries {
		return false
	}
	message := "Retrying after failure: "
	if !isFailed(pr) {
		message = "Retrying after booking expired: "
	}
	// The API drops fractions of seconds, which would cut the backoff short.
	check.LastTransitionTime = metav1.NewTime(times.RoundedUp(now))
	check.State, check.RequeueAfterSeconds = kueue.CheckStateRejected, nil
	check.Message = failure(pr).Message
	if retries < *strategy.BackoffLimitCount {
		check.State = kueue.CheckStateRetry
		check.Message = api.TruncateConditionMessage(message + check.Message)
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
	if len(checkConfig) == 0 && len(ownedPRs) == 0 {
		return !keepsQuota(wl), nil // it has nothing to number
	}
	if synced, err := c.removeUnusedChecks(ctx, wl, checkConfig, ownedPRs); !synced || err != nil {
		return true, err
	}
	if err := c.recordAttempts(ctx, wl, maps.Keys(checkConfig), ownedPRs, activeOrLastPRForChecks); err != nil {
		return true, err
	}

	retrying := !keepsQuota(wl)
	failed := make(map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig)
	for checkName, prc := range checkConfig {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		retrying = retrying || check.State == kueue.CheckStateRetry
		if pr := activeOrLastPRForChecks[checkName]; pr != nil && asksForRetry(wl, pr) {
			failed[checkName] = prc
		}
	}
	if !retrying {
		return false, nil
	}
	if workload.HasRetryChecks(wl) && workload.IsActive(wl) {
		if err := c.syncCheckStates(ctx, wl, &workloadInfo{}, failed, activeOrLastPRForChecks); err != nil {
			return true, err
		}
	}
	return true, c.cleanUpRequests(ctx, wl, ownedPRs)
}

// removeUnusedChecks leaves out the checks that the flavors of the workload do
// not ask for: the states of checks that are bound to flavors outlive the release
// of the quota, until the workload controller knows the new flavors. It returns
// false if that controller has yet to add a check that has requests, which are
// not to be taken for those of a check that was dropped.
func (c *Controller) removeUnusedChecks(ctx context.Context, wl *kueue.Workload, checkConfig map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig, requests []autoscaling.ProvisioningRequest) (bool, error) {
	if !keepsQuota(wl) || wl.Status.Admission == nil {
		return true, nil
	}
	cq := &kueue.ClusterQueue{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: string(wl.Status.Admission.ClusterQueue)}, cq); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	used := checksOfFlavors(ctx, wl, cq)
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

// recordAttempts writes what planUsed and planAttempts find missing. The
// writes carry the resource version, since an old count would lead to wrong
// numbers. Annotations and counts are separate writes. They are in an order in
// which the first one alone leads to the same plan: a count is raised last, and
// is reset before its offset is raised.
func (c *Controller) recordAttempts(ctx context.Context, wl *kueue.Workload, checks iter.Seq[kueue.AdmissionCheckReference], requests []autoscaling.ProvisioningRequest, kept map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest) error {
	used := planUsed(wl, checks, requests, kept)
	offsets, counts := planAttempts(wl, requests, kept, used)
	if len(counts) > 0 {
		first := maps.Clone(offsets)
		for checkName, count := range counts {
			if count == 0 {
				first[checkName] = attemptOffsetsOf(wl)[checkName]
			}
		}
		if err := c.patchAttemptNumbers(ctx, wl, first, used); err != nil {
			return err
		}
		if err := c.mergeStatus(ctx, wl, func() {
			for checkName, count := range counts {
				admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName).RetryCount = ptr.To(count)
			}
		}); err != nil {
			return err
		}
	}
	return c.patchAttemptNumbers(ctx, wl, offsets, used)
}

func (c *Controller) patchAttemptNumbers(ctx context.Context, wl *kueue.Workload, offsets, used attemptNumbers) error {
	return c.merge(ctx, wl, func() (bool, error) {
		changed := false
		for annotation, numbers := range map[string]attemptNumbers{attemptOffsetsAnnotation: offsets, usedAttemptsAnnotation: used} {
			maps.DeleteFunc(numbers, isNoAttempt)
			if maps.Equal(numbers, attemptNumbersOf(wl, annotation)) {
				continue
			}
			value, err := json.Marshal(numbers)
			if err != nil {
				return false, err
			}
			metav1.SetMetaDataAnnotation(&wl.ObjectMeta, annotation, string(value))
			changed = true
		}
		return changed, nil
	})
}

// setCheckStates sets the states of the checks that wl has to those given. A check
// that becomes Ready, or was, counts from zero.
func setCheckStates(wl *kueue.Workload, states []kueue.AdmissionCheckState) {
	for _, check := range states {
		if existing := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name); existing != nil {
			succeeded := check.State == kueue.CheckStateReady || existing.State == kueue.CheckStateReady
			if succeeded && check.State != existing.State && check.RetryCount != nil {
				check.RetryCount = ptr.To[int32](0)
			}
			*existing = check
		}
	}
}
