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

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// latest returns the version of the workload that the client has. A second pass runs after a
// delay: if the workload was written meanwhile, a write based on the version from before is
// refused, and so is each one after it.
func (m *Manager) latest(ctx context.Context, wl *kueue.Workload) *kueue.Workload {
	latest := &kueue.Workload{}
	if !features.Enabled(features.ACRequeueAfter) || m.client.Get(ctx, client.ObjectKeyFromObject(wl), latest) != nil {
		return wl
	}
	workload.AdjustResources(ctx, m.client, latest)
	return latest
}

// RetryWaits returns who waits for the retry of admission checks, by ClusterQueue.
func (m *Manager) RetryWaits() map[kueue.ClusterQueueReference]metrics.RetryWaits {
	m.RLock()
	defer m.RUnlock()
	result := make(map[kueue.ClusterQueueReference]metrics.RetryWaits)
	for name, cq := range m.hm.ClusterQueues() {
		result[name] = cq.retryWaits()
	}
	return result
}

func (c *ClusterQueue) retryWaits() metrics.RetryWaits {
	c.rwm.RLock()
	defer c.rwm.RUnlock()
	var waits metrics.RetryWaits
	for _, wInfo := range c.inadmissibleWorkloads {
		if !requeue.IsWaitingForRetry(wInfo.Obj) {
			continue
		}
		waits.Workloads++
		// Some wait for the next reconciliation, not for a time.
		until := requeue.RequeueAt(wInfo.Obj)
		if !until.IsZero() && (waits.EarliestDeadline.IsZero() || until.Before(waits.EarliestDeadline)) {
			waits.EarliestDeadline = until
		}
	}
	return waits
}
