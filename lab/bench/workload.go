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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kueue-acrequeueafter/lab/objects"
)

// workload is what was seen of one. Its times are those at which the load
// generator saw a change, so they include the way of the news.
type workload struct {
	namespace, name, job string

	reserved, evicted, requeued, admitted bool
	checks                                map[string]string // states by name
	since                                 time.Time         // of the reservation, or of the admission

	// answered is the reservation in which a check has answered last.
	answered map[string]int
	// retriedIn marks the last scenario that had a check ask for a retry.
	retriedIn string

	// Counted since the workload was first seen.
	reservations, evictions, answers, early int

	// Of the last delay that was asked for: the reservation in which it was, and
	// when it is over; when the first Retry was sent; when the quota was free, the
	// workload requeued, and reserved again.
	asked                    int
	deadline                 time.Time
	sent, freed, back, again time.Time
	wasEarly                 bool
}

// ask takes in an answer that will be sent.
func (w *workload) ask(a answer) {
	if a.state != "Retry" {
		return
	}
	deadline := a.from.Add(a.delay)
	if w.asked != w.reservations {
		w.asked, w.deadline = w.reservations, deadline
		w.sent, w.freed, w.back, w.again = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		w.wasEarly = false
	} else if deadline.After(w.deadline) {
		w.deadline = deadline
	}
}

// update takes in a new version of the workload, seen now.
func (w *workload) update(obj *unstructured.Unstructured, now time.Time) {
	reserved, reservedAt := objects.Condition(obj, "QuotaReserved")
	evicted, _ := objects.Condition(obj, "Evicted")
	requeued, requeuedAt := objects.Condition(obj, "Requeued")
	admitted, _ := objects.Condition(obj, "Admitted")
	waits := w.asked > 0 && w.again.IsZero()

	// Where the time is recorded it is not before what the check asked for.
	if at, _, _ := unstructured.NestedString(obj.Object, "status", "requeueState", "requeueAt"); at != "" && waits {
		if parsed, err := time.Parse(time.RFC3339, at); err == nil && parsed.After(w.deadline) {
			w.deadline = parsed
		}
	}
	if evicted && !w.evicted {
		w.evictions++
	}
	if waits && !reserved && w.freed.IsZero() && w.reserved {
		w.freed = now
	}
	// Times of conditions are cut to the second, as deadlines are.
	if waits && requeued && !w.requeued && w.back.IsZero() {
		w.back = now
		w.onTime(requeuedAt)
	}
	if admitted && !w.admitted {
		w.since = now
	}
	if reserved && !w.reserved {
		w.since = now
		w.reservations++
		if waits {
			w.again = now
			w.onTime(reservedAt)
		}
	}
	w.reserved, w.evicted, w.requeued, w.admitted = reserved, evicted, requeued, admitted

	w.checks = map[string]string{}
	for name, state := range objects.Checks(obj) {
		w.checks[name], _ = state["state"].(string)
	}
}

// onTime counts a workload that is back before its deadline, once for each delay.
func (w *workload) onTime(at time.Time) {
	if !w.wasEarly && at.Before(w.deadline) {
		w.wasEarly = true
		w.early++
	}
}
