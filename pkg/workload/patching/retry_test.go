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
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

var retryTestNow = time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)

func TestRoundUp(t *testing.T) {
	cases := map[string]struct {
		time time.Time
		want time.Time
	}{
		"zero":               {},
		"whole":              {time: retryTestNow, want: retryTestNow},
		"a nanosecond over":  {time: retryTestNow.Add(time.Nanosecond), want: retryTestNow.Add(time.Second)},
		"a nanosecond short": {time: retryTestNow.Add(-time.Nanosecond), want: retryTestNow},
		"in another zone": {
			time: retryTestNow.Add(time.Millisecond).In(time.FixedZone("zone", 5400)),
			want: retryTestNow.Add(time.Second),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RoundUp(tc.time); !got.Equal(tc.want) {
				t.Errorf("Unexpected time: %s, want: %s", got, tc.want)
			}
		})
	}
}

func TestPatchAdmissionStatusAppliesChecks(t *testing.T) {
	check := kueue.AdmissionCheckState{
		Name:                "check",
		State:               kueue.CheckStateRetry,
		Message:             "words",
		LastTransitionTime:  metav1.NewTime(retryTestNow),
		RequeueAfterSeconds: new(int32(60)),
		RetryCount:          new(int32(2)),
		PolicyDelaySeconds:  new(int32(30)),
	}
	cases := map[string]struct {
		gateOff            bool
		transitionTime     time.Time
		wantTransitionTime string
		wantDelay          *int32
	}{
		"the delay is left to the controller": {
			transitionTime:     retryTestNow,
			wantTransitionTime: "2026-02-06T10:00:00Z",
		},
		"the transition time is rounded up": {
			transitionTime:     retryTestNow.Add(time.Millisecond),
			wantTransitionTime: "2026-02-06T10:00:01Z",
		},
		"gate off: the delay is applied, and fractions are cut off": {
			gateOff:            true,
			transitionTime:     retryTestNow.Add(time.Millisecond),
			wantTransitionTime: "2026-02-06T10:00:00Z",
			wantDelay:          new(int32(60)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, false)
			ctx, _ := utiltesting.ContextWithLog(t)
			stored := utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(check).Obj()
			var applied struct {
				Status struct {
					AdmissionChecks []map[string]any `json:"admissionChecks"`
				} `json:"status"`
			}
			cl := utiltesting.NewClientBuilder().
				WithObjects(stored).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, c client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
						data, err := patch.Data(obj)
						if err != nil {
							return err
						}
						if err := json.Unmarshal(data, &applied); err != nil {
							return err
						}
						return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResourceName, obj, patch, opts...)
					},
				}).
				Build()
			wl := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), wl); err != nil {
				t.Fatalf("Failed getting the workload: %v", err)
			}
			err := PatchAdmissionStatus(ctx, cl, wl, testingclock.NewFakeClock(retryTestNow), func(wl *kueue.Workload) (bool, error) {
				wl.Status.AdmissionChecks[0].LastTransitionTime = metav1.NewTime(tc.transitionTime)
				return true, nil
			})
			if err != nil {
				t.Fatalf("Failed patching the status: %v", err)
			}

			want := map[string]any{
				"name":               "check",
				"state":              "Retry",
				"message":            "words",
				"lastTransitionTime": tc.wantTransitionTime,
				"retryCount":         2.0,
				"policyDelaySeconds": 30.0,
			}
			if tc.wantDelay != nil {
				want["requeueAfterSeconds"] = float64(*tc.wantDelay)
			}
			if diff := cmp.Diff([]map[string]any{want}, applied.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks in the apply (-want,+got):\n%s", diff)
			}
			// What is left out is not removed: neither stored, nor in the copy of the caller.
			got := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), got); err != nil {
				t.Fatalf("Failed getting the workload: %v", err)
			}
			for _, checks := range [][]kueue.AdmissionCheckState{got.Status.AdmissionChecks, wl.Status.AdmissionChecks} {
				if diff := cmp.Diff(check.RequeueAfterSeconds, checks[0].RequeueAfterSeconds); diff != "" {
					t.Errorf("Unexpected delay after the apply (-want,+got):\n%s", diff)
				}
			}
		})
	}
}

