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

package testing

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// RetryCheck returns an admission check that asks for a delay.
func RetryCheck(name kueue.AdmissionCheckReference, requeueAfterSeconds int32) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: name, State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To(requeueAfterSeconds)}
}

// MakeStoppingWorkload returns a workload whose admission checks had it evicted at
// a time, until another one, and which has quota until its job is stopped.
func MakeStoppingWorkload(name, ns string, evictedAt, until time.Time, checks ...kueue.AdmissionCheckState) *utiltestingapi.WorkloadWrapper {
	return utiltestingapi.MakeWorkload(name, ns).
		Active(true).
		Admission(utiltestingapi.MakeAdmission("cq1").Obj()).
		AdmissionChecks(checks...).
		RequeueState(nil, ptr.To(metav1.NewTime(until))).
		Conditions(
			metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue, Reason: "QuotaReserved"},
			metav1.Condition{
				Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck,
				LastTransitionTime: metav1.NewTime(evictedAt),
			},
			metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck},
		)
}

// MakeWaitingWorkload returns a workload that was evicted at a time, and waits for
// its admission checks until another one.
func MakeWaitingWorkload(name, ns string, evictedAt, until time.Time, checks ...kueue.AdmissionCheckState) *utiltestingapi.WorkloadWrapper {
	wl := MakeStoppingWorkload(name, ns, evictedAt, until, checks...).Admission(nil)
	return wl.Conditions(
		metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: "Pending"},
		metav1.Condition{
			Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck,
			LastTransitionTime: metav1.NewTime(evictedAt),
		},
		metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck},
	)
}
