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
	"strings"

	"kueue-acrequeueafter/lab/bench/result"
)

// figure is one that was to be reached, with each of our builds that was measured.
type figure struct {
	What, Wanted string
	Reached      map[string]reached
}

type reached struct {
	Text string
	Yes  bool
}

// ours are the builds that the figures are about.
func ours(run *result.Run) []string {
	var all []string
	for _, build := range result.Builds {
		if result.IsOurs(build) && slices.ContainsFunc(run.Results, func(r result.Result) bool { return r.Build == build }) {
			all = append(all, build)
		}
	}
	return all
}

// figures compares the run with the figures that were set. What was not run is left out.
func figures(run *result.Run) []figure {
	var all []figure
	for _, build := range ours(run) {
		figuresOf(run, build, func(what, wanted string, yes bool, text string, args ...any) {
			i := slices.IndexFunc(all, func(f figure) bool { return f.What == what })
			if i < 0 {
				i = len(all)
				all = append(all, figure{What: what, Wanted: wanted, Reached: map[string]reached{}})
			}
			all[i].Reached[build] = reached{Text: fmt.Sprintf(text, args...), Yes: yes}
		})
	}
	return all
}

func figuresOf(run *result.Run, build string, add func(what, wanted string, yes bool, text string, args ...any)) {
	if retries := slices.Concat(pick(run, build, result.Herd, 0), pick(run, build, result.Spread, 0)); len(retries) > 0 {
		most := highest(retries, workloadWritesEach)
		add("writes by Kueue to a Workload for one delayed retry: evicted and released, requeued, reserved again (on average over the workloads, the most of all rounds)",
			"3", most <= 3, "%s", number(most))
		early := total(retries, func(r result.Result) float64 { return float64(r.Early) })
		add("workloads that were requeued, or held quota again, before their deadline", "0", early == 0, "%s of %s", number(early), number(total(retries, workloads)))
	}
	if two := pick(run, build, result.Two, 0); len(two) > 0 {
		most := highest(two, workloadWritesEach)
		add("the writes when the deadline changes once while it waits", "4", most <= 4, "%s", number(most))
	}
	if waiting := pick(run, build, result.Waiting, most(run, build, result.Waiting)); len(waiting) > 0 {
		writes, reconciled := total(waiting, workloadWrites), total(waiting, reconciles)
		add("writes to a Workload, and reconciles of any kind, while workloads wait", "0 and 0", writes == 0 && reconciled == 0,
			"%s and %s for %s workloads", number(writes), number(reconciled), number(workloads(waiting[0])))
	}
	if spread := pick(run, build, result.Spread, 100); len(spread) > 0 {
		p99 := highest(spread, percentile(requeued, 99))
		add("100 workloads with deadlines apart: p99 of the time from the deadline to `Requeued=True`", "under 0.1 s", p99 < 0.1, "%s s", number(p99))
	}

	herd := pick(run, build, result.Herd, 1000)
	if ratios := each(herd, func(r result.Result) float64 { return percentile(requeued, 100)(r) / bareClient(r) }); len(ratios) > 0 {
		add("1,000 workloads with one deadline: the last `Requeued=True`, against what a bare client with as many workers needs for as many writes",
			"within 1.5 times", median(ratios) <= 1.5, "%s times (%s s, %s s)", withSpread(ratios), number(median(each(herd, percentile(requeued, 100)))), number(median(each(herd, bareClient))))
	}
	last := percentile(reserved, 100)
	for _, fresh := range []struct {
		scenario, what, wanted string
		times                  float64
	}{
		{result.Fresh, "1,000 fresh ones that were in the queue when it was let go: one write each, where a return costs two", "within 2 times", 2},
		{result.Created, "1,000 fresh jobs, from their creation", "under it", 1},
	} {
		first := each(onSameCPU(herd, pick(run, build, fresh.scenario, 1000)), last)
		if all := median(first); len(each(herd, last)) > 0 && all > 0 {
			ratios := each(herd, func(r result.Result) float64 { return last(r) / all })
			add("the same 1,000: the last one reserved again, against the last of "+fresh.what,
				fresh.wanted, median(ratios) <= fresh.times, "%s times (%s s, %s s)", withSpread(ratios), number(median(each(herd, last))), number(all))
		}
	}
	if ratios := each(herd, func(r result.Result) float64 { return percentile(held, 100)(r) / bareClient(r) }); len(ratios) > 0 {
		add("the quota of the same 1,000 after the `Retry` of their check, with nothing to stop: the last one free, against what the bare client needs for one write each",
			"one write each", median(ratios) <= 1, "%s times (%s s)", withSpread(ratios), number(median(each(herd, percentile(held, 100)))))
	}
	if restarts := pick(run, build, result.Restart, most(run, build, result.Restart)); len(restarts) > 0 {
		n := number(workloads(restarts[0]))
		known := each(restarts, func(r result.Result) float64 { return positive(r.Known) })
		pending := each(restarts, func(r result.Result) float64 { return positive(r.KnownPending) })
		written := total(restarts, workloadWrites)
		add(n+" waiting, a new manager: until all deadlines are known again, against as many pending ones", "no write, and as long",
			written == 0 && median(known) <= slices.Max(pending), "%s writes; %s s, %s s", number(written), withSpread(known), withSpread(pending))
		per := func(heap func(result.Result) int64) []float64 {
			return each(restarts, func(r result.Result) float64 { return float64(heap(r)) / workloads(r) })
		}
		waiting, queued := per(func(r result.Result) int64 { return r.Heap }), per(func(r result.Result) int64 { return r.HeapPending })
		more, noise := median(waiting)-median(queued), max(width(waiting), width(queued))
		add("live heap for one of them, above that for a pending one", "under 1,024 bytes, the noise added", more+noise < 1024,
			"%.0f bytes; the rounds differ by %.0f", more, noise)
	}
	if off, on := throughput(run, build, false, seconds), throughput(run, build, true, seconds); len(off) > 0 && len(on) > 0 {
		change := 100 * (median(on)/median(off) - 1)
		add("upstream's benchmark of the scheduler, gate on against off: seconds until all workloads are through",
			"within 3%, 5 rounds in turn", change <= 3 && len(on) >= 5, "%+.1f%% over %d rounds: on %s, off %s; CPU of the manager, s: on %s, off %s", change, len(on), withSpread(on), withSpread(off),
			withSpread(throughput(run, build, true, cpu)), withSpread(throughput(run, build, false, cpu)))
	}
	bare := pick(run, build, result.Bare, 1000)
	plain := onSameCPU(bare, pick(run, plainOf[build], result.Bare, 1000))
	if len(bare) > 0 && len(plain) > 0 {
		for _, cost := range []struct {
			what string
			of   value
		}{
			{"CPU of the manager for each retry, ms", cpuOfRetry},
			{"peak memory of the manager, MiB", peakMemory},
			{"live heap of the manager when the check has fallen silent and all hold quota again, MiB", heapAtRest},
		} {
			mine, others := each(bare, cost.of), each(plain, cost.of)
			if len(mine) == 0 || len(others) == 0 {
				continue
			}
			add("a check that says `Retry` at once, without a delay, for two minutes, 1,000 workloads: "+cost.what+", against plain Kueue's", "no more", median(mine) <= median(others),
				"%s times (%s, %s)", number(median(mine)/median(others)), withSpread(mine), withSpread(others))
		}
	}
	if policy := each(onSameCPU(bare, pick(run, build, result.Policy, 1000)), workloadWrites); len(bare) > 0 && len(policy) > 0 {
		without := median(each(bare, workloadWrites))
		add("the same check: writes without a policy against those with one of 30 s", "20 times as many", without/median(policy) >= 20,
			"%s times (%s, %s)", number(without/median(policy)), number(without), number(median(policy)))
	}
}

