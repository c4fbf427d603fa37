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
	"math"
	"slices"

	"kueue-acrequeueafter/lab/bench/result"
)

// figure is one that was to be reached.
type figure struct {
	What, Wanted, Reached string
	Yes                   bool
}

// figures compares the run with the figures that were set. What was not run is left out.
func figures(run *result.Run) []figure {
	var all []figure
	add := func(what, wanted string, yes bool, reached string, args ...any) {
		all = append(all, figure{What: what, Wanted: wanted, Reached: fmt.Sprintf(reached, args...), Yes: yes})
	}

	if retries := slices.Concat(pick(run, result.GateOn, result.Herd, 0), pick(run, result.GateOn, result.Spread, 0)); len(retries) > 0 {
		most := highest(retries, workloadWritesEach)
		add("writes by Kueue to a Workload for one delayed retry: evicted, released, requeued, reserved again (on average over the workloads, the most of all rounds)",
			"at most 4", most <= 4, "%s", number(most))
		early := total(retries, func(r result.Result) float64 { return float64(r.Early) })
		add("workloads that were requeued, or held quota again, before their deadline", "0", early == 0, "%s of %s", number(early), number(total(retries, workloads)))
	}
	if two := pick(run, result.GateOn, result.Two, 0); len(two) > 0 {
		most := highest(two, workloadWritesEach)
		add("the same, when the deadline changes once while it waits", "at most 5", most <= 5, "%s", number(most))
	}
	if waiting := pick(run, result.GateOn, result.Waiting, 0); len(waiting) > 0 {
		writes, reconciled := total(waiting, workloadWrites), total(waiting, reconciles)
		add("writes to a Workload, and reconciles of any kind, while workloads wait", "0 and 0", writes == 0 && reconciled == 0,
			"%s and %s for %s workloads", number(writes), number(reconciled), number(total(waiting, workloads)))
	}
	if spread := pick(run, result.GateOn, result.Spread, 100); len(spread) > 0 {
		p99 := highest(spread, percentile(requeued, 99))
		add("100 workloads with deadlines apart: p99 of the time from the deadline to `Requeued=True`", "under 0.5 s", p99 < 0.5, "%s s", number(p99))
	}

	herd := pick(run, result.GateOn, result.Herd, 1000)
	bareClient := func(r result.Result) float64 { return positive(r.BareClient) }
	if ratios := each(herd, func(r result.Result) float64 { return percentile(requeued, 100)(r) / bareClient(r) }); len(ratios) > 0 {
		add("1,000 workloads with one deadline: the last `Requeued=True`, against what a bare client with as many workers needs for as many writes",
			"within 2 times", median(ratios) <= 2, "%s times (%s s, %s s)", withSpread(ratios), number(median(each(herd, percentile(requeued, 100)))), number(median(each(herd, bareClient))))
	}
	last := percentile(reserved, 100)
	for _, fresh := range []struct{ scenario, what string }{
		{result.Fresh, "1,000 fresh ones that were in the queue when it was let go: one write each"},
		{result.Created, "1,000 fresh jobs, from their creation"},
	} {
		first := each(pick(run, result.GateOn, fresh.scenario, 1000), last)
		if all := median(first); len(each(herd, last)) > 0 && all > 0 {
			ratios := each(herd, func(r result.Result) float64 { return last(r) / all })
			add("the same 1,000: the last one reserved again, against the last of "+fresh.what,
				"within 1.2 times", median(ratios) <= 1.2, "%s times (%s s, %s s)", withSpread(ratios), number(median(each(herd, last))), number(all))
		}
	}
	if ratios := each(herd, func(r result.Result) float64 { return percentile(held, 100)(r) / bareClient(r) }); len(ratios) > 0 {
		add("the quota of the same 1,000 after the `Retry` of their check, with nothing to stop: the last one free, against what the bare client needs for one write each",
			"two writes and no wait in between: within 2 times", median(ratios) <= 2, "%s times (%s s)", withSpread(ratios), number(median(each(herd, percentile(held, 100)))))
	}
	if perWorkload := memoryOfWaiting(run); !math.IsNaN(perWorkload) {
		add("live heap for a waiting workload, above that for a pending one", "under 1,024 bytes", perWorkload < 1024, "%.0f bytes", perWorkload)
	}
	if bare, policy := each(pick(run, result.GateOn, result.Bare, 1000), workloadWrites), each(pick(run, result.GateOn, result.Policy, 1000), workloadWrites); len(bare) > 0 && len(policy) > 0 {
		fewer := median(bare) / median(policy)
		add("a check that says `Retry` and nothing else for two minutes, 1,000 workloads: writes without a policy against those with one of 30 s",
			"20 times as many", fewer >= 20, "%s times (%s, %s)", number(fewer), number(median(bare)), number(median(policy)))
	}
	if off, on := throughput(run, false, seconds), throughput(run, true, seconds); len(off) > 0 && len(on) > 0 {
		change := median(on) - median(off)
		noise := max(slices.Max(off)-slices.Min(off), slices.Max(on)-slices.Min(on))
		add("upstream's benchmark of the scheduler, gate on against off: seconds until all workloads are through",
			"slower by no more than the rounds of one of them differ", change <= noise,
			"on %s, off %s: %+.1f%%; CPU of the manager, s: on %s, off %s", withSpread(on), withSpread(off), 100*change/median(off),
			withSpread(throughput(run, true, cpu)), withSpread(throughput(run, false, cpu)))
	}
	return all
}

