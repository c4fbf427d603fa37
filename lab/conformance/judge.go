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
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/constants"
)

// Severity tells how bad a finding is.
type Severity string

const (
	// Fault is what is wrong in any case.
	Fault Severity = "FAULT"
	// Warning is what is wrong unless something outside has changed, of which the
	// harness does not know.
	Warning Severity = "warning"
	// Remark is what does no harm as it is, but may.
	Remark Severity = "remark"
)

// Finding is something that the controller did against a rule.
type Finding struct {
	Rule     Rule
	Severity Severity
	Workload string
	// Saw says what it did.
	Saw string
	// Advice says what to do instead, of a remark.
	Advice string
}

// clockSkew is what may lie between two clocks, and what is lost because the
// times of the API are whole seconds.
const clockSkew = time.Second

// Judge holds the record against the rules. It depends on the record alone.
func Judge(record *Record) []Finding {
	j := &judge{record: record, rewrites: map[waiting]int{}, created: map[string][]*Write{}}
	for _, e := range record.Expectations {
		if !e.Met {
			j.add(e.Rule, Fault, e.Workload, "The controller did not %s within %s.", e.What, e.After.Round(time.Second))
		}
	}
	deleted := map[string]int{}
	for i := range record.Writes {
		w := &record.Writes[i]
		j.manager(w)
		if w.After == nil {
			j.refused(w)
			if gone := j.deletedAt(w.Workload); !gone.IsZero() && w.At.After(gone) {
				deleted[w.Workload]++
			}
			continue
		}
		if w.After.ResourceVersion == w.Sent {
			continue // it changed nothing
		}
		before := j.before(w)
		if before == nil {
			continue
		}
		j.count(w)
		j.theirs(w, before)
		j.answer(w, before)
	}
	j.prolonged()
	j.tookBack()
	j.againstKueue()
	j.remarks()
	// One more write can be on its way.
	for workload, n := range deleted {
		if n > 1 {
			j.add(RuleInactive, Warning, workload, "The controller went on to write after the Workload was deleted, %d times.", n)
		}
	}
	return j.findings
}

type judge struct {
	record   *Record
	findings []Finding
	// rewrites counts, for each wait, the writes that did no more than to prolong it.
	rewrites map[waiting]int
	waits    []waiting
	// takenBack are the Retries that were taken back, as it seems without a reason.
	takenBack []takenBack
	// created are the writes that created the entry of the check, by workload.
	created map[string][]*Write
	// How many writes there were, and of which kinds that do no harm as they are.
	writes, unconditional, oldTimes, appliedCounts, appliedOthers int
	// asKueue are the field managers of Kueue's that it wrote as.
	asKueue []string
}

type takenBack struct {
	workload string
	to       kueue.CheckState
}

// waiting is the time between an eviction and the requeue.
type waiting struct {
	workload string
	evicted  int64
}

func (j *judge) add(rule Rule, severity Severity, workload, format string, args ...any) {
	j.findings = append(j.findings, Finding{Rule: rule, Severity: severity, Workload: workload, Saw: fmt.Sprintf(format, args...)})
}

func (j *judge) refused(w *Write) {
	switch {
	case w.Staged, w.Code == http.StatusConflict, w.Code == http.StatusNotFound, w.Code >= 500:
		// It happens to anybody.
	default:
		j.add(RuleRefused, Fault, w.Workload, "The API server refused its %s with %d: %s", w.How, w.Code, w.Message)
	}
}

// kueueManagers are the field managers with which Kueue writes the status of Workloads.
var kueueManagers = []string{constants.KueueName, constants.AdmissionName, constants.JobControllerName}

// manager looks at the name under which the controller writes. That Kueue was faster, and
// the write was refused, makes it no better.
func (j *judge) manager(w *Write) {
	if slices.Contains(kueueManagers, w.Manager) && !slices.Contains(j.asKueue, w.Manager) {
		j.asKueue = append(j.asKueue, w.Manager)
		j.add(RuleKueueStatus, Fault, w.Workload, "Its %s was sent as %q, a field manager of Kueue's: what Kueue applied before under this name, and is not in it, is removed.", w.How, w.Manager)
	}
}

// count counts what does no harm as it is.
func (j *judge) count(w *Write) {
	j.writes++
	if w.Unconditional {
		j.unconditional++
	}
	if w.How == apply && slices.ContainsFunc(applied(w.Body), func(e map[string]any) bool { return e["name"] != j.record.Check }) {
		j.appliedOthers++
	}
}

