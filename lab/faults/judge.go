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
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// ask is what the controller of a check has written, or has tried to. Its number is
// in the message of the check, so that it is known when it arrives, and when it is
// gone, whatever else becomes of the entry.
type ask struct {
	number int
	check  string
	state  kueue.AdmissionCheckState
}

var askNumber = regexp.MustCompile(`^ask (\d+)$`)

// policyCheck has a policy, policyDelay is its delay.
const (
	policyCheck = "policy"
	policyDelay = 2 * time.Second
)

// judge holds every version of every workload to the rules. It computes deadlines
// from what the controllers have asked for, not from what the object says of it.
type judge struct {
	mu    sync.Mutex
	tally *tally
	began time.Time
	// asks are all, by number.
	asks map[int]ask
	// answered are the asks that will not arrive any more, newest the last ones that did, by
	// workload and check.
	answered map[int]bool
	newest   map[string]int
	// now is the newest version of each workload, ended those that are not followed
	// any more.
	now   map[string]*kueue.Workload
	ended map[string]bool
	// counts are the retries by workload and check, traces what happened.
	counts map[string]map[string]int32
	traces map[string][]string
	first  *violation
	failed chan struct{}
	// complaints are what should not last, and since when it does.
	complaints map[string]time.Time
}

// violation is what breaks a rule.
type violation struct {
	rule, workload, detail string
}

func newJudge(tally *tally) *judge {
	return &judge{
		tally: tally, began: time.Now(), asks: map[int]ask{}, answered: map[int]bool{}, newest: map[string]int{}, now: map[string]*kueue.Workload{}, ended: map[string]bool{},
		counts: map[string]map[string]int32{}, traces: map[string][]string{}, failed: make(chan struct{}),
		complaints: map[string]time.Time{},
	}
}

// asks for the next number of an ask, and writes it down before it is sent.
func (j *judge) expect(check string, state kueue.AdmissionCheckState) ask {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := ask{number: len(j.asks) + 1, check: check, state: state}
	a.state.Message = fmt.Sprintf("ask %d", a.number)
	j.asks[a.number] = a
	return a
}

// answers takes in that the API server has taken the ask, or refused it. One whose answer
// was lost may arrive later.
func (j *judge) answers(a ask) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.answered[a.number] = true
}

func (j *judge) fail(rule, workload, format string, args ...any) {
	if j.first == nil {
		j.first = &violation{rule: rule, workload: workload, detail: fmt.Sprintf(format, args...)}
		close(j.failed)
	}
}

func (j *judge) violation() *violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first
}

// trace is what happened to a workload.
func (j *judge) trace(name string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.traces[name])
}

// workloads are the newest versions of those that are not finished. They are not to
// be changed.
func (j *judge) workloads() []*kueue.Workload {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live()
}

func (j *judge) live() []*kueue.Workload {
	var all []*kueue.Workload
	for _, name := range slices.Sorted(maps.Keys(j.now)) {
		if !is(j.now[name], kueue.WorkloadFinished) {
			all = append(all, j.now[name])
		}
	}
	return all
}

// finished is the name of the finished workload of a job, if there is one.
func (j *judge) finished(job types.UID) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, wl := range j.now {
		if is(wl, kueue.WorkloadFinished) && slices.ContainsFunc(wl.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == job }) {
			return name
		}
	}
	return ""
}

// asked is the ask that an entry carries.
func (j *judge) asked(check *kueue.AdmissionCheckState) (ask, bool) {
	if check == nil {
		return ask{}, false
	}
	match := askNumber.FindStringSubmatch(check.Message)
	if match == nil {
		return ask{}, false
	}
	n, _ := strconv.Atoi(match[1])
	a, found := j.asks[n]
	return a, found
}

// delay is what an ask asks for, or what the policy has for it.
func (a ask) delay() time.Duration {
	if a.state.State == kueue.CheckStateRetry && a.state.RequeueAfterSeconds == nil && a.check == policyCheck {
		return policyDelay
	}
	return time.Duration(ptr.Deref(a.state.RequeueAfterSeconds, 0)) * time.Second
}

