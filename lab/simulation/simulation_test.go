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

//go:debug randseednop=0
package simulation

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sigs.k8s.io/kueue/pkg/features"

	"kueue-acrequeueafter/lab/simulation/mutants"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("left out, because it takes minutes: make test-simulation")
		return
	}
	// On one thread at a time a schedule runs the same way each time.
	threads := 1
	if n, err := strconv.Atoi(os.Getenv("SIMULATION_THREADS")); err == nil {
		threads = n // 0: as many as there are cores
	}
	runtime.GOMAXPROCS(threads)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}

// weights says how often a step is of a kind. The first is what steps that do
// not matter shrink to.
var weights = map[Op]int{
	OpNothing: 1, OpAdvance: 16, OpSettle: 8, OpSleep: 8, OpRead: 2, OpRetry: 12, OpAnswer: 5, OpReady: 7, OpJob: 2,
	OpActive: 2, OpStop: 2, OpChecks: 1, OpCrash: 2, OpLose: 2, OpBreak: 2, OpQueue: 3, OpPods: 2, OpFinish: 1, OpProvision: 6, OpLimits: 2, OpBusy: 2,
}

var schedules = generator(weights)

func generator(weights map[Op]int) *rapid.Generator[Schedule] {
	var table []Op
	for op := range ops {
		table = append(table, slices.Repeat([]Op{op}, weights[op])...)
	}
	number := rapid.IntRange(0, 255)
	step := rapid.Custom(func(t *rapid.T) Step {
		return Step{Op: rapid.SampledFrom(table).Draw(t, "op"), A: number.Draw(t, "a"), B: number.Draw(t, "b"), C: number.Draw(t, "c")}
	})
	return rapid.Custom(func(t *rapid.T) Schedule {
		s := Schedule{
			Config: Config{
				Replicas:     rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "replicas"),
				PodsReady:    rapid.Bool().Draw(t, "podsReady"),
				OnFlavors:    rapid.Bool().Draw(t, "onFlavors"),
				Strict:       rapid.Bool().Draw(t, "strict"),
				Provisioning: rapid.SampledFrom([]bool{false, false, true}).Draw(t, "provisioning"),
				SwitchGate:   weights[OpGate] > 0,
				EndsOff:      weights[OpGate] > 0 && rapid.Bool().Draw(t, "endsOff"),
				Late:         rapid.Bool().Draw(t, "late"),
				Slow:         rapid.Bool().Draw(t, "slow"),
				Retention:    rapid.Bool().Draw(t, "retention"),
			},
			Steps: rapid.SliceOfN(step, 15, 40).Draw(t, "steps"),
		}
		if requestsGate != "" {
			s.Config.KeepRequests = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "keepRequests")
		}
		return s
	})
}

// with returns the weights with some changed.
func with(others map[Op]int) map[Op]int {
	changed := maps.Clone(weights)
	maps.Copy(changed, others)
	return changed
}

// tally sums up what schedules went through.
type tally struct {
	schedules, steps int
	events           map[string]int
	coverage         *coverage
}

// add returns how much the run came to that none did before.
func (c *tally) add(r Result) int {
	if c.events == nil {
		c.events, c.coverage = make(map[string]int), newCoverage()
	}
	c.schedules++
	c.steps += r.Steps
	for name, n := range r.Events {
		c.events[name] += n
	}
	return c.coverage.add(r.coverage)
}

func (c *tally) String() string {
	text := []string{fmt.Sprintf("%d schedules, %d steps", c.schedules, c.steps)}
	for _, name := range slices.Sorted(maps.Keys(c.events)) {
		text = append(text, fmt.Sprintf("%d %s", c.events[name], name))
	}
	all := strings.Join(text, ", ") + "; " + c.coverage.String()
	if never := c.coverage.never(); len(never) > 0 {
		all += "; never: " + strings.Join(never, ", ")
	}
	return all
}

// handmade is a schedule that random ones seldom come to.
type handmade struct {
	name string
	Schedule
}

