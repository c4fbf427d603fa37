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
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// endsBackoffsInQueue is true if Kueue itself removes a requeueAt that is over from
// a workload that was not kept out of the queue.
const endsBackoffsInQueue = true

// isOnHold returns true if the workload has no quota because its job does not want
// any now. It is queued when the job takes it off hold.
func isOnHold(wl *kueue.Workload) bool {
	return IsOnHold(wl)
}

// wasAdmitted returns true if the workload was admitted before, and lost that.
func wasAdmitted(wl *kueue.Workload) bool {
	return wl.Status.AccumulatedPastExecutionTimeSeconds != nil
}
