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
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// coverage is what schedules came to. A state is what matters of a workload, an
// action a write to it.
type coverage struct {
	// states, steps (an action in a state) and pairs (an action after another one on
	// the same workload), with how often they were there.
	states, steps, pairs map[string]int
	// last is the last action on each workload of this run.
	last map[string]string
	// outside has what those outside did by where the workload was, and by what they did
	// to it before, which is lastDeed. All of it can be.
	outside  map[string]int
	lastDeed map[string]string
}

// places are where a workload can be, deeds what those outside do to it at any time.
var (
	places = []string{"queued", "reserved", "admitted", "evicted, the job stops", "waits", "has waited", "inactive"}
	deeds  = []string{"a check says Pending", "a check says Ready", "a check says Retry", "a check says Retry with a delay", "a check says Rejected", "somebody sets active to false", "somebody sets active to true"}
)

// never returns what is in no run.
func (c *coverage) never() []string {
	var missing []string
	for _, deed := range deeds {
		for _, place := range places {
			// One that is active is not activated.
			if isActivation := deed == deeds[len(deeds)-1]; isActivation != (place == "inactive") && (isActivation || deed == deeds[len(deeds)-2]) {
				continue
			}
			if what := deed + " where it is " + place; c.outside[what] == 0 {
				missing = append(missing, what)
			}
		}
		for _, before := range deeds {
			if what := deed + " after " + before; c.outside[what] == 0 && deed != before {
				missing = append(missing, what)
			}
		}
	}
	return missing
}

// placeOf returns "" for one that is finished.
func placeOf(wl *kueue.Workload) string {
	switch {
	case workloadfinish.IsFinished(wl):
		return ""
	case !workload.IsActive(wl):
		return "inactive"
	case workload.HasQuotaReservation(wl) && workloadevict.IsEvicted(wl):
		return "evicted, the job stops"
	case workload.IsAdmitted(wl):
		return "admitted"
	case workload.HasQuotaReservation(wl):
		return "reserved"
	case requeueAt(wl).After(time.Now()):
		return "waits"
	case !requeueAt(wl).IsZero():
		return "has waited"
	}
	return "queued"
}

func newCoverage() *coverage {
	return &coverage{states: make(map[string]int), steps: make(map[string]int), pairs: make(map[string]int), last: make(map[string]string), outside: make(map[string]int), lastDeed: make(map[string]string)}
}

func (c *coverage) visit(write memapi.Write, old, wl *kueue.Workload) {
	state, action := stateOf(old), actionOf(write.Caller, old, wl)
	if action == "" {
		return
	}
	c.states[state]++
	c.states[stateOf(wl)]++
	c.steps[state+": "+action]++
	c.pairs[c.last[wl.Name]+", "+action]++
	if place := placeOf(old); place != "" && slices.Contains(deeds, action) {
		c.outside[action+" where it is "+place]++
		if before := c.lastDeed[wl.Name]; before != "" {
			c.outside[action+" after "+before]++
		}
		c.lastDeed[wl.Name] = action
	}
	c.last[wl.Name] = action
}

// add takes over what a run came to, and returns how much of it is new.
func (c *coverage) add(run *coverage) int {
	fresh := 0
	for _, part := range []struct{ all, run map[string]int }{{c.states, run.states}, {c.steps, run.steps}, {c.pairs, run.pairs}, {c.outside, run.outside}} {
		for name, n := range part.run {
			if part.all[name] == 0 {
				fresh++
			}
			part.all[name] += n
		}
	}
	return fresh
}

func (c *coverage) String() string {
	once := 0
	for _, n := range c.steps {
		if n == 1 {
			once++
		}
	}
	return fmt.Sprintf("%d states, %d actions in a state (%d of them once), %d pairs of actions", len(c.states), len(c.steps), once, len(c.pairs))
}

func stateOf(wl *kueue.Workload) string {
	var parts []string
	if !workload.IsActive(wl) {
		parts = append(parts, "inactive")
	}
	switch {
	case workloadfinish.IsFinished(wl):
		return "finished"
	case workload.IsAdmitted(wl):
		parts = append(parts, "admitted")
	case workload.HasQuotaReservation(wl):
		parts = append(parts, "reserved")
	}
	if evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); evicted != nil && evicted.Status == metav1.ConditionTrue {
		parts = append(parts, "evicted by "+evicted.Reason)
	}
	if requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued); requeued != nil {
		parts = append(parts, fmt.Sprintf("requeued %s by %s", requeued.Status, requeued.Reason))
	}
	if at := requeueAt(wl); at.After(time.Now()) {
		parts = append(parts, "waits")
	} else if !at.IsZero() {
		parts = append(parts, "has waited")
	}
	var checks []string
	for _, check := range wl.Status.AdmissionChecks {
		text := string(check.State)
		if check.RequeueAfterSeconds != nil {
			text += " with a delay"
		}
		if check.RetryCount != nil {
			text += ", counted"
		}
		if !slices.Contains(checks, text) {
			checks = append(checks, text)
		}
	}
	slices.Sort(checks)
	return strings.Join(append(parts, checks...), "; ")
}

// actionOf returns "" for what has no part in retries.
func actionOf(caller string, old, wl *kueue.Workload) string {
	switch {
	case strings.HasPrefix(caller, "check-"):
		name := kueue.AdmissionCheckReference(strings.TrimPrefix(caller, "check-"))
		after := workloadCheck(wl, name)
		if after == nil {
			return "a check goes"
		}
		if after.RequeueAfterSeconds != nil {
			return "a check says " + string(after.State) + " with a delay"
		}
		return "a check says " + string(after.State)
	case !strings.HasPrefix(caller, "kueue-"):
		if workload.IsActive(old) != workload.IsActive(wl) {
			return fmt.Sprintf("somebody sets active to %v", workload.IsActive(wl))
		}
		return ""
	}
	// What Kueue writes: the conditions and fields that change.
	var parts []string
	for _, cond := range wl.Status.Conditions {
		before := apimeta.FindStatusCondition(old.Status.Conditions, cond.Type)
		if before == nil || before.Status != cond.Status || before.Reason != cond.Reason {
			parts = append(parts, fmt.Sprintf("%s=%s", cond.Type, cond.Status))
		}
	}
	for _, cond := range old.Status.Conditions {
		if apimeta.FindStatusCondition(wl.Status.Conditions, cond.Type) == nil {
			parts = append(parts, "no "+cond.Type)
		}
	}
	switch before, after := requeueAt(old), requeueAt(wl); {
	case before.Equal(after):
	case after.IsZero():
		parts = append(parts, "no requeueAt")
	case before.IsZero():
		parts = append(parts, "requeueAt")
	case after.After(before):
		parts = append(parts, "later")
	default:
		parts = append(parts, "earlier")
	}
	if resetFromRetry(old, wl) {
		parts = append(parts, "checks reset")
	}
	if old.Spec.QueueName != wl.Spec.QueueName {
		parts = append(parts, "moved")
	}
	if workload.IsActive(old) != workload.IsActive(wl) {
		parts = append(parts, fmt.Sprintf("active %v", workload.IsActive(wl)))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return "Kueue writes " + strings.Join(parts, ", ")
}
