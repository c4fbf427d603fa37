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

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/objects"
)

// play runs the parts one after the other.
func (r *run) play(ctx context.Context) error {
	if err := r.ask(ctx, kueue.CheckStateRetry); err != nil {
		return err
	}
	r.say("starting the controller")
	if err := r.startController(); err != nil {
		return err
	}
	if active, err := r.becomesActive(ctx); err != nil || !active {
		return err
	}
	for _, part := range []struct {
		name string
		play func(context.Context) error
	}{
		{"rounds", r.rounds},
		{"stopping", r.stopping},
		{"refused", r.refused},
		{"other", r.otherSpeaks},
		{"requeued", r.requeued},
		{"inactive", r.inactive},
		{"removed", r.removed},
		{"deleted", r.deleted},
		{"restart", r.restart},
	} {
		if err := part.play(ctx); err != nil && !errors.Is(err, errCut) {
			return fmt.Errorf("part %s: %w", part.name, err)
		} else if err != nil && part.name == "rounds" && !r.answersAtAll() {
			if r.Options.Job == "" {
				r.note("If the controller answers certain jobs only, give it one with -job.")
			}
			return nil
		}
		select {
		case <-r.controller.Exited():
			r.note("The controller ended by itself. %s", r.controller.Tail(10))
			if err := r.startController(); err != nil {
				return err
			}
		default:
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// becomesActive waits for the condition of the check. That a program does not stay
// is no fault of a rule, but an error.
func (r *run) becomesActive(ctx context.Context) (bool, error) {
	active := func() bool {
		check := &kueue.AdmissionCheck{}
		err := r.client.Get(ctx, types.NamespacedName{Name: r.Check}, check)
		return err == nil && apimeta.IsStatusConditionTrue(check.Status.Conditions, kueue.AdmissionCheckActive)
	}
	start := time.Now()
	for !active() && time.Since(start) < r.AnswerWithin && sleep(ctx, 100*time.Millisecond) == nil {
		if err := r.stays(0); err != nil {
			return false, err
		}
	}
	if err := r.stays(r.Settle); err != nil {
		return false, err
	}
	met := active()
	r.expected(RuleActive, "", "set the condition Active of its AdmissionCheck", met, time.Since(start))
	if refusal := r.proxy.refusedCheck.Load(); !met && refusal != nil {
		r.note("The API server refused its request to the AdmissionCheck: %s.", *refusal)
	}
	return met, nil
}

// stays returns an error with the program's own words if it ends within the time.
func (r *run) stays(limit time.Duration) error {
	select {
	case <-r.controller.Exited():
	case <-time.After(limit):
	}
	select {
	case <-r.controller.Exited():
		return fmt.Errorf("the controller could not be started: its command ended at once (%s); %s", r.controller.Outcome(), r.controller.Tail(10))
	default:
		return nil
	}
}

func (r *run) answersAtAll() bool {
	return r.wait(context.Background(), 0, func(record *Record) bool {
		for workload, versions := range record.Versions {
			for i := range versions {
				if record.answers(workload, i) {
					return true
				}
			}
		}
		return false
	})
}

// rounds leads a workload through two retries to its end, and has another one
// wait for quota all the time.
func (r *run) rounds(ctx context.Context) error {
	r.say("a workload in the queue; another one gets quota")
	large, err := r.submit(ctx, "no-quota", "1000")
	if err != nil {
		return err
	}
	defer large.remove(ctx)
	// A second time, for hooks with a time in them.
	if err := r.ask(ctx, kueue.CheckStateRetry); err != nil {
		return err
	}
	t, err := r.submit(ctx, "rounds", "1")
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	r.try(RuleRefused)
	answer, err := t.answer(ctx, RuleAnswers)
	if err != nil {
		return err
	}
	r.try(RuleQuota)
	if answer.State == kueue.CheckStateRetry {
		if err := r.retries(ctx, t, large, answer); err != nil {
			return err
		}
		if answer, err = t.answer(ctx, RuleAnswers); err != nil {
			return err
		}
	} else {
		r.note("The controller answered %s to its first question, not Retry, so what follows a Retry was not tried. Say with -retry (RETRY of make) how it is brought to say Retry.", answer.State)
		r.untried("the controller never said Retry.", RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount)
		t.poke(ctx, 2, large)
	}
	if answer, err = t.afterPending(ctx, answer); err != nil {
		return err
	}
	if answer.State != kueue.CheckStateReady {
		r.note("The controller was not seen to answer Ready, so a finished workload was not tried. Say with -ready (READY of make) how it is brought to say Ready.")
		return nil
	}

	r.say("Ready; the workload is admitted and finishes")
	if err := r.otherSays(ctx, t, kueue.CheckStateReady, nil); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "admit it", isTrue(kueue.WorkloadAdmitted)); err != nil {
		return err
	}
	if err := t.finish(ctx); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "see it finish", isTrue(kueue.WorkloadFinished)); err != nil {
		return err
	}
	t.poke(ctx, 2)
	return nil
}

// afterPending has a controller that keeps the workload Pending say Ready, if it can be
// brought to.
func (t *trial) afterPending(ctx context.Context, answer *kueue.AdmissionCheckState) (*kueue.AdmissionCheckState, error) {
	if answer.State != kueue.CheckStatePending || t.Ready.empty() {
		return answer, nil
	}
	t.say("Pending, %q; the workload keeps its quota", answer.Message)
	if err := t.ask(ctx, kueue.CheckStateReady); err != nil {
		return nil, err
	}
	if err := t.expect(ctx, RuleAnswers, "end its Pending", func(wl *kueue.Workload) bool {
		own := entry(wl, t.Check)
		return own != nil && own.State != kueue.CheckStatePending
	}); err != nil {
		return nil, err
	}
	return t.own(), nil
}

// stopping evicts an admitted workload whose job goes on for a while. Until it has stopped,
// the quota is in use.
func (r *run) stopping(ctx context.Context) error {
	if err := r.ask(ctx, kueue.CheckStateReady); err != nil {
		return err
	}
	t, err := r.submit(ctx, "stopping", "1")
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	answer, err := t.answer(ctx, RuleAnswers)
	if err != nil {
		return err
	}
	if answer, err = t.afterPending(ctx, answer); err != nil {
		return err
	}
	if answer.State != kueue.CheckStateReady {
		r.note("The controller answered %s, not Ready, so no admitted workload was evicted. Say with -ready (READY of make) how it is brought to say Ready.", answer.State)
		return nil
	}
	r.say("an admitted workload is evicted, and its job stops slowly")
	if err := r.otherSays(ctx, t, kueue.CheckStateReady, nil); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "admit it", isTrue(kueue.WorkloadAdmitted)); err != nil {
		return err
	}
	if err := t.setPods(ctx, 1); err != nil {
		return err
	}
	if err := r.otherSays(ctx, t, kueue.CheckStateRetry, ptr.To[int32](1)); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "evict it", isTrue(kueue.WorkloadEvicted)); err != nil {
		return err
	}
	r.try(RuleKueueStatus)
	t.poke(ctx, 2)
	r.say("its job has stopped")
	if err := t.setPods(ctx, 0); err != nil {
		return err
	}
	return t.until(ctx, patience, "requeue it", r.isRequeued)
}

