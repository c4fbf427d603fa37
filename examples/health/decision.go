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

package main

import (
	"fmt"
	"time"

	"kueue-acrequeueafter/kit"
)

// measurement is what the API server answered last.
type measurement struct {
	taken   bool
	latency time.Duration
	err     error
}

type limits struct {
	slow, delay, longest time.Duration
}

// spread is the random part of a delay: workloads that come back together would
// make the API server slow again.
const spread = 0.2

// decide asks for a delay that grows in proportion to the latency.
func decide(m measurement, l limits) kit.Verdict {
	switch {
	case !m.taken:
		return kit.Pending("The API server was not measured yet")
	case m.err != nil:
		return kit.Retry(l.spread(l.longest), fmt.Sprintf("The API server is not ready: %v", m.err))
	case m.latency > l.slow:
		times := float64(m.latency) / float64(max(l.slow, 1))
		delay := time.Duration(min(float64(l.delay)*times, float64(l.longest)))
		return kit.Retry(l.spread(delay), fmt.Sprintf("The API server answers in %v, more than %v is slow", m.latency.Round(time.Millisecond), l.slow))
	default:
		return kit.Ready(fmt.Sprintf("The API server answers in %v", m.latency.Round(time.Millisecond)))
	}
}

func (l limits) spread(delay time.Duration) time.Duration {
	return kit.Backoff{Base: delay, Factor: 1, Cap: l.longest, Jitter: spread}.Delay(0)
}
