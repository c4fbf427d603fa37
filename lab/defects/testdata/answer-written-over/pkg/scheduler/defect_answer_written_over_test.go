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

package scheduler

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectAnswerWrittenOver: a check rejects a Workload while the scheduler reserves quota for it.
// The answer is gone: the check is Pending again, and the Workload is not deactivated. A Retry is
// lost in the same way.
// The reservation is an apply without the version that the scheduler saw
// (pkg/scheduler/scheduler.go:997), and has the states of all checks in it
// (pkg/workload/patching/patching.go:144), although it changes none of them.
// Right: the answer stays, whether the quota is reserved or not.
func TestDefectAnswerWrittenOver(t *testing.T) {
	ctx, log := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	check := utiltestingapi.MakeAdmissionCheck("check").Active(metav1.ConditionTrue).Obj()
	rf := utiltestingapi.MakeResourceFlavor("default").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas("default").Resource(corev1.ResourceCPU, "1").Obj()).
		AdmissionChecks("check").
		Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj()
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		Request(corev1.ResourceCPU, "1").
		AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(now)}).
		Obj()

	var said sync.Once
	cl := utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace("ns"), wl).
		WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				said.Do(func() {
					// The check speaks when the scheduler has decided already.
					current := &kueue.Workload{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(obj), current); err != nil {
						t.Errorf("Reading the Workload: %v", err)
					}
					current.Status.AdmissionChecks[0].State = kueue.CheckStateRejected
					if err := c.Status().Update(ctx, current); err != nil {
						t.Errorf("Updating the check: %v", err)
					}
				})
				return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResourceName, obj, patch, opts...)
			},
		}).
		Build()
	cqCache := schdcache.New(cl)
	qManager := qcache.NewManagerForUnitTests(cl, cqCache)
	cqCache.AddOrUpdateResourceFlavor(log, rf)
	cqCache.AddOrUpdateAdmissionCheck(log, check)
	if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue to the cache: %v", err)
	}
	if err := qManager.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue to the queues: %v", err)
	}
	if err := qManager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}
	scheduler := New(qManager, cqCache, cl, &utiltesting.EventRecorder{},
		WithClock(t, testingclock.NewFakeClock(now)), WithPreemptionExpectations(preemptexpectations.New()))
	wg := sync.WaitGroup{}
	scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, func() { wg.Done() }))

	scheduler.schedule(ctx)
	wg.Wait()

	if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
		t.Fatalf("Reading the Workload: %v", err)
	}
	if got := wl.Status.AdmissionChecks[0].State; got != kueue.CheckStateRejected {
		t.Errorf("A check said Rejected while the scheduler reserved quota, and the write of the scheduler took the answer back: the check is %s", got)
	}
}
