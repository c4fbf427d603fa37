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
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"kueue-acrequeueafter/lab/bench/result"
)

// labels of the builds.
var labels = map[string]string{
	result.GateOn:      "ours on v0.19.2",
	result.GateOff:     "the same, gate off",
	result.Base:        "v0.19.2",
	result.GuestGateOn: "ours on v0.14.8",
	result.Guest:       "v0.14.8",
}

var scenarios = []string{result.Fresh, result.Created, result.Herd, result.Spread, result.Two, result.Waiting, result.Restart, result.Bare, result.Policy, result.Jitter, result.Busy}

// row is one quantity. Of a ratio only the comparison says something to those who
// have another machine.
type row struct {
	name  string
	value value
	ratio bool
}

// rows are all, of which a table shows those that were measured. The calls are
// those of the manager, by verb and resource.
func rows(calls []row) []row {
	return slices.Concat(
		[]row{
			{"API writes by Kueue", writes, false},
			{"… for each workload", forEach(writes), false},
			{"… to the Workload itself, for each", workloadWritesEach, false},
		},
		calls,
		[]row{
			{"conflicts", func(r result.Result) float64 { return float64(r.Conflicts) }, false},
			{"reconciles for each workload", forEach(reconciles), false},
			{"evictions for each workload", forEach(func(r result.Result) float64 { return float64(r.Evictions) }), false},
			{"reservations for each workload", forEach(func(r result.Result) float64 { return float64(r.Reservations) }), false},
			{"answers of the checks for each workload", forEach(func(r result.Result) float64 { return float64(r.Answers) }), false},
			{"CPU of the manager, s", func(r result.Result) float64 { return r.CPUSeconds }, true},
			{"… for each eviction, ms", ofRetries(cpuOfRetry), true},
			{"CPU of the API server and etcd, s", func(r result.Result) float64 { return r.ServerCPUSeconds }, true},
			{"peak memory of the manager, MiB", peakMemory, true},
			{"live heap of the manager at the end, MiB", heap, true},
			{"… when all hold quota again, MiB", heapAtRest, true},
			{"… with the same workloads pending, MiB", func(r result.Result) float64 { return positive(float64(r.HeapPending) / (1 << 20)) }, true},
			{"new manager until all are known to wait, s", func(r result.Result) float64 { return positive(r.Known) }, true},
			{"… until the same ones are known to be pending, s", func(r result.Result) float64 { return positive(r.KnownPending) }, true},
			{"as many writes by a bare client with as many workers and the same limit, s", func(r result.Result) float64 { return positive(r.BareClient) }, true},
			{"… by one with many workers and no limit, s", func(r result.Result) float64 { return positive(r.ServerLimit) }, true},
		},
		percentiles("deadline to `Requeued=True`", ofOneDelay(requeued)),
		percentiles("deadline to the reservation", ofOneDelay(reserved)),
		percentiles("`Retry` to free quota", ofOneDelay(held)),
		percentiles("unrelated job, during the burst", unrelated),
		percentiles("unrelated job, before it", unrelatedIdle),
		[]row{
			{"early", func(r result.Result) float64 {
				if hasNoDelay(r) {
					return math.NaN()
				}
				return float64(r.Early)
			}, false},
			{"stuck", func(r result.Result) float64 {
				if r.Stuck == nil {
					return math.NaN()
				}
				return float64(*r.Stuck)
			}, false},
		},
	)
}

// callRows returns a row for each verb and resource that a build has written with.
func callRows(columns [][]result.Result) []row {
	names := map[string]bool{}
	name := func(c result.Call) string { return fmt.Sprintf("… `%s %s`", c.Verb, c.Resource) }
	for _, r := range slices.Concat(columns...) {
		for _, call := range r.Calls {
			if call.IsWrite() || call.Resource == "events" {
				names[name(call)] = true
			}
		}
	}
	var all []row
	for _, n := range slices.Sorted(maps.Keys(names)) {
		all = append(all, row{name: n, value: func(r result.Result) float64 {
			count := 0
			for _, call := range r.Calls {
				if name(call) == n {
					count += call.Count
				}
			}
			return float64(count)
		}})
	}
	return all
}

// hasNoDelay returns true if no delay was asked for, or the build knows none.
func hasNoDelay(r result.Result) bool {
	return !result.KnowsDelays(r.Build) || r.Scenario == result.Bare
}

// isStorm returns true if checks asked for one retry after the other.
func isStorm(r result.Result) bool {
	return r.Scenario == result.Busy || r.Scenario == result.Bare || r.Scenario == result.Policy
}

func ofOneDelay(of times) times {
	return func(r result.Result) *result.Distribution {
		if isStorm(r) {
			return nil
		}
		return of(r)
	}
}

func ofRetries(v value) value {
	return func(r result.Result) float64 {
		if isStorm(r) {
			return v(r)
		}
		return math.NaN()
	}
}

