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
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

func newManagerForTest(cl client.Client, checker qcache.StatusChecker, options ...qcache.Option) *qcache.Manager {
	return qcache.NewManager(cl, checker, options...)
}

// newManagerAndRequeues also returns what moves those back into the heap that were told.
func newManagerAndRequeues(cl client.Client, checker qcache.StatusChecker) (*qcache.Manager, func(context.Context)) {
	return newManagerForTest(cl, checker), func(context.Context) {}
}

func newScheduler(queues *qcache.Manager, cache *schdcache.Cache, cl client.Client, recorder *utiltesting.EventRecorder, options ...Option) *Scheduler {
	return New(queues, cache, cl, recorder, options...)
}

func newEntry(wl *kueue.Workload) *entry {
	return &entry{Info: *workload.NewInfo(wl)}
}

func admit(ctx context.Context, s *Scheduler, e *entry, cq *schdcache.ClusterQueueSnapshot) error {
	return s.admit(ctx, e, cq)
}

func heads(ctx context.Context, manager *qcache.Manager) []*kueue.Workload {
	var workloads []*kueue.Workload
	for _, head := range manager.Heads(ctx) {
		workloads = append(workloads, head.Obj)
	}
	return workloads
}

func updateInCache(log logr.Logger, cache *schdcache.Cache, oldWl, newWl *kueue.Workload) error {
	return cache.UpdateWorkload(log, oldWl, newWl)
}

// deactivated does what the event of a deactivation does.
func deactivated(log logr.Logger, cache *schdcache.Cache, queues *qcache.Manager, wl *kueue.Workload) error {
	queues.DeleteWorkload(wl)
	return cache.DeleteWorkload(log, wl)
}

func addToQueues(_ logr.Logger, queues *qcache.Manager, wl *kueue.Workload) error {
	return queues.AddOrUpdateWorkload(wl)
}

// The smaller slice keeps its quota as long as the larger one has none.
func TestReplacedSliceIsFinishedAfterTheReservation(t *testing.T) {
	cases := map[string]struct {
		refused      error
		wantFinished bool
	}{
		"reserved":                            {wantFinished: true},
		"refused, because a check has spoken": {refused: apierrors.NewConflict(kueue.Resource("workloads"), "larger", errors.New("the object has been modified"))},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			ctx, log := utiltesting.ContextWithLog(t)
			now := time.Now()
			rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
			cq := utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "2").Obj()).Obj()
			lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue(cq.Name).Obj()
			slice := func(name string, pods int) *utiltestingapi.WorkloadWrapper {
				return utiltestingapi.MakeWorkload(name, metav1.NamespaceDefault).Queue("lq").
					PodSets(*utiltestingapi.MakePodSet("main", pods).Request(corev1.ResourceCPU, "1").Obj())
			}
			smaller := slice("smaller", 1).ReserveQuotaAt(utiltestingapi.MakeAdmission(cq.Name).
				PodSets(utiltestingapi.MakePodSetAssignment("main").Assignment(corev1.ResourceCPU, "rf", "1").Count(1).Obj()).Obj(), now).AdmittedAt(true, now).Obj()
			larger := slice("larger", 2).Annotation(workloadslicing.WorkloadSliceReplacementFor, string(workload.Key(smaller))).Obj()
			cl := utiltesting.NewClientBuilder().
				WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, smaller, larger).
				WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
						if obj.GetName() == larger.Name && tc.refused != nil {
							return tc.refused
						}
						return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subresource, obj, patch, opts...)
					},
				}).Build()
			cqCache := schdcache.New(cl)
			qManager, _ := newManagerAndRequeues(cl, cqCache)
			cqCache.AddOrUpdateResourceFlavor(log, rf)
			addQueues(ctx, t, cqCache, qManager, cq, lq)
			scheduler := newScheduler(qManager, cqCache, cl, &utiltesting.EventRecorder{})
			var write func()
			scheduler.setAdmissionRoutineWrapper(heldBack(func(f func()) { write = f }))
			scheduler.schedule(ctx)
			isFinished := func() bool {
				wl := &kueue.Workload{}
				if err := cl.Get(ctx, client.ObjectKeyFromObject(smaller), wl); err != nil {
					t.Fatalf("Getting the smaller slice: %v", err)
				}
				return workload.IsFinished(wl)
			}
			if write == nil || isFinished() {
				t.Fatalf("Unexpected state before the reservation is written: %t, finished %t", write != nil, isFinished())
			}
			write()
			if got := isFinished(); got != tc.wantFinished {
				t.Errorf("Unexpected end of the smaller slice: %t, want %t", got, tc.wantFinished)
			}
		})
	}
}
