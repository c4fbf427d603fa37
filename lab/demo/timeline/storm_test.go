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
package timeline

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// asksBarely is a Retry without a delay.
func asksBarely(wl *kueue.Workload, now metav1.Time) {
	check(wl, "capacity", now, kueue.CheckStateRetry)
}

// evictedFor records what a policy gives, in the write of the eviction.
func evictedFor(delay int32, until float64) func(*kueue.Workload, metav1.Time) {
	return func(wl *kueue.Workload, now metav1.Time) {
		evicted(until)(wl, now)
		released(wl, now)
		check(wl, "capacity", now, kueue.CheckStateRetry).PolicyDelaySeconds = ptr.To(delay)
	}
}

func evictedForNothing(at float64) func(*kueue.Workload, metav1.Time) {
	return func(wl *kueue.Workload, now metav1.Time) {
		evictedFor(0, at)(wl, now)
		checkOf(wl, "capacity").PolicyDelaySeconds = nil
	}
}

// stormSteps has two retries without the policy, which comes after 5 seconds, and two
// with it.
func stormSteps() []step {
	return []step{
		{0.1, queued}, {0.2, reserved},
		{1, asksBarely}, {1.1, evictedForNothing(1)}, {1.2, requeued}, {1.3, reserved},
		{2, asksBarely}, {2.1, evictedForNothing(2)}, {2.2, requeued}, {2.3, reserved},
		{8, asksBarely}, {8.1, evictedFor(6, 14)}, {14.1, requeued}, {14.2, reserved},
		{15, asksBarely}, {15.1, evictedFor(5, 20)},
	}
}

func stormOf(steps []step) *Storm {
	h := NewHistory(start)
	h.End = at(18)
	for _, job := range []string{"job-1", "job-2"} {
		for _, v := range workload(job, steps...) {
			h.AddWorkload(v.At, v.Workload)
		}
	}
	return &Storm{History: h, Check: "capacity", Policy: at(5), Says: "a < b", Shortest: 5 * time.Second, Longest: 8 * time.Second}
}

func TestStormFigures(t *testing.T) {
	s := stormOf(stormSteps())
	want := []Figures{
		{Writes: 12, Retries: 4, Length: 4 * time.Second},
		{Writes: 8, Retries: 4, Length: 13 * time.Second},
	}
	if diff := cmp.Diff(want, []Figures{s.Before(), s.After()}); diff != "" {
		t.Errorf("unexpected figures (-want,+got):\n%s", diff)
	}
	if got := s.Before().PerSecond(); got != 3 {
		t.Errorf("got %v writes a second", got)
	}
}

func TestStormMeasured(t *testing.T) {
	s := stormOf(stormSteps())
	for now, want := range map[float64]bool{1.9: false, 2.1: true} {
		if s.MeasuredWithout(at(now)) != want {
			t.Errorf("without, after %v seconds: got %t", now, !want)
		}
	}
	for end, want := range map[float64]bool{14.9: false, 15.1: true} {
		if s.End = at(end); s.MeasuredWith() != want {
			t.Errorf("with, after %v seconds: got %t", end, !want)
		}
	}
	s = stormOf(stormSteps())
	for _, v := range workload("job-3", stormSteps()[:10]...) {
		s.AddWorkload(v.At, v.Workload)
	}
	if s.MeasuredWith() {
		t.Error("job-3 was not delayed")
	}
}

func TestStormVerify(t *testing.T) {
	const (
		recorded = iota
		notEarly
		noWriteMore
		allDelayed
	)
	cases := map[string]struct {
		change     func(s []step) []step
		wantBroken []int
	}{
		"the policy holds": {
			change: func(s []step) []step { return s },
		},
		"a delay that the policy does not give": {
			change:     func(s []step) []step { s[11].change = evictedFor(9, 14); return s },
			wantBroken: []int{recorded},
		},
		"a delay that is recorded after the eviction": {
			change: func(s []step) []step {
				s[11].change = evictedForNothing(8)
				return append(s[:12:12], append([]step{{8.2, evictedFor(6, 14)}}, s[12:]...)...)
			},
			wantBroken: []int{noWriteMore},
		},
		"no delay": {
			change:     func(s []step) []step { s[11].change = evictedForNothing(8); return s },
			wantBroken: []int{recorded},
		},
		"early": {
			change:     func(s []step) []step { s[12].second = 13.9; return s },
			wantBroken: []int{notEarly},
		},
		"a write more": {
			change: func(s []step) []step {
				return append(s[:12:12], append([]step{{9, deadline(14)}}, s[12:]...)...)
			},
			wantBroken: []int{noWriteMore},
		},
		"nothing happens": {
			change:     func(s []step) []step { return s[:2] },
			wantBroken: []int{recorded, notEarly, noWriteMore, allDelayed},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			promises := stormOf(tc.change(stormSteps())).Verify()
			var broken []int
			for i, p := range promises {
				if !p.Kept {
					broken = append(broken, i)
				}
			}
			if diff := cmp.Diff(tc.wantBroken, broken); diff != "" {
				t.Errorf("unexpected promises broken (-want,+got):\n%s\n%v", diff, promises)
			}
		})
	}
}

func TestStormSVG(t *testing.T) {
	for name, s := range map[string]*Storm{
		"all":     stormOf(stormSteps()),
		"nothing": {History: NewHistory(start), Policy: start},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s.SVG(&out, "a < b & c")
			decoder := xml.NewDecoder(strings.NewReader(out.String()))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("not well-formed: %v", err)
				}
			}
		})
	}
}
