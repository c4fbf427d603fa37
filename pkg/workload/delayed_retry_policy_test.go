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
	"fmt"
	"math"
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func quantityOf(value string) *resource.Quantity {
	return ptr.To(resource.MustParse(value))
}

func delaySeconds(spec kueue.AdmissionCheckRetryPolicy, count int32) int32 {
	return RetryPolicyFor("uid", "check", &spec).DelaySeconds(count)
}

func TestRetryPolicyDelaySeconds(t *testing.T) {
	backoff := func(base int32, factor string, longest *int32) kueue.AdmissionCheckRetryPolicy {
		spec := kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: base, MaxDelaySeconds: longest}
		if factor != "" {
			spec.Factor = quantityOf(factor)
		}
		return spec
	}
	static := func(base int32) kueue.AdmissionCheckRetryPolicy {
		return kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: base}
	}
	cases := map[string]struct {
		spec kueue.AdmissionCheckRetryPolicy
		// want has the delay for each count.
		want map[int32]int32
	}{
		"static":                             {spec: static(30), want: map[int32]int32{0: 30, 1: 30, 1000: 30, math.MaxInt32: 30}},
		"static, no delay":                   {spec: static(0), want: map[int32]int32{0: 0, 5: 0}},
		"static, the longest":                {spec: static(math.MaxInt32), want: map[int32]int32{0: math.MaxInt32}},
		"backoff doubles":                    {spec: backoff(30, "", nil), want: map[int32]int32{0: 30, 1: 60, 2: 120, 3: 240, 10: 30720}},
		"backoff ends at the maximum":        {spec: backoff(30, "", ptr.To[int32](100)), want: map[int32]int32{1: 60, 2: 100, 3: 100, math.MaxInt32: 100}},
		"the maximum is the base":            {spec: backoff(30, "", ptr.To[int32](30)), want: map[int32]int32{0: 30, 7: 30}},
		"backoff ends at what the field has": {spec: backoff(30, "", nil), want: map[int32]int32{26: 2013265920, 27: math.MaxInt32, math.MaxInt32: math.MaxInt32}},
		"a factor of 1":                      {spec: backoff(30, "1", nil), want: map[int32]int32{0: 30, math.MaxInt32: 30}},
		"a factor with a fraction":           {spec: backoff(100, "1.1", nil), want: map[int32]int32{0: 100, 1: 110, 2: 121, 3: 134, 4: 147}},
		"a factor in another form":           {spec: backoff(100, "1100m", nil), want: map[int32]int32{1: 110, 2: 121}},
		"a factor hardly above 1":            {spec: backoff(1, "1.000000001", nil), want: map[int32]int32{0: 1, 1: 2, 1000000000: 3, math.MaxInt32: 9}},
		"a huge factor":                      {spec: backoff(1, "9E", nil), want: map[int32]int32{0: 1, 1: math.MaxInt32, math.MaxInt32: math.MaxInt32}},
		"a factor of endless digits":         {spec: backoff(1, "1e10000000", nil), want: map[int32]int32{0: 1, 1: math.MaxInt32, math.MaxInt32: math.MaxInt32}},
		"no jitter, in another form": {
			spec: kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30, Jitter: quantityOf("0e20")},
			want: map[int32]int32{0: 30, 1: 30},
		},
		"a huge factor of nothing": {spec: backoff(0, "9E", nil), want: map[int32]int32{0: 0, 1: 0, math.MaxInt32: 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for count, want := range tc.want {
				if got := delaySeconds(tc.spec, count); got != want {
					t.Errorf("Unexpected delay after %d retries: %d, want %d", count, got, want)
				}
			}
		})
	}
}

func TestRetryPolicyAllows(t *testing.T) {
	cases := map[string]struct {
		limit *int32
		want  map[int32]bool
	}{
		"no limit":        {want: map[int32]bool{0: true, math.MaxInt32: true}},
		"never retried":   {limit: ptr.To[int32](0), want: map[int32]bool{0: false, 1: false}},
		"one retry":       {limit: ptr.To[int32](1), want: map[int32]bool{0: true, 1: false, 2: false}},
		"the largest":     {limit: ptr.To[int32](math.MaxInt32), want: map[int32]bool{math.MaxInt32 - 1: true, math.MaxInt32: false}},
		"several of them": {limit: ptr.To[int32](10), want: map[int32]bool{9: true, 10: false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := RetryPolicyFor("uid", "check", &kueue.AdmissionCheckRetryPolicy{LimitCount: tc.limit})
			for count, want := range tc.want {
				if got := policy.Allows(count); got != want {
					t.Errorf("Unexpected answer after %d retries: %t", count, got)
				}
			}
		})
	}
}

