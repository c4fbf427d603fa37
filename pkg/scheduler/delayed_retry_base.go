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
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/sets"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	"sigs.k8s.io/kueue/pkg/workload"
)

func (s *Scheduler) forget(log logr.Logger, wl *kueue.Workload) {
	_ = s.cache.DeleteWorkload(log, wl) // not there is as good
}

func (s *Scheduler) requeueAtOnce(ctx context.Context, info *workload.Info) {
	s.queues.RequeueWorkload(ctx, info, qcache.RequeueReasonFailedAfterNomination)
}

func (s *Scheduler) queueInadmissible(ctx context.Context, cqName kueue.ClusterQueueReference) {
	s.queues.QueueInadmissibleWorkloads(ctx, sets.New(cqName))
}
