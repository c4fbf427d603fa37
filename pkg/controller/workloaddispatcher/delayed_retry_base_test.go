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

package workloaddispatcher

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utilmaps "sigs.k8s.io/kueue/pkg/util/maps"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// A workload that is evicted for a retry, and whose job has to be stopped, gets other
// workers whatever the state that its check keeps.
func TestNominatesForEvictedForRetry(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		gate    bool
		state   kueue.CheckState
		evicted bool
		want    []string
	}{
		"its own retry":            {gate: true, state: kueue.CheckStateRetry, evicted: true, want: []string{"worker"}},
		"the retry of another one": {gate: true, state: kueue.CheckStateReady, evicted: true, want: []string{"worker"}},
		"gate off":                 {state: kueue.CheckStatePending, evicted: true, want: []string{"worker"}},
		"not evicted":              {gate: true, state: kueue.CheckStateReady},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := utiltestingapi.MakeWorkload("wl", "ns").SimpleReserveQuota("cq", "flavor", now).AdmittedAt(true, now).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "multikueue", State: tc.state, LastTransitionTime: metav1.NewTime(now)})
			if tc.evicted {
				wl.Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck})
			}
			ac := utiltestingapi.MakeAdmissionCheck("multikueue").ControllerName(kueue.MultiKueueControllerName).
				Parameters(kueue.SchemeGroupVersion.Group, "MultiKueueConfig", "config").Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(wl.Obj(), ac, utiltestingapi.MakeMultiKueueConfig("config").Clusters("worker").Obj()).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			helper, err := admissioncheck.NewMultiKueueStoreHelper(cl)
			if err != nil {
				t.Fatalf("Making the helper: %v", err)
			}
			rec := &IncrementalDispatcherReconciler{
				client: cl, helper: helper, clock: testingclock.NewFakeClock(now),
				roundStartTimes: utilmaps.NewSyncMap[types.NamespacedName, time.Time](0),
			}
			key := client.ObjectKeyFromObject(wl.Obj())
			if _, err := rec.Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			got := &kueue.Workload{}
			if err := cl.Get(ctx, key, got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			if !slices.Equal(got.Status.NominatedClusterNames, tc.want) {
				t.Errorf("Unexpected workers %v, want %v", got.Status.NominatedClusterNames, tc.want)
			}
		})
	}
}
