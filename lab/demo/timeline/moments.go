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

package timeline

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// moments are the versions of the waiting Workload at which something began;
// nil if it never did. The deadlines are those of the KEP: the delay after
// the later of the check's transition and the eviction, the latest of all.
type moments struct {
	versions []Version

	firstRetry, secondRetry *Version
	evicted, released       *Version
	moved                   *Version
	beforeReset, reset      *Version
	reservedAgain           *Version

	firstDeadline, deadline time.Time
}

func findMoments(versions []Version, s Script) *moments {
	m := &moments{versions: versions}
	set := func(moment **Version, v *Version, holds bool) {
		if *moment == nil && holds {
			*moment = v
		}
	}
	for i := range versions {
		v := &versions[i]
		wl := v.Workload
		reserved := isTrue(wl, kueue.WorkloadQuotaReserved)
		set(&m.firstRetry, v, inRetry(checkOf(wl, s.First.Check)))
		set(&m.secondRetry, v, inRetry(checkOf(wl, s.Second.Check)))
		if m.firstRetry == nil {
			continue
		}
		set(&m.evicted, v, isTrue(wl, kueue.WorkloadEvicted))
		set(&m.released, v, !reserved)
		if m.released != nil {
			set(&m.reservedAgain, v, reserved)
		}
		if at := requeueAt(wl); m.secondRetry != nil && at != nil {
			before := requeueAt(m.secondRetry.Workload)
			set(&m.moved, v, before == nil || !before.Equal(*at))
		}
		if m.evicted != nil && m.reset == nil && v != m.evicted {
			old := &versions[i-1]
			set(&m.reset, v, becameReset(old.Workload, wl))
			set(&m.beforeReset, old, m.reset != nil)
		}
	}
	m.firstDeadline = m.deadlineOf(m.firstRetry, s.First)
	m.deadline = m.firstDeadline
	if second := m.deadlineOf(m.secondRetry, s.Second); second.After(m.deadline) {
		m.deadline = second
	}
	return m
}

func (m *moments) deadlineOf(retry *Version, ask Ask) time.Time {
	if retry == nil || m.evicted == nil {
		return time.Time{}
	}
	from := checkOf(retry.Workload, ask.Check).LastTransitionTime.Time
	// Kueue v0.19 evicts when the delay is over: that begins no other one.
	if evicted := meta.FindStatusCondition(m.evicted.Workload.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time; evicted.After(from) && evicted.Before(from.Add(ask.Delay)) {
		from = evicted
	}
	return from.Add(ask.Delay)
}

// Writes returns how often Kueue wrote the waiting Workload from the first
// Retry until it was reserved again, or 0 if it never was.
func Writes(h *History, s Script) int {
	m := findMoments(h.Versions(s.Job), s)
	if m.reservedAgain == nil {
		return 0
	}
	n := 0
	for i := range m.versions {
		v := &m.versions[i]
		if v.At.After(m.firstRetry.At) && !v.At.After(m.reservedAgain.At) && v != m.secondRetry {
			n++
		}
	}
	return n
}

// becameReset tells whether a write began the reset: any part of it.
func becameReset(old, wl *kueue.Workload) bool {
	if isTrue(wl, kueue.WorkloadRequeued) && !isTrue(old, kueue.WorkloadRequeued) {
		return true
	}
	if requeueAt(old) != nil && requeueAt(wl) == nil {
		return true
	}
	for i := range old.Status.AdmissionChecks {
		before := &old.Status.AdmissionChecks[i]
		now := checkOf(wl, string(before.Name))
		if inRetry(before) && !inRetry(now) {
			return true
		}
		if now != nil && before.RequeueAfterSeconds != nil && now.RequeueAfterSeconds == nil {
			return true
		}
	}
	return false
}

// matches holds a recorded deadline against the one that the KEP gives.
// A second more is rounding; earlier is a broken promise.
func matches(recorded, want time.Time) (bool, string) {
	if recorded.Before(want) || recorded.After(want.Add(time.Second)) {
		return false, fmt.Sprintf("requeueAt is %s, not %s", clock(recorded), clock(want))
	}
	return true, "requeueAt is " + clock(recorded)
}