// deadline is the time before which the rules forbid to bring the workload back.
func (j *judge) deadline(wl *kueue.Workload) time.Time {
	var evictedAt time.Time
	if evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); is(wl, kueue.WorkloadEvicted) && evicted.Reason == kueue.WorkloadEvictedByAdmissionCheck {
		evictedAt = evicted.LastTransitionTime.Time
	}
	var until time.Time
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		a, found := j.asked(check)
		if check.State != kueue.CheckStateRetry || !found || a.delay() == 0 {
			continue
		}
		start := a.state.LastTransitionTime.Time
		if evictedAt.After(start) {
			start = evictedAt
		}
		if end := start.Add(a.delay()); end.After(until) {
			until = end
		}
	}
	return until
}

// see takes in the next version of a workload, nil when it was deleted, and the time
// at which it was seen, which is not before that of the write.
func (j *judge) see(name string, wl *kueue.Workload, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.now[name]
	if wl == nil {
		delete(j.now, name)
		if !j.ended[name] {
			j.fail("nothing is lost", name, "it is deleted: %s", describe(old))
		}
		return
	}
	j.now[name] = wl
	if old == nil {
		j.counts[name] = map[string]int32{}
		old = &kueue.Workload{}
	}
	if changes := difference(old, wl); changes != "" {
		j.traces[name] = append(j.traces[name], fmt.Sprintf("%s @%s %s", at.UTC().Format("15:04:05.000"), wl.ResourceVersion, changes))
	}
	if is(wl, kueue.WorkloadFinished) && !j.ended[name] {
		j.ended[name] = true
		j.tally.add("jobs finished")
	}
	if before, after := evictedSince(old), evictedSince(wl); after.Before(before) && !after.IsZero() && !isDeactivation(old) && !isDeactivation(wl) {
		j.fail("rule 1", name, "the eviction is moved back from %s to %s", before, after)
	}
	if !j.spoken(old, wl) {
		j.written(old, wl, at)
	}
}

// evictedSince is when the workload was evicted, zero if it is not.
func evictedSince(wl *kueue.Workload) time.Time {
	if !is(wl, kueue.WorkloadEvicted) {
		return time.Time{}
	}
	return apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time
}

// spoken tells whether it is a controller that has written this version.
func (j *judge) spoken(old, wl *kueue.Workload) bool {
	spoken := false
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		a, found := j.asked(check)
		before, had := j.asked(find(old, string(check.Name)))
		if !found || had && before.number == a.number {
			continue
		}
		spoken = true
		key := wl.Name + "/" + string(check.Name)
		if a.number <= j.newest[key] && j.answered[a.number] {
			j.fail("rule 9", wl.Name, "%s is back, after ask %d", checkText(check), j.newest[key])
		}
		j.newest[key] = max(j.newest[key], a.number)
		j.tally.add("answers: " + string(a.state.State))
		if a.state.State == kueue.CheckStateRetry && a.delay() > 0 {
			j.tally.add("delays asked for")
		}
		if a.check != string(check.Name) || check.State != a.state.State {
			j.fail("harness", wl.Name, "%s instead of %s", checkText(check), checkText(&a.state))
		}
		if got := check.RequeueAfterSeconds; !ptr.Equal(got, a.state.RequeueAfterSeconds) {
			j.fail("a delay is its controller's", wl.Name, "%s instead of %s", checkText(check), checkText(&a.state))
		}
	}
	return spoken
}

