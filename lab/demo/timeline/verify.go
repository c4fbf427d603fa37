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
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// slack is how long after a moment Kueue may take to act on it, on a machine that is busy with
// other things. It is less than the shorter delay, for which plain Kueue keeps the quota.
const slack = 4 * time.Second

// Ask is a Retry that a check was told to write, with its delay.
type Ask struct {
	Check string
	Delay time.Duration
}

// Script is what the demo made happen: the first ask comes while the Job holds
// quota, the second, longer one while it waits.
type Script struct {
	Job           string
	First, Second Ask
	Others        []string
}

// Promise is one promise of the feature, and whether it was kept.
type Promise struct {
	Kept   bool
	Text   string
	Detail string
}

// Verify holds the history against what the feature promises.
func Verify(h *History, s Script) []Promise {
	m := findMoments(h.Versions(s.Job), s)
	return []Promise{
		promise(fmt.Sprintf("the Retry of check %s frees the quota within %s", s.First.Check, slack), m.freedAtOnce),
		promise("the eviction records the deadline, and leaves the check as it is, in the same write", m.deadlineInEviction),
		promise("another job holds the quota while "+s.Job+" waits", func() (bool, string) { return m.quotaUsed(h, s) }),
		promise(fmt.Sprintf("the longer delay of check %s moves the deadline", s.Second.Check), m.deadlineMoved),
		promise(s.Job+" is not reserved before its deadline", m.neverEarly),
		promise("one write requeues it: Requeued, checks Pending, retries counted, delays gone", func() (bool, string) { return m.oneWrite(s) }),
		promise(fmt.Sprintf("%s is reserved within %s after the deadline", s.Job, slack), m.notLate),
		promise("all jobs finish", func() (bool, string) { return allFinished(h, s) }),
	}
}

func promise(text string, kept func() (bool, string)) Promise {
	ok, detail := kept()
	return Promise{Kept: ok, Text: text, Detail: detail}
}

// Broken returns how many promises were not kept.
func Broken(promises []Promise) int {
	n := 0
	for _, p := range promises {
		if !p.Kept {
			n++
		}
	}
	return n
}

func (m *moments) freedAtOnce() (bool, string) {
	if m.firstRetry == nil || m.released == nil {
		return false, missing(m.firstRetry == nil, "the Retry", "the release of the quota")
	}
	d := m.released.At.Sub(m.firstRetry.At)
	return d <= slack, "after " + seconds(d)
}

func (m *moments) deadlineInEviction() (bool, string) {
	if m.evicted == nil {
		return false, "it was never evicted"
	}
	at := requeueAt(m.evicted.Workload)
	if at == nil {
		return false, "evicted without requeueAt"
	}
	for i := range m.firstRetry.Workload.Status.AdmissionChecks {
		before := &m.firstRetry.Workload.Status.AdmissionChecks[i]
		if now := checkOf(m.evicted.Workload, string(before.Name)); now == nil || now.State != before.State {
			return false, fmt.Sprintf("the eviction changed check %s", before.Name)
		}
	}
	return matches(*at, m.firstDeadline)
}

func (m *moments) quotaUsed(h *History, s Script) (bool, string) {
	if m.released == nil {
		return false, "the quota was never free"
	}
	until := h.End
	if m.reservedAgain != nil {
		until = m.reservedAgain.At
	}
	if !m.deadline.IsZero() && m.deadline.Before(until) {
		until = m.deadline
	}
	if !m.released.At.Before(until) {
		return false, fmt.Sprintf("%s held it until the deadline was over", s.Job)
	}
	var users []string
	for _, name := range s.Others {
		var used time.Duration
		for _, span := range h.quotaSpans(name) {
			used += overlap(span, m.released.At, until)
		}
		if used > 0 {
			users = append(users, fmt.Sprintf("%s for %s", name, seconds(used)))
		}
	}
	if len(users) == 0 {
		return false, "nobody used it"
	}
	return true, strings.Join(users, ", ")
}

func (m *moments) deadlineMoved() (bool, string) {
	switch {
	case m.secondRetry == nil:
		return false, "the second Retry was never seen"
	case m.moved == nil:
		return false, "requeueAt did not follow"
	}
	if d := m.moved.At.Sub(m.secondRetry.At); d > slack {
		return false, "only after " + seconds(d)
	}
	return matches(*requeueAt(m.moved.Workload), m.deadline)
}

func (m *moments) neverEarly() (bool, string) {
	if m.reservedAgain == nil || m.deadline.IsZero() {
		return false, missing(m.reservedAgain == nil, "the second reservation", "the deadline")
	}
	deadline := m.deadline
	if m.moved != nil && requeueAt(m.moved.Workload).After(deadline) {
		deadline = *requeueAt(m.moved.Workload)
	}
	// The condition has whole seconds, cut off; the moment it was seen is the
	// finer and the more lenient clock.
	at := meta.FindStatusCondition(m.reservedAgain.Workload.Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime.Time
	if m.reservedAgain.At.Before(deadline) {
		return false, seconds(deadline.Sub(m.reservedAgain.At)) + " early"
	}
	return !at.Before(deadline), fmt.Sprintf("deadline %s, reserved %s", clock(deadline), m.reservedAgain.At.Local().Format("15:04:05.000"))
}

func (m *moments) oneWrite(s Script) (bool, string) {
	if m.reset == nil {
		return false, "it was never requeued"
	}
	before, wl := m.beforeReset.Workload, m.reset.Workload
	if !isTrue(wl, kueue.WorkloadRequeued) {
		return false, "without Requeued=True"
	}
	if requeueAt(wl) != nil {
		return false, "requeueAt is still there"
	}
	var counts []string
	for _, ask := range []Ask{s.First, s.Second} {
		check := checkOf(wl, ask.Check)
		switch {
		case check == nil || check.State != kueue.CheckStatePending:
			return false, fmt.Sprintf("check %s is not Pending", ask.Check)
		case check.RequeueAfterSeconds != nil:
			return false, fmt.Sprintf("check %s keeps requeueAfterSeconds", ask.Check)
		case !inRetry(checkOf(before, ask.Check)):
			return false, fmt.Sprintf("check %s was not in Retry", ask.Check)
		case ptr.Deref(check.RetryCount, 0) != 1:
			return false, fmt.Sprintf("check %s has retryCount %d, not 1", ask.Check, ptr.Deref(check.RetryCount, 0))
		}
		counts = append(counts, fmt.Sprintf("%s: retryCount %d", ask.Check, *check.RetryCount))
	}
	return true, strings.Join(counts, ", ")
}

func (m *moments) notLate() (bool, string) {
	if m.reservedAgain == nil || m.deadline.IsZero() {
		return false, missing(m.reservedAgain == nil, "the second reservation", "the deadline")
	}
	d := m.reservedAgain.At.Sub(m.deadline)
	return d <= slack, seconds(d) + " after it"
}

func allFinished(h *History, s Script) (bool, string) {
	var left []string
	for _, name := range append([]string{s.Job}, s.Others...) {
		if !h.Finished(name) {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		return false, "not finished: " + strings.Join(left, ", ")
	}
	return true, ""
}

func missing(first bool, one, other string) string {
	if first {
		return one + " was never seen"
	}
	return other + " was never seen"
}
