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

package main

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

// taken counts the workloads that hold a slot of the check: they passed it, and
// still hold quota.
func taken(workloads []kueue.Workload, check kueue.AdmissionCheckReference) int {
	taken := 0
	for i := range workloads {
		wl := &workloads[i]
		state := kit.StateOf(wl, check)
		if state != nil && state.State == kueue.CheckStateReady &&
			apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadQuotaReserved) &&
			!apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadFinished) {
			taken++
		}
	}
	return taken
}

// decide tells whether a workload that was retried so often gets a slot. No limit
// is set by maxRetries 0.
func decide(free int, retries, maxRetries int32, backoff kit.Backoff) kit.Verdict {
	switch {
	case free > 0:
		return kit.Ready(fmt.Sprintf("One of %d free slots", free))
	case maxRetries > 0 && retries >= maxRetries:
		return kit.Rejected(fmt.Sprintf("No slot was free after %d retries", retries))
	default:
		return kit.Retry(backoff.Delay(retries), fmt.Sprintf("No slot is free, after %d retries", retries))
	}
}
