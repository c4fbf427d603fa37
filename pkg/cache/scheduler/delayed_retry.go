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

// ForgetCopy forgets the workload if it is accounted for by this very copy. An event,
// or the next reservation of a workload that was released meanwhile, puts another one
// in its place: what that says is not over with this one.
func (c *Cache) ForgetCopy(log logr.Logger, wl *kueue.Workload) {
	c.Lock()
	defer c.Unlock()
	cq := c.hm.ClusterQueue(wl.Status.Admission.ClusterQueue)
	if cq == nil {
		return
	}
	if info, found := cq.Workloads[workload.Key(wl)]; !found || info.Obj != wl {
		return
	}
	c.forgetFrom(log, cq, wl)
	if c.podsReadyTracking {
		c.podsReadyCond.Broadcast()
	}
}
