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

package kit

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	defaultBase   = 30 * time.Second
	defaultFactor = 2
	defaultCap    = time.Hour
	// maxDelay is the longest delay that the API can express.
	maxDelay = math.MaxInt32 * time.Second
)

// Backoff computes delays that grow with the number of retries.
//
// It differs from wait.Backoff, which steps from one delay to the next: the
// number of retries is in the object, so the delay follows from it directly.
type Backoff struct {
	// Base is the delay of the first retry. Zero or negative: 30 s.
	Base time.Duration
	// Factor multiplies the delay with each retry. Zero: 2. Less than 1, which
	// would shrink the delay: 1.
	Factor float64
	// Cap is the longest delay, jitter included. Zero or negative: 1 h.
	Cap time.Duration
	// Jitter spreads workloads that are retried together: a random part of up to
	// Jitter times the delay is added. Zero or negative: no jitter.
	Jitter float64
}

// Delay returns the delay to ask for after the given number of retries.
func (b Backoff) Delay(retries int32) time.Duration {
	base, factor, limit, jitter := b.Base, b.Factor, b.Cap, max(b.Jitter, 0)
	if base <= 0 {
		base = defaultBase
	}
	if factor == 0 {
		factor = defaultFactor
	}
	if limit <= 0 {
		limit = defaultCap
	}
	// The jitter is added below the cap, so that it spreads there as well.
	limit = min(limit, maxDelay)
	longest := float64(limit) / (1 + jitter)
	delay := time.Duration(min(float64(base)*math.Pow(max(factor, 1), float64(max(retries, 0))), longest))
	if jitter > 0 && delay > 0 {
		delay = wait.Jitter(delay, jitter)
	}
	return min(delay, limit)
}
