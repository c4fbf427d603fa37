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
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
)

var retryEpoch = time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)

// at returns the time that lies the given number of seconds after retryEpoch.
func at(seconds float64) time.Time {
	return retryEpoch.Add(time.Duration(seconds * float64(time.Second)))
}

func checkAt(name string, state kueue.CheckState, transition float64) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{
		Name:               kueue.AdmissionCheckReference(name),
		State:              state,
		LastTransitionTime: metav1.NewTime(at(transition)),
	}
}

func retryAt(name string, transition float64, requeueAfterSeconds int32) kueue.AdmissionCheckState {
	check := checkAt(name, kueue.CheckStateRetry, transition)
	check.RequeueAfterSeconds = ptr.To(requeueAfterSeconds)
	return check
}

func withRetryCount(check kueue.AdmissionCheckState, count int32) kueue.AdmissionCheckState {
	check.RetryCount = ptr.To(count)
	return check
}

func conditionAt(conditionType string, status metav1.ConditionStatus, reason, message string, transition float64) metav1.Condition {
	return metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            message,
		LastTransitionTime: metav1.NewTime(at(transition)),
	}
}

// The stages of a workload on its way through a delayed retry.
func reserved() *utiltestingapi.WorkloadWrapper {
	return utiltestingapi.MakeWorkload("wl", "ns").
		Condition(conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "", -100))
}

func evictedAt(wl *utiltestingapi.WorkloadWrapper, reason, message string, transition float64) *utiltestingapi.WorkloadWrapper {
	return wl.Condition(conditionAt(kueue.WorkloadEvicted, metav1.ConditionTrue, reason, message, transition))
}

func evictedByRetry(transition, requeueAt float64) *utiltestingapi.WorkloadWrapper {
	return evictedAt(reserved(), kueue.WorkloadEvictedByAdmissionCheck, retryMessagePrefix+"a asked for a retry", transition).
		RequeueState(nil, ptr.To(metav1.NewTime(at(requeueAt))))
}

func releasedAt(wl *utiltestingapi.WorkloadWrapper, requeued metav1.ConditionStatus, reason string, transition float64) *utiltestingapi.WorkloadWrapper {
	return wl.
		SetOrReplaceCondition(conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "", transition)).
		SetOrReplaceCondition(conditionAt(kueue.WorkloadRequeued, requeued, reason, "", transition))
}

func waiting(evicted, requeueAt float64) *utiltestingapi.WorkloadWrapper {
	return releasedAt(evictedByRetry(evicted, requeueAt), metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, evicted+1)
}

func requeuedWorkload() *utiltestingapi.WorkloadWrapper {
	return releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByAdmissionCheck, retryMessagePrefix+"a asked for a retry", -50),
		metav1.ConditionTrue, kueue.WorkloadBackoffFinished, -40)
}

