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
	"sigs.k8s.io/kueue/pkg/workloadslicing"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// Each write of the status of a workload: rules 1, 3, 6 to 8, 10, 11 and 13.

func (j *judge) statusWrite(process, manager string, old, wl *kueue.Workload) {
	evictedNow := !conditionTrue(old, kueue.WorkloadEvicted) && conditionTrue(wl, kueue.WorkloadEvicted)
	if evictedNow && isPodsReadyTimeout(wl) {
		j.podsReadyUntil[wl.Name] = requeueAt(wl)
	}
	if !workload.IsActive(wl) && wl.Status.RequeueState == nil {
		delete(j.podsReadyUntil, wl.Name)
	}
	j.keptAnswers(old, wl, evictedNow || takenOut(old, wl))
	if !features.Enabled(features.ACRequeueAfter) {
		j.statusWriteGateOff(old, wl)
		return
	}
	now := j.world.clock(process)
	j.idle(old, wl)
	j.wait(old, wl)
	j.given(wl)
	if is, was := requeuedMessage(wl), requeuedMessage(old); is != was {
		j.named[wl.Name] = j.namesWhoAsks(wl, is)
	}
	deactivated := isDeactivated(old) || isDeactivated(wl)
	if workload.HasQuotaReservation(old) && !workload.HasQuotaReservation(wl) {
		j.keptWorker[wl.Name] = !conditionTrue(wl, kueue.WorkloadEvicted) && wl.Status.ClusterName != nil
	}

	if !workload.HasQuotaReservation(old) && workload.HasQuotaReservation(wl) {
		j.seenEvents["reservations"]++
		if workloadslicing.ReplacementForKey(wl) != nil {
			j.seenEvents["slices replaced"]++
		}
		if until := j.deadline(old); j.decided.Before(until) {
			j.fail("rule 7, never early", "quota is reserved for %s although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
		}
		// A write that was decided on other checks, or on another spec, is refused.
		if slices.ContainsFunc(old.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
			return (check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected) && j.isRequired(old, check.Name)
		}) {
			j.fail("rule 7, never early", "quota is reserved for %s, which is not requeued: %s", wl.Name, describe(old))
		}
		if wl.Status.Admission == nil {
			j.fail("rule 7, quota", "quota is reserved for %s without an admission: %s", wl.Name, describe(wl))
			return
		}
		for i, assignment := range wl.Status.Admission.PodSetAssignments {
			if len(wl.Status.ReclaimablePods) == 0 && *assignment.Count != wl.Spec.PodSets[i].Count {
				j.fail("rule 7, quota", "quota for %d of %d pods is reserved for %s", *assignment.Count, wl.Spec.PodSets[i].Count, describe(wl))
			}
		}
	}
	requeued := requeuedAgain(old, wl) && !evictedNow && !deactivated
	if requeued {
		j.seenEvents["requeues"]++
	}
	// After another eviction its reason is another one.
	isBack := requeued || !deactivated && !requeueAt(old).IsZero() && !conditionTrue(old, kueue.WorkloadRequeued) && conditionTrue(wl, kueue.WorkloadRequeued)
	if until := j.deadline(old); isBack && j.decided.Before(until) {
		j.fail("rule 7, never early", "%s is requeued although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
	}
	if evictedNow {
		cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
		j.seenEvents["evictions by "+cond.Reason]++
		if workload.IsAdmitted(old) && !workload.HasQuotaReservation(wl) {
			j.fail("rule 3", "the quota of %s, whose job may run, is released before the job is stopped: %s", wl.Name, describe(wl))
		}
		// The checks that were required are those of the flavors that it had.
		evicted := wl.DeepCopy()
		evicted.Status.Admission = old.Status.Admission
		if cond.Reason == kueue.WorkloadEvictedByAdmissionCheck {
			j.dated(evicted, cond.LastTransitionTime.Time)
			anyCheck := func(*kueue.Workload, kueue.AdmissionCheckReference) bool { return true }
			isOfAll := !j.isInOpenQueue(wl) && j.deadlineOf(evicted, anyCheck).Equal(requeueAt(wl))
			isOfSet := slices.ContainsFunc(j.deadlines(evicted), requeueAt(wl).Equal)
			// What was recorded with the gate off is taken for a backoff. migration.md has it.
			isKept := j.world.config.SwitchGate && requeueAt(old).Equal(requeueAt(wl)) && requeueAt(wl).After(j.deadline(evicted))
			if until := j.deadline(evicted); until.After(cond.LastTransitionTime.Time) && !isOfSet && !isOfAll && !isKept {
				j.fail("rule 3", "%s is evicted with requeueAt %s instead of %s: %s", wl.Name, j.at(requeueAt(wl)), j.at(until), describe(wl))
			}
		}
	}
	if at := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); workloadevict.IsEvictedByDeactivation(wl) && !workloadevict.IsEvictedByDeactivation(old) &&
		at.LastTransitionTime.Time.Before(j.deactivated[wl.Name].Truncate(time.Second).Add(-j.world.apart())) {
		j.fail("rule 11", "the eviction for the deactivation of %s is dated before it: %s", j.deactivated[wl.Name].UTC().Format("4:05.000"), describe(wl))
	}
	if j.world.config.Policy {
		_, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
		j.limit(old, wl, evictedNow && byCheck || takenOut(old, wl))
	}
	j.requeueCount(old, wl, evictedNow, deactivated)
	j.clocks(process, wl, evictedNow || takenOut(old, wl), requeued)
	j.topology(old, wl)
	if takenOut(old, wl) {
		j.seenEvents["taken out of the queue"]++
		j.dated(wl, evictedAt(wl))
	}
	if conditionTrue(old, kueue.WorkloadEvicted) && conditionTrue(wl, kueue.WorkloadEvicted) && !deactivated {
		j.evictionMoved(old, wl, isBack)
	}

	var taken []kueue.AdmissionCheckReference
	admitted := !workload.IsAdmitted(old) && workload.IsAdmitted(wl)
	for _, before := range old.Status.AdmissionChecks {
		after := workloadCheck(wl, before.Name)
		seen := j.seenOf(wl.Name)
		if said := j.spoken[wl.Name][before.Name]; said > seen && (after == nil || !sameCheck(before, *after)) {
			j.fail("rule 9", "%s changes check %s of %s from %s, said at %d, having seen %d only", process, before.Name, wl.Name, checkText(before), said, seen)
		}
		if after == nil {
			if j.isRequired(wl, before.Name) && j.isRequired(old, before.Name) && (before.State == kueue.CheckStateRetry || j.counts[wl.Name][before.Name] > 0) {
				j.fail("rule 4", "the entry of %s is gone: %s", wl.Name, checkText(before))
			}
			delete(j.counts[wl.Name], before.Name)
			taken = append(taken, before.Name)
			continue
		}
		if before.State == kueue.CheckStateRetry && after.State != kueue.CheckStateRetry && !deactivated && !requeued {
			j.fail("rule 3", "the Retry of check %s of %s is taken back before the requeue", before.Name, wl.Name)
		}
		if before.State == kueue.CheckStateReady && after.State == kueue.CheckStatePending && !deactivated && !requeued && !conditionTrue(wl, kueue.WorkloadEvicted) && !isOwnCheck(before.Name, process, manager) {
			j.fail("rule 9", "the success of check %s of %s is taken back: %s", before.Name, wl.Name, describe(wl))
		}
		if before.State == kueue.CheckStateRejected && after.State != kueue.CheckStateRejected && !deactivated && j.isRequired(wl, before.Name) {
			j.fail("rule 8", "the rejection of %s by check %s is taken back", wl.Name, before.Name)
		}
		// Activated before what is left of its retries was removed.
		isLeft := workloadevict.IsEvictedByDeactivation(old) && workloadevict.IsEvictedByDeactivation(wl)
		j.retryCount(wl.Name, before, *after, deactivated || isLeft, admitted)
		if isProvisioning(before.Name) && before.State != after.State {
			retries := ptr.Deref(before.RetryCount, 0)
			if before.State == kueue.CheckStateReady {
				retries = 0
			}
			if after.State == kueue.CheckStateRejected && retries != provisioningLimit && !j.requests[wl.Name].revoked || after.State == kueue.CheckStateRetry && retries >= provisioningLimit {
				j.fail("rule 14", "check %s of %s becomes %s after %d retries of %d", before.Name, wl.Name, after.State, retries, provisioningLimit)
			}
			if want := min(provisioningBase<<retries, provisioningMax); after.State == kueue.CheckStateRetry && int(ptr.Deref(after.RequeueAfterSeconds, 0)) != want {
				j.fail("rule 14", "check %s of %s backs off for %d s instead of %d s", before.Name, wl.Name, ptr.Deref(after.RequeueAfterSeconds, 0), want)
			}
		}
		if after.State != kueue.CheckStateRetry {
			taken = append(taken, before.Name)
		}
		if before.State == kueue.CheckStateRetry && after.State == kueue.CheckStatePending && !deactivated {
			if after.RequeueAfterSeconds != nil {
				j.fail("rule 6", "check %s of %s keeps its delay after the requeue", before.Name, wl.Name)
			}
		}
	}
	if requeued && resetFromRetry(old, wl) {
		for _, check := range wl.Status.AdmissionChecks {
			if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || check.LastTransitionTime.After(now) || check.LastTransitionTime.Time.Before(j.deadline(old)) {
				j.fail("rule 6", "check %s of %s after the requeue: %s", check.Name, wl.Name, checkText(check))
			}
		}
		if !requeueAt(wl).IsZero() {
			j.fail("rule 6", "%s is requeued and has requeueAt still", wl.Name)
		}
	}
	for _, name := range taken {
		delete(j.asked[wl.Name], name)
	}
}

