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
	"github.com/go-logr/logr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// forgetFrom forgets the workload of a ClusterQueue, which may be gone, or another one of
// the name by now.
func (c *Cache) forgetFrom(log logr.Logger, cq *clusterQueue, wl *kueue.Workload) {
	key := workload.Key(wl)
	if c.workloadAssignedQueues[key] == wl.Status.Admission.ClusterQueue {
		delete(c.workloadAssignedQueues, key)
	}
	if cq != nil {
		cq.forgetWorkload(log, key)
	}
}

func (c *Cache) accountFor(log logr.Logger, wl *kueue.Workload) {
	_, _ = c.addOrUpdateWorkloadWithoutLock(log, wl) // not without its ClusterQueue
}
