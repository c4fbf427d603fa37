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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// policyForTest is a policy with one delay, which is longer by a second for each retry.
type policyForTest struct {
	delay, limit int32
}

func (p policyForTest) DelaySeconds(count int32) int32 { return p.delay + count }

func (p policyForTest) Allows(count int32) bool { return count < p.limit }

func TestPlanRetryWithPolicies(t *testing.T) {
	type policies = map[kueue.AdmissionCheckReference]RetryPolicy
	const (
		msgA         = "Admission check(s) a asked for a retry, waiting until "
		msgAB        = "Admission check(s) a,b asked for a retry, waiting until "
		msgExhausted = "exceeding the limit of retries of admission check(s): "
	)
	unlimited := policyForTest{delay: 30, limit: math.MaxInt32}
	bare := func(name string, transition float64) kueue.AdmissionCheckState {
		return checkAt(name, kueue.CheckStateRetry, transition)
	}
	cases := map[string]struct {
		workload    *kueue.Workload
		policies    policies
		notRequired kueue.AdmissionCheckReference
		now         float64
		want        RetryPlan
		// wantDelays are those of the checks of the plan.
		wantDelays []*int32
	}{
		"quota reserved: the policy's delay": {
			workload:   reserved().AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{"a": unlimited},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(30), Message: msgA + "2026-02-06T10:00:30Z"},
			wantDelays: []*int32{ptr.To[int32](30)},
		},
		"quota reserved: it follows from the count": {
			workload:   reserved().AdmissionChecks(withRetryCount(bare("a", 0), 5)).Obj(),
			policies:   policies{"a": unlimited},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(35), Message: msgA + "2026-02-06T10:00:35Z"},
			wantDelays: []*int32{ptr.To[int32](35)},
		},
		"quota reserved: fractions of a second do not shorten it": {
			workload:   reserved().AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{"a": unlimited},
			now:        0.5,
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1), Deadline: at(31), Message: msgA + "2026-02-06T10:00:31Z"},
			wantDelays: []*int32{ptr.To[int32](30)},
		},
		"quota reserved: a delay of the controller's own wins": {
			workload:   reserved().AdmissionChecks(retryAt("a", 0, 5)).Obj(),
			policies:   policies{"a": unlimited},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(5), Message: msgA + "2026-02-06T10:00:05Z"},
			wantDelays: []*int32{ptr.To[int32](5)},
		},
		"quota reserved: 0 of the controller's own wins": {
			workload:   reserved().AdmissionChecks(retryAt("a", 0, 0)).Obj(),
			policies:   policies{"a": unlimited},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(0), Message: "Admission check(s) a asked for a retry"},
			wantDelays: []*int32{ptr.To[int32](0)},
		},
		"quota reserved: the policy of another check is not looked at": {
			workload:   reserved().AdmissionChecks(bare("a", 0), checkAt("b", kueue.CheckStatePending, 0)).Obj(),
			policies:   policies{"b": unlimited},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(0), Message: "Admission check(s) a asked for a retry"},
			wantDelays: []*int32{nil},
		},
		"admitted: a check without a policy gets no delay while the job stops": {
			workload:   reserved().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "", -10)).AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{},
			want:       RetryPlan{Action: RetryEvict, EvictedAt: at(0), Deadline: at(0), Message: "Admission check(s) a asked for a retry"},
			wantDelays: []*int32{nil},
		},
		"quota reserved: a check that is not required gets nothing": {
			workload:    reserved().AdmissionChecks(bare("a", 0)).Obj(),
			policies:    policies{"a": policyForTest{}},
			notRequired: "a",
		},
		"quota reserved: the limit is reached": {
			workload:   reserved().AdmissionChecks(withMessage(withRetryCount(bare("a", 0), 3), "no budget"), retryAt("b", 0, 60)).Obj(),
			policies:   policies{"a": policyForTest{delay: 30, limit: 3}, "b": unlimited},
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 3 retries. a: no budget"},
			wantDelays: []*int32{nil},
		},
		"quota reserved: the limit counts retries with a delay of the controller's own": {
			workload:   reserved().AdmissionChecks(withRetryCount(retryAt("a", 0, 60), 3)).Obj(),
			policies:   policies{"a": policyForTest{limit: 3}},
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 3 retries"},
			wantDelays: []*int32{ptr.To[int32](60)},
		},
		"quota reserved: never retried": {
			workload:   reserved().AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{"a": policyForTest{}},
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{nil},
		},
		"quota reserved: one retry is left": {
			workload:   reserved().AdmissionChecks(withRetryCount(bare("a", 0), 2)).Obj(),
			policies:   policies{"a": policyForTest{delay: 30, limit: 3}},
			want:       RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(32), Message: msgA + "2026-02-06T10:00:32Z"},
			wantDelays: []*int32{ptr.To[int32](32)},
		},
		"quota reserved: Rejected wins over the limit": {
			workload: reserved().AdmissionChecks(bare("a", 0), checkAt("b", kueue.CheckStateRejected, 0)).Obj(),
			policies: policies{"a": policyForTest{}},
		},

		"queued: the policy's delay": {
			workload:   requeuedWorkload().AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{"a": unlimited},
			want:       RetryPlan{Action: RetryHold, EvictedAt: at(0), Deadline: at(30), Message: msgA + "2026-02-06T10:00:30Z"},
			wantDelays: []*int32{ptr.To[int32](30)},
		},
		"queued: the limit is reached": {
			workload:   requeuedWorkload().AdmissionChecks(bare("a", 0)).Obj(),
			policies:   policies{"a": policyForTest{}},
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{nil},
		},

		"waiting: a late Retry gets a delay, which moves the deadline": {
			workload:   waiting(0, 20).AdmissionChecks(retryAt("a", 0, 20), bare("b", 5)).Obj(),
			policies:   policies{"b": unlimited},
			now:        5,
			want:       RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(35), Message: msgAB + "2026-02-06T10:00:35Z"},
			wantDelays: []*int32{ptr.To[int32](20), ptr.To[int32](30)},
		},
		"waiting: a controller that drops the delay with each write is not written to": {
			workload:   waiting(0, 30).AdmissionChecks(bare("a", 0), retryAt("b", 0, 10)).Obj(),
			policies:   policies{"a": unlimited},
			now:        5,
			want:       RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(30), Message: msgAB + "2026-02-06T10:00:30Z"},
			wantDelays: []*int32{ptr.To[int32](30), ptr.To[int32](10)},
		},
		"waiting: a late Retry with a shorter delay of its own reaches the limit": {
			workload:   waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 10)).Obj(),
			policies:   policies{"b": policyForTest{}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "b after 0 retries"},
			wantDelays: []*int32{ptr.To[int32](10)},
		},
		"waiting after a preemption: a Retry that came with it reaches the limit": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			policies:   policies{"a": policyForTest{}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{ptr.To[int32](60)},
		},
		"waiting: a late Retry reaches the limit": {
			workload:   waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), withRetryCount(bare("b", 5), 3)).Obj(),
			policies:   policies{"b": policyForTest{delay: 30, limit: 3}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "b after 3 retries"},
			wantDelays: []*int32{nil},
		},
		"waiting: a late Retry with a longer delay of its own reaches the limit": {
			workload:   waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 120)).Obj(),
			policies:   policies{"b": policyForTest{}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "b after 0 retries"},
			wantDelays: []*int32{ptr.To[int32](120)},
		},
		"waiting: a policy that came, or has a lower limit now, is not for those that wait": {
			workload:   waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), withRetryCount(retryAt("b", 0, 0), 3)).Obj(),
			policies:   policies{"a": policyForTest{}, "b": policyForTest{delay: 300, limit: 1}},
			now:        5,
			want:       RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgAB + "2026-02-06T10:01:00Z"},
			wantDelays: []*int32{ptr.To[int32](60), ptr.To[int32](0)},
		},
		"waiting: the limit was looked at when a late Retry moved the deadline": {
			workload:   waiting(0, 65).AdmissionChecks(retryAt("a", 0, 60), withRetryCount(retryAt("b", 5, 60), 3)).Obj(),
			policies:   policies{"b": policyForTest{delay: 300, limit: 1}},
			now:        6,
			want:       RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(65), Message: msgAB + "2026-02-06T10:01:05Z"},
			wantDelays: []*int32{ptr.To[int32](60), ptr.To[int32](60)},
		},
		"waiting: the deadline is over, whatever the limit is now": {
			workload:   waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			policies:   policies{"a": policyForTest{}},
			now:        60,
			want:       RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(60), Message: msgA + "2026-02-06T10:01:00Z"},
			wantDelays: []*int32{ptr.To[int32](60)},
		},
		"stopping: evicted for another reason, then the policy's delay": {
			workload:   evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(bare("a", 1)).Obj(),
			policies:   policies{"a": unlimited},
			now:        1,
			want:       RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(31), Message: msgA + "2026-02-06T10:00:31Z"},
			wantDelays: []*int32{ptr.To[int32](30)},
		},
		"a delay of zero on a check that is not in Retry: no policy would be for its next one": {
			workload: reserved().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := retryAt("a", 0, 0)
				check.State = kueue.CheckStateReady
				return check
			}()).Obj(),
			policies: policies{"a": unlimited},
			want:     RetryPlan{Untidy: true},
		},
		"in a backoff of WaitForPodsReady: the limit is reached": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(bare("a", 5)).Obj(),
			policies:   policies{"a": policyForTest{}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{nil},
		},
		"the queue is stopped: the limit is reached": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				AdmissionChecks(bare("a", 5)).Obj(),
			policies:   policies{"a": policyForTest{}},
			now:        5,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{nil},
		},
		"stopping: the limit is reached": {
			workload:   evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(bare("a", 1)).Obj(),
			policies:   policies{"a": policyForTest{}},
			now:        1,
			want:       RetryPlan{Action: RetryGiveUp, Message: msgExhausted + "a after 0 retries"},
			wantDelays: []*int32{nil},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.workload.DeepCopy()
			got := PlanRetry(tc.workload, RetryContext{
				Now:        at(tc.now),
				IsRequired: func(name kueue.AdmissionCheckReference) bool { return name != tc.notRequired },
				Policies:   tc.policies,
			})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(RetryPlan{}, "Checks", "Observed")); diff != "" {
				t.Errorf("Unexpected plan (-want,+got):\n%s", diff)
			}
			var gotDelays []*int32
			for _, check := range got.Checks {
				gotDelays = append(gotDelays, check.RequeueAfterSeconds)
			}
			if diff := cmp.Diff(tc.wantDelays, gotDelays); diff != "" {
				t.Errorf("Unexpected delays (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.workload); diff != "" {
				t.Errorf("The decision changed the workload (-before,+after):\n%s", diff)
			}
		})
	}
}
