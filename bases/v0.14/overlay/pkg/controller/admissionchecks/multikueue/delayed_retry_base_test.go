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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	config "sigs.k8s.io/kueue/apis/config/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
)

// A workload that was evicted for the retry of another check keeps its check Ready, but
// not the name of the cluster. That is no reason to ask for a retry of it.
func TestEvictedForRetryNeedsNoWorker(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		gate      bool
		evicted   bool
		wantState kueue.CheckState
	}{
		"evicted, and the worker cannot be reached": {gate: true, evicted: true, wantState: kueue.CheckStateReady},
		"not evicted, without a worker":             {gate: true, wantState: kueue.CheckStateRetry},
		"gate off, without a worker":                {evicted: true, wantState: kueue.CheckStateRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			local := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now.Add(-time.Minute)).
				AdmissionChecks(
					kueue.AdmissionCheckState{Name: "multikueue", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)), RetryCount: ptr.To[int32](2)},
					kueue.AdmissionCheckState{Name: "budget", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RequeueAfterSeconds: ptr.To[int32](60)},
				)
			if tc.evicted {
				local.Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck})
			}
			cl := utiltesting.NewClientBuilder().WithObjects(local.Obj()).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			group := &wlGroup{
				local:   &kueue.Workload{},
				remotes: map[string]*kueue.Workload{"worker": nil},
				acName:  "multikueue",
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(local.Obj()), group.local); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			r := &wlReconciler{client: cl, clock: testingclock.NewFakeClock(now), recorder: &utiltesting.EventRecorder{}, workerLostTimeout: defaultWorkerLostTimeout}
			if _, err := r.reconcileGroup(ctx, group); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			got := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(local.Obj()), got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			wantCount := int32(2)
			if tc.gate && tc.wantState == kueue.CheckStateRetry {
				wantCount = 0 // it has succeeded
			}
			want := []kueue.AdmissionCheckState{
				{Name: "multikueue", State: tc.wantState, RetryCount: &wantCount},
				{Name: "budget", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](60)},
			}
			if diff := cmp.Diff(want, got.Status.AdmissionChecks, cmpopts.IgnoreFields(kueue.AdmissionCheckState{}, "LastTransitionTime", "Message")); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
		})
	}
}

// The job of a workload that is evicted for a retry is stopped where it runs. If that
// worker is gone, another one has to tell that it does not run, whatever the state that
// the check keeps: until then the workload keeps its quota.
func TestEvictedForRetryIsStoppedByAnotherWorker(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		gate  bool
		state kueue.CheckState
		other kueue.CheckState
	}{
		"its own retry":            {gate: true, state: kueue.CheckStateRetry, other: kueue.CheckStateReady},
		"the retry of another one": {gate: true, state: kueue.CheckStateReady, other: kueue.CheckStateRetry},
		"gate off":                 {state: kueue.CheckStatePending, other: kueue.CheckStateReady},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			local := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now.Add(-time.Minute)).Admitted(true).
				AdmissionChecks(
					kueue.AdmissionCheckState{Name: "multikueue", State: tc.state, LastTransitionTime: metav1.NewTime(now)},
					kueue.AdmissionCheckState{Name: "budget", State: tc.other, LastTransitionTime: metav1.NewTime(now)},
				).
				Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}).Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(local).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			worker := utiltesting.NewClientBuilder().Build()
			remote := newRemoteClient(cl, nil, nil, "origin", "another", nil)
			remote.client = worker
			group := &wlGroup{
				local:         &kueue.Workload{},
				remotes:       map[string]*kueue.Workload{"another": nil},
				remoteClients: map[string]*remoteClient{"another": remote},
				acName:        "multikueue",
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(local), group.local); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			r := &wlReconciler{
				client: cl, clock: testingclock.NewFakeClock(now), recorder: &utiltesting.EventRecorder{}, workerLostTimeout: defaultWorkerLostTimeout,
				dispatcherName: config.MultiKueueDispatcherModeAllAtOnce,
			}
			if _, err := r.reconcileGroup(ctx, group); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err := worker.Get(ctx, client.ObjectKeyFromObject(local), &kueue.Workload{}); err != nil {
				t.Errorf("Getting the workload of the worker: %v", err)
			}
		})
	}
}

// A copy that was deactivated for an eviction which is over is removed. The controller
// would wait without end for the workload to give its quota back.
func TestCopyOfAnEvictionBeforeIsRemoved(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		gate, evicted bool
		want          bool
	}{
		"the eviction is over":             {gate: true, want: true},
		"the job is to be stopped":         {gate: true, evicted: true},
		"gate off, the eviction is over":   {},
		"gate off, the job is to be ended": {evicted: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			evicted := func(reason string) metav1.Condition {
				return metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason}
			}
			local := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "multikueue", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(now)})
			if tc.evicted {
				local.Condition(evicted(kueue.WorkloadEvictedByAdmissionCheck))
			}
			remote := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Active(false).
				Condition(evicted(kueue.WorkloadDeactivated + "DueTo" + kueue.WorkloadEvictedOnManagerCluster)).Obj()
			job := utiltestingjob.MakeJob("job", metav1.NamespaceDefault).Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(local.Obj(), job).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			worker := utiltesting.NewClientBuilder().WithObjects(remote).Build()
			rc := newRemoteClient(cl, nil, nil, "origin", "worker", nil)
			rc.client = worker
			adapters, err := jobframework.GetMultiKueueAdapters(sets.New("batch/job"))
			if err != nil {
				t.Fatalf("Getting the adapters: %v", err)
			}
			group := &wlGroup{
				local: &kueue.Workload{}, remotes: map[string]*kueue.Workload{"worker": {}}, remoteClients: map[string]*remoteClient{"worker": rc},
				acName: "multikueue", jobAdapter: adapters[batchv1.SchemeGroupVersion.WithKind("Job").String()], controllerKey: client.ObjectKeyFromObject(job),
			}
			key := client.ObjectKeyFromObject(remote)
			if err := cl.Get(ctx, key, group.local); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			if err := worker.Get(ctx, key, group.remotes["worker"]); err != nil {
				t.Fatalf("Getting the copy: %v", err)
			}
			r := &wlReconciler{
				client: cl, clock: testingclock.NewFakeClock(now), recorder: &utiltesting.EventRecorder{}, workerLostTimeout: defaultWorkerLostTimeout,
				dispatcherName: config.MultiKueueDispatcherModeIncremental,
			}
			if _, err := r.reconcileGroup(ctx, group); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err := worker.Get(ctx, key, &kueue.Workload{}); apierrors.IsNotFound(err) != tc.want {
				t.Errorf("Unexpected end of the copy: %v, want it removed: %t", err, tc.want)
			}
		})
	}
}
