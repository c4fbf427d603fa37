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
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	cases := map[string]struct {
		backoff Backoff
		retries int32
		want    time.Duration
	}{
		"zero value, first":          {want: 30 * time.Second},
		"zero value, third":          {retries: 2, want: 2 * time.Minute},
		"zero value, cap":            {retries: 7, want: time.Hour},
		"zero value, huge count":     {retries: math.MaxInt32, want: time.Hour},
		"negative count":             {retries: -1, want: 30 * time.Second},
		"base and factor":            {backoff: Backoff{Base: time.Second, Factor: 3}, retries: 3, want: 27 * time.Second},
		"fraction as factor":         {backoff: Backoff{Base: time.Second, Factor: 1.5}, retries: 2, want: 2250 * time.Millisecond},
		"constant":                   {backoff: Backoff{Base: time.Minute, Factor: 1}, retries: math.MaxInt32, want: time.Minute},
		"factor would shrink it":     {backoff: Backoff{Base: time.Minute, Factor: 0.5}, retries: 5, want: time.Minute},
		"negative factor":            {backoff: Backoff{Base: time.Minute, Factor: -2}, retries: 5, want: time.Minute},
		"negative base":              {backoff: Backoff{Base: -time.Minute}, want: 30 * time.Second},
		"negative cap":               {backoff: Backoff{Cap: -time.Minute}, retries: math.MaxInt32, want: time.Hour},
		"negative jitter":            {backoff: Backoff{Jitter: -1}, retries: 1, want: time.Minute},
		"cap below base":             {backoff: Backoff{Base: time.Hour, Cap: time.Minute}, want: time.Minute},
		"longest cap":                {backoff: Backoff{Factor: 1e300, Cap: math.MaxInt64}, retries: math.MaxInt32, want: maxDelay},
		"longest base without steps": {backoff: Backoff{Base: math.MaxInt64, Cap: math.MaxInt64}, want: maxDelay},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.backoff.Delay(tc.retries); got != tc.want {
				t.Errorf("Delay(%d) = %v, want %v", tc.retries, got, tc.want)
			}
		})
	}
}

func TestBackoffJitter(t *testing.T) {
	const tries = 1000
	cases := map[string]struct {
		retries  int32
		from, to time.Duration
	}{
		"below the cap": {retries: 2, from: 4 * time.Second, to: 6 * time.Second},
		"at the cap":    {retries: math.MaxInt32, from: 40 * time.Second, to: 60 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			backoff := Backoff{Base: time.Second, Cap: time.Minute, Jitter: 0.5}
			seen := map[time.Duration]bool{}
			for range tries {
				got := backoff.Delay(tc.retries)
				if got < tc.from || got > tc.to {
					t.Fatalf("Delay(%d) = %v, want from %v to %v", tc.retries, got, tc.from, tc.to)
				}
				seen[got] = true
			}
			if len(seen) < tries/2 {
				t.Errorf("Only %d different delays out of %d", len(seen), tries)
			}
		})
	}
}