// What the jitter adds follows from the workload, the check and the count, and from
// nothing else. The numbers must be the same in each release: a manager of another
// one may look at the same workload.
func TestRetryPolicyJitter(t *testing.T) {
	spec := &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 1000000, Jitter: quantityOf("1")}
	cases := map[string]struct {
		uid   types.UID
		check kueue.AdmissionCheckReference
		count int32
		want  int32
	}{
		"a workload":       {uid: "u1", check: "a", count: 0, want: 1983011},
		"another workload": {uid: "u2", check: "a", count: 0, want: 1987896},
		"another check":    {uid: "u1", check: "b", count: 0, want: 1789347},
		"another count":    {uid: "u1", check: "a", count: 1, want: 1628668},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := RetryPolicyFor(tc.uid, tc.check, spec).DelaySeconds(tc.count); got != tc.want {
					t.Errorf("Unexpected delay %d, want %d", got, tc.want)
				}
			}
		})
	}
}

// A thousand workloads come back evenly. The test is chi-squared over 20 parts of the
// jitter: for 19 degrees of freedom a value above 43.8 has a probability of 0.001.
func TestRetryPolicySpreads(t *testing.T) {
	const (
		workloads = 1000
		parts     = 20
		base      = 3600
	)
	spec := &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: base, Jitter: quantityOf("1")}
	for count := range int32(5) {
		var found [parts]float64
		for i := range workloads {
			uid := types.UID(fmt.Sprintf("5c8c8cb2-0000-4000-8000-%012d", i))
			delay := RetryPolicyFor(uid, "check", spec).DelaySeconds(count)
			found[(delay-base-1)*parts/base]++
		}
		const want = float64(workloads) / parts
		chiSquared := 0.0
		for _, n := range found {
			chiSquared += (n - want) * (n - want) / want
		}
		if chiSquared > 43.8 {
			t.Errorf("Retry %d is not spread evenly: chi-squared is %.1f, workloads in each part %v", count, chiSquared, found)
		}
	}
}

func FuzzRetryPolicy(f *testing.F) {
	f.Add(int32(30), int32(3600), int64(2000), int64(100), int32(3), "uid", "check")
	f.Add(int32(0), int32(0), int64(1000), int64(0), int32(0), "", "")
	f.Add(int32(1), int32(math.MaxInt32), int64(1001), int64(1000), int32(math.MaxInt32), "u", "c")
	f.Add(int32(math.MaxInt32), int32(math.MaxInt32), int64(math.MaxInt64), int64(1000), int32(1), "u", "c")
	f.Fuzz(func(t *testing.T, base, longest int32, factorMillis, jitterMillis int64, count int32, uid, check string) {
		if base < 0 || longest < base || factorMillis < 1000 || jitterMillis < 0 || jitterMillis > 1000 || count < 0 {
			t.Skip("refused by the API server")
		}
		spec := kueue.AdmissionCheckRetryPolicy{
			Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: base, MaxDelaySeconds: &longest,
			Factor: resource.NewMilliQuantity(factorMillis, resource.DecimalSI),
		}
		delay := func(count int32) int64 {
			return int64(RetryPolicyFor(types.UID(uid), kueue.AdmissionCheckReference(check), &spec).DelaySeconds(count))
		}
		plain := delay(count)
		if plain < int64(base) || plain > int64(longest) {
			t.Errorf("Unexpected delay %d, want one from %d to %d", plain, base, longest)
		}
		if count < math.MaxInt32 && delay(count+1) < plain {
			t.Errorf("The delay gets shorter: %d after %d retries, then %d", plain, count, delay(count+1))
		}
		if count <= 20 {
			// The power, with exact numbers.
			exact := new(big.Rat).SetInt64(int64(base))
			for range count {
				exact.Mul(exact, big.NewRat(factorMillis, 1000))
			}
			up := new(big.Int).Add(exact.Num(), new(big.Int).Sub(exact.Denom(), big.NewInt(1)))
			want := up.Quo(up, exact.Denom())
			if limit := big.NewInt(int64(longest)); want.Cmp(limit) > 0 {
				want = limit
			}
			if want.Int64() != plain {
				t.Errorf("Unexpected delay after %d retries: %d, want %s", count, plain, want)
			}
		}
		spec.Jitter = resource.NewMilliQuantity(jitterMillis, resource.DecimalSI)
		before := spec.DeepCopy()
		most := min((int64(longest)*(1000+jitterMillis)+999)/1000, math.MaxInt32)
		if got := delay(count); got < plain || got > most {
			t.Errorf("Unexpected delay with jitter: %d, want one from %d to %d", got, plain, most)
		}
		if got := delay(count); got != delay(count) || !before.Jitter.Equal(*spec.Jitter) {
			t.Error("The delay is another one when it is asked for again")
		}
	})
}
