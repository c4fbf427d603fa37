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
	"slices"
	"sync"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Record is all that was seen in a run.
type Record struct {
	// Check is the name of the AdmissionCheck under test.
	Check string
	// Versions holds every version of each Workload, in order, by name.
	Versions map[string][]Version
	// Writes holds what the controller wrote to Workloads, in the order of arrival.
	Writes []Write
	// Expectations holds what the controller had to do within a time.
	Expectations []Expectation
	// Moods holds when it was changed what the controller is to answer. Empty if
	// there was no way to.
	Moods []time.Time
	// Untried tells why a rule could not be tried, by rule.
	Untried map[Rule]string
}

// Version is a version of a Workload.
type Version struct {
	// At is when it was seen.
	At       time.Time
	Workload *kueue.Workload
	// Deleted is true for the last version of a Workload.
	Deleted bool
}

// Write is a request of the controller that writes a Workload.
type Write struct {
	// At is when the request arrived, Answered when its answer was sent.
	At, Answered time.Time
	// Workload is the name of the object.
	Workload string
	// How is the way of writing: apply, merge patch, JSON patch, update ...
	How string
	// Manager is the field manager that the request names, if it names one.
	Manager string
	// Unconditional is true if the request had no resource version.
	Unconditional bool
	// Body is the request's.
	Body []byte
	// Seen is the resource version that the Workload had on arrival, Sent the one
	// that the write took effect on.
	Seen, Sent string
	// Held is true if the request was held back while something was changed.
	Held bool
	// Staged is true if the harness refused the request itself.
	Staged bool
	// Code is the HTTP status of the answer.
	Code int
	// Message is the reason of a refusal.
	Message string
	// After is the Workload that the write resulted in. Nil if it was refused.
	After *kueue.Workload
}

// answers returns true if a version of a Workload has an answer of the controller: the
// check is not Pending, or it is Pending with words that the controller has written.
func (r *Record) answers(workload string, version int) bool {
	versions := r.Versions[workload]
	own := entry(versions[version].Workload, r.Check)
	switch {
	case own == nil:
		return false
	case own.State != kueue.CheckStatePending:
		return true
	case version == 0:
		return false
	}
	old := entry(versions[version-1].Workload, r.Check)
	return old != nil && old.Message != own.Message && slices.ContainsFunc(r.Writes, func(w Write) bool {
		return w.After != nil && w.After.Name == workload && w.After.ResourceVersion == versions[version].Workload.ResourceVersion
	})
}

// Expectation is something that the controller had to do within a time.
type Expectation struct {
	Rule Rule
	// What completes "the controller did" or "the controller did not".
	What string
	// Workload is the one that it is about, if there is one.
	Workload string
	Met      bool
	// After is how long it took, or how long it was waited for.
	After time.Duration
}

// recorder writes a Record, and lets others wait for versions of Workloads.
type recorder struct {
	mu      sync.Mutex
	record  Record
	changed chan struct{}
}

func newRecorder(check string) *recorder {
	return &recorder{
		record:  Record{Check: check, Versions: map[string][]Version{}, Untried: map[Rule]string{}},
		changed: make(chan struct{}),
	}
}

// add changes the record and wakes who waits for it.
func (r *recorder) add(change func(*Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.record)
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait returns true as soon as the condition holds, and false if it did not
// within the limit.
func (r *recorder) wait(ctx context.Context, limit time.Duration, condition func(*Record) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		r.mu.Lock()
		met, changed := condition(&r.record), r.changed
		r.mu.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
