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
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/workload"
)

// keepWaiting puts a workload that has to wait for its deadline among the
// inadmissible ones, and returns whether it did. It may be in the heap: all
// workloads of a LocalQueue are added anew when the manager starts, or the queue
// is created again; and the scheduler puts back one that it could not reserve
// quota for, as the cache has it. With the gate off it keeps those that were left
// waiting.
func (c *ClusterQueue) keepWaiting(wInfo *workload.Info) bool {
	if (!features.Enabled(features.ACRequeueAfter) && !workload.IsLeftWaiting(wInfo.Obj)) || c.backoffWaitingTimeExpired(wInfo) {
		return false
	}
	key := workload.Key(wInfo.Obj)
	c.heap.Delete(key)
	c.inadmissibleWorkloads[key] = wInfo
	return true
}

// leftQueue returns true if the workload was deactivated, or has finished, while
// the scheduler was to reserve quota for it, which was refused for that reason.
func leftQueue(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workload.IsAdmissible(wl)
}

// RetryWaits tells of the workloads that wait for the retry of their admission
// checks: of all ClusterQueues with the gate on, with it off of those that have
// workloads that were left waiting.
func (m *Manager) RetryWaits() map[kueue.ClusterQueueReference]metrics.RetryWaits {
	m.RLock()
	defer m.RUnlock()
	all := make(map[kueue.ClusterQueueReference]metrics.RetryWaits)
	for cqName, cq := range m.hm.ClusterQueues() {
		if waits := cq.retryWaits(); waits.Workloads > 0 || features.Enabled(features.ACRequeueAfter) {
			all[cqName] = waits
		}
	}
	return all
}

func (c *ClusterQueue) retryWaits() metrics.RetryWaits {
	c.rwm.RLock()
	defer c.rwm.RUnlock()
	var waits metrics.RetryWaits
	for _, wInfo := range c.inadmissibleWorkloads {
		if !workload.IsWaitingForRetry(wInfo.Obj) {
			continue
		}
		deadline := wInfo.Obj.Status.RequeueState.RequeueAt.Time
		if waits.Workloads == 0 || deadline.Before(waits.EarliestDeadline) {
			waits.EarliestDeadline = deadline
		}
		waits.Workloads++
	}
	return waits
}