var corpus = []handmade{
	{
		// A backoff of WaitForPodsReady, while the LocalQueue is created again.
		name: "backoff and a new LocalQueue",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true},
			Steps:  []Step{{Op: OpReady}, {Op: OpReady, A: 1}, {Op: OpSettle}, {Op: OpSleep, A: 4}, {Op: OpSleep, A: 5}, {Op: OpSettle}, {Op: OpQueue, A: 3}, {Op: OpSettle}},
		},
	},
	{
		// A check is asked for again when the manager has just started.
		name: "check asked for again",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Provisioning: true, SwitchGate: true},
			Steps:  []Step{{Op: OpChecks, A: 3}, {Op: OpReady, A: 1}, {Op: OpSettle}, {Op: OpJob}, {Op: OpAdvance, A: 7}},
		},
	},
	{
		// As many failed requests as there are, and one more.
		name: "failed requests",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Provisioning: true},
			Steps:  slices.Repeat([]Step{{Op: OpProvision, A: 0}, {Op: OpProvision, A: 1}, {Op: OpProvision, A: 2}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSleep, A: 6}, {Op: OpSettle}}, 3),
		},
	},
	{
		// In the queue behind others when the backoff ends that it had before.
		name: "activated again during a backoff",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true},
			Steps: []Step{{Op: OpChecks, A: 4}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpJob}, {Op: OpJob}, {Op: OpSettle}, {Op: OpActive, B: 15}, {Op: OpSettle},
				{Op: OpSleep, A: 7}, {Op: OpSettle}, {Op: OpFinish, A: 3}, {Op: OpFinish, A: 4}, {Op: OpSettle}},
		},
	},
	{
		// The same, and the events of a LimitRange in between.
		name: "limits change during a backoff",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true, Late: true},
			Steps: []Step{{Op: OpChecks, A: 4}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpJob}, {Op: OpJob}, {Op: OpSettle}, {Op: OpLimits}, {Op: OpActive, B: 15}, {Op: OpSettle},
				{Op: OpSleep, A: 4}, {Op: OpLimits}, {Op: OpSleep, A: 7}, {Op: OpSettle}, {Op: OpFinish, A: 3}, {Op: OpFinish, A: 4}, {Op: OpSettle}},
		},
	},
	{
		// The count of the backoff outlives a retry.
		name: "a retry after a backoff",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true},
			Steps: []Step{{Op: OpReady}, {Op: OpReady, A: 1}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpSleep, A: 7}, {Op: OpSettle}, {Op: OpRetry, C: 3}, {Op: OpSettle},
				{Op: OpSleep, A: 7}, {Op: OpSettle}},
		},
	},
	{
		// A check asks for less than the backoff, so that nothing has to be written.
		name: "gate off during a longer backoff",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true, SwitchGate: true, EndsOff: true},
			Steps: []Step{{Op: OpReady}, {Op: OpReady, A: 1}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpRetry, B: 128}, {Op: OpAdvance, A: 7}, {Op: OpGate}, {Op: OpSettle},
				{Op: OpSleep, A: 7}, {Op: OpSettle}},
		},
	},
	{
		// A check speaks while the job of a preempted workload stops.
		name: "gate off while a job stops",
		Schedule: Schedule{
			Config: Config{Replicas: 1, SwitchGate: true, EndsOff: true},
			Steps:  []Step{{Op: OpJob, A: 1}, {Op: OpAdvance, A: 1, B: 242}, {Op: OpAdvance, A: 4, B: 38}, {Op: OpRetry, A: 1, C: 3}, {Op: OpAdvance, A: 3, B: 62}, {Op: OpAdvance, A: 2, B: 36}, {Op: OpGate}},
		},
	},
	{
		name: "gate off before the eviction",
		Schedule: Schedule{
			Config: Config{Replicas: 1, SwitchGate: true, EndsOff: true},
			Steps:  []Step{{Op: OpRetry, C: 5}, {Op: OpGate}, {Op: OpSettle}, {Op: OpRetry, A: 2, C: 5}, {Op: OpSettle}},
		},
	},
	{
		name: "gate off while workloads wait",
		Schedule: Schedule{
			Config: Config{Replicas: 1, SwitchGate: true, EndsOff: true},
			Steps:  []Step{{Op: OpRetry, C: 4}, {Op: OpRetry, A: 2, C: 5}, {Op: OpSettle}, {Op: OpGate}, {Op: OpSettle}, {Op: OpRetry, A: 1, B: 128, C: 6}, {Op: OpSettle}},
		},
	},
	{
		// Requeued is True, and requeueAt that of the check.
		name: "gate off, a delay and a preemption, and gate on",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Provisioning: true, SwitchGate: true, Late: true, Cohort: true, Controllers: 2},
			Steps:  []Step{{Op: OpGate, B: 71}, {Op: OpRetry, A: 47, B: 199, C: 117}, {Op: OpAdvance, A: 4, B: 71, C: 1}, {Op: OpJob, A: 255}},
		},
	},
	{
		// The scheduler has an older copy than the cache, and the cache than the queue.
		name: "requeued while the scheduler tries",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Late: true},
			Steps: []Step{{Op: OpJob}, {Op: OpSettle}, {Op: OpRetry, C: 6}, {Op: OpSettle}, {Op: OpFinish, A: 3}, {Op: OpAdvance, B: 110}, {Op: OpAdvance, A: 1, B: 161}, {Op: OpAdvance, A: 1, B: 154},
				{Op: OpRetry, C: 6}, {Op: OpAdvance, A: 1, B: 222}, {Op: OpSettle}},
		},
	},
	{
		// They were preempted, and the event of a write comes before its answer.
		name: "told to wait in the queue",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Slow: true},
			Steps: []Step{{Op: OpJob, A: 1}, {Op: OpJob, A: 1}, {Op: OpJob, A: 1}, {Op: OpSettle}, {Op: OpRetry, C: 5}, {Op: OpRetry, A: 2, C: 5}, {Op: OpRetry, A: 4, C: 5},
				{Op: OpSettle}},
		},
	},
	{
		name: "rejected while it waits",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Retention: true},
			Steps:  []Step{{Op: OpRetry, C: 5}, {Op: OpSettle}, {Op: OpSleep, A: 7}, {Op: OpAnswer, C: 2}, {Op: OpSettle}, {Op: OpSleep, A: 7}, {Op: OpSettle}},
		},
	},
	{
		name: "a success, and no write of Kueue",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, C: 2}, {Op: OpSettle}, {Op: OpSleep, A: 5}, {Op: OpSettle}, {Op: OpAnswer}, {Op: OpSettle}, {Op: OpRetry, C: 2}, {Op: OpSettle}},
		},
	},
	{
		name: "a retry of a job that runs",
		Schedule: Schedule{
			Config: Config{Replicas: 1, OnFlavors: true},
			Steps:  []Step{{Op: OpReady}, {Op: OpSettle}, {Op: OpRetry, C: 5}, {Op: OpSettle}},
		},
	},
	{
		// Before Kueue has seen the success.
		name: "a success, and another check's retry",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpAnswer}, {Op: OpRetry, A: 1, C: 1}, {Op: OpSettle}},
		},
	},
	{
		// Said by an update, and taken back by an apply, which leaves it.
		name: "a success with a delay",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, A: 1, B: 64, C: 3}, {Op: OpAnswer, A: 1}, {Op: OpSettle}},
		},
	},
	{
		// A request succeeds in its second attempt, and its booking expires.
		name: "a booking expires",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Provisioning: true},
			Steps: []Step{{Op: OpProvision}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpProvision, B: 1}, {Op: OpAdvance, A: 7}, {Op: OpProvision, B: 2}, {Op: OpSettle},
				{Op: OpSleep, A: 6}, {Op: OpSettle}},
		},
	},
	{
		// A request that has failed is there when its check is asked again.
		name: "a failed request stays",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Provisioning: true, KeepRequests: true, LongName: true},
			Steps:  []Step{{Op: OpProvision}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}, {Op: OpProvision, A: 1, B: 1}, {Op: OpSettle}},
		},
	},
	{
		name: "the last time that there is",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, C: 25 * 8}, {Op: OpSettle}, {Op: OpAnswer, C: 1}, {Op: OpSettle}},
		},
	},
	{
		name: "gate off while one waits for ever",
		Schedule: Schedule{
			Config: Config{Replicas: 1, SwitchGate: true, EndsOff: true},
			Steps:  []Step{{Op: OpRetry, C: 25 * 8}, {Op: OpSettle}},
		},
	},
	{
		name: "a fraction of a second",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, C: 21*8 + 3}, {Op: OpSettle}, {Op: OpSleep, A: 7}, {Op: OpSettle}},
		},
	},
	{
		name: "no delay from a clock that is ahead",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, C: 23*8 + 1}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}},
		},
	},
	{
		// What is deactivated while it waits has nothing left, texts included.
		name: "deactivated while it waits",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpRetry, C: 5}, {Op: OpSettle}, {Op: OpActive}, {Op: OpSettle}, {Op: OpActive}, {Op: OpSettle}},
		},
	},
	{
		// Requeued without free quota, and withdrawn.
		name: "a wait that is over",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpJob}, {Op: OpJob}, {Op: OpRetry, C: 2}, {Op: OpRetry, A: 2, C: 5}, {Op: OpSettle}, {Op: OpSleep, A: 5}, {Op: OpSettle}, {Op: OpAnswer, A: 2, C: 1}, {Op: OpSettle}},
		},
	},
	{
		// Before the workloads have heard that nobody asks for it any more.
		name: "a delay that nobody asked for",
		Schedule: Schedule{
			Config: Config{Replicas: 1},
			Steps:  []Step{{Op: OpChecks, A: 3}, {Op: OpRetry, C: 5}, {Op: OpRetry, A: 2, C: 5}, {Op: OpSettle}, {Op: OpSleep, A: 6}, {Op: OpSettle}},
		},
	},
	{
		// The scheduler holds it until another job is ready.
		name: "a retry while others have to be ready",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true, Cohort: true, FairSharing: true, Blocking: true, Controllers: 2},
			Steps:  []Step{{Op: OpRetry, A: 26, B: 21, C: 59}},
		},
	},
	{
		// The write of its reservation is refused, and it begins in another queue.
		name: "moved while its quota is reserved",
		Schedule: Schedule{
			Config: Config{Replicas: 1, OnFlavors: true, Late: true, Cohort: true, FairSharing: true, Controllers: 2},
			Steps:  []Step{{Op: OpRetry, A: 21, C: 17}, {Op: OpAdvance, A: 103, B: 130, C: 48}, {Op: OpMove, A: 43, C: 34}, {Op: OpAdvance, A: 1, B: 7, C: 6}},
		},
	},
	{
		// One that was deactivated and activated is reserved again before the reservation
		// is refused that was made before.
		name: "reserved again before a refusal",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true, KeepRequests: true, Slow: true, Strict: true, Cohort: true, Controllers: 2},
			Steps: []Step{{Op: OpRetry, A: 14, B: 22, C: 28}, {Op: OpAdvance, A: 68, B: 38, C: 2}, {Op: OpSleep, A: 15, B: 133, C: 16}, {Op: OpActive, A: 3, B: 54, C: 10},
				{Op: OpActive, A: 1, B: 7, C: 6}, {Op: OpJob, A: 1, B: 3, C: 180}},
		},
	},
	{
		// Quota is reserved for what the job asked for before it was scaled.
		name: "scaled while its quota is reserved",
		Schedule: Schedule{
			Config: Config{Replicas: 1, PodsReady: true, Provisioning: true, Late: true, Slow: true, Cohort: true, Elastic: true},
			Steps: []Step{{Op: OpRetry, A: 157, C: 49}, {Op: OpAdvance, A: 130, B: 4}, {Op: OpAdvance, A: 17, B: 2, C: 121}, {Op: OpScale, A: 48, B: 89, C: 121},
				{Op: OpAdvance, A: 13, B: 2}},
		},
	},
	{
		// By Kueue, and by somebody once it is active again: the first time is not the second's.
		name: "deactivated again",
		Schedule: Schedule{
			Config: Config{Replicas: 1, OnFlavors: true, Slow: true, Retention: true, Cohort: true, Controllers: 2},
			Steps: []Step{{Op: OpAnswer, A: 1, B: 60, C: 162}, {Op: OpSettle, A: 211, B: 20, C: 77}, {Op: OpSettle, A: 8, B: 12, C: 109}, {Op: OpSettle, A: 9, B: 188, C: 107},
				{Op: OpActive, A: 105, B: 2, C: 241}, {Op: OpSleep, A: 35, B: 12, C: 154}},
		},
	},
	{
		// More jobs than quota, and a check that knows nothing but Retry.
		name: "a busy check",
		Schedule: Schedule{
			Config: Config{Replicas: 1, Late: true, Slow: true},
			Steps:  append([]Step{{Op: OpJob}, {Op: OpJob}, {Op: OpJob}, {Op: OpSettle}}, slices.Repeat([]Step{{Op: OpBusy, A: 15}, {Op: OpSettle}, {Op: OpBusy, A: 15, B: 1}, {Op: OpSettle}}, 4)...),
		},
	},
}

