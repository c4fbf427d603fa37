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
	"errors"
	"strings"
	"testing"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func TestDecide(t *testing.T) {
	l := limits{slow: 100 * time.Millisecond, delay: 10 * time.Second, longest: time.Minute}
	cases := map[string]struct {
		measured     measurement
		wantState    kueue.CheckState
		wantDelay    time.Duration // a random part of it may be added, or be below the longest
		wantMessages string
	}{
		"not measured":       {wantState: kueue.CheckStatePending, wantMessages: "not measured yet"},
		"fast":               {measured: measurement{taken: true, latency: 100 * time.Millisecond}, wantState: kueue.CheckStateReady, wantMessages: "in 100ms"},
		"slow":               {measured: measurement{taken: true, latency: 101 * time.Millisecond}, wantState: kueue.CheckStateRetry, wantDelay: 10100 * time.Millisecond, wantMessages: "in 101ms"},
		"three times slower": {measured: measurement{taken: true, latency: 300 * time.Millisecond}, wantState: kueue.CheckStateRetry, wantDelay: 30 * time.Second, wantMessages: "in 300ms"},
		"very slow":          {measured: measurement{taken: true, latency: time.Minute}, wantState: kueue.CheckStateRetry, wantDelay: 50 * time.Second, wantMessages: "in 1m0s"},
		"not ready":          {measured: measurement{taken: true, err: errors.New("etcd failed")}, wantState: kueue.CheckStateRetry, wantDelay: 50 * time.Second, wantMessages: "etcd failed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.measured, l)
			if got.State != tc.wantState || !strings.Contains(got.Message, tc.wantMessages) {
				t.Errorf("Unexpected verdict %v", got)
			}
			longest := time.Duration(float64(tc.wantDelay) * (1 + spread))
			if got.RetryAfter < tc.wantDelay || got.RetryAfter > longest {
				t.Errorf("Unexpected delay %v, want from %v to %v", got.RetryAfter, tc.wantDelay, longest)
			}
		})
	}
}
