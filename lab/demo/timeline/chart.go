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
	"cmp"
	"slices"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// State is what a Workload does for a while.
type State int

const (
	// InQueue waits for quota.
	InQueue State = iota
	// HoldsQuota has quota; its checks are at work.
	HoldsQuota
	// Runs is admitted.
	Runs
	// Waits has no quota and will not be tried before its deadline.
	Waits
	// Done is finished.
	Done
	// Free is quota that nobody holds.
	Free
)

// stateNames are the names in the legends, in their order.
var stateNames = []struct {
	State State
	Name  string
}{
	{InQueue, "queued"},
	{HoldsQuota, "quota reserved"},
	{Waits, "waits, no quota"},
	{Runs, "runs"},
}

func stateOf(wl *kueue.Workload) State {
	switch {
	case isTrue(wl, kueue.WorkloadFinished):
		return Done
	case isTrue(wl, kueue.WorkloadAdmitted):
		return Runs
	case isTrue(wl, kueue.WorkloadQuotaReserved):
		return HoldsQuota
	case requeueAt(wl) != nil:
		return Waits
	default:
		return InQueue
	}
}

// Span is a stretch of time in one state.
type Span struct {
	From, To time.Time
	State    State
}

func overlap(s Span, from, to time.Time) time.Duration {
	if s.From.After(from) {
		from = s.From
	}
	if s.To.Before(to) {
		to = s.To
	}
	return max(0, to.Sub(from))
}

// spans returns what a Workload did until the end of the history.
func (h *History) spans(job string) []Span {
	var spans []Span
	for _, v := range h.workloads[job] {
		state := stateOf(v.Workload)
		if n := len(spans); n > 0 {
			spans[n-1].To = v.At
			if spans[n-1].State == state {
				continue
			}
		}
		spans = append(spans, Span{From: v.At, State: state})
	}
	if n := len(spans); n > 0 {
		spans[n-1].To = h.End
	}
	return spans
}

// quotaSpans returns when a Workload held quota.
func (h *History) quotaSpans(job string) []Span {
	var held []Span
	for _, s := range h.spans(job) {
		if s.State != HoldsQuota && s.State != Runs {
			continue
		}
		if n := len(held); n > 0 && held[n-1].To.Equal(s.From) {
			held[n-1].To = s.To
			continue
		}
		held = append(held, Span{From: s.From, To: s.To, State: HoldsQuota})
	}
	return held
}

// Chart is the picture of a history, times as distances from its start.
type Chart struct {
	Length time.Duration
	Rows   []Row
	// Quota tells who held the quota when.
	Quota []Bar
	// Notes explain the marks by their numbers.
	Notes []Note
}

// Row shows one Workload.
type Row struct {
	Name      string
	Bars      []Bar
	Marks     []Mark
	Deadlines []Deadline
}

// Bar is a stretch of a row, with a label in the row of the quota.
type Bar struct {
	From, To time.Duration
	State    State
	Label    string
}

// Mark stands for a note.
type Mark struct {
	At     time.Duration
	Number int
}

// Deadline is a requeueAt; one that was moved did not hold.
type Deadline struct {
	At    time.Duration
	Moved bool
}

// Note explains a mark.
type Note struct {
	Mark
	Job   string
	Lines []string
}

// nearby is how close events share a mark.
const nearby = 600 * time.Millisecond

// NewChart draws up the picture of a history.
func NewChart(h *History) *Chart {
	c := &Chart{Length: h.End.Sub(h.Start)}
	for _, name := range h.Names() {
		row := Row{Name: name}
		for _, s := range h.spans(name) {
			row.Bars = append(row.Bars, Bar{From: s.From.Sub(h.Start), To: s.To.Sub(h.Start), State: s.State})
		}
		for _, s := range h.quotaSpans(name) {
			c.Quota = append(c.Quota, Bar{From: s.From.Sub(h.Start), To: s.To.Sub(h.Start), State: HoldsQuota, Label: name})
		}
		row.Deadlines = deadlines(h.Versions(name), h.Start)
		c.Rows = append(c.Rows, row)
	}
	c.Quota = withGaps(c.Quota, c.Length)
	c.Notes = notes(h)
	for _, note := range c.Notes {
		for i := range c.Rows {
			if c.Rows[i].Name == note.Job {
				c.Rows[i].Marks = append(c.Rows[i].Marks, note.Mark)
			}
		}
	}
	return c
}

// withGaps sorts the bars of the quota and fills what is between them.
func withGaps(held []Bar, end time.Duration) []Bar {
	slices.SortStableFunc(held, func(a, b Bar) int { return cmp.Compare(a.From, b.From) })
	var bars []Bar
	var at time.Duration
	for _, b := range append(held, Bar{From: end, To: end}) {
		if b.From > at {
			bars = append(bars, Bar{From: at, To: b.From, State: Free, Label: "free"})
		}
		if b.To > b.From {
			bars = append(bars, b)
		}
		at = max(at, b.To)
	}
	return bars
}

// notes explains the events worth a mark; close ones share it.
func notes(h *History) []Note {
	var all []Note
	for _, e := range h.events {
		at := e.At.Sub(h.Start)
		if n := len(all); n > 0 && all[n-1].Job == e.Job && at-all[n-1].At < nearby {
			if e.marked() || e.Kind == Released || e.Kind == Reserved {
				all[n-1].Lines = append(all[n-1].Lines, e.Text)
			}
			continue
		}
		if e.marked() {
			all = append(all, Note{Mark: Mark{At: at, Number: len(all) + 1}, Job: e.Job, Lines: []string{e.Text}})
		}
	}
	return all
}

func deadlines(versions []Version, start time.Time) []Deadline {
	var all []Deadline
	for _, v := range versions {
		at := requeueAt(v.Workload)
		if at == nil {
			continue
		}
		d := Deadline{At: at.Sub(start)}
		if n := len(all); n > 0 {
			if all[n-1].At == d.At {
				continue
			}
			all[n-1].Moved = true
		}
		all = append(all, d)
	}
	return all
}

// tick returns the distance between the marks of the time axis.
func (c *Chart) tick() time.Duration {
	for _, d := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second} {
		if c.Length/d <= 14 {
			return d
		}
	}
	return 30 * time.Second
}
