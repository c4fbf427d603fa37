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

package multikueue

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
)

// A workload that is deactivated has its checks set back to Pending, Rejected ones too.
func TestDeactivatedIsNotRejectedAgain(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		gate, active bool
		want         kueue.CheckState
	}{
		"deactivated":           {gate: true, want: kueue.CheckStatePending},
		"active":                {gate: true, active: true, want: kueue.CheckStateRejected},
		"gate off, deactivated": {want: kueue.CheckStateRejected},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			stored := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Active(tc.active).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "multikueue", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(now)}).Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(stored).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			wl := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), wl); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			r := &wlReconciler{client: cl, clock: testingclock.NewFakeClock(now)}
			if err := r.updateACS(ctx, wl, &wl.Status.AdmissionChecks[0], kueue.CheckStateRejected, "by test"); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), wl); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			if got := wl.Status.AdmissionChecks[0].State; got != tc.want {
				t.Errorf("Unexpected state %s, want %s", got, tc.want)
			}
		})
	}
}