func percentiles(name string, of times) []row {
	return []row{
		{name + ": p50, s", percentile(of, 50), true},
		{"… p99, s", percentile(of, 99), true},
		{"… max, s", percentile(of, 100), true},
	}
}

// section is a scenario with its tables, one for each number of workloads.
type section struct {
	Scenario string
	Tables   []table
}

type table struct {
	Workloads int
	Rounds    int // the most that a build has
	Builds    []string
	Rows      [][]string // the name, and a cell for each build
}

// sections returns what was run.
func sections(run *result.Run) []section {
	var all []section
	for _, scenario := range scenarios {
		s := section{Scenario: scenario}
		for _, n := range sizes(run, scenario) {
			s.Tables = append(s.Tables, newTable(run, scenario, n))
		}
		if len(s.Tables) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// sizes returns the numbers of workloads that a scenario was run with.
func sizes(run *result.Run, scenario string) []int {
	var all []int
	for _, r := range run.Results {
		if r.Scenario == scenario {
			all = append(all, r.Workloads)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func newTable(run *result.Run, scenario string, n int) table {
	t := table{Workloads: n}
	var columns [][]result.Result
	for _, build := range result.Builds {
		if rounds := pick(run, build, scenario, n); len(rounds) > 0 {
			t.Builds = append(t.Builds, labels[build])
			columns = append(columns, rounds)
			t.Rounds = max(t.Rounds, len(rounds))
		}
	}
	for _, row := range rows(callRows(columns)) {
		name := row.name
		switch scenario {
		case result.Fresh:
			name = strings.Replace(name, "deadline to", "release of the queue to", 1)
		case result.Created:
			name = strings.Replace(name, "deadline to", "creation of the first job to", 1)
		}
		cells := []string{name}
		measured := false
		for _, rounds := range columns {
			values := each(rounds, row.value)
			measured = measured || len(values) > 0
			ours := each(onSameCPU(rounds, pick(run, result.OursOf(rounds[0].Build), scenario, n)), row.value)
			cells = append(cells, cell(values, ours, row.ratio && !result.IsOurs(rounds[0].Build)))
		}
		if measured {
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}

// cell shows the median of the values with their spread, or with their ratios to ours.
func cell(values, ours []float64, ratio bool) string {
	if len(values) == 0 {
		return "–"
	}
	if !ratio || !(median(ours) > 0) {
		return withSpread(values)
	}
	ratios := make([]float64, len(values))
	for i, value := range values {
		ratios[i] = value / median(ours)
	}
	return fmt.Sprintf("%s (×%s)", number(median(values)), spread(ratios))
}

// withSpread shows the median and, if they differ, the least and the greatest.
func withSpread(values []float64) string {
	text := number(median(values))
	if all := spread(values); all != text {
		text += " (" + all + ")"
	}
	return text
}

func spread(values []float64) string {
	least, greatest := number(slices.Min(values)), number(slices.Max(values))
	if least == greatest {
		return least
	}
	return least + "–" + greatest
}

// number shows counts in full, and others with three figures.
func number(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case x == math.Trunc(x):
		return thousands(int(x))
	case size >= 1000:
		return thousands(int(math.Round(x)))
	case size >= 100:
		return fmt.Sprintf("%.0f", x)
	case size >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

func thousands(n int) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	digits := fmt.Sprint(n)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}

// part is what was measured together.
type part struct {
	Scenario, Commit, CPU, Kernel string
	Workloads                     []int
	Builds                        []string
	From, To                      time.Time
}

// parts returns what was measured when, in the order of the page.
func parts(run *result.Run) []part {
	var all []part
	add := func(scenario, commit, cpu, kernel, build string, n int, date time.Time) {
		i := slices.IndexFunc(all, func(p part) bool {
			return p.Scenario == scenario && p.Commit == commit && p.CPU == cpu && p.Kernel == kernel
		})
		if i < 0 {
			i = len(all)
			all = append(all, part{Scenario: scenario, Commit: commit, CPU: cpu, Kernel: kernel, From: date, To: date})
		}
		p := &all[i]
		if !slices.Contains(p.Builds, build) {
			p.Builds = append(p.Builds, build)
		}
		if !slices.Contains(p.Workloads, n) {
			p.Workloads = append(p.Workloads, n)
			slices.Sort(p.Workloads)
		}
		p.From, p.To = earlier(p.From, date), later(p.To, date)
	}
	for _, scenario := range scenarios {
		for _, r := range run.Results {
			if r.Scenario == scenario {
				add(scenario, r.Commit, r.CPU, r.Kernel, labels[r.Build], r.Workloads, r.Date)
			}
		}
	}
	for _, t := range run.Throughput {
		add("throughput of the scheduler", t.Commit, "", "", "ours on "+t.Base, t.Workloads, t.Date)
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// largest returns the size that the pictures of a scenario show: that of the
// figures, or the largest.
func largest(run *result.Run, scenario string) int {
	all := sizes(run, scenario)
	if len(all) == 0 {
		return 0
	}
	if slices.Contains(all, 1000) {
		return 1000
	}
	return all[len(all)-1]
}
