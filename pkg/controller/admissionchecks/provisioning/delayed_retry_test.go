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
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/api"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

func TestUpdateForRetry(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 1, time.UTC)
	nextSecond := metav1.NewTime(now.Truncate(time.Second).Add(time.Second))
	old := metav1.NewTime(now.Add(-time.Hour))
	strategy := kueue.ProvisioningRequestRetryStrategy{
		BackoffLimitCount:  ptr.To[int32](3),
		BackoffBaseSeconds: ptr.To[int32](60),
		BackoffMaxSeconds:  ptr.To[int32](200),
	}
	noRetry := strategy
	noRetry.BackoffLimitCount = ptr.To[int32](0)
	long := strings.Repeat("x", 32*1024) // as a condition may have, and a check
	base := kueue.AdmissionCheckState{Name: "check1", State: kueue.CheckStatePending, LastTransitionTime: old, Message: "before"}
	check := func(state kueue.CheckState, retryCount *int32) kueue.AdmissionCheckState {
		c := base
		c.State, c.RetryCount = state, retryCount
		return c
	}
	retry := func(retryCount *int32, requeueAfterSeconds int32, message string) *kueue.AdmissionCheckState {
		c := check(kueue.CheckStateRetry, retryCount)
		c.LastTransitionTime, c.Message, c.RequeueAfterSeconds = nextSecond, message, &requeueAfterSeconds
		return &c
	}
	rejected := func(retryCount *int32) *kueue.AdmissionCheckState {
		c := check(kueue.CheckStateRejected, retryCount)
		c.LastTransitionTime, c.Message = nextSecond, "By test"
		return &c
	}

	cases := map[string]struct {
		check     kueue.AdmissionCheckState
		condition string
		message   string
		attempt   int32
		offset    int32
		strategy  kueue.ProvisioningRequestRetryStrategy
		// want is nil when nothing is to change.
		want *kueue.AdmissionCheckState
	}{
		"first failure": {
			check:   check(kueue.CheckStatePending, nil),
			attempt: 1,
			want:    retry(nil, 60, "Retrying after failure: By test"),
		},
		"failure with as many words as a check holds": {
			check:   check(kueue.CheckStatePending, nil),
			message: long,
			attempt: 1,
			want:    retry(nil, 60, api.TruncateConditionMessage("Retrying after failure: "+long)),
		},
		"second failure": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](1)),
			attempt: 2,
			want:    retry(ptr.To[int32](1), 120, "Retrying after failure: By test"),
		},
		"last failure that is retried, the backoff at its maximum": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](2)),
			attempt: 3,
			want:    retry(ptr.To[int32](2), 200, "Retrying after failure: By test"),
		},
		"one failure more": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](3)),
			attempt: 4,
			want:    rejected(ptr.To[int32](3)),
		},
		"never retry": {
			check:    check(kueue.CheckStatePending, nil),
			attempt:  1,
			strategy: noRetry,
			want:     rejected(nil),
		},
		"the booking of a ready check expired": {
			check:     check(kueue.CheckStateReady, nil),
			condition: autoscaling.BookingExpired,
			attempt:   1,
			want:      retry(nil, 60, "Retrying after booking expired: By test"),
		},
		"the booking of a ready check expired, after retries": {
			check:     check(kueue.CheckStateReady, ptr.To[int32](3)),
			condition: autoscaling.BookingExpired,
			attempt:   4,
			want:      retry(ptr.To[int32](3), 60, "Retrying after booking expired: By test"),
		},
		"failed after it was ready, the offset recorded": {
			check:   check(kueue.CheckStateReady, ptr.To[int32](3)),
			attempt: 4,
			offset:  3,
			want:    retry(ptr.To[int32](3), 60, "Retrying after failure: By test"),
		},
		"first failure of a second series": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](0)),
			attempt: 4,
			offset:  3,
			want:    retry(ptr.To[int32](0), 60, "Retrying after failure: By test"),
		},
		"counted": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](1)),
			attempt: 1,
		},
		"counted, the limit reached": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](3)),
			attempt: 3,
		},
		"counted, in a second series": {
			check:   check(kueue.CheckStatePending, ptr.To[int32](1)),
			attempt: 4,
			offset:  3,
		},
		"request of an older series": {
			check:   check(kueue.CheckStatePending, nil),
			attempt: 3,
			offset:  3,
		},
		"asked already": {
			check:   check(kueue.CheckStateRetry, nil),
			attempt: 1,
		},
		"asked already, never retry by now": {
			check:    check(kueue.CheckStateRetry, nil),
			attempt:  1,
			strategy: noRetry,
		},
		"rejected already": {
			check:   check(kueue.CheckStateRejected, nil),
			attempt: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.condition == "" {
				tc.condition = autoscaling.Failed
			}
			if tc.strategy.BackoffLimitCount == nil {
				tc.strategy = strategy
			}
			request := testRequest("check1", int(tc.attempt), tc.condition)
			if tc.message != "" {
				request.Status.Conditions[0].Message = tc.message
			}
			got := tc.check
			updated := updateForRetry(&got, &request, tc.attempt, tc.offset, &tc.strategy, now)
			if updated != (tc.want != nil) {
				t.Errorf("Unexpected result %v", updated)
			}
			if diff := cmp.Diff(ptr.Deref(tc.want, tc.check), got); diff != "" {
				t.Errorf("Unexpected check state (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestBackoffSeconds(t *testing.T) {
	cases := map[string]struct {
		retries, base, maximum int32
		wantMin, wantMax       int32
	}{
		"no retry yet":              {retries: 0, base: 60, maximum: 1800, wantMin: 60, wantMax: 60},
		"one retry":                 {retries: 1, base: 60, maximum: 1800, wantMin: 120, wantMax: 120},
		"below the maximum":         {retries: 4, base: 60, maximum: 1800, wantMin: 960, wantMax: 960},
		"at the maximum":            {retries: 5, base: 60, maximum: 1800, wantMin: 1800, wantMax: 1800},
		"base above the maximum":    {retries: 0, base: 60, maximum: 30, wantMin: 30, wantMax: 30},
		"no backoff":                {retries: 9, base: 0, maximum: 1800},
		"no backoff by the maximum": {retries: 9, base: 60, maximum: 0},
		"jitter":                    {retries: 0, base: 1_000_000, maximum: math.MaxInt32, wantMin: 1_000_000, wantMax: 1_000_100},
		"largest numbers":           {retries: math.MaxInt32, base: math.MaxInt32, maximum: math.MaxInt32, wantMin: math.MaxInt32, wantMax: math.MaxInt32},
		"many retries of a short backoff": {
			retries: math.MaxInt32, base: 1, maximum: math.MaxInt32, wantMin: math.MaxInt32, wantMax: math.MaxInt32,
		},
		"negative base":                {retries: 2, base: -60, maximum: 1800},
		"negative maximum":             {retries: 2, base: 60, maximum: -1},
		"many retries without backoff": {retries: math.MaxInt32, base: 0, maximum: math.MaxInt32},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				if got := backoffSeconds(tc.retries, tc.base, tc.maximum); got < tc.wantMin || got > tc.wantMax {
					t.Fatalf("Unexpected backoff %d, want %d to %d", got, tc.wantMin, tc.wantMax)
				}
			}
		})
	}
}

