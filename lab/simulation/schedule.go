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
	mathrand "math/rand"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// Step is one thing that happens in a schedule. A, B and C choose among what is
// possible at that time.
type Step struct {
	Op      Op
	A, B, C int
}

// Op is a kind of step.
type Op int

const (
	OpNothing Op = iota
	OpAdvance
	OpSettle
	OpSleep
	OpRead
	OpRetry
	OpAnswer
	OpJob
	OpActive
	OpStop
	OpChecks
	OpCrash
	OpLose
	OpBreak
	OpQueue
	OpPods
	OpFinish
	OpReady
	OpGate
	OpProvision
	OpLimits
	OpBusy
	OpPolicy
	OpMove
	OpNode
	OpWorker
	OpScale
	ops
)

func (s Step) String() string {
	names := [...]string{"nothing", "advance", "settle", "sleep", "read", "retry", "answer", "job", "active", "stop", "checks", "crash", "lose", "break", "queue", "pods", "finish", "ready", "gate", "provision", "limits", "busy", "policy", "move", "node", "worker", "scale"}
	return fmt.Sprintf("%s(%d,%d,%d)", names[s.Op], s.A, s.B, s.C)
}

// Schedule is what a run depends on.
type Schedule struct {
	Config Config
	Steps  []Step
}

func (s Schedule) String() string {
	var steps []string
	for _, step := range s.Steps {
		if step.Op != OpNothing {
			steps = append(steps, step.String())
		}
	}
	return fmt.Sprintf("%+v %s", s.Config, strings.Join(steps, " "))
}

// Result of a run.
type Result struct {
	Err    error
	Trace  []string
	Events map[string]int
	Steps  int

	coverage *coverage
}

func (r Result) String() string {
	return fmt.Sprintf("%v\n%s", r.Err, strings.Join(r.Trace, "\n"))
}

// Kind tells failures apart.
func (r Result) Kind() string {
	var violation *Violation
	if errors.As(r.Err, &violation) {
		return violation.Rule
	}
	return r.Err.Error()
}

type randSource struct{ n uint64 }

func (r *randSource) next() *rand.Rand {
	r.n++
	return rand.New(rand.NewPCG(r.n, 0))
}

var sleeps = []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 9 * time.Second}

// Run runs the schedule, and then everything to its end.
func Run(t *testing.T, s Schedule) (result Result) {
	gate := features.Enabled(features.ACRequeueAfter)
	defer func() { _ = setFeature(features.ACRequeueAfter, gate) }()
	defer func() { _ = setFeature(features.ACRetryStrategy, false) }()
	defer func() { _ = setElastic(false) }()
	defer func() {
		// What a broken rule leaves running may never end: on v0.19 the scheduler
		// tells a controller, that is gone, of each reservation that was refused. And
		// MultiKueue does not stop a watch whose events nobody takes any more.
		r := recover()
		if r == nil {
			return
		}
		isLeft := s.Config.MultiKueue && strings.HasPrefix(fmt.Sprint(r), "deadlock: main bubble goroutine has exited")
		if !isLeft && !(result.Err != nil && strings.HasPrefix(fmt.Sprint(r), "deadlock: ")) {
			panic(r)
		}
	}()
	//lint:ignore SA1019 the jitter of client-go comes from there; the test sets randseednop=0
	mathrand.Seed(1)
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(s.Config)
		if err == nil {
			err = w.run(s, &result)
		}
		if violation := (*Violation)(nil); errors.As(err, &violation) && violation.Rule == endOfBase {
			err = nil
		}
		result.Err, result.Trace, result.Events, result.coverage = err, w.trace, w.judge.seenEvents, w.judge.coverage
		w.stop()
	})
	return result
}

func (w *World) run(s Schedule, result *Result) error {
	rng := &randSource{}
	for range 3 {
		w.createJob(localQueue, "")
	}
	w.judge.unready["j1"], w.judge.unready["j2"] = w.config.PodsReady, w.config.PodsReady
	if err := w.settle(rng.next()); err != nil {
		return err
	}
	for i, step := range s.Steps {
		result.Steps++
		if err := w.step(step, rand.New(rand.NewPCG(uint64(step.A)<<16|uint64(step.B), uint64(step.C)))); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, step, err)
		}
		if err := w.judge.failure(); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, step, err)
		}
	}
	if err := w.settle(rng.next()); err != nil {
		return err
	}
	if err := w.judge.quiet(); err != nil {
		return err
	}
	if s.Config.SwitchGate {
		if err := w.setGate(!s.Config.EndsOff); err != nil {
			return err
		}
	}
	return w.conclude(rng)
}