func runCorpus(t *testing.T) {
	for _, h := range corpus {
		t.Run(h.name, func(t *testing.T) {
			if result := Run(t, h.Schedule); result.Err != nil {
				t.Errorf("%s\n%s", h.Schedule, result)
			}
		})
	}
}

func check(t *testing.T, schedules *rapid.Generator[Schedule], total *tally) func(*rapid.T) {
	var failure string
	var failedLast bool
	t.Cleanup(func() {
		if failure != "" && !failedLast {
			t.Logf("It does not fail each time, and was not shortened:\n%s", failure)
		}
	})
	return func(rt *rapid.T) {
		schedule := schedules.Draw(rt, "schedule")
		result := Run(t, schedule)
		total.add(result)
		failedLast = result.Err != nil
		if result.Err != nil {
			if failure == "" {
				failure = fmt.Sprintf("%s\n%s", schedule, result)
			}
			rt.Logf("%s\n%s", schedule, result)
			rt.Fatal(result.Kind())
		}
	}
}

// TestSimulation holds the rules on random schedules, as many as -rapid.checks
// says. A failure prints its seed, and a trace of the shortest schedule found.
func TestSimulation(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	for _, way := range []string{"apply", "merge patch"} {
		t.Run(way, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, way == "merge patch")
			total := &tally{}
			if runCorpus(t); t.Failed() {
				return
			}
			rapid.Check(t, check(t, schedules, total))
			t.Log(total)
		})
	}
}

