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

package multikueue

import (
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// takesNoAnswer returns true if a check has nothing to say of the workload. One
// that is deactivated has its checks set back: to reject it anew would have no end.
func takesNoAnswer(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workload.IsActive(wl)
}

// needsWorker returns true if the check is Ready because a worker cluster has admitted
// the workload, which is to be tried again without that. With the gate on a workload
// that is evicted for the retry of another check keeps the state: which cluster it was
// is forgotten already, and it is to be tried again anyway.
func needsWorker(acs *kueue.AdmissionCheckState, local *kueue.Workload) bool {
	if features.Enabled(features.ACRequeueAfter) && workloadevict.IsEvicted(local) {
		return false
	}
	return acs.State == kueue.CheckStateReady
}

// countAnew has a check that was Ready count from zero in what is written to wl, before it
// changes to the next state: it has succeeded.
func countAnew(wl *kueue.Workload, acs *kueue.AdmissionCheckState, next kueue.CheckState) {
	if !features.Enabled(features.ACRequeueAfter) || acs.State != kueue.CheckStateReady || next == kueue.CheckStateReady || acs.RetryCount == nil {
		return
	}
	acs.RetryCount = ptr.To[int32](0)
	if existing := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, acs.Name); existing != nil {
		existing.RetryCount = ptr.To[int32](0)
	}
}
