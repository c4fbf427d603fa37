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

package times

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestStorable(t *testing.T) {
	whole := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		time, want time.Time
	}{
		"a whole second":                 {time: whole, want: whole},
		"a fraction of it is rounded up": {time: whole.Add(time.Millisecond), want: whole.Add(time.Second)},
		"the latest":                     {time: latestTime, want: latestTime},
		"after the latest":               {time: latestTime.Add(time.Millisecond), want: latestTime},
		"zero stays zero":                {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Storable(tc.time); !got.Equal(tc.want) {
				t.Errorf("Unexpected time %s, want %s", got, tc.want)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	created := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	behindUTC := time.FixedZone("", -3600)
	aheadOfUTC := time.FixedZone("", 3600)
	cases := map[string]struct {
		state      kueue.CheckState
		time, want time.Time
	}{
		"as it is":                         {time: created, want: created},
		"the year 1, which is no time":     {want: created},
		"before the year 1":                {time: time.Date(1, time.January, 1, 0, 0, 0, 0, aheadOfUTC), want: created},
		"the latest":                       {time: latestTime, want: latestTime},
		"after the year 9999, once in UTC": {time: time.Date(9999, time.December, 31, 23, 59, 59, 0, behindUTC), want: latestTime},
		"a fraction of a second":           {time: created.Add(time.Millisecond), want: created.Add(time.Millisecond)},
		"a fraction of a second, Retry":    {state: kueue.CheckStateRetry, time: created.Add(time.Millisecond), want: created.Add(time.Second)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := utiltestingapi.MakeWorkload("wl", "ns").Creation(created).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "a", State: tc.state, LastTransitionTime: metav1.NewTime(tc.time)}).
				Obj()
			wl.Status.Conditions = []metav1.Condition{{Type: "c", LastTransitionTime: metav1.NewTime(tc.time)}}
			wl.Status.RequeueState = &kueue.RequeueState{ObservedRetries: []kueue.ObservedRetry{{Name: "a", LastTransitionTime: metav1.NewTime(tc.time)}}}
			Repair(wl)
			if diff := cmp.Diff(tc.want, wl.Status.AdmissionChecks[0].LastTransitionTime.UTC()); diff != "" {
				t.Errorf("Unexpected time of the check (-want,+got):\n%s", diff)
			}
			if got := wl.Status.Conditions[0].LastTransitionTime.UTC(); tc.state == "" && !got.Equal(tc.want) {
				t.Errorf("Unexpected time of the condition %s, want %s", got, tc.want)
			}
			if got := wl.Status.RequeueState.ObservedRetries[0].LastTransitionTime.UTC(); tc.state == "" && !got.Equal(tc.want) {
				t.Errorf("Unexpected time of the record %s, want %s", got, tc.want)
			}
		})
	}
}