func TestReconcileDelayedRetry(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	old := metav1.NewTime(now.Add(-time.Hour))
	admission := utiltestingapi.MakeAdmission("q1").
		PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).Assignment(corev1.ResourceCPU, "flavor", "1").Obj()).
		Obj()
	base := utiltestingapi.MakeWorkload("wl", TestNamespace).UID("wl").Request(corev1.ResourceCPU, "1")
	reserved := base.Clone().ReserveQuotaAt(admission, now)
	evicted := base.Clone().Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck})
	config := utiltestingapi.MakeProvisioningRequestConfig("config1").ProvisioningClass("class1").RetryStrategy(&kueue.ProvisioningRequestRetryStrategy{
		BackoffLimitCount:  ptr.To[int32](2),
		BackoffBaseSeconds: ptr.To[int32](60),
		BackoffMaxSeconds:  ptr.To[int32](1800),
	})
	slowConfig := utiltestingapi.MakeProvisioningRequestConfig("config2").ProvisioningClass("class1").RetryStrategy(&kueue.ProvisioningRequestRetryStrategy{
		BackoffLimitCount:  ptr.To[int32](2),
		BackoffBaseSeconds: ptr.To[int32](600),
		BackoffMaxSeconds:  ptr.To[int32](1800),
	}).Obj()
	check := func(name kueue.AdmissionCheckReference, state kueue.CheckState, retryCount *int32) kueue.AdmissionCheckState {
		c := testCheckState(name, state, retryCount)
		c.LastTransitionTime = old
		return c
	}
	retry := func(name kueue.AdmissionCheckReference, retryCount *int32, requeueAfterSeconds int32, at metav1.Time) kueue.AdmissionCheckState {
		c := check(name, kueue.CheckStateRetry, retryCount)
		c.LastTransitionTime, c.RequeueAfterSeconds = at, &requeueAfterSeconds
		return c
	}
	asked := retry("check1", nil, 60, metav1.NewTime(now))
	asked.Message = "Retrying after failure: By test"
	slowAsked := retry("check2", nil, 600, metav1.NewTime(now))
	slowAsked.Message = "Retrying after failure: By test"
	expired := retry("check1", ptr.To[int32](0), 60, metav1.NewTime(now))
	expired.Message = "Retrying after booking expired: By test"
	rejected := check("check1", kueue.CheckStateRejected, ptr.To[int32](2))
	rejected.LastTransitionTime, rejected.Message = metav1.NewTime(now), "By test"
	revoked := check("check1", kueue.CheckStateRejected, nil)
	revoked.Message = "By test"
	foreign := retry("foreign", ptr.To[int32](4), 90, old)
	evictedByCheck := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck, LastTransitionTime: old}
	reactivated := metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadReactivated, LastTransitionTime: old}
	// failedBefore is a request that failed before the last transition of the checks.
	failedBefore := func(attempt int) autoscaling.ProvisioningRequest {
		request := testRequest("check1", attempt, autoscaling.Failed)
		request.Status.Conditions[0].LastTransitionTime = metav1.NewTime(old.Add(-time.Minute))
		return request
	}
	boundTo := func(flavor kueue.ResourceFlavorReference) *kueue.ClusterQueue {
		return utiltestingapi.MakeClusterQueue("q1").AdmissionCheckStrategy(*utiltestingapi.MakeAdmissionCheckStrategyRule("check1", flavor).Obj()).Obj()
	}
	pending2 := check("check2", kueue.CheckStatePending, nil)
	expiredReady := retry("check1", nil, 60, metav1.NewTime(now))
	expiredReady.Message = "Retrying after booking expired: By test"
	failedReady := retry("check1", ptr.To[int32](0), 60, metav1.NewTime(now))
	failedReady.Message = "Retrying after failure: By test"
	revokedReady := check("check1", kueue.CheckStateRejected, ptr.To[int32](0))
	revokedReady.Message = "By test"
	provisioned := func(retryCount *int32) kueue.AdmissionCheckState {
		c := check("check1", kueue.CheckStateReady, retryCount)
		c.Message = "By test"
		return c
	}
	// ready is a check that names the request of the attempt.
	ready := func(retryCount *int32, attempt int) kueue.AdmissionCheckState {
		c := check("check1", kueue.CheckStateReady, retryCount)
		c.PodSetUpdates = []kueue.PodSetUpdate{{Name: kueue.DefaultPodSetName, Annotations: map[string]string{
			autoscaling.ProvisioningRequestPodAnnotationKey: testRequest("check1", attempt).Name,
		}}}
		return c
	}
	inactive := check("check1", kueue.CheckStatePending, ptr.To[int32](0))
	inactive.Message = CheckInactiveMessage
	// named returns the check as it is while it still names the request.
	named := func(c kueue.AdmissionCheckState, attempt int) kueue.AdmissionCheckState {
		c.PodSetUpdates = ready(nil, attempt).PodSetUpdates
		return c
	}
	withoutTime := foreign
	withoutTime.LastTransitionTime = metav1.Time{}
	repaired := &kueue.Workload{Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{withoutTime}}}
	times.Repair(repaired)

	cases := map[string]struct {
		workload     *kueue.Workload
		requests     []autoscaling.ProvisioningRequest
		noConfig     bool
		clusterQueue *kueue.ClusterQueue
		wantChecks   []kueue.AdmissionCheckState
		wantRequests []string
		wantOffsets  attemptNumbers
		// wantUsed is nil when nothing is to be recorded.
		wantUsed attemptNumbers
		// wantWrites is the number of writes to the workload.
		wantWrites int
	}{
		"failed": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{asked},
			wantRequests: []string{"wl-check1-1"},
			wantWrites:   1,
		},
		"failed, and the request of a check that has succeeded is gone": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil), check("check2", kueue.CheckStateReady, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{asked, check("check2", kueue.CheckStateReady, nil)},
			wantRequests: []string{"wl-check1-1"},
			wantWrites:   1,
		},
		"failed, requeueState belongs to WaitForPodsReady": {
			workload:     reserved.Clone().RequeueState(ptr.To[int32](5), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{asked},
			wantRequests: []string{"wl-check1-1"},
			wantWrites:   1,
		},
		"active again before the numbers were recorded": {
			workload:     reserved.Clone().Condition(reactivated).AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](0))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{failedBefore(3)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](0))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 3},
			wantWrites:   1,
		},
		"failed for the last time": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](2))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{rejected},
			wantRequests: []string{"wl-check1-3"},
			wantWrites:   1,
		},
		"asked, not evicted yet": {
			workload:     reserved.Clone().AdmissionChecks(retry("check1", nil, 60, old)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{retry("check1", nil, 60, old)},
			wantRequests: []string{"wl-check1-1"},
		},
		"asked, not evicted yet, and the request deleted": {
			workload:   reserved.Clone().AdmissionChecks(retry("check1", nil, 60, old)).Obj(),
			wantChecks: []kueue.AdmissionCheckState{retry("check1", nil, 60, old)},
			wantUsed:   attemptNumbers{"check1": 1},
			wantWrites: 1,
		},
		"waiting": {
			workload:     evicted.Clone().AdmissionChecks(retry("check1", nil, 60, old)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{retry("check1", nil, 60, old)},
			wantRequests: []string{"wl-check1-1"},
		},
		"waiting, the config deleted": {
			workload:     evicted.Clone().AdmissionChecks(retry("check1", nil, 60, old)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			noConfig:     true,
			wantChecks:   []kueue.AdmissionCheckState{retry("check1", nil, 60, old)},
			wantRequests: []string{"wl-check1-1"},
		},
		"another check fails while the workload waits": {
			workload:     evicted.Clone().AdmissionChecks(retry("check1", nil, 60, old), pending2).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed), testRequest("check2", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{retry("check1", nil, 60, old), slowAsked},
			wantRequests: []string{"wl-check1-1", "wl-check2-1"},
			wantWrites:   1,
		},
		"another check is provisioned while the workload waits": {
			workload:     evicted.Clone().AdmissionChecks(retry("check1", nil, 60, old), pending2).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed), testRequest("check2", 1, autoscaling.Provisioned)},
			wantChecks:   []kueue.AdmissionCheckState{retry("check1", nil, 60, old), pending2},
			wantRequests: []string{"wl-check1-1", "wl-check2-1"},
			wantUsed:     attemptNumbers{"check2": 1},
			wantWrites:   1,
		},
		"failed while the workload is queued": {
			workload:     base.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, nil)},
			wantRequests: []string{"wl-check1-1"},
		},
		"requeued and reserved again": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-2"},
		},
		"requeued and reserved again, the failed request is gone": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-2"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   1,
		},
		"the failed request of an old attempt": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed), testRequest("check1", 2)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-2"},
		},
		"the delay of another check is left alone": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil), foreign).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{asked, foreign},
			wantRequests: []string{"wl-check1-1"},
			wantWrites:   1,
		},
		"the booking expired after a success": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](0))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{expired},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"the booking expired, and the capacity was revoked": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned, autoscaling.BookingExpired, autoscaling.CapacityRevoked)},
			wantChecks:   []kueue.AdmissionCheckState{revoked},
			wantRequests: []string{"wl-check1-1"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   2,
		},
		"provisioned": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			wantChecks:   []kueue.AdmissionCheckState{provisioned(nil)},
			wantRequests: []string{"wl-check1-1"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   2,
		},
		"provisioned after retries": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](2))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
			wantChecks:   []kueue.AdmissionCheckState{provisioned(ptr.To[int32](0))},
			wantRequests: []string{"wl-check1-3"},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"provisioned again": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":1}`}).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			wantChecks:   []kueue.AdmissionCheckState{provisioned(nil)},
			wantRequests: []string{"wl-check1-1"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   1,
		},
		"the booking of a ready check expired": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":1}`}).AdmissionChecks(ready(nil, 1)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{named(expiredReady, 1)},
			wantRequests: []string{"wl-check1-1"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   1,
		},
		"the booking of a ready check expired, after the last retry": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(ready(ptr.To[int32](2), 3)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{named(expired, 3)},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"the booking of a ready check expired while the workload waits, after the last retry": {
			workload:     evicted.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(ready(ptr.To[int32](2), 3), foreign).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{named(expired, 3), foreign},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"provisioned while the workload waits, and the booking expired, after the last retry": {
			workload:     evicted.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](2)), foreign).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{expired, foreign},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   4,
		},
		"failed after it was ready, and after the last retry": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(ready(ptr.To[int32](2), 3)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{named(failedReady, 3)},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"the capacity of a ready check was revoked after retries": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(ready(ptr.To[int32](2), 3)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.CapacityRevoked)},
			wantChecks:   []kueue.AdmissionCheckState{named(revokedReady, 3)},
			wantRequests: []string{"wl-check1-3"},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   1,
		},
		"the config of a ready check deleted after retries": {
			workload:    reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(ready(ptr.To[int32](2), 3)).Obj(),
			requests:    []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned)},
			noConfig:    true,
			wantChecks:  []kueue.AdmissionCheckState{named(inactive, 3)},
			wantOffsets: attemptNumbers{"check1": 3},
			wantUsed:    attemptNumbers{"check1": 3},
			wantWrites:  2,
		},
		"the requeue has reset a ready check, then the booking expired": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":3}`}).RequeueState(ptr.To[int32](5), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{expiredReady},
			wantRequests: []string{"wl-check1-3"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   2,
		},
		"the booking of a ready check expired, and was counted by the requeue": {
			workload:     reserved.Clone().Annotations(map[string]string{attemptOffsetsAnnotation: `{"check1":2}`, usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
		},
		"the request of a ready check deleted by hand": {
			workload:   reserved.Clone().AdmissionChecks(ready(nil, 1)).Obj(),
			wantChecks: []kueue.AdmissionCheckState{ready(nil, 1)},
			wantUsed:   attemptNumbers{"check1": 1},
			wantWrites: 1,
		},
		"reserved again, the provisioned request deleted by hand": {
			workload:     reserved.Clone().Annotations(map[string]string{usedAttemptsAnnotation: `{"check1":1}`}).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, nil)},
			wantRequests: []string{"wl-check1-2"},
			wantOffsets:  attemptNumbers{"check1": 1},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   1,
		},
		"reserved again, the provisioned request deleted by hand while the workload waited for its retry": {
			workload:     reserved.Clone().Annotations(map[string]string{attemptOffsetsAnnotation: `{"check1":2}`, usedAttemptsAnnotation: `{"check1":3}`}).AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
		},
		"failed, another check has no time": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil), withoutTime).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{asked, repaired.Status.AdmissionChecks[0]},
			wantRequests: []string{"wl-check1-1"},
			wantWrites:   1,
		},
		"provisioned, another check has no time": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, nil), withoutTime).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Provisioned)},
			wantChecks:   []kueue.AdmissionCheckState{provisioned(nil), repaired.Status.AdmissionChecks[0]},
			wantRequests: []string{"wl-check1-1"},
			wantUsed:     attemptNumbers{"check1": 1},
			wantWrites:   2,
		},
		"gate switched on, another check has no time": {
			workload:     reserved.Clone().RequeueState(ptr.To[int32](1), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil), withoutTime).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 2)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1)), repaired.Status.AdmissionChecks[0]},
			wantRequests: []string{"wl-check1-2"},
			wantWrites:   1,
		},
		"requeued after a second series began": {
			workload:     reserved.Clone().Annotations(map[string]string{attemptOffsetsAnnotation: `{"check1":2}`}).AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 3, autoscaling.Provisioned, autoscaling.BookingExpired)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantUsed:     attemptNumbers{"check1": 3},
			wantWrites:   1,
		},
		"reserved on a flavor that does not ask for the check": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			clusterQueue: boundTo("other"),
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-1"},
		},
		"reserved on the flavor that asks for the check": {
			workload:     reserved.Clone().AdmissionChecks(check("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 1, autoscaling.Failed)},
			clusterQueue: boundTo("flavor"),
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-2"},
		},
		"gate switched on while waiting": {
			workload:     base.Clone().Condition(evictedByCheck).RequeueState(ptr.To[int32](2), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{failedBefore(2)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](2))},
			wantRequests: []string{"wl-check1-2"},
			wantWrites:   1,
		},
		"gate switched on with a request in flight, after more attempts than are counted": {
			workload:     reserved.Clone().RequeueState(ptr.To[int32](1), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 4)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantWrites:   2,
		},
		"gate switched on and reserved again, after more attempts than are counted": {
			workload:     reserved.Clone().RequeueState(ptr.To[int32](1), nil).AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{failedBefore(3)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, ptr.To[int32](1))},
			wantRequests: []string{"wl-check1-4"},
			wantOffsets:  attemptNumbers{"check1": 2},
			wantWrites:   2,
		},
		"the check of the flavor is not added yet": {
			workload:     reserved.Clone().Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			clusterQueue: boundTo("flavor"),
			wantRequests: []string{"wl-check1-2"},
		},
		"the queue asks for the check no longer": {
			workload:     reserved.Clone().Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			clusterQueue: utiltestingapi.MakeClusterQueue("q1").Obj(),
			wantOffsets:  attemptNumbers{"check1": 2},
			wantWrites:   1,
		},
		"finished": {
			workload:     reserved.Clone().Finished().AdmissionChecks(check("check1", kueue.CheckStatePending, nil)).Obj(),
			requests:     []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)},
			wantChecks:   []kueue.AdmissionCheckState{check("check1", kueue.CheckStatePending, nil)},
			wantRequests: keptWhenFinished("wl-check1-2"),
		},
	}
	for name, tc := range cases {
		for _, useMergePatch := range []bool{false, true} {
			// The manager stops after so many writes, and starts again.
			for stopAfter := range tc.wantWrites + 1 {
				t.Run(fmt.Sprintf("%s, WorkloadRequestUseMergePatch=%v, stopped after %d writes", name, useMergePatch, stopAfter), func(t *testing.T) {
					features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
					features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, useMergePatch)
					keepRequests(t)
					ctx, _ := utiltesting.ContextWithLog(t)
					builder, ctx := getClientBuilder(ctx)
					writes, stopped := 0, false
					errStopped := errors.New("stopped")
					write := func(obj client.Object, patch client.Patch) error {
						if !stopped && writes == stopAfter {
							stopped = true
							return errStopped
						}
						writes++
						data, err := patch.Data(obj)
						if err == nil && bytes.Contains(data, []byte(`"lastTransitionTime":null`)) {
							err = errors.New("status.admissionChecks.lastTransitionTime: required value")
						}
						return err
					}
					builder = builder.WithObjects(tc.workload.DeepCopy()).WithStatusSubresource(tc.workload).
						WithLists(
							&autoscaling.ProvisioningRequestList{Items: tc.requests},
							&kueue.AdmissionCheckList{Items: []kueue.AdmissionCheck{
								*utiltestingapi.MakeAdmissionCheck("check1").ControllerName(kueue.ProvisioningRequestControllerName).Parameters(kueue.SchemeGroupVersion.Group, ConfigKind, "config1").Obj(),
								*utiltestingapi.MakeAdmissionCheck("check2").ControllerName(kueue.ProvisioningRequestControllerName).Parameters(kueue.SchemeGroupVersion.Group, ConfigKind, "config2").Obj(),
								*utiltestingapi.MakeAdmissionCheck("foreign").ControllerName("foreign").Obj(),
							}},
							&kueue.ResourceFlavorList{Items: []kueue.ResourceFlavor{*utiltestingapi.MakeResourceFlavor("flavor").Obj()}},
						).
						WithInterceptorFuncs(interceptor.Funcs{
							Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
								if err := write(obj, patch); err != nil {
									return err
								}
								return c.Patch(ctx, obj, patch, opts...)
							},
							SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
								if err := write(obj, patch); err != nil {
									return err
								}
								return c.SubResource(subResource).Patch(ctx, obj, patch, opts...)
							},
						})
					if !tc.noConfig {
						builder = builder.WithLists(&kueue.ProvisioningRequestConfigList{Items: []kueue.ProvisioningRequestConfig{*config.Clone().Obj(), *slowConfig}})
					}
					if tc.clusterQueue != nil {
						builder = builder.WithObjects(tc.clusterQueue)
					}
					k8sClient := builder.Build()
					controller, err := newTestController(k8sClient)
					if err != nil {
						t.Fatalf("Setting up the controller: %v", err)
					}
					controller.clock = testingclock.NewFakeClock(now)

					// The last time there is nothing left to be done.
					for range 3 {
						_, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(tc.workload)})
						if err != nil && !errors.Is(err, errStopped) {
							t.Fatalf("Unexpected error: %v", err)
						}
					}

					got := &kueue.Workload{}
					if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(tc.workload), got); err != nil {
						t.Fatalf("Getting the workload: %v", err)
					}
					if diff := cmp.Diff(tc.wantChecks, got.Status.AdmissionChecks, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
					}
					if diff := cmp.Diff(tc.workload.Status.RequeueState, got.Status.RequeueState); diff != "" {
						t.Errorf("requeueState was changed (-before,+after):\n%s", diff)
					}
					if diff := cmp.Diff(tc.wantOffsets, attemptOffsetsOf(got), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("Unexpected offsets (-want,+got):\n%s", diff)
					}
					if diff := cmp.Diff(tc.wantUsed, usedAttemptsOf(got), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("Unexpected numbers that are used (-want,+got):\n%s", diff)
					}
					requests := &autoscaling.ProvisioningRequestList{}
					if err := k8sClient.List(ctx, requests); err != nil {
						t.Fatalf("Listing the requests: %v", err)
					}
					names := make([]string, 0, len(requests.Items))
					for i := range requests.Items {
						names = append(names, requests.Items[i].Name)
					}
					slices.Sort(names)
					if diff := cmp.Diff(tc.wantRequests, names, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("Unexpected requests (-want,+got):\n%s", diff)
					}
					if writes != tc.wantWrites {
						t.Errorf("Unexpected number of writes: %d, want %d", writes, tc.wantWrites)
					}
				})
			}
		}
	}
}

