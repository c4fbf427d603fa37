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
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// What a policy gives is recorded once. After that it is the recorded delay that
// counts, whatever the policy becomes.
func TestPolicyIsRecordedOnce(t *testing.T) {
	policy := func(delay, limit int32) map[kueue.AdmissionCheckReference]RetryPolicy {
		return map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{delay: delay, limit: limit}}
	}
	wl := reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0), checkAt("b", kueue.CheckStateRetry, 0)).Obj()
	rctx := RetryContext{Now: at(0), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: policy(30, 1)}
	plan := PlanRetry(wl, rctx)
	if delays := plan.NewDelays(wl); len(delays) != 1 || delays[0].Name != "a" {
		t.Errorf("Unexpected delays to report: %v", delays)
	}
	plan.Record(wl)
	want := []kueue.AdmissionCheckState{retryAt("a", 0, 30), retryAt("b", 0, 0)}
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
	}
	later := policy(300, 0)
	later["b"] = policyForTest{delay: 300}
	for name, policies := range map[string]map[kueue.AdmissionCheckReference]RetryPolicy{
		"the same": policy(30, 1), "another": later, "none": {}, "none, gate off": nil,
	} {
		t.Run(name, func(t *testing.T) {
			for now := range 31 {
				rctx.Now, rctx.Policies = at(float64(now)), policies
				wantAction := RetryWait
				if now == 30 {
					wantAction = RetryRequeue
				}
				if got := PlanRetry(wl, rctx); got.Action != wantAction || !got.Deadline.Equal(at(30)) {
					t.Errorf("Unexpected plan after %d s: %q until %s", now, got.Action, got.Deadline)
				}
			}
		})
	}
}

func TestRetryPlanGiveUp(t *testing.T) {
	wl := reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj()
	plan := PlanRetry(wl, RetryContext{
		Now:        at(0),
		IsRequired: func(kueue.AdmissionCheckReference) bool { return true },
		Policies:   map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{}},
	})
	plan.GiveUp(wl)
	want := []metav1.Condition{{
		Type:    kueue.WorkloadDeactivationTarget,
		Status:  metav1.ConditionTrue,
		Reason:  kueue.WorkloadAdmissionCheckRetryLimitExceeded,
		Message: plan.Message,
	}}
	isOther := cmpopts.IgnoreSliceElements(func(c metav1.Condition) bool { return c.Type != kueue.WorkloadDeactivationTarget })
	if diff := cmp.Diff(want, wl.Status.Conditions, isOther, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime", "ObservedGeneration")); diff != "" {
		t.Errorf("Unexpected condition (-want,+got):\n%s", diff)
	}
	if got := planAt(wl, at(1)); got.Action != RetryNone {
		t.Errorf("Unexpected action %q after it, want none: the rest of Kueue deactivates the workload", got.Action)
	}
}
