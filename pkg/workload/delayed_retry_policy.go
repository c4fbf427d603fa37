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

package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const (
	// defaultRetryFactor is what a delay is multiplied with if a policy does not say.
	defaultRetryFactor = 2

	// policyPrecision is that of the numbers in between, in bits. A delay has 31 of
	// them; the rest is for the errors of a power with an exponent of 31 bits.
	policyPrecision = 192
)

// retryPolicy is the RetryPolicy of a check of one workload.
type retryPolicy struct {
	spec  *kueue.AdmissionCheckRetryPolicy
	uid   types.UID
	check kueue.AdmissionCheckReference
}

var _ RetryPolicy = retryPolicy{}

// RetryPolicyFor returns the policy of the check, as spec.retry of its AdmissionCheck
// has it, for the workload with the uid. What it returns depends on these alone, so
// that all processes, and each look, get the same.
func RetryPolicyFor(uid types.UID, check kueue.AdmissionCheckReference, spec *kueue.AdmissionCheckRetryPolicy) RetryPolicy {
	return retryPolicy{spec: spec, uid: uid, check: check}
}

// Allows returns true if the check may be retried after count retries.
func (p retryPolicy) Allows(count int32) bool {
	return p.spec.LimitCount == nil || count < *p.spec.LimitCount
}

// DelaySeconds returns the delay of the retry that follows on count others: that of
// the strategy, with the jitter on top, rounded up, or what the field can hold.
func (p retryPolicy) DelaySeconds(count int32) int32 {
	delay := number(float64(p.spec.BaseDelaySeconds))
	if p.spec.Strategy == kueue.AdmissionCheckRetryBackoff {
		longest := number(float64(ptr.Deref(p.spec.MaxDelaySeconds, math.MaxInt32)))
		delay = backoff(delay, quantity(p.spec.Factor, defaultRetryFactor), longest, count)
	}
	jitter := number(0).Mul(quantity(p.spec.Jitter, 0), p.fraction(count))
	return wholeSeconds(delay.Mul(delay, jitter.Add(jitter, number(1))))
}

// fraction returns a number from 0 on, and under 1, which is as good as random.
func (p retryPolicy) fraction(count int32) *big.Float {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", p.uid, p.check, count))
	const bits = 53 // those of a float64
	return number(float64(binary.BigEndian.Uint64(sum[:])>>(64-bits)) / (1 << bits))
}

// backoff returns base times factor to the power of count, or longest if that is
// less.
func backoff(base, factor, longest *big.Float, count int32) *big.Float {
	result, power := number(0).Set(base), number(0).Set(factor)
	for ; count > 0 && result.Cmp(longest) < 0; count >>= 1 {
		if count&1 != 0 {
			result.Mul(result, power)
		}
		// What is more than the longest delay need not be exact.
		if power.Mul(power, power); power.MantExp(nil) > policyPrecision {
			power.SetMantExp(number(1), policyPrecision)
		}
	}
	if result.Cmp(longest) > 0 {
		return number(0).Set(longest)
	}
	return result
}

// wholeSeconds rounds up, but for what is due to the precision of the numbers.
func wholeSeconds(seconds *big.Float) int32 {
	const parts = 1e15
	exact, _ := seconds.Mul(seconds, number(parts)).Add(seconds, number(0.5)).Int(nil)
	whole, part := exact.QuoRem(exact, big.NewInt(parts), new(big.Int))
	if part.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if whole.Cmp(big.NewInt(math.MaxInt32)) > 0 {
		return math.MaxInt32
	}
	return int32(whole.Int64())
}

func quantity(q *resource.Quantity, unset float64) *big.Float {
	switch {
	case q == nil:
		return number(unset)
	case q.IsZero(): // whatever its exponent
		return number(0)
	}
	ours := q.DeepCopy() // AsDec changes it
	dec := ours.AsDec()
	// More than a delay can be, whose digits may be without end. There are at most nine
	// of them after the point.
	if dec.Scale() < -10 || dec.UnscaledBig().BitLen() > 64 {
		return number(math.MaxInt32)
	}
	exact, _ := number(0).SetString(dec.String())
	return exact
}

func number(n float64) *big.Float {
	return new(big.Float).SetPrec(policyPrecision).SetFloat64(n)
}
