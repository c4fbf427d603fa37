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
	"slices"
	"time"
)

// soon is what "at once" means, on a machine that does other things too.
const soon = 3 * time.Second

// finding is what a probe saw.
type finding struct {
	// words are README's where README tells of it.
	words string
	// figures are for the table of a run.
	figures string
}

// quotaSeen is when the quota was free and when it was taken again, counted from
// the Retry.
type quotaSeen struct{ delay, freed, again time.Duration }

func (s quotaSeen) finding() finding {
	switch {
	case s.again < s.delay/2:
		return finding{"there is no delay: taken again at once", fmt.Sprintf("taken again after %s", seconds(s.again))}
	case s.freed > s.delay-soon:
		return finding{"kept until the delay is over", fmt.Sprintf("kept for %s", seconds(s.freed))}
	}
	figures := fmt.Sprintf("free after %s, for %s", seconds(s.freed), seconds(s.again-s.freed))
	switch {
	case s.freed > soon:
		return finding{"free late", figures}
	case s.again < s.delay:
		return finding{"free at once, and back too early", figures}
	case s.again > s.delay+soon:
		return finding{"free at once, and back late", figures}
	}
	return finding{"free at once", figures}
}

// lateRetrySeen is when a job came back, if it did, after its last delay and when
// there was quota.
type lateRetrySeen struct {
	deadline, free, back time.Time
	counts               []count
	// observed is how long the job was waited for.
	observed time.Duration
	// withdrawn says that the Retry was, without which the job did not come back.
	withdrawn bool
}

func (s lateRetrySeen) finding() finding {
	if s.back.IsZero() {
		return finding{"stuck for good", fmt.Sprintf("not back after %.0f s", s.observed.Seconds())}
	}
	from := s.deadline
	if s.free.After(from) {
		from = s.free
	}
	figures := fmt.Sprintf("back after %s", seconds(s.back.Sub(from)))
	switch {
	case s.withdrawn:
		return finding{"stuck until the check takes it back", figures}
	case s.back.Before(s.deadline):
		return finding{"back too early", fmt.Sprintf("%s before the delay was over", seconds(s.deadline.Sub(s.back)))}
	case s.back.Sub(from) > soon:
		return finding{"waits, and comes back late", figures}
	case slices.ContainsFunc(s.counts, func(c count) bool { return c.retries != 1 }):
		return finding{"waits, and comes back with wrong counts", fmt.Sprintf("%s, counts %v", figures, s.counts)}
	}
	return finding{"waits, and comes back", figures}
}

// lateRejectedSeen is whether a job was deactivated.
type lateRejectedSeen struct {
	off             bool
	after, observed time.Duration
}

func (s lateRejectedSeen) finding() finding {
	if !s.off {
		return finding{"ignored", fmt.Sprintf("active after %.0f s", s.observed.Seconds())}
	}
	figures := fmt.Sprintf("deactivated after %s", seconds(s.after))
	if s.after > soon {
		return finding{"deactivated late", figures}
	}
	return finding{"deactivated", figures}
}

// writesSeen is how often a Workload was written until it had quota again.
type writesSeen struct {
	writes       int
	delay, again time.Duration
}

func (s writesSeen) finding() finding {
	f := finding{fmt.Sprint(s.writes), fmt.Sprintf("%d, back after %s", s.writes, seconds(s.again))}
	// v0.19.2 counts the delay from the whole second before the Retry.
	if s.again < s.delay-1500*time.Millisecond {
		f.words += ", without a delay"
	}
	return f
}

// between returns how many versions there are after one, up to another.
func between(versions []string, after, upTo string) int {
	return slices.Index(versions, upTo) - slices.Index(versions, after)
}

// count is what Kueue has counted for a check, and what is left of its delay.
type count struct {
	retries, delay int64
	counted        bool
}

func (c count) String() string {
	text := fmt.Sprint(c.retries)
	if c.delay > 0 {
		text += fmt.Sprintf(" (and a delay of %d s)", c.delay)
	}
	return text
}

// countsSeen is a check after two retries, and after a success.
type countsSeen struct{ retried, succeeded count }

func (s countsSeen) finding() finding {
	if !s.retried.counted && !s.succeeded.counted {
		return finding{"none", "none"}
	}
	f := finding{figures: fmt.Sprintf("%v, then %v", s.retried, s.succeeded)}
	switch {
	case s.retried.retries != 2:
		f.words = "wrong"
	case s.succeeded.retries == 2:
		f.words = "not reset by a success"
	case s.succeeded.retries != 0:
		f.words = "wrong after a success"
	case s.retried.delay > 0 || s.succeeded.delay > 0:
		f.words = "reset by a success, with a delay left"
	default:
		f.words = "reset by a success"
	}
	return f
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}
