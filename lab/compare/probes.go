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
	"time"

	"kueue-acrequeueafter/lab/bench/result"
	"kueue-acrequeueafter/lab/objects"
)

// probe is a line of README's table.
type probe struct {
	name, about string
	// readme is what README says, by manager.
	readme map[string]string
	run    func(ctx context.Context, t *trial) (finding, error)
}

var probes = []probe{
	{
		name: "quota", about: "a check asks for a delay of 10 s: who has the quota meanwhile?",
		readme: map[string]string{
			result.Guest: "there is no delay: taken again at once",
			result.Base:  "kept until the delay is over",
			here:         "free at once",
		},
		run: probeQuota,
	},
	{
		name: "late-retry", about: "a second check asks for a delay when the quota is gone: does the job come back?",
		readme: map[string]string{
			result.Guest: "stuck for good",
			result.Base:  "stuck for good",
			here:         "waits, and comes back",
		},
		run: probeLateRetry,
	},
	{
		name: "late-rejected", about: "a second check rejects the job when the quota is gone: is it deactivated?",
		readme: map[string]string{
			result.Guest: "ignored",
			result.Base:  "ignored",
			here:         "deactivated",
		},
		run: probeLateRejected,
	},
	{
		name: "writes", about: "how often is the Workload written for one retry, until it has quota again?",
		readme: map[string]string{
			result.Guest: "4, without a delay",
			result.Base:  "6",
			here:         "3",
		},
		run: probeWrites,
	},
	{
		name: "counts", about: "what is counted after two retries, and after a success?",
		readme: map[string]string{
			result.Guest: "none",
			result.Base:  "not reset by a success",
			here:         "reset by a success",
		},
		run: probeCounts,
	},
}

// start makes the queue and a job, and waits until its checks are asked.
func (t *trial) start(ctx context.Context, job string, checks ...string) error {
	if err := t.begin(ctx, checks...); err != nil {
		return err
	}
	if err := t.MakeJob(ctx, t.namespace, job); err != nil {
		return err
	}
	if _, err := t.asks(ctx, job); err != nil {
		return err
	}
	t.say("job %s has the quota", job)
	return nil
}

func probeQuota(ctx context.Context, t *trial) (finding, error) {
	const delay = 10 * time.Second
	if err := t.start(ctx, "one", "a"); err != nil {
		return finding{}, err
	}
	said, _, err := t.answer(ctx, "one", "a", "Retry", delay)
	if err != nil {
		return finding{}, err
	}
	freed, err := t.must(ctx, "one", "without quota", free)
	if err != nil {
		return finding{}, err
	}
	t.say("the quota is free")
	again, err := t.must(ctx, "one", "reserved again", reserved)
	if err != nil {
		return finding{}, err
	}
	t.say("job one has it again")
	return quotaSeen{delay: delay, freed: freed.when.Sub(said), again: again.when.Sub(said)}.finding(), nil
}

// late makes job two take the quota when check a of job one asks for a retry. What
// check b says then is late.
func (t *trial) late(ctx context.Context) error {
	if err := t.start(ctx, "one", "a", "b"); err != nil {
		return err
	}
	if err := t.MakeJob(ctx, t.namespace, "two"); err != nil {
		return err
	}
	if _, err := t.must(ctx, "two", "there", func(version) bool { return true }); err != nil {
		return err
	}
	// An evicted job queues up with the time of its eviction, in whole seconds.
	if err := pause(ctx, 1100*time.Millisecond); err != nil {
		return err
	}
	if _, _, err := t.answer(ctx, "one", "a", "Retry", 2*time.Second); err != nil {
		return err
	}
	if _, err := t.must(ctx, "one", "without quota", free); err != nil {
		return err
	}
	if _, err := t.must(ctx, "two", "reserved", reserved); err != nil {
		return err
	}
	t.say("job two has the quota")
	return nil
}

