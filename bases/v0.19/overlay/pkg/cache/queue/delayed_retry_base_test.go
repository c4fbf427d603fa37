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
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/workload"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.KueueDRAIntegration

func newClusterQueueForTest(ctx context.Context, clk clock.Clock) *ClusterQueue {
	return newClusterQueueImpl(ctx, nil, defaultOrdering, clk)
}

func newManagerForTest(cl client.Client) *Manager {
	return NewManagerForUnitTests(cl, nil, WithPreemptionExpectations(preemptexpectations.New()))
}

func addFromLocalQueue(cq *ClusterQueue, lq *LocalQueue) bool {
	return cq.AddFromLocalQueue(lq, nil, nil)
}

func addOrUpdateWorkload(ctx context.Context, manager *Manager, wl *kueue.Workload) error {
	return manager.AddOrUpdateWorkload(ctrl.LoggerFrom(ctx), wl)
}

func updateWorkload(ctx context.Context, manager *Manager, _, wl *kueue.Workload) error {
	return addOrUpdateWorkload(ctx, manager, wl)
}

func requeueWorkload(ctx context.Context, manager *Manager, info *workload.Info, reason RequeueReason) bool {
	return manager.RequeueWorkload(ctx, info, reason, QuotaReservedReasonGeneric)
}

// releaseQuota returns whether a workload is to be tried again.
func releaseQuota(ctx context.Context, cq *ClusterQueue, cl client.Client) bool {
	return queueInadmissibleWorkloads(ctx, cq, cl) > 0
}

func popHead(manager *Manager, cq kueue.ClusterQueueReference) {
	manager.getClusterQueue(cq).Pop()
}