// retries leads a workload that got a Retry to the reservation after the second
// one.
func (r *run) retries(ctx context.Context, t, large *trial, answer *kueue.AdmissionCheckState) error {
	if err := r.openQueue(ctx, false); err != nil {
		return err
	}
	delay, err := t.evicted(ctx)
	if err != nil {
		return err
	}
	if delay == 0 && t.sentDelay() {
		r.note("The Retry has no delay any more: the controller sent one, and it was removed again, as a field is that another write of the same field manager leaves out.")
		r.untried("the Retry lost its delay, so nothing ever waits.", RuleEvicted, RuleTakesBack)
	} else if delay == 0 {
		r.note("The Retry asks for no delay, and its AdmissionCheck has no policy: Kueue tries the workload again at once, over and over. Set requeueAfterSeconds, or put a policy, spec.retry, into the manifests.")
		r.untried("the Retry asks for no delay, so nothing ever waits.", RuleEvicted, RuleTakesBack)
	} else {
		r.untried(fmt.Sprintf("the delay, %s, is too short to look on; 4 to 6 s are best.", delay), RuleEvicted, RuleTakesBack)
	}
	r.say("Retry, after %s%s; the workload is evicted and waits", delay, ofPolicy(answer, delay))
	if delay > r.LongestDelay {
		r.note("The first delay, %s%s, is too long to wait for here. Make it shorter for this test (4 to 6 s are best), or raise -longest-delay.", delay, ofPolicy(answer, delay))
		_ = r.openQueue(ctx, true)
		return errCut
	}
	pokes := 0
	for deadline := time.Now().Add(delay + patience/2); !t.next(ctx, second, r.isRequeued); t.touch(ctx) {
		if pokes++; pokes > 2 {
			r.try(RuleEvicted, RuleTakesBack)
		}
		if time.Now().After(deadline) {
			r.note("The workload was not back %s after the end of the delay that was asked for first. That part was cut short.", patience/2)
			_ = r.openQueue(ctx, true)
			return errCut
		}
	}
	r.say("requeued; it waits for quota")
	t.poke(ctx, 2, large)
	if err := r.ask(ctx, kueue.CheckStateRetry); err != nil {
		return err
	}
	r.say("quota is there again")
	if err := r.openQueue(ctx, true); err != nil {
		return err
	}
	second, err := t.answer(ctx, RuleAnswers)
	if err != nil {
		return err
	}
	r.try(RuleRetryCount)
	if second.State != kueue.CheckStateRetry {
		r.untried("the controller said Retry only once.", RuleFreshTime)
		return nil
	}
	r.try(RuleFreshTime)
	if delay, err = t.evicted(ctx); err != nil {
		return err
	}
	if err := r.ask(ctx, kueue.CheckStateReady); err != nil {
		return err
	}
	if delay > r.LongestDelay {
		r.note("The second delay, %s%s, is too long to wait for here. Make it shorter for this test, or raise -longest-delay.", delay, ofPolicy(second, delay))
		return errCut
	}
	r.say("Retry, after %s%s", delay, ofPolicy(second, delay))
	return t.until(ctx, delay+patience, "requeue it", r.isRequeued)
}

