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
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func quantity(value string) *resource.Quantity {
	return ptr.To(resource.MustParse(value))
}

func TestDelaySeconds(t *testing.T) {
	cases := map[string]struct {
		policy kueue.AdmissionCheckRetryPolicy
		count  *int32
		want   int32
	}{
		"Static": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30},
			want:   30,
		},
		"Static: the count does not matter": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30},
			count:  ptr.To[int32](5),
			want:   30,
		},
		"Static: the longest": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: math.MaxInt32, Jitter: quantity("1")},
			want:   math.MaxInt32,
		},
		"Static: 0": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, Jitter: quantity("1")},
			count:  ptr.To[int32](5),
			want:   0,
		},
		"Backoff: the first retry": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30},
			want:   30,
		},
		"Backoff: the factor is 2 if the policy does not say": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30},
			count:  ptr.To[int32](3),
			want:   240,
		},
		"Backoff: a factor of 1": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, Factor: quantity("1")},
			count:  ptr.To[int32](math.MaxInt32),
			want:   30,
		},
		"Backoff: a factor of 1.5": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 10, Factor: quantity("1.5")},
			count:  ptr.To[int32](1),
			want:   15,
		},
		"Backoff: fractions are rounded up": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 10, Factor: quantity("1.5")},
			count:  ptr.To[int32](2),
			want:   23, // 22.5
		},
		"Backoff: what a float64 has too much is no second": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 100, Factor: quantity("1.1")},
			count:  ptr.To[int32](2),
			want:   121,
		},
		"Backoff: at most the max": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, MaxDelaySeconds: ptr.To[int32](100)},
			count:  ptr.To[int32](2),
			want:   100,
		},
		"Backoff: under the max": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, MaxDelaySeconds: ptr.To[int32](100)},
			count:  ptr.To[int32](1),
			want:   60,
		},
		"Backoff: more than a float64 holds, with a max": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, MaxDelaySeconds: ptr.To[int32](100)},
			count:  ptr.To[int32](math.MaxInt32),
			want:   100,
		},
		"Backoff: more than the API holds": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30},
			count:  ptr.To[int32](31),
			want:   math.MaxInt32,
		},
		"Backoff: more than a float64 holds": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, Factor: quantity("1000"), Jitter: quantity("1")},
			count:  ptr.To[int32](math.MaxInt32),
			want:   math.MaxInt32,
		},
		"Backoff: 0 times what no number holds": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, Jitter: quantity("1")},
			count:  ptr.To[int32](math.MaxInt32),
			want:   0,
		},
		"Backoff: a max of 0": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, MaxDelaySeconds: ptr.To[int32](0)},
			count:  ptr.To[int32](3),
			want:   0,
		},
		"a jitter of 0": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30, Jitter: quantity("0")},
			want:   30,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := delaySeconds(&tc.policy, "uid", kueue.AdmissionCheckState{Name: "check", RetryCount: tc.count})
			if got != tc.want {
				t.Errorf("Unexpected delay: %d s, want: %d s", got, tc.want)
			}
		})
	}
}

func TestDelaySecondsWithJitter(t *testing.T) {
	const workloads, buckets = 1000, 10
	cases := map[string]struct {
		policy  kueue.AdmissionCheckRetryPolicy
		counts  []int32
		wantMin int32
		wantMax int32
	}{
		"Static, by workload": {
			policy:  kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 3600, Jitter: quantity("1")},
			counts:  []int32{0},
			wantMin: 3600,
			wantMax: 7200,
		},
		"Static, by workload and count": {
			policy:  kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 3600, Jitter: quantity("0.5")},
			counts:  []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			wantMin: 3600,
			wantMax: 5400,
		},
		"Backoff: on top of the delay": {
			policy:  kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 1000, Jitter: quantity("0.1")},
			counts:  []int32{3},
			wantMin: 8000,
			wantMax: 8800,
		},
		"Backoff: on top of the max": {
			policy: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 1000,
				MaxDelaySeconds: ptr.To[int32](2000), Jitter: quantity("0.25")},
			counts:  []int32{3},
			wantMin: 2000,
			wantMax: 2500,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var histogram [buckets]int
			for i := range workloads {
				uid := types.UID(fmt.Sprintf("d3b0a5c0-0000-4000-8000-%012x", i))
				for _, count := range tc.counts {
					check := kueue.AdmissionCheckState{Name: "check", RetryCount: ptr.To(count)}
					got := delaySeconds(&tc.policy, uid, check)
					if got < tc.wantMin || got > tc.wantMax {
						t.Fatalf("Delay of workload %d, count %d: %d s is not from %d to %d s", i, count, got, tc.wantMin, tc.wantMax)
					}
					if again := delaySeconds(&tc.policy, uid, check); again != got {
						t.Fatalf("Delay of workload %d, count %d: %d s at the first look, %d s at the second", i, count, got, again)
					}
					bucket := int(got-tc.wantMin) * buckets / int(tc.wantMax-tc.wantMin+1)
					histogram[bucket]++
				}
			}
			// A delay falls into a bucket with the probability 1/10. Six standard deviations
			// off would be no accident, and the delays are the same in each run.
			n := float64(workloads * len(tc.counts))
			want, tolerance := n/buckets, 6*math.Sqrt(n*0.1*0.9)
			for i, got := range histogram {
				if math.Abs(float64(got)-want) > tolerance {
					t.Errorf("%d delays in tenth %d, want %.0f ± %.0f: %v", got, i, want, tolerance, histogram)
				}
			}
		})
	}
}

