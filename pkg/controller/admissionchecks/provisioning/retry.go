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
	"fmt"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/util/api"
	"sigs.k8s.io/kueue/pkg/workload"
)

// attemptOfReservation returns the number of the attempt that belongs to the present
// reservation of quota. It follows from the number of evictions, which are counted with
// the eviction itself: whatever fails or is deleted, the next reservation has another
// number.
func attemptOfReservation(wl *kueue.Workload) int32 {
	attempt := int32(1)
	if wl.Status.SchedulingStats != nil {
		for _, eviction := range wl.Status.SchedulingStats.Evictions {
			attempt += eviction.Count
		}
	}
	return attempt
}

// isOfReservation returns true for a request that belongs to the present reservation: by its
// number; because its check is Ready with it; or because it was made since the quota was
// reserved, while the gate ACRequeueAfter was off, and is for none of the retries so far.
func isOfReservation(log logr.Logger, req *autoscaling.ProvisioningRequest, wl *kueue.Workload, checkName kueue.AdmissionCheckReference) bool {
	check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
	if !features.Enabled(features.ACRequeueAfter) || check == nil || check.State == kueue.CheckStateReady {
		return true
	}
	attempt := getAttempt(log, req, wl.Name, checkName)
	if attempt == attemptOfReservation(wl) {
		return true
	}
	reserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	return attempt > ptr.Deref(check.RetryCount, 0) && reserved != nil && !req.CreationTimestamp.Before(&reserved.LastTransitionTime)
}

// failureOf returns the condition of a request that has failed its workload. A booking that
// expires after the admission was used.
func failureOf(req *autoscaling.ProvisioningRequest, wl *kueue.Workload) *metav1.Condition {
	switch {
	case isFailed(req):
		return apimeta.FindStatusCondition(req.Status.Conditions, autoscaling.Failed)
	case isBookingExpired(req) && !isCapacityRevoked(req) && !workload.IsAdmitted(wl):
		return apimeta.FindStatusCondition(req.Status.Conditions, autoscaling.BookingExpired)
	default:
		return nil
	}
}

// retryOrReject has the check ask for a retry after a failure, with a delay that grows with
// its retries, or reject the workload after the last one. Returns true if the check changed.
func retryOrReject(check *kueue.AdmissionCheckState, failure *metav1.Condition, strategy *kueue.ProvisioningRequestRetryStrategy, clk clock.Clock) bool {
	if check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected {
		return false
	}
	check.LastTransitionTime = metav1.NewTime(clk.Now())
	if ptr.Deref(check.RetryCount, 0) >= *strategy.BackoffLimitCount {
		check.State = kueue.CheckStateRejected
		check.Message = failure.Message
		return true
	}
	check.State = kueue.CheckStateRetry
	cause := "failure"
	if failure.Type == autoscaling.BookingExpired {
		cause = "booking expired"
	}
	check.Message = api.TruncateConditionMessage(fmt.Sprintf("Retrying after %s: %s", cause, failure.Message))
	setRequeueAfter(check, strategy)
	return true
}