// theirs looks for changes to what does not belong to the check.
func (j *judge) theirs(w *Write, before *kueue.Workload) {
	for _, old := range before.Status.AdmissionChecks {
		if string(old.Name) == j.record.Check {
			continue
		}
		switch now := entry(w.After, string(old.Name)); {
		case now == nil:
			j.add(RuleOtherChecks, Fault, w.Workload, "Its %s removed the entry of the check %q, which was %s.", w.How, old.Name, old.State)
		case old.State != now.State:
			j.add(RuleOtherChecks, Fault, w.Workload, "Its %s turned the check %q from %s to %s.", w.How, old.Name, old.State, now.State)
		case !reflect.DeepEqual(old, *now):
			j.add(RuleOtherChecks, Fault, w.Workload, "Its %s changed the entry of the check %q, which is %s: %s.", w.How, old.Name, old.State, changes(old, *now))
		}
	}
	was, is := before.Status.DeepCopy(), w.After.Status.DeepCopy()
	was.AdmissionChecks, is.AdmissionChecks = nil, nil
	if diff := changes(*was, *is); diff != "" {
		j.add(RuleKueueStatus, Fault, w.Workload, "Its %s changed %s.", w.How, diff)
	}
}

// answer judges what the write did to the check's own entry.
func (j *judge) answer(w *Write, before *kueue.Workload) {
	old, now := entry(before, j.record.Check), entry(w.After, j.record.Check)
	switch {
	case now == nil:
		if old != nil {
			j.add(RuleRetryCount, Fault, w.Workload, "Its %s removed the entry of the check.", w.How)
		}
		return
	case old == nil:
		j.created[w.Workload] = append(j.created[w.Workload], w)
		return
	}

	if was, is := ptr.Deref(old.RetryCount, 0), ptr.Deref(now.RetryCount, 0); was != is {
		j.add(RuleRetryCount, Fault, w.Workload, "Its %s, to %s, turned retryCount from %d to %d.", w.How, now.State, was, is)
	} else if w.How == apply && applies(w.Body, j.record.Check, "retryCount") {
		j.appliedCounts++
	}
	if old.State != now.State && now.State != kueue.CheckStateRetry && old.LastTransitionTime.Equal(&now.LastTransitionTime) && w.At.Sub(now.LastTransitionTime.Time) > 2*clockSkew {
		j.oldTimes++
	}

	if old.State == now.State && old.LastTransitionTime.Equal(&now.LastTransitionTime) && j.asksForSameDelay(w, before) {
		return // a message, say
	}
	switch {
	case apimeta.IsStatusConditionTrue(before.Status.Conditions, kueue.WorkloadFinished):
		j.add(RuleInactive, Fault, w.Workload, "It wrote %s to a workload that is finished.", now.State)
	case !before.DeletionTimestamp.IsZero():
		// It does no harm.
	case j.sinceSeen(w, before) != "":
		j.add(RuleStaleAnswer, Fault, w.Workload, "While its %s was under way the workload was %s; its %s went through all the same.", w.How, j.sinceSeen(w, before), now.State)
	case !ptr.Deref(before.Spec.Active, true):
		j.add(RuleInactive, Fault, w.Workload, "It wrote %s to a workload that is deactivated.", now.State)
	case isWaiting(before):
		j.whileWaiting(w, before, old, now)
	case !apimeta.IsStatusConditionTrue(before.Status.Conditions, kueue.WorkloadQuotaReserved):
		j.add(RuleQuota, Fault, w.Workload, "It wrote %s to a workload in the queue, which has no quota reserved.", now.State)
	case now.State == kueue.CheckStateRetry && old.State != kueue.CheckStateRetry:
		reserved := apimeta.FindStatusCondition(before.Status.Conditions, kueue.WorkloadQuotaReserved)
		if age := reserved.LastTransitionTime.Sub(now.LastTransitionTime.Time); age > clockSkew {
			j.add(RuleFreshTime, Fault, w.Workload, "Its Retry has a lastTransitionTime %s older than the reservation of quota that it answers (retryCount %d).", age, ptr.Deref(old.RetryCount, 0))
		}
	}
}

