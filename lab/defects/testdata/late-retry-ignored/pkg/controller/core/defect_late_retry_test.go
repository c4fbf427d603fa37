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

package core

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// TestDefectLateRetryIgnored: two checks say Retry. The Workload is evicted for the first one, and
// has released its quota when the second one speaks. It is pending for good then, with "The
// workload has failed admission checks", although there is quota for it.
// The scheduler takes no Workload with a check in Retry (pkg/scheduler/scheduler.go:674), and only
// Workloads that hold quota have their checks reset
// (pkg/controller/core/workload_controller.go:833).
// Right: the check is Pending again, as after any other Retry.
func TestDefectLateRetryIgnored(t *testing.T) {
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		AdmissionChecks(
			kueue.AdmissionCheckState{Name: "first", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(now)},
			kueue.AdmissionCheckState{Name: "late", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now)},
		).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}).
		Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: kueue.WorkloadPending}).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished}).
		Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").AdmissionChecks("first", "late").Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj()
	cl := utiltesting.NewClientBuilder().
		WithObjects(wl, cq, lq).
		WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		Build()
	cqCache := schdcache.New(cl)
	qManager := qcache.NewManagerForUnitTests(cl, cqCache)
	if err := qManager.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	if err := qManager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}
	reconciler := NewWorkloadReconciler(cl, qManager, cqCache, &utiltesting.EventRecorder{})
	reconciler.clock = testingclock.NewFakeClock(now)

	// Each write causes one more reconcile. Three are enough for it to come to rest.
	for range 3 {
		if _, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(wl)}); err != nil {
			t.Fatalf("Reconciling: %v", err)
		}
	}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
		t.Fatalf("Reading the Workload: %v", err)
	}
	if workload.HasRetryChecks(wl) {
		t.Error("A check said Retry when the quota was released already, and nobody resets it: the Workload is pending for good")
	}
}
