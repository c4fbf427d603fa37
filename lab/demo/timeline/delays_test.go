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

package timeline

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func TestDelays(t *testing.T) {
	h := NewHistory(start)
	for _, version := range workload("job-a", append(waitingSteps()[:8],
		step{18.5, asks("capacity", 7)},
		step{18.6, asks("capacity", 9)},
		step{18.7, func(wl *kueue.Workload, now metav1.Time) { check(wl, "capacity", now, kueue.CheckStateReady) }},
	)...) {
		h.AddWorkload(version.At, version.Workload)
	}
	for _, version := range workload("job-b", step{0.1, queued}, step{0.2, reserved}, step{0.3, admitted}) {
		h.AddWorkload(version.At, version.Workload)
	}

	want := []Delay{
		{Job: "job-a", Check: "budget", Asked: []time.Duration{12 * time.Second}, Retries: 1},
		{Job: "job-a", Check: "capacity", Asked: []time.Duration{5 * time.Second, 7 * time.Second, 9 * time.Second}, Retries: 1},
	}
	if diff := cmp.Diff(want, Delays(h)); diff != "" {
		t.Errorf("Unexpected delays (-want,+got):\n%s", diff)
	}

	var got strings.Builder
	if err := DelayTable(&got, h); err != nil {
		t.Fatal(err)
	}
	wantTable := strings.Join([]string{
		"  JOB     DELAYED BY   HOW LONG        HOW OFTEN   WAITED IN ALL",
		"  job-a   budget       12 s            1×          14.7 s",
		"          capacity     5 s, 7 s, 9 s   1×          ",
		"  job-b   nobody                                   ",
		"",
	}, "\n")
	if diff := cmp.Diff(wantTable, got.String()); diff != "" {
		t.Errorf("Unexpected table (-want,+got):\n%s", diff)
	}
}
