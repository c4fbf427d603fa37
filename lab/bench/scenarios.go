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
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kueue-acrequeueafter/lab/bench/result"
	"kueue-acrequeueafter/lab/objects"
)

const (
	check  = "check-"  // of most jobs, before the namespace
	faster = "faster-" // the two of scenario Two
	slower = "slower-"
	other  = "other" // the queue of unrelated jobs

	busyFor   = 2 * time.Minute
	busyDelay = 10 * time.Second
	// policyDelay is that of a check that asks for none.
	policyDelay = 30 * time.Second
	// wait is the delay of the others, from when the last eviction should be through.
	wait = 6 * time.Second
	// observe is how long waiting workloads are measured.
	observe = 30 * time.Second
	// probes before a burst, and the time between two of them.
	probes   = 5
	interval = time.Second
	// restarts of a manager, for an error bar.
	restarts = 3
	// tenThousand workloads, and more, have their deadlines apart in a longer time, and
	// one round. They never ask for their reservations all at once: that is more than
	// the API server of a small machine can do before the requests time out.
	tenThousand = 10_000
)

// series is the scenarios with one build and one number of workloads.
type series struct {
	*world
	*meter
	*manager
	build, namespace string
	n, round, probed int
	bare, limitBare  time.Duration // of the last round of writeBare
	creation         time.Duration // until all that create made had their reservations
	profiles         string        // directory for CPU profiles, or empty
	settings         result.Settings
	say              func(format string, args ...any)
	done             func(result.Result) error
}

