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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func planAt(wl *kueue.Workload, now time.Time) RetryPlan {
	return PlanRetry(wl, RetryContext{Now: now, IsRequired: func(kueue.AdmissionCheckReference) bool { return true }})
}

func TestPlanRetry(t *testing.T) {
	const (
		msgA         = "Admission check(s) a asked for a retry"
		msgNone      = "No admission check asks for a retry any more"
		msgBackoff60 = "Backoff of the workload, waiting until 2026-02-06T10:01:00Z"
		msgThenA     = ". Admission check(s) a asked for a retry"
	)
	cases := map[string]struct {
		workload    *kueue.Workload
		notRequired sets.Set[kueue.AdmissionCheckReference]
		now         float64
		want        RetryPlan
	}{
		"no checks": {
			workload: reserved().Obj(),
		},
		"quota reserved, no check in Retry: the delay of another one means nothing, and goes": {
			workload: reserved().AdmissionChecks(
				checkAt("a", kueue.CheckStateReady, 0),
				func() kueue.AdmissionCheckState {
					check := retryAt("b", 0, 60)
					check.State = kueue.CheckStatePending
					return check
				}(),
			).Obj(),
			want: RetryPlan{Untidy: true},
		},
		"quota reserved, Retry without a delay: evict at once, the deadline is over": {
			workload: reserved().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj(),
			now:      1.7,
			want:     RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1.7), Deadline: at(1), Message: msgA},
		},
		"quota reserved, Retry with a delay: evict at once, without waiting for the other check": {
			workload: reserved().AdmissionChecks(retryAt("a", 0, 60), checkAt("b", kueue.CheckStatePending, 0)).Obj(),
			now:      1,
			want:     RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"quota reserved, admitted: evict as well": {
			workload: reserved().
				Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "", -10)).
				AdmissionChecks(retryAt("a", 1, 60)).Obj(),
			now:  1,
			want: RetryPlan{Action: RetryEvict, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"quota reserved, admitted until a check was added: its pods may run": {
			workload: reserved().
				Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "UnsatisfiedChecks", "", 1)).PastAdmittedTime(0).
				AdmissionChecks(retryAt("a", 1, 60)).Obj(),
			now:  1,
			want: RetryPlan{Action: RetryEvict, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"quota reserved, and told a second later that it is not admitted": {
			workload: reserved().
				Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "UnsatisfiedChecks", "", 1)).
				AdmissionChecks(retryAt("a", 1, 60)).Obj(),
			now:  1,
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"quota reserved again, in the second in which it was released": {
			workload: reserved().
				Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "NoReservation", "", -100)).PastAdmittedTime(10).
				AdmissionChecks(retryAt("a", 1, 60)).Obj(),
			now:  1,
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"fractions of a second do not shorten the delay": {
			workload: reserved().AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      0.2,
			want:     RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"a transition time in the past, re-sent or of a slow clock, does not shorten the delay": {
			workload: reserved().AdmissionChecks(retryAt("a", -3600, 60)).Obj(),
			want:     RetryPlan{Action: RetryEvict, ReleasesQuota: true, Deadline: at(60), EvictedAt: at(0), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"a transition time ahead of the eviction counts": {
			workload: reserved().AdmissionChecks(retryAt("a", 30, 30)).Obj(),
			want:     RetryPlan{Action: RetryEvict, ReleasesQuota: true, Deadline: at(60), EvictedAt: at(0), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"the longest of several delays counts; a check without one does not cut it": {
			workload: reserved().AdmissionChecks(
				retryAt("c", 0, 10), retryAt("a", 0, 60), checkAt("b", kueue.CheckStateRetry, 0)).Obj(),
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(60),
				Message: "Admission check(s) a,b,c asked for a retry, waiting until 2026-02-06T10:01:00Z"},
		},
		"the largest delay": {
			workload: reserved().AdmissionChecks(retryAt("a", 0, 1<<31-1)).Obj(),
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(1<<31 - 1),
				Message: msgA + ", waiting until 2094-02-24T13:14:07Z"},
		},
		"quota reserved, Rejected wins over Retry and is handled as ever": {
			workload: reserved().AdmissionChecks(retryAt("a", 0, 60), checkAt("b", kueue.CheckStateRejected, 0)).Obj(),
		},
		"quota reserved, a check that is not required asks in vain": {
			workload:    reserved().AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			notRequired: sets.New[kueue.AdmissionCheckReference]("a"),
		},
		"a backoff that was recorded with the Retry holds": {
			workload: reserved().RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj(),
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},

		"evicted, quota held: nothing new": {
			workload: evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      5,
		},
		"evicted, quota held: deadline over, the quota has to be released first": {
			workload: evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      100,
		},
		"evicted, quota held: a longer delay": {
			workload: evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 120)).Obj(),
			now:      5,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(125),
				Message: "Admission check(s) a,b asked for a retry, waiting until 2026-02-06T10:02:05Z"},
		},
		"evicted, quota held: withdrawn": {
			workload: evictedByRetry(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"evicted, quota held: Rejected": {
			workload: evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60), checkAt("b", kueue.CheckStateRejected, 5)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryReject},
		},
		"preempted, quota held, a check asks for a delay: recorded": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", 5, 60)).Obj(),
			now:      6,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(65), Message: msgA + ", waiting until 2026-02-06T10:01:05Z"},
		},
		"preempted, quota held, a time is recorded but no check asks for a delay any more": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj(),
			now:  6,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(0), Message: msgA},
		},
		"preempted, quota held, a re-sent transition time": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", -3600, 60)).Obj(),
			now:      6,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"preempted, quota held, Retry without a delay: recorded, in case that the gate is switched off": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj(),
			now:      6,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(0), Message: msgA},
		},
		"preempted, quota held, no check in Retry": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:      6,
		},

		"waiting: just before the deadline": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      59.999,
			want:     RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting: at the deadline": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      60,
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting: the release of the quota does not restart the delay": {
			workload: releasedAt(evictedByRetry(0, 60), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 50).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  60,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting: a longer delay of another check": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 59, 60)).Obj(),
			now:      59,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(119),
				Message: "Admission check(s) a,b asked for a retry, waiting until 2026-02-06T10:01:59Z"},
		},
		"waiting: a longer delay that arrives together with the deadline": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 60, 60)).Obj(),
			now:      60,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(120),
				Message: "Admission check(s) a,b asked for a retry, waiting until 2026-02-06T10:02:00Z"},
		},
		"waiting: a second, shorter delay changes nothing": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 10)).Obj(),
			now:      5,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60),
				Message: "Admission check(s) a,b asked for a retry, waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting: shortened": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 5, 10)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(15), Message: msgA + ", waiting until 2026-02-06T10:00:15Z"},
		},
		"waiting: the longest is withdrawn, the other delay is left": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("b", kueue.CheckStateReady, 5), retryAt("a", 0, 30)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(30), Message: msgA + ", waiting until 2026-02-06T10:00:30Z"},
		},
		"waiting: all withdrawn": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"waiting: the longest is not required any more": {
			workload:    waiting(0, 60).AdmissionChecks(retryAt("a", 0, 30), retryAt("b", 0, 60)).Obj(),
			notRequired: sets.New[kueue.AdmissionCheckReference]("b"),
			now:         5,
			want:        RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(30), Message: msgA + ", waiting until 2026-02-06T10:00:30Z"},
		},
		"waiting: Rejected": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 5)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryReject},
		},
		"not evicted, not requeued: left to what has set it": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, "", 0)).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			now: 60,
		},
		"waiting, Requeued not set": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadEvictedByAdmissionCheck, msgA, 0).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting since before the gate was on: the backoff is kept": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "At least one admission check is false", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},

		"evicted by PodsReadyTimeout: its backoff is left to it": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			now: 5,
		},
		"evicted by PodsReadyTimeout, Requeued not set: it is over by the clock": {
			workload: evictedFor(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now: 60,
		},
		"evicted by PodsReadyTimeout: not before its backoff": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},
		"evicted by PodsReadyTimeout: the delay of a check is longer": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 10, 120)).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(130), Message: msgA + ", waiting until 2026-02-06T10:02:10Z"},
		},
		"evicted by PodsReadyTimeout: a longer delay was withdrawn, its backoff is left": {
			workload: withBackoffUntil(releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(600)))).Obj(), at(61)),
			now:  10,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(61), Message: "Backoff of the workload, waiting until 2026-02-06T10:01:01Z"},
		},
		"evicted by PodsReadyTimeout: the backoff it has recorded counts, not the longest possible": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},
		"evicted by PodsReadyTimeout: a shorter delay was withdrawn and left in the check": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(func() kueue.AdmissionCheckState {
					check := retryAt("a", 5, 10)
					check.State = kueue.CheckStateReady
					return check
				}()).Obj(),
			now:  60,
			want: RetryPlan{Untidy: true},
		},
		"evicted by PodsReadyTimeout: a longer delay was withdrawn before any message told of it": {
			workload: withBackoffUntil(releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(600)))).Obj(), at(60)),
			now:  10,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"the queue is stopped: a delay was withdrawn": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(600)))).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"preempted and released: the delay of a check holds": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  2,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},

		"evicted by PodsReadyTimeout: a backoff of an earlier eviction is not the present one": {
			workload: withBackoffUntil(releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](2), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(), at(-30)),
			now:  10,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},
		"waiting, with a count of WaitForPodsReady: all withdrawn": {
			workload: withBackoffUntil(waiting(0, 60).RequeueState(ptr.To[int32](2), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(), at(0)),
			now:  5,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"waiting since the first release: nothing to write": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting since the first release: all withdrawn": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"waiting since the first release, with a count of WaitForPodsReady: not before the recorded time": {
			workload: firstRelease(waiting(0, 60)).RequeueState(ptr.To[int32](2), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"a transition time with a fraction is rounded up": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0.3, 60)).Obj(),
			now:      60,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"a transition time at the end of time": {
			workload: reserved().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := retryAt("a", 0, 5)
				check.LastTransitionTime = metav1.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
				return check
			}()).Obj(),
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: endOfTime,
				Message: msgA + ", waiting until 9999-12-31T23:59:59Z"},
		},
		"the checks say why, shortened where it is long": {
			workload: reserved().AdmissionChecks(
				withMessage(retryAt("b", 0, 60), strings.Repeat("ä", 201)), withMessage(retryAt("a", 0, 60), "No budget.")).Obj(),
			want: RetryPlan{Action: RetryEvict, ReleasesQuota: true, EvictedAt: at(0), Deadline: at(60),
				Message: "Admission check(s) a,b asked for a retry, waiting until 2026-02-06T10:01:00Z. a: No budget.; b: " + strings.Repeat("ä", 200) + " ..."},
		},
		"a check has succeeded, another one is pending: it counts from zero, also if it says Retry next": {
			workload: reserved().AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2), checkAt("b", kueue.CheckStatePending, 0)).Obj(),
			want:     RetryPlan{Untidy: true, ResetsCounts: true},
		},
		"all checks have succeeded: the admission resets the counts": {
			workload: reserved().AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2)).Obj(),
		},
		"queued: nothing": {
			workload: requeuedWorkload().AdmissionChecks(checkAt("a", kueue.CheckStatePending, -40)).Obj(),
		},
		"queued: a late Retry is a new delay": {
			workload: requeuedWorkload().AdmissionChecks(retryAt("a", -45, 60)).Obj(),
			now:      0.5,
			want:     RetryPlan{Action: RetryHold, EvictedAt: at(1), Deadline: at(61), Message: msgA + ", waiting until 2026-02-06T10:01:01Z"},
		},
		"queued: a late Retry without a delay": {
			workload: requeuedWorkload().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj(),
			now:      0.5,
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(0.5), Deadline: at(0), Message: msgA},
		},
		"queued: zero seconds are over, after a transition time that is ahead as well": {
			workload: requeuedWorkload().AdmissionChecks(retryAt("a", 6, 0)).Obj(),
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgA},
		},
		"queued, never evicted": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     RetryPlan{Action: RetryHold, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"queued: a late Rejected": {
			workload: requeuedWorkload().AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 0)).Obj(),
			want:     RetryPlan{Action: RetryReject},
		},
		"reactivated": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0),
				metav1.ConditionFalse, kueue.WorkloadDeactivated, 1).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want: RetryPlan{Action: RetryReactivate},
		},
		"reactivated after Kueue had deactivated it": {
			workload: releasedAt(evictedFor(reserved(), "DeactivatedDueToAdmissionCheck", "", 0),
				metav1.ConditionFalse, "DeactivatedDueToAdmissionCheck", 1).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 1)).Obj(),
			want: RetryPlan{Action: RetryReactivate},
		},
		"deactivated while waiting": {
			workload: waiting(0, 60).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     RetryPlan{Action: RetryForget},
		},
		"deactivated, a count is left": {
			workload: evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).
				AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStatePending, 0), 1)).Obj(),
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated, a check still writes": {
			workload: evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      1,
			want:     RetryPlan{Action: RetryForget},
		},
		"deactivated, nothing left": {
			workload: evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
		},
		"deactivated again, nothing left": {
			workload: releasedAt(evictedFor(reserved(), "DeactivatedDueToAdmissionCheck", "", 0), metav1.ConditionTrue, kueue.WorkloadReactivated, 1).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
			now:  2,
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated, not evicted yet": {
			workload: reserved().Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		},
		"about to be deactivated": {
			workload: reserved().Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "Test", "", 0)).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		},
		"about to be deactivated while it waits": {
			workload: waiting(0, 60).Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "Test", "", 0)).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want: RetryPlan{Action: RetryDeactivate},
		},
		"deactivated by Kueue, and the check has withdrawn what it said: the deactivation is completed": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0), metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "", 5)).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated for another reason than a check, and its job stops": {
			workload: evictedFor(reserved(), "DeactivatedDueToMaximumExecutionTimeExceeded", "", 0).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadMaximumExecutionTimeExceeded, "", 5)).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now: 5,
		},
		"a requeueAt of the year 1 is none": {
			workload: requeuedWorkload().RequeueState(nil, ptr.To(metav1.NewTime(time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, -40)).Obj(),
		},
		"deactivated, and the check goes on: not more than once a second": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 5).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 5)).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryWait, Deadline: at(6)},
		},
		"deactivated, and the check goes on with an old transition time": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 5).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, -100)).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryWait, Deadline: at(6)},
		},
		"deactivated, and the check goes on with a transition time ahead": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 5).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 100)).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryWait, Deadline: at(6)},
		},
		"deactivated, and the check goes on: a second has passed": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 5).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 6)).Obj(),
			now:  6,
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated, and the clock of the leader before was ahead": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 12).
				Active(false).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated, and the check goes on while the job stops: not more than once a second": {
			workload: evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).AdmissionChecks(retryAt("a", -100, 60)).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadDeactivated, "", 5)).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryWait, Deadline: at(6)},
		},
		"deactivated, and the check goes on with a delay that is none of a Retry: not more than once a second": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadDeactivated, "", 0), metav1.ConditionFalse, kueue.WorkloadDeactivated, 5).
				Active(false).AdmissionChecks(func() kueue.AdmissionCheckState {
				check := retryAt("a", -100, 0)
				check.State = kueue.CheckStateReady
				return check
			}()).Obj(),
			now:  5.5,
			want: RetryPlan{Action: RetryWait, Deadline: at(6)},
		},
		"evicted by a clock that was ahead: no delay is over all the same": {
			workload: waiting(30, 30).AdmissionChecks(retryAt("a", 0, 0)).Obj(),
			now:      5,
			want:     RetryPlan{Action: RetryRequeue, EvictedAt: at(30), Deadline: at(30), Message: msgA},
		},
		"kept out for a reason that is no backoff, and a backoff": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadInadmissible, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			now:  60,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"a delay of zero on a check that is not in Retry": {
			workload: reserved().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := retryAt("a", 0, 0)
				check.State = kueue.CheckStateReady
				return check
			}()).Obj(),
			want: RetryPlan{Untidy: true},
		},
		"the queue is stopped: a delay holds": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				AdmissionChecks(retryAt("a", 0, 60)).
				RequeueState(nil, ptr.To(metav1.NewTime(at(50)))).Obj(),
			now:  2,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"the queue is stopped: a delay begins, by a clock that is behind": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				AdmissionChecks(retryAt("a", 700, 60)).Obj(),
			now:  3599.5,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(3600), Deadline: at(3660), Message: msgA + ", waiting until 2026-02-06T11:01:00Z"},
		},
		"a backoff of before is over, which nobody has removed: a delay begins": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0), metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(50)))).AdmissionChecks(retryAt("a", -100, 60)).Obj(),
			now:  99.5,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(100), Deadline: at(160), Message: msgA + ", waiting until 2026-02-06T10:02:40Z"},
		},
		"the queue is stopped: no check in Retry": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).Obj(),
			now: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.workload.DeepCopy()
			got := PlanRetry(tc.workload, RetryContext{
				Now:        at(tc.now),
				IsRequired: func(name kueue.AdmissionCheckReference) bool { return !tc.notRequired.Has(name) },
			})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(RetryPlan{}, "Checks")); diff != "" {
				t.Errorf("Unexpected plan (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.workload); diff != "" {
				t.Errorf("The decision changed the workload (-before,+after):\n%s", diff)
			}
		})
	}
}

