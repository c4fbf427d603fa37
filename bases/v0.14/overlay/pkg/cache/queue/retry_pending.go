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
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// addPending adds a pending workload of a LocalQueue that is new to the ClusterQueue.
// Returns true if it was added. Those that wait are reported with the next heads.
func (c *ClusterQueue) addPending(wInfo *workload.Info) bool {
	if !requeue.MustWait(wInfo.Obj) {
		return c.heap.PushIfNotPresent(wInfo)
	}
	key := workloadKey(wInfo)
	if c.heap.GetByKey(key) != nil {
		return false
	}
	c.inadmissibleWorkloads[key] = wInfo
	return true
}