// written judges what Kueue has written.
func (j *judge) written(old, wl *kueue.Workload, at time.Time) {
	deactivated := isDeactivation(old) || isDeactivation(wl)
	// The API has whole seconds, cut off; the moment at which the version was seen is
	// later than the decision.
	early := func(condition string) (time.Time, bool) {
		until := j.deadline(old)
		decided := apimeta.FindStatusCondition(wl.Status.Conditions, condition).LastTransitionTime
		return until, at.Before(until) || decided.Time.Before(until)
	}
	if !is(old, kueue.WorkloadQuotaReserved) && is(wl, kueue.WorkloadQuotaReserved) {
		j.tally.add("reservations")
		if until, is := early(kueue.WorkloadQuotaReserved); is {
			j.fail("rule 7, reserved early", wl.Name, "it has to wait until %s: %s", clock(until), describe(old))
		}
	}
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	evictedNow := !is(old, kueue.WorkloadEvicted) && is(wl, kueue.WorkloadEvicted)
	requeued := requeuedAgain(old, wl) && !evictedNow && !deactivated
	if requeued {
		j.tally.add("requeues")
		if until, is := early(kueue.WorkloadRequeued); is {
			j.fail("rule 7, requeued early", wl.Name, "it has to wait until %s: %s", clock(until), describe(old))
		}
		if wl.Status.RequeueState != nil {
			j.fail("rule 6", wl.Name, "requeued, and requeueState stays: %s", describe(wl))
		}
	}
	if evictedNow {
		j.tally.add("evictions: " + evicted.Reason)
		if is(old, kueue.WorkloadAdmitted) && !is(wl, kueue.WorkloadQuotaReserved) {
			j.fail("rule 3", wl.Name, "its quota is released before its job is stopped: %s", describe(wl))
		}
		if until := j.deadline(wl); evicted.Reason == kueue.WorkloadEvictedByAdmissionCheck && until.After(evicted.LastTransitionTime.Time) && !until.Equal(requeueAt(wl)) {
			j.fail("rule 3", wl.Name, "evicted with another requeueAt than %s: %s", clock(until), describe(wl))
		}
	}
	if wl.Status.RequeueState != nil && wl.Status.RequeueState.Count != nil {
		j.fail("rule 13", wl.Name, "requeueState.count without WaitForPodsReady: %s", describe(wl))
	}
	admitted := !is(old, kueue.WorkloadAdmitted) && is(wl, kueue.WorkloadAdmitted)
	for i := range old.Status.AdmissionChecks {
		before := &old.Status.AdmissionChecks[i]
		after := find(wl, string(before.Name))
		if after == nil {
			j.fail("nothing is lost", wl.Name, "the entry of %s is gone: %s", before.Name, describe(wl))
			continue
		}
		if before.State == kueue.CheckStateRetry && after.State != kueue.CheckStateRetry {
			if !deactivated && !requeued {
				j.fail("rule 3", wl.Name, "the Retry of %s is taken back before the requeue: %s", before.Name, describe(wl))
			}
			if after.RequeueAfterSeconds != nil && !deactivated {
				j.fail("rule 6", wl.Name, "%s keeps its delay: %s", before.Name, describe(wl))
			}
		}
		if before.State == kueue.CheckStateRejected && after.State != kueue.CheckStateRejected && !deactivated {
			j.fail("rule 8", wl.Name, "the rejection by %s is taken back: %s", before.Name, describe(wl))
		}
		j.retryCount(wl, before, after, deactivated, admitted)
	}
}

// retryCount: each retry is counted once, in the write that ends it.
func (j *judge) retryCount(wl *kueue.Workload, before, after *kueue.AdmissionCheckState, deactivated, admitted bool) {
	counts, name := j.counts[wl.Name], string(before.Name)
	want := []int32{counts[name]}
	ready := before.State == kueue.CheckStateReady
	switch {
	case deactivated:
		want = append(want, 0)
		if before.State == kueue.CheckStateRetry {
			// Said when the workload was active again.
			want = append(want, counts[name]+1)
		}
	case before.State == kueue.CheckStateRetry && after.State == kueue.CheckStatePending:
		want = []int32{counts[name] + 1}
		j.tally.add("retries counted")
	case admitted, ready && after.State == kueue.CheckStatePending:
		want = []int32{0}
	case ready, after.State == kueue.CheckStateReady:
		want = append(want, 0)
	}
	got := ptr.Deref(after.RetryCount, 0)
	if !slices.Contains(want, got) {
		j.fail("rules 6 and 10", wl.Name, "%s has retryCount %d instead of %v: %s", name, got, want, describe(wl))
	}
	counts[name] = got
}

// patience is how long something may take that nothing hinders.
const patience = 20 * time.Second