// refused has the first write fail.
func (r *run) refused(ctx context.Context) error {
	r.say("the answer meets a conflict")
	t, trap, err := r.caught(ctx, "refused", true)
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	defer r.proxy.release(trap)
	return t.expectAnswer(ctx, RuleTriesAgain, "write its answer again after a conflict")
}

// otherSpeaks has another check answer while the controller's write is under way.
func (r *run) otherSpeaks(ctx context.Context) error {
	r.say("another check answers while the answer is under way")
	t, trap, err := r.caught(ctx, "other", false)
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	defer r.proxy.release(trap)
	if err := r.otherSays(ctx, t, kueue.CheckStateReady, nil); err != nil {
		return err
	}
	r.letGo(ctx, trap)
	r.try(RuleOtherChecks)
	return t.expectAnswer(ctx, RuleTriesAgain, "write its answer again when another check had answered in between")
}

// requeued has the workload evicted and requeued while the write is under way.
func (r *run) requeued(ctx context.Context) error {
	r.say("the workload is evicted and requeued while the answer is under way")
	t, trap, err := r.caught(ctx, "requeued", false)
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	defer r.proxy.release(trap)
	if err := r.openQueue(ctx, false); err != nil {
		return err
	}
	defer func() { _ = r.openQueue(ctx, true) }()
	if err := r.otherSays(ctx, t, kueue.CheckStateRetry, ptr.To[int32](1)); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "requeue it", func(wl *kueue.Workload) bool {
		other := entry(wl, r.other)
		return other != nil && ptr.Deref(other.RetryCount, 0) > 0
	}); err != nil {
		return err
	}
	r.letGo(ctx, trap)
	r.try(RuleStaleAnswer, RuleKueueStatus)
	t.poke(ctx, 1)
	return nil
}

// inactive deactivates a workload while an answer is under way, and again while
// it waits.
func (r *run) inactive(ctx context.Context) error {
	r.say("the workload is deactivated while the answer is under way")
	t, trap, err := r.caught(ctx, "inactive", false)
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	defer r.proxy.release(trap)
	deactivated := func(wl *kueue.Workload) bool {
		return !ptr.Deref(wl.Spec.Active, true) && isTrue(kueue.WorkloadEvicted)(wl) && !isTrue(kueue.WorkloadQuotaReserved)(wl)
	}
	if err := t.setActive(ctx, false); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "evict it", deactivated); err != nil {
		return err
	}
	r.letGo(ctx, trap)
	r.try(RuleInactive)
	t.poke(ctx, 2)
	r.say("the workload is activated again")
	if err := t.setActive(ctx, true); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "see it active", func(wl *kueue.Workload) bool { return ptr.Deref(wl.Spec.Active, true) }); err != nil {
		return err
	}
	answer, err := t.answer(ctx, RuleAnswers)
	if err != nil {
		return err
	}
	if answer.State == kueue.CheckStateRetry {
		if err := t.until(ctx, patience, "release its quota", isWaiting); err != nil {
			return err
		}
	}
	r.say("the workload is deactivated")
	if err := t.setActive(ctx, false); err != nil {
		return err
	}
	if err := t.until(ctx, patience, "evict it", deactivated); err != nil {
		return err
	}
	t.poke(ctx, 2)
	return nil
}