// TestPolicy gives a check a policy: its bare Retry waits as any other, and it is
// given up at its limit.
func TestPolicy(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	for _, way := range []string{"apply", "merge patch"} {
		t.Run(way, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, way == "merge patch")
			total := &tally{}
			rapid.Check(t, check(t, policySchedules, total))
			t.Log(total)
			if total.schedules >= 40 && total.events["limits"] == 0 {
				t.Error("No workload came to its limit")
			}
		})
	}
}

// policySchedules have a policy, which changes.
var policySchedules = rapid.Map(generator(with(map[Op]int{OpBusy: 8, OpPolicy: 4})), func(s Schedule) Schedule {
	s.Config.Policy = true
	return s
})

// TestCohort has two ClusterQueues that lend and borrow, jobs that are moved from one
// to the other, several replicas of the checks' controllers, and admissions that wait
// for the pods of others.
func TestCohort(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	for _, way := range []string{"apply", "merge patch"} {
		t.Run(way, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, way == "merge patch")
			total := &tally{}
			rapid.Check(t, check(t, cohortSchedules, total))
			t.Log(total)
			if total.schedules >= 40 && total.events["moved"] == 0 {
				t.Error("No workload was moved")
			}
		})
	}
}

var cohortSchedules = rapid.Map(rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpMove: 5, OpJob: 6})).Draw(t, "schedule")
	s.Config.FairSharing = rapid.Bool().Draw(t, "fairSharing")
	s.Config.Blocking = rapid.Bool().Draw(t, "blocking") && s.Config.PodsReady
	return s
}), func(s Schedule) Schedule {
	s.Config.Cohort, s.Config.Controllers = true, 2
	return s
})