func TestPlanRetry(t *testing.T) {
	const (
		msgA         = "Admission check(s) a asked for a retry"
		msgNone      = "No admission check asks for a retry any more"
		msgBackoff60 = "Backoff of the workload, waiting until 2026-02-06T10:01:00Z"
		msgThenA     = "; retry of admission check(s) a after it"
	)
	cases := map[string]struct {
		workload         *kueue.Workload
		notRequired      sets.Set[kueue.AdmissionCheckReference]
		podsReadyBackoff time.Duration
		now              float64
		want             RetryPlan
	}{
		"no checks": {
			workload: reserved().Obj(),
		},
		"quota reserved, no check in Retry; the fields of the others mean nothing": {
			workload: reserved().AdmissionChecks(
				checkAt("a", kueue.CheckStateReady, 0),
				func() kueue.AdmissionCheckState {
					check := retryAt("b", 0, 60)
					check.State = kueue.CheckStatePending
					return check
				}(),
			).Obj(),
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
			workload: evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", 5, 60)).Obj(),
			now:      6,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(65), Message: msgA + ", waiting until 2026-02-06T10:01:05Z"},
		},
		"preempted, quota held, a time is recorded but no check asks for a delay any more": {
			workload: evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj(),
			now:  6,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(0), Message: msgA},
		},
		"preempted, quota held, a re-sent transition time": {
			workload: evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", -3600, 60)).Obj(),
			now:      6,
			want:     RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"preempted, quota held, Retry without a delay: left to the requeue": {
			workload: evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(checkAt("a", kueue.CheckStateRetry, 5)).Obj(),
			now:      6,
		},
		"preempted, quota held, no check in Retry": {
			workload: evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
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
			workload: evictedAt(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadEvictedByAdmissionCheck, msgA, 0).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"waiting since before the gate was on: the backoff is kept": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByAdmissionCheck, "At least one admission check is false", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
			now:  5,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},

		"evicted by PodsReadyTimeout: its backoff is left to it": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).Obj(),
			now: 5,
		},
		"evicted by PodsReadyTimeout, Requeued not set: its backoff is left to it": {
			workload: evictedAt(utiltestingapi.MakeWorkload("wl", "ns"), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now: 60,
		},
		"evicted by PodsReadyTimeout: not before its backoff": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},
		"evicted by PodsReadyTimeout: the delay of a check is longer": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 10, 120)).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(130), Message: msgA + ", waiting until 2026-02-06T10:02:10Z"},
		},
		"evicted by PodsReadyTimeout: a longer delay was withdrawn, its backoff is left": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(600)))).Obj(),
			podsReadyBackoff: time.Minute,
			now:              10,
			want:             RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"evicted by PodsReadyTimeout: the backoff it has recorded counts, not the longest possible": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 10)).Obj(),
			podsReadyBackoff: 61 * time.Second,
			now:              10,
			want:             RetryPlan{Action: RetryWait, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60 + msgThenA},
		},
		"evicted by PodsReadyTimeout: a shorter delay was withdrawn and left in the check": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(func() kueue.AdmissionCheckState {
					check := retryAt("a", 5, 10)
					check.State = kueue.CheckStateReady
					return check
				}()).Obj(),
			now:  60,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"evicted by PodsReadyTimeout: a longer delay was withdrawn before any message told of it": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(600)))).Obj(),
			podsReadyBackoff: time.Minute,
			now:              10,
			want:             RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgBackoff60},
		},
		"the queue is stopped: a delay was withdrawn": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(600)))).Obj(),
			now:  10,
			want: RetryPlan{Action: RetryRequeue, EvictedAt: at(0), Deadline: at(0), Message: msgNone},
		},
		"preempted and released: the delay of a check holds": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  2,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
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
		"queued: zero seconds after a transition time that is ahead": {
			workload: requeuedWorkload().AdmissionChecks(retryAt("a", 6, 0)).Obj(),
			want:     RetryPlan{Action: RetryHold, EvictedAt: at(0), Deadline: at(6), Message: msgA + ", waiting until 2026-02-06T10:00:06Z"},
		},
		"queued, never evicted": {
			workload: utiltestingapi.MakeWorkload("wl", "ns").AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     RetryPlan{Action: RetryHold, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"queued: a late Rejected": {
			workload: requeuedWorkload().AdmissionChecks(checkAt("a", kueue.CheckStateRejected, 0)).Obj(),
			want:     RetryPlan{Action: RetryReject},
		},
		"reactivated: left to the reactivation": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadDeactivated, "", 0),
				metav1.ConditionFalse, kueue.WorkloadDeactivated, 1).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		},
		"reactivated after Kueue had deactivated it": {
			workload: releasedAt(evictedAt(reserved(), "DeactivatedDueToAdmissionCheck", "", 0),
				metav1.ConditionFalse, "DeactivatedDueToAdmissionCheck", 1).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 1)).Obj(),
			want: RetryPlan{Action: RetryReactivate},
		},
		"deactivated while waiting": {
			workload: waiting(0, 60).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     RetryPlan{Action: RetryForget},
		},
		"deactivated, a count is left": {
			workload: evictedAt(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).
				AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStatePending, 0), 1)).Obj(),
			want: RetryPlan{Action: RetryForget},
		},
		"deactivated, a check still writes": {
			workload: evictedAt(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			want:     RetryPlan{Action: RetryForget},
		},
		"deactivated, nothing left": {
			workload: evictedAt(reserved(), kueue.WorkloadDeactivated, "", 0).Active(false).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
		},
		"deactivated, not evicted yet": {
			workload: reserved().Active(false).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		},
		"about to be deactivated": {
			workload: reserved().Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "Test", "", 0)).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		},
		"the queue is stopped: a delay holds": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now:  2,
			want: RetryPlan{Action: RetryRecord, EvictedAt: at(0), Deadline: at(60), Message: msgA + ", waiting until 2026-02-06T10:01:00Z"},
		},
		"the queue is stopped: no check in Retry": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).Obj(),
			now: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.workload.DeepCopy()
			got := PlanRetry(tc.workload, RetryContext{
				Now:              at(tc.now),
				IsRequired:       func(name kueue.AdmissionCheckReference) bool { return !tc.notRequired.Has(name) },
				PodsReadyBackoff: tc.podsReadyBackoff,
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

// TestPlanRetryConverges carries out plan after plan, as Reconcile does, and
// expects that the deadline recorded last is the one at which the wait ends.
func TestPlanRetryConverges(t *testing.T) {
	cases := map[string]*kueue.Workload{
		"evicted, a longer delay":      evictedByRetry(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 5, 120)).Obj(),
		"evicted, withdrawn":           evictedByRetry(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStatePending, 5)).Obj(),
		"waiting, a longer delay":      waiting(0, 60).AdmissionChecks(retryAt("a", 0, 60), retryAt("b", 59, 60)).Obj(),
		"waiting, shortened":           waiting(0, 60).AdmissionChecks(retryAt("a", 5, 10)).Obj(),
		"preempted, quota held":        evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0).AdmissionChecks(retryAt("a", 5, 60)).Obj(),
		"preempted, released":          releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0), metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		"queued, a late Retry":         requeuedWorkload().AdmissionChecks(retryAt("a", -45, 60)).Obj(),
		"the queue is stopped":         releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
		"PodsReadyTimeout with a wait": releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(retryAt("a", 10, 120)).Obj(),
	}
	planAt := func(wl *kueue.Workload, now time.Time) RetryPlan {
		return PlanRetry(wl, RetryContext{Now: now, IsRequired: func(kueue.AdmissionCheckReference) bool { return true }})
	}
	for name, wl := range cases {
		t.Run(name, func(t *testing.T) {
			now := at(5.3)
			plan := planAt(wl, now)
			if plan.Action != RetryRecord && plan.Action != RetryHold {
				t.Fatalf("Unexpected first action %q", plan.Action)
			}
			plan.RecordDeadline(wl)
			next := planAt(wl, now)
			if HasQuotaReservation(wl) {
				if next.Action != RetryNone {
					t.Errorf("Unexpected action after the deadline was recorded: %q", next.Action)
				}
				return
			}
			if next.Action != RetryWait || !next.Deadline.Equal(plan.Deadline) {
				t.Errorf("Unexpected plan after the deadline was recorded: %v, want to wait until %s", next, plan.Deadline)
			}
			if early := planAt(wl, plan.Deadline.Add(-time.Nanosecond)); early.Action != RetryWait {
				t.Errorf("Unexpected action before the deadline: %q", early.Action)
			}
			due := planAt(wl, plan.Deadline)
			if due.Action != RetryRequeue {
				t.Fatalf("Unexpected action at the deadline: %q", due.Action)
			}
			due.Requeue(wl, plan.Deadline)
			if after := planAt(wl, plan.Deadline); after.Action != RetryNone {
				t.Errorf("Unexpected action after the requeue: %q", after.Action)
			}
		})
	}
}

