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

package evict

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestPrepareForEvictionWithRetryChecks(t *testing.T) {
	now := time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)
	check := func(name kueue.AdmissionCheckReference, state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{
			Name:                name,
			State:               state,
			Message:             "words",
			LastTransitionTime:  metav1.NewTime(now.Add(-time.Minute)),
			RequeueAfterSeconds: new(int32(60)),
			RetryCount:          new(int32(2)),
		}
	}
	reset := func(name kueue.AdmissionCheckReference, state kueue.CheckState, retryCount *int32) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{
			Name:                name,
			State:               kueue.CheckStatePending,
			Message:             "Reset to Pending after eviction. Previously: " + string(state),
			LastTransitionTime:  metav1.NewTime(now),
			RequeueAfterSeconds: new(int32(60)),
			RetryCount:          retryCount,
		}
	}

	cases := map[string]struct {
		gateOff    bool
		checks     []kueue.AdmissionCheckState
		reason     string
		wantChecks []kueue.AdmissionCheckState
	}{
		"a retry: all checks stay as they are": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady), check("c", kueue.CheckStatePending)},
			reason:     kueue.WorkloadEvictedByAdmissionCheck,
			wantChecks: []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady), check("c", kueue.CheckStatePending)},
		},
		"a retry, evicted for another reason: the delay still holds": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady)},
			reason:     kueue.WorkloadEvictedByPreemption,
			wantChecks: []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), reset("b", kueue.CheckStateReady, new(int32(0)))},
		},
		"a rejection that nobody has acted on is not lost": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRejected), check("b", kueue.CheckStateReady)},
			reason:     kueue.WorkloadEvictedByPreemption,
			wantChecks: []kueue.AdmissionCheckState{check("a", kueue.CheckStateRejected), reset("b", kueue.CheckStateReady, new(int32(0)))},
		},
		"no retry: reset, what was ready counts from 0": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateReady), check("b", kueue.CheckStatePending)},
			reason:     kueue.WorkloadEvictedByPreemption,
			wantChecks: []kueue.AdmissionCheckState{reset("a", kueue.CheckStateReady, new(int32(0))), check("b", kueue.CheckStatePending)},
		},
		"deactivated: no check keeps its retry": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateRejected)},
			reason:     kueue.WorkloadDeactivated,
			wantChecks: []kueue.AdmissionCheckState{reset("a", kueue.CheckStateRetry, new(int32(3))), reset("b", kueue.CheckStateRejected, nil)},
		},
		"deactivated by Kueue: no check keeps its retry": {
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateRejected)},
			reason:     "DeactivatedDueToAdmissionCheck",
			wantChecks: []kueue.AdmissionCheckState{reset("a", kueue.CheckStateRetry, new(int32(3))), reset("b", kueue.CheckStateRejected, nil)},
		},
		"gate off: reset": {
			gateOff:    true,
			checks:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady)},
			reason:     kueue.WorkloadEvictedByAdmissionCheck,
			wantChecks: []kueue.AdmissionCheckState{reset("a", kueue.CheckStateRetry, new(int32(3))), reset("b", kueue.CheckStateReady, nil)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			wl := utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(tc.checks...).Obj()
			prepareForEviction(wl, now, tc.reason, "message")
			if diff := cmp.Diff(tc.wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks after the eviction (-want,+got):\n%s", diff)
			}
			wantConditions := []metav1.Condition{{
				Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: tc.reason, Message: "message", LastTransitionTime: metav1.NewTime(now),
			}}
			if diff := cmp.Diff(wantConditions, wl.Status.Conditions); diff != "" {
				t.Errorf("Unexpected conditions after the eviction (-want,+got):\n%s", diff)
			}
		})
	}
}
