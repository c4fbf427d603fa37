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
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// Delays and deadlines, computed from the objects alone: rules 1, 4 and 17.

// policyChanges: what comes from now on has another delay.
func (j *judge) policyChanges(base int32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.policies = append(j.policies, policy{base: base, from: time.Now()})
}

// asks is what the check, which has just spoken, asks for. The same Retry again has the
// delay that it was given.
func (j *judge) asks(old, wl *kueue.Workload, check kueue.AdmissionCheckState) asked {
	result := asked{delay: j.delayOf(wl, check), at: check.LastTransitionTime.Time}
	if check.RequeueAfterSeconds != nil || !j.world.config.Policy || check.Name != policyCheck {
		return result
	}
	result.bare, result.said = check.PolicyDelaySeconds == nil || !waitsByCheck(old), time.Now()
	return result
}

// given: the delay that Kueue writes is that of a policy which the check had since it
// spoke. From then on no change of the policy moves it.
func (j *judge) given(wl *kueue.Workload) {
	said, found := j.asked[wl.Name][policyCheck]
	check := workloadCheck(wl, policyCheck)
	if !found || !said.bare || check == nil || check.State != kueue.CheckStateRetry || check.PolicyDelaySeconds == nil {
		return
	}
	delay := time.Duration(*check.PolicyDelaySeconds) * time.Second
	for i := len(j.policies) - 1; i >= 0; i-- {
		if delay == policyDelay(wl, j.policies[i].base, ptr.Deref(check.RetryCount, 0)) {
			j.asked[wl.Name][policyCheck] = asked{delay: delay, at: said.at}
			return
		}
		// A process that has read the one before has had time to see this one.
		if j.policies[i].from.Before(said.said.Add(-2 * time.Second)) {
			break
		}
	}
	j.fail("rule 17, delay", "%s gets a delay of %s: %s", wl.Name, delay, describe(wl))
}

// delayOf is what the check asks for, or the shortest that its policy may have for it.
func (j *judge) delayOf(wl *kueue.Workload, check kueue.AdmissionCheckState) time.Duration {
	if check.RequeueAfterSeconds == nil && j.world.config.Policy && check.Name == policyCheck {
		if check.PolicyDelaySeconds != nil && waitsByCheck(wl) {
			return time.Duration(*check.PolicyDelaySeconds) * time.Second
		}
		return policyDelay(wl, policyBases[0], ptr.Deref(check.RetryCount, 0))
	}
	return time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0)) * time.Second
}

// policyDelay computes the delay of retryPolicy, with other means than Kueue does.
func policyDelay(wl *kueue.Workload, base, count int32) time.Duration {
	sum := sha256.Sum256([]byte(string(wl.UID) + "/" + string(policyCheck) + "/" + strconv.Itoa(int(count))))
	fraction := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	return time.Duration(math.Ceil(float64(base)*math.Exp2(float64(count))*(1+fraction))) * time.Second
}

// limit: a check that was retried as often as it may be has the workload
// deactivated with its next Retry, and not before.
func (j *judge) limit(old, wl *kueue.Workload, told bool) {
	check := workloadCheck(old, policyCheck)
	reached := check != nil && check.State == kueue.CheckStateRetry && ptr.Deref(check.RetryCount, 0) >= policyLimit
	target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	gaveUp := target != nil && target.Reason == kueue.WorkloadAdmissionCheckRetryLimitExceeded && !conditionTrue(old, kueue.WorkloadDeactivationTarget)
	switch {
	case gaveUp && !reached:
		j.fail("rule 17, limit", "%s is given up before its limit: %s", wl.Name, describe(old))
	case gaveUp:
		j.seenEvents["limits"]++
	case reached && told && j.isRequired(old, policyCheck):
		j.fail("rule 17, limit", "%s is to be retried beyond its limit: %s", wl.Name, describe(old))
	}
}

// deadline is the time before which the rules forbid to bring the workload back.
func (j *judge) deadline(wl *kueue.Workload) time.Time {
	return j.deadlineOf(wl, j.isRequired)
}

// deadlines are those that a process may take for it, which may know of other checks.
func (j *judge) deadlines(wl *kueue.Workload) []time.Time {
	var all []time.Time
	for _, checks := range j.setsOfChecks(wl) {
		all = append(all, j.deadlineOf(wl, func(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
			return slices.Contains(checks, name) && j.isOfFlavor(wl, name)
		}))
	}
	return all
}

// deadlineOf is the deadline if these checks are required.
func (j *judge) deadlineOf(wl *kueue.Workload, isRequired func(*kueue.Workload, kueue.AdmissionCheckReference) bool) time.Time {
	until, evictedAt := j.podsReadyUntil[wl.Name], time.Time{}
	if evicted, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl); byCheck {
		evictedAt = evicted.LastTransitionTime.Time
	}
	for _, check := range wl.Status.AdmissionChecks {
		if check.State != kueue.CheckStateRetry || !isRequired(wl, check.Name) {
			continue
		}
		said, found := j.asked[wl.Name][check.Name]
		if !found {
			said = asked{delay: j.delayOf(wl, check), at: check.LastTransitionTime.Time}
		}
		if said.delay > 0 {
			until = later(until, later(said.at, evictedAt).Add(said.delay))
		}
	}
	if whole := until.Truncate(time.Second); whole.Before(until) {
		until = whole.Add(time.Second)
	}
	if latest := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); until.After(latest) {
		return latest
	}
	return until
}
