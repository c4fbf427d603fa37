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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/requeue"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// The gate off: what is left to the base, and what is not.

// withdrawnGateOff: a delay that the base's applies own, too, is there after its controller
// has left it out, and goes with the first apply that has the gate on.
func (j *judge) withdrawnGateOff(stored *unstructured.Unstructured, old, wl *kueue.Workload) {
	for _, check := range wl.Status.AdmissionChecks {
		before := workloadCheck(old, check.Name)
		if before == nil || before.RequeueAfterSeconds == nil || check.RequeueAfterSeconds != nil || check.State != kueue.CheckStateRetry {
			continue
		}
		others := slices.DeleteFunc(ownersOfDelay(stored, check.Name), isKueues)
		if _, found := j.asked[wl.Name][check.Name]; found && len(others) == 0 {
			j.asked[wl.Name][check.Name] = j.asks(old, wl, check)
		}
	}
}

// differsFromBase is noted when a workload is to come back, with the gate off, that
// the base leaves stuck. A deactivated one that waits is reset: where the base has the
// fields, it removes requeueAt there and writes it again, without end.
const differsFromBase = "-- from here on the base differs"

// endOfBase is no failure: the schedule ends, as the base does.
const endOfBase = "gate off, the end of the base"

// excuse: with the gate off Kueue leaves a workload without quota stuck, as it ever
// did, if a check asks for a retry and there is no time to wait for.
func (j *judge) excuse(wl *kueue.Workload) {
	if workload.HasRetryChecks(wl) && requeueAt(wl).IsZero() && !requeue.IsWaitingForRetry(wl) && (!workload.HasQuotaReservation(wl) || workloadevict.IsEvicted(wl)) {
		j.excused[wl.Name] = true
	}
}

func (j *judge) isExcused(wl *kueue.Workload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.excused[wl.Name]
}

func (j *judge) isLeftToBase(wl *kueue.Workload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leftToBase[wl.Name]
}

// keepsWorker: the base does not take the name of MultiKueue's worker back from a workload
// that has lost its quota without an eviction, and another worker is refused.
func (j *judge) keepsWorker(wl *kueue.Workload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.keptWorker[wl.Name]
}

// lastChange is when something was written last.
func (j *judge) lastChange() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// switched: the gate is switched while no manager runs. What a check has said is
// left as it is if no manager has seen it with the gate on.
func (j *judge) switched(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.excused)
	clear(j.silent)
	j.deadTimers = j.deadTimers || slices.ContainsFunc(j.world.workloads(), func(wl *kueue.Workload) bool { return !requeueAt(wl).IsZero() })
	if on {
		clear(j.leftToBase)
		return
	}
	for _, wl := range j.world.workloads() {
		j.excuse(wl)
	}
}

// statusWriteGateOff: a workload that was left waiting when the gate was switched
// off is requeued at the time that was recorded.
func (j *judge) statusWriteGateOff(old, wl *kueue.Workload) {
	// The base writes over what it has not seen, its scheduler over what came since its
	// cycle began.
	isNew := j.world.config.Blocking || j.decided.Sub(j.decidedOn.at[wl.Name]) < known
	isScheduled := workload.HasQuotaReservation(wl) && j.leftToBase[wl.Name] && isNew
	isReset := func(check kueue.AdmissionCheckState) bool {
		return isResetFromRetry(check, wl) && j.spoken[wl.Name][check.Name] <= j.seenOf(wl.Name) && !isScheduled
	}
	if until := requeueAt(old); slices.ContainsFunc(old.Status.AdmissionChecks, isReset) && !workload.HasQuotaReservation(old) && !isDeactivation(wl) && !isDeactivation(old) && j.decided.Before(until) {
		j.fail("gate off, never early", "%s is requeued although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
	}
	if !j.excused[wl.Name] && workload.IsActive(wl) && !isDeactivation(old) && !requeueAt(old).IsZero() && requeueAt(wl).IsZero() && !workload.HasQuotaReservation(old) && workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl) {
		j.fail("gate off, never stuck", "its time is taken from %s, and its checks are left: %s", wl.Name, describe(wl))
	}
	for _, check := range old.Status.AdmissionChecks {
		after := workloadCheck(wl, check.Name)
		if after != nil && after.State == kueue.CheckStateRetry && check.State != kueue.CheckStateRetry {
			j.excuse(wl) // a Retry that was withdrawn is back
		}
		if after == nil || after.State != kueue.CheckStateRetry {
			delete(j.asked[wl.Name], check.Name)
		} else if said, found := j.asked[wl.Name][check.Name]; found && !after.LastTransitionTime.Equal(&check.LastTransitionTime) {
			// The base of v0.19 gives a time to a check that has none.
			said.at = after.LastTransitionTime.Time
			j.asked[wl.Name][check.Name] = said
		}
	}
	counts := make(map[kueue.AdmissionCheckReference]int32)
	for _, check := range wl.Status.AdmissionChecks {
		counts[check.Name] = ptr.Deref(check.RetryCount, 0)
	}
	j.counts[wl.Name] = counts
}
