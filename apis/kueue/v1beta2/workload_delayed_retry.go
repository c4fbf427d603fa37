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

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WorkloadWaitingForRetry is the reason of QuotaReserved=False while the workload
// waits until status.requeueState.requeueAt, because admission checks have asked
// for a retry (KEP-3258).
const WorkloadWaitingForRetry = "WaitingForRetry"

// WorkloadAdmissionCheckRetryLimitExceeded is the reason of DeactivationTarget, and
// the cause of the eviction that follows, when an admission check asks for a retry
// and was retried as often as it may be (KEP-3258).
const WorkloadAdmissionCheckRetryLimitExceeded = "AdmissionCheckRetryLimitExceeded"

// ObservedRetry is a Retry of an admission check that Kueue has looked at the policy
// for, which is not asked again while the workload waits (KEP-3258).
type ObservedRetry struct {
	// name of the admission check.
	//
	// +required
	Name AdmissionCheckReference `json:"name"`

	// lastTransitionTime that the admission check had. With another one, its Retry is
	// a new one.
	//
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// delaySeconds is the delay that its policy gave the check, in seconds, or 0 if it
	// has no policy. It is set in requeueAfterSeconds of the check, too, if there is
	// one. Unset, the check asked for a delay itself.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	DelaySeconds *int32 `json:"delaySeconds,omitempty"`
}
