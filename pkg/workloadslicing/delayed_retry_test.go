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

package workloadslicing

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// A slice that waits for the retry of its checks stays the one that is to replace another.
func TestSliceWaitsForRetry(t *testing.T) {
	now := time.Now()
	evicted := func(reason string) metav1.Condition {
		return metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason}
	}
	slice := utiltestingapi.MakeWorkload("slice", "ns").Creation(now.Add(-time.Minute)).SimpleReserveQuota("cq", "flavor", now)
	larger := utiltestingapi.MakeWorkload("larger", "ns").Creation(now).Annotation(WorkloadSliceReplacementFor, "ns/slice")
	cases := map[string]struct {
		gate         bool
		larger       *utiltestingapi.WorkloadWrapper
		want         string
		wantFinished bool
	}{
		"waits for a check":          {gate: true, larger: larger.Clone().Condition(evicted(kueue.WorkloadEvictedByAdmissionCheck)), want: "larger"},
		"rejected by a check":        {gate: true, larger: larger.Clone().Active(false).Condition(evicted("DeactivatedDueToAdmissionCheck")), want: "larger"},
		"gate off, deactivated":      {larger: larger.Clone().Active(false).Condition(evicted(kueue.WorkloadDeactivated)), want: "slice", wantFinished: true},
		"evicted for another reason": {gate: true, larger: larger.Clone().Condition(evicted(kueue.WorkloadEvictedByPreemption)), want: "slice", wantFinished: true},
		"is to be stopped": {
			gate: true, larger: larger.Clone().SimpleReserveQuota("cq", "flavor", now).Condition(evicted(kueue.WorkloadEvictedByAdmissionCheck)),
			want: "slice", wantFinished: true,
		},
		"gate off": {larger: larger.Clone().Condition(evicted(kueue.WorkloadEvictedByAdmissionCheck)), want: "slice", wantFinished: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			slices := []kueue.Workload{*slice.Clone().Obj(), *tc.larger.Obj()}
			cl := utiltesting.NewClientBuilder().WithObjects(&slices[0], &slices[1]).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			got, err := normalizeActiveSlices(ctx, cl, testingclock.NewFakeClock(now), slices)
			if err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if got.Name != tc.want {
				t.Errorf("Unexpected slice %s, want %s", got.Name, tc.want)
			}
			wl := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(tc.larger.Obj()), wl); err != nil {
				t.Fatalf("Getting the slice: %v", err)
			}
			if finished := workloadfinish.IsFinished(wl); finished != tc.wantFinished {
				t.Errorf("Unexpected end of the slice: %t, want %t", finished, tc.wantFinished)
			}
		})
	}
}
