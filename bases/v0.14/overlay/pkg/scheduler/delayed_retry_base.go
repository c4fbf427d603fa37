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
	ctrl "sigs.k8s.io/controller-runtime"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

func (s *Scheduler) forget(log logr.Logger, wl *kueue.Workload) {
	_ = s.cache.ForgetWorkload(log, wl) // not there is as good
}

func (s *Scheduler) requeueAtOnce(ctx context.Context, info *workload.Info) {
	s.queues.RequeueWorkload(ctx, info, qcache.RequeueReasonFailedAfterNomination)
}

func (s *Scheduler) queueInadmissible(ctx context.Context, cqName kueue.ClusterQueueReference) {
	s.queues.QueueInadmissibleWorkloads(ctx, sets.New(cqName))
}

// replaceSliceBefore finishes the slice that another one is to replace before the
// reservation of that one is written. With the gate on this write may be refused, and
// pods would run without quota: replaceSliceAfter does it then.
func (s *Scheduler) replaceSliceBefore(ctx context.Context, oldQueue kueue.ClusterQueueReference, newSlice, oldSlice *kueue.Workload) error {
	if features.Enabled(features.ACRequeueAfter) {
		return nil
	}
	return s.replaceWorkloadSlice(ctx, oldQueue, newSlice, oldSlice)
}

// replaceSliceAfter finishes the slice that another one has replaced, which holds its
// quota now. Where that fails the reconciler of workloads does it.
func (s *Scheduler) replaceSliceAfter(ctx context.Context, newSlice *kueue.Workload) {
	if !features.Enabled(features.ACRequeueAfter) {
		return
	}
	oldSlice, err := workloadslicing.Replaced(ctx, s.client, newSlice)
	if err == nil && oldSlice != nil {
		err = s.replaceWorkloadSlice(ctx, oldSlice.Status.Admission.ClusterQueue, newSlice, oldSlice)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to replace workload slice")
	}
}