// memoryOfWaiting returns how many bytes of live heap a waiting workload takes
// more than a pending one, from the most workloads that were measured.
func memoryOfWaiting(run *result.Run) float64 {
	bytes, most := math.NaN(), 0
	for _, r := range pick(run, result.GateOn, result.Waiting, 0) {
		if r.HeapPending > 0 && r.Workloads > most {
			bytes, most = float64(r.Heap-r.HeapPending)/workloads(r), r.Workloads
		}
	}
	return bytes
}

// throughput returns a value of each round with the gate on or off.
func throughput(run *result.Run, gate bool, v func(result.Throughput) float64) []float64 {
	var values []float64
	for _, t := range run.Throughput {
		if t.Gate == gate {
			values = append(values, v(t))
		}
	}
	return values
}

func seconds(t result.Throughput) float64 { return t.Seconds }
func cpu(t result.Throughput) float64     { return t.CPU }

// pick returns the rounds of a scenario with a build, with n workloads or, if n
// is 0, with any number of them.
func pick(run *result.Run, build, scenario string, n int) []result.Result {
	var picked []result.Result
	for _, r := range run.Results {
		if r.Build == build && r.Scenario == scenario && (n == 0 || r.Workloads == n) {
			picked = append(picked, r)
		}
	}
	return picked
}

// value is taken from a result. NaN: it was not measured.
type value func(result.Result) float64

func workloads(r result.Result) float64  { return float64(r.Workloads) }
func reconciles(r result.Result) float64 { return float64(sum(r.Reconciles)) }

func sum(counts map[string]int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

func writes(r result.Result) float64 { return float64(r.Writes("")) }

func workloadWrites(r result.Result) float64 {
	return float64(r.Writes("workloads") + r.Writes("workloads/status"))
}

func workloadWritesEach(r result.Result) float64 { return workloadWrites(r) / workloads(r) }

func forEach(count func(result.Result) float64) value {
	return func(r result.Result) float64 { return count(r) / workloads(r) }
}

// positive takes a 0 for something that was not measured.
func positive(x float64) float64 {
	if x == 0 {
		return math.NaN()
	}
	return x
}

type times func(result.Result) *result.Distribution

func requeued(r result.Result) *result.Distribution      { return r.Requeued }
func reserved(r result.Result) *result.Distribution      { return r.Reserved }
func held(r result.Result) *result.Distribution          { return r.Held }
func unrelated(r result.Result) *result.Distribution     { return r.Unrelated }
func unrelatedIdle(r result.Result) *result.Distribution { return r.UnrelatedIdle }

func percentile(of times, p int) value {
	return func(r result.Result) float64 {
		if d := of(r); d != nil {
			return d.P(p)
		}
		return math.NaN()
	}
}

// each returns the values of the rounds that have one.
func each(rounds []result.Result, v value) []float64 {
	var values []float64
	for _, r := range rounds {
		if x := v(r); !math.IsNaN(x) {
			values = append(values, x)
		}
	}
	return values
}

func total(rounds []result.Result, v value) float64 {
	sum := 0.0
	for _, x := range each(rounds, v) {
		sum += x
	}
	return sum
}

func highest(rounds []result.Result, v value) float64 {
	values := each(rounds, v)
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Max(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