func TestDelaySecondsJitterDependsOn(t *testing.T) {
	policy := kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 1 << 30, Jitter: quantity("1")}
	check := func(name kueue.AdmissionCheckReference, count *int32) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, RetryCount: count}
	}
	base := delaySeconds(&policy, "uid", check("check", ptr.To[int32](0)))

	for name, other := range map[string]int32{
		"the workload": delaySeconds(&policy, "uid2", check("check", ptr.To[int32](0))),
		"the check":    delaySeconds(&policy, "uid", check("check2", ptr.To[int32](0))),
		"the count":    delaySeconds(&policy, "uid", check("check", ptr.To[int32](1))),
	} {
		if other == base {
			t.Errorf("The jitter does not depend on %s", name)
		}
	}

	// Neither the other fields of the check, nor a count that is not there instead of 0.
	same := check("check", nil)
	same.Message, same.State, same.RequeueAfterSeconds, same.PolicyDelaySeconds = "words", kueue.CheckStateRetry, ptr.To[int32](1), ptr.To[int32](2)
	if got := delaySeconds(&policy, "uid", same); got != base {
		t.Errorf("Unexpected delay: %d s, want: %d s", got, base)
	}
}

func TestExceeded(t *testing.T) {
	limited := func(limit *int32) *kueue.AdmissionCheckRetryPolicy {
		return &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30, LimitCount: limit}
	}
	cases := map[string]struct {
		policies Policies
		counts   map[kueue.AdmissionCheckReference]*int32
		want     []kueue.AdmissionCheckReference
	}{
		"no policies": {
			counts: map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](math.MaxInt32)},
		},
		"no limit": {
			policies: Policies{"a": limited(nil)},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](math.MaxInt32)},
		},
		"under the limit": {
			policies: Policies{"a": limited(ptr.To[int32](3))},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](2)},
		},
		"at the limit": {
			policies: Policies{"a": limited(ptr.To[int32](3))},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](3)},
			want:     []kueue.AdmissionCheckReference{"a"},
		},
		"over a limit that was lowered": {
			policies: Policies{"a": limited(ptr.To[int32](3))},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](4)},
			want:     []kueue.AdmissionCheckReference{"a"},
		},
		"0: never a retry, also without a count": {
			policies: Policies{"a": limited(ptr.To[int32](0))},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": nil},
			want:     []kueue.AdmissionCheckReference{"a"},
		},
		"1: one retry": {
			policies: Policies{"a": limited(ptr.To[int32](1))},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": nil},
		},
		"each check has its own limit": {
			policies: Policies{"a": limited(ptr.To[int32](3)), "b": limited(ptr.To[int32](1)), "c": nil},
			counts:   map[kueue.AdmissionCheckReference]*int32{"a": ptr.To[int32](2), "b": ptr.To[int32](2), "c": ptr.To[int32](2), "d": ptr.To[int32](2)},
			want:     []kueue.AdmissionCheckReference{"b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var retries []Retry
			for check, count := range tc.counts {
				retries = append(retries, Retry{AdmissionCheckState: kueue.AdmissionCheckState{Name: check, State: kueue.CheckStateRetry, RetryCount: count}})
			}
			var got []kueue.AdmissionCheckReference
			for _, retry := range tc.policies.exceeded(retries) {
				got = append(got, retry.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected checks over their limits (-want,+got):\n%s", diff)
			}
		})
	}
}