// The gauges that tell of workloads without quota: of all, and of those that wait.
const (
	pendingGauge = "kueue_pending_workloads"
	retryGauge   = "kueue_admission_check_retry_"
)

// counts are what Kueue tells of the workloads without quota.
type counts struct {
	// queues has pendingWorkloads of the statuses.
	queues map[string]int
	// gauges are those that each manager serves.
	gauges map[string]map[string]int
}

// expectedGauges are those of the workloads that are pending, and of those that wait.
func (j *judge) expectedGauges(pending int, waiting []*kueue.Workload) map[string]int {
	want := map[string]int{pendingGauge: pending, retryGauge + "waiting_workloads": len(waiting)}
	const earliest = retryGauge + "earliest_deadline_timestamp_seconds"
	for _, wl := range waiting {
		if at := int(j.deadline(wl).Unix()); want[earliest] == 0 || at < want[earliest] {
			want[earliest] = at
		}
	}
	return want
}

// oldWords returns what Requeued tells of a wait that is over, or of another time.
func oldWords(wl *kueue.Workload) string {
	cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	if cond == nil || cond.Status != metav1.ConditionFalse || is(wl, kueue.WorkloadFinished) || !ptr.Deref(wl.Spec.Active, true) {
		return ""
	}
	for _, at := range timestamp.FindAllString(cond.Message, -1) {
		if at != requeueAt(wl).UTC().Format(time.RFC3339) {
			return "Requeued tells of " + at
		}
	}
	return ""
}