// Lateness is Kueue's alone: of a deadline that was recorded and waited for, with quota
// that was free.
func TestDueAt(t *testing.T) {
	cases := map[string]struct {
		workload *kueue.Workload
		want     time.Time
	}{
		"the recorded deadline is over": {workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(), want: at(60)},
		"the job stopped after it": {
			workload: releasedAt(evictedByRetry(0, 60), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 65).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     at(65),
		},
		"the job stopped before it": {
			workload: releasedAt(evictedByRetry(0, 60), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 50).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     at(60),
		},
		"shortened into the past":         {workload: waiting(0, 600).AdmissionChecks(retryAt("a", 0, 5)).Obj()},
		"withdrawn":                       {workload: waiting(0, 600).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 60)).Obj()},
		"no delay":                        {workload: waiting(0, 0).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj()},
		"a late Retry whose time is over": {workload: requeuedWorkload().AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 0)).Obj()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			plan := planAt(tc.workload, at(70))
			if plan.Action != RetryRequeue {
				t.Fatalf("Unexpected action %q", plan.Action)
			}
			if got := plan.DueAt(tc.workload); !got.Equal(tc.want) {
				t.Errorf("Unexpected time %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPlanLeftWaiting(t *testing.T) {
	unlessKueueDoes := RetryRequeue
	if endsBackoffsInQueue {
		unlessKueueDoes = RetryNone
	}
	cases := map[string]struct {
		workload *kueue.Workload
		now      float64
		want     RetryAction
		wantKept bool
	}{
		"not yet": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      59.9,
			want:     RetryWait,
		},
		"due, at the time that was recorded": {
			workload: waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 0, 600)).Obj(),
			now:      60,
			want:     RetryRequeue,
		},
		"rejected since, which is not looked at with the gate off": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 5)).Obj(),
			now:      60,
			want:     RetryRequeue,
		},
		"quota held": {
			workload: evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      60,
		},
		"deactivated": {
			workload: waiting(0, 60).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      5,
			want:     RetryForget,
		},
		"deactivated, quota held": {
			workload: evictedByRetry(0, 60).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      5,
			want:     RetryForget,
		},
		"as upstream: deactivated, with no time recorded": {
			workload: requeuedWorkload().Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      5,
		},
		"as upstream: a late Retry with no time recorded": {
			workload: requeuedWorkload().AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      60,
		},
		"a late Retry during another backoff, which upstream leaves stuck": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "Exceeded the PodsReady timeout", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(),
			now:  60,
			want: RetryRequeue,
		},
		"preempted, and the quota released, before the wait was told of": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  60,
			want: RetryRequeue,
		},
		"preempted, withdrawn: something has to take the time away": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now:  60,
			want: unlessKueueDoes,
		},
		"left by the first release": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:      60,
			want:     RetryRequeue,
		},
		"as upstream: withdrawn while the job stopped, not yet": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now:      59.9,
		},
		"withdrawn while the job stopped: upstream's apply without the time may be refused": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now:      60,
			want:     unlessKueueDoes,
			wantKept: true,
		},
		"as upstream: the same with a count": {
			workload: firstRelease(waiting(0, 60)).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			now:      60,
		},
		"withdrawn since": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now:      60,
			want:     RetryRequeue,
		},
		"as upstream: deactivated for another reason than a check": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).Active(false).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadMaximumExecutionTimeExceeded, "", 5)).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
			now: 5,
		},
		"rejected before the gate was switched off, and made inactive: the deactivation is completed": {
			workload: requeuedWorkload().Active(false).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "", 5)).
				AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 5)).Obj(),
			now:  5,
			want: RetryForget,
		},
		"as upstream: rejected, preempted before it was made inactive, and rejected again": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 6).Active(false).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "", 5)).
				AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 7)).Obj(),
			now: 7,
		},
		"preempted, then rejected before the gate was switched off: the deactivation is completed": {
			workload: evictedFor(reserved(), kueue.WorkloadEvictedByPreemption, "", 5).Active(false).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "", 6)).
				AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 6)).Obj(),
			now:  7,
			want: RetryForget,
		},
		"rejected in the second for which its eviction for a retry was rounded up": {
			workload: evictedByRetry(6, 66).Active(false).
				Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "", 5)).
				AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 5)).Obj(),
			now:  6,
			want: RetryForget,
		},
		"as upstream: a backoff with no check in Retry": {
			workload: releasedAt(evictedFor(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "Exceeded the PodsReady timeout", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
			now: 60,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := PlanLeftWaiting(tc.workload, at(tc.now))
			if got.Action != tc.want {
				t.Errorf("Unexpected action %q, want %q", got.Action, tc.want)
			}
			if got.KeepsChecks != (tc.wantKept && got.Action == RetryRequeue) {
				t.Errorf("Unexpected checks that are kept: %t", got.KeepsChecks)
			}
		})
	}
}
