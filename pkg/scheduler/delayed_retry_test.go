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
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The scheduler writes that a workload waits for another to be ready. That write
// must not make its reservation fail; one of a check in the meantime must.
func TestScheduleAfterWaitingForPodsReady(t *testing.T) {
	for _, mergePatch := range []bool{false, true} {
		for _, checkSpeaks := range []bool{false, true} {
			t.Run(fmt.Sprintf("WorkloadRequestUseMergePatch=%t, a check speaks meanwhile: %t", mergePatch, checkSpeaks), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
				features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, mergePatch)
				synctest.Test(t, func(t *testing.T) {
					ctx, log := utiltesting.ContextWithLog(t)
					now := time.Now()
					rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
					cq := utiltestingapi.MakeClusterQueue("cq").
						ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "2").Obj()).Obj()
					lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
					wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
					running := utiltestingapi.MakeWorkload("running", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").
						SimpleReserveQuota(cq.Name, rf.Name, now).AdmittedAt(true, now)
					cl := utiltesting.NewClientBuilder().
						WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, wl).
						WithStatusSubresource(&kueue.Workload{}).
						WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
					cqCache := schdcache.New(cl, schdcache.WithPodsReadyTracking(true))
					qManager := qcache.NewManager(cl, cqCache)
					cqCache.AddOrUpdateResourceFlavor(log, rf)
					if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
						t.Fatalf("Inserting ClusterQueue in cache: %v", err)
					}
					cqCache.AddOrUpdateWorkload(log, running.Obj())
					if err := qManager.AddClusterQueue(ctx, cq); err != nil {
						t.Fatalf("Inserting ClusterQueue in manager: %v", err)
					}
					if err := qManager.AddLocalQueue(ctx, lq); err != nil {
						t.Fatalf("Inserting LocalQueue in manager: %v", err)
					}
					scheduler := New(qManager, cqCache, cl, &utiltesting.EventRecorder{})
					go scheduler.schedule(ctx)
					synctest.Wait()

					got := &kueue.Workload{}
					read := func() {
						if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
							t.Fatalf("Getting the workload: %v", err)
						}
					}
					if read(); len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Reason != "Waiting" {
						t.Fatalf("Unexpected conditions of a workload that waits for another: %v", got.Status.Conditions)
					}
					if checkSpeaks {
						got.Status.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "check", State: kueue.CheckStateRetry}}
						if err := cl.Status().Update(ctx, got); err != nil {
							t.Fatalf("Updating the workload: %v", err)
						}
					}
					ready := running.Clone().Condition(metav1.Condition{Type: kueue.WorkloadPodsReady, Status: metav1.ConditionTrue}).Obj()
					if err := cqCache.UpdateWorkload(log, running.Obj(), ready); err != nil {
						t.Fatalf("Updating the other workload in cache: %v", err)
					}
					synctest.Wait()
					read()
					if reserved := workload.HasQuotaReservation(got); reserved == checkSpeaks {
						t.Errorf("Unexpected quota reservation: %t, want %t", reserved, !checkSpeaks)
					}
				})
			})
		}
	}
}
