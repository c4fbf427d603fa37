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
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/queue"
	"sigs.k8s.io/kueue/pkg/workload"
)

// isQueuedByReconcile returns true if the reconciler of the workload queues it,
// with the resources of DRA that it has looked up.
func (m *Manager) isQueuedByReconcile(w *kueue.Workload) bool {
	return dra.NeedsDRAReconcile(w, m.draBackedResources)
}

// asReconciled returns what the scheduler puts back as Reconcile has queued it meanwhile, if it
// is left to that, or nil if it has not done so yet. Info stays what was judged: where a note on
// that is refused, and the workload put back once more, it is left to Reconcile again.
func (m *Manager) asReconciled(q *LocalQueue, info *workload.Info, now *kueue.Workload) *workload.Info {
	if !m.isLeftToReconcile(info.Obj, now) {
		return info
	}
	queued := q.items[workload.Key(now)]
	if queued == nil || m.isLeftToReconcile(queued.Obj, now) || isFiledToWait(queued.Obj) {
		return nil
	}
	reconciled := *queued // which the ClusterQueue may have
	return &reconciled
}

// isFiledToWait returns true for what is filed without a look at what it needs of DRA, which
// does not matter while it waits.
func isFiledToWait(wl *kueue.Workload) bool {
	_, backsOff := workload.BackoffWithoutCondition(wl)
	return backsOff || workload.MustWait(wl)
}

// leaveWaiting has the workload, as asCached has it, leave those that wait, if its wait for
// its checks is over: while a pod group has lost a pod it is not to be queued, and no cycle
// takes it out of them as it does out of the heap. It returns what notQueued does.
func (m *Manager) leaveWaiting(w *kueue.Workload) error {
	if w != nil && !workload.MustWaitForChecks(w) {
		if cq := m.ClusterQueueForWorkloadWithoutLock(w); cq != nil && cq.isWaiting(workload.Key(w)) {
			m.deleteWorkloadWithoutLock(ctrl.Log, workload.Key(w))
		}
	}
	return notQueued(w)
}

// RetryInadmissible has the scheduler try those again, a second later, that did not fit in the
// ClusterQueue and its cohort.
func (m *Manager) RetryInadmissible(cq kueue.ClusterQueueReference) {
	m.RLock()
	defer m.RUnlock()
	notifyRetryInadmissibleWithoutLock(m, sets.New(cq))
}

func (c *ClusterQueue) isWaiting(key workload.Reference) bool {
	c.rwm.RLock()
	defer c.rwm.RUnlock()
	return c.waiting.infos[key] != nil
}

// leaveQueueOf takes the workload out of the queue that it is known to be in, if it was moved
// since, and has it known to that of now, as the copy would be that was handed in: also with
// quota, for what it frees is looked up there.
func (m *Manager) leaveQueueOf(_, latest *kueue.Workload) {
	if !features.Enabled(features.ACRequeueAfter) {
		return // the base has it leave the old one as it files it
	}
	key, now := workload.Key(latest), queue.KeyFromWorkload(latest)
	if m.localQueues[now] == nil {
		m.leaveOldQueue(key, now)
		return
	}
	m.assignWorkload(key, now)
}

// leaveOldQueue has a workload leave the queue that it is known to be in before it is
// assigned to another: nobody would find it there any more.
func (m *Manager) leaveOldQueue(key workload.Reference, now queue.LocalQueueReference) {
	if assigned, found := m.workloadAssignedQueues[key]; found && assigned != now && features.Enabled(features.ACRequeueAfter) {
		m.deleteWorkloadWithoutLock(ctrl.Log, key)
	}
}

func (m *Manager) forgetSecondPass(w *kueue.Workload) {
	m.DeleteSecondPassWithoutLock(workload.Key(w))
}

// reportWaiting tells the metrics of those that wait in a LocalQueue that is added: the
// base waits for the first one that is taken from the heap.
func (m *Manager) reportWaiting(q *LocalQueue) {
	if features.Enabled(features.ACRequeueAfter) {
		m.reportPending(m.hm.ClusterQueue(q.ClusterQueue))
		reportLQPendingWorkloads(m, q)
	}
}

func (m *Manager) reportPending(cq *ClusterQueue) {
	reportCQPendingWorkloads(m, cq)
}

// takeOut takes the workload out of wherever it is, also of the hands of the scheduler.
// It is not the one any more for which others were preempted.
func (c *ClusterQueue) takeOut(wl *kueue.Workload) {
	c.delete(ctrl.Log, workload.Key(wl))
}

func (c *ClusterQueue) fileInadmissible(wInfo *workload.Info) {
	c.insertInadmissible(workloadKey(wInfo), wInfo)
}

func (c *ClusterQueue) startWaiting(wInfo *workload.Info) {
	c.waiting.insert(wInfo)
	c.addPendingResources(wInfo)
}

func (c *ClusterQueue) stopWaiting(key workload.Reference) {
	if wInfo := c.waiting.delete(key); wInfo != nil {
		c.subtractPendingResources(wInfo)
	}
}

// deleteHead returns true if the workload was the head that the scheduler tries.
func (c *ClusterQueue) deleteHead(key workload.Reference) bool {
	c.rwm.Lock()
	defer c.rwm.Unlock()
	isHead := c.inflight != nil && workload.Key(c.inflight.Obj) == key
	c.delete(ctrl.Log, key)
	return isHead
}

// lookAgain has the scheduler look at the heads of ClusterQueues that may be active now, with
// nothing inadmissible in them that would move.
func (m *Manager) lookAgain() {
	if features.Enabled(features.ACRequeueAfter) {
		m.Broadcast()
	}
}

// isMakingRoom returns true if the workload is put back because others are being
// preempted for it, or one is being moved.
func isMakingRoom(reason RequeueReason) bool {
	return reason == RequeueReasonPendingPreemption || reason == RequeueReasonPendingMigration
}

// ForgetHead has the queues not take the workload for one that the scheduler tries.
func (m *Manager) ForgetHead(head *workload.Info) {
	m.Lock()
	defer m.Unlock()
	m.forgetHead(head)
}

// forgetHead is for each head that the scheduler is done with, also where it is not put back:
// the queues would leave it out when its LocalQueue, say, is there again.
func (m *Manager) forgetHead(head *workload.Info) {
	if cq := m.hm.ClusterQueue(head.ClusterQueue); cq != nil && features.Enabled(features.ACRequeueAfter) {
		cq.rwm.Lock()
		defer cq.rwm.Unlock()
		cq.forgetInflightByKey(workload.Key(head.Obj))
	}
}

// forgetHeadWithoutLocalQueue is for a workload that leaves the queues, as with quota, while
// its LocalQueue is gone: no other path finds the ClusterQueue then that has it as its head,
// would count it, and would leave it out when it comes back. What was never in a LocalQueue
// here has been no head.
func (m *Manager) forgetHeadWithoutLocalQueue(key workload.Reference) {
	if _, wasQueued := m.workloadAssignedQueues[key]; !wasQueued || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	for _, cq := range m.hm.ClusterQueues() {
		if cq.deleteHead(key) {
			m.reportPending(cq)
		}
	}
}
