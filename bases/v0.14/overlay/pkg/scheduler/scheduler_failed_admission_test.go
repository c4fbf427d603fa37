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

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

var errFailedWrite = errors.New("the write failed")

func TestCacheAfterFailedAdmission(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	baseWl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).
		Queue("lq").
		Request(corev1.ResourceCPU, "1").
		ResourceVersion("1")
	reservedWl := baseWl.Clone().
		ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").
			PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).
				Assignment(corev1.ResourceCPU, "rf", "1").
				Obj()).
			Obj(), now).
		AdmittedAt(true, now)

	cases := map[string]struct {
		// workload is what the scheduler tries to admit.
		workload *kueue.Workload
		// workloadInClient is what the client has when the write fails.
		workloadInClient *kueue.Workload
		// event is what an event adds to the cache before the write fails.
		event *kueue.Workload
		// wantVersion is the resource version in the cache, or empty if there is none.
		wantVersion string
	}{
		"first pass": {
			workload:         baseWl.Clone().Obj(),
			workloadInClient: baseWl.Clone().Obj(),
		},
		"second pass of a workload which holds quota": {
			workload:         reservedWl.Clone().UnhealthyNodes("node").Obj(),
			workloadInClient: reservedWl.Clone().UnhealthyNodes("node").ResourceVersion("2").Obj(),
			wantVersion:      "2",
		},
		"second pass of a workload whose quota was released": {
			workload:         reservedWl.Clone().UnhealthyNodes("node").Obj(),
			workloadInClient: baseWl.Clone().ResourceVersion("2").Obj(),
		},
		"second pass of a workload which was deactivated": {
			workload:         reservedWl.Clone().UnhealthyNodes("node").Obj(),
			workloadInClient: reservedWl.Clone().Active(false).ResourceVersion("2").Obj(),
		},
		"first pass of a workload whose next reservation is in the cache": {
			workload:         baseWl.Clone().Obj(),
			workloadInClient: reservedWl.Clone().ResourceVersion("2").Obj(),
			event:            reservedWl.Clone().ResourceVersion("3").Obj(),
			wantVersion:      "3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, log := utiltesting.ContextWithLog(t)
			rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
			cq := utiltestingapi.MakeClusterQueue("cq").
				ResourceGroup(*utiltestingapi.MakeFlavorQuotas("rf").Resource(corev1.ResourceCPU, "2").Obj()).
				Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue("cq").Obj()
			var cqCache *schdcache.Cache
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, tc.workloadInClient).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
						if tc.event != nil {
							cqCache.AddOrUpdateWorkload(log, tc.event)
						}
						return errFailedWrite
					},
				}).
				Build()
			cqCache = schdcache.New(cl)
			qManager := qcache.NewManager(cl, cqCache)
			cqCache.AddOrUpdateResourceFlavor(log, rf)
			if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
				t.Fatalf("Failed adding ClusterQueue to the cache: %v", err)
			}
			if err := qManager.AddClusterQueue(ctx, cq); err != nil {
				t.Fatalf("Failed adding ClusterQueue to the queues: %v", err)
			}
			if err := qManager.AddLocalQueue(ctx, lq); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			snapshot, err := cqCache.Snapshot(ctx)
			if err != nil {
				t.Fatalf("Failed taking a snapshot: %v", err)
			}
			scheduler := New(qManager, cqCache, cl, &utiltesting.EventRecorder{})
			var wg sync.WaitGroup
			scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))

			e := &entry{Info: *workload.NewInfo(tc.workload), status: nominated}
			e.ClusterQueue = "cq"
			if err := scheduler.admit(ctx, e, snapshot.ClusterQueue("cq"), nil); err != nil {
				t.Fatalf("Failed to admit: %v", err)
			}
			wg.Wait()

			if snapshot, err = cqCache.Snapshot(ctx); err != nil {
				t.Fatalf("Failed taking a snapshot: %v", err)
			}
			gotVersion := ""
			if info := snapshot.ClusterQueue("cq").Workloads[workload.Key(tc.workload)]; info != nil {
				gotVersion = info.Obj.ResourceVersion
			}
			if diff := cmp.Diff(tc.wantVersion, gotVersion); diff != "" {
				t.Errorf("Unexpected version of the workload in the cache (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestScheduleAfterFailedAdmission verifies that the next attempt does not begin with the
// flavor after the one whose write failed.
func TestScheduleAfterFailedAdmission(t *testing.T) {
	ctx, log := utiltesting.ContextWithLog(t)
	wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(
			*utiltestingapi.MakeFlavorQuotas("free").Resource(corev1.ResourceCPU, "1").Obj(),
			*utiltestingapi.MakeFlavorQuotas("none").Resource(corev1.ResourceCPU, "0").Obj(),
		).
		Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue("cq").Obj()
	failures := 1
	cl := utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), cq, lq, wl).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, cl client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if failures > 0 {
					failures--
					return errFailedWrite
				}
				return utiltesting.TreatSSAAsStrategicMerge(ctx, cl, subResourceName, obj, patch, opts...)
			},
		}).
		Build()
	cqCache := schdcache.New(cl)
	qManager := qcache.NewManager(cl, cqCache)
	for _, name := range []string{"free", "none"} {
		cqCache.AddOrUpdateResourceFlavor(log, utiltestingapi.MakeResourceFlavor(name).Obj())
	}
	if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Failed adding ClusterQueue to the cache: %v", err)
	}
	if err := qManager.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Failed adding ClusterQueue to the queues: %v", err)
	}
	if err := qManager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Failed adding LocalQueue: %v", err)
	}
	scheduler := New(qManager, cqCache, cl, &utiltesting.EventRecorder{})
	var wg sync.WaitGroup
	scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() { wg.Add(1) }, wg.Done))

	for cycle, wantReserved := range []bool{false, true} {
		scheduler.schedule(ctx)
		wg.Wait()
		gotWl := &kueue.Workload{}
		if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), gotWl); err != nil {
			t.Fatalf("Failed getting the workload: %v", err)
		}
		if diff := cmp.Diff(wantReserved, workload.HasQuotaReservation(gotWl)); diff != "" {
			t.Errorf("Unexpected quota reservation after cycle %d (-want,+got):\n%s", cycle+1, diff)
		}
	}
}