func TestRetryPlanRecordEviction(t *testing.T) {
	cases := map[string]struct {
		workload      *utiltestingapi.WorkloadWrapper
		replacesSlice bool
		wantReserved  bool
	}{
		"not admitted: the quota is released": {workload: reserved()},
		"was admitted before": {
			workload: reserved().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "NoReservation", "", -100)),
		},
		"admitted: the job is stopped first": {
			workload:     reserved().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "", -10)),
			wantReserved: true,
		},
		"replaces a slice whose pods run": {
			workload:      reserved(),
			replacesSlice: true,
			wantReserved:  true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload.AdmissionChecks(retryAt("a", 0, 60), checkAt("b", kueue.CheckStatePending, 0)).Obj()
			wl.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
			wantChecks := wl.DeepCopy().Status.AdmissionChecks
			plan := PlanRetry(wl, RetryContext{
				Now:           at(0),
				IsRequired:    func(kueue.AdmissionCheckReference) bool { return true },
				ReplacesSlice: tc.replacesSlice,
			})
			if plan.Action != RetryEvict {
				t.Fatalf("Unexpected action %q", plan.Action)
			}
			plan.RecordDeadline(wl)
			if got := HasQuotaReservation(wl); got != tc.wantReserved || (wl.Status.Admission != nil) != tc.wantReserved {
				t.Errorf("Unexpected quota reservation: %t, admission %v; want %t", got, wl.Status.Admission, tc.wantReserved)
			}
			if got := requeueAt(wl); !got.Equal(plan.Deadline) {
				t.Errorf("Unexpected requeueAt %s, want %s", got, plan.Deadline)
			}
			if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
			if tc.wantReserved {
				if requeued != nil {
					t.Errorf("Unexpected condition before the release: %v", requeued)
				}
				return
			}
			if requeued == nil || requeued.Status != metav1.ConditionFalse || requeued.Reason != kueue.WorkloadEvictedByAdmissionCheck || requeued.Message != plan.Message {
				t.Errorf("Unexpected condition after the release: %v", requeued)
			}
		})
	}
}