// takenOut: a queued workload has to wait for a check. One that was stopped for a check, as
// by the gate off, is not queued, and its delays count from that eviction. A slice of an elastic
// job is not evicted from the queue, since its job would make it anew.
func takenOut(old, wl *kueue.Workload) bool {
	after := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	_, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return byCheck && !workload.IsElasticWorkload(wl) && !waitsByCheck(old) && requeueAt(old).IsZero() && !requeueAt(wl).IsZero() && !workload.HasQuotaReservation(old) &&
		after != nil && after.Status == metav1.ConditionFalse
}

// evictionMoved: a workload that stays evicted has the eviction moved by the start of a wait
// alone, and never back. Its place in the queue is by that time. One that is preempted before
// its reservation is written does not stay evicted.
func (j *judge) evictionMoved(old, wl *kueue.Workload, isBack bool) {
	before, after := evictedAt(old), evictedAt(wl)
	switch {
	case after.Equal(before):
	case !workload.HasQuotaReservation(old) && workload.HasQuotaReservation(wl):
	case isBack:
		j.fail("rule 16", "%s is requeued, and its eviction is moved from %s to %s: %s", wl.Name, j.at(before), j.at(after), describe(wl))
	case after.Before(before) && !takenOut(old, wl): // by a clock that is behind the one before
		j.fail("rule 1", "the eviction of %s is moved back from %s to %s: %s", wl.Name, j.at(before), j.at(after), describe(wl))
	default:
		j.dated(wl, after)
	}
}

