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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

func (s *Scheduler) forget(log logr.Logger, wl *kueue.Workload) {
	_ = s.cache.DeleteWorkload(log, workload.Key(wl)) // not there is as good
}

// passOver has the queues not take a head any more for one that is being tried, when
// the scheduler does not try it because the cache still accounts for it: they would
// leave out what the event of its release puts back.
func (s *Scheduler) passOver(ctx context.Context, head qcache.Head) {
	if !features.Enabled(features.ACRequeueAfter) {
		return
	}
	s.queues.ForgetHead(&head.Info)
	// The event may have come before.
	if !s.cache.IsAdded(head.Info) {
		s.requeueAtOnce(ctx, &head.Info)
	}
}

func (s *Scheduler) requeueAtOnce(ctx context.Context, info *workload.Info) {
	s.queues.RequeueWorkload(ctx, info, qcache.RequeueReasonFailedAfterNomination, "")
}

func (s *Scheduler) queueInadmissible(_ context.Context, cqName kueue.ClusterQueueReference) {
	qcache.NotifyRetryInadmissible(s.queues, sets.New(cqName))
}
