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
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	queueafs "sigs.k8s.io/kueue/pkg/cache/queue/afs"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption"
	utilqueue "sigs.k8s.io/kueue/pkg/util/queue"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
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
	addQueues(ctx, t, cqCache, qManager, cq, lq)
	cqCache.AddOrUpdateWorkload(log, reserved)
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

// The slice of an elastic job takes over from the one that it replaces, and its cluster,
// when its reservation is written, to the version that it was decided on. If that is
// refused, the other one goes on.
func TestReplacedSliceAfterAnotherWrite(t *testing.T) {
	check := kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending}
	cases := map[string]struct {
		write        func(*kueue.Workload)
		wantReplaced bool
	}{
		"nobody wrote": {wantReplaced: true},
		"somebody wrote what the scheduler does not": {
			write:        func(wl *kueue.Workload) { wl.Labels = map[string]string{"a": "b"} },
			wantReplaced: true,
		},
		"a check asked for a retry": {
			write: func(wl *kueue.Workload) { wl.Status.AdmissionChecks[0].State = kueue.CheckStateRetry },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			ctx, log := utiltesting.ContextWithLog(t)
			rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
			cq := utiltestingapi.MakeClusterQueue("cq").
				ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "3").Obj()).Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
			oldSlice := utiltestingapi.MakeWorkload("old", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").
				SimpleReserveQuota("cq", rf.Name, time.Now()).ClusterName("worker").Obj()
			newSlice := utiltestingapi.MakeWorkload("new", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "2").
				Annotation(workloadslicing.WorkloadSliceReplacementFor, string(workload.Key(oldSlice))).AdmissionChecks(check).Obj()
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, oldSlice, newSlice).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
						if obj.GetName() == "new" && tc.write != nil {
							latest := &kueue.Workload{}
							if err := c.Get(ctx, client.ObjectKeyFromObject(obj), latest); err != nil {
								return err
							}
							if obj.GetResourceVersion() == newSlice.ResourceVersion {
								status := latest.DeepCopy()
								tc.write(status)
								labels := status.DeepCopy()
								if err := c.Status().Update(ctx, status); err != nil {
									return err
								}
								labels.ResourceVersion = status.ResourceVersion
								if err := c.Update(ctx, labels); err != nil {
									return err
								}
							}
							if err := c.Get(ctx, client.ObjectKeyFromObject(obj), latest); err != nil {
								return err
							}
							if obj.GetResourceVersion() != latest.ResourceVersion {
								return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
							}
						}
						return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResource, obj, patch, opts...)
					},
				}).Build()
			for _, wl := range []*kueue.Workload{oldSlice, newSlice} {
				if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
					t.Fatalf("Getting the workload: %v", err)
				}
			}
			cqCache := schdcache.New(cl)
			qManager := newManagerForTest(cl, cqCache)
			cqCache.AddOrUpdateResourceFlavor(log, rf)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			snapshot, err := cqCache.Snapshot(ctx)
			if err != nil {
				t.Fatalf("Taking a snapshot: %v", err)
			}
			scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
			var wg sync.WaitGroup
			scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))

			e := newEntry(newSlice.DeepCopy())
			e.status, e.ClusterQueue = nominated, "cq"
			e.Obj.Status.ClusterName = oldSlice.Status.ClusterName // as the scheduler has it by then
			if err := scheduler.admit(ctx, e, snapshot.ClusterQueue("cq"), &preemption.Target{WorkloadInfo: workload.NewInfo(oldSlice)}); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			wg.Wait()

			for _, wl := range []*kueue.Workload{oldSlice, newSlice} {
				if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
					t.Fatalf("Getting the workload: %v", err)
				}
			}
			if got := workload.HasQuotaReservation(newSlice); got != tc.wantReplaced {
				t.Errorf("Unexpected quota of the new slice: %t, want %t", got, tc.wantReplaced)
			}
			if got := workload.ClusterName(newSlice) == "worker"; got != tc.wantReplaced {
				t.Errorf("Unexpected cluster of the new slice: %q", workload.ClusterName(newSlice))
			}
			if got := workloadfinish.IsFinished(oldSlice); got != tc.wantReplaced {
				t.Errorf("Unexpected end of the old slice: %t, want %t", got, tc.wantReplaced)
			}
		})
	}
}

// The usage of a LocalQueue is charged for a reservation while it is written: one that is
// refused takes back nothing of the next one's.
func TestPenaltyOfTheNextReservation(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, log := utiltesting.ContextWithLog(t)
	fairSharing := &config.AdmissionFairSharing{
		UsageHalfLifeTime: metav1.Duration{Duration: time.Hour}, UsageSamplingInterval: metav1.Duration{Duration: time.Minute},
		ResourceWeights: map[corev1.ResourceName]float64{corev1.ResourceCPU: 1},
	}
	rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj()).
		AdmissionMode(kueue.UsageBasedAdmissionFairSharing).Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
	wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).UID("wl").Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
	isRefused := false
	cl := newRefusingClient(func(client.Object) bool { return isRefused }, rf, cq, lq, wl)
	cqCache := schdcache.New(cl, schdcache.WithAdmissionFairSharing(fairSharing))
	qManager := newManagerForTest(cl, cqCache, qcache.WithAdmissionFairSharing(fairSharing))
	cqCache.AddOrUpdateResourceFlavor(log, rf)
	addQueues(ctx, t, cqCache, qManager, cq, lq)
	scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{}, WithAdmissionFairSharing(fairSharing))
	var writes []func()
	scheduler.setAdmissionRoutineWrapper(heldBack(func(write func()) { writes = append(writes, write) }))
	scheduler.schedule(ctx)
	if err := deactivated(log, cqCache, qManager, wl); err != nil {
		t.Fatalf("Deactivating the workload: %v", err)
	}
	lqKey := utilqueue.NewLocalQueueReference(metav1.NamespaceDefault, "lq")
	qManager.AfsUsageLedger.SubPenalty(lqKey, queueafs.WorkloadReference(workload.Key(wl)))
	if err := addToQueues(log, qManager, wl); err != nil {
		t.Fatalf("Queueing the workload again: %v", err)
	}
	scheduler.schedule(ctx)
	if len(writes) != 2 {
		t.Fatalf("Unexpected number of reservations: %d, want 2", len(writes))
	}
	isRefused = true
	writes[0]()
	if !qManager.AfsUsageLedger.HasPendingPenalty(lqKey) {
		t.Error("The LocalQueue is charged for nothing while the next reservation is written")
	}
}
