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

package simulation

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sigs.k8s.io/kueue/pkg/features"
)

// reaches are worlds with one thing more.
var reaches = map[string]*rapid.Generator[Schedule]{"clocks": clockSchedules, "topology": topologySchedules, "pods": podSchedules, "jobsets": jobSetSchedules, "multikueue": multiKueueSchedules, "elastic": elasticSchedules, "execution": executionSchedules}

// clockSchedules have managers whose clocks differ, and which take over from one another.
var clockSchedules = rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpCrash: 10})).Draw(t, "schedule")
	for i := range s.Config.Clocks {
		s.Config.Clocks[i] = rapid.SampledFrom([]int{0, 1, -1, 3, -3, 7, -7}).Draw(t, "clock")
	}
	return s
})

// topologySchedules have nodes, which are lost at times, and a second pass.
var topologySchedules = rapid.Map(generator(with(map[Op]int{OpNode: 2, OpProvision: 12, OpReady: 12})), func(s Schedule) Schedule {
	s.Config.Topology, s.Config.Provisioning = true, true
	return s
})

// podSchedules have plain pods, and groups of them, among the jobs.
var podSchedules = rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpJob: 4, OpReady: 12, OpFinish: 3, OpMove: 3, OpPods: 4})).Draw(t, "schedule")
	s.Config.Pods, s.Config.Cohort = true, rapid.Bool().Draw(t, "cohort")
	return s
})

// jobSetSchedules have JobSets among the jobs.
var jobSetSchedules = rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpJob: 4, OpFinish: 3, OpMove: 3})).Draw(t, "schedule")
	s.Config.JobSets, s.Config.Cohort = true, rapid.Bool().Draw(t, "cohort")
	return s
})

// multiKueueSchedules have jobs that run in worker clusters, which are lost at times.
var multiKueueSchedules = rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpWorker: 6, OpReady: 12, OpFinish: 2})).Draw(t, "schedule")
	s.Config.MultiKueue, s.Config.Cohort = true, rapid.Bool().Draw(t, "cohort")
	s.Config.Replicas, s.Config.PodsReady, s.Config.Provisioning = 1, false, false
	return s
})

// elasticSchedules have elastic jobs among the others, which are scaled.
var elasticSchedules = rapid.Custom(func(t *rapid.T) Schedule {
	s := generator(with(map[Op]int{OpScale: 10, OpReady: 12, OpFinish: 2})).Draw(t, "schedule")
	s.Config.Elastic, s.Config.Cohort = true, rapid.Bool().Draw(t, "cohort")
	return s
})

// executionSchedules have jobs whose execution time is limited, and which stop slowly.
var executionSchedules = rapid.Map(generator(with(map[Op]int{OpReady: 20, OpActive: 8, OpAdvance: 20, OpFinish: 1})), func(s Schedule) Schedule {
	s.Config.MaxExecution = true
	return s
})

// switched are the schedules with the gate switched at times, but without MultiKueue: with the
// gate off the base waits for good for a worker's copy that it has evicted itself, or gives
// quota again to one with the worker of before, whose name nobody may replace.
func switched(schedules *rapid.Generator[Schedule]) *rapid.Generator[Schedule] {
	return rapid.Custom(func(t *rapid.T) Schedule {
		s := schedules.Draw(t, "schedule")
		s.Config.SwitchGate, s.Config.EndsOff, s.Config.MultiKueue = true, rapid.Bool().Draw(t, "endsOff"), false
		for range rapid.IntRange(1, 3).Draw(t, "switches") {
			s.Steps[rapid.IntRange(0, len(s.Steps)-1).Draw(t, "switch")].Op = OpGate
		}
		return s
	})
}

// allSwitched switches the gate in each kind of world.
var allSwitched = rapid.OneOf(generator(with(map[Op]int{OpGate: 4})), switched(rapid.OneOf(policySchedules, cohortSchedules, reach(""))))

// reach returns the schedules of a reach, or of all, "switched-" with the gate switched.
func reach(name string) *rapid.Generator[Schedule] {
	if name, found := strings.CutPrefix(name, "switched-"); found {
		return switched(reach(name))
	}
	switch name {
	case "":
	case "policy":
		return policySchedules
	case "cohort":
		return cohortSchedules
	default:
		return reaches[name]
	}
	var all []*rapid.Generator[Schedule]
	for _, name := range slices.Sorted(maps.Keys(reaches)) {
		all = append(all, reaches[name])
	}
	return rapid.OneOf(all...)
}

// TestReach has worlds with one thing more each, written in both ways. SIMULATION_REACH
// chooses one of them.
func TestReach(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	schedules, total := reach(os.Getenv("SIMULATION_REACH")), &tally{}
	rapid.Check(t, func(rt *rapid.T) {
		features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, rapid.Bool().Draw(rt, "merge patch"))
		check(t, schedules, total)(rt)
	})
	t.Log(total)
	if total.schedules < 100 || os.Getenv("SIMULATION_REACH") != "" {
		return
	}
	// What a world is for has to happen in it, if not in the few schedules so far.
	for event, world := range map[string]string{"requeues by another clock": "clocks", "second passes": "topology", "pods deleted": "pods", "slices replaced": "elastic", "evictions by DeactivatedDueToMaximumExecutionTimeExceeded": "execution"} {
		for seed := 0; total.events[event] == 0; seed++ {
			if seed == 100 {
				t.Errorf("There were no %s", event)
				break
			}
			total.add(Run(t, reach(world).Example(seed)))
		}
	}
}
