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
	"math"
	"time"

	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// checkDeadline returns the time, in whole seconds, before which the check, in
// state Retry, does not want the workload to be tried again: its delay after the
// later of its transition and of the eviction. Zero if it asks for no delay.
func checkDeadline(check kueue.AdmissionCheckState, evictedAt time.Time) time.Time {
	if !asksForDelay(check) {
		return time.Time{}
	}
	start := times.Later(check.LastTransitionTime.Time, evictedAt)
	return times.Storable(start.Add(time.Duration(*check.RequeueAfterSeconds) * time.Second))
}

// asksForDelay returns true if the check has a delay of more than 0 seconds, whatever
// its state.
func asksForDelay(check kueue.AdmissionCheckState) bool {
	return ptr.Deref(check.RequeueAfterSeconds, 0) > 0
}

// secondsUntil returns the delay, in whole seconds, that ends at the deadline if it
// counts from start.
func secondsUntil(deadline, start time.Time) int32 {
	return int32(max(0, min(deadline.Sub(start)/time.Second, math.MaxInt32)))
}

// latestDeadline returns the time, in whole seconds, before which a workload that
// was evicted at evictedAt must not have quota reserved: the latest deadline of
// the checks, which are in state Retry, or the backoff if that is later. Zero if
// there is neither.
func latestDeadline(retry []kueue.AdmissionCheckState, evictedAt, backoffUntil time.Time) time.Time {
	deadline := times.Storable(backoffUntil)
	for _, check := range retry {
		deadline = times.Later(deadline, checkDeadline(check, evictedAt))
	}
	return deadline
}

// evictionTime returns the time to record for an eviction: now, in a whole
// second when a check asks for a delay. The API drops fractions of seconds, which
// would cut the delay short.
func evictionTime(retry []kueue.AdmissionCheckState, now time.Time) time.Time {
	for _, check := range retry {
		if asksForDelay(check) {
			return times.RoundedUp(now)
		}
	}
	return now
}