// dated: delays count from the eviction, which must not lie before it happened.
func (j *judge) dated(wl *kueue.Workload, at time.Time) {
	asked := slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateRetry && j.delayOf(wl, check) > 0 && j.isRequired(wl, check.Name)
	})
	if ahead := at.Sub(j.decided); ahead > time.Second || asked && ahead < 0 {
		j.fail("rule 1", "the eviction of %s, of %s, is dated %s", wl.Name, j.decided.UTC().Format("4:05.000"), at.UTC().Format("4:05"))
	}
}

// retryCount: each retry is counted once, in the write that ends it.
func (j *judge) retryCount(name string, before, after kueue.AdmissionCheckState, deactivated, admitted bool) {
	counts := j.counts[name]
	if counts == nil {
		counts = make(map[kueue.AdmissionCheckReference]int32)
		j.counts[name] = counts
	}
	want := []int32{counts[before.Name]}
	switch {
	case deactivated:
		want = append(want, 0)
		if before.State == kueue.CheckStateRetry {
			// Said when the workload was active again.
			want = append(want, counts[before.Name]+1)
		}
	case before.State == kueue.CheckStateRetry && after.State == kueue.CheckStatePending:
		want = []int32{counts[before.Name] + 1}
		j.seenEvents["retries"]++
	case admitted, before.State == kueue.CheckStateReady && after.State == kueue.CheckStatePending,
		before.State == kueue.CheckStateReady && after.State == kueue.CheckStateRetry:
		want = []int32{0}
	case before.State == kueue.CheckStateReady, after.State == kueue.CheckStateReady:
		want = append(want, 0)
	case isProvisioning(before.Name) && j.requests[name].provisioned:
		// Its check was not ready, as the workload waited.
		want = append(want, 0)
	}
	got := ptr.Deref(after.RetryCount, 0)
	if j.world.config.SwitchGate && isProvisioning(before.Name) && before.State == after.State && got <= provisioningLimit {
		// Retries with the gate off are carried over.
		want = append(want, max(got, counts[before.Name]))
	}
	if !slices.Contains(want, got) {
		j.fail("rule 6 and 10", "check %s of %s has retryCount %d instead of %v (from %s to %s)", before.Name, name, got, want, checkText(before), checkText(after))
	}
	counts[before.Name] = got
}