func TestRetryPlanRequeue(t *testing.T) {
	pendingAfter := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 60)
		check.Message = "Reset to Pending on requeue. Previously: " + string(state)
		return check
	}
	withUpdates := checkAt("ready", kueue.CheckStateReady, 0)
	withUpdates.PodSetUpdates = []kueue.PodSetUpdate{{Name: "main"}}

	cases := map[string]struct {
		workload         *kueue.Workload
		wantChecks       []kueue.AdmissionCheckState
		wantRequeueState *kueue.RequeueState
		wantRequeued     metav1.ConditionStatus
	}{
		"counts those in Retry, those that succeeded from zero; resets all, clears the delays": {
			workload: waiting(0, 60).AdmissionChecks(
				retryAt("first", 0, 60),
				withRetryCount(retryAt("again", 0, 60), 3),
				checkAt("no-delay", kueue.CheckStateRetry, 0),
				withRetryCount(checkAt("largest", kueue.CheckStateRetry, 0), math.MaxInt32),
				withUpdates,
				withRetryCount(checkAt("ready-again", kueue.CheckStateReady, 0), 3),
				withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
			).Obj(),
			wantChecks: []kueue.AdmissionCheckState{
				withRetryCount(pendingAfter("first", kueue.CheckStateRetry), 1),
				withRetryCount(pendingAfter("again", kueue.CheckStateRetry), 4),
				withRetryCount(pendingAfter("no-delay", kueue.CheckStateRetry), 1),
				withRetryCount(pendingAfter("largest", kueue.CheckStateRetry), math.MaxInt32),
				pendingAfter("ready", kueue.CheckStateReady),
				pendingAfter("ready-again", kueue.CheckStateReady),
				withRetryCount(pendingAfter("pending", kueue.CheckStatePending), 1),
			},
			wantRequeued: metav1.ConditionTrue,
		},
		"the counter of WaitForPodsReady stays": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).
				RequeueState(ptr.To[int32](7), ptr.To(metav1.NewTime(at(60)))).Obj(),
			wantRequeueState: &kueue.RequeueState{Count: ptr.To[int32](7)},
			wantRequeued:     metav1.ConditionTrue,
		},
		"a stopped queue keeps the workload from being requeued": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByClusterQueueStopped, "", 0), metav1.ConditionFalse, kueue.WorkloadEvictedByClusterQueueStopped, 1).
				RequeueState(nil, ptr.To(metav1.NewTime(at(60)))).AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			wantChecks:   []kueue.AdmissionCheckState{withRetryCount(pendingAfter("a", kueue.CheckStateRetry), 1)},
			wantRequeued: metav1.ConditionFalse,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload
			RetryPlan{}.Requeue(wl, at(60))
			if diff := cmp.Diff(tc.wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRequeueState, wl.Status.RequeueState); diff != "" {
				t.Errorf("Unexpected requeueState (-want,+got):\n%s", diff)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).Status; got != tc.wantRequeued {
				t.Errorf("Unexpected Requeued=%s, want %s", got, tc.wantRequeued)
			}
		})
	}
}

func TestPlanLeftWaiting(t *testing.T) {
	cases := map[string]struct {
		workload *kueue.Workload
		now      float64
		want     RetryAction
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
		"as upstream: a late Retry during the backoff of another check": {
			workload: waiting(0, 60).
				Condition(conditionAt(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "At least one admission check is false", 0)).
				Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, "At least one admission check is false", 0)).
				Condition(conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "The workload has failed admission checks", 0)).
				AdmissionChecks(retryAt("a", 0, 60)).Obj(),
			now: 60,
		},
		"withdrawn since": {
			workload: waiting(0, 60).AdmissionChecks(checkAt("a", kueue.CheckStateReady, 5)).Obj(),
			now:      60,
			want:     RetryRequeue,
		},
		"withdrawn before, and recorded": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByAdmissionCheck, noRetryMessage, 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, 1).RequeueState(nil, ptr.To(metav1.NewTime(at(0)))).
				AdmissionChecks(checkAt("a", kueue.CheckStateReady, 0)).Obj(),
			now:  5,
			want: RetryRequeue,
		},
		"as upstream: a backoff with no check in Retry": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPodsReadyTimeout, "Exceeded the PodsReady timeout", 0),
				metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, 1).RequeueState(ptr.To[int32](1), ptr.To(metav1.NewTime(at(60)))).
				AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0)).Obj(),
			now: 60,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PlanLeftWaiting(tc.workload, at(tc.now)); got.Action != tc.want {
				t.Errorf("Unexpected action %q, want %q", got.Action, tc.want)
			}
		})
	}
}

