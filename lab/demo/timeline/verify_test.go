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
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// The promises by their place in the list.
const (
	freesQuota = iota
	recordsDeadline
	quotaIsUsed
	movesDeadline
	notEarly
	oneWrite
	notLate
	allFinish
)

func TestVerify(t *testing.T) {
	cases := map[string]struct {
		change     func(steps []step) []step
		wantBroken []int
	}{
		"the rules are kept": {
			change: func(s []step) []step { return s },
		},
		"deadlines rounded up": {
			change: func(s []step) []step { s[3].change, s[6].change = evicted(8.9), deadline(18); return s },
		},
		"quota kept for too long": {
			change:     func(s []step) []step { s[4].second = 7.5; return s },
			wantBroken: []int{freesQuota},
		},
		"quota kept until the deadline, as v0.19 does": {
			change: func(s []step) []step {
				reset := func(wl *kueue.Workload, now metav1.Time) {
					condition(wl, kueue.WorkloadEvicted, true, now, kueue.WorkloadEvictedByAdmissionCheck)
					for _, name := range []string{"capacity", "budget"} {
						check(wl, name, now, kueue.CheckStatePending).RetryCount = ptr.To[int32](1)
					}
				}
				return []step{s[0], s[1], s[2], {3.3, deadline(8)}, s[5], s[6], {18, reset}, {18.2, released}, {18.4, requeued}, {18.5, reserved}, s[9], s[10]}
			},
			wantBroken: []int{freesQuota, recordsDeadline, quotaIsUsed, oneWrite},
		},
		"eviction without a deadline": {
			change: func(s []step) []step {
				s[3].change = func(wl *kueue.Workload, now metav1.Time) {
					condition(wl, kueue.WorkloadEvicted, true, now, kueue.WorkloadEvictedByAdmissionCheck)
				}
				return s
			},
			wantBroken: []int{recordsDeadline},
		},
		"eviction resets the checks": {
			change: func(s []step) []step {
				s[3].change = func(wl *kueue.Workload, now metav1.Time) {
					evicted(8)(wl, now)
					check(wl, "capacity", now, kueue.CheckStatePending)
				}
				return s
			},
			wantBroken: []int{recordsDeadline, oneWrite},
		},
		"deadline too short": {
			change:     func(s []step) []step { s[6].change = deadline(17); return s },
			wantBroken: []int{movesDeadline},
		},
		"deadline too long": {
			change:     func(s []step) []step { s[6].change = deadline(19.5); return s },
			wantBroken: []int{movesDeadline, notEarly},
		},
		"deadline not moved, reserved early": {
			change: func(s []step) []step {
				s[7].second, s[8].second, s[9].second = 8.1, 8.2, 8.3
				return append(s[:6], s[7:]...)
			},
			wantBroken: []int{movesDeadline, notEarly},
		},
		"reserved a moment early": {
			change:     func(s []step) []step { s[7].second, s[8].second = 17.98, 17.99; return s },
			wantBroken: []int{notEarly},
		},
		"reserved early, seen late": {
			change: func(s []step) []step {
				reserve := s[8].change
				s[8].change = func(wl *kueue.Workload, _ metav1.Time) { reserve(wl, whole(17.9)) }
				return s
			},
			wantBroken: []int{notEarly},
		},
		"reserved late": {
			change:     func(s []step) []step { s[8].second, s[9].second = 22.1, 22.2; return s },
			wantBroken: []int{notLate},
		},
		"requeued in two writes": {
			change: func(s []step) []step {
				again := step{18.05, s[7].change}
				s[7].change = func(wl *kueue.Workload, _ metav1.Time) { wl.Status.RequeueState = nil }
				return append(s[:8], append([]step{again}, s[8:]...)...)
			},
			wantBroken: []int{oneWrite},
		},
		"delay left behind": {
			change: func(s []step) []step {
				s[7].change = func(wl *kueue.Workload, now metav1.Time) {
					requeued(wl, now)
					checkOf(wl, "capacity").RequeueAfterSeconds = ptr.To[int32](5)
				}
				return s
			},
			wantBroken: []int{oneWrite},
		},
		"retry not counted": {
			change: func(s []step) []step {
				s[7].change = func(wl *kueue.Workload, now metav1.Time) {
					requeued(wl, now)
					checkOf(wl, "budget").RetryCount = nil
				}
				return s
			},
			wantBroken: []int{oneWrite},
		},
		"requeueAt left behind": {
			change: func(s []step) []step {
				s[7].change = func(wl *kueue.Workload, now metav1.Time) {
					requeued(wl, now)
					deadline(18)(wl, now)
				}
				return s
			},
			wantBroken: []int{oneWrite},
		},
		"stuck after the second Retry": {
			change:     func(s []step) []step { return s[:7] },
			wantBroken: []int{notEarly, oneWrite, notLate, allFinish},
		},
		"nothing but a queue": {
			change: func(s []step) []step { return s[:1] },
			wantBroken: []int{
				freesQuota, recordsDeadline, quotaIsUsed, movesDeadline, notEarly, oneWrite, notLate, allFinish,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			promises := Verify(story(tc.change(waitingSteps())), testScript)
			var broken []int
			for i, p := range promises {
				if !p.Kept {
					broken = append(broken, i)
					if p.Detail == "" {
						t.Errorf("no reason why %q is broken", p.Text)
					}
				}
			}
			if diff := cmp.Diff(tc.wantBroken, broken); diff != "" {
				t.Errorf("unexpected broken promises (-want,+got):\n%s\n%+v", diff, promises)
			}
			if got := Broken(promises); got != len(tc.wantBroken) {
				t.Errorf("Broken() = %d", got)
			}
		})
	}
}

func TestVerifyUnusedQuota(t *testing.T) {
	h := story(waitingSteps())
	h.workloads["job-b"] = workload("job-b", otherSteps(18.5, 20)...)
	h.workloads["job-c"] = workload("job-c", otherSteps(20, 21)...)
	if got := Verify(h, testScript)[quotaIsUsed]; got.Kept {
		t.Errorf("nobody used the quota, but the promise is kept: %+v", got)
	}
}

func TestWrites(t *testing.T) {
	if got := Writes(story(waitingSteps()), testScript); got != 5 {
		t.Errorf("Writes() = %d, want 5", got)
	}
	if got := Writes(story(waitingSteps()[:7]), testScript); got != 0 {
		t.Errorf("Writes() = %d of a Workload that is stuck, want 0", got)
	}
}
