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
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// What a policy gives is recorded once. After that it is the recorded delay that
// counts, whatever the policy becomes.
func TestPolicyIsRecordedOnce(t *testing.T) {
	policy := func(delay, limit int32) map[kueue.AdmissionCheckReference]RetryPolicy {
		return map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{delay: delay, limit: limit}}
	}
	wl := reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0), checkAt("b", kueue.CheckStateRetry, 0)).Obj()
	rctx := RetryContext{Now: at(0), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: policy(30, 1)}
	plan := PlanRetry(wl, rctx)
	if delays := plan.NewDelays(wl); len(delays) != 1 || delays[0].Name != "a" {
		t.Errorf("Unexpected delays to report: %v", delays)
	}
	plan.Record(wl)
	want := []kueue.AdmissionCheckState{retryAt("a", 0, 30), checkAt("b", kueue.CheckStateRetry, 0)}
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
	}
	later := policy(300, 0)
	later["b"] = policyForTest{delay: 300}
	for name, policies := range map[string]map[kueue.AdmissionCheckReference]RetryPolicy{
		"the same": policy(30, 1), "another": later, "none": {}, "none, gate off": nil,
	} {
		t.Run(name, func(t *testing.T) {
			for now := range 31 {
				rctx.Now, rctx.Policies = at(float64(now)), policies
				wantAction := RetryWait
				if now == 30 {
					wantAction = RetryRequeue
				}
				if got := PlanRetry(wl, rctx); got.Action != wantAction || !got.Deadline.Equal(at(30)) {
					t.Errorf("Unexpected plan after %d s: %q until %s", now, got.Action, got.Deadline)
				}
			}
		})
	}
}

