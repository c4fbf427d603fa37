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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.KueueDRAIntegration

// newTestQueues returns queues, and a function that has them look again at the
// inadmissible workloads of a ClusterQueue, as after a change of it.
func newTestQueues(c client.Client, cache *schdcache.Cache) (*qcache.Manager, func(context.Context, kueue.ClusterQueueReference)) {
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(c, cache, qcache.WithPreemptionExpectations(preemptexpectations.New()))
	return queues, func(ctx context.Context, cqName kueue.ClusterQueueReference) {
		qcache.NotifyRetryInadmissible(queues, sets.New(cqName))
		requeuer.ProcessRequeues(ctx)
	}
}

// tryInVain has the heads of all queues not fit.
func (f *retryFixture) tryInVain() {
	for _, head := range f.queues.Heads(f.ctx) {
		f.queues.RequeueWorkload(f.ctx, &head.Info, qcache.RequeueReasonGeneric, qcache.QuotaReservedReasonGeneric)
	}
}

// delete has the reconciler see that the workload is gone.
func (f *retryFixture) delete(wl *kueue.Workload) {
	f.reconciler.preemptionExpectations = preemptexpectations.New()
	f.reconciler.Delete(event.TypedDeleteEvent[*kueue.Workload]{Object: wl})
}

// deleteFromQueues takes the LocalQueue out of the queues.
func (f *retryFixture) deleteFromQueues(lq *kueue.LocalQueue) {
	f.queues.DeleteLocalQueue(logr.Discard(), lq)
}

// expectRetryWithGateOff goes on after check a has asked for a delay of a minute: the
// workload keeps its quota for so long, and is evicted and requeued then.
func (f *retryFixture) expectRetryWithGateOff() {
	f.Helper()
	// The fake client's apply removes nothing.
	features.SetFeatureGateDuringTest(f, features.WorkloadRequestUseMergePatch, true)
	wl := f.reconcileAt(0, 1, 0)
	f.expectRequeueAt(wl, 60*time.Second)
	f.reconcileAt(59*time.Second, 0, time.Second)
	wl = f.reconcileAt(60*time.Second, 1, 0)
	if workload.HasRetryChecks(wl) || !workloadevict.IsEvicted(wl) || !workload.HasQuotaReservation(wl) {
		f.Errorf("Unexpected status after the delay: %v", wl.Status)
	}
	f.release()
	f.reconcileAt(60*time.Second, 1, 0) // removes requeueAt
	f.reconcileAt(60*time.Second, 1, 0) // sets Requeued
	f.expectQueued(1, 0)
}

// endOfLeftWait returns when the wait of a workload ends, with the gate switched off,
// for which a deadline was recorded, and whose check asks for a later one since: that
// is recorded, as ever.
func (f *retryFixture) endOfLeftWait(_, asked time.Duration) time.Duration {
	f.Helper()
	f.expectRequeueAt(f.reconcileAt(0, 1, 0), asked)
	return asked
}
