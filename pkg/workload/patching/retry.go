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

package patching

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
)

// asApplied returns what Kueue applies of a check. The delay is left to its controller: if
// Kueue owned it, too, an apply of the controller could not remove it.
func asApplied(check kueue.AdmissionCheckState) kueue.AdmissionCheckState {
	if features.Enabled(features.ACRequeueAfter) {
		check.RequeueAfterSeconds = nil
		check.LastTransitionTime = metav1.NewTime(RoundUp(check.LastTransitionTime.Time))
	}
	return check
}

// RoundUp returns t in whole seconds, as the API holds times. A delay that counts from the
// time would else be over too early.
func RoundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}
