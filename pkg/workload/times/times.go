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

// Package times handles times as the API server holds them: in whole seconds, and
// some that it has stored, but would not take back.
package times

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// latestTime is the latest time that the API can hold.
var latestTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

// RoundedUp returns the time in whole seconds, rounded up.
func RoundedUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// Storable returns the time as the API can hold it: in whole seconds, rounded up,
// and the latest that it can hold for a later one.
func Storable(t time.Time) time.Time {
	if t = RoundedUp(t); t.After(latestTime) {
		return latestTime
	}
	return t
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Repair sets the times in the status of wl that the API server has stored,
// but would not take back as they are, to ones that it takes: the year 1, which is
// sent as null, and, once they are in UTC, those before it or after the year 9999.
// A write that carries them would be refused for ever. The fraction of a second of
// a Retry, which a write cuts off, is rounded up.
func Repair(wl *kueue.Workload) {
	for i := range wl.Status.Conditions {
		t := &wl.Status.Conditions[i].LastTransitionTime
		*t = repaired(wl, *t)
	}
	for i := range wl.Status.AdmissionChecks {
		t := &wl.Status.AdmissionChecks[i].LastTransitionTime
		*t = repairedTransition(wl, wl.Status.AdmissionChecks[i])
	}
	if state := wl.Status.RequeueState; state != nil {
		for _, t := range []**metav1.Time{&state.RequeueAt, &state.BackoffUntil} {
			if Of(*t).IsZero() {
				*t = nil
			} else {
				*t = ptr.To(repaired(wl, **t))
			}
		}
		for i := range state.ObservedRetries {
			t := &state.ObservedRetries[i].LastTransitionTime
			*t = repaired(wl, *t)
		}
	}
	repairOfBase(wl)
}

// Of returns the time, or zero if it is not set, or sent as null.
func Of(t *metav1.Time) time.Time {
	if t == nil || t.UTC().Year() <= 1 {
		return time.Time{}
	}
	return t.Time
}

func repaired(wl *kueue.Workload, t metav1.Time) metav1.Time {
	switch {
	case t.UTC().Year() <= 1:
		return metav1.NewTime(Later(wl.CreationTimestamp.Time, time.Unix(0, 0)))
	case t.After(latestTime):
		return metav1.NewTime(latestTime)
	default:
		return t
	}
}

func repairedTransition(wl *kueue.Workload, check kueue.AdmissionCheckState) metav1.Time {
	t := repaired(wl, check.LastTransitionTime)
	if check.State == kueue.CheckStateRetry {
		return metav1.NewTime(RoundedUp(t.Time))
	}
	return t
}