func TestRetryPlanForget(t *testing.T) {
	reset := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 5)
		check.Message = "Reset to Pending after eviction. Previously: " + string(state)
		return check
	}
	cases := map[string]struct {
		workload     *utiltestingapi.WorkloadWrapper
		wantEvicted  string
		wantRequeued string
	}{
		"while waiting": {
			workload:     waiting(0, 60),
			wantEvicted:  "Deactivated",
			wantRequeued: "Deactivated",
		},
		"by Kueue, while waiting": {
			workload: waiting(0, 60).Condition(conditionAt(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue,
				kueue.WorkloadEvictedByAdmissionCheck, "rejected", 5)),
			wantEvicted:  "DeactivatedDueToAdmissionCheck",
			wantRequeued: "DeactivatedDueToAdmissionCheck",
		},
		"after a preemption": {
			workload: releasedAt(evictedAt(reserved(), kueue.WorkloadEvictedByPreemption, "", 0),
				metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, 1),
			wantEvicted:  "Preempted",
			wantRequeued: "Preempted",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := tc.workload.Active(false).AdmissionChecks(
				withRetryCount(retryAt("retry", 0, 60), 2),
				checkAt("rejected", kueue.CheckStateRejected, 0),
				withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
			).Obj()
			RetryPlan{}.Forget(wl, at(5))
			wantChecks := []kueue.AdmissionCheckState{
				reset("retry", kueue.CheckStateRetry), reset("rejected", kueue.CheckStateRejected), checkAt("pending", kueue.CheckStatePending, 0),
			}
			if diff := cmp.Diff(wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			if wl.Status.RequeueState != nil {
				t.Errorf("Unexpected requeueState %v", wl.Status.RequeueState)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).Reason; got != tc.wantEvicted {
				t.Errorf("Unexpected reason of Evicted %q, want %q", got, tc.wantEvicted)
			}
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).Reason; got != tc.wantRequeued {
				t.Errorf("Unexpected reason of Requeued %q, want %q", got, tc.wantRequeued)
			}
			if again := PlanRetry(wl, RetryContext{Now: at(5)}); again.Action != RetryNone {
				t.Errorf("Unexpected action after everything was forgotten: %q", again.Action)
			}
		})
	}
}

