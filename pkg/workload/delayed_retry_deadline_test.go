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
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

var endOfTime = time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)

func TestLatestDeadline(t *testing.T) {
	cases := map[string]struct {
		retry        []kueue.AdmissionCheckState
		evictedAt    float64
		backoffUntil time.Time
		want         time.Time
	}{
		"nothing to wait for": {},
		"a check without a delay": {
			retry: []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStateRetry, 10)},
		},
		"a delay of zero is none, also from a time that is ahead": {
			retry: []kueue.AdmissionCheckState{retryAt("a", 40, 0)},
		},
		"from the eviction": {
			retry:     []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			evictedAt: 10,
			want:      at(70),
		},
		"from a later transition": {
			retry:     []kueue.AdmissionCheckState{retryAt("a", 20, 60)},
			evictedAt: 10,
			want:      at(80),
		},
		"the latest of all, whatever their order": {
			retry: []kueue.AdmissionCheckState{retryAt("a", 0, 60), retryAt("b", 0, 90), retryAt("c", 50, 30)},
			want:  at(90),
		},
		"a fraction of a second is rounded up": {
			retry: []kueue.AdmissionCheckState{retryAt("a", 0.3, 60)},
			want:  at(61),
		},
		"a backoff that ends later": {
			retry:        []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			backoffUntil: at(90),
			want:         at(90),
		},
		"a backoff that ends earlier": {
			retry:        []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			backoffUntil: at(30),
			want:         at(60),
		},
		"a backoff alone": {
			backoffUntil: at(30),
			want:         at(30),
		},
		"the longest delay, at the end of time": {
			retry: []kueue.AdmissionCheckState{{
				Name:                "a",
				State:               kueue.CheckStateRetry,
				LastTransitionTime:  metav1.NewTime(endOfTime),
				RequeueAfterSeconds: ptr.To[int32](math.MaxInt32),
			}},
			want: endOfTime,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := latestDeadline(tc.retry, at(tc.evictedAt), tc.backoffUntil); !got.Equal(tc.want) {
				t.Errorf("Unexpected deadline %s, want %s", got, tc.want)
			}
		})
	}
}

func TestEvictionTime(t *testing.T) {
	cases := map[string]struct {
		retry []kueue.AdmissionCheckState
		want  time.Time
	}{
		"no check in Retry":           {want: at(5.3)},
		"a check without a delay":     {retry: []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStateRetry, 0)}, want: at(5.3)},
		"a delay, which is not cut":   {retry: []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStateRetry, 0), retryAt("b", 0, 60)}, want: at(6)},
		"a delay of zero, as if none": {retry: []kueue.AdmissionCheckState{retryAt("a", 0, 0)}, want: at(5.3)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := evictionTime(tc.retry, at(5.3)); !got.Equal(tc.want) {
				t.Errorf("Unexpected time %s, want %s", got, tc.want)
			}
		})
	}
}