// A Retry is looked at when it comes: once, however close to the eviction, and whatever
// becomes of its delay and of the policies.
func TestObservedRetries(t *testing.T) {
	type policies = map[kueue.AdmissionCheckReference]RetryPolicy
	bare := func(name string, transition float64) kueue.AdmissionCheckState {
		return checkAt(name, kueue.CheckStateRetry, transition)
	}
	observed := func(name kueue.AdmissionCheckReference, transition float64, delay *int32) kueue.ObservedRetry {
		return kueue.ObservedRetry{Name: name, LastTransitionTime: metav1.NewTime(at(transition)), DelaySeconds: delay}
	}
	short := policyForTest{delay: 30, limit: math.MaxInt32}
	long := policyForTest{delay: 300, limit: math.MaxInt32}
	exhausted := policyForTest{delay: 300}
	cases := map[string]struct {
		evictedFor string
		// recorded is the record of a wait from 0 to 60, or until.
		recorded []kueue.ObservedRetry
		until    *float64
		checks   []kueue.AdmissionCheckState
		policies policies
		want     RetryAction
		// wantObserved is nil if nothing is written.
		wantObserved []kueue.ObservedRetry
		wantDeadline float64
	}{
		"a Retry as old as the eviction is recorded": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 0)},
			policies:     policies{"b": short},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](30))},
			wantDeadline: 60,
		},
		"a Retry with an old transition time is recorded": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", -1000)},
			policies:     policies{"b": short},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil), observed("b", -1000, ptr.To[int32](30))},
			wantDeadline: 60,
		},
		"a Retry without a policy is recorded": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 0)},
			policies:     policies{},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](0))},
			wantDeadline: 60,
		},
		"a Retry said again, then a policy comes": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 5, ptr.To[int32](0))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 5)},
			policies:     policies{"b": exhausted},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a Retry without a policy, said again, is worth no write: its controller may say it all the time": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](0))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 5)},
			policies:     policies{},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a Retry without a policy, said again after one came": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](0))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 5)},
			policies:     policies{"b": exhausted},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"an eviction has recorded a delay, and nobody has looked for a policy yet": {
			evictedFor:   kueue.WorkloadEvictedByPreemption,
			recorded:     []kueue.ObservedRetry{{Name: "a", LastTransitionTime: notLookedAt}},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			policies:     policies{},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil)},
			wantDeadline: 60,
		},
		"a policy that comes after somebody has looked": {
			evictedFor:   kueue.WorkloadEvictedByPreemption,
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			policies:     policies{"a": exhausted},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a policy that comes is not for what is recorded": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](0))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 0)},
			policies:     policies{"a": exhausted, "b": exhausted},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a delay that its controller drops is known": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60)), observed("b", 5, ptr.To[int32](0))},
			checks:       []kueue.AdmissionCheckState{bare("a", 0), bare("b", 5)},
			policies:     policies{"a": long, "b": long},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a delay of its controller's own is given up": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{bare("a", 0)},
			policies:     policies{"a": short},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](30))},
			wantDeadline: 30,
		},
		"a delay of its controller's own is given up, with another limit than when it came": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{bare("a", 0)},
			policies:     policies{"a": exhausted},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](300))},
			wantDeadline: 300,
		},
		"a delay of its controller's own is given up, gate off": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:       []kueue.AdmissionCheckState{bare("a", 0), retryAt("b", 0, 30)},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil)},
			wantDeadline: 30,
		},
		"a delay of its controller's own comes instead of the policy's": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 90)},
			policies:     policies{"a": exhausted},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil)},
			wantDeadline: 90,
		},
		"a Retry with another transition time is a new one": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{bare("a", 5)},
			policies:     policies{"a": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 5, ptr.To[int32](300))},
			wantDeadline: 305,
		},
		"a new Retry has the delay of the one before still, or asks for the same": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 5, 60)},
			policies:     policies{"a": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 5, ptr.To[int32](60))},
			wantDeadline: 65,
		},
		"a new Retry has the delay of the one before still, whose policy is gone": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 5, 60)},
			policies:     policies{},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 5, ptr.To[int32](60))},
			wantDeadline: 65,
		},
		"a new Retry with the delay of the one before reaches the limit": {
			recorded: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:   []kueue.AdmissionCheckState{retryAt("a", 5, 60)},
			policies: policies{"a": exhausted},
			want:     RetryGiveUp,
		},
		"a new Retry has the delay of the one before still, gate off": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 5, 60)},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			wantDeadline: 65,
		},
		"a new Retry without a delay, gate off": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{bare("a", 5)},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"a Retry as old as the eviction reaches the limit": {
			recorded: []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:   []kueue.AdmissionCheckState{retryAt("a", 0, 60), retryAt("b", 0, 30)},
			policies: policies{"b": exhausted},
			want:     RetryGiveUp,
		},
		"a late Retry with the recorded deadline reaches the limit": {
			recorded: []kueue.ObservedRetry{observed("a", 0, nil)},
			checks:   []kueue.AdmissionCheckState{retryAt("a", 0, 60), retryAt("b", 5, 55)},
			policies: policies{"b": exhausted},
			want:     RetryGiveUp,
		},
		"a withdrawn Retry stays in the record, that of a check that is gone does not": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](30)), observed("c", 0, nil)},
			checks:       []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStateReady, 5), retryAt("b", 0, 30)},
			policies:     policies{"b": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("b", 0, ptr.To[int32](30)), observed("a", 0, nil)},
			wantDeadline: 30,
		},
		"a Retry as old as the eviction, with all others withdrawn": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStatePending, 5), bare("b", 0)},
			policies:     policies{"b": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("b", 0, ptr.To[int32](300)), observed("a", 0, ptr.To[int32](60))},
			wantDeadline: 300,
		},
		"with the gate off the record stays, and does not grow": {
			recorded:     []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), retryAt("b", 5, 60)},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60))},
			wantDeadline: 65,
		},
		"the gate is switched on while they wait": {
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60)},
			policies:     policies{"a": exhausted},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"the gate is switched on while one waits for another's delay": {
			checks:       []kueue.AdmissionCheckState{retryAt("a", 0, 60), bare("b", 0)},
			policies:     policies{"a": exhausted, "b": exhausted},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, nil), observed("b", 0, ptr.To[int32](0))},
			wantDeadline: 60,
		},
		"the record is dropped, with the delay": {
			checks:       []kueue.AdmissionCheckState{bare("a", 0)},
			policies:     policies{"a": long},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"the record is dropped by a late Retry with a longer delay": {
			checks:       []kueue.AdmissionCheckState{bare("a", 0), bare("b", 5)},
			policies:     policies{"b": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](60)), observed("b", 5, ptr.To[int32](300))},
			wantDeadline: 305,
		},
		"the record is dropped by a late Retry with a shorter delay": {
			checks:       []kueue.AdmissionCheckState{bare("a", 0), bare("b", 5)},
			policies:     policies{"b": short},
			want:         RetryWait,
			wantDeadline: 60,
		},
		"evicted for another reason: nobody has looked yet": {
			evictedFor:   kueue.WorkloadEvictedByPreemption,
			until:        ptr.To(0.),
			checks:       []kueue.AdmissionCheckState{bare("a", 0)},
			policies:     policies{"a": long},
			want:         RetryRecord,
			wantObserved: []kueue.ObservedRetry{observed("a", 0, ptr.To[int32](300))},
			wantDeadline: 300,
		},
		"evicted for another reason: the record is dropped": {
			evictedFor:   kueue.WorkloadEvictedByPreemption,
			checks:       []kueue.AdmissionCheckState{bare("a", 0)},
			policies:     policies{"a": long},
			want:         RetryWait,
			wantDeadline: 60,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := waiting(0, ptr.Deref(tc.until, 60)).AdmissionChecks(tc.checks...).Obj()
			wl.Status.RequeueState.ObservedRetries = tc.recorded
			if tc.evictedFor != "" {
				wl = evictedFor(&utiltestingapi.WorkloadWrapper{Workload: *wl}, tc.evictedFor, "", 0).Obj()
			}
			plan := PlanRetry(wl, RetryContext{Now: at(6), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: tc.policies})
			if plan.Action != tc.want || tc.wantDeadline != 0 && !plan.Deadline.Equal(at(tc.wantDeadline)) {
				t.Fatalf("Unexpected plan: %q until %s, want %q until %s", plan.Action, plan.Deadline, tc.want, at(tc.wantDeadline))
			}
			if plan.Action != RetryRecord {
				return
			}
			if got, want := plan.IsNews(wl), tc.wantDeadline != 60; got != want {
				t.Errorf("Unexpected news %t of the deadline, want %t", got, want)
			}
			plan.Record(wl)
			if diff := cmp.Diff(tc.wantObserved, wl.Status.RequeueState.ObservedRetries); diff != "" {
				t.Errorf("Unexpected record (-want,+got):\n%s", diff)
			}
			if got := PlanRetry(wl, RetryContext{Now: at(7), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: tc.policies}); got.Action != RetryWait {
				t.Errorf("Unexpected action %q after it", got.Action)
			}
			RetryPlan{}.Requeue(wl, at(400))
			if wl.Status.RequeueState != nil {
				t.Errorf("Unexpected requeueState after the wait: %v", wl.Status.RequeueState)
			}
		})
	}
}

