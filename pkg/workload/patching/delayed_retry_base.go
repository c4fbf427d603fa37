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
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
)

// asApplied returns the check as Kueue applies it. What Kueue applies it owns: a delay
// would outlive its removal by the check's controller, unless it is Kueue's own. The
// count is that, and was applied with the gate off: left out, it would be removed.
func asApplied(wl *kueue.Workload, check kueue.AdmissionCheckState) kueue.AdmissionCheckState {
	if features.Enabled(features.ACRequeueAfter) && !hasDelayOfPolicy(wl, check) {
		check.RequeueAfterSeconds = nil
	}
	return check
}