// removed takes the check from the ClusterQueue while the write is under way.
func (r *run) removed(ctx context.Context) error {
	r.say("the check is removed from the ClusterQueue while the answer is under way")
	t, trap, err := r.caught(ctx, "removed", false)
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	defer r.proxy.release(trap)
	askFor := func(check bool) error {
		return r.configure(ctx, func(spec *kueue.ClusterQueueSpec) error {
			spec.AdmissionChecksStrategy = r.checks(check)
			return nil
		})
	}
	if err := askFor(false); err != nil {
		return err
	}
	defer func() { _ = askFor(true) }()
	if err := t.until(ctx, patience, "remove the entry of the check", func(wl *kueue.Workload) bool { return entry(wl, r.Check) == nil }); err != nil {
		return err
	}
	r.letGo(ctx, trap)
	r.try(RuleRemovedCheck)
	t.poke(ctx, 1)
	t.remove(ctx)
	return nil
}

// deleted deletes the workload while the write is under way.
func (r *run) deleted(ctx context.Context) error {
	r.say("the workload is deleted while the answer is under way")
	t, trap, err := r.caught(ctx, "deleted", false)
	if err != nil {
		return err
	}
	defer r.proxy.release(trap)
	t.remove(ctx)
	if !r.wait(ctx, patience, func(record *Record) bool {
		versions := record.Versions[t.workload]
		return versions[len(versions)-1].Deleted
	}) {
		r.note("Kueue did not let the Workload %s go. That part was cut short.", t.workload)
		return errCut
	}
	r.letGo(ctx, trap)
	return sleep(ctx, second)
}

// restart gives a workload quota while the controller is down, and restarts the
// controller again while the workload waits.
func (r *run) restart(ctx context.Context) error {
	r.say("the controller is stopped; a workload gets quota; the controller is started again")
	if err := r.ask(ctx, kueue.CheckStateRetry); err != nil {
		return err
	}
	r.controller.Stop()
	t, err := r.submit(ctx, "restart", "1")
	if err != nil {
		return err
	}
	defer t.remove(ctx)
	if err := t.until(ctx, patience, "reserve quota", r.isAsked); err != nil {
		return err
	}
	// Nothing more must come that would wake the controller.
	t.calm(ctx)
	if err := r.startController(); err != nil {
		return err
	}
	answer, err := t.answer(ctx, RuleRestart)
	if err != nil || answer.State != kueue.CheckStateRetry {
		return err
	}
	if _, err := t.evicted(ctx); err != nil {
		return err
	}
	r.say("restarted while the workload waits")
	r.controller.Stop()
	if err := r.startController(); err != nil {
		return err
	}
	t.poke(ctx, 1)
	return nil
}

// caught asks the controller about a new workload, and returns when its answer
// is on the way, and caught.
func (r *run) caught(ctx context.Context, job string, refuse bool) (*trial, *trap, error) {
	if err := r.ask(ctx, kueue.CheckStateRetry); err != nil {
		return nil, nil, err
	}
	trap := r.proxy.set(job, refuse)
	t, err := r.submit(ctx, job, "1")
	if err == nil {
		err = t.until(ctx, patience, "reserve quota", r.isAsked)
	}
	if err == nil && !trap.wait(ctx, r.AnswerWithin) {
		r.add(func(record *Record) {
			record.Expectations = append(record.Expectations, Expectation{Rule: RuleAnswers, What: "answer", Workload: t.workload, After: r.AnswerWithin})
		})
		err = errCut
	}
	if err != nil {
		r.proxy.release(trap)
		t.remove(ctx)
		return nil, nil, err
	}
	return t, trap, nil
}

// letGo lets the write go and waits for its answer.
func (r *run) letGo(ctx context.Context, trap *trap) {
	r.proxy.release(trap)
	select {
	case <-trap.done:
	case <-ctx.Done():
	}
}

