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

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

func newManagerForTest(cl client.Client, checker qcache.StatusChecker, options ...qcache.Option) *qcache.Manager {
	options = append(options, qcache.WithPreemptionExpectations(preemptexpectations.New()))
	return qcache.NewManagerForUnitTests(cl, checker, options...)
}

// newManagerAndRequeues also returns what moves those back into the heap that were told.
func newManagerAndRequeues(cl client.Client, checker qcache.StatusChecker) (*qcache.Manager, func(context.Context)) {
	manager, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(cl, checker, qcache.WithPreemptionExpectations(preemptexpectations.New()))
	return manager, func(ctx context.Context) { requeuer.ProcessRequeues(ctx) }
}

func newScheduler(queues *qcache.Manager, cache *schdcache.Cache, cl client.Client, recorder *utiltesting.EventRecorder, options ...Option) *Scheduler {
	return New(queues, cache, cl, recorder, append(options, WithPreemptionExpectations(preemptexpectations.New()))...)
}

func newEntry(wl *kueue.Workload) *entry {
	return &entry{Head: qcache.Head{Info: *workload.NewInfo(wl)}}
}

func admit(ctx context.Context, s *Scheduler, e *entry, cq *schdcache.ClusterQueueSnapshot) error {
	return s.admit(ctx, e, cq, nil)
}

func heads(ctx context.Context, manager *qcache.Manager) []*kueue.Workload {
	var workloads []*kueue.Workload
	for _, head := range manager.Heads(ctx) {
		workloads = append(workloads, head.Obj)
	}
	return workloads
}

func updateInCache(log logr.Logger, cache *schdcache.Cache, _, newWl *kueue.Workload) error {
	cache.AddOrUpdateWorkload(log, newWl)
	return nil
}

// deactivated does what the event of a deactivation does.
func deactivated(log logr.Logger, cache *schdcache.Cache, queues *qcache.Manager, wl *kueue.Workload) error {
	queues.DeleteWorkload(log, workload.Key(wl))
	return cache.DeleteWorkload(log, workload.Key(wl))
}

func addToQueues(log logr.Logger, queues *qcache.Manager, wl *kueue.Workload) error {
	return queues.AddOrUpdateWorkload(log, wl)
}
