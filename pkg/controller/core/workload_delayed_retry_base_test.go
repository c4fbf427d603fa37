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

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.DynamicResourceAllocation

// newTestQueues returns queues, and a function that has them look again at the
// inadmissible workloads of a ClusterQueue, as after a change of it.
func newTestQueues(c client.Client, cache *schdcache.Cache) (*qcache.Manager, func(context.Context, kueue.ClusterQueueReference)) {
	queues := qcache.NewManager(c, cache)
	return queues, func(ctx context.Context, cqName kueue.ClusterQueueReference) {
		queues.QueueInadmissibleWorkloads(ctx, sets.New(cqName))
	}
}

// expectRetryWithGateOff goes on after check a has asked for a delay of a minute: the
// workload is evicted, and requeued at once.
func (f *retryFixture) expectRetryWithGateOff() {
	f.Helper()
	wl := f.reconcileAt(0, 1, 0)
	if wl.Status.RequeueState != nil || workload.HasRetryChecks(wl) || !workload.IsEvicted(wl) {
		f.Errorf("Unexpected status after the Retry: %v", wl.Status)
	}
	f.release()
	f.reconcileAt(0, 1, 0)
	f.expectQueued(1, 0)
}

// endOfLeftWait returns when the wait of a workload ends, with the gate switched off,
// for which a deadline was recorded, and whose check asks for a later one since: that
// is ignored.
func (f *retryFixture) endOfLeftWait(recorded, _ time.Duration) time.Duration {
	return recorded
}
