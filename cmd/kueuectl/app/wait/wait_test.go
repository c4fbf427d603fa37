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

package wait_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	cmdtesting "sigs.k8s.io/kueue/cmd/kueuectl/app/testing"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestOf(t *testing.T) {
	evictedAt := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	until := evictedAt.Add(time.Hour)
	budget := cmdtesting.RetryCheck("budget", 3600)
	pending := kueue.AdmissionCheckState{Name: "capacity", State: kueue.CheckStatePending}

	testCases := map[string]struct {
		workload  *kueue.Workload
		wantWait  wait.Wait
		wantWaits bool
	}{
		"waits for a check": {
			workload:  cmdtesting.MakeWaitingWorkload("wl", "ns", evictedAt, until, budget, pending).Obj(),
			wantWait:  wait.Wait{Checks: []kueue.AdmissionCheckState{budget}, Until: until},
			wantWaits: true,
		},
		"its job is being stopped": {
			workload:  cmdtesting.MakeStoppingWorkload("wl", "ns", evictedAt, until, budget).Obj(),
			wantWait:  wait.Wait{Checks: []kueue.AdmissionCheckState{budget}, Until: until},
			wantWaits: true,
		},
		"the checks have withdrawn what they asked for": {
			workload: cmdtesting.MakeWaitingWorkload("wl", "ns", evictedAt, until, pending).Obj(),
		},
		"deactivated": {
			workload: cmdtesting.MakeWaitingWorkload("wl", "ns", evictedAt, until, budget).Active(false).Obj(),
		},
		"finished": {
			workload: cmdtesting.MakeWaitingWorkload("wl", "ns", evictedAt, until, budget).Finished().Obj(),
		},
		"no time is recorded": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(budget).Obj(),
		},
		"holds quota for the delay": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").
				Admission(utiltestingapi.MakeAdmission("cq").Obj()).
				Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue}).
				RequeueState(nil, ptr.To(metav1.NewTime(until))).
				AdmissionChecks(budget).
				Obj(),
		},
		"a backoff alone": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(until))).
				AdmissionChecks(pending).
				Obj(),
		},
		"new": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").Obj(),
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			gotWait, gotWaits := wait.Of(tc.workload)
			if gotWaits != tc.wantWaits {
				t.Errorf("Unexpected answer: want %t, got %t", tc.wantWaits, gotWaits)
			}
			if !tc.wantWaits {
				return
			}
			if diff := cmp.Diff(tc.wantWait, gotWait, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Unexpected wait (-want/+got)\n%s", diff)
			}
		})
	}
}