// otherSays writes the entry of the other check, and returns when Kueue's
// watchers have it.
func (r *run) otherSays(ctx context.Context, t *trial, state kueue.CheckState, delay *int32) error {
	patch := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: t.workload},
		Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{{
			Name: kueue.AdmissionCheckReference(r.other), State: state, LastTransitionTime: metav1.Now(), RequeueAfterSeconds: delay,
			Message: "Part of the test",
		}}},
	}
	if err := objects.ApplyStatus(ctx, r.client, patch, "conformance"); err != nil {
		return err
	}
	return t.until(ctx, patience, "show the other check's answer", func(wl *kueue.Workload) bool {
		other := entry(wl, r.other)
		return other != nil && other.State == state
	})
}

// trial is a Job, and its Workload.
type trial struct {
	*run
	job, workload string
	// seen is the index of the version up to which until and next have come.
	seen int
}

// submit creates a Job and returns when it has a Workload.
func (r *run) submit(ctx context.Context, job, cpu string) (*trial, error) {
	t := &trial{run: r, job: job}
	if err := eventually(ctx, func() error { return r.client.Create(ctx, r.newJob(job, cpu)) }); err != nil {
		return t, fmt.Errorf("create the Job %s: %w", job, err)
	}
	if !r.wait(ctx, patience, func(record *Record) bool {
		for name := range record.Versions {
			if strings.HasPrefix(name, workloadPrefix(job)) {
				t.workload = name
			}
		}
		return t.workload != ""
	}) {
		return t, fmt.Errorf("no Workload was made for the Job %s: see the manager's log", job)
	}
	return t, nil
}

// remove deletes the Job and its Workload, for which there is no garbage
// collector here.
func (t *trial) remove(ctx context.Context) {
	_ = t.client.Delete(ctx, t.newJob(t.job, "1"), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if t.workload != "" {
		_ = t.client.Delete(ctx, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: t.workload}})
	}
}

// next waits for a version that matches, from the one on that was found last.
func (t *trial) next(ctx context.Context, limit time.Duration, match func(*kueue.Workload) bool) bool {
	return t.wait(ctx, limit, t.from(match))
}

func (t *trial) from(match func(*kueue.Workload) bool) func(*Record) bool {
	return func(record *Record) bool {
		versions := record.Versions[t.workload]
		for i := t.seen; i < len(versions); i++ {
			if match(versions[i].Workload) {
				t.seen = i
				return true
			}
		}
		return false
	}
}

// until is next for what Kueue has to do.
func (t *trial) until(ctx context.Context, limit time.Duration, what string, match func(*kueue.Workload) bool) error {
	if t.next(ctx, limit, match) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.note("Kueue did not %s (Workload %s) within %s%s. That part was cut short.", what, t.workload, limit, t.inQueue())
	return errCut
}

// inQueue tells why Kueue does not reserve quota, if it says so.
func (t *trial) inQueue() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	versions := t.record.Versions[t.workload]
	if len(versions) == 0 {
		return ""
	}
	reserved := apimeta.FindStatusCondition(versions[len(versions)-1].Workload.Status.Conditions, kueue.WorkloadQuotaReserved)
	if reserved == nil || reserved.Status == metav1.ConditionTrue || reserved.Message == "" {
		return ""
	}
	return fmt.Sprintf(", and says: %q", reserved.Message)
}

// expect is next for what the controller has to do.
func (t *trial) expect(ctx context.Context, rule Rule, what string, match func(*kueue.Workload) bool) error {
	if !t.run.expect(ctx, rule, t.workload, what, t.AnswerWithin, t.from(match)) {
		return errCut
	}
	return nil
}

// answer waits until quota is reserved, and then for the controller's answer.
func (t *trial) answer(ctx context.Context, rule Rule) (*kueue.AdmissionCheckState, error) {
	if err := t.until(ctx, patience, "reserve quota", isTrue(kueue.WorkloadQuotaReserved)); err != nil {
		return nil, err
	}
	if err := t.expectAnswer(ctx, rule, "answer"); err != nil {
		return nil, err
	}
	return t.own(), nil
}

// expectAnswer is expect for an answer.
func (t *trial) expectAnswer(ctx context.Context, rule Rule, what string) error {
	if !t.run.expect(ctx, rule, t.workload, what, t.AnswerWithin, func(record *Record) bool {
		for i := t.seen; i < len(record.Versions[t.workload]); i++ {
			if record.answers(t.workload, i) {
				t.seen = i
				return true
			}
		}
		return false
	}) {
		return errCut
	}
	return nil
}

// own returns the entry of the check in the version that was found last.
func (t *trial) own() *kueue.AdmissionCheckState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return entry(t.record.Versions[t.workload][t.seen].Workload, t.Check)
}

