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

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

func TestDecide(t *testing.T) {
	backoff := kit.Backoff{Base: time.Second, Cap: time.Minute}
	cases := map[string]struct {
		free                int
		retries, maxRetries int32
		want                kit.Verdict
	}{
		"a free slot":                     {free: 1, want: kit.Ready("One of 1 free slots")},
		"a free slot at the last retry":   {free: 2, retries: 3, maxRetries: 3, want: kit.Ready("One of 2 free slots")},
		"none":                            {want: kit.Retry(time.Second, "No slot is free, after 0 retries")},
		"fewer than are taken":            {free: -1, want: kit.Retry(time.Second, "No slot is free, after 0 retries")},
		"none after retries":              {retries: 3, want: kit.Retry(8*time.Second, "No slot is free, after 3 retries")},
		"none after many retries":         {retries: 1000, want: kit.Retry(time.Minute, "No slot is free, after 1000 retries")},
		"none, with a retry left":         {retries: 2, maxRetries: 3, want: kit.Retry(4*time.Second, "No slot is free, after 2 retries")},
		"none after as many as are asked": {retries: 3, maxRetries: 3, want: kit.Rejected("No slot was free after 3 retries")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decide(tc.free, tc.retries, tc.maxRetries, backoff)); diff != "" {
				t.Errorf("Unexpected verdict (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTaken(t *testing.T) {
	workload := func(check kueue.AdmissionCheckReference, state kueue.CheckState, conditions ...string) kueue.Workload {
		wl := kueue.Workload{Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{{Name: check, State: state}}}}
		for _, condition := range conditions {
			wl.Status.Conditions = append(wl.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue})
		}
		return wl
	}
	for name, tc := range map[string]struct {
		wl   kueue.Workload
		want int
	}{
		"passed":                  {wl: workload("capacity", kueue.CheckStateReady, kueue.WorkloadQuotaReserved), want: 1},
		"passed, and finished":    {wl: workload("capacity", kueue.CheckStateReady, kueue.WorkloadQuotaReserved, kueue.WorkloadFinished)},
		"passed, and was evicted": {wl: workload("capacity", kueue.CheckStateReady)},
		"passed another check":    {wl: workload("budget", kueue.CheckStateReady, kueue.WorkloadQuotaReserved)},
		"asks":                    {wl: workload("capacity", kueue.CheckStatePending, kueue.WorkloadQuotaReserved)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := taken([]kueue.Workload{tc.wl}, "capacity"); got != tc.want {
				t.Errorf("taken() = %d, want %d", got, tc.want)
			}
		})
	}
}