func TestResetRetryCounts(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			wl := reserved().AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2), checkAt("b", kueue.CheckStateReady, 0)).Obj()
			SyncAdmittedCondition(wl, at(5))
			want := []kueue.AdmissionCheckState{withRetryCount(checkAt("a", kueue.CheckStateReady, 0), 2), checkAt("b", kueue.CheckStateReady, 0)}
			if gate {
				want[0].RetryCount = ptr.To[int32](0)
			}
			if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks on admission (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestResetChecksForEviction(t *testing.T) {
	states := []kueue.AdmissionCheckState{
		withRetryCount(retryAt("retry", 0, 60), 2),
		withRetryCount(checkAt("ready", kueue.CheckStateReady, 0), 3),
		withRetryCount(checkAt("pending", kueue.CheckStatePending, 0), 1),
	}
	reset := func(name string, state kueue.CheckState) kueue.AdmissionCheckState {
		check := checkAt(name, kueue.CheckStatePending, 5)
		check.Message = "Reset to Pending after eviction. Previously: " + string(state)
		return check
	}
	cases := map[string]struct {
		gate   bool
		reason string
		want   []kueue.AdmissionCheckState
	}{
		"gate off: all are reset": {
			reason: kueue.WorkloadEvictedByAdmissionCheck,
			want:   []kueue.AdmissionCheckState{reset("retry", kueue.CheckStateRetry), reset("ready", kueue.CheckStateReady), states[2]},
		},
		"evicted by a check: all are left as they are": {
			gate:   true,
			reason: kueue.WorkloadEvictedByAdmissionCheck,
			want:   states,
		},
		"preempted: the delay is left, and what was Ready counts from zero": {
			gate:   true,
			reason: kueue.WorkloadEvictedByPreemption,
			want:   []kueue.AdmissionCheckState{states[0], withRetryCount(reset("ready", kueue.CheckStateReady), 0), states[2]},
		},
		"deactivated: all are reset, and count from zero": {
			gate:   true,
			reason: kueue.WorkloadDeactivated,
			want: []kueue.AdmissionCheckState{
				withRetryCount(reset("retry", kueue.CheckStateRetry), 0),
				withRetryCount(reset("ready", kueue.CheckStateReady), 0),
				withRetryCount(states[2], 0),
			},
		},
		"deactivated by Kueue: all are reset, and count from zero": {
			gate:   true,
			reason: ReasonWithCause(kueue.WorkloadDeactivated, kueue.WorkloadEvictedByAdmissionCheck),
			want: []kueue.AdmissionCheckState{
				withRetryCount(reset("retry", kueue.CheckStateRetry), 0),
				withRetryCount(reset("ready", kueue.CheckStateReady), 0),
				withRetryCount(states[2], 0),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			wl := reserved().AdmissionChecks(slices.Clone(states)...).Obj()
			prepareForEviction(wl, at(5), tc.reason, "")
			if diff := cmp.Diff(tc.want, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestApplyOfRetryFields(t *testing.T) {
	wl := reserved().AdmissionChecks(
		withRetryCount(retryAt("a", 0, 60), 1),
		withRetryCount(checkAt("b", kueue.CheckStateReady, 0), 0),
	).Obj()
	before := wl.DeepCopy()
	got := PrepareWorkloadPatch(wl, true, testingclock.NewFakeClock(at(0)))
	want := []kueue.AdmissionCheckState{
		checkAt("a", kueue.CheckStateRetry, 0),
		withRetryCount(checkAt("b", kueue.CheckStateReady, 0), 0),
	}
	if diff := cmp.Diff(want, got.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks in the apply (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff(before, wl); diff != "" {
		t.Errorf("The workload itself changed (-want,+got):\n%s", diff)
	}
}

// The scheduler applies a copy of the workload that may be old.
func TestLooseApplyMustNotUndoChecks(t *testing.T) {
	cases := map[string]struct {
		gate       bool
		checks     []kueue.AdmissionCheckState
		wantStrict bool
	}{
		"gate on":                             {gate: true, checks: []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStatePending, 0)}, wantStrict: true},
		"gate on, the copy has no checks yet": {gate: true, wantStrict: true},
		"gate off":                            {checks: []kueue.AdmissionCheckState{checkAt("a", kueue.CheckStatePending, 0)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			strict := false
			client := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					strict = obj.GetResourceVersion() == "7"
					return nil
				},
			}).Build()
			wl := reserved().AdmissionChecks(tc.checks...).ResourceVersion("7").Obj()
			if err := PatchAdmissionStatus(ctx, client, wl, testingclock.NewFakeClock(at(0)), func() (*kueue.Workload, bool, error) {
				return wl, true, nil
			}, WithLooseOnApply()); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if strict != tc.wantStrict {
				t.Errorf("Unexpected apply, with a resource version: %v, want %v", strict, tc.wantStrict)
			}
		})
	}
}

// The scheduler writes why a workload waits for others to be ready, and then
// reserves quota on the same copy: the first write must not be in the way.
func TestApplyAfterApply(t *testing.T) {
	cases := map[string]struct {
		gate        bool
		changesCopy bool
		want        string
	}{
		"gate on":                    {gate: true, want: "8"},
		"gate on, a copy is changed": {gate: true, changesCopy: true, want: "7"},
		"gate off":                   {want: "7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			client := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					obj.SetResourceVersion("8")
					return nil
				},
			}).Build()
			wl := reserved().ResourceVersion("7").Obj()
			changed := wl
			if tc.changesCopy {
				changed = wl.DeepCopy()
			}
			if err := PatchAdmissionStatus(ctx, client, wl, testingclock.NewFakeClock(at(0)), func() (*kueue.Workload, bool, error) {
				return changed, true, nil
			}, WithLooseOnApply()); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if wl.ResourceVersion != tc.want || tc.changesCopy && changed.ResourceVersion != "7" {
				t.Errorf("Unexpected resource versions %q and %q, want %q of the first", wl.ResourceVersion, changed.ResourceVersion, tc.want)
			}
		})
	}
}