// evicted waits for the eviction that a Retry brings about, and returns the delay
// that holds then: the controller's own, or that of a policy, which Kueue writes down
// with the eviction.
func (t *trial) evicted(ctx context.Context) (time.Duration, error) {
	if err := t.until(ctx, patience, "evict it", isTrue(kueue.WorkloadEvicted)); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own := entry(t.record.Versions[t.workload][t.seen].Workload, t.Check)
	if own == nil {
		return 0, nil
	}
	return time.Duration(ptr.Deref(own.RequeueAfterSeconds, ptr.Deref(own.PolicyDelaySeconds, 0))) * time.Second, nil
}

// sentDelay returns true if the controller has sent a delay, whatever became of it.
func (t *trial) sentDelay() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.record.Writes, func(w Write) bool {
		return w.Workload == t.workload && applies(w.Body, t.Check, "requeueAfterSeconds")
	})
}

// ofPolicy says so if the delay is not the answer's own.
func ofPolicy(answer *kueue.AdmissionCheckState, delay time.Duration) string {
	if answer.RequeueAfterSeconds == nil && delay > 0 {
		return " (that of the policy)"
	}
	return ""
}

// calm returns when nobody has written the Workload for a second.
func (t *trial) calm(ctx context.Context) {
	versions := 0
	for t.wait(ctx, second, func(record *Record) bool { return len(record.Versions[t.workload]) > versions }) {
		t.mu.Lock()
		versions = len(t.record.Versions[t.workload])
		t.mu.Unlock()
	}
}

// isAsked returns true if the workload has quota, and the entry of the check.
func (r *run) isAsked(wl *kueue.Workload) bool {
	return isTrue(kueue.WorkloadQuotaReserved)(wl) && entry(wl, r.Check) != nil
}

// answered returns true if the check is not Pending any more.
func (r *run) answered(wl *kueue.Workload) bool {
	own := entry(wl, r.Check)
	return own != nil && own.State != kueue.CheckStatePending
}

// isRequeued returns true if the workload is in the queue after a retry.
func (r *run) isRequeued(wl *kueue.Workload) bool {
	return isTrue(kueue.WorkloadRequeued)(wl) && !r.answered(wl)
}

func isTrue(condition string) func(*kueue.Workload) bool {
	return func(wl *kueue.Workload) bool { return apimeta.IsStatusConditionTrue(wl.Status.Conditions, condition) }
}

// poke touches the Workload, and others, n times, in a new second each time, so
// that the controller looks at them although nothing has changed.
func (t *trial) poke(ctx context.Context, n int, others ...*trial) {
	for range n {
		if sleep(ctx, second) != nil {
			return
		}
		for _, each := range append(others, t) {
			each.touch(ctx)
		}
	}
	_ = sleep(ctx, 300*time.Millisecond)
}

// touch changes an annotation, which means nothing to anybody.
func (t *trial) touch(ctx context.Context) {
	t.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{"conformance":%q}}}`, time.Now().Format(time.RFC3339Nano)))
}

func (t *trial) setActive(ctx context.Context, active bool) error {
	return t.patch(ctx, fmt.Sprintf(`{"spec":{"active":%t}}`, active))
}

func (t *trial) patch(ctx context.Context, patch string) error {
	wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: t.workload}}
	return t.client.Patch(ctx, wl, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("conformance"))
}

// setPods plays the Job controller: so many pods run.
func (t *trial) setPods(ctx context.Context, active int32) error {
	return eventually(ctx, func() error {
		job := &batchv1.Job{}
		if err := t.client.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: t.job}, job); err != nil {
			return err
		}
		if active > 0 && ptr.Deref(job.Spec.Suspend, false) {
			return errors.New("the Job is suspended")
		}
		job.Status.Active, job.Status.Ready = active, &active
		if active > 0 {
			job.Status.StartTime = ptr.To(metav1.Now())
		}
		return t.client.Status().Update(ctx, job)
	})
}

// finish plays the pods and the Job controller.
func (t *trial) finish(ctx context.Context) error {
	return eventually(ctx, func() error {
		job := &batchv1.Job{}
		if err := t.client.Get(ctx, types.NamespacedName{Namespace: t.namespace, Name: t.job}, job); err != nil {
			return err
		}
		if ptr.Deref(job.Spec.Suspend, false) {
			return errors.New("the Job is suspended")
		}
		now := metav1.Now()
		job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
		for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached,
				LastProbeTime: now, LastTransitionTime: now,
			})
		}
		return t.client.Status().Update(ctx, job)
	})
}
