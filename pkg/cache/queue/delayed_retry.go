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

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/workload"
)

// With the gate on, all that is put into the queues goes through asCached, and is
// there as the cache has it at that moment, under the lock of the queues: no copy
// decides that an event handler, a timer or the scheduler has held for a while.

// asCached returns the workload as the cache has it now, with its resources
// adjusted; w itself if that is the same version, which is adjusted already; nil
// if it is deleted, or if it is not for the caller to queue: the reconciler of
// the newer version adds the resources of DRA.
func (m *Manager) asCached(w *kueue.Workload) *kueue.Workload {
	// With the gate off a copy can tell of a wait as well.
	if !features.Enabled(features.ACRequeueAfter) && !workload.MustWait(w) || w.ResourceVersion == "" { // not stored, as in tests
		return w
	}
	ctx := context.Background()
	latest := &kueue.Workload{}
	// The client is cached: the only error is NotFound.
	if err := m.client.Get(ctx, client.ObjectKeyFromObject(w), latest); err != nil {
		return nil
	}
	switch {
	case latest.ResourceVersion == w.ResourceVersion:
		return w
	case m.isQueuedByReconcile(latest) && !workload.MustWait(latest):
		return nil
	}
	m.leaveQueueOf(w, latest)
	workload.AdjustResources(ctx, m.client, latest)
	return latest
}

// notQueued returns why the workload, as asCached has it, is not queued. That it is not
// for the caller to queue is no error: whoever sees the newer version does.
func notQueued(w *kueue.Workload) error {
	if w == nil {
		return nil
	}
	return errWorkloadIsInadmissible
}

// secondPass returns the workload for which a second pass was planned some time
// ago as it is now, with its resources adjusted, or nil if it needs none any more.
func (m *Manager) secondPass(w *kueue.Workload) *kueue.Workload {
	if !features.Enabled(features.ACRequeueAfter) || w.ResourceVersion == "" {
		return w
	}
	ctx := context.Background()
	latest := &kueue.Workload{}
	if err := m.client.Get(ctx, client.ObjectKeyFromObject(w), latest); err != nil || !workload.NeedsSecondPass(latest) {
		m.forgetSecondPass(w)
		return nil
	}
	workload.AdjustResources(ctx, m.client, latest)
	return latest
}

// keepOut puts a workload that must wait among the waiting ones, also if it was in
// the heap, and returns whether it did. One that does not have to wait any more
// leaves them. What a condition alone keeps out is where the base keeps it, among
// the inadmissible ones: the base sees the end of that wait by the condition.
func (c *ClusterQueue) keepOut(wInfo *workload.Info) bool {
	_, backoff := workload.BackoffWithoutCondition(wInfo.Obj)
	if !workload.MustWait(wInfo.Obj) && (!backoff || c.backoffWaitingTimeExpired(wInfo)) {
		c.stopWaiting(workloadKey(wInfo))
		return false
	}
	c.takeOut(wInfo.Obj)
	if backoff || workload.MustWaitForChecks(wInfo.Obj) {
		c.startWaiting(wInfo)
	} else {
		c.fileInadmissible(wInfo)
	}
	return true
}

// requeueReason returns why the scheduler puts back the workload that it has
// judged: to try it again at once if it is another one now, as far as that
// matters, and the judgement says nothing about it.
func requeueReason(judged, now *kueue.Workload, reason RequeueReason) RequeueReason {
	same := func(conditionType string) bool {
		return equality.Semantic.DeepEqual(apimeta.FindStatusCondition(judged.Status.Conditions, conditionType),
			apimeta.FindStatusCondition(now.Status.Conditions, conditionType))
	}
	if !features.Enabled(features.ACRequeueAfter) || isMakingRoom(reason) ||
		workload.MustWait(judged) == workload.MustWait(now) && same(kueue.WorkloadEvicted) && same(kueue.WorkloadRequeued) &&
			asksForTheSame(judged, now) {
		return reason
	}
	return RequeueReasonFailedAfterNomination
}

// asksForTheSame returns true if both ask for the same resources, as far as can be told.
func asksForTheSame(judged, now *kueue.Workload) bool {
	return judged.UID == now.UID && judged.Generation == now.Generation &&
		equality.Semantic.DeepEqual(judged.Status.ReclaimablePods, now.Status.ReclaimablePods)
}

// isLeftToReconcile returns true for a workload that the scheduler puts back, and that asks for
// others now, if only Reconcile can tell what they need. It queues the workload, if it has not
// done so yet; with the requests of before it would get quota for those.
func (m *Manager) isLeftToReconcile(judged, now *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && m.isQueuedByReconcile(now) && !asksForTheSame(judged, now)
}

// reportRemaining tells the metrics what is pending in cq without a LocalQueue that is
// deleted or stopped: the base waits for the next event there.
func (m *Manager) reportRemaining(cq *ClusterQueue) {
	if features.Enabled(features.ACRequeueAfter) {
		m.reportPending(cq)
	}
}

// ReportRetryWaits has the metrics tell from now on of the workloads that wait in
// these queues.
func (m *Manager) ReportRetryWaits() {
	metrics.ReportRetryWaits(m.RetryWaits)
}

// RetryWaits tells of the workloads that wait for the retry of their admission
// checks: of all ClusterQueues with the gate on, with it off of those that have
// workloads that were left waiting.
func (m *Manager) RetryWaits() map[kueue.ClusterQueueReference]metrics.RetryWaits {
	m.RLock()
	defer m.RUnlock()
	all := make(map[kueue.ClusterQueueReference]metrics.RetryWaits)
	for cqName, cq := range m.hm.ClusterQueues() {
		if waits := cq.retryWaits(); waits.Workloads > 0 || features.Enabled(features.ACRequeueAfter) {
			all[cqName] = waits
		}
	}
	return all
}

func (c *ClusterQueue) retryWaits() metrics.RetryWaits {
	c.rwm.RLock()
	defer c.rwm.RUnlock()
	var waits metrics.RetryWaits
	for _, wInfo := range c.waiting.infos {
		deadline, found := workload.RetryDeadline(wInfo.Obj)
		if !found {
			continue
		}
		if waits.Workloads == 0 || deadline.Before(waits.EarliestDeadline) {
			waits.EarliestDeadline = deadline
		}
		waits.Workloads++
		for _, check := range wInfo.Obj.Status.AdmissionChecks {
			if check.State == kueue.CheckStateRetry {
				waits.AddRetried(check.Name, ptr.Deref(check.RetryCount, 0), wInfo.Obj.CreationTimestamp.Time)
			}
		}
	}
	return waits
}