func (w *World) step(s Step, rng *rand.Rand) error {
	switch s.Op {
	case OpAdvance:
		return w.advance(1+s.A%8, rng)
	case OpSettle:
		if err := w.settle(rng); err != nil {
			return err
		}
		return w.judge.quiet()
	case OpSleep:
		time.Sleep(sleeps[s.A%len(sleeps)])
	case OpRead, OpRetry, OpAnswer:
		all := w.workloads()
		if len(all) == 0 {
			return nil
		}
		replicas := w.checks[checkNames[s.A%len(checkNames)]]
		check := replicas[s.A/16%len(replicas)]
		name := all[(s.A/len(checkNames))%min(len(all), 3)].Name // few, so that much happens to each
		if waiting := slices.DeleteFunc(all, func(wl *kueue.Workload) bool { return requeueAt(wl).IsZero() }); s.B >= 128 && len(waiting) > 0 {
			name = waiting[(s.A/len(checkNames))%len(waiting)].Name
		}
		if s.Op == OpRead {
			check.read(name)
			return nil
		}
		// One time in four on what was read before.
		if s.B%4 != 3 {
			check.read(name)
		}
		v := verdict{state: kueue.CheckStateRetry, resend: s.B/4%4 == 3, at: clock(s.C / 8)}
		if s.Op == OpRetry {
			if delays := []int32{2, 0, 1, 3, 8, 20}; s.C%8 < len(delays) {
				v.delay = ptr.To(delays[s.C%8])
			}
		} else {
			v.state = []kueue.CheckState{kueue.CheckStateReady, kueue.CheckStatePending, kueue.CheckStateRejected, kueue.CheckStateReady}[s.C%4]
		}
		check.say(name, v, manner(s.B/16)%manners)
	case OpJob:
		if w.jobs < 6 {
			queue := localQueue
			if w.config.Cohort && s.B%2 == 1 {
				queue = otherQueue
			}
			w.createJob(queue, []string{"", "high"}[s.A%2])
		}
	case OpActive:
		if all := w.workloads(); len(all) > 0 {
			wl := all[s.A%len(all)]
			active := ptr.Deref(wl.Spec.Active, true)
			w.setActive(wl.Name, !active)
			if s.B%4 > 0 {
				if err := w.advance(s.B%16, rng); err != nil {
					return err
				}
				w.setActive(wl.Name, active)
			}
		}
	case OpStop:
		policy := []kueue.StopPolicy{kueue.None, kueue.Hold, kueue.HoldAndDrain, kueue.None}[s.A%4]
		if s.B%2 == 1 {
			w.stopLocalQueue(policy)
		} else {
			w.setStopPolicy(policy)
		}
	case OpChecks:
		w.setChecks([][]kueue.AdmissionCheckReference{checkNames, {"a"}, checkNames, {"b"}, {}}[s.A%5]...)
	case OpCrash:
		i := s.A % len(w.procs)
		w.note("%s crashes", w.procs[i].name)
		return w.crash(i)
	case OpGate:
		return w.setGate(!features.Enabled(features.ACRequeueAfter))
	case OpProvision:
		if all := w.requests(); len(all) > 0 {
			w.provision(all[s.A%len(all)].Name, outcomes[s.B%len(outcomes)])
		}
	case OpLose:
		if err := w.quiesce(); err != nil {
			return err
		}
		w.moves() // in order
		if n := len(w.pending); n > 0 && w.pending[s.A%n].isWrite {
			return w.release(s.A%n, []memapi.Fate{memapi.Lost, memapi.Unanswered}[s.B%2])
		}
	case OpBreak:
		if watches := w.api.Watches(); len(watches) > 0 {
			w.broken = time.Now()
			if s.B%2 == 1 {
				w.note("the watch %s is too old", watches[s.A%len(watches)])
				return watches[s.A%len(watches)].Expire()
			}
			w.note("the watch %s ends", watches[s.A%len(watches)])
			watches[s.A%len(watches)].Break()
		}
	case OpQueue:
		w.recreateLocalQueue()
		if s.A%4 > 0 {
			if err := w.advance(s.A%4*2, rng); err != nil {
				return err
			}
			w.recreateLocalQueue()
		}
	case OpPods:
		if w.config.Pods {
			w.replacePods()
		}
		if w.config.PodsReady {
			name := fmt.Sprintf("j%d", 1+s.A%max(w.jobs, 1))
			w.judge.unready[name] = !w.judge.unready[name]
			w.note("the pods of %s are unready: %v", name, w.judge.unready[name])
		}
		w.runJobs()
	case OpReady:
		if all := w.workloads(); len(all) > 0 {
			for _, name := range checkNames {
				w.checks[name][0].read(all[s.A%len(all)].Name)
				w.checks[name][0].say(all[s.A%len(all)].Name, verdict{state: kueue.CheckStateReady}, manner(s.B)%manners)
			}
		}
	case OpLimits:
		w.changeLimits()
	case OpBusy:
		w.busy, w.busyManner = 1+s.A%16, manner(s.B)%manners
		w.note("checks answer with a Retry at once, %d times", w.busy)
	case OpPolicy:
		w.setPolicy(policyBases[s.A%len(policyBases)])
	case OpMove:
		// Not those that hold quota, which must not be moved, or are to take it over.
		all := w.workloads()
		all = slices.DeleteFunc(slices.Clone(all), func(wl *kueue.Workload) bool { return workload.HasQuotaReservation(wl) || takesOver(wl, all) })
		switch {
		case len(all) == 0:
		case s.B%2 == 1:
			w.changePriority(all[s.A%len(all)])
		case w.config.Cohort:
			w.moveJob(all[s.A%len(all)])
		}
	case OpNode:
		if w.config.Topology {
			w.switchNode([]string{"f1", "f2"}[s.A%2])
		}
	case OpWorker:
		if w.config.MultiKueue {
			w.disturb(w.workers[s.A%len(w.workers)], s.B, s.C)
		}
	case OpScale:
		w.scaleJob(fmt.Sprintf("j%d", 1+s.A%max(w.jobs, 1)), 1+int32(s.B%maxPods))
	case OpFinish:
		w.finishJob(fmt.Sprintf("j%d", 1+s.A%max(w.jobs, 1)))
	}
	return nil
}
