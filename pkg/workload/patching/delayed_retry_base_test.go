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

package patching

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

var retryEpoch = time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)

func checkInState(state kueue.CheckState, requeueAfterSeconds, retryCount *int32) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: "a", State: state, LastTransitionTime: metav1.NewTime(retryEpoch),
		RequeueAfterSeconds: requeueAfterSeconds, RetryCount: retryCount}
}

func TestApplyOfRetryFields(t *testing.T) {
	seen := checkInState(kueue.CheckStateRetry, ptr.To[int32](60), ptr.To[int32](1))
	cases := map[string]struct {
		gate bool
		want kueue.AdmissionCheckState
	}{
		"gate on: the delay is its controller's": {gate: true, want: checkInState(kueue.CheckStateRetry, nil, ptr.To[int32](1))},
		"gate off":                               {want: seen},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			wl := utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(seen).Obj()
			got := prepareWorkloadPatch(wl, true, testingclock.NewFakeClock(retryEpoch))
			if diff := cmp.Diff([]kueue.AdmissionCheckState{tc.want}, got.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks in the apply (-want,+got):\n%s", diff)
			}
		})
	}
}

// With WorkloadRequestUseMergePatch the scheduler tries a refused write again on the
// workload as it is then. It must not reserve quota for what has to wait by then.
func TestMergePatchAfterAnotherWrite(t *testing.T) {
	cases := map[string]struct {
		gate        bool
		other       kueue.AdmissionCheckState
		wantApplied bool
	}{
		"gate on, a Retry": {gate: true, other: checkInState(kueue.CheckStateRetry, ptr.To[int32](60), nil)},
		"gate on, a write that has not to do with it": {gate: true, other: checkInState(kueue.CheckStatePending, nil, nil), wantApplied: true},
		"gate off": {other: checkInState(kueue.CheckStateRetry, ptr.To[int32](60), nil), wantApplied: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").ResourceVersion("1").
				AdmissionChecks(checkInState(kueue.CheckStatePending, nil, nil)).Obj()
			latest := wl.DeepCopy()
			latest.ResourceVersion = "2"
			latest.Labels = map[string]string{"other": "write"}
			latest.Status.AdmissionChecks[0] = tc.other
			applied := false
			c := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
					latest.DeepCopyInto(obj.(*kueue.Workload))
					return nil
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					if obj.GetResourceVersion() != latest.ResourceVersion {
						return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
					}
					applied = true
					return nil
				},
			}).Build()
			err := PatchAdmissionStatus(ctx, c, wl, testingclock.NewFakeClock(retryEpoch), func(wl *kueue.Workload) (bool, error) {
				return apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue}), nil
			}, WithLooseOnApply(), WithRetryOnConflict())
			if applied != tc.wantApplied || tc.wantApplied && err != nil || !tc.wantApplied && !apierrors.IsConflict(err) {
				t.Errorf("Unexpected outcome: written %t, error %v, want written %t, or a conflict", applied, err, tc.wantApplied)
			}
		})
	}
}

// A merge patch has all checks, so who sets the state of one sends the times of the
// others, too, which the API server may not take back.
func TestMergePatchOfOneCheckRepairsTimes(t *testing.T) {
	for name, stored := range map[string]time.Time{
		"year 1":     time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC),
		"year 10000": time.Date(9999, time.December, 31, 23, 59, 59, 0, time.FixedZone("", -3600)),
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			other := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(stored)}
			wl := utiltestingapi.MakeWorkload("wl", "ns").ResourceVersion("1").
				AdmissionChecks(checkInState(kueue.CheckStatePending, nil, nil), other).Obj()
			var sent kueue.Workload
			c := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
					data, err := patch.Data(obj)
					if err != nil {
						return err
					}
					return json.Unmarshal(data, &sent)
				},
			}).Build()
			err := PatchStatus(ctx, c, wl, kueue.MultiKueueControllerName, func(wl *kueue.Workload) (bool, error) {
				return SetAdmissionCheckState(&wl.Status.AdmissionChecks, checkInState(kueue.CheckStateReady, nil, nil), testingclock.NewFakeClock(retryEpoch)), nil
			})
			if err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			for _, check := range sent.Status.AdmissionChecks {
				if got := check.LastTransitionTime; got.IsZero() || got.UTC().Year() > 9999 {
					t.Errorf("Unexpected time of check %s: %s", check.Name, got)
				}
			}
			if len(sent.Status.AdmissionChecks) != 2 {
				t.Errorf("Unexpected checks: %v", sent.Status.AdmissionChecks)
			}
		})
	}
}
