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

package workload

import (
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func withMessage(check kueue.AdmissionCheckState, message string) kueue.AdmissionCheckState {
	check.Message = message
	return check
}

func TestWaitMessage(t *testing.T) {
	cases := map[string]struct {
		retry        []kueue.AdmissionCheckState
		deadline     time.Time
		backoffUntil time.Time
		want         string
		wantOver     string
	}{
		"no check": {
			want:     "No admission check asks for a retry any more",
			wantOver: "No admission check asks for a retry any more",
		},
		"no delay": {
			retry:    []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStateRetry, 0)},
			want:     "Admission check(s) a asked for a retry",
			wantOver: "Admission check(s) a asked for a retry, which is due",
		},
		"sorted by name, with their own words, which are shortened": {
			retry: []kueue.AdmissionCheckState{
				withMessage(retryAt("b", 0, 60), strings.Repeat("é", 201)),
				withMessage(retryAt("a", 0, 30), "No budget."),
				retryAt("c", 0, 30),
			},
			deadline: at(60),
			want:     "Admission check(s) a,b,c asked for a retry, waiting until 2026-02-06T10:01:00Z. a: No budget.; b: " + strings.Repeat("é", 200) + " ...",
			wantOver: "Admission check(s) a,b,c asked for a retry, which is due. a: No budget.; b: " + strings.Repeat("é", 200) + " ...",
		},
		"another backoff that ends later": {
			retry:        []kueue.AdmissionCheckState{retryAt("a", 0, 30)},
			deadline:     at(60),
			backoffUntil: at(60),
			want:         "Backoff of the workload, waiting until 2026-02-06T10:01:00Z. Admission check(s) a asked for a retry",
			wantOver:     "Admission check(s) a asked for a retry, which is due",
		},
		"another backoff alone": {
			deadline:     at(60),
			backoffUntil: at(60),
			want:         "Backoff of the workload, waiting until 2026-02-06T10:01:00Z",
			wantOver:     "No admission check asks for a retry any more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := waitMessage(tc.retry, at(0), tc.deadline, tc.backoffUntil); got != tc.want {
				t.Errorf("Unexpected message %q, want %q", got, tc.want)
			}
			if got := waitOverMessage(tc.retry); got != tc.wantOver {
				t.Errorf("Unexpected message once the wait is over %q, want %q", got, tc.wantOver)
			}
		})
	}
}

func TestResetMessage(t *testing.T) {
	cases := map[string]struct {
		check kueue.AdmissionCheckState
		want  string
	}{
		"Pending keeps its words": {check: withMessage(checkAt("a", kueue.CheckStatePending, 0), "Withdrawn."), want: "Withdrawn."},
		"Retry without words":     {check: checkAt("a", kueue.CheckStateRetry, 0), want: "Reset to Pending on requeue. Previously: Retry"},
		"Retry with Kueue's words": {
			check: withMessage(checkAt("a", kueue.CheckStateRetry, 0), "Reset to Pending on requeue. Previously: Retry. Reset to Pending on requeue. Previously: Retry. No budget."),
			want:  "Reset to Pending on requeue. Previously: Retry. No budget.",
		},
		"Retry with Kueue's words alone": {
			check: withMessage(checkAt("a", kueue.CheckStateRetry, 0), "Reset to Pending on requeue. Previously: Retry"),
			want:  "Reset to Pending on requeue. Previously: Retry",
		},
		"Retry with words": {check: withMessage(checkAt("a", kueue.CheckStateRetry, 0), "No budget."), want: "Reset to Pending on requeue. Previously: Retry. No budget."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := resetMessage(tc.check, "requeue"); got != tc.want {
				t.Errorf("Unexpected message %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTellOfEviction(t *testing.T) {
	cases := map[string]struct {
		status      metav1.ConditionStatus
		reason      string
		wantMessage string
		wantSeen    int64
	}{
		"by a check":         {status: metav1.ConditionTrue, reason: kueue.WorkloadEvictedByAdmissionCheck, wantMessage: "News", wantSeen: 7},
		"for another reason": {status: metav1.ConditionTrue, reason: kueue.WorkloadEvictedByPreemption, wantMessage: "Evicted with reason Preempted. News", wantSeen: 7},
		"not evicted":        {status: metav1.ConditionFalse, reason: "QuotaReserved", wantMessage: "Before"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := reserved().Condition(conditionAt(kueue.WorkloadEvicted, tc.status, tc.reason, "Before", 0)).Obj()
			wl.Generation = 7
			tellOfEviction(wl, "News")
			evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
			if evicted.Message != tc.wantMessage || evicted.ObservedGeneration != tc.wantSeen {
				t.Errorf("Unexpected condition %v, want the message %q of generation %d", evicted, tc.wantMessage, tc.wantSeen)
			}
		})
	}
}