// plainOf is the release without the patches that our build is compared with.
var plainOf = map[string]string{result.GateOn: result.Base, result.GuestGateOn: result.Guest}

// most returns the greatest number of workloads that a scenario was run with.
func most(run *result.Run, build, scenario string) int {
	n := 0
	for _, r := range pick(run, build, scenario, 0) {
		n = max(n, r.Workloads)
	}
	return n
}

func width(values []float64) float64 { return slices.Max(values) - slices.Min(values) }

// throughput returns a value of each round with the gate on or off.
func throughput(run *result.Run, build string, gate bool, v func(result.Throughput) float64) []float64 {
	var values []float64
	for _, t := range run.Throughput {
		if t.Gate == gate && strings.HasPrefix(plainOf[build], t.Base+".") {
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

// onSameCPU returns those that can be compared with the rounds.
func onSameCPU(rounds, others []result.Result) []result.Result {
	var same []result.Result
	for _, r := range others {
		if len(rounds) > 0 && r.CPU == rounds[0].CPU {
			same = append(same, r)
		}
	}
	return same
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

func cpuOfRetry(r result.Result) float64 { return 1000 * r.CPUSeconds / positive(float64(r.Evictions)) }
func bareClient(r result.Result) float64 { return positive(r.BareClient) }
func peakMemory(r result.Result) float64 { return positive(float64(r.PeakMemory) / (1 << 20)) }
func heap(r result.Result) float64       { return positive(float64(r.Heap) / (1 << 20)) }
func heapAtRest(r result.Result) float64 { return positive(float64(r.HeapAtRest) / (1 << 20)) }

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
