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
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sigs.k8s.io/kueue/pkg/features"
)

// kindOfSchedule is one of those that a soak runs in turn.
type kindOfSchedule struct {
	name       string
	mergePatch bool
	schedules  *rapid.Generator[Schedule]
	// fresh are those that came to what none had come to before.
	fresh []Schedule
}

func (k *kindOfSchedule) run(t *testing.T, s Schedule) Result {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, k.mergePatch)
	return Run(t, s)
}

// TestSoak runs schedules of all kinds for SOAK_MINUTES: random ones, and, as often,
// those that came to something new, with a few changes. It stops at a failure, which
// it shortens. SOAK_SEED runs the same again.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("SOAK_MINUTES"), 64)
	if err != nil {
		t.Skip("make soak SOAK_MINUTES=n runs it")
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SOAK_SEED"), 10, 64); err == nil {
		seed = n
	}
	fmt.Printf("SOAK_SEED=%d\n", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var kinds []*kindOfSchedule
	for _, mergePatch := range []bool{false, true} {
		kinds = append(kinds,
			&kindOfSchedule{name: "plain", mergePatch: mergePatch, schedules: schedules},
			&kindOfSchedule{name: "policy", mergePatch: mergePatch, schedules: policySchedules},
			&kindOfSchedule{name: "cohort", mergePatch: mergePatch, schedules: cohortSchedules},
			&kindOfSchedule{name: "gate switched", mergePatch: mergePatch, schedules: generator(with(map[Op]int{OpGate: 4}))},
			&kindOfSchedule{name: "reach", mergePatch: mergePatch, schedules: reach("")})
	}
	guided := os.Getenv("SOAK_NEW") != "0"
	total, start := &tally{}, time.Now()
	found := "nothing"
	defer func() {
		if page := os.Getenv("SOAK_RECORD"); page != "" {
			if err := addRow(page, start, seed, guided, total, found); err != nil {
				t.Error(err)
			}
		}
	}()
	report := start.Add(time.Minute)
	for end := start.Add(time.Duration(minutes * float64(time.Minute))); time.Now().Before(end); {
		kind := kinds[total.schedules%len(kinds)]
		schedule := kind.schedules.Example(int(rng.Int32()))
		if guided && len(kind.fresh) > 0 && rng.IntN(2) == 0 {
			schedule = changed(rng, kind.fresh[rng.IntN(len(kind.fresh))], schedule)
		}
		var result Result
		t.Run(kind.name, func(t *testing.T) { result = kind.run(t, schedule) })
		if result.Err != nil {
			found = result.Kind()
			fmt.Printf("%s, merge patch: %v\n%s\n%s\n", kind.name, kind.mergePatch, schedule, result)
			t.Run("shortened", func(t *testing.T) { kind.explain(t, schedule, result) })
			t.Fatal(result.Err)
		}
		if total.add(result) > 0 {
			kind.fresh = append(kind.fresh, schedule)
		}
		if time.Now().After(report) {
			report = report.Add(time.Minute)
			fmt.Printf("%s %.1f schedules a second; %s\n", time.Now().Format(time.TimeOnly), float64(total.schedules)/time.Since(start).Seconds(), total)
		}
	}
	fmt.Println(total)
}

// addRow adds a row to the table at the end of a page.
func addRow(page string, start time.Time, seed uint64, guided bool, total *tally, found string) error {
	file, err := os.OpenFile(page, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	generator := "random"
	if guided {
		generator = "random, and what was new with changes"
	}
	_, err = fmt.Fprintf(file, "| %s | `%.12s` | %s | %d | %s | %.2f | %d | %s | %s |\n", start.UTC().Format(time.DateOnly),
		os.Getenv("SOAK_COMMIT"), os.Getenv("SOAK_BASE"), seed, generator, time.Since(start).Hours(), total.schedules, total.coverage, found)
	return errors.Join(err, file.Close())
}

// changed returns the schedule with up to three changes, for which it takes steps from
// the other one.
func changed(rng *rand.Rand, s, other Schedule) Schedule {
	const most = 60
	s.Steps = slices.Clone(s.Steps)
	for range 1 + rng.IntN(3) {
		i, step := rng.IntN(len(s.Steps)), other.Steps[rng.IntN(len(other.Steps))]
		switch rng.IntN(6) {
		case 0:
			s.Steps[i] = step
		case 1:
			if len(s.Steps) < most {
				s.Steps = slices.Insert(s.Steps, i, step)
			}
		case 2:
			if len(s.Steps) > 1 {
				s.Steps = slices.Delete(s.Steps, i, i+1)
			}
		case 3:
			j := rng.IntN(len(s.Steps))
			s.Steps[i], s.Steps[j] = s.Steps[j], s.Steps[i]
		case 4:
			s.Steps[i].C = rng.IntN(256)
		default:
			s.Config.Late, s.Config.Slow = other.Config.Late, other.Config.Slow
		}
	}
	return s
}

// explain shows a schedule with fewer steps that breaks the same rule each time, or
// how often this one does.
func (k *kindOfSchedule) explain(t *testing.T, s Schedule, result Result) {
	const times = 3
	breaks := func(candidate Schedule) (Result, bool) {
		var last Result
		for range times {
			if last = k.run(t, candidate); last.Err == nil || last.Kind() != result.Kind() {
				return last, false
			}
		}
		return last, true
	}
	shortest, found := breaks(s)
	if !found {
		failed := 0
		for range 10 {
			if err := k.run(t, s).Err; err != nil {
				failed++
			}
		}
		fmt.Printf("It fails in %d of 10 runs: not shortened\n", failed)
		return
	}
	for size := (len(s.Steps) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(s.Steps); {
			candidate := s
			candidate.Steps = slices.Delete(slices.Clone(s.Steps), i, i+size)
			if r, found := breaks(candidate); found {
				s, shortest = candidate, r
			} else {
				i += size
			}
		}
	}
	var violation *Violation
	if errors.As(shortest.Err, &violation) {
		fmt.Printf("Shortened to %d steps, which break the rule each time:\n%#v\n%s\n", len(s.Steps), s, shortest)
	}
}