// requeueCount: only WaitForPodsReady counts there.
func (j *judge) requeueCount(old, wl *kueue.Workload, evictedNow, deactivated bool) {
	was, is := requeueStateCount(old), requeueStateCount(wl)
	if was == is {
		return
	}
	cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	switch {
	case deactivated && is == 0:
	case !baseHasFields && j.world.config.SwitchGate && j.world.config.Provisioning && is == 0:
		// With the gate off v0.14's controller of ProvisioningRequests counts there, too.
	case !j.world.config.PodsReady:
		j.fail("rule 13", "requeueState.count of %s goes from %d to %d without WaitForPodsReady", wl.Name, was, is)
	case evictedNow && cond.Reason == kueue.WorkloadEvictedByPodsReadyTimeout && is == was+1:
	case is == 0 && conditionTrue(wl, kueue.WorkloadPodsReady):
	case is == was-1 && isPodsReadyTimeout(old) && cond.Reason == kueue.WorkloadEvictedByPreemption:
		// The base's own: a preemption is written over the eviction that it has not seen.
		// upstream-defects.md has it.
		j.podsReadyUntil[wl.Name] = requeueAt(wl)
	default:
		j.fail("rule 13", "requeueState.count of %s goes from %d to %d: %s", wl.Name, was, is, describe(wl))
	}
}

func isPodsReadyTimeout(wl *kueue.Workload) bool {
	_, timedOut := workloadevict.IsEvictedByPodsReadyTimeout(wl)
	return timedOut
}

// waitsByCheck returns true for one that is recorded to wait for its checks.
func waitsByCheck(wl *kueue.Workload) bool {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return requeued != nil && requeued.Status == metav1.ConditionFalse && requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck
}

func requeueStateCount(wl *kueue.Workload) int32 {
	if wl.Status.RequeueState == nil {
		return 0
	}
	return ptr.Deref(wl.Status.RequeueState.Count, 0)
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

func isDeactivation(wl *kueue.Workload) bool {
	return !workload.IsActive(wl) || workloadevict.IsEvictedByDeactivation(wl) || conditionTrue(wl, kueue.WorkloadDeactivationTarget)
}

// isDeactivated leaves out one that is activated again, and is queued.
func isDeactivated(wl *kueue.Workload) bool {
	return isDeactivation(wl) && !(workload.IsActive(wl) && !conditionTrue(wl, kueue.WorkloadDeactivationTarget) && conditionTrue(wl, kueue.WorkloadRequeued))
}

func requeuedAgain(old, wl *kueue.Workload) bool {
	before := apimeta.FindStatusCondition(old.Status.Conditions, kueue.WorkloadRequeued)
	after := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return after != nil && after.Status == metav1.ConditionTrue && after.Reason == kueue.WorkloadBackoffFinished &&
		(before == nil || before.Status != metav1.ConditionTrue || resetFromRetry(old, wl))
}

func resetFromRetry(old, wl *kueue.Workload) bool {
	return slices.ContainsFunc(old.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool { return isResetFromRetry(check, wl) })
}

func isResetFromRetry(before kueue.AdmissionCheckState, wl *kueue.Workload) bool {
	after := workloadCheck(wl, before.Name)
	return before.State == kueue.CheckStateRetry && after != nil && after.State == kueue.CheckStatePending
}

func requeuedMessage(wl *kueue.Workload) string {
	return ptr.Deref(apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued), metav1.Condition{}).Message
}
