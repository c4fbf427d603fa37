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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"sigs.k8s.io/kueue/pkg/features"
)

// kindOfSchedule is one of those that a soak runs in turn.
type kindOfSchedule struct {
	name string
	// mergePatch: Kueue writes with merge patches.
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
// it shortens, and at an interrupt. SOAK_PROCESSES starts so many of it, and stops all
// when one fails; each begins with a seed of its own, the first one with SOAK_SEED.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("SOAK_MINUTES"), 64)
	if err != nil {
		t.Skip("make soak SOAK_MINUTES=n runs it")
	}
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SOAK_SEED"), 10, 64); err == nil {
		seed = n
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if n, err := strconv.Atoi(os.Getenv("SOAK_PROCESSES")); err == nil {
		if err := soakProcesses(ctx, n, seed); err != nil {
			t.Fatal(err)
		}
		return
	}
	last := filepath.Join(os.Getenv("SOAK_OUT"), fmt.Sprintf("soak-%d.json", seed))
	fmt.Printf("SOAK_SEED=%d, the schedule that runs is in %s\n", seed, last)
	rng := rand.New(rand.NewPCG(seed, 0))
	var kinds []*kindOfSchedule
	for _, mergePatch := range []bool{false, true} {
		kinds = append(kinds,
			&kindOfSchedule{name: "plain", mergePatch: mergePatch, schedules: schedules},
			&kindOfSchedule{name: "policy", mergePatch: mergePatch, schedules: policySchedules},
			&kindOfSchedule{name: "cohort", mergePatch: mergePatch, schedules: cohortSchedules},
			&kindOfSchedule{name: "gate switched", mergePatch: mergePatch, schedules: allSwitched},
			&kindOfSchedule{name: "reach", mergePatch: mergePatch, schedules: reach("")})
	}
	guided := os.Getenv("SOAK_NEW") != "0"
	total, start := &tally{events: make(map[string]int), coverage: newCoverage()}, time.Now()
	found := "nothing"
	defer func() {
		if page := os.Getenv("SOAK_RECORD"); page != "" {
			if err := addRow(page, start, seed, guided, total, found); err != nil {
				t.Error(err)
			}
		}
	}()
	report := start.Add(time.Minute)
	for end := start.Add(time.Duration(minutes * float64(time.Minute))); time.Now().Before(end) && ctx.Err() == nil; {
		kind := kinds[total.schedules%len(kinds)]
		schedule := kind.schedules.Example(int(rng.Int32()))
		if guided && len(kind.fresh) > 0 && rng.IntN(2) == 0 {
			schedule = changed(rng, kind.fresh[rng.IntN(len(kind.fresh))], schedule)
		}
		schedule.Config.LongName = rng.IntN(2) == 0
		// A panic of a goroutine of Kueue's ends the process.
		if err := saveSchedule(last, savedSchedule{MergePatch: kind.mergePatch, Schedule: schedule}); err != nil {
			t.Fatal(err)
		}
		var result Result
		t.Run(kind.name, func(t *testing.T) { result = kind.run(t, schedule) })
		if result.Err != nil {
			found = result.Kind()
			fmt.Printf("%s, merge patch: %v\n%s\n%s\n", kind.name, kind.mergePatch, schedule, result)
			t.Run("shortened", func(t *testing.T) { schedule = kind.shorten(t, schedule, result) })
			if err := saveSchedule(last, savedSchedule{MergePatch: kind.mergePatch, Schedule: schedule}); err != nil {
				t.Error(err)
			}
			t.Fatalf("%v\nmake soak BASE=%s SOAK_REPLAY=%s runs it again", result.Err, os.Getenv("SOAK_BASE"), last)
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

// shorten returns the schedule with fewer steps, as long as one of a few runs breaks the
// same rule, and shows how often it does.
func (k *kindOfSchedule) shorten(t *testing.T, s Schedule, result Result) Schedule {
	const times, most = 3, 10 * time.Minute
	start := time.Now()
	breaks := func(candidate Schedule) (Result, bool) {
		for range times {
			if last := k.run(t, candidate); last.Err != nil && last.Kind() == result.Kind() {
				return last, true
			}
		}
		return Result{}, false
	}
	for size := (len(s.Steps) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(s.Steps) && time.Since(start) < most; {
			candidate := s
			candidate.Steps = slices.Delete(slices.Clone(s.Steps), i, i+size)
			if r, found := breaks(candidate); found {
				s, result = candidate, r
			} else {
				i += size
			}
		}
	}
	broken := k.replay(t, s)
	fmt.Printf("Shortened to %d steps, which break the rule in %d of %d runs:\n%#v\n%s\n", len(s.Steps), broken[result.Kind()], replays, s, result)
	return s
}

// replays is how often a schedule is run to see what it breaks.
const replays = 10

// replay returns how often which rule is broken.
func (k *kindOfSchedule) replay(t *testing.T, s Schedule) map[string]int {
	broken := make(map[string]int)
	for range replays {
		if r := k.run(t, s); r.Err != nil {
			broken[r.Kind()]++
		}
	}
	return broken
}

// savedSchedule is one that runs, or broke a rule.
type savedSchedule struct {
	MergePatch bool
	Schedule   Schedule
}

func saveSchedule(file string, s savedSchedule) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// TestSoakReplay runs a schedule that a soak has kept, SOAK_REPLAY, a few times.
func TestSoakReplay(t *testing.T) {
	file := os.Getenv("SOAK_REPLAY")
	if file == "" {
		t.Skip("make soak SOAK_REPLAY=file runs it")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var saved savedSchedule
	if err := json.Unmarshal(content, &saved); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	kind := &kindOfSchedule{mergePatch: saved.MergePatch}
	fmt.Printf("merge patch: %v\n%s\n", saved.MergePatch, saved.Schedule)
	result := kind.run(t, saved.Schedule)
	fmt.Println(result)
	if broken := kind.replay(t, saved.Schedule); len(broken) > 0 {
		t.Errorf("Of %d runs broke: %v", replays, broken)
	}
}

// soakProcesses runs so many soaks, and stops all when one fails, or the context ends:
// each with its schedule, and its row in the record.
func soakProcesses(ctx context.Context, n int, seed uint64) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error {
			process := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
			process.Env = append(os.Environ(), "SOAK_PROCESSES=", fmt.Sprintf("SOAK_SEED=%d", seed+uint64(i)))
			process.Stdout, process.Stderr = os.Stdout, os.Stderr
			process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
			err := process.Run()
			if ctx.Err() != nil && process.ProcessState != nil && process.ProcessState.Success() {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}
