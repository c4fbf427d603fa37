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

package v1beta2

import "k8s.io/apimachinery/pkg/api/resource"

// AdmissionCheckRetryStrategy is how the delay of a retry follows from the number of
// those before it.
// +kubebuilder:validation:Enum=Backoff;Static
type AdmissionCheckRetryStrategy string

const (
	// AdmissionCheckRetryBackoff: the delay grows with each retry.
	AdmissionCheckRetryBackoff AdmissionCheckRetryStrategy = "Backoff"

	// AdmissionCheckRetryStatic: all delays are the same.
	AdmissionCheckRetryStatic AdmissionCheckRetryStrategy = "Static"
)

// AdmissionCheckRetryPolicy delays the retries of a check whose controller sets the
// state Retry without requeueAfterSeconds, and limits the retries of the check.
// +kubebuilder:validation:XValidation:rule="self.strategy != 'Static' || !has(self.factor)", message="must not be set with the strategy Static", fieldPath=".factor", reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.strategy != 'Static' || !has(self.maxDelaySeconds)", message="must not be set with the strategy Static", fieldPath=".maxDelaySeconds", reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.maxDelaySeconds) || self.maxDelaySeconds >= self.baseDelaySeconds", message="must not be less than baseDelaySeconds", fieldPath=".maxDelaySeconds"
type AdmissionCheckRetryPolicy struct {
	// strategy is how the delay of a retry follows from the retryCount of the check:
	//
	// - `Backoff`: baseDelaySeconds times factor to the power of retryCount.
	// - `Static`: baseDelaySeconds.
	//
	// +required
	Strategy AdmissionCheckRetryStrategy `json:"strategy"`

	// baseDelaySeconds is the delay of the first retry, in seconds.
	//
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	BaseDelaySeconds int32 `json:"baseDelaySeconds"`

	// maxDelaySeconds is the longest delay, in seconds, before the jitter is added.
	// Unset, a delay ends at what requeueAfterSeconds can hold. For the strategy
	// Backoff only.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxDelaySeconds *int32 `json:"maxDelaySeconds,omitempty"`

	// factor is what a delay is multiplied with for the next one, from 1 on. Unset,
	// it is 2. For the strategy Backoff only.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1')) >= 0", message="must be 1 or more"
	Factor *resource.Quantity `json:"factor,omitempty"`

	// jitter is up to how much of a delay is added to it, from 0 to 1. How much it is
	// follows from the workload, the check and the number of the retry, so that
	// workloads which are retried together come back apart. Unset, it is 0. Fractions
	// of seconds are rounded up.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0 && quantity(string(self)).compareTo(quantity('1')) <= 0", message="must be from 0 to 1"
	Jitter *resource.Quantity `json:"jitter,omitempty"`

	// limitCount is how many retries the check may have, those with a delay of its
	// controller's own included. When it asks for one more, the workload is
	// deactivated, as if the check had been Rejected. 0 means that it is never
	// retried. Unset, there is no limit. Checks of ProvisioningRequests have
	// backoffLimitCount instead.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	LimitCount *int32 `json:"limitCount,omitempty"`
}

// WorkloadAdmissionCheckRetryLimitExceeded is the reason of a deactivation because an
// admission check asked for a retry more often than the limitCount of its policy allows.
const WorkloadAdmissionCheckRetryLimitExceeded = "AdmissionCheckRetryLimitExceeded"