func probeLateRetry(ctx context.Context, t *trial) (finding, error) {
	const (
		delay   = 2 * time.Second
		observe = 15 * time.Second
	)
	if err := t.late(ctx); err != nil {
		return finding{}, err
	}
	said, _, err := t.answer(ctx, "one", "b", "Retry", delay)
	if err != nil {
		return finding{}, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return finding{}, err
	}
	gone, err := t.remove(ctx, "two")
	if err != nil {
		return finding{}, err
	}
	t.say("job two is deleted")
	// The delay counts from the check's transition time, which is in whole seconds.
	seen := lateRetrySeen{observed: observe, deadline: said.Truncate(time.Second).Add(delay), free: gone.when}
	back, err := t.await(ctx, "one", observe, reserved)
	if err != nil {
		return finding{}, err
	}
	if back == nil {
		t.say("job one is not back after %.0f s", observe.Seconds())
		if _, _, err := t.answer(ctx, "one", "b", "Pending", 0); err != nil {
			return finding{}, err
		}
		seen.observed += observe
		seen.withdrawn = true
		if back, err = t.await(ctx, "one", observe, reserved); err != nil {
			return finding{}, err
		}
	}
	if back != nil {
		seen.back = back.when
		seen.counts = t.counts(*back, "a", "b")
		return seen.finding(), nil
	}
	// It is not for want of quota.
	if err := t.MakeJob(ctx, t.namespace, "three"); err != nil {
		return finding{}, err
	}
	if _, err := t.must(ctx, "three", "reserved", reserved); err != nil {
		return finding{}, err
	}
	t.say("a new job three has the quota at once")
	return seen.finding(), nil
}

func probeLateRejected(ctx context.Context, t *trial) (finding, error) {
	const observe = 10 * time.Second
	if err := t.late(ctx); err != nil {
		return finding{}, err
	}
	said, _, err := t.answer(ctx, "one", "b", "Rejected", 0)
	if err != nil {
		return finding{}, err
	}
	off, err := t.await(ctx, "one", observe, inactive)
	if err != nil || off == nil {
		return lateRejectedSeen{observed: observe}.finding(), err
	}
	return lateRejectedSeen{off: true, after: off.when.Sub(said)}.finding(), nil
}

func probeWrites(ctx context.Context, t *trial) (finding, error) {
	const delay = 5 * time.Second
	if err := t.start(ctx, "one", "a"); err != nil {
		return finding{}, err
	}
	said, made, err := t.answer(ctx, "one", "a", "Retry", delay)
	if err != nil {
		return finding{}, err
	}
	if _, err := t.must(ctx, "one", "without quota", free); err != nil {
		return finding{}, err
	}
	again, err := t.must(ctx, "one", "reserved again", reserved)
	if err != nil {
		return finding{}, err
	}
	var all []string
	for _, v := range t.versions("one") {
		all = append(all, v.GetResourceVersion())
	}
	return writesSeen{delay: delay, writes: between(all, made, again.GetResourceVersion()), again: again.when.Sub(said)}.finding(), nil
}

func probeCounts(ctx context.Context, t *trial) (finding, error) {
	const delay = 2 * time.Second
	var seen countsSeen
	if err := t.start(ctx, "one", "a"); err != nil {
		return finding{}, err
	}
	for range 2 {
		if _, _, err := t.answer(ctx, "one", "a", "Retry", delay); err != nil {
			return finding{}, err
		}
		if _, err := t.must(ctx, "one", "without quota", free); err != nil {
			return finding{}, err
		}
		v, err := t.asks(ctx, "one")
		if err != nil {
			return finding{}, err
		}
		seen.retried = t.counts(v, "a")[0]
		t.say("job one has the quota again")
	}
	if _, _, err := t.answer(ctx, "one", "a", "Ready", 0); err != nil {
		return finding{}, err
	}
	if _, err := t.must(ctx, "one", "admitted", admitted); err != nil {
		return finding{}, err
	}
	t.say("job one is admitted")
	// The reset may come after the admission.
	last, err := t.quiet(ctx, "one")
	if err != nil {
		return finding{}, err
	}
	seen.succeeded = t.counts(last, "a")[0]
	return seen.finding(), nil
}

// counts returns the retryCount of the checks, in their order.
func (t *trial) counts(v version, checks ...string) []count {
	var counts []count
	for _, check := range checks {
		fields := objects.Checks(v.Unstructured)[t.check(check)]
		n, counted := fields["retryCount"].(int64)
		delay, _ := fields["requeueAfterSeconds"].(int64)
		counts = append(counts, count{retries: n, counted: counted, delay: delay})
	}
	return counts
}
