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

package requeue

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// defaultFactor is what a delay is multiplied with if its policy does not say.
const defaultFactor = 2

// Policies are the retry policies of checks.
type Policies map[kueue.AdmissionCheckReference]*kueue.AdmissionCheckRetryPolicy

// exceeded returns the checks that were retried as often as their policy allows.
func (p Policies) exceeded(retries []Retry) []Retry {
	var exceeded []Retry
	for _, retry := range retries {
		if policy := p[retry.Name]; policy != nil && policy.LimitCount != nil && ptr.Deref(retry.RetryCount, 0) >= *policy.LimitCount {
			exceeded = append(exceeded, retry)
		}
	}
	return exceeded
}

// LimitMessage tells which checks were retried as often as their policy allows.
func (s Step) LimitMessage() string {
	return "exceeding the limit of retries, " + checksMessage(s.Retries, func(retry Retry) string {
		return fmt.Sprintf("after %d retries", ptr.Deref(retry.RetryCount, 0))
	})
}

// delay returns the delay of a Retry without requeueAfterSeconds, in seconds, and whether a
// policy gives one. While the workload waits, the recorded delay counts. Otherwise a recorded
// one is ignored: a controller may have applied an old copy of its entry.
func (p Policies) delay(wl *kueue.Workload, check kueue.AdmissionCheckState) (int32, bool) {
	if check.PolicyDelaySeconds != nil && IsWaitingForRetry(wl) {
		return *check.PolicyDelaySeconds, true
	}
	if policy := p[check.Name]; policy != nil {
		return delaySeconds(policy, wl.UID, check), true
	}
	return 0, false
}

// delaySeconds returns the delay of the next retry of the check, in seconds, rounded up.
// The jitter follows from the workload, the check and the count, so that all who compute
// the delay agree, and workloads that are retried together come back apart.
func delaySeconds(policy *kueue.AdmissionCheckRetryPolicy, uid types.UID, check kueue.AdmissionCheckState) int32 {
	delay := float64(policy.BaseDelaySeconds)
	count := ptr.Deref(check.RetryCount, 0)
	if policy.Strategy == kueue.AdmissionCheckRetryBackoff {
		factor := float64(defaultFactor)
		if policy.Factor != nil {
			factor = policy.Factor.AsApproximateFloat64()
		}
		if delay > 0 { // 0 times infinity is NaN
			delay = min(delay*math.Pow(factor, float64(count)), float64(ptr.Deref(policy.MaxDelaySeconds, math.MaxInt32)))
		}
	}
	if policy.Jitter != nil {
		delay += delay * policy.Jitter.AsApproximateFloat64() * fraction(uid, check.Name, count)
	}
	// The rounding error of a factor such as 1.1 must not add a second.
	return int32(min(math.Ceil(delay-1e-6), math.MaxInt32))
}

// fraction returns a number from 0 to less than 1.
func fraction(uid types.UID, check kueue.AdmissionCheckReference, count int32) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", uid, check, count))
	const bits = 53 // those of a float64
	return float64(binary.BigEndian.Uint64(sum[:])>>(64-bits)) / (1 << bits)
}
