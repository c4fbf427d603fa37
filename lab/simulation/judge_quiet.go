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

package simulation

import (
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// When nothing is under way: never stuck, and no quota free for which somebody waits (rule 7).

// quiet checks what has to hold when there is nothing left to do.
func (j *judge) quiet() error {
	if !j.world.isLed() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	stopped := j.queueIsStopped()
	canStop := j.world.hasWorkers()
	now := time.Now()
	// The one who leads may have another clock.
	overdue := 2*time.Second + j.world.apart()
	for _, wl := range j.world.workloads() {
		if workloadfinish.IsFinished(wl) {
			continue
		}
		if !features.Enabled(features.ACRequeueAfter) {
			// Where nothing was left waiting, it is as stuck as it ever was.
			if at := requeueAt(wl); workload.IsActive(wl) && !stopped && !workload.HasQuotaReservation(wl) && now.Sub(at) > overdue && !j.excused[wl.Name] && !isUnrecordableForBase(wl) &&
				(workload.HasRetryChecks(wl) || !at.IsZero() && apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)) {
				j.fail("gate off, never stuck", "requeueAt is over: %s", describe(wl))
			}
			continue
		}
		j.worker(wl)
		retry, rejected := 0, 0
		for _, check := range wl.Status.AdmissionChecks {
			if check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 {
				j.fail("rule 10", "a success is not counted from: %s: %s", wl.Name, checkText(check))
			}
			if j.isRequired(wl, check.Name) {
				switch check.State {
				case kueue.CheckStateRetry:
					retry++
				case kueue.CheckStateRejected:
					rejected++
				}
			}
		}
		isReleased := canStop && !j.world.isActiveElsewhere(wl)
		if !workload.IsActive(wl) {
			j.retained(wl, overdue)
			if wl.Status.RequeueState != nil || workload.HasQuotaReservation(wl) && isReleased {
				j.fail("rule 11", "something is left on a deactivated workload: %s", describe(wl))
			}
			for _, check := range wl.Status.AdmissionChecks {
				if check.State == kueue.CheckStateRetry || check.RequeueAfterSeconds != nil || ptr.Deref(check.RetryCount, 0) > 0 {
					j.fail("rule 11", "something is left on a deactivated workload: %s", describe(wl))
				}
			}
			continue
		}
		// A check that asked for a retry before that was written has it wait.
		if workloadevict.IsEvictedByDeactivation(wl) && isReleased && retry == 0 {
			j.fail("rule 11", "it is active again, and evicted by its deactivation: %s", describe(wl))
		}
		if rejected > 0 {
			j.fail("rule 8", "rejected, and still active: %s", describe(wl))
		}
		if workload.HasQuotaReservation(wl) && canStop && !workload.HasUnhealthyNodes(wl) && wl.Spec.QueueName == localQueue && j.isDrained() {
			j.fail("rule 11", "the queue is drained, and the quota is held: %s", describe(wl))
		}
		if retry > 0 && workload.HasQuotaReservation(wl) && isReleased {
			j.fail("rule 3", "a check asks for a retry, and the quota is held: %s", describe(wl))
		}
		until := j.deadline(wl)
		isAnother := func(at time.Time) bool { return !at.Equal(until) }
		switch {
		case retry == 0 || !j.hasLocalQueue(wl) || j.keepsRemovedCheck(wl) || workload.HasQuotaReservation(wl) || slices.ContainsFunc(j.deadlines(wl), isAnother):
		case now.Before(until):
			requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
			_, afterTimeout := workloadevict.IsEvictedByPodsReadyTimeout(wl)
			// Beside a backoff of WaitForPodsReady the time may stay where it was.
			if late := requeueAt(wl).Sub(until); late < 0 || late > 0 && !afterTimeout || requeued == nil || requeued.Status != metav1.ConditionFalse {
				j.fail("rule 4", "%s should wait until %s: %s", wl.Name, j.at(until), describe(wl))
			} else if !afterTimeout && !j.world.config.SwitchGate {
				j.words(wl, requeued.Message)
			}
		case now.Sub(until) > overdue && !(j.world.config.SwitchGate && requeueStateCount(wl) > 0 && now.Sub(requeueAt(wl)) <= overdue):
			// With the gate off v0.14's provisioning backs off by requeueState.
			j.fail("rule 7, never stuck", "%s should have been requeued at %s: %s", wl.Name, j.at(until), describe(wl))
		}
		// With the gate off v0.14 ends a backoff, and may leave its time; or it records one
		// with no condition for it.
		isEnded := j.world.config.SwitchGate && !apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)
		if at := requeueAt(wl); !stopped && !at.IsZero() && now.Sub(at) > overdue && !workload.HasQuotaReservation(wl) && !isEnded {
			j.fail("rule 7, never stuck", "requeueAt is over: %s", describe(wl))
		}
		// It is requeued when its job is stopped.
		toStop := workload.HasQuotaReservation(wl) && !canStop
		if !toStop && !requeueAt(wl).IsZero() && retry == 0 && rejected == 0 && j.queueIsKnown(wl) && !stopped && !j.keepsRemovedCheck(wl) && wl.Status.RequeueState.Count == nil && !j.world.config.SwitchGate {
			j.fail("rule 4", "nobody asks for the wait of %s", describe(wl))
		}
	}
	if features.Enabled(features.ACRequeueAfter) {
		j.events()
		j.progress(stopped)
		j.numbers()
		j.batchJobs()
		j.jobSets()
	}
	return j.first
}