// TestPatchOfAnOldVersion verifies that no write of Kueue undoes a state of a check that it
// has not seen.
func TestPatchOfAnOldVersion(t *testing.T) {
	options := map[string][]PatchStatusOption{
		"no options":              nil,
		"WithLooseOnApply":        {WithLooseOnApply()},
		"WithRetryOnConflict":     {WithRetryOnConflict()},
		"both":                    {WithLooseOnApply(), WithRetryOnConflict()},
		"WithForceApply":          {WithForceApply()},
		"WithForceApply and both": {WithForceApply(), WithLooseOnApply(), WithRetryOnConflict()},
	}
	patches := map[string]func(context.Context, client.Client, *kueue.Workload, UpdateFunc, ...PatchStatusOption) error{
		"PatchStatus": func(ctx context.Context, cl client.Client, wl *kueue.Workload, update UpdateFunc, opts ...PatchStatusOption) error {
			return PatchStatus(ctx, cl, wl, "owner", update, opts...)
		},
		"PatchAdmissionStatus": func(ctx context.Context, cl client.Client, wl *kueue.Workload, update UpdateFunc, opts ...PatchStatusOption) error {
			return PatchAdmissionStatus(ctx, cl, wl, testingclock.NewFakeClock(retryTestNow), update, opts...)
		},
	}
	type result struct {
		Conflict bool
		// Updates is how often the update function was called.
		Updates int
		Patches int
		// State is what is stored of the check.
		State kueue.CheckState
	}
	unseen := result{Conflict: true, Updates: 1, Patches: 1, State: kueue.CheckStateRetry}

	for _, gate := range []bool{true, false} {
		for _, useMergePatch := range []bool{false, true} {
			for patchName, patch := range patches {
				for optionsName, opts := range options {
					t.Run(fmt.Sprintf("%s, %s, ACRequeueAfter: %t, WorkloadRequestUseMergePatch: %t", patchName, optionsName, gate, useMergePatch), func(t *testing.T) {
						features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
						features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, useMergePatch)
						ctx, _ := utiltesting.ContextWithLog(t)
						check := kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(retryTestNow)}
						stored := utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(check).Obj()
						var got result
						cl := utiltesting.NewClientBuilder().
							WithObjects(stored).
							WithStatusSubresource(&kueue.Workload{}).
							WithInterceptorFuncs(interceptor.Funcs{
								SubResourcePatch: func(ctx context.Context, c client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
									got.Patches++
									return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResourceName, obj, patch, opts...)
								},
							}).
							Build()
						seen := &kueue.Workload{}
						if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), seen); err != nil {
							t.Fatalf("Failed getting the workload: %v", err)
						}
						newer := seen.DeepCopy()
						newer.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
						if err := cl.Status().Update(ctx, newer); err != nil {
							t.Fatalf("Failed updating the workload: %v", err)
						}

						before := seen.DeepCopy()
						err := patch(ctx, cl, seen, func(wl *kueue.Workload) (bool, error) {
							got.Updates++
							wl.Status.AdmissionChecks = []kueue.AdmissionCheckState{*check.DeepCopy()}
							wl.Status.AdmissionChecks[0].Message = "written"
							return true, nil
						}, opts...)

						if got.Conflict = apierrors.IsConflict(err); err != nil && !got.Conflict {
							t.Errorf("Unexpected error: %v", err)
						}
						after := &kueue.Workload{}
						if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), after); err != nil {
							t.Fatalf("Failed getting the workload: %v", err)
						}
						got.State = after.Status.AdmissionChecks[0].State

						want := unseen
						apply := !useMergePatch || slices.Contains([]string{"WithForceApply", "WithForceApply and both"}, optionsName)
						switch {
						case gate:
						case apply && slices.Contains([]string{"WithLooseOnApply", "both", "WithForceApply and both"}, optionsName):
							want = result{Updates: 1, Patches: 1, State: kueue.CheckStatePending}
						case !apply && slices.Contains([]string{"WithRetryOnConflict", "both"}, optionsName):
							want = result{Updates: 2, Patches: 2, State: kueue.CheckStatePending}
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("Unexpected result (-want,+got):\n%s", diff)
						}
						if got.Conflict {
							if diff := cmp.Diff(before, seen); diff != "" {
								t.Errorf("The refused write changed the copy of the caller (-before,+after):\n%s", diff)
							}
						}
					})
				}
			}
		}
	}
}