// TestGateSwitched switches the gate while workloads wait.
func TestGateSwitched(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	total := &tally{}
	rapid.Check(t, func(rt *rapid.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		check(t, allSwitched, total)(rt)
	})
	t.Log(total)
}

// TestSurvey tells which rules are broken, and by which schedules first, for work
// on code that breaks several. SIMULATION_IGNORE leaves rules out; one schedule
// alone, SURVEY_FROM=seed, shows its trace.
func TestSurvey(t *testing.T) {
	limit, err := strconv.Atoi(os.Getenv("SURVEY_SCHEDULES"))
	if err != nil {
		t.Skip("SURVEY_SCHEDULES=n runs it")
	}
	broken := make(map[string][]string)
	first, _ := strconv.Atoi(os.Getenv("SURVEY_FROM"))
	for seed := first; seed < first+limit; seed++ {
		mergePatch, switched := seed%2 == 1, seed%4 > 1
		features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, mergePatch)
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		schedule := schedules.Example(seed)
		if name := os.Getenv("SIMULATION_REACH"); name != "" {
			schedule = reach(name).Example(seed)
		} else if switched {
			schedule = generator(with(map[Op]int{OpGate: 4})).Example(seed)
		}
		result := Run(t, schedule)
		if result.Err == nil {
			continue
		}
		if len(broken[result.Kind()]) == 0 {
			fmt.Printf("%s, seed %d, merge patch %v, %s:\n    %v\n", time.Now().Format(time.TimeOnly), seed, mergePatch, schedule, result.Err)
		}
		if limit == 1 || os.Getenv("SURVEY_TRACE") != "" {
			fmt.Println(result)
		}
		broken[result.Kind()] = append(broken[result.Kind()], strconv.Itoa(seed))
	}
	for _, rule := range slices.Sorted(maps.Keys(broken)) {
		fmt.Printf("%s: %d of %d schedules: %s\n", rule, len(broken[rule]), limit, strings.Join(broken[rule], " "))
	}
}

