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
	"context"
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
)

// TestDefectWrittenWithoutEnd: a check asks for a retry in an hour, for a Workload that somebody has
// deactivated. Kueue writes its status again and again, without a pause, for an hour.
// Reconcile records the time of the check in requeueAt, whether the Workload is active or not
// (pkg/controller/core/workload_controller.go:420). The next Reconcile removes requeueAt, as the
// Workload is not active (line 685), and leaves the check as it is. Each write causes the next.
// Right: no time is recorded for a Workload that is not active.
func TestDefectWrittenWithoutEnd(t *testing.T) {
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		Active(false).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadDeactivated}).
		Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: kueue.WorkloadPending}).
		AdmissionChecks(kueue.AdmissionCheckState{
			Name: "check", State: kueue.CheckStateRetry, RequeueAfterSeconds: new(int32(3600)), LastTransitionTime: metav1.NewTime(now),
		}).
		Obj()
	writes := 0
	cl := utiltesting.NewClientBuilder().
		WithObjects(wl).
		WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				writes++
				return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResourceName, obj, patch, opts...)
			},
		}).
		Build()
	cqCache := schdcache.New(cl)
	reconciler := NewWorkloadReconciler(cl, qcache.NewManagerForUnitTests(cl, cqCache), cqCache, &utiltesting.EventRecorder{})
	reconciler.clock = testingclock.NewFakeClock(now)

	for range 20 {
		if _, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(wl)}); err != nil {
			t.Fatalf("Reconciling: %v", err)
		}
	}
	if writes > 5 {
		t.Errorf("A deactivated Workload whose check asks for a retry in an hour was written %d times in 20 reconciles: each write causes the next one, without a pause", writes)
	}
}