// What holds the workload longer than its checks ask for does not keep their Retries
// from being looked at once.
func TestObservedRetriesInBackoff(t *testing.T) {
	plan := func(wl *kueue.Workload, delay int32) RetryPlan {
		return PlanRetry(wl, RetryContext{Now: at(6), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: map[kueue.AdmissionCheckReference]RetryPolicy{
			"a": policyForTest{delay: delay, limit: math.MaxInt32},
		}})
	}
	wl := releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
		RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj()
	first := plan(wl, 30)
	if first.Action != RetryRecord || !first.Deadline.Equal(at(60)) {
		t.Fatalf("Unexpected plan: %q until %s, want %q until %s", first.Action, first.Deadline, RetryRecord, at(60))
	}
	first.Record(wl)
	want := []kueue.AdmissionCheckState{retryAt("a", 5, 30)}
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
	}
	if again := plan(wl, 300); again.Action != RetryWait || !again.Deadline.Equal(at(60)) {
		t.Errorf("Unexpected plan: %q until %s with another policy, want %q until %s", again.Action, again.Deadline, RetryWait, at(60))
	}
	// By an old client's update.
	wl.Status.RequeueState.ObservedRetries, wl.Status.RequeueState.BackoffUntil = nil, nil
	wl.Status.AdmissionChecks[0].RequeueAfterSeconds = nil
	if again := plan(wl, 30); again.Action != RetryWait {
		t.Errorf("Unexpected action %q without the record, want %q", again.Action, RetryWait)
	}
}

