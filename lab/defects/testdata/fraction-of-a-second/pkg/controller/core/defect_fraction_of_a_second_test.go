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
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectFractionOfASecond: with the gate WorkloadRequestUseMergePatch. A check says Retry with
// requeueAfterSeconds and a lastTransitionTime with a fraction of a second, as clients in Python
// write it. The Workload is not retried after the delay, and keeps its quota, unused, for good.
// requeueAt is stored in whole seconds, and so is always before what the check asks for:
// NeedsRequeueAtUpdate (pkg/workload/admissionchecks.go:221) asks for one more write. It changes
// nothing, so no event follows, and Reconcile does not ask to be called again
// (pkg/controller/core/workload_controller.go:420).
// Right: whole seconds are compared.
func TestDefectFractionOfASecond(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		SimpleReserveQuota("cq", "default", now).
		AdmissionChecks(kueue.AdmissionCheckState{
			Name: "check", State: kueue.CheckStateRetry, RequeueAfterSeconds: new(int32(60)), LastTransitionTime: metav1.NewTime(now),
		}).
		Obj()
	cl := utiltesting.NewClientBuilder().
		WithObjects(wl).
		WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{
			// The fake client stores whole seconds. The API server stores what it is sent.
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				err := c.Get(ctx, key, obj, opts...)
				if wl, isWorkload := obj.(*kueue.Workload); isWorkload && err == nil {
					wl.Status.AdmissionChecks[0].LastTransitionTime = metav1.NewTime(now.Add(500 * time.Millisecond))
				}
				return err
			},
		}).
		Build()
	cqCache := schdcache.New(cl)
	reconciler := NewWorkloadReconciler(cl, qcache.NewManagerForUnitTests(cl, cqCache), cqCache, &utiltesting.EventRecorder{})
	reconciler.clock = testingclock.NewFakeClock(now.Add(time.Second))

	// The first one writes requeueAt. That is an event, and causes the second one.
	var result reconcile.Result
	for range 2 {
		var err error
		if result, err = reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(wl)}); err != nil {
			t.Fatalf("Reconciling: %v", err)
		}
	}
	if result.RequeueAfter == 0 {
		t.Error("A check asks for a retry in a minute, and nothing looks at the Workload when the minute is over: it waits for good, and keeps its quota")
	}
}
