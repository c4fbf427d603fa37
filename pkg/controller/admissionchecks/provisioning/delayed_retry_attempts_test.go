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

package provisioning

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// testRequest is a request for wl and the check; each of the conditions is true.
func testRequest(check string, attempt int, conditions ...string) autoscaling.ProvisioningRequest {
	request := autoscaling.ProvisioningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       TestNamespace,
			Name:            fmt.Sprintf("wl-%s-%d", check, attempt),
			OwnerReferences: []metav1.OwnerReference{{Name: "wl"}},
		},
		Spec: autoscaling.ProvisioningRequestSpec{ProvisioningClassName: "class1"},
	}
	for _, condition := range conditions {
		request = *requestWithCondition(&request, condition, metav1.ConditionTrue)
	}
	return request
}

func testCheckState(name kueue.AdmissionCheckReference, state kueue.CheckState, retryCount *int32) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: name, State: state, RetryCount: retryCount}
}

func TestPlanAttempts(t *testing.T) {
	reserved := utiltestingapi.MakeWorkload("wl", TestNamespace).
		ReserveQuotaAt(utiltestingapi.MakeAdmission("q1").Obj(), time.Now())
	released := utiltestingapi.MakeWorkload("wl", TestNamespace)
	pending := func(retryCount *int32) kueue.AdmissionCheckState {
		return testCheckState("check1", kueue.CheckStatePending, retryCount)
	}
	// ready is a check that names the request of the attempt.
	ready := func(retryCount *int32, attempt int) kueue.AdmissionCheckState {
		check := testCheckState("check1", kueue.CheckStateReady, retryCount)
		check.PodSetUpdates = []kueue.PodSetUpdate{{Name: kueue.DefaultPodSetName, Annotations: map[string]string{
			autoscaling.ProvisioningRequestPodAnnotationKey: testRequest("check1", attempt).Name,
		}}}
		return check
	}
	evictedAt := metav1.NewTime(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	// setBack is a check that an eviction has set back to Pending.
	setBack := pending(nil)
	setBack.LastTransitionTime = evictedAt
	condition := func(conditionType string, status metav1.ConditionStatus, reason string, at metav1.Time) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, LastTransitionTime: at, Message: "By test"}
	}
	evictedBy := func(reason string) metav1.Condition {
		return condition(kueue.WorkloadEvicted, metav1.ConditionTrue, reason, evictedAt)
	}
	evictedByCheck := evictedBy(kueue.WorkloadEvictedByAdmissionCheck)
	reservedAgain := condition(kueue.WorkloadEvicted, metav1.ConditionFalse, "QuotaReserved", metav1.NewTime(evictedAt.Add(time.Hour)))
	deactivated := evictedBy(workloadpatching.ReasonWithCause(kueue.WorkloadDeactivated, kueue.WorkloadEvictedByAdmissionCheck))
	reactivated := condition(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.WorkloadReactivated, evictedAt)
	// failedAt is a request that failed so much later than evictedAt.
	failedAt := func(attempt int, after time.Duration, conditions ...string) autoscaling.ProvisioningRequest {
		request := testRequest("check1", attempt, conditions...)
		request.CreationTimestamp = metav1.NewTime(evictedAt.Add(-time.Hour))
		for i := range request.Status.Conditions {
			request.Status.Conditions[i].LastTransitionTime = metav1.NewTime(evictedAt.Add(after))
		}
		return request
	}
	// createdAt is a request that was created so much later than evictedAt.
	createdAt := func(after time.Duration, request autoscaling.ProvisioningRequest) autoscaling.ProvisioningRequest {
		request.CreationTimestamp = metav1.NewTime(evictedAt.Add(after))
		return request
	}
	usedUpTo := func(value string) map[string]string {
		return map[string]string{usedAttemptsAnnotation: value}
	}
	offset := func(value string) map[string]string {
		return map[string]string{attemptOffsetsAnnotation: value}
	}

	cases := map[string]struct {
		workload *kueue.Workload
		requests []autoscaling.ProvisioningRequest
		// deleted: the requests are about to be deleted.
		deleted     bool
		wantOffsets attemptNumbers
		// wantUsed is nil when nothing is to be recorded.
		wantUsed   attemptNumbers
		wantCounts map[kueue.AdmissionCheckReference]int32
	}{
		"no request yet": {
			workload: reserved.Clone().AdmissionChecks(pending(nil)).Obj(),
		},
		"first attempt": {
			workload: reserved.Clone().AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
		},
		"third attempt, two retries": {
			workload: reserved.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2), testRequest("check1", 3, autoscaling.Failed)},
		},
		"third attempt, counted": {
			workload: released.Clone().AdmissionChecks(pending(ptr.To[int32](3))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Failed)},
		},
		"provisioned, before the check shows it": {
			workload: reserved.Clone().AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			wantUsed: attemptNumbers{"check1": 1},
		},
		"provisioned after two retries, before the check shows it": {
			workload: reserved.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
			wantUsed: attemptNumbers{"check1": 3},
		},
		"provisioned, recorded": {
			workload: reserved.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
		},
		"ready, and the request there": {
			workload: reserved.Clone().AdmissionChecks(ready(nil, 1)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
		},
		"ready, and the request about to be deleted": {
			workload: reserved.Clone().AdmissionChecks(ready(nil, 1)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			deleted:  true,
			wantUsed: attemptNumbers{"check1": 1},
		},
		"ready, and the request gone": {
			workload: reserved.Clone().AdmissionChecks(ready(nil, 1)).Obj(),
			wantUsed: attemptNumbers{"check1": 1},
		},
		"ready, and the request gone while the workload waits": {
			workload: released.Clone().AdmissionChecks(ready(nil, 3)).Obj(),
			wantUsed: attemptNumbers{"check1": 3},
		},
		"ready, named by another check": {
			workload: reserved.Clone().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := ready(nil, 3)
				check.Name = "check2"
				return check
			}()).Obj(),
		},
		"set back, and the provisioned request gone": {
			workload:    reserved.Clone().Annotations(usedUpTo(`{"check1":1}`)).AdmissionChecks(pending(nil)).Obj(),
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"set back, and the provisioned request gone, after retries": {
			workload:    reserved.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			wantOffsets: attemptNumbers{"check1": 3},
		},
		"never shown, and the provisioned request gone": {
			workload:    reserved.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"set back, and the provisioned request about to be deleted": {
			workload:    reserved.Clone().AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			deleted:     true,
			wantUsed:    attemptNumbers{"check1": 1},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"set back, and the provisioned request gone, in the queue": {
			workload: released.Clone().Annotations(usedUpTo(`{"check1":1}`)).AdmissionChecks(pending(nil)).Obj(),
		},
		"in flight after a provisioned request that was deleted": {
			workload:    reserved.Clone().Annotations(map[string]string{attemptOffsetsAnnotation: `{"check1":1}`, usedAttemptsAnnotation: `{"check1":1}`}).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"in Retry, and the failed request gone": {
			workload: released.Clone().AdmissionChecks(testCheckState("check1", kueue.CheckStateRetry, ptr.To[int32](2))).Obj(),
			wantUsed: attemptNumbers{"check1": 3},
		},
		"rejected, and the failed request gone": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":3}`)).AdmissionChecks(testCheckState("check1", kueue.CheckStateRejected, nil)).Obj(),
			wantOffsets: attemptNumbers{"check1": 3},
			wantUsed:    attemptNumbers{"check1": 4},
		},
		"requeued, and the failed request gone": {
			workload: released.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			wantUsed: attemptNumbers{"check1": 2},
		},
		"reserved again, and the failed request gone": {
			workload: reserved.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			wantUsed: attemptNumbers{"check1": 2},
		},
		"a deactivation has reset the count, and the failed request gone": {
			workload:    reserved.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(pending(nil)).Obj(),
			wantOffsets: attemptNumbers{"check1": 3},
		},
		"the booking expired, the count not reset yet": {
			workload:    reserved.Clone().AdmissionChecks(ready(ptr.To[int32](2), 3)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"the booking expired, the count reset by the requeue": {
			workload:    released.Clone().Annotations(usedUpTo(`{"check1":3}`)).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"the booking expired, in Retry": {
			workload:    released.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(testCheckState("check1", kueue.CheckStateRetry, ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"the booking expired, counted": {
			workload: released.Clone().Annotations(usedUpTo(`{"check1":1}`)).AdmissionChecks(pending(ptr.To[int32](1))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned, autoscaling.BookingExpired)},
		},
		"the booking expired before the check was ready": {
			workload:    released.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
			wantUsed:    attemptNumbers{"check1": 3},
			wantCounts:  map[kueue.AdmissionCheckReference]int32{"check1": 0},
		},
		"failed after it was provisioned, before the check was ready": {
			workload:    released.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 2},
			wantCounts:  map[kueue.AdmissionCheckReference]int32{"check1": 0},
		},
		"a success has reset the count": {
			workload: reserved.Clone().Annotations(usedUpTo(`{"check1":3}`)).AdmissionChecks(ready(ptr.To[int32](0), 3)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
		},
		"a success has reset the count, before successes were recorded": {
			workload:    reserved.Clone().AdmissionChecks(ready(ptr.To[int32](0), 3)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"a success has reset the count, recorded": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":2}`)).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
			wantUsed:    attemptNumbers{"check1": 3},
		},
		"a success has removed the count": {
			workload: reserved.Clone().RequeueState(ptr.To[int32](5), nil).AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
			wantUsed: attemptNumbers{"check1": 3},
		},
		"second series": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":2}`)).AdmissionChecks(pending(ptr.To[int32](1))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 4)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"other checks are left alone": {
			workload:    reserved.Clone().Annotations(offset(`{"check2":7}`)).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Provisioned)},
			wantOffsets: attemptNumbers{"check2": 7},
			wantUsed:    attemptNumbers{"check1": 2},
		},
		"unreadable annotation": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":`)).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Accepted)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"annotation without an object": {
			workload:    reserved.Clone().Annotations(offset(`null`)).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Accepted)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"annotation with a negative offset": {
			workload: reserved.Clone().Annotations(offset(`{"check1":-3}`)).AdmissionChecks(pending(nil)).Obj(),
		},
		"requests with other names": {
			workload: reserved.Clone().AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{
				{ObjectMeta: metav1.ObjectMeta{Name: "wl"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "wl-x"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "other-check1-9"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "wl-check1-99999999999"}},
			},
		},

		"failed and deleted with its config": {
			workload:    reserved.Clone().AdmissionChecks(pending(ptr.To[int32](1))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			deleted:     true,
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"failed and deleted with its config, counted": {
			workload: reserved.Clone().AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			deleted:  true,
		},
		"failed and deleted with its config, in Retry": {
			workload: reserved.Clone().AdmissionChecks(testCheckState("check1", kueue.CheckStateRetry, ptr.To[int32](1))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			deleted:  true,
		},
		"in flight and deleted with its config": {
			workload: reserved.Clone().AdmissionChecks(pending(ptr.To[int32](1))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2)},
			deleted:  true,
		},
		"the flavor asks for the check no longer": {
			workload:    reserved.Clone().Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			deleted:     true,
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"the flavor is not known yet": {
			workload: released.Clone().Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
		},
		"deactivated after a failure": {
			workload:    released.Clone().Active(false).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"deactivated with a request in flight": {
			workload:    released.Clone().Active(false).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"deactivated, the count not yet forgotten": {
			workload: released.Clone().Active(false).AdmissionChecks(testCheckState("check1", kueue.CheckStateRejected, ptr.To[int32](1))).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
		},
		"active again after a failure": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":2}`)).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 2},
		},
		"active again before the numbers were recorded": {
			workload:    reserved.Clone().Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{failedAt(3, -time.Minute, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 3},
		},
		"active again before the numbers were recorded, the only request": {
			workload:    reserved.Clone().Condition(reactivated).AdmissionChecks(pending(ptr.To[int32](0))).Obj(),
			requests:    []autoscaling.ProvisioningRequest{failedAt(1, 0, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"active again before the numbers were recorded, the booking expired": {
			workload:    reserved.Clone().Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{failedAt(2, -time.Minute, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
			wantUsed:    attemptNumbers{"check1": 2},
		},
		"active again, in the queue before the numbers were recorded": {
			workload:    released.Clone().Condition(deactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{failedAt(1, -time.Minute, autoscaling.Failed)},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"active again, in flight until then": {
			workload: reserved.Clone().Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, time.Minute, autoscaling.Failed)},
		},
		"active again, the next request failed": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":1}`)).Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{createdAt(time.Second, failedAt(2, time.Minute, autoscaling.Failed))},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"active again, the next request failed within the same second": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":1}`)).Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{createdAt(0, failedAt(2, 0, autoscaling.Failed))},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"active again, the next request failed by a clock that is behind": {
			workload:    reserved.Clone().Annotations(offset(`{"check1":1}`)).Condition(reactivated).AdmissionChecks(pending(nil)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{createdAt(time.Second, failedAt(2, -time.Minute, autoscaling.Failed))},
			wantOffsets: attemptNumbers{"check1": 1},
		},
		"active again, with a count: not by a deactivation": {
			workload: reserved.Clone().Condition(reactivated).AdmissionChecks(pending(ptr.To[int32](1))).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(2, -time.Minute, autoscaling.Failed)},
		},
		"active again, in Retry again": {
			workload: released.Clone().Condition(reactivated).AdmissionChecks(testCheckState("check1", kueue.CheckStateRetry, nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, -time.Minute, autoscaling.Failed)},
		},

		"gate switched on, in flight": {
			workload:   reserved.Clone().RequeueState(ptr.To[int32](2), nil).AdmissionChecks(pending(nil)).Obj(),
			requests:   []autoscaling.ProvisioningRequest{testRequest("check1", 3)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 2},
		},
		"gate switched on, failed in between": {
			workload:   reserved.Clone().RequeueState(ptr.To[int32](2), nil).AdmissionChecks(pending(nil)).Obj(),
			requests:   []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 2},
		},
		"gate switched on, in Retry": {
			workload:   reserved.Clone().RequeueState(ptr.To[int32](3), nil).AdmissionChecks(testCheckState("check1", kueue.CheckStateRetry, nil)).Obj(),
			requests:   []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 2},
		},
		"gate switched on, waiting": {
			workload:   released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](3), nil).AdmissionChecks(setBack).Obj(),
			requests:   []autoscaling.ProvisioningRequest{failedAt(3, 0, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 3},
		},
		"gate switched on, waiting after the first failure": {
			workload:   released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests:   []autoscaling.ProvisioningRequest{failedAt(1, -time.Second, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 1},
		},
		"gate switched on, waiting after a booking expired": {
			workload:   released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests:   []autoscaling.ProvisioningRequest{failedAt(1, 0, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantUsed:   attemptNumbers{"check1": 1},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 1},
		},
		"gate switched on, waiting after a booking expired that had taken some attempts": {
			workload:    released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests:    []autoscaling.ProvisioningRequest{failedAt(3, 0, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantOffsets: attemptNumbers{"check1": 2},
			wantUsed:    attemptNumbers{"check1": 3},
			wantCounts:  map[kueue.AdmissionCheckReference]int32{"check1": 1},
		},
		"gate switched on, waiting, the failure of another check is news": {
			workload: released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, 0, autoscaling.Failed)},
		},
		"gate switched on, waiting, failed meanwhile": {
			workload: released.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, time.Second, autoscaling.Failed)},
		},
		"gate switched on, evicted for another reason before the retry": {
			workload:   released.Clone().Condition(evictedBy(kueue.WorkloadEvictedByPreemption)).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests:   []autoscaling.ProvisioningRequest{failedAt(1, -time.Second, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 1},
		},
		"gate switched on, reserved again": {
			workload:   reserved.Clone().Condition(reservedAgain).RequeueState(ptr.To[int32](2), nil).AdmissionChecks(setBack).Obj(),
			requests:   []autoscaling.ProvisioningRequest{failedAt(2, -time.Minute, autoscaling.Failed)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 2},
		},
		"gate switched on, reserved again, then failed": {
			workload: reserved.Clone().Condition(reservedAgain).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, time.Second, autoscaling.Failed)},
		},
		"gate switched on, reserved again, then failed by a clock that is behind": {
			workload: reserved.Clone().Condition(reservedAgain).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests: []autoscaling.ProvisioningRequest{createdAt(time.Second, failedAt(1, -time.Second, autoscaling.Failed))},
		},
		"evicted by WaitForPodsReady, failed meanwhile": {
			workload: released.Clone().RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).
				Condition(evictedBy(kueue.WorkloadEvictedByPodsReadyTimeout)).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, time.Second, autoscaling.Failed)},
		},
		"evicted by WaitForPodsReady, the booking expired before": {
			workload: released.Clone().Annotations(usedUpTo(`{"check1":1}`)).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).
				Condition(evictedBy(kueue.WorkloadEvictedByPodsReadyTimeout)).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, -time.Minute, autoscaling.Provisioned, autoscaling.BookingExpired)},
		},
		"evicted by WaitForPodsReady, the booking expired meanwhile, and reserved again": {
			workload: reserved.Clone().Annotations(usedUpTo(`{"check1":1}`)).Condition(reservedAgain).RequeueState(ptr.To[int32](1), nil).AdmissionChecks(setBack).Obj(),
			requests: []autoscaling.ProvisioningRequest{failedAt(1, time.Minute, autoscaling.Provisioned, autoscaling.BookingExpired)},
		},
		"gate switched off and on": {
			workload:   reserved.Clone().RequeueState(ptr.To[int32](1), nil).AdmissionChecks(pending(ptr.To[int32](2))).Obj(),
			requests:   []autoscaling.ProvisioningRequest{testRequest("check1", 4)},
			wantCounts: map[kueue.AdmissionCheckReference]int32{"check1": 3},
		},
		"the count of WaitForPodsReady is another one": {
			workload: reserved.Clone().RequeueState(ptr.To[int32](5), nil).AdmissionChecks(pending(nil)).Obj(),
			requests: []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			keepRequests(t)
			kept := make(map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest)
			if !tc.deleted && len(tc.requests) > 0 {
				kept["check1"] = &tc.requests[len(tc.requests)-1]
			}
			before := tc.workload.DeepCopy()
			checks := make([]kueue.AdmissionCheckReference, 0, len(tc.workload.Status.AdmissionChecks))
			for _, check := range tc.workload.Status.AdmissionChecks {
				checks = append(checks, check.Name)
			}
			used := planUsed(tc.workload, slices.Values(checks), tc.requests, kept)
			offsets, counts := planAttempts(tc.workload, tc.requests, kept, used)
			if tc.wantUsed == nil {
				tc.wantUsed = usedAttemptsOf(tc.workload)
			}
			if diff := cmp.Diff(tc.wantUsed, used); diff != "" {
				t.Errorf("Unexpected numbers that are used (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOffsets, offsets, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Unexpected offsets (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantCounts, counts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Unexpected counts (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.workload); diff != "" {
				t.Errorf("The workload was changed (-before,+after):\n%s", diff)
			}
		})
	}
}