// whileWaiting judges a change of the check's entry after the eviction. A check
// may change its mind until the workload is requeued, but there must be a reason.
func (j *judge) whileWaiting(w *Write, before *kueue.Workload, old, now *kueue.AdmissionCheckState) {
	if old.State != kueue.CheckStateRetry {
		return // a slow answer
	}
	evicted := apimeta.FindStatusCondition(before.Status.Conditions, kueue.WorkloadEvicted)
	switch {
	case now.State != kueue.CheckStateRetry:
		nearlyOver := before.Status.RequeueState == nil || before.Status.RequeueState.RequeueAt == nil ||
			before.Status.RequeueState.RequeueAt.Sub(w.At) <= 2*clockSkew
		if !nearlyOver && !j.changedMood(j.evictedAt(w.Workload, evicted), w.At) {
			j.takenBack = append(j.takenBack, takenBack{w.Workload, now.State})
		}
	case j.asksForSameDelay(w, before):
		wait := waiting{w.Workload, evicted.LastTransitionTime.Unix()}
		if j.rewrites[wait] == 0 {
			j.waits = append(j.waits, wait)
		}
		j.rewrites[wait]++
	}
}

// asksForSameDelay returns true if the controller wanted the same delay before the
// write, or none.
func (j *judge) asksForSameDelay(w *Write, before *kueue.Workload) bool {
	return reflect.DeepEqual(asked(before, j.record.Check), asked(w.After, j.record.Check))
}

// prolonged tells of the waits that were prolonged for nothing.
func (j *judge) prolonged() {
	for _, wait := range j.waits {
		if n := j.rewrites[wait]; n > 1 {
			j.add(RuleEvicted, Fault, wait.workload, "It wrote the same Retry again and again, with a later transition time, while the workload waited: %d times.", n)
		} else {
			// It may have been an answer that was slow.
			j.add(RuleEvicted, Warning, wait.workload, "It wrote the same Retry again, with a later transition time, while the workload waited: once.")
		}
	}
}

// tookBack tells of the Retries that were taken back for nothing. Once, something
// may have changed that this test does not know of.
func (j *judge) tookBack() {
	for _, t := range j.takenBack {
		if n := len(j.takenBack); n > 1 {
			j.add(RuleTakesBack, Fault, t.workload, "It took its Retry back, to %s, while the workload waited and nothing was changed by this test; it did so %d times in all.", t.to, n)
		} else {
			j.add(RuleTakesBack, Warning, t.workload, "It took its Retry back, to %s, while the workload waited and nothing was changed by this test.", t.to)
		}
	}
}

// againstKueue tells of the entries that the controller created.
func (j *judge) againstKueue() {
	for _, workload := range slices.Sorted(maps.Keys(j.created)) {
		writes := j.created[workload]
		first, last := writes[0], writes[len(writes)-1]
		const where = "on a workload whose ClusterQueue does not ask for it"
		if len(writes) == 1 {
			j.add(RuleRemovedCheck, Fault, workload, "Its %s created the entry of the check, as %s, %s.", first.How, entry(first.After, j.record.Check).State, where)
			continue
		}
		j.add(RuleRemovedCheck, Fault, workload, "It created the entry of the check %d times in %.1fs, %s. Kueue removed it each time: the two write against each other.",
			len(writes), last.At.Sub(first.At).Seconds(), where)
	}
}

// remarks tells of what does no harm as it is.
func (j *judge) remarks() {
	add := func(rule Rule, n int, saw, advice string) {
		if n > 0 {
			j.findings = append(j.findings, Finding{Rule: rule, Severity: Remark, Saw: fmt.Sprintf("%d of its %d writes %s", n, j.writes, saw), Advice: advice})
		}
	}
	add(RuleStaleAnswer, j.unconditional, "had no resource version: the API server takes them whatever has happened to the workload since it was read.",
		"Send metadata.resourceVersion with what you write, also with server-side apply, and decide anew after a conflict.")
	add(RuleFreshTime, j.oldTimes, "changed the state and kept the lastTransitionTime. Nothing counts from it unless the state is Retry.",
		"Set lastTransitionTime to the current time whenever the state changes.")
	add(RuleOtherChecks, j.appliedOthers, "applied entries of other checks as they were, and so own them together with their controllers.",
		"Apply your own entry alone.")
	add(RuleRetryCount, j.appliedCounts, "applied the retryCount that was there, and so own it together with Kueue.",
		"Leave retryCount out of what you apply.")
}

// changedMood returns true if the test changed what the controller is to answer
// between the two times.
func (j *judge) changedMood(from, to time.Time) bool {
	return len(j.record.Moods) == 0 || slices.ContainsFunc(j.record.Moods, func(at time.Time) bool {
		return at.After(from) && at.Before(to)
	})
}

