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
	"strconv"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// addPending adds a pending workload of a LocalQueue that is new to the ClusterQueue.
// Returns true if the workload was pushed to the heap.
func (c *ClusterQueue) addPending(wInfo *workload.Info) bool {
	key := workloadKey(wInfo)
	if !requeue.MustWait(wInfo.Obj) {
		return c.pushToHeapIfNotTracked(wInfo)
	}
	inflight := c.inflight != nil && workloadKey(c.inflight) == key
	if !inflight && !c.inadmissibleWorkloads.hasKey(key) && c.heap.GetByKey(key) == nil {
		c.insertInadmissible(key, wInfo)
	}
	return false
}

// isOutdated returns true if the queue has a later version of the workload: handlers list
// workloads, and add each one seconds later. No later event corrects an older copy in the heap.
func isOutdated(wl *kueue.Workload, q *LocalQueue) bool {
	if !features.Enabled(features.ACRequeueAfter) || q == nil || q.items[workload.Key(wl)] == nil {
		return false
	}
	version, err := strconv.ParseUint(wl.ResourceVersion, 10, 64) // Kueue does not vendor CompareResourceVersion
	queued, _ := strconv.ParseUint(q.items[workload.Key(wl)].Obj.ResourceVersion, 10, 64)
	return err == nil && version < queued
}