// A late Retry with a delay of its own that moves no deadline costs no write, whatever its
// controller says next, unless its check has a policy.
func TestObservedRetriesWithoutPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		policies map[kueue.AdmissionCheckReference]RetryPolicy
		want     RetryAction
	}{
		"no policy":             {policies: map[kueue.AdmissionCheckReference]RetryPolicy{}, want: RetryWait},
		"a policy of the other": {policies: map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{limit: 1}}, want: RetryWait},
		"a policy":              {policies: map[kueue.AdmissionCheckReference]RetryPolicy{"b": policyForTest{limit: 1}}, want: RetryRecord},
	} {
		t.Run(name, func(t *testing.T) {
			for second := range 10 {
				now := float64(10 + second)
				wl := waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", now, int32(40-second))).Obj()
				wl.Status.RequeueState.ObservedRetries = []kueue.ObservedRetry{{Name: "a", LastTransitionTime: metav1.NewTime(at(0))}}
				plan := PlanRetry(wl, RetryContext{Now: at(now), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: tc.policies})
				if plan.Action != tc.want || !plan.Deadline.Equal(at(60)) {
					t.Errorf("Unexpected plan after %v s: %q until %s, want %q until %s", now, plan.Action, plan.Deadline, tc.want, at(60))
				}
			}
		})
	}
}

// With the policies' gate off a delay that was recorded for the Retry before holds, and does
// not become one of the Retry that has none.
func TestRecordedDelayIsOfOneRetry(t *testing.T) {
	wl := waiting(0, 3600).AdmissionChecks(retryAt("a", 0, 3595), checkAt("b", kueue.CheckStateRetry, 3590)).Obj()
	wl.Status.RequeueState.ObservedRetries = []kueue.ObservedRetry{
		{Name: "a", LastTransitionTime: metav1.NewTime(at(0))},
		{Name: "b", LastTransitionTime: metav1.NewTime(at(0)), DelaySeconds: ptr.To[int32](30)},
	}
	planAt(wl, at(3591)).Record(wl)
	if again := planAt(wl, at(3592)); again.Action != RetryWait || !again.Deadline.Equal(at(3595)) {
		t.Errorf("Unexpected plan: %q until %s, want %q until %s", again.Action, again.Deadline, RetryWait, at(3595))
	}
}

// Another eviction leaves Kueue's own delays what they are: only those in the record are
// applied.
func TestObservedRetriesOfAnotherEviction(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj()
	record := []kueue.ObservedRetry{{Name: "a", LastTransitionTime: metav1.NewTime(at(0)), DelaySeconds: ptr.To[int32](60)}}
	wl.Status.RequeueState.ObservedRetries = append(slices.Clone(record), kueue.ObservedRetry{Name: "gone", LastTransitionTime: metav1.NewTime(at(0))})
	workloadevict.SetEvictedCondition(wl, at(10), kueue.WorkloadEvictedByClusterQueueStopped, "")
	resetChecksForEviction(wl, at(10), func(*kueue.Workload, time.Time) {})
	if diff := cmp.Diff(record, wl.Status.RequeueState.ObservedRetries); diff != "" {
		t.Errorf("Unexpected record (-want,+got):\n%s", diff)
	}
}

