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

// ForgetCopy forgets the workload if its ClusterQueue accounts for it by this very copy,
// and accounts for the one that reserved returns instead, unless that is nil. Another
// copy, which an event has brought, or the next reservation of a workload that was
// released meanwhile, stays. It returns whether the workload is accounted for then, of
// the same LocalQueue.
//
// Reserved reads what the informer has, under the lock: the handler of a later event
// waits for it.
func (c *Cache) ForgetCopy(log logr.Logger, wl *kueue.Workload, reserved func() *kueue.Workload) bool {
	c.Lock()
	defer c.Unlock()
	var info *workload.Info
	cq := c.hm.ClusterQueue(wl.Status.Admission.ClusterQueue)
	if cq != nil {
		info = cq.Workloads[workload.Key(wl)]
	}
	if info != nil && info.Obj != wl {
		return info.Obj.Spec.QueueName == wl.Spec.QueueName
	}
	c.forgetFrom(log, cq, wl)
	if c.podsReadyTracking {
		c.podsReadyCond.Broadcast()
	}
	latest := reserved()
	if latest == nil {
		return false
	}
	c.accountFor(log, latest)
	return latest.Spec.QueueName == wl.Spec.QueueName
}
