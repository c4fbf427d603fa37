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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func TestNextState(t *testing.T) {
	now := time.Date(2026, time.November, 21, 10, 0, 0, 400_000_000, time.UTC)
	rounded := metav1.NewTime(time.Date(2026, time.November, 21, 10, 0, 1, 0, time.UTC))
	before := metav1.NewTime(now.Add(-time.Hour).Truncate(time.Second))

	pending := kueue.AdmissionCheckState{
		Name: "check", State: kueue.CheckStatePending, LastTransitionTime: before, Message: "old", RetryCount: ptr.To[int32](3),
	}
	ready := pending
	ready.State = kueue.CheckStateReady
	retry := pending
	retry.State, retry.RequeueAfterSeconds = kueue.CheckStateRetry, ptr.To[int32](60)
	later := retry
	later.RequeueAfterSeconds = ptr.To[int32](3 * 3600)
	leftOver := pending
	leftOver.RequeueAfterSeconds = ptr.To[int32](60)
	evictedAt := func(at time.Time) metav1.Condition {
		return metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}
	}
	other := kueue.AdmissionCheckState{Name: "other", State: kueue.CheckStateReady, LastTransitionTime: before}

	updates := []kueue.PodSetUpdate{{Name: kueue.DefaultPodSetName, Labels: map[string]string{"pool": "a"}}}
	base := func(check kueue.AdmissionCheckState) *workloadWrapper {
		return makeWorkload("wl").checks(other, check)
	}
	reserved := func(check kueue.AdmissionCheckState) *workloadWrapper {
		return base(check).reserved()
	}
	written := func(state kueue.CheckState, at metav1.Time, message string, seconds *int32) *kueue.AdmissionCheckState {
		return &kueue.AdmissionCheckState{Name: "check", State: state, LastTransitionTime: at, Message: message, RequeueAfterSeconds: seconds}
	}

	cases := map[string]struct {
		wl      *kueue.Workload
		check   kueue.AdmissionCheckReference
		verdict Verdict
		want    *kueue.AdmissionCheckState
	}{
		"ready": {
			wl:      reserved(pending).obj(),
			verdict: Ready("paid", updates...),
			want: &kueue.AdmissionCheckState{
				Name: "check", State: kueue.CheckStateReady, LastTransitionTime: rounded, Message: "paid", PodSetUpdates: updates,
			},
		},
		"retry after a delay": {
			wl:      reserved(pending).obj(),
			verdict: Retry(time.Minute, "spent"),
			want:    written(kueue.CheckStateRetry, rounded, "spent", ptr.To[int32](60)),
		},
		"retry without a delay": {
			wl:      reserved(pending).obj(),
			verdict: Retry(0, "spent"),
			want:    written(kueue.CheckStateRetry, rounded, "spent", ptr.To[int32](0)),
		},
		"rejected": {
			wl:      reserved(pending).obj(),
			verdict: Rejected("never"),
			want:    written(kueue.CheckStateRejected, rounded, "never", nil),
		},
		"pending with another message keeps its transition time": {
			wl:      reserved(pending).obj(),
			verdict: Pending("still working"),
			want:    written(kueue.CheckStatePending, before, "still working", nil),
		},
		"pending with the same message": {
			wl:      reserved(pending).obj(),
			verdict: Pending("old"),
		},
		"nothing to say": {
			wl: reserved(pending).obj(),
		},
		"a message that is too long is cut": {
			wl:      reserved(pending).obj(),
			verdict: Rejected(strings.Repeat("x", 40_000)),
			want:    written(kueue.CheckStateRejected, rounded, strings.Repeat("x", 32*1024-4)+" ...", nil),
		},
		"a message is not cut within a character": {
			wl:      reserved(pending).obj(),
			verdict: Rejected(strings.Repeat("x", 32*1024-6) + "€€€"),
			want:    written(kueue.CheckStateRejected, rounded, strings.Repeat("x", 32*1024-6)+" ...", nil),
		},
		"pods are changed with ready only": {
			wl:      reserved(pending).obj(),
			verdict: Verdict{State: kueue.CheckStateRejected, PodSetUpdates: updates},
			want:    written(kueue.CheckStateRejected, rounded, "", nil),
		},
		"a delay is asked for with retry only": {
			wl:      reserved(pending).obj(),
			verdict: Verdict{State: kueue.CheckStateRejected, RetryAfter: time.Minute},
			want:    written(kueue.CheckStateRejected, rounded, "", nil),
		},
		"another change to the pods": {
			wl:      reserved(ready).obj(),
			verdict: Ready("old", updates...),
			want: &kueue.AdmissionCheckState{
				Name: "check", State: kueue.CheckStateReady, LastTransitionTime: before, Message: "old", PodSetUpdates: updates,
			},
		},
		"an admitted workload that is to be retried": {
			wl:      reserved(ready).admitted().obj(),
			verdict: Retry(time.Minute, "the machine is broken"),
			want:    written(kueue.CheckStateRetry, rounded, "the machine is broken", ptr.To[int32](60)),
		},
		"evicted, the same delay": {
			wl:      base(retry).evicted().obj(),
			verdict: Retry(time.Minute, "old"),
		},
		"evicted, the same delay in other units": {
			wl:      base(retry).evicted().obj(),
			verdict: Retry(59*time.Second+time.Millisecond, "old"),
		},
		"evicted, the same delay with another message": {
			wl:      base(retry).evicted().obj(),
			verdict: Retry(time.Minute, "new"),
			want:    written(kueue.CheckStateRetry, before, "new", ptr.To[int32](60)),
		},
		"evicted, the delay is renewed": {
			wl:      base(retry).evicted().obj(),
			verdict: Verdict{State: kueue.CheckStateRetry, Message: "old", RetryAfter: time.Minute, Renew: true},
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](60)),
		},
		"evicted, the delay is prolonged": {
			wl:      base(retry).evicted().obj(),
			verdict: Retry(time.Hour, "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](3600)),
		},
		"evicted, the delay is shortened to nothing": {
			wl:      base(retry).evicted().obj(),
			verdict: Retry(0, "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](0)),
		},
		"retry at a time": {
			wl:      reserved(pending).obj(),
			verdict: RetryAt(now.Add(time.Minute), "closed"),
			want:    written(kueue.CheckStateRetry, rounded, "closed", ptr.To[int32](60)),
		},
		"retry at a time that is over": {
			wl:      reserved(pending).obj(),
			verdict: RetryAt(now.Add(-time.Minute), "closed"),
			want:    written(kueue.CheckStateRetry, rounded, "closed", ptr.To[int32](0)),
		},
		"evicted, at the same time": {
			wl:      base(retry).condition(evictedAt(before.Add(3 * time.Second))).obj(),
			verdict: RetryAt(before.Add(time.Minute+2*time.Second), "old"),
		},
		"evicted, at the same time, which is to be renewed": {
			wl:      base(retry).condition(evictedAt(before.Time)).obj(),
			verdict: Verdict{State: kueue.CheckStateRetry, Message: "old", RetryAt: before.Add(time.Minute), Renew: true},
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](0)),
		},
		"retry at a time, with a delay that is left over": {
			wl:      reserved(leftOver).obj(),
			verdict: RetryAt(before.Add(time.Minute), "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](0)),
		},
		"evicted long after, so not at the same time": {
			wl:      base(retry).condition(evictedAt(before.Add(20 * time.Second))).obj(),
			verdict: RetryAt(now.Add(time.Minute), "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](60)),
		},
		"evicted, at a later time": {
			wl:      base(retry).condition(evictedAt(before.Time)).obj(),
			verdict: RetryAt(before.Add(time.Minute+time.Millisecond), "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](0)),
		},
		"evicted, at an earlier time": {
			wl:      base(later).condition(evictedAt(before.Time)).obj(),
			verdict: RetryAt(now.Add(time.Hour), "old"),
			want:    written(kueue.CheckStateRetry, rounded, "old", ptr.To[int32](3600)),
		},
		"evicted, at the same time with another message": {
			wl:      base(retry).condition(evictedAt(before.Time)).obj(),
			verdict: RetryAt(before.Add(time.Minute), "new"),
			want:    written(kueue.CheckStateRetry, before, "new", ptr.To[int32](60)),
		},
		"evicted, the delay is withdrawn": {
			wl:      base(retry).evicted().obj(),
			verdict: Pending("there is room"),
			want:    written(kueue.CheckStatePending, rounded, "there is room", nil),
		},
		"in the queue": {
			wl:      base(pending).obj(),
			verdict: Ready("paid"),
		},
		"deactivated": {
			wl:      reserved(pending).inactive().obj(),
			verdict: Ready("paid"),
		},
		"deactivated and evicted": {
			wl:      base(retry).evicted().inactive().obj(),
			verdict: Retry(time.Hour, "spent"),
		},
		"finished": {
			wl:      reserved(pending).finished().obj(),
			verdict: Ready("paid"),
		},
		"being deleted": {
			wl:      reserved(pending).deleted(now).obj(),
			verdict: Ready("paid"),
		},
		"without the check": {
			wl:      reserved(pending).obj(),
			check:   "unknown",
			verdict: Ready("paid"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			original := tc.wl.DeepCopy()
			check := tc.check
			if check == "" {
				check = "check"
			}
			got := NextState(tc.wl, check, tc.verdict, now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected state (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(original, tc.wl); diff != "" {
				t.Errorf("The workload was changed (-want,+got):\n%s", diff)
			}
		})
	}
}

// Nothing is to be written for a verdict that was written already, or the
// controller would never come to rest.
func TestNextStateComesToRest(t *testing.T) {
	now := time.Now()
	for _, verdict := range []Verdict{Pending("a"), Ready("b"), Retry(0, "c"), Retry(time.Millisecond, "d"), Retry(math.MaxInt64, "e"), RetryAt(now.Add(time.Hour), "f"), RetryAt(now.Add(-time.Hour), "g"), Rejected("h")} {
		for _, wl := range []*workloadWrapper{
			makeWorkload("wl").reserved(),
			makeWorkload("wl").evicted(),
		} {
			wl.checks(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending})
			first := NextState(wl.obj(), "check", verdict, now)
			if first == nil {
				t.Fatalf("Nothing to write for %v", verdict)
			}
			if again := NextState(wl.checks(*first).obj(), "check", verdict, now.Add(time.Minute)); again != nil {
				t.Errorf("Written again for %v: %v", verdict, again)
			}
		}
	}
}

func TestAsksAndWaitsFor(t *testing.T) {
	state := func(state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: "check", State: state}
	}
	cases := map[string]struct {
		wl                     *workloadWrapper
		wantAsks, wantWaitsFor bool
	}{
		"holds quota, pending": {
			wl:       makeWorkload("wl").reserved().checks(state(kueue.CheckStatePending)),
			wantAsks: true,
		},
		"holds quota, ready": {
			wl: makeWorkload("wl").reserved().checks(state(kueue.CheckStateReady)),
		},
		"holds quota, retry": {
			wl: makeWorkload("wl").reserved().checks(state(kueue.CheckStateRetry)),
		},
		"holds quota, without the check": {
			wl: makeWorkload("wl").reserved(),
		},
		"in the queue": {
			wl: makeWorkload("wl").checks(state(kueue.CheckStatePending)),
		},
		"evicted and not yet released, pending": {
			wl: makeWorkload("wl").reserved().evicted().checks(state(kueue.CheckStatePending)),
		},
		"evicted and not yet released, retry": {
			wl:           makeWorkload("wl").reserved().evicted().checks(state(kueue.CheckStateRetry)),
			wantWaitsFor: true,
		},
		"evicted, retry": {
			wl:           makeWorkload("wl").evicted().checks(state(kueue.CheckStateRetry)),
			wantWaitsFor: true,
		},
		"evicted by another check, ready": {
			wl: makeWorkload("wl").evicted().checks(state(kueue.CheckStateReady)),
		},
		"deactivated": {
			wl: makeWorkload("wl").evicted().inactive().checks(state(kueue.CheckStateRetry)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Asks(tc.wl.obj(), "check"); got != tc.wantAsks {
				t.Errorf("Asks = %v, want %v", got, tc.wantAsks)
			}
			if got := WaitsFor(tc.wl.obj(), "check"); got != tc.wantWaitsFor {
				t.Errorf("WaitsFor = %v, want %v", got, tc.wantWaitsFor)
			}
			if got := isAsking(tc.wl.obj()); got != tc.wantAsks {
				t.Errorf("isAsking = %v, want %v", got, tc.wantAsks)
			}
		})
	}
}

func TestWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int32{
		0:                              0,
		time.Nanosecond:                1,
		time.Second:                    1,
		time.Second + time.Nanosecond:  2,
		-time.Nanosecond:               0,
		-time.Hour:                     0,
		math.MinInt64:                  0,
		maxDelay:                       math.MaxInt32,
		maxDelay + time.Nanosecond:     math.MaxInt32,
		math.MaxInt64:                  math.MaxInt32,
		maxDelay - time.Nanosecond:     math.MaxInt32,
		maxDelay - time.Second:         math.MaxInt32 - 1,
		2*time.Minute + 30*time.Second: 150,
	} {
		if got := wholeSeconds(d); got != want {
			t.Errorf("wholeSeconds(%v) = %d, want %d", d, got, want)
		}
	}
}
