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
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestReconcileGroupWithoutRemote(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	cases := map[string]struct {
		gateOff bool
		evicted bool
		want    kueue.CheckState
	}{
		"evicted":           {evicted: true, want: kueue.CheckStateReady},
		"not evicted":       {want: kueue.CheckStateRetry},
		"gate off, evicted": {gateOff: true, evicted: true, want: kueue.CheckStateRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			// The job is still running.
			wrapper := utiltestingapi.MakeWorkload("wl", TestNamespace).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now).
				AdmittedAt(true, now).
				AdmissionCheck(kueue.AdmissionCheckState{
					Name:               "ac",
					State:              kueue.CheckStateReady,
					LastTransitionTime: metav1.NewTime(now.Add(-2 * defaultWorkerLostTimeout)),
				})
			if tc.evicted {
				wrapper.Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck})
			} else {
				wrapper.ClusterName("worker")
			}
			local := wrapper.Obj()
			localClient := getClientBuilder(ctx).WithObjects(local).WithStatusSubresource(local).Build()
			reconciler := &wlReconciler{
				client:            localClient,
				clock:             testingclock.NewFakeClock(now),
				origin:            defaultOrigin,
				workerLostTimeout: defaultWorkerLostTimeout,
				recorder:          &utiltesting.EventRecorder{},
				dispatcherName:    config.MultiKueueDispatcherModeAllAtOnce,
			}
			_, err := reconciler.reconcileGroup(ctx, &wlGroup{
				local:         local,
				remotes:       map[string]*kueue.Workload{"worker": nil},
				remoteClients: map[string]*remoteClient{"worker": {origin: defaultOrigin}},
				acName:        "ac",
				controllerKey: types.NamespacedName{Name: "job", Namespace: TestNamespace},
			})
			if err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			got := &kueue.Workload{}
			if err := localClient.Get(ctx, client.ObjectKeyFromObject(local), got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			if state := got.Status.AdmissionChecks[0].State; state != tc.want {
				t.Errorf("Unexpected state of the check: want=%s, got=%s", tc.want, state)
			}
		})
	}
}