// run runs the scenarios, all but the last two with the same jobs. Of several
// numbers of workloads the first is for what the number does not change, and the last
// for what it does.
func (s *series) run(ctx context.Context, o options, first, last bool) error {
	s.namespace = fmt.Sprintf("jobs-%d", s.n)
	if err := s.MakeQueue(ctx, s.namespace, s.n, check+s.namespace); err != nil {
		return err
	}
	begin, storms := s.fresh, last
	if s.n >= tenThousand {
		begin, storms = s.create, false
	}
	if err := begin(ctx); err != nil {
		return err
	}
	ours := result.IsOurs(s.build)
	for _, scenario := range o.scenarios {
		var err error
		s.round = 1
		switch {
		case scenario == result.Busy && storms:
			err = s.busy(ctx)
		case scenario == result.Bare && storms:
			for ; s.round <= max(o.rounds, 1) && err == nil; s.round++ {
				err = s.bareRetries(ctx, scenario)
			}
		case scenario == result.Policy && storms && ours:
			err = s.bareRetries(ctx, scenario)
		case !s.delays:
		case scenario == result.Herd:
			rounds := 1
			if (last || !first) && ours && s.n < tenThousand {
				rounds = max(o.rounds, 1)
			}
			err = s.herd(ctx, rounds)
		case scenario == result.Spread && (first || s.n >= tenThousand):
			over := max(time.Minute, time.Duration(s.n)*30*time.Millisecond)
			err = s.delayed(ctx, scenario, wait, func(i int) time.Duration {
				return wait + (over * time.Duration(i) / time.Duration(s.n)).Truncate(time.Second)
			})
		case scenario == result.Waiting && ours && last && s.n < tenThousand:
			err = s.waiting(ctx)
		case scenario == result.Restart && ours:
			err = s.restart(ctx)
		case scenario == result.Jitter && ours && storms:
			err = s.jitter(ctx)
		case scenario == result.Created && (first || ours):
			err = s.created(ctx)
		case scenario == result.Two && first:
			if !slices.Contains(o.scenarios, result.Created) {
				err = s.created(ctx)
			}
			if err == nil {
				err = s.two(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", scenario, err)
		}
	}
	return nil
}

// measure runs do between begin and end, and hands the result on.
func (s *series) measure(ctx context.Context, scenario string, do func(r *result.Result) error) error {
	r, err := s.measured(ctx, scenario, do)
	if err != nil {
		return err
	}
	return s.done(r)
}

// measured runs do between begin and end, and returns the result.
func (s *series) measured(ctx context.Context, scenario string, do func(r *result.Result) error) (result.Result, error) {
	r := result.Result{Date: time.Now().UTC().Truncate(time.Second), Build: s.build, Scenario: scenario, Workloads: s.n, Round: max(s.round, 1)}
	if err := s.quiet(ctx); err != nil {
		return r, err
	}
	before := s.sum()
	s.say("%s, %s, %d workloads: begins", s.build, scenario, s.n)
	if err := s.begin(ctx); err != nil {
		return r, err
	}
	if err := do(&r); err != nil {
		return r, err
	}
	if err := s.end(ctx, &r); err != nil {
		return r, err
	}
	after := s.sum()
	r.Reservations, r.Evictions = after.reservations-before.reservations, after.evictions-before.evictions
	r.Answers, r.Early = after.answers-before.answers, after.early-before.early
	line := fmt.Sprintf("%s, %s, %d workloads: %.0f s, %.2f writes and %.2f evictions each", s.build, scenario, s.n, r.Seconds,
		float64(r.Writes(""))/float64(s.n), float64(r.Evictions)/float64(s.n))
	if r.Reserved != nil {
		line += fmt.Sprintf(", reserved p50 %.2f s, last %.2f s", r.Reserved.P(50), r.Reserved.P(100))
	}
	if r.Requeued != nil {
		line += fmt.Sprintf(", requeued last %.2f s", r.Requeued.P(100))
	}
	if r.Stuck != nil {
		line += fmt.Sprintf(", stuck %d", *r.Stuck)
	}
	s.say("%s, early %d", line, r.Early)
	return r, nil
}

// sum adds up what was counted of the workloads of the series.
func (s *series) sum() (sum workload) {
	s.count(s.namespace, func(w *workload) bool {
		sum.reservations += w.reservations
		sum.evictions += w.evictions
		sum.answers += w.answers
		sum.early += w.early
		return true
	})
	return sum
}

// samples returns the times of the workloads for which it is known.
func (s *series) samples(of func(w *workload) (time.Duration, bool)) *result.Distribution {
	var all []float64
	s.count(s.namespace, func(w *workload) bool {
		if d, known := of(w); known {
			all = append(all, d.Seconds())
		}
		return true
	})
	return result.NewDistribution(all)
}

func reserved(w *workload) bool { return w.reserved && !w.evicted }
func waits(w *workload) bool    { return w.evicted && !w.reserved }
func retried(w *workload) bool  { return w.asked > 0 && !w.again.IsZero() }

// fresh makes the jobs while their queue is held, and measures how long the
// scheduler takes for their first reservations.
func (s *series) fresh(ctx context.Context) error {
	s.say("%s: making %d jobs", s.build, s.n)
	if err := s.makeJobs(ctx, s.namespace, s.n); err != nil {
		return err
	}
	if err := s.expect(ctx, "made for their jobs", s.limit(), func(*workload) bool { return true }); err != nil {
		return err
	}
	return s.measure(ctx, result.Fresh, func(r *result.Result) error {
		start := time.Now()
		if err := s.Stop(ctx, s.namespace, "None"); err != nil {
			return err
		}
		err := s.expect(ctx, "reserved", s.limit(), reserved)
		r.Reserved = s.samples(func(w *workload) (time.Duration, bool) { return w.since.Sub(start), w.reserved })
		return err
	})
}

// common is a moment after which the evictions should be through. The answers
// carry it as their transition time, as those of a check do whose clock is ahead:
// so the deadlines do not depend on how long an eviction takes. One that comes
// later moves its deadline, as requeueAt tells. On a slow machine they take as long as
// the first reservations did.
func (s *series) common() time.Time {
	return time.Now().Add(3*time.Second + max(s.creation, time.Duration(s.n)*20*time.Millisecond)).Truncate(time.Second)
}

// herd has all workloads wait until the same second. To compare with ours, a bare
// client makes as many writes before each round, when there is nothing else to do;
// but not ten thousand, which take longer than the herd, and say no more.
func (s *series) herd(ctx context.Context, rounds int) error {
	if !result.IsOurs(s.build) || s.n >= tenThousand {
		return s.delayed(ctx, result.Herd, wait, together)
	}
	if err := s.makeBare(ctx); err != nil {
		return err
	}
	for ; s.round <= rounds; s.round++ {
		if err := s.writeBare(ctx); err != nil {
			return err
		}
		if err := s.delayed(ctx, result.Herd, wait, together); err != nil {
			return err
		}
	}
	return s.deleteBare(ctx)
}

// together is the delay of workloads with one deadline.
func together(int) time.Duration { return wait }

// delayed has all workloads wait for a delay that depends on their order, the first of
// them for a time, and be reserved again. Unrelated jobs come meanwhile.
func (s *series) delayed(ctx context.Context, scenario string, shortest time.Duration, delay func(i int) time.Duration) error {
	var idle *result.Distribution
	if scenario == result.Herd {
		idle = s.probe(ctx, probes)
	}
	return s.measure(ctx, scenario, func(r *result.Result) error {
		from, order := s.common(), 0
		s.retryOnce(scenario, func() answer {
			order++
			return answer{state: "Retry", from: from, delay: delay(order - 1)}
		})
		first := from.Add(shortest)
		if err := sleepUntil(ctx, first.Add(-time.Second)); err != nil {
			return err
		}
		stop := s.record(ctx, scenario)
		burst := s.probeUntil(ctx, func() bool {
			return s.count(s.namespace, retried) == s.n || time.Since(first) > 2*time.Minute+time.Duration(s.n)*150*time.Millisecond
		})
		stop()
		if context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		stuck := s.n - s.count(s.namespace, retried)
		r.Stuck = &stuck
		if scenario == result.Herd {
			r.Unrelated, r.UnrelatedIdle, r.BareClient, r.ServerLimit = burst, idle, seconds(s.bare), seconds(s.limitBare)
		}
		s.times(r)
		return nil
	})
}

// times takes the times of the last delay.
func (s *series) times(r *result.Result) {
	r.Held = s.samples(func(w *workload) (time.Duration, bool) {
		return w.freed.Sub(w.sent), !w.freed.IsZero() && !w.sent.IsZero()
	})
	r.Requeued = s.samples(func(w *workload) (time.Duration, bool) { return w.back.Sub(w.deadline), !w.back.IsZero() })
	r.Reserved = s.samples(func(w *workload) (time.Duration, bool) { return w.again.Sub(w.deadline), retried(w) })
}

// retryOnce has the check answer once in this round of the scenario, and not again
// when the workload is back.
func (s *series) retryOnce(scenario string, retry func() answer) {
	round := fmt.Sprint(scenario, s.round)
	s.play(s.namespace, func(w *workload, _ string, _ time.Time) *answer {
		if w.retriedIn == round {
			return nil
		}
		w.retriedIn = round
		a := retry()
		return &a
	})
}

// expect waits until all workloads are so, and returns an error that says so if
// they are not when the time is up.
func (s *series) expect(ctx context.Context, so string, timeout time.Duration, is func(*workload) bool) error {
	missing, err := s.await(ctx, s.namespace, s.n, timeout, is)
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d of %d workloads are not %s", missing, s.n, so)
	}
	return err
}

// waiting measures workloads that wait, and nothing else.
func (s *series) waiting(ctx context.Context) error {
	from, delay := s.common(), observe+12*time.Second+time.Duration(s.n)*10*time.Millisecond
	s.retryOnce(result.Waiting, func() answer { return answer{state: "Retry", from: from, delay: delay} })
	if err := s.expect(ctx, "waiting", s.limit(), waits); err != nil {
		return err
	}
	if err := s.observeWaiting(ctx, from.Add(delay)); err != nil {
		return err
	}
	return s.expect(ctx, "reserved again", time.Until(from.Add(delay))+s.limit(), retried)
}

// observeWaiting looks at workloads that wait until then.
func (s *series) observeWaiting(ctx context.Context, until time.Time) error {
	return s.measure(ctx, result.Waiting, func(*result.Result) error {
		end := time.Now().Add(observe)
		if end.After(until) {
			return fmt.Errorf("the evictions took so long that the delay would be over %s before the end", end.Sub(until).Round(time.Second))
		}
		return sleepUntil(ctx, end)
	})
}

// restart has new managers meet workloads that wait; and then, to compare, the same
// ones when they are requeued and pending, in a queue that is held. Ten thousand, which
// take long to evict, are observed before, and wait only once.
func (s *series) restart(ctx context.Context) error {
	from, delay := s.common(), (observe + restarts*20*time.Second + time.Duration(s.n)*20*time.Millisecond).Truncate(time.Second)
	s.retryOnce(result.Restart, func() answer { return answer{state: "Retry", from: from, delay: delay} })
	if err := s.expect(ctx, "waiting", s.limit(), waits); err != nil {
		return err
	}
	if s.n >= tenThousand {
		if err := s.observeWaiting(ctx, from.Add(delay)); err != nil {
			return err
		}
	}
	var measured []result.Result
	round := *s
	for round.round = 1; round.round <= restarts; round.round++ {
		if time.Now().After(from.Add(delay)) {
			return fmt.Errorf("before restart %d the delay of %s was over", round.round, delay)
		}
		r, err := round.measured(ctx, result.Restart, func(r *result.Result) (err error) {
			if r.Known, err = s.renew(ctx, func(c counted) bool { return c.waiting == s.n }); err != nil {
				return err
			}
			return s.quiet(ctx)
		})
		if err != nil {
			return err
		}
		measured = append(measured, r)
	}
	if time.Now().After(from.Add(delay)) {
		return fmt.Errorf("%d restarts took longer than the delay of %s", restarts, delay)
	}

	if err := s.Stop(ctx, s.namespace, "Hold"); err != nil {
		return err
	}
	err := s.expect(ctx, "requeued", time.Until(from.Add(delay))+s.limit(), func(w *workload) bool { return !w.back.IsZero() })
	if err != nil {
		return err
	}
	s.times(&measured[restarts-1])
	for _, r := range measured {
		if err := s.quiet(ctx); err != nil {
			return err
		}
		if r.KnownPending, err = s.renew(ctx, func(c counted) bool { return c.pending == s.n }); err != nil {
			return err
		}
		if err := s.quiet(ctx); err != nil {
			return err
		}
		if r.HeapPending, err = s.heap(ctx); err != nil {
			return err
		}
		s.say("%s, %s, %d workloads: known after %.2f s, pending after %.2f s; heap %.1f and %.1f MiB", s.build, result.Restart, s.n,
			r.Known, r.KnownPending, float64(r.Heap)/(1<<20), float64(r.HeapPending)/(1<<20))
		if err := s.done(r); err != nil {
			return err
		}
	}
	if s.n >= tenThousand {
		return nil // nothing comes after it
	}
	if err := s.Stop(ctx, s.namespace, "None"); err != nil {
		return err
	}
	return s.expect(ctx, "reserved again", s.limit(), reserved)
}

// renew starts a new manager, and returns how many seconds it takes from then until it
// has looked at all workloads and its metrics count them as they should.
func (s *series) renew(ctx context.Context, known func(counted) bool) (float64, error) {
	start, err := s.manager.restart(ctx)
	if err != nil {
		return 0, err
	}
	s.meter.renewed()
	for limit := time.Now().Add(s.limit()); ; {
		c, err := s.counted(ctx, s.namespace)
		if err != nil {
			return 0, err
		}
		if known(c) && c.reconciled >= s.n {
			return seconds(time.Since(start)), nil
		}
		if time.Now().After(limit) {
			return 0, fmt.Errorf("%d workloads, of which a new manager has looked at %d, and counts %d as waiting, %d as pending", s.n, c.reconciled, c.waiting, c.pending)
		}
		// To count those that wait takes a scrape milliseconds for each thousand.
		if err := sleepUntil(ctx, time.Now().Add(max(50*time.Millisecond, time.Duration(s.n)*50*time.Microsecond))); err != nil {
			return 0, err
		}
	}
}

// setPolicy sets spec.retry of the check of the series.
func (s *series) setPolicy(ctx context.Context, policy string) error {
	ac := s.Object("AdmissionCheck", "", check+s.namespace)
	return s.Patch(ctx, ac, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"retry": `+policy+`}}`)))
}

// bareRetries has the check say Retry for two minutes, each time it is asked, and
// nothing else, as most controllers do. With a policy Kueue delays each of them. The
// manager is a new one, so that its memory is that of this scenario.
func (s *series) bareRetries(ctx context.Context, scenario string) error {
	if scenario == result.Policy {
		policy := fmt.Sprintf(`{"strategy": "Static", "baseDelaySeconds": %d}`, policyDelay/time.Second)
		if err := s.setPolicy(ctx, policy); err != nil {
			return err
		}
	}
	if _, err := s.manager.restart(ctx); err != nil {
		return err
	}
	var stop func()
	measured, err := s.measured(ctx, scenario, func(*result.Result) error {
		end := time.Now().Add(busyFor)
		s.play(s.namespace, func(_ *workload, _ string, now time.Time) *answer {
			if now.After(end) {
				return nil
			}
			return &answer{state: "Retry", from: now}
		})
		stop = s.record(ctx, scenario)
		return sleepUntil(ctx, end)
	})
	if err != nil {
		return err
	}
	if err := s.expect(ctx, "reserved again", s.limit()+policyDelay, reserved); err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	if measured.HeapAtRest, err = s.heap(ctx); err != nil {
		return err
	}
	stop()
	if scenario == result.Policy {
		if err := s.setPolicy(ctx, "null"); err != nil {
			return err
		}
	}
	s.say("%s, %s, %d workloads: heap %.1f MiB at the end, %.1f at rest", s.build, scenario, s.n, float64(measured.Heap)/(1<<20), float64(measured.HeapAtRest)/(1<<20))
	return s.done(measured)
}

// jitter has all workloads wait for a policy's delay and its jitter.
func (s *series) jitter(ctx context.Context) error {
	policy := fmt.Sprintf(`{"strategy": "Static", "baseDelaySeconds": %d, "jitter": "1"}`, policyDelay/time.Second)
	if err := s.setPolicy(ctx, policy); err != nil {
		return err
	}
	if err := s.delayed(ctx, result.Jitter, policyDelay, func(int) time.Duration { return 0 }); err != nil {
		return err
	}
	return s.setPolicy(ctx, "null")
}

// busy has the check say Retry for two minutes, each time it is asked, which is
// measured; and then Ready: all jobs start in the end, which is waited for with our
// builds alone.
func (s *series) busy(ctx context.Context) error {
	if _, err := s.manager.restart(ctx); err != nil {
		return err
	}
	before := s.sum().early
	measured, err := s.measured(ctx, result.Busy, func(*result.Result) error {
		end := time.Now().Add(busyFor)
		s.play(s.namespace, func(_ *workload, _ string, now time.Time) *answer {
			if now.After(end) {
				return &answer{state: "Ready", from: now}
			}
			return &answer{state: "Retry", from: now, delay: busyDelay}
		})
		return sleepUntil(ctx, end)
	})
	if err != nil {
		return err
	}
	if result.IsOurs(s.build) {
		stuck, err := s.await(ctx, s.namespace, s.n, s.limit(), func(w *workload) bool { return w.admitted })
		if err != nil {
			return err
		}
		s.say("%s, %s, %d workloads: stuck %d", s.build, result.Busy, s.n, stuck)
		measured.Stuck, measured.Early = &stuck, s.sum().early-before
	}
	return s.done(measured)
}

// created makes jobs more, with two checks, while their queue runs.
func (s *series) created(ctx context.Context) error {
	s.namespace = fmt.Sprintf("two-%d", s.n)
	if err := s.MakeQueue(ctx, s.namespace, s.n, faster+s.namespace, slower+s.namespace); err != nil {
		return err
	}
	return s.create(ctx)
}

// create makes the jobs while their queue runs, and measures how long it takes until
// all have their reservations.
func (s *series) create(ctx context.Context) error {
	if err := s.Stop(ctx, s.namespace, "None"); err != nil {
		return err
	}
	return s.measure(ctx, result.Created, func(r *result.Result) error {
		start := time.Now()
		if err := s.makeJobs(ctx, s.namespace, s.n); err != nil {
			return err
		}
		err := s.expect(ctx, "reserved", s.limit(), reserved)
		s.creation = time.Since(start)
		r.Reserved = s.samples(func(w *workload) (time.Duration, bool) { return w.since.Sub(start), w.reserved })
		return err
	})
}

// limit is how long to wait for what all jobs should have reached.
func (s *series) limit() time.Duration {
	return time.Minute + time.Duration(s.n)*200*time.Millisecond
}

// two has one check ask for 5 s at once, and the other one 3 s later for 10 s.
// The jobs are those of created.
func (s *series) two(ctx context.Context) error {
	return s.measure(ctx, result.Two, func(r *result.Result) error {
		start := time.Now()
		s.play(s.namespace, func(w *workload, check string, _ time.Time) *answer {
			if w.reservations > 1 {
				return nil
			}
			if check == faster+s.namespace {
				return &answer{state: "Retry", from: start, delay: 5*time.Second + s.patience()}
			}
			return &answer{state: "Retry", from: start.Add(3 * time.Second), delay: 10*time.Second + s.patience(), after: 3 * time.Second}
		})
		limit := 25*time.Second + s.patience() + time.Duration(s.n)*60*time.Millisecond
		if _, err := s.await(ctx, s.namespace, s.n, limit, retried); err != nil {
			return err
		}
		stuck := s.n - s.count(s.namespace, retried)
		r.Stuck = &stuck
		s.times(r)
		return nil
	})
}

// patience lengthens delays with the number of workloads, so that the second
// check can speak before the first delay is over.
func (s *series) patience() time.Duration {
	return (time.Duration(s.n) * 20 * time.Millisecond).Truncate(time.Second)
}

// probe starts unrelated jobs one after the other, and returns how long each took
// to be admitted.
func (s *series) probe(ctx context.Context, n int) *result.Distribution {
	return s.probeUntil(ctx, func() bool { n--; return n < 0 })
}

func (s *series) probeUntil(ctx context.Context, done func() bool) *result.Distribution {
	made := map[string]time.Time{}
	for !done() && ctx.Err() == nil {
		s.probed++
		name := fmt.Sprintf("probe-%d-%05d", s.n, s.probed)
		made[name] = time.Now()
		if err := s.MakeJob(ctx, other, name); err != nil {
			s.failed(err)
			return nil
		}
		_ = sleepUntil(ctx, time.Now().Add(interval))
	}
	var all []float64
	_, err := s.await(ctx, other, len(made), time.Minute, func(w *workload) bool {
		_, mine := made[w.job]
		return mine && w.admitted
	})
	if err != nil {
		return nil
	}
	s.count(other, func(w *workload) bool {
		if start, mine := made[w.job]; mine && w.admitted {
			all = append(all, w.since.Sub(start).Seconds())
		}
		return true
	})
	return result.NewDistribution(all)
}

const bareManifest = `
spec:
  queueName: none
  podSets:
  - name: main
    count: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: main, image: none, resources: {requests: {cpu: 1}}}