// TestGateOff compares the traces with the gate off with those of upstream's
// code. It runs twice: built from the baseline it writes the traces of as many
// schedules as BASELINE_SCHEDULES says to the file that BASELINE_TRACES names, and
// then it reads them.
//
// Maps are walked in random order, and after a restart the informers tell of what
// exists in such an order: a schedule may run in several ways. It is compared if
// upstream's code went one way or two, each more than once; then most runs of ours
// must go one of these. If they do not, upstream's ways may not all have been seen:
// the baseline (BASELINE_PROGRAM) runs the schedule many more times.
func TestGateOff(t *testing.T) {
	file := os.Getenv("BASELINE_TRACES")
	if file == "" {
		t.Skip("needs upstream's traces: make test-simulation")
	}
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, false)
	hideNewFields = !baseHasFields
	t.Cleanup(func() { hideNewFields = false })
	// Ours run until one way is ahead by so many runs, or until it is plain after the
	// most of them that neither is.
	const upstreamRuns, moreRuns, ahead, most = 5, 64, 3, 25
	schedules := generator(with(map[Op]int{OpCrash: 4}))
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		n, err := strconv.Atoi(os.Getenv("BASELINE_SCHEDULES"))
		if err != nil {
			t.Fatal(err)
		}
		first, runs := 0, upstreamRuns
		if again := os.Getenv("BASELINE_AGAIN"); again != "" {
			if first, err = strconv.Atoi(again); err != nil {
				t.Fatal(err)
			}
			runs = moreRuns
		}
		traces := make([]map[string]int, n)
		for i := range traces {
			traces[i] = map[string]int{}
			for range runs {
				traces[i][comparable(Run(t, schedules.Example(first+i)))]++
			}
		}
		data, err := json.Marshal(traces)
		if err == nil {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	upstream := tracesOf(t, file)
	n, compared, crashes, lines := len(upstream), 0, 0, 0
	for seed, ways := range upstream {
		if len(ways) > 2 || slices.Contains(slices.Collect(maps.Values(ways)), 1) {
			continue
		}
		compared++
		schedule := schedules.Example(seed)
		crashes += count(schedule, OpCrash)
		same, other := 0, map[string]int{}
		others := func() int { return sum(other) }
		for same+others() < most && same-others() < ahead && others()-same < ahead {
			if one := comparable(Run(t, schedule)); ways[one] > 0 {
				same++
				lines += strings.Count(one, "\n")
			} else {
				other[one]++
			}
		}
		if same > others() {
			continue
		}
		t.Logf("schedule %d: %d runs of %d went a way that upstream's code did not, in %d runs: it runs %d more times",
			seed, others(), same+others(), sum(ways), moreRuns)
		for way, runs := range upstreamAgain(t, seed) {
			ways[way] += runs
			same += other[way]
			delete(other, way)
		}
		if same <= others() {
			t.Fatalf("schedule %d, %s: the gate is off, but %d runs of %d went another way than upstream's code in %d (-upstream,+ours):\n%s",
				seed, schedule, others(), same+others(), sum(ways), cmp.Diff(strings.Split(commonest(ways), "\n"), strings.Split(commonest(other), "\n")))
		}
	}
	t.Logf("%d schedules of %d compared, with %d restarts, and %d lines of traces", compared, n, crashes, lines)
	if compared < n/2 || crashes < n/4 {
		t.Errorf("only %d schedules of %d, with %d restarts, run in few enough ways", compared, n, crashes)
	}
	// Traces that end early would be the same, too.
	if least := compared * ahead * 20; lines < least {
		t.Errorf("only %d lines of traces are the same, and not %d", lines, least)
	}
}

