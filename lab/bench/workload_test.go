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
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestWorkload(t *testing.T) {
	start := time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	// A version of the workload as it is after those seconds.
	type version struct {
		seconds float64
		status  string
	}
	const (
		reserved = `{conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-02-06T10:00:00Z"}], admissionChecks: [{name: a, state: Pending}]}`
		evicted  = `{conditions: [{type: QuotaReserved, status: "True"}, {type: Evicted, status: "True"}], requeueState: {requeueAt: "2026-02-06T10:00:12Z"}}`
		waiting  = `{conditions: [{type: QuotaReserved, status: "False"}, {type: Evicted, status: "True"}, {type: Requeued, status: "False"}], requeueState: {requeueAt: "2026-02-06T10:00:12Z"}}`
		requeued = `{conditions: [{type: QuotaReserved, status: "False"}, {type: Evicted, status: "True"}, {type: Requeued, status: "True", lastTransitionTime: "2026-02-06T10:00:12Z"}]}`
		tooSoon  = `{conditions: [{type: QuotaReserved, status: "False"}, {type: Evicted, status: "True"}, {type: Requeued, status: "True", lastTransitionTime: "2026-02-06T10:00:11Z"}]}`
		again    = `{conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-02-06T10:00:12Z"}, {type: Evicted, status: "False"}, {type: Requeued, status: "True"}]}`
	)
	cases := map[string]struct {
		versions                             []version
		wantEarly, wantEvictions             int
		wantFreed, wantBack, wantAgain       float64 // seconds after the start
		wantReservations                     int
		wantDeadline                         float64
		secondAnswerFrom, secondAnswerDelays float64
	}{
		"evicted, released, requeued, reserved": {
			versions:  []version{{1.5, evicted}, {1.6, waiting}, {12.1, requeued}, {12.2, again}},
			wantFreed: 1.6, wantBack: 12.1, wantAgain: 12.2, wantEvictions: 1, wantReservations: 2, wantDeadline: 12,
		},
		"evicted and released at once": {
			versions:  []version{{1.5, waiting}, {12.1, requeued}, {12.2, again}},
			wantFreed: 1.5, wantBack: 12.1, wantAgain: 12.2, wantEvictions: 1, wantReservations: 2, wantDeadline: 12,
		},
		"requeued before its deadline": {
			versions:  []version{{1.5, waiting}, {11.5, tooSoon}, {12.2, again}},
			wantFreed: 1.5, wantBack: 11.5, wantAgain: 12.2, wantEvictions: 1, wantReservations: 2, wantDeadline: 12, wantEarly: 1,
		},
		"never back": {
			versions:  []version{{1.5, waiting}},
			wantFreed: 1.5, wantEvictions: 1, wantReservations: 1, wantDeadline: 12,
		},
		"a second check asks for more": {
			versions:  []version{{1.5, waiting}, {12.1, requeued}, {12.2, again}},
			wantFreed: 1.5, wantBack: 12.1, wantAgain: 12.2, wantEvictions: 1, wantReservations: 2, wantDeadline: 14, wantEarly: 1,
			secondAnswerFrom: 4, secondAnswerDelays: 10,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := &workload{answered: map[string]int{}}
			see := func(v version) {
				obj := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte("status: "+v.status), &obj.Object); err != nil {
					t.Fatal(err)
				}
				w.update(obj, at(v.seconds))
			}
			see(version{0, reserved})
			w.ask(answer{state: "Retry", from: at(1), delay: 10 * time.Second})
			if tc.secondAnswerDelays > 0 {
				w.ask(answer{state: "Retry", from: at(tc.secondAnswerFrom), delay: time.Duration(tc.secondAnswerDelays) * time.Second})
			}
			for _, v := range tc.versions {
				see(v)
			}
			wantTime := func(what string, got time.Time, want float64) {
				if want == 0 && got.IsZero() || got.Equal(at(want)) {
					return
				}
				t.Errorf("Unexpected time %s: %s, want %g s", what, got, want)
			}
			wantTime("freed", w.freed, tc.wantFreed)
			wantTime("back", w.back, tc.wantBack)
			wantTime("again", w.again, tc.wantAgain)
			wantTime("deadline", w.deadline, tc.wantDeadline)
			if w.early != tc.wantEarly || w.evictions != tc.wantEvictions || w.reservations != tc.wantReservations {
				t.Errorf("Unexpected counts: early %d, evictions %d, reservations %d", w.early, w.evictions, w.reservations)
			}
		})
	}
}