`

// bareObject is a workload of no ClusterQueue, so that the manager lets it be.
func (s *series) bareObject(i int) *unstructured.Unstructured {
	return s.Object("Workload", fmt.Sprintf("bare-%d", s.n), fmt.Sprintf("bare-%05d", i))
}

func (s *series) makeBare(ctx context.Context) error {
	ns := &corev1.Namespace{}
	ns.Name = s.bareObject(0).GetNamespace()
	if err := s.Create(ctx, ns); err != nil {
		return err
	}
	return each(ctx, senders, s.n, func(i int) error { return s.Make(ctx, s.bareObject(i), bareManifest) })
}

func (s *series) deleteBare(ctx context.Context) error {
	return each(ctx, senders, s.n, func(i int) error { return s.Delete(ctx, s.bareObject(i)) })
}

// writeBare measures how long a client without a queue needs for n status writes like
// those that end a delay: with as many workers and the same limits as the manager, and
// with many workers and no limit but that of the API server.
func (s *series) writeBare(ctx context.Context) error {
	for _, client := range []struct {
		took         *time.Duration
		workers, qps int
	}{{&s.limitBare, senders, -1}, {&s.bare, s.settings.Workers, s.settings.QPS}} {
		if err := s.quiet(ctx); err != nil {
			return err
		}
		start := time.Now()
		if err := s.patchBare(ctx, client.workers, client.qps); err != nil {
			return err
		}
		*client.took = time.Since(start)
	}
	return nil
}

func (s *series) patchBare(ctx context.Context, workers, qps int) error {
	config := rest.CopyConfig(s.config)
	config.QPS, config.Burst = float32(qps), 2*qps
	bare, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(name, status, reason string) map[string]any {
		return map[string]any{"type": name, "status": status, "reason": reason, "lastTransitionTime": now,
			"message": "Admission check check asked for a retry, which has begun"}
	}
	return each(ctx, workers, s.n, func(i int) error {
		obj := s.bareObject(i)
		obj.Object["status"] = map[string]any{
			"admissionChecks": []any{map[string]any{"name": check + s.namespace, "state": "Pending", "message": "Reset to Pending", "lastTransitionTime": now, "retryCount": int64(1)}},
			"conditions": []any{
				condition("Evicted", "True", "AdmissionCheck"), condition("QuotaReserved", "False", "Pending"), condition("Requeued", "True", "BackoffFinished"),
			},
		}
		return objects.ApplyStatus(ctx, bare, obj, "bench")
	})
}

// record takes CPU profiles of the manager and of the API server, if profiles were
// asked for, and what the manager has allocated when stop is called.
func (s *series) record(ctx context.Context, scenario string) (stop func()) {
	if s.profiles == "" {
		return func() {}
	}
	var group sync.WaitGroup
	take := func(process, kind string, read func(context.Context, string) ([]byte, error)) {
		data, err := read(ctx, kind)
		if err == nil {
			kind, _, _ = strings.Cut(kind, "?")
			err = os.WriteFile(filepath.Join(s.profiles, fmt.Sprintf("%s-%s-%d-%d-%s-%s.pprof", s.build, scenario, s.n, s.round, process, kind)), data, 0o644)
		}
		if err != nil && ctx.Err() == nil {
			s.failed(err)
		}
	}
	cpu := fmt.Sprintf("profile?seconds=%d", 5+s.n/100)
	group.Go(func() { take("manager", cpu, s.profile) })
	group.Go(func() { take("apiserver", cpu, s.serverProfile) })
	return func() {
		group.Wait()
		take("manager", "heap", s.profile)
	}
}

// serverProfile reads a profile of net/http/pprof from the API server.
func (s *series) serverProfile(ctx context.Context, name string) ([]byte, error) {
	c, err := rest.HTTPClientFor(s.config)
	if err != nil {
		return nil, err
	}
	return get(ctx, c, strings.TrimSuffix(s.config.Host, "/")+"/debug/pprof/"+name)
}

func sleepUntil(ctx context.Context, t time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(t)):
		return nil
	}
}