// evictedAt returns when the eviction was seen. Its transition time is rounded,
// up as it may be.
func (j *judge) evictedAt(workload string, evicted *metav1.Condition) time.Time {
	for _, v := range j.record.Versions[workload] {
		c := apimeta.FindStatusCondition(v.Workload.Status.Conditions, kueue.WorkloadEvicted)
		if c != nil && c.Status == evicted.Status && c.LastTransitionTime.Equal(&evicted.LastTransitionTime) {
			return v.At
		}
	}
	return evicted.LastTransitionTime.Time
}

// sinceSeen returns what happened to the workload between the arrival of the
// write and its effect, if the answer is to another question now.
func (j *judge) sinceSeen(w *Write, before *kueue.Workload) string {
	versions := j.record.Versions[w.Workload]
	seen := slices.IndexFunc(versions, func(v Version) bool { return v.Workload.ResourceVersion == w.Seen })
	last := slices.IndexFunc(versions, func(v Version) bool { return v.Workload.ResourceVersion == before.ResourceVersion })
	if seen < 0 || last <= seen {
		return ""
	}
	if ptr.Deref(versions[seen].Workload.Spec.Active, true) && !ptr.Deref(before.Spec.Active, true) {
		return "deactivated"
	}
	for i := seen + 1; i <= last; i++ {
		if isWaiting(versions[i-1].Workload) && !isWaiting(versions[i].Workload) {
			return "evicted and requeued"
		}
	}
	return ""
}

// before returns the version that the write changed. Nil if it was not seen.
func (j *judge) before(w *Write) *kueue.Workload {
	for _, v := range j.record.Versions[w.Workload] {
		if v.Workload.ResourceVersion == w.Sent {
			return v.Workload
		}
	}
	return nil
}

func (j *judge) deletedAt(workload string) time.Time {
	versions := j.record.Versions[workload]
	if n := len(versions); n > 0 && versions[n-1].Deleted {
		return versions[n-1].At
	}
	return time.Time{}
}

// isWaiting returns true between the eviction of a workload and the moment when
// it is back in the queue.
func isWaiting(wl *kueue.Workload) bool {
	if !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadEvicted) {
		return false
	}
	return !apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued) ||
		apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
}

func entry(wl *kueue.Workload, check string) *kueue.AdmissionCheckState {
	for i := range wl.Status.AdmissionChecks {
		if string(wl.Status.AdmissionChecks[i].Name) == check {
			return &wl.Status.AdmissionChecks[i]
		}
	}
	return nil
}

// asked returns the delay that the check's controller asks for itself. Nil: none.
func asked(wl *kueue.Workload, check string) *int32 {
	return entry(wl, check).RequeueAfterSeconds
}

// applies returns true if the body of an apply names the field of the entry.
func applies(body []byte, check, field string) bool {
	return slices.ContainsFunc(applied(body), func(e map[string]any) bool {
		return e["name"] == check && e[field] != nil
	})
}

// applied returns the entries of checks in the body of an apply.
func applied(body []byte) []map[string]any {
	var object struct {
		Status struct {
			AdmissionChecks []map[string]any `json:"admissionChecks"`
		} `json:"status"`
	}
	_ = json.Unmarshal(body, &object)
	return object.Status.AdmissionChecks
}

// changes lists the fields that differ, by their names in the API.
func changes(was, is any) string {
	before, after := fields(was), fields(is)
	var changed []string
	for name := range before {
		if _, found := after[name]; !found {
			changed = append(changed, name+" (removed)")
		} else if !reflect.DeepEqual(before[name], after[name]) {
			changed = append(changed, name)
		}
	}
	for name := range after {
		if _, found := before[name]; !found {
			changed = append(changed, name+" (added)")
		}
	}
	slices.Sort(changed)
	return strings.Join(changed, ", ")
}

// fields returns the fields of an object, and each condition as a field.
func fields(object any) map[string]any {
	result := map[string]any{}
	if data, err := json.Marshal(object); err == nil {
		_ = json.Unmarshal(data, &result)
	}
	if status, ok := object.(kueue.WorkloadStatus); ok {
		delete(result, "conditions")
		for _, c := range status.Conditions {
			c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Truncate(time.Second))
			result["the condition "+c.Type] = c
		}
	}
	return result
}