// An eviction for another reason looks at no policy, nor has it anybody think that they
// were looked at.
func TestObservedRetriesAfterEvictionForAnotherReason(t *testing.T) {
	for name, tc := range map[string]struct {
		check kueue.AdmissionCheckState
		limit int32
		want  RetryAction
	}{
		"a Retry at the eviction":                    {check: checkAt("a", kueue.CheckStateRetry, 0), limit: 1, want: RetryRecord},
		"a Retry at the eviction, reaches the limit": {check: checkAt("a", kueue.CheckStateRetry, 0), want: RetryGiveUp},
		"a late Retry":                               {check: checkAt("a", kueue.CheckStateRetry, 10), limit: 1, want: RetryRecord},
		"a late Retry, reaches the limit":            {check: checkAt("a", kueue.CheckStateRetry, 10), want: RetryGiveUp},
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, true)
			plan := func(wl *kueue.Workload, delay, limit int32) RetryPlan {
				return PlanRetry(wl, RetryContext{Now: at(20), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }, Policies: map[kueue.AdmissionCheckReference]RetryPolicy{
					"a": policyForTest{delay: delay, limit: limit},
				}})
			}
			wl := reserved().AdmissionChecks(tc.check, retryAt("b", 0, 3600)).Obj()
			if tc.check.LastTransitionTime.After(at(1)) {
				wl.Status.AdmissionChecks[0] = checkAt("a", kueue.CheckStatePending, 0)
			}
			workloadevict.SetEvictedCondition(wl, at(1), kueue.WorkloadEvictedByPreemption, "")
			resetChecksForEviction(wl, at(1), func(*kueue.Workload, time.Time) {})
			SetRequeuedCondition(wl, kueue.WorkloadEvictedByPreemption, "", true)
			UnsetQuotaReservationWithCondition(wl, "Pending", "", at(2))
			KeepWaiting(wl)
			wl.Status.AdmissionChecks[0] = tc.check

			first := plan(wl, 30, tc.limit)
			if first.Action != tc.want {
				t.Fatalf("Unexpected action %q, want %q", first.Action, tc.want)
			}
			if first.Action == RetryRecord {
				first.Record(wl)
				if again := plan(wl, 7200, 0); again.Action != RetryWait || !again.Deadline.Equal(at(3601)) {
					t.Errorf("Unexpected plan: %q until %s with another policy, want %q until %s", again.Action, again.Deadline, RetryWait, at(3601))
				}
			}
		})
	}
}

// Whenever it is said again, nobody has looked at its limit.
func TestLimitAfterEvictionForAnotherReason(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, true)
	for _, transition := range []float64{0, 1, 2, 3} {
		wl := reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj()
		evictAt(wl, at(1), kueue.WorkloadEvictedByPreemption, "")
		wl.Status.AdmissionChecks[0] = checkAt("a", kueue.CheckStateRetry, transition)
		plan := PlanRetry(wl, RetryContext{Now: at(4), Policies: map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{delay: 30}}})
		if plan.Action != RetryGiveUp {
			t.Errorf("Unexpected action %q for a Retry of %v s, want %q", plan.Action, transition, RetryGiveUp)
		}
	}
}

func TestRetryPlanGiveUp(t *testing.T) {
	wl := reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj()
	plan := PlanRetry(wl, RetryContext{
		Now:        at(0),
		IsRequired: func(kueue.AdmissionCheckReference) bool { return true },
		Policies:   map[kueue.AdmissionCheckReference]RetryPolicy{"a": policyForTest{}},
	})
	plan.GiveUp(wl)
	want := []metav1.Condition{{
		Type:    kueue.WorkloadDeactivationTarget,
		Status:  metav1.ConditionTrue,
		Reason:  kueue.WorkloadAdmissionCheckRetryLimitExceeded,
		Message: plan.Message,
	}}
	isOther := cmpopts.IgnoreSliceElements(func(c metav1.Condition) bool { return c.Type != kueue.WorkloadDeactivationTarget })
	if diff := cmp.Diff(want, wl.Status.Conditions, isOther, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime", "ObservedGeneration")); diff != "" {
		t.Errorf("Unexpected condition (-want,+got):\n%s", diff)
	}
	if got := planAt(wl, at(1)); got.Action != RetryNone {
		t.Errorf("Unexpected action %q after it, want none: the rest of Kueue deactivates the workload", got.Action)
	}
}