// staysWhereItWas: the delay of a check is withdrawn beside a backoff, and the time that was
// recorded may stay, if it is the end of all times, too. Known limits has it.
func staysWhereItWas(wl *kueue.Workload) bool {
	return requeueStateCount(wl) > 0 && time.Until(requeueAt(wl)) > time.Hour
}

// isActiveElsewhere: MultiKueue's worker has lost the workload before its job has stopped there
// (the base removes it with a deactivation, and somebody may delete it), so that the copy of the
// job here may stay active, and keep the quota.
func (w *World) isActiveElsewhere(wl *kueue.Workload) bool {
	return w.config.MultiKueue && jobsAreManagedBy && workload.HasQuotaReservation(wl) && workloadevict.IsEvicted(wl) &&
		(workloadevict.IsEvictedByDeactivation(wl) || !w.isInWorker(wl))
}

// isPending: it is to be in the queue, whether it waits or not.
func isPending(wl *kueue.Workload) bool {
	return workload.IsActive(wl) && !workloadfinish.IsFinished(wl) && !workload.HasQuotaReservation(wl)
}

// progress: where there is quota, nobody who could use it is left without.
func (j *judge) progress(stopped bool) {
	var held, alone int
	all := j.world.workloads()
	for _, wl := range all {
		if workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) && !isReplaced(wl, all) {
			held += pods(wl)
			// Upstream's cache forgets one that is deactivated, before its quota is released.
			if workload.IsActive(wl) && !j.reactivated[wl.Name] && !j.untold[wl.Name] {
				alone += pods(wl)
			}
		}
	}
	j.overcommitted(alone)
	if slices.ContainsFunc(all, func(wl *kueue.Workload) bool { return isPending(wl) && isScaled(wl) }) {
		return
	}
	if keepsOutAlike && j.unseenRelease && j.world.config.SwitchGate {
		return
	}
	if stopped || held >= cpus || j.isBlocked(all) || j.world.nodeLost() || !j.world.hasWorkers() {
		return
	}
	// All ask for the same: the head of a StrictFIFO fits, too.
	for _, wl := range all {
		if isForScheduler(wl, time.Now().Add(-j.world.apart())) {
			j.fail("rule 7, free quota", "%d of %d are held, and %s has none", held, cpus, describe(wl))
		}
	}
}

// isForScheduler: nothing but quota is missing.
func isForScheduler(wl *kueue.Workload, now time.Time) bool {
	return isPending(wl) && !hasLostPods(wl) && wl.DeletionTimestamp.IsZero() && !now.Before(requeueAt(wl)) && !workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl) &&
		!apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) && !conditionTrue(wl, kueue.WorkloadDeactivationTarget)
}

// isBlocked: quota is reserved for nobody before the pods of those that hold some are ready.
func (j *judge) isBlocked(all []*kueue.Workload) bool {
	return j.world.config.Blocking && slices.ContainsFunc(all, func(wl *kueue.Workload) bool {
		return workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) && !conditionTrue(wl, kueue.WorkloadPodsReady)
	})
}