// A state that was written since the workload was read must not be undone.
func TestReconcileDelayedRetryConflict(t *testing.T) {
	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).
		ReserveQuotaAt(utiltestingapi.MakeAdmission("q1").Obj(), time.Now()).
		AdmissionChecks(testCheckState("check1", kueue.CheckStatePending, nil), testCheckState("foreign", kueue.CheckStatePending, nil)).
		Obj()
	cases := map[string]struct {
		workload *kueue.Workload
		request  autoscaling.ProvisioningRequest
	}{
		"check state":     {workload: wl, request: testRequest("check1", 1, autoscaling.Failed)},
		"offset":          {workload: wl, request: testRequest("check1", 2, autoscaling.Provisioned)},
		"earlier retries": {workload: (&utiltestingapi.WorkloadWrapper{Workload: *wl.DeepCopy()}).RequeueState(ptr.To[int32](1), nil).Obj(), request: testRequest("check1", 2)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			builder, ctx := getClientBuilder(ctx)
			k8sClient := builder.WithObjects(tc.workload).WithStatusSubresource(tc.workload).
				WithLists(
					&autoscaling.ProvisioningRequestList{Items: []autoscaling.ProvisioningRequest{tc.request}},
					&kueue.AdmissionCheckList{Items: []kueue.AdmissionCheck{
						*utiltestingapi.MakeAdmissionCheck("check1").ControllerName(kueue.ProvisioningRequestControllerName).Parameters(kueue.SchemeGroupVersion.Group, ConfigKind, "config1").Obj(),
						*utiltestingapi.MakeAdmissionCheck("foreign").ControllerName("foreign").Obj(),
					}},
					&kueue.ProvisioningRequestConfigList{Items: []kueue.ProvisioningRequestConfig{
						*utiltestingapi.MakeProvisioningRequestConfig("config1").ProvisioningClass("class1").RetryStrategy(&kueue.ProvisioningRequestRetryStrategy{
							BackoffLimitCount:  ptr.To[int32](1),
							BackoffBaseSeconds: ptr.To[int32](60),
							BackoffMaxSeconds:  ptr.To[int32](1800),
						}).Obj(),
					}},
				).
				WithInterceptorFuncs(interceptor.Funcs{
					// The workload is read; then the other check's controller writes.
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if _, isRequests := list.(*autoscaling.ProvisioningRequestList); isRequests {
							fresh := &kueue.Workload{}
							if err := c.Get(ctx, client.ObjectKeyFromObject(tc.workload), fresh); err != nil {
								return err
							}
							fresh.Status.AdmissionChecks[1].State = kueue.CheckStateReady
							if err := c.Status().Update(ctx, fresh); err != nil {
								return err
							}
						}
						return c.List(ctx, list, opts...)
					},
				}).
				Build()
			controller, err := newTestController(k8sClient)
			if err != nil {
				t.Fatalf("Setting up the controller: %v", err)
			}
			if _, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(tc.workload)}); !apierrors.IsConflict(err) {
				t.Errorf("Unexpected error %v, want a conflict", err)
			}
			got := &kueue.Workload{}
			if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(tc.workload), got); err != nil {
				t.Fatalf("Getting the workload: %v", err)
			}
			want := []kueue.AdmissionCheckState{testCheckState("check1", kueue.CheckStatePending, nil), testCheckState("foreign", kueue.CheckStateReady, nil)}
			if diff := cmp.Diff(want, got.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
			if _, found := got.Annotations[attemptOffsetsAnnotation]; found {
				t.Errorf("Unexpected annotation: %v", got.Annotations)
			}
		})
	}
}

// A count that somebody else has written leaves room for the number of an attempt.
func TestNextAttemptAfterTheMostRetries(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).
		AdmissionChecks(testCheckState("check", kueue.CheckStatePending, ptr.To[int32](math.MaxInt32))).Obj()
	attempt := nextAttempt(wl, "check", 1)
	if _, got, ok := parseRequestName(wl, ProvisioningRequestName(wl.Name, "check", attempt)); !ok || got != attempt || attempt < 1 {
		t.Errorf("Attempt %d, of which the name says %d, %t", attempt, got, ok)
	}
}
