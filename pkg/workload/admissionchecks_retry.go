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

package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
)

// ResetRetryCounts has the checks that are Ready count their retries from 0 again. An apply
// would not remove a count that another field manager owns, too.
func ResetRetryCounts(w *kueue.Workload) {
	for i := range w.Status.AdmissionChecks {
		if check := &w.Status.AdmissionChecks[i]; check.State == kueue.CheckStateReady && check.RetryCount != nil {
			check.RetryCount = ptr.To[int32](0)
		}
	}
}

// resetRetryCountsIfAdmitted resets the counts with the write of the condition Admitted, if that is True.
func resetRetryCountsIfAdmitted(w *kueue.Workload, admitted metav1.ConditionStatus) {
	if features.Enabled(features.ACRequeueAfter) && admitted == metav1.ConditionTrue {
		ResetRetryCounts(w)
	}
}
