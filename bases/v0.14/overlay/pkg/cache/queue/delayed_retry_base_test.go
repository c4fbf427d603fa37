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

package queue

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/resources"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.DynamicResourceAllocation

func newClusterQueueForTest(ctx context.Context, clk clock.Clock) *ClusterQueue {
	return newClusterQueueImpl(ctx, nil, defaultOrdering, clk, nil, false, nil, nil)
}

func newManagerForTest(cl client.Client) *Manager {
	return newManagerWithChecker(cl, nil)
}

func newManagerWithChecker(cl client.Client, checker StatusChecker) *Manager {
	return NewManager(cl, checker)
}

func retryInadmissible(ctx context.Context, manager *Manager, cq kueue.ClusterQueueReference) {
	manager.QueueInadmissibleWorkloads(ctx, sets.New(cq))
}

func addFromLocalQueue(cq *ClusterQueue, lq *LocalQueue) bool {
	return cq.AddFromLocalQueue(lq)
}

func addOrUpdateWorkload(_ context.Context, manager *Manager, wl *kueue.Workload) error {
	return manager.AddOrUpdateWorkload(wl)
}

func updateWorkload(_ context.Context, manager *Manager, old, wl *kueue.Workload) error {
	return manager.UpdateWorkload(old, wl)
}

func requeueWorkload(ctx context.Context, manager *Manager, info *workload.Info, reason RequeueReason) bool {
	return manager.RequeueWorkload(ctx, info, reason)
}

// releaseQuota returns whether a workload is to be tried again.
func releaseQuota(ctx context.Context, cq *ClusterQueue, cl client.Client) bool {
	return cq.QueueInadmissibleWorkloads(ctx, cl)
}

func deleteLocalQueue(_ context.Context, manager *Manager, lq *kueue.LocalQueue) {
	manager.DeleteLocalQueue(lq)
}

func popHead(manager *Manager, cq kueue.ClusterQueueReference) {
	manager.getClusterQueue(cq).Pop()
}

// A job may be scaled, and pods of it may succeed, while the scheduler tries its workload.
func TestRequeueWorkloadThatAsksForOthersNow(t *testing.T) {
	base := utiltestingapi.MakeWorkload("wl", defaultNamespace).UID("uid").Queue("lq").Generation(1)
	pods := func(count int) *utiltestingapi.WorkloadWrapper {
		return base.Clone().PodSets(*utiltestingapi.MakePodSet(kueue.DefaultPodSetName, count).Limit(corev1.ResourceCPU, "1").Obj())
	}
	cases := map[string]struct {
		gateOff        bool
		judged, stored *kueue.Workload
		want           resources.Requests
	}{
		"as it was judged": {
			judged: pods(2).Obj(),
			stored: pods(2).Obj(),
			want:   resources.Requests{corev1.ResourceCPU: 2000},
		},
		"it was scaled, with the gate off, as the base": {
			gateOff: true,
			judged:  pods(2).Obj(),
			stored:  pods(3).Generation(2).Obj(),
			want:    resources.Requests{corev1.ResourceCPU: 2000},
		},
		"it was scaled": {
			judged: pods(2).Obj(),
			stored: pods(3).Generation(2).Obj(),
			want:   resources.Requests{corev1.ResourceCPU: 3000},
		},
		"it was deleted, and created again": {
			judged: pods(2).Obj(),
			stored: pods(3).UID("other").Obj(),
			want:   resources.Requests{corev1.ResourceCPU: 3000},
		},
		"a pod has succeeded": {
			judged: pods(2).Obj(),
			stored: pods(2).ReclaimablePods(kueue.ReclaimablePod{Name: kueue.DefaultPodSetName, Count: 1}).Obj(),
			want:   resources.Requests{corev1.ResourceCPU: 1000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace), tc.stored)
			manager := newManagerForTest(cl)
			if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding ClusterQueue: %v", err)
			}
			if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
				t.Fatalf("Failed adding LocalQueue: %v", err)
			}
			popHead(manager, "cq")
			workload.AdjustResources(ctx, cl, tc.judged)
			if !requeueWorkload(ctx, manager, workload.NewInfo(tc.judged), RequeueReasonFailedAfterNomination) {
				t.Fatal("The workload was not put back")
			}
			head := manager.getClusterQueue("cq").Pop()
			if diff := cmp.Diff(tc.want, head.TotalRequests[0].Requests); diff != "" {
				t.Errorf("Unexpected requests (-want,+got):\n%s", diff)
			}
		})
	}
}

// A workload that is deactivated while the scheduler tries to reserve quota for it
// must not come back into the queue.
func TestRequeueDeactivatedWorkload(t *testing.T) {
	for _, gate := range []bool{false, true} {
		for _, active := range []bool{false, true} {
			t.Run(fmt.Sprintf("gate %t, active %t", gate, active), func(t *testing.T) {
				features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
				ctx, _ := utiltesting.ContextWithLog(t)
				wl := utiltestingapi.MakeWorkload("wl", defaultNamespace).Queue("lq")
				cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
				manager := newManagerForTest(cl)
				if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
					t.Fatalf("Failed adding ClusterQueue: %v", err)
				}
				if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", defaultNamespace).ClusterQueue("cq").Obj()); err != nil {
					t.Fatalf("Failed adding LocalQueue: %v", err)
				}
				if err := cl.Create(ctx, wl.Clone().Active(active).Obj()); err != nil {
					t.Fatalf("Failed creating workload: %v", err)
				}
				requeued := requeueWorkload(ctx, manager, workload.NewInfo(wl.Obj()), RequeueReasonFailedAfterNomination)
				if want := active || !gate; requeued != want {
					t.Errorf("Unexpected result %t, want %t", requeued, want)
				}
			})
		}
	}
}
