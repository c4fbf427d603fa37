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

package evict

import (
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// ResetChecks sets the admission checks to Pending as the eviction of the workload,
// at now, asks for. What admission checks ask for is known to package workload,
// which imports this one, and sets the function. Until then it is reset.
var ResetChecks = func(wl *kueue.Workload, now time.Time, reset func(*kueue.Workload, time.Time)) {
	reset(wl, now)
}

// ClosePreemptionGates has the workload wait for its preemption gates to be opened
// anew, as an eviction does.
func ClosePreemptionGates(wl *kueue.Workload, now time.Time, reason, message string) {
	unsetBlockedOnPreemptionGatesCondition(wl, now, reason, message)
	closeAllPreemptionGates(wl, now)
}
