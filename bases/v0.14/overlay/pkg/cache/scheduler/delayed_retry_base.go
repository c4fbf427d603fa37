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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

// forgetFrom forgets the workload of a ClusterQueue, which may be gone, or another one of
// the name by now.
func (c *Cache) forgetFrom(log logr.Logger, cq *clusterQueue, wl *kueue.Workload) {
	if key := workload.Key(wl); c.assumedWorkloads[key] == wl.Status.Admission.ClusterQueue {
		delete(c.assumedWorkloads, key)
	}
	if cq != nil {
		cq.forgetWorkload(log, wl)
	}
}

func (c *Cache) accountFor(log logr.Logger, wl *kueue.Workload) {
	c.addOrUpdateWorkload(log, wl) // not without its ClusterQueue
}
