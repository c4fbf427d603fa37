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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/queue"
	"sigs.k8s.io/kueue/pkg/workload"
)

// isQueuedByReconcile returns true if the reconciler of the workload queues it,
// with the resources of DRA that it has looked up.
func (m *Manager) isQueuedByReconcile(w *kueue.Workload) bool {
	return features.Enabled(features.DynamicResourceAllocation) && workload.HasDRA(w)
}

// leaveQueueOf takes the workload out of the queue that an older copy names, if it
// was moved since.
func (m *Manager) leaveQueueOf(older, latest *kueue.Workload) {
	if latest.Spec.QueueName != older.Spec.QueueName {
		m.deleteWorkloadFromQueueAndClusterQueue(latest, queue.KeyFromWorkload(older))
	}
}

// LeaveOldQueue has a workload that was moved leave its old queue, where nothing else
// takes it out: if it has ended, or nobody but Reconcile puts it into the new one.
func (m *Manager) LeaveOldQueue(oldWl, newWl *kueue.Workload) {
	m.Lock()
	defer m.Unlock()
	m.leaveOldQueue(oldWl, newWl)
}

// leaveOldQueue has a workload leave the queue out of which it was moved: the event of
// that may have put it into the new one while the scheduler held it, and what waits is
// taken out by no cycle.
func (m *Manager) leaveOldQueue(older, latest *kueue.Workload) {
	if features.Enabled(features.ACRequeueAfter) || workload.MustWait(older) {
		m.leaveQueueOf(older, latest)
	}
}

// update has the info, which the scheduler puts back, tell of the workload as it is now.
// With the gate on its requests are those of now, too: a reservation that was refused
// because of a change would be tried again without it.
func (m *Manager) update(ctx context.Context, info *workload.Info, now *kueue.Workload) {
	m.leaveOldQueue(info.Obj, now)
	if features.Enabled(features.ACRequeueAfter) && !asksForTheSame(info.Obj, now) && !m.isQueuedByReconcile(now) {
		workload.AdjustResources(ctx, m.client, now)
		info.TotalRequests = workload.NewInfo(now, m.workloadInfoOptions...).TotalRequests
		info.LastAssignment = nil
	}
	info.Update(now)
}

func (m *Manager) forgetSecondPass(w *kueue.Workload) {
	m.DeleteSecondPassWithoutLock(w)
}

// reportWaiting tells the metrics of those that wait in a LocalQueue that is added: the
// base waits for the first one that is taken from the heap.
func (m *Manager) reportWaiting(q *LocalQueue) {
	if !features.Enabled(features.ACRequeueAfter) {
		return
	}
	m.reportPending(m.getClusterQueueLockless(q.ClusterQueue))
	if features.Enabled(features.LocalQueueMetrics) {
		m.reportLQPendingWorkloads(q)
	}
}

func (m *Manager) reportPending(cq *ClusterQueue) {
	m.reportPendingWorkloads(cq.name, cq)
}

// takeOut takes the workload out of wherever it is. It is not the one any more for
// which others were preempted.
func (c *ClusterQueue) takeOut(wl *kueue.Workload) {
	c.delete(wl)
}

func (c *ClusterQueue) fileInadmissible(wInfo *workload.Info) {
	c.inadmissibleWorkloads[workloadKey(wInfo)] = wInfo
}

func (c *ClusterQueue) startWaiting(wInfo *workload.Info) {
	c.waiting.insert(wInfo)
}

func (c *ClusterQueue) stopWaiting(key workload.Reference) {
	c.waiting.delete(key)
}

// isMakingRoom returns true if the workload is put back because others are being
// preempted for it.
func isMakingRoom(reason RequeueReason) bool {
	return reason == RequeueReasonPendingPreemption
}

// leftQueue returns true if the workload was deactivated, or has finished, while
// the scheduler was to reserve quota for it, which was refused for that reason.
func leftQueue(wl *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workload.IsAdmissible(wl)
}
