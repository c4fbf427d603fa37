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
	"time"

	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// pendingReason returns the reason of QuotaReserved=False of a workload that is to
// be tried again.
func pendingReason() string {
	return "Pending"
}

// endTurnInQueue takes back what the workload was granted while it was queued: nothing.
func endTurnInQueue(*kueue.Workload, time.Time, string) {}

// asApplied returns the check as Kueue applies it. What Kueue applies it owns: a delay
// would outlive its removal by the check's controller, unless it is Kueue's own. A
// count is only ever applied to reset it.
func asApplied(wl *kueue.Workload, check kueue.AdmissionCheckState) kueue.AdmissionCheckState {
	if !hasDelayOfPolicy(wl, check) {
		check.RequeueAfterSeconds = nil
	}
	if ptr.Deref(check.RetryCount, 0) != 0 {
		check.RetryCount = nil
	}
	return check
}