var timestamp = regexp.MustCompile(`\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)

// look judges what should be so when nothing hinders Kueue. What is not so has to
// be so soon. It returns what is not so yet.
func (j *judge) look(now time.Time, quota int, told counts) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	found := map[string]violation{}
	complain := func(rule string, wl *kueue.Workload, text string) {
		found[rule+wl.Name] = violation{rule: rule, workload: wl.Name, detail: text + ": " + describe(wl)}
	}
	count := func(who, what string, got, want int) {
		if got != want {
			found[who+what] = violation{rule: "counts", detail: fmt.Sprintf("%s of %s is %d, not %d", what, who, got, want)}
		}
	}
	held, pending, all := 0, 0, j.live()
	var waiting []*kueue.Workload
	for _, wl := range all {
		switch {
		case is(wl, kueue.WorkloadQuotaReserved):
			held++
		case ptr.Deref(wl.Spec.Active, true):
			pending++
			if !j.deadline(wl).IsZero() {
				waiting = append(waiting, wl)
			}
		}
	}
	for _, wl := range all {
		reserved, retry, rejected := is(wl, kueue.WorkloadQuotaReserved), 0, 0
		for i := range wl.Status.AdmissionChecks {
			check := &wl.Status.AdmissionChecks[i]
			switch check.State {
			case kueue.CheckStateRetry:
				retry++
			case kueue.CheckStateRejected:
				rejected++
			case kueue.CheckStateReady:
				if ptr.Deref(check.RetryCount, 0) > 0 {
					complain("rule 10", wl, "a success is not counted from")
				}
			}
		}
		if words := oldWords(wl); words != "" {
			complain("conditions", wl, words)
		}
		if !ptr.Deref(wl.Spec.Active, true) {
			counted := slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool { return ptr.Deref(check.RetryCount, 0) > 0 })
			if reserved || retry > 0 || counted || wl.Status.RequeueState != nil {
				complain("rule 11", wl, "something is left on a deactivated workload")
			}
			continue
		}
		at, until := requeueAt(wl), j.deadline(wl)
		switch {
		case rejected > 0:
			complain("rule 8", wl, "rejected, and still active")
		case retry > 0 && reserved:
			complain("rule 3", wl, "a check asks for a retry, and the quota is held")
		case retry > 0 && !now.Before(until):
			complain("rule 7, never stuck", wl, "its deadline "+clock(until)+" is over")
		case retry > 0 && !at.Equal(until):
			complain("rule 4", wl, "it should wait until "+clock(until))
		case retry == 0 && !at.IsZero():
			complain("rule 4", wl, "nobody asks for its wait")
		case retry == 0 && !reserved && held < quota:
			complain("rule 7, free quota", wl, fmt.Sprintf("%d of %d are held", held, quota))
		}
	}
	for who, n := range told.queues {
		count(who, "pendingWorkloads", n, pending)
	}
	want := j.expectedGauges(pending, waiting)
	for who, gauges := range told.gauges {
		for what, n := range gauges {
			count(who, what, n, want[what])
		}
		for what, n := range want {
			count(who, what, gauges[what], n)
		}
	}
	var texts []string
	for key, v := range found {
		since, known := j.complaints[key]
		if !known {
			since = now
		}
		if now.Sub(since) > patience {
			j.fail(v.rule, v.workload, "for %s: %s", now.Sub(since).Round(time.Second), v.detail)
		}
		texts = append(texts, v.rule+", "+v.detail)
		j.complaints[key] = since
	}
	for key := range j.complaints {
		if _, still := found[key]; !still {
			delete(j.complaints, key)
		}
	}
	slices.Sort(texts)
	return texts
}

// forget ends the complaints: faults begin.
func (j *judge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.complaints)
}

func is(wl *kueue.Workload, condition string) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, condition)
}

func find(wl *kueue.Workload, name string) *kueue.AdmissionCheckState {
	for i := range wl.Status.AdmissionChecks {
		if string(wl.Status.AdmissionChecks[i].Name) == name {
			return &wl.Status.AdmissionChecks[i]
		}
	}
	return nil
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

func isDeactivation(wl *kueue.Workload) bool {
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	return !ptr.Deref(wl.Spec.Active, true) || is(wl, kueue.WorkloadDeactivationTarget) ||
		evicted != nil && evicted.Status == metav1.ConditionTrue && strings.HasPrefix(evicted.Reason, kueue.WorkloadDeactivated)
}

func requeuedAgain(old, wl *kueue.Workload) bool {
	before := apimeta.FindStatusCondition(old.Status.Conditions, kueue.WorkloadRequeued)
	after := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	reset := slices.ContainsFunc(old.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		after := find(wl, string(check.Name))
		return check.State == kueue.CheckStateRetry && after != nil && after.State == kueue.CheckStatePending
	})
	return after != nil && after.Status == metav1.ConditionTrue && after.Reason == kueue.WorkloadBackoffFinished &&
		(before == nil || before.Status != metav1.ConditionTrue || reset)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("15:04:05")
}

func checkText(check *kueue.AdmissionCheckState) string {
	text := fmt.Sprintf("%s=%s", check.Name, check.State)
	if check.RequeueAfterSeconds != nil {
		text += fmt.Sprintf(" after %d s", *check.RequeueAfterSeconds)
	}
	if check.RetryCount != nil {
		text += fmt.Sprintf(" count %d", *check.RetryCount)
	}
	return fmt.Sprintf("%s since %s (%.40s)", text, clock(check.LastTransitionTime.Time), check.Message)
}

// parts are what tells one state of a workload from another.
func parts(wl *kueue.Workload) []string {
	var result []string
	if !ptr.Deref(wl.Spec.Active, true) {
		result = append(result, "inactive")
	}
	for _, cond := range wl.Status.Conditions {
		result = append(result, fmt.Sprintf("%s=%s(%s %s)", cond.Type, cond.Status, cond.Reason, clock(cond.LastTransitionTime.Time)))
	}
	for i := range wl.Status.AdmissionChecks {
		result = append(result, checkText(&wl.Status.AdmissionChecks[i]))
	}
	if at := requeueAt(wl); !at.IsZero() {
		result = append(result, "requeueAt "+clock(at))
	}
	return result
}

func describe(wl *kueue.Workload) string {
	return cmp.Or(wl.Name, "a new one") + " " + strings.Join(parts(wl), ", ")
}

func difference(old, wl *kueue.Workload) string {
	before, after := parts(old), parts(wl)
	var result []string
	for _, part := range after {
		if !slices.Contains(before, part) {
			result = append(result, "+"+part)
		}
	}
	for _, part := range before {
		if !slices.Contains(after, part) {
			result = append(result, "-"+part)
		}
	}
	return strings.Join(result, " ")
}