func tracesOf(t *testing.T, file string) []map[string]int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var traces []map[string]int
	if err := json.Unmarshal(data, &traces); err != nil {
		t.Fatal(err)
	}
	return traces
}

// upstreamAgain lets the baseline run the schedule more often, and returns its ways.
func upstreamAgain(t *testing.T, seed int) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "traces.json")
	baseline := exec.Command(os.Getenv("BASELINE_PROGRAM"), "-test.timeout", "30m", "-test.run", "TestGateOff$")
	baseline.Env = append(os.Environ(), "BASELINE_TRACES="+file, "BASELINE_SCHEDULES=1", "BASELINE_AGAIN="+strconv.Itoa(seed))
	if out, err := baseline.CombinedOutput(); err != nil {
		t.Fatalf("The baseline cannot run schedule %d again: %v\n%s", seed, err, out)
	}
	return tracesOf(t, file)[0]
}

func sum(runs map[string]int) int {
	n := 0
	for _, r := range runs {
		n += r
	}
	return n
}

func commonest(runs map[string]int) string {
	return slices.MaxFunc(slices.Collect(maps.Keys(runs)), func(a, b string) int { return runs[a] - runs[b] })
}

// count returns how many steps of the schedule are of the kind.
func count(schedule Schedule, op Op) int {
	n := 0
	for _, step := range schedule.Steps {
		if step.Op == op {
			n++
		}
	}
	return n
}

// comparable returns the trace up to where the gate off does more than the base,
// and how the run ended if it did not come to that.
func comparable(r Result) string {
	var lines []string
	for _, line := range r.Trace {
		if strings.Contains(line, differsFromBase) {
			return strings.Join(lines, "\n")
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, fmt.Sprintf("ended: %v", r.Err)), "\n")
}

