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
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// A workload is queued again before the event of its release is handled. The
// scheduler does not try it, and then the event must put it back.
func TestReleaseAfterHeadWasPassedOver(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, log := utiltesting.ContextWithLog(t)
	rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj()).Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
	wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1")
	reserved := wl.Clone().SimpleReserveQuota("cq", rf.Name, time.Now()).Obj()
	cl := utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, wl.Obj()).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
	cqCache := schdcache.New(cl)
	qManager := newManagerForTest(cl, cqCache)
	cqCache.AddOrUpdateResourceFlavor(log, rf)
	if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Inserting ClusterQueue in cache: %v", err)
	}
	cqCache.AddOrUpdateWorkload(log, reserved)
	if err := qManager.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Inserting ClusterQueue in manager: %v", err)
	}
	if err := qManager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Inserting LocalQueue in manager: %v", err)
	}
	scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
	var wg sync.WaitGroup
	scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))
	scheduler.schedule(ctx)

	got := &kueue.Workload{}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(reserved), got); err != nil {
		t.Fatalf("Getting the workload: %v", err)
	}
	if err := cqCache.DeleteWorkload(log, workload.Key(got)); err != nil {
		t.Fatalf("Deleting the workload from the cache: %v", err)
	}
	if err := qManager.AddOrUpdateWorkload(log, got); err != nil {
		t.Fatalf("Queueing the workload: %v", err)
	}
	if pending, err := qManager.Pending(cq); err != nil || pending != 1 {
		t.Fatalf("Unexpected number of pending workloads: %d (%v), want 1", pending, err)
	}
	if active := qManager.Dump()["cq"]; len(active) != 1 {
		t.Fatalf("Unexpected workloads in the heap: %v, want the one that was released", active)
	}
	scheduler.schedule(ctx)
	wg.Wait()
	if err := cl.Get(ctx, client.ObjectKeyFromObject(reserved), got); err != nil {
		t.Fatalf("Getting the workload: %v", err)
	}
	if !workload.HasQuotaReservation(got) {
		t.Error("The workload has no quota")
	}
}