// A loose apply that meets another write goes on to the version that came of it,
// also when the cache is behind, but not if it would undo something there.
func TestLooseApplyAfterAnotherWrite(t *testing.T) {
	pending := func(reason string) metav1.Condition {
		return conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, reason, "", 0)
	}
	seen := func() *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", "ns").UID("uid").Generation(1).Condition(pending("Inadmissible")).
			Condition(conditionAt(kueue.WorkloadPreempted, metav1.ConditionFalse, "QuotaReserved", "", 0.7)).
			AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0))
	}
	type writes []*utiltestingapi.WorkloadWrapper
	cases := map[string]struct {
		// seen is what the apply was decided on, if not seen().
		seen *utiltestingapi.WorkloadWrapper
		// writes come in between, each before another apply.
		writes writes
		// readsBehind is how many reads return the workload as it was.
		readsBehind int
		strict      bool
		changesCopy bool
		wantApplied bool
		wantReads   int
	}{
		"no other write": {
			wantApplied: true,
		},
		"the scheduler noted why it has no quota": {
			writes:      writes{seen().SetOrReplaceCondition(pending("Pending")).ResourceRequests(kueue.PodSetRequest{Name: "main"})},
			wantApplied: true,
			wantReads:   1,
		},
		"as the scheduler reserves": {
			writes:      writes{seen().SetOrReplaceCondition(pending("Pending"))},
			changesCopy: true,
			wantApplied: true,
			wantReads:   1,
		},
		"one write after the other": {
			writes:      writes{seen().Label("a", "b"), seen().Label("a", "c")},
			wantApplied: true,
			wantReads:   2,
		},
		"one write after the other, without end": {
			writes:    writes{seen(), seen(), seen(), seen(), seen(), seen(), seen()},
			wantReads: 5,
		},
		"the cache is behind": {
			writes:      writes{seen().Label("a", "b")},
			readsBehind: 2,
			wantApplied: true,
			wantReads:   3,
		},
		"the cache stays behind": {
			writes:      writes{seen().Label("a", "b")},
			readsBehind: 100,
			wantReads:   5,
		},
		"a strict apply": {
			writes: writes{seen().Label("a", "b")},
			strict: true,
		},
		"a label and a condition of somebody else": {
			writes:      writes{seen().Label("a", "b").Condition(conditionAt(kueue.WorkloadPodsReady, metav1.ConditionFalse, "", "", 0))},
			wantApplied: true,
			wantReads:   1,
		},
		"a check asked for a retry": {
			writes:    writes{seen().AdmissionChecks(retryAt("a", 0, 60))},
			wantReads: 1,
		},
		"a check asked for a retry, the cache is behind": {
			writes:      writes{seen().AdmissionChecks(retryAt("a", 0, 60))},
			readsBehind: 1,
			wantReads:   2,
		},
		"a check asked for a retry, after another write": {
			writes:    writes{seen().Label("a", "b"), seen().AdmissionChecks(retryAt("a", 0, 60))},
			wantReads: 2,
		},
		"a check has another delay": {
			writes: writes{seen().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := retryAt("a", 0, 60)
				check.State = kueue.CheckStatePending
				return check
			}())},
			wantReads: 1,
		},
		"a check was set back to the state that it had": {
			writes:    writes{seen().AdmissionChecks(checkAt("a", kueue.CheckStatePending, 10))},
			wantReads: 1,
		},
		"a retry of a check was counted": {
			writes:    writes{seen().AdmissionChecks(withRetryCount(checkAt("a", kueue.CheckStatePending, 0), 1))},
			wantReads: 1,
		},
		"a check was added": {
			writes:    writes{seen().AdmissionChecks(checkAt("a", kueue.CheckStatePending, 0), checkAt("b", kueue.CheckStatePending, 0))},
			wantReads: 1,
		},
		"the same with times as the API keeps them": {
			writes:      writes{seen().SetOrReplaceCondition(conditionAt(kueue.WorkloadPreempted, metav1.ConditionFalse, "QuotaReserved", "", 0))},
			wantApplied: true,
			wantReads:   1,
		},
		"it was preempted": {
			writes:    writes{seen().SetOrReplaceCondition(conditionAt(kueue.WorkloadPreempted, metav1.ConditionTrue, "InClusterQueue", "", 0))},
			wantReads: 1,
		},
		"it waits": {
			writes:    writes{seen().RequeueState(nil, ptr.To(metav1.NewTime(at(60))))},
			wantReads: 1,
		},
		"it was taken out of the queue": {
			writes:    writes{seen().Condition(conditionAt(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByLocalQueueStopped, "", 0))},
			wantReads: 1,
		},
		"it has quota": {
			writes:    writes{seen().SetOrReplaceCondition(conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "", 0))},
			wantReads: 1,
		},
		"it has quota elsewhere": {
			seen:      seen().Admission(utiltestingapi.MakeAdmission("cq").Obj()),
			writes:    writes{seen().Admission(utiltestingapi.MakeAdmission("other").Obj())},
			wantReads: 1,
		},
		"a node of it is healthy again": {
			seen:      seen().UnhealthyNodes("node"),
			writes:    writes{seen()},
			wantReads: 1,
		},
		"the cluster of the slice that it replaces": {
			seen:        seen().ClusterName("worker"),
			writes:      writes{seen().Label("a", "b")},
			wantApplied: true,
			wantReads:   1,
		},
		"another cluster": {
			seen:      seen().ClusterName("worker"),
			writes:    writes{seen().ClusterName("other")},
			wantReads: 1,
		},
		"its spec has changed": {
			writes:    writes{seen().Generation(2)},
			wantReads: 1,
		},
		"it has finished": {
			writes:    writes{seen().Finished()},
			wantReads: 1,
		},
		"it is another one with the same name": {
			writes:    writes{seen().UID("other")},
			wantReads: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			if tc.seen == nil {
				tc.seen = seen()
			}
			first := tc.seen.ResourceVersion("10").Obj()
			current, version, applies, reads := first, 10, 0, 0
			cl := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
					if reads++; reads <= tc.readsBehind {
						first.DeepCopyInto(obj.(*kueue.Workload))
					} else {
						current.DeepCopyInto(obj.(*kueue.Workload))
					}
					return nil
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					if applies++; applies <= len(tc.writes) {
						version++
						current = tc.writes[applies-1].ResourceVersion(strconv.Itoa(version)).Obj()
					}
					if obj.GetResourceVersion() != current.ResourceVersion {
						return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
					}
					obj.SetResourceVersion("99")
					return nil
				},
			}).Build()
			wl := first.DeepCopy()
			updated := wl
			if tc.changesCopy {
				updated = wl.DeepCopy()
			}
			err := PatchAdmissionStatus(ctx, cl, wl, testingclock.NewFakeClock(at(0)), func() (*kueue.Workload, bool, error) {
				return updated, UnsetQuotaReservationWithCondition(updated, "Waiting", "", at(0)), nil
			}, func(o *PatchAdmissionStatusOptions) { o.StrictApply = tc.strict })
			if tc.wantApplied && err != nil || !tc.wantApplied && !apierrors.IsConflict(err) {
				t.Errorf("Unexpected error: %v", err)
			}
			wantVersion := "10"
			if tc.wantApplied && !tc.changesCopy {
				wantVersion = "99"
			}
			if wl.ResourceVersion != wantVersion || updated.ResourceVersion != wantVersion {
				t.Errorf("Unexpected resource versions %s and %s, want %s", wl.ResourceVersion, updated.ResourceVersion, wantVersion)
			}
			wantApplies := 1
			switch {
			case tc.wantApplied:
				wantApplies += len(tc.writes)
			case tc.readsBehind == 0 && !tc.strict:
				wantApplies = min(len(tc.writes), 6)
			}
			if applies != wantApplies || reads != tc.wantReads {
				t.Errorf("Unexpected %d applies and %d reads, want %d and %d", applies, reads, wantApplies, tc.wantReads)
			}
		})
	}
}

func TestLooseApplyToDeletedWorkload(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	cl := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return apierrors.NewConflict(kueue.Resource("workloads"), obj.GetName(), errors.New("the object has been modified"))
		},
	}).Build()
	wl := utiltestingapi.MakeWorkload("wl", "ns").Obj()
	err := PatchAdmissionStatus(ctx, cl, wl, testingclock.NewFakeClock(at(0)), func() (*kueue.Workload, bool, error) {
		return wl, true, nil
	}, WithLooseOnApply())
	if !apierrors.IsNotFound(err) {
		t.Errorf("Unexpected error: %v, want that it is not found", err)
	}
}