// TestReplay runs schedules twice, to see that they run the same way.
func TestReplay(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	const n = 20
	same := 0
	for seed := range n {
		schedule := schedules.Example(seed)
		if slices.Equal(Run(t, schedule).Trace, Run(t, schedule).Trace) {
			same++
		}
	}
	// Maps in Kueue's and in client-go's caches are walked in random order.
	if same < n/2 {
		t.Errorf("%d of %d schedules ran the same way when run again", same, n)
	}
}

// TestMutants shows that each of the known mistakes is found: by a rule of the judge that
// it breaks, or by a test of the tree. Neither fails without the mistake.
func TestMutants(t *testing.T) {
	limit, err := strconv.Atoi(os.Getenv("MUTANT_SCHEDULES"))
	if err != nil {
		t.Skip("needs the mutants to be built in: make test-simulation")
	}
	// control has the schedules that were run without a mutant.
	control := make(map[string]error)
	leftOut, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv("MUTANTS_OVERLAY")), "left-out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants.All {
		t.Run(m.Name, func(t *testing.T) {
			if strings.Contains("\n"+string(leftOut), "\n"+m.Name+"\n") {
				t.Skip("this base does not have its place")
			}
			for _, rule := range m.Rules {
				if rules[rule] == "" {
					t.Errorf("there is no %s", rule)
				}
			}
			if m.Test != "" {
				findByTest(t, m)
				return
			}
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, m.MergePatch)
			run := func(schedule Schedule, mutant string) error {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
				t.Setenv(mutants.Variable, mutant)
				return Run(t, schedule).Err
			}
			for seed := range limit {
				schedule := scheduleFor(m, seed)
				err := run(schedule, m.Name)
				if err == nil {
					continue
				}
				violation := (*Violation)(nil)
				if !errors.As(err, &violation) || !slices.Contains(m.Rules, violation.Rule) {
					t.Fatalf("schedule %d: an accident, and none of %q: %v", seed, m.Rules, err)
				}
				key := fmt.Sprint(m.MergePatch, schedule)
				if _, known := control[key]; !known {
					control[key] = run(schedule, "")
				}
				if err := control[key]; err != nil {
					t.Fatalf("schedule %d fails without a mutant: %v", seed, err)
				}
				t.Logf("found after %d schedules: %v", seed+1, err)
				return
			}
			t.Errorf("not found in %d schedules", limit)
		})
	}
}

// scheduleFor returns the schedules on which the mutant is tried: random ones, and those of
// the corpus after the first of them.
func scheduleFor(m mutants.Mutant, seed int) Schedule {
	const first = 8
	switch {
	case m.World != "" && m.World != "gate":
		return reach(m.World).Example(seed)
	case first <= seed && seed < first+len(corpus):
		return corpus[seed-first].Schedule
	case m.World == "gate":
		return generator(with(map[Op]int{OpGate: 4})).Example(seed)
	default:
		return schedules.Example(seed)
	}
}

// findByTest runs a test of the tree: it passes, and fails with the mutant.
func findByTest(t *testing.T, m mutants.Mutant) {
	pkg, test, _ := strings.Cut(m.Test, " ")
	run := func(mutant string) (string, error) {
		cmd := exec.Command("go", "test", "-count=1", "-overlay", os.Getenv("MUTANTS_OVERLAY"), "-run", "^"+test+"$", "./"+pkg)
		cmd.Dir, cmd.Env = os.Getenv("MUTANTS_TREE"), append(os.Environ(), mutants.Variable+"="+mutant)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(""); err == nil && strings.Contains(out, "no tests to run") && !mutants.HasAll {
		t.Skip("this base does not have its test")
	} else if err != nil || strings.Contains(out, "no tests to run") {
		t.Fatalf("%s fails without a mutant, or is not there: %v\n%s", m.Test, err, out)
	}
	if out, err := run(m.Name); err == nil {
		t.Errorf("%s does not find it", m.Test)
	} else if !strings.Contains(out, "--- FAIL: "+test+" (") || strings.Contains(out, "panic:") {
		t.Errorf("%s finds it by an accident:\n%s", m.Test, out)
	}
}
