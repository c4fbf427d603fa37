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
	"slices"
	"time"

	"k8s.io/utils/ptr"
)

// Storm is the second act: jobs whose check says Retry whenever it is asked, and no
// delay. At first it has no policy, then it gets one.
type Storm struct {
	*History
	// Check is the check, and Policy the moment from which it has a policy.
	Check  string
	Policy time.Time
	// Says is the policy in a few words. It delays each retry by Shortest to Longest.
	Says              string
	Shortest, Longest time.Duration
}

// Figures are counted in a stretch of a storm.
type Figures struct {
	// Writes are those of Kueue to the Workloads, Retries those of the check.
	Writes, Retries int
	Length          time.Duration
}

// PerSecond returns how many writes Kueue made in a second.
func (f Figures) PerSecond() float64 {
	if f.Length <= 0 {
		return 0
	}
	return float64(f.Writes) / f.Length.Seconds()
}

// Count counts between two moments. Of the versions of a Workload the check has
// written those that turn it into Retry, and Kueue all others. The first one does not
// count: it is the same whatever the check says.
func (s *Storm) Count(from, to time.Time) Figures {
	f := Figures{Length: to.Sub(from)}
	for _, name := range s.Names() {
		versions := s.Versions(name)
		for i := 1; i < len(versions); i++ {
			switch at := versions[i].At; {
			case at.Before(from) || !at.Before(to):
			case s.asks(versions, i):
				f.Retries++
			default:
				f.Writes++
			}
		}
	}
	return f
}

// Before and After count without the policy, and with it.
func (s *Storm) Before() Figures { return s.Count(s.began(), s.Policy) }
func (s *Storm) After() Figures  { return s.Count(s.Policy, s.End) }

// asks returns true if the check wrote the version.
func (s *Storm) asks(versions []Version, i int) bool {
	return inRetry(checkOf(versions[i].Workload, s.Check)) && !inRetry(checkOf(versions[i-1].Workload, s.Check))
}

// began returns when the check asked for the first time.
func (s *Storm) began() time.Time {
	first := s.End
	for _, name := range s.Names() {
		for _, at := range s.retries(name) {
			if at.Before(first) {
				first = at
			}
		}
	}
	return first
}

// retries returns when the check asked for a retry of the job.
func (s *Storm) retries(job string) []time.Time {
	var all []time.Time
	versions := s.Versions(job)
	for i := 1; i < len(versions); i++ {
		if s.asks(versions, i) {
			all = append(all, versions[i].At)
		}
	}
	return all
}

// wait is one delay of a job, from when it is recorded until the job is requeued, or
// until the end.
type wait struct {
	Span
	delay    *int32
	deadline time.Time
	over     bool
}

// waits returns the waits of a job that began at or after a moment.
func (s *Storm) waits(job string, from time.Time) []wait {
	var all []wait
	waiting := false
	for _, v := range s.Versions(job) {
		at := requeueAt(v.Workload)
		switch check := checkOf(v.Workload, s.Check); {
		case !waiting && at != nil && inRetry(check) && !v.At.Before(from):
			waiting = true
			all = append(all, wait{Span: Span{From: v.At, To: s.End, State: Waits}, delay: check.PolicyDelaySeconds, deadline: *at})
		case waiting && at != nil: // a delay may be recorded later than the eviction
			last := &all[len(all)-1]
			if last.delay == nil && check.PolicyDelaySeconds != nil {
				last.From = v.At
			}
			last.delay, last.deadline = check.PolicyDelaySeconds, *at
		case waiting && at == nil:
			waiting = false
			all[len(all)-1].To, all[len(all)-1].over = v.At, true
		}
	}
	return all
}

// Verify holds the storm against what a policy promises.
func (s *Storm) Verify() []Promise {
	return []Promise{
		promise("the policy's delay is in the check, of each retry after it", s.delaysRecorded),
		promise("no job is tried before its delay is over", s.noneEarly),
		promise("one retry costs no more writes with a policy than without", s.noWriteMore),
		promise("each job was delayed by the policy", s.allDelayed),
	}
}

// settled is from when on the manager must have seen the policy.
func (s *Storm) settled() time.Time { return s.Policy.Add(2 * time.Second) }

func (s *Storm) delaysRecorded() (bool, string) {
	var seen []time.Duration
	for _, name := range s.Names() {
		for _, w := range s.waits(name, s.settled()) {
			if w.delay == nil {
				return false, name + " waits without a delay"
			}
			seen = append(seen, time.Duration(*w.delay)*time.Second)
		}
	}
	if len(seen) == 0 {
		return false, "no retry was seen"
	}
	shortest, longest := slices.Min(seen), slices.Max(seen)
	return shortest >= s.Shortest && longest <= s.Longest, fmt.Sprintf("%d delays, %s to %s", len(seen), shortest, longest)
}

func (s *Storm) noneEarly() (bool, string) {
	n := 0
	for _, name := range s.Names() {
		for _, w := range s.waits(name, s.Policy) {
			if !w.over {
				continue
			}
			if w.To.Before(w.deadline) {
				return false, fmt.Sprintf("%s %s early", name, seconds(w.deadline.Sub(w.To)))
			}
			n++
		}
	}
	return n > 0, fmt.Sprintf("%d waits", n)
}

// MeasuredWithout returns true if a job was retried twice until now: before that nothing can
// be said of what a retry costs.
func (s *Storm) MeasuredWithout(now time.Time) bool { return s.writesOfOne(s.Start, now) > 0 }

// MeasuredWith returns true if a job was retried twice since the manager must have seen the
// policy, and each was delayed by it.
func (s *Storm) MeasuredWith() bool {
	delayed, _ := s.allDelayed()
	return delayed && s.writesOfOne(s.settled(), s.End) > 0
}

func (s *Storm) noWriteMore() (bool, string) {
	without, with := s.writesOfOne(s.Start, s.Policy), s.writesOfOne(s.settled(), s.End)
	return with > 0 && with <= without, fmt.Sprintf("%d with, %d without", with, without)
}

// writesOfOne returns the most writes of Kueue's from one Retry of a job to its next.
func (s *Storm) writesOfOne(from, to time.Time) int {
	most := 0
	for _, name := range s.Names() {
		versions, last := s.Versions(name), 0
		for i := 1; i < len(versions); i++ {
			if !s.asks(versions, i) {
				continue
			}
			if last > 0 && !versions[last].At.Before(from) && versions[i].At.Before(to) {
				most = max(most, i-last-1)
			}
			last = i
		}
	}
	return most
}

func (s *Storm) allDelayed() (bool, string) {
	for _, name := range s.Names() {
		if !slices.ContainsFunc(s.waits(name, s.Policy), func(w wait) bool { return ptr.Deref(w.delay, 0) > 0 }) {
			return false, name + " was not"
		}
	}
	return len(s.Names()) > 0, fmt.Sprintf("%d jobs", len(s.Names()))
}

// Told returns the lines that explain the picture: what was measured.
func (s *Storm) Told() []string {
	before, after := s.Before(), s.After()
	return []string{
		fmt.Sprintf("Without a policy, %s: Kueue wrote the Workloads %d times, for %d retries. Each is evicted, requeued and reserved again at once.", seconds(before.Length), before.Writes, before.Retries),
		fmt.Sprintf("With one, %s: %d writes, for %d retries. Kueue notes the delay in the check, and does nothing until it is over.", seconds(after.Length), after.Writes, after.Retries),
	}
}
