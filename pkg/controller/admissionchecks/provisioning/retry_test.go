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
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

var testStart = time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)

func evictions(reason string, cause kueue.EvictionUnderlyingCause, count int32) kueue.WorkloadSchedulingStatsEviction {
	return kueue.WorkloadSchedulingStatsEviction{Reason: reason, UnderlyingCause: cause, Count: count}
}

func TestAttemptOfReservation(t *testing.T) {
	base := func() *utiltestingapi.WorkloadWrapper { return utiltestingapi.MakeWorkload("wl", TestNamespace) }
	cases := map[string]struct {
		wl   *kueue.Workload
		want int32
	}{
		"no statistics": {
			wl:   base().Obj(),
			want: 1,
		},
		"no evictions": {
			wl:   base().SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByAdmissionCheck, "", 0)).Obj(),
			want: 1,
		},
		"evictions for checks": {
			wl:   base().SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByAdmissionCheck, "", 2)).Obj(),
			want: 3,
		},
		"evictions for whatever reason and cause": {
			wl: base().
				SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByAdmissionCheck, "", 2)).
				SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByPreemption, "", 3)).
				SchedulingStatsEviction(evictions(kueue.WorkloadDeactivated, kueue.WorkloadEvictedByAdmissionCheck, 1)).
				SchedulingStatsEviction(evictions(kueue.WorkloadDeactivated, "", 1)).
				Obj(),
			want: 8,
		},
		"the retries of a check do not count, nor do those of WaitForPodsReady": {
			wl: base().
				AdmissionChecks(kueue.AdmissionCheckState{Name: "check1", RetryCount: ptr.To[int32](7)}).
				RequeueState(ptr.To[int32](5), nil).
				SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByAdmissionCheck, "", 1)).
				Obj(),
			want: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := attemptOfReservation(tc.wl); got != tc.want {
				t.Errorf("attemptOfReservation() = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestIsOfReservation(t *testing.T) {
	reservedAt := testStart
	type test struct {
		gateOff    bool
		state      kueue.CheckState
		noCheck    bool
		retryCount int32
		evictions  int32
		notHeld    bool
		attempt    int32
		createdAt  time.Time
		want       bool
	}
	cases := map[string]test{
		"its number, first attempt": {
			attempt: 1, createdAt: reservedAt.Add(time.Second),
			want: true,
		},
		"its number, whatever the clocks say": {
			evictions: 2, retryCount: 2, attempt: 3, createdAt: reservedAt.Add(-time.Hour),
			want: true,
		},
		"its number, while in Retry": {
			state: kueue.CheckStateRetry, attempt: 1, createdAt: reservedAt,
			want: true,
		},
		"its number, while Rejected": {
			state: kueue.CheckStateRejected, evictions: 3, retryCount: 3, attempt: 4, createdAt: reservedAt,
			want: true,
		},
		"not an older one: the attempt before has failed": {
			evictions: 1, retryCount: 1, attempt: 1, createdAt: reservedAt.Add(-time.Minute),
		},
		"not an older one: the attempt before was preempted": {
			evictions: 1, attempt: 1, createdAt: reservedAt.Add(-time.Second),
		},
		"not an older one: preempted and failed, with a number above the retries": {
			evictions: 3, retryCount: 1, attempt: 3, createdAt: reservedAt.Add(-time.Minute),
		},
		"not an older one: its retry was faster than the clock": {
			evictions: 1, retryCount: 1, attempt: 1, createdAt: reservedAt,
		},
		"not an older one, though it is newer than the reservation by a wrong clock": {
			evictions: 2, retryCount: 2, attempt: 2, createdAt: reservedAt.Add(time.Hour),
		},
		"not an older one while in Retry": {
			state: kueue.CheckStateRetry, evictions: 1, retryCount: 1, attempt: 1, createdAt: reservedAt.Add(-time.Minute),
		},
		"made while the gate was off, after a preemption": {
			evictions: 1, attempt: 1, createdAt: reservedAt.Add(time.Second),
			want: true,
		},
		"made while the gate was off, in the second of the reservation": {
			evictions: 1, attempt: 1, createdAt: reservedAt,
			want: true,
		},
		"made while the gate was off, after preemptions and retries": {
			evictions: 5, retryCount: 2, attempt: 3, createdAt: reservedAt.Add(time.Second),
			want: true,
		},
		"made while the gate was off, and in Retry for it": {
			state: kueue.CheckStateRetry, evictions: 1, attempt: 1, createdAt: reservedAt.Add(time.Second),
			want: true,
		},
		"made while the gate was off, and evictions were not counted yet": {
			evictions: 0, retryCount: 2, attempt: 3, createdAt: reservedAt.Add(time.Second),
			want: true,
		},
		"not one that is for a retry before, though made since the reservation": {
			evictions: 5, retryCount: 2, attempt: 2, createdAt: reservedAt.Add(time.Second),
		},
		"not one made while the gate was off and before the reservation": {
			evictions: 1, attempt: 1, createdAt: reservedAt.Add(-time.Second),
		},
		"no quota is reserved": {
			notHeld: true, evictions: 1, attempt: 1, createdAt: reservedAt.Add(time.Second),
		},
		"Ready: whatever it is Ready with": {
			state: kueue.CheckStateReady, evictions: 4, attempt: 1, createdAt: reservedAt.Add(-time.Hour),
			want: true,
		},
		"Ready after retries": {
			state: kueue.CheckStateReady, evictions: 4, retryCount: 3, attempt: 2, createdAt: reservedAt.Add(-time.Hour),
			want: true,
		},
		"the workload has no such check": {
			noCheck: true, evictions: 4, attempt: 1, createdAt: reservedAt.Add(-time.Hour),
			want: true,
		},
		"gate off: every request counts": {
			gateOff: true, evictions: 1, retryCount: 1, attempt: 1, createdAt: reservedAt.Add(-time.Minute),
			want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			wl := utiltestingapi.MakeWorkload("wl", TestNamespace).
				SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByPreemption, "", tc.evictions))
			if !tc.notHeld {
				wl.ReserveQuotaAt(utiltestingapi.MakeAdmission("q1").Obj(), reservedAt)
			}
			// A check with other retries, which do not count.
			wl.AdmissionCheck(kueue.AdmissionCheckState{Name: "check2", State: kueue.CheckStateReady, RetryCount: ptr.To[int32](9)})
			if !tc.noCheck {
				check := kueue.AdmissionCheckState{Name: "check1", State: kueue.CheckStatePending}
				if tc.state != "" {
					check.State = tc.state
				}
				if tc.retryCount > 0 {
					check.RetryCount = ptr.To(tc.retryCount)
				}
				wl.AdmissionCheck(check)
			}
			req := &autoscaling.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{
				Namespace:         TestNamespace,
				Name:              ProvisioningRequestName("wl", "check1", tc.attempt),
				CreationTimestamp: metav1.NewTime(tc.createdAt),
			}}
			_, log := utiltesting.ContextWithLog(t)
			if got := isOfReservation(log, req, wl.Obj(), "check1"); got != tc.want {
				t.Errorf("isOfReservation() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	cases := map[string]struct {
		conditions []string
		admitted   bool
		want       string
	}{
		"no condition":                {},
		"accepted":                    {conditions: []string{autoscaling.Accepted}},
		"provisioned":                 {conditions: []string{autoscaling.Accepted, autoscaling.Provisioned}},
		"failed":                      {conditions: []string{autoscaling.Failed}, want: autoscaling.Failed},
		"failed after the admission":  {conditions: []string{autoscaling.Failed}, admitted: true, want: autoscaling.Failed},
		"failed and expired":          {conditions: []string{autoscaling.BookingExpired, autoscaling.Failed}, want: autoscaling.Failed},
		"expired":                     {conditions: []string{autoscaling.Provisioned, autoscaling.BookingExpired}, want: autoscaling.BookingExpired},
		"expired after the admission": {conditions: []string{autoscaling.Provisioned, autoscaling.BookingExpired}, admitted: true},
		"revoked":                     {conditions: []string{autoscaling.Provisioned, autoscaling.CapacityRevoked}},
		"expired and revoked: the revocation rejects": {conditions: []string{autoscaling.BookingExpired, autoscaling.CapacityRevoked}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req := &autoscaling.ProvisioningRequest{}
			for _, condition := range tc.conditions {
				req = requestWithCondition(req, condition, metav1.ConditionTrue)
			}
			wl := utiltestingapi.MakeWorkload("wl", TestNamespace).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("q1").Obj(), testStart).
				AdmittedAt(tc.admitted, testStart).
				Obj()
			got := ""
			if condition := failureOf(req, wl); condition != nil {
				got = condition.Type
			}
			if got != tc.want {
				t.Errorf("failureOf() = %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("a condition that is False is no failure", func(t *testing.T) {
		req := requestWithCondition(&autoscaling.ProvisioningRequest{}, autoscaling.Failed, metav1.ConditionFalse)
		req = requestWithCondition(req, autoscaling.BookingExpired, metav1.ConditionFalse)
		if got := failureOf(req, utiltestingapi.MakeWorkload("wl", TestNamespace).Obj()); got != nil {
			t.Errorf("Unexpected failure: %v", got)
		}
	})
}

func TestRetryOrReject(t *testing.T) {
	now := testStart
	before := metav1.NewTime(now.Add(-time.Hour))
	failed := metav1.Condition{Type: autoscaling.Failed, Message: "no capacity"}
	expired := metav1.Condition{Type: autoscaling.BookingExpired, Message: "too late"}
	strategy := func(limit, base, maxDelay int32) *kueue.ProvisioningRequestRetryStrategy {
		return &kueue.ProvisioningRequestRetryStrategy{BackoffLimitCount: &limit, BackoffBaseSeconds: &base, BackoffMaxSeconds: &maxDelay}
	}
	podSetUpdates := []kueue.PodSetUpdate{{Name: "main"}}

	cases := map[string]struct {
		check       kueue.AdmissionCheckState
		failure     metav1.Condition
		strategy    *kueue.ProvisioningRequestRetryStrategy
		want        kueue.AdmissionCheckState
		wantChanged bool
	}{
		"first failure": {
			check:    kueue.AdmissionCheckState{Name: "check1", State: kueue.CheckStatePending, LastTransitionTime: before, Message: "old"},
			failure:  failed,
			strategy: strategy(3, 60, 1800),
			want: kueue.AdmissionCheckState{
				Name: "check1", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](60),
			},
			wantChanged: true,
		},
		"the count of 0 is as none, and is left to Kueue": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](0)},
			failure:  failed,
			strategy: strategy(1, 10, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](0),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](10),
			},
			wantChanged: true,
		},
		"the delay doubles with each retry": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](4)},
			failure:  expired,
			strategy: strategy(5, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](4),
				Message: "Retrying after booking expired: too late", RequeueAfterSeconds: ptr.To[int32](960),
			},
			wantChanged: true,
		},
		"the delay is not above the largest": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](5)},
			failure:  failed,
			strategy: strategy(100, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](5),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](1800),
			},
			wantChanged: true,
		},
		"no delay": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](2)},
			failure:  failed,
			strategy: strategy(3, 0, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](2),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](0),
			},
			wantChanged: true,
		},
		"a base below 0 is no delay: the API would refuse it": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending},
			failure:  failed,
			strategy: strategy(3, -60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](0),
			},
			wantChanged: true,
		},
		"the largest delay": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](1)},
			failure:  failed,
			strategy: strategy(3, math.MaxInt32, math.MaxInt32),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](1),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](math.MaxInt32),
			},
			wantChanged: true,
		},
		"a Ready check, as the booking expired before the admission": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStateReady, LastTransitionTime: before, PodSetUpdates: podSetUpdates},
			failure:  expired,
			strategy: strategy(3, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), PodSetUpdates: podSetUpdates,
				Message: "Retrying after booking expired: too late", RequeueAfterSeconds: ptr.To[int32](60),
			},
			wantChanged: true,
		},
		"the limit is reached": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, LastTransitionTime: before, RetryCount: ptr.To[int32](3)},
			failure:  failed,
			strategy: strategy(3, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRejected, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](3),
				Message: "no capacity",
			},
			wantChanged: true,
		},
		"the limit was lowered": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](3)},
			failure:  expired,
			strategy: strategy(1, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRejected, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](3),
				Message: "too late",
			},
			wantChanged: true,
		},
		"a limit of 0 never retries": {
			check:       kueue.AdmissionCheckState{State: kueue.CheckStatePending},
			failure:     failed,
			strategy:    strategy(0, 60, 1800),
			want:        kueue.AdmissionCheckState{State: kueue.CheckStateRejected, LastTransitionTime: metav1.NewTime(now), Message: "no capacity"},
			wantChanged: true,
		},
		"the largest count": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStatePending, RetryCount: ptr.To[int32](math.MaxInt32)},
			failure:  failed,
			strategy: strategy(math.MaxInt32, 60, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRejected, LastTransitionTime: metav1.NewTime(now), RetryCount: ptr.To[int32](math.MaxInt32),
				Message: "no capacity",
			},
			wantChanged: true,
		},
		"in Retry already: neither time, delay nor words change": {
			check: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: before, RetryCount: ptr.To[int32](1),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](120),
			},
			failure:  expired,
			strategy: strategy(3, 10, 1800),
			want: kueue.AdmissionCheckState{
				State: kueue.CheckStateRetry, LastTransitionTime: before, RetryCount: ptr.To[int32](1),
				Message: "Retrying after failure: no capacity", RequeueAfterSeconds: ptr.To[int32](120),
			},
		},
		"in Retry already: not rejected by a lower limit": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStateRetry, LastTransitionTime: before, RetryCount: ptr.To[int32](1)},
			failure:  failed,
			strategy: strategy(0, 60, 1800),
			want:     kueue.AdmissionCheckState{State: kueue.CheckStateRetry, LastTransitionTime: before, RetryCount: ptr.To[int32](1)},
		},
		"rejected already": {
			check:    kueue.AdmissionCheckState{State: kueue.CheckStateRejected, LastTransitionTime: before, Message: "enough"},
			failure:  failed,
			strategy: strategy(3, 60, 1800),
			want:     kueue.AdmissionCheckState{State: kueue.CheckStateRejected, LastTransitionTime: before, Message: "enough"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			check := tc.check.DeepCopy()
			changed := retryOrReject(check, &tc.failure, tc.strategy, testingclock.NewFakeClock(now))
			if changed != tc.wantChanged {
				t.Errorf("retryOrReject() = %t, want %t", changed, tc.wantChanged)
			}
			if diff := cmp.Diff(tc.want, *check); diff != "" {
				t.Errorf("Unexpected check (-want/+got):\n%s", diff)
			}
		})
	}
}

// retryScenario runs the controller against a fake API. What the rest of Kueue does with
// the workload is done with Kueue's own functions.
type retryScenario struct {
	*testing.T
	ctx        context.Context
	client     client.Client
	controller *Controller
	recorder   *utiltesting.EventRecorder
	clock      *testingclock.FakeClock
	admission  *kueue.Admission
	cleanup    bool
	mergePatch bool
}

const (
	check1 kueue.AdmissionCheckReference = "check1"
	check2 kueue.AdmissionCheckReference = "check2"
)

func newRetryScenario(t *testing.T, cleanup, mergePatch bool, limits map[kueue.AdmissionCheckReference]int32) *retryScenario {
	t.Helper()
	clk := testingclock.NewFakeClock(testStart)
	ctx, _ := utiltesting.ContextWithLog(t)
	builder, ctx := getClientBuilder(ctx)

	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).UID("wl-uid").Queue("lq").
		PodSets(*utiltestingapi.MakePodSet("main", 2).Request(corev1.ResourceCPU, "1").Obj()).
		// of WaitForPodsReady
		RequeueState(ptr.To[int32](2), nil)
	for _, name := range []kueue.AdmissionCheckReference{check1, check2} {
		limit, used := limits[name]
		if !used {
			continue
		}
		config := utiltestingapi.MakeProvisioningRequestConfig("config-" + string(name)).ProvisioningClass("class1").
			BaseBackoff(60).MaxBackoff(1800).RetryLimit(limit).Obj()
		ac := utiltestingapi.MakeAdmissionCheck(string(name)).ControllerName(kueue.ProvisioningRequestControllerName).
			Parameters(kueue.SchemeGroupVersion.Group, ConfigKind, config.Name).Obj()
		builder = builder.WithObjects(config, ac)
		wl.AdmissionCheck(kueue.AdmissionCheckState{Name: name, State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(testStart)})
	}
	wl.AdmissionCheck(kueue.AdmissionCheckState{Name: "not-provisioning", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(testStart)})

	k8sClient := builder.
		WithObjects(wl.Obj(), utiltestingapi.MakeResourceFlavor("flv").Obj()).
		WithStatusSubresource(wl.Obj()).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge,
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				obj.SetCreationTimestamp(metav1.NewTime(clk.Now()))
				return c.Create(ctx, obj, opts...)
			},
		}).
		Build()
	recorder := &utiltesting.EventRecorder{}
	controller, err := NewController(k8sClient, recorder, nil)
	if err != nil {
		t.Fatalf("Setting up the provisioning request controller: %v", err)
	}
	controller.clock = clk
	return &retryScenario{
		T:          t,
		ctx:        ctx,
		client:     k8sClient,
		controller: controller,
		recorder:   recorder,
		clock:      clk,
		cleanup:    cleanup,
		mergePatch: mergePatch,
		admission: utiltestingapi.MakeAdmission("q1").PodSets(
			utiltestingapi.MakePodSetAssignment("main").Assignment(corev1.ResourceCPU, "flv", "2").Count(2).Obj(),
		).Obj(),
	}
}

func (s *retryScenario) workload() *kueue.Workload {
	s.Helper()
	wl := &kueue.Workload{}
	if err := s.client.Get(s.ctx, client.ObjectKey{Namespace: TestNamespace, Name: "wl"}, wl); err != nil {
		s.Fatalf("Getting the workload: %v", err)
	}
	return wl
}

func (s *retryScenario) updateStatus(update func(wl *kueue.Workload)) {
	s.Helper()
	wl := s.workload()
	update(wl)
	if err := s.client.Status().Update(s.ctx, wl); err != nil {
		s.Fatalf("Updating the workload: %v", err)
	}
}

// reconcile runs the controller until it has nothing to do, each time a second later. What
// is not its own never changes.
func (s *retryScenario) reconcile() {
	s.Helper()
	before := s.workload()
	const limit = 5
	for range limit {
		version, requests := s.workload().ResourceVersion, s.requests()
		s.reconcileOnce()
		after := s.workload()
		if diff := cmp.Diff(before, after,
			cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion"),
			cmpopts.IgnoreSliceElements(func(check kueue.AdmissionCheckState) bool { return check.Name != "not-provisioning" }),
		); diff != "" {
			s.Fatalf("The controller has changed what is not its own (-before/+after):\n%s", diff)
		}
		for _, check := range after.Status.AdmissionChecks {
			if diff := cmp.Diff(admissioncheck.FindAdmissionCheck(before.Status.AdmissionChecks, check.Name).RetryCount, check.RetryCount); diff != "" {
				s.Fatalf("The controller has changed the retryCount of %s (-before/+after):\n%s", check.Name, diff)
			}
		}
		if version == after.ResourceVersion && slices.Equal(requests, s.requests()) {
			return
		}
	}
	s.Fatalf("The controller is not done after %d rounds", limit)
}

func (s *retryScenario) reconcileOnce() {
	s.Helper()
	if _, err := s.controller.Reconcile(s.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: TestNamespace, Name: "wl"}}); err != nil {
		s.Fatalf("Reconciling: %v", err)
	}
	s.clock.Step(time.Second)
}

// requests returns the names of all requests that there are.
func (s *retryScenario) requests() []string {
	s.Helper()
	list := &autoscaling.ProvisioningRequestList{}
	if err := s.client.List(s.ctx, list); err != nil {
		s.Fatalf("Listing the requests: %v", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (s *retryScenario) wantRequests(names ...string) {
	s.Helper()
	if diff := cmp.Diff(names, s.requests(), cmpopts.EquateEmpty()); diff != "" {
		s.Fatalf("Unexpected requests (-want/+got):\n%s", diff)
	}
}

// wantCreated checks the names of all requests that were ever made, in their order.
func (s *retryScenario) wantCreated(names ...string) {
	s.Helper()
	var want, got []string
	for _, name := range names {
		want = append(want, fmt.Sprintf("Created ProvisioningRequest: %q", name))
	}
	for _, event := range s.recorder.RecordedEvents {
		if event.Reason == "ProvisioningRequestCreated" {
			got = append(got, event.Message)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("Unexpected requests made (-want/+got):\n%s", diff)
	}
}

func (s *retryScenario) setRequestCondition(name, conditionType string) {
	s.Helper()
	req := &autoscaling.ProvisioningRequest{}
	if err := s.client.Get(s.ctx, client.ObjectKey{Namespace: TestNamespace, Name: name}, req); err != nil {
		s.Fatalf("Getting the request %s: %v", name, err)
	}
	if err := s.client.Update(s.ctx, requestWithCondition(req, conditionType, metav1.ConditionTrue)); err != nil {
		s.Fatalf("Updating the request %s: %v", name, err)
	}
}

func (s *retryScenario) check(name kueue.AdmissionCheckReference) kueue.AdmissionCheckState {
	s.Helper()
	check := admissioncheck.FindAdmissionCheck(s.workload().Status.AdmissionChecks, name)
	if check == nil {
		s.Fatalf("Check %s not found", name)
	}
	return *check
}

func (s *retryScenario) wantPending(name kueue.AdmissionCheckReference, retryCount *int32) {
	s.Helper()
	want := kueue.AdmissionCheckState{Name: name, State: kueue.CheckStatePending, RetryCount: retryCount}
	if diff := cmp.Diff(want, s.check(name), cmpopts.IgnoreFields(kueue.AdmissionCheckState{}, "LastTransitionTime", "Message")); diff != "" {
		s.Fatalf("Unexpected check (-want/+got):\n%s", diff)
	}
}

func (s *retryScenario) wantRetry(name kueue.AdmissionCheckReference, delay int32, retryCount *int32, since time.Time) {
	s.Helper()
	want := kueue.AdmissionCheckState{
		Name:                name,
		State:               kueue.CheckStateRetry,
		LastTransitionTime:  metav1.NewTime(since),
		RequeueAfterSeconds: &delay,
		RetryCount:          retryCount,
	}
	if diff := cmp.Diff(want, s.check(name), cmpopts.IgnoreFields(kueue.AdmissionCheckState{}, "Message", "PodSetUpdates")); diff != "" {
		s.Fatalf("Unexpected check (-want/+got):\n%s", diff)
	}
}

func (s *retryScenario) wantReadyWith(name kueue.AdmissionCheckReference, request string) {
	s.Helper()
	want := kueue.AdmissionCheckState{
		Name:    name,
		State:   kueue.CheckStateReady,
		Message: "By test",
		PodSetUpdates: []kueue.PodSetUpdate{{
			Name: "main",
			Annotations: map[string]string{
				autoscaling.ProvisioningRequestPodAnnotationKey: request,
				autoscaling.ProvisioningClassPodAnnotationKey:   "class1",
			},
		}},
	}
	if diff := cmp.Diff(want, s.check(name), cmpopts.IgnoreFields(kueue.AdmissionCheckState{}, "LastTransitionTime", "RetryCount")); diff != "" {
		s.Fatalf("Unexpected check (-want/+got):\n%s", diff)
	}
}

// provision has the request provisioned, and the check Ready with it.
func (s *retryScenario) provision(name kueue.AdmissionCheckReference, request string) {
	s.Helper()
	s.setRequestCondition(request, autoscaling.Accepted)
	s.setRequestCondition(request, autoscaling.Provisioned)
	s.reconcile()
	s.wantReadyWith(name, request)
}

func (s *retryScenario) reserve() {
	s.Helper()
	s.updateStatus(func(wl *kueue.Workload) {
		workload.SetQuotaReservation(wl, s.admission.DeepCopy(), s.clock)
	})
	s.clock.Step(time.Second)
}

func (s *retryScenario) admit() {
	s.Helper()
	s.updateStatus(func(wl *kueue.Workload) {
		for i := range wl.Status.AdmissionChecks {
			wl.Status.AdmissionChecks[i].State = kueue.CheckStateReady
		}
		if !workload.SyncAdmittedCondition(wl, s.clock.Now()) || !workload.IsAdmitted(wl) {
			s.Fatal("The workload is not admitted")
		}
	})
}

// evict evicts the workload for the reason, and does not release its quota.
func (s *retryScenario) evict(reason string) {
	s.Helper()
	wl := s.workload()
	prepare := workloadevict.WithCustomPrepare(func(*kueue.Workload) {})
	if step := requeue.Next(wl, s.clock.Now(), nil); step.Action == requeue.Evict {
		prepare = workloadevict.WithCustomPrepare(step.Record)
	}
	// The fake client does not remove what an apply leaves out.
	features.SetFeatureGateDuringTest(s.T, features.WorkloadRequestUseMergePatch, true)
	defer features.SetFeatureGateDuringTest(s.T, features.WorkloadRequestUseMergePatch, s.mergePatch)
	if err := workloadevict.Evict(s.ctx, s.client, s.recorder, wl, reason, "By test", "", s.clock, false, nil, nil, prepare); err != nil {
		s.Fatalf("Evicting: %v", err)
	}
}

func (s *retryScenario) release() {
	s.Helper()
	s.updateStatus(func(wl *kueue.Workload) {
		workload.UnsetQuotaReservationWithCondition(wl, "Pending", "By test", s.clock.Now())
	})
}

// requeue puts the workload back into the queue, at its deadline.
func (s *retryScenario) requeue() {
	s.Helper()
	step := requeue.Next(s.workload(), s.clock.Now(), nil)
	if step.Action == requeue.Wait {
		s.clock.SetTime(step.Until)
		step = requeue.Next(s.workload(), s.clock.Now(), nil)
	}
	if step.Action != requeue.Requeue {
		s.Fatalf("The workload is not to be requeued but: %v", step.Action)
	}
	s.updateStatus(func(wl *kueue.Workload) { step.Requeue(wl, s.clock.Now()) })
}

// retry goes from a check in Retry to the next reservation. The controller sees all that
// is on the way, and has nothing to say.
func (s *retryScenario) retry() {
	s.Helper()
	requests := s.requests()
	if s.cleanup {
		requests = nil
	}
	checks := s.workload().Status.AdmissionChecks
	wantUnchanged := func() {
		s.Helper()
		if diff := cmp.Diff(checks, s.workload().Status.AdmissionChecks); diff != "" {
			s.Fatalf("The checks have changed while the workload is evicted (-want/+got):\n%s", diff)
		}
	}
	s.evict(kueue.WorkloadEvictedByAdmissionCheck)
	s.reconcile()
	s.wantRequests(requests...)
	wantUnchanged()
	s.release()
	s.reconcile()
	s.wantRequests(requests...)
	wantUnchanged()
	s.requeue()
	s.reconcile()
	s.wantRequests(requests...)
	s.reserve()
}

// preempt goes from a reservation to the next one.
func (s *retryScenario) preempt() {
	s.Helper()
	s.evict(kueue.WorkloadEvictedByPreemption)
	s.reconcile()
	s.release()
	s.reconcile()
	s.clock.Step(time.Second)
	s.reserve()
}

// preemptUnseen is a preemption that is over before the controller looks.
func (s *retryScenario) preemptUnseen() {
	s.Helper()
	s.evict(kueue.WorkloadEvictedByPreemption)
	s.release()
	s.clock.Step(time.Second)
	s.reserve()
}

func setGate(t *testing.T, enabled bool) {
	t.Helper()
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, enabled)
}

func TestReconcileRetries(t *testing.T) {
	one, two := ptr.To[int32](1), ptr.To[int32](2)

	cases := map[string]struct {
		limits map[kueue.AdmissionCheckReference]int32
		run    func(s *retryScenario)
	}{
		"a failed request is retried, with a delay that grows, and answers for its attempt only": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-1")
				s.wantPending(check1, nil)

				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				if diff := cmp.Diff("Retrying after failure: By test", s.check(check1).Message); diff != "" {
					s.Errorf("Unexpected message (-want/+got):\n%s", diff)
				}
				s.wantRequests("wl-check1-1")
				// However long the eviction takes.
				s.clock.Step(time.Hour)
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)

				s.retry()
				s.wantPending(check1, one)
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, one)

				s.setRequestCondition("wl-check1-2", autoscaling.Failed)
				since = s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 120, one, since)
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-3")
				s.wantPending(check1, two)

				s.provision(check1, "wl-check1-3")
				s.wantRequests("wl-check1-3")
				s.wantCreated("wl-check1-1", "wl-check1-2", "wl-check1-3")
			},
		},
		"the failed request is still there at the next reservation": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcile()
				s.evict(kueue.WorkloadEvictedByAdmissionCheck)
				s.release()
				s.requeue()
				s.reserve()
				s.wantRequests("wl-check1-1")
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, one)
				s.wantCreated("wl-check1-1", "wl-check1-2")
			},
		},
		"preempted, then failed: the number of the failed request is above the retries": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				for range 2 {
					s.preempt()
					s.reconcile()
				}
				s.wantRequests("wl-check1-3")
				s.wantPending(check1, nil)
				s.setRequestCondition("wl-check1-3", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				s.evict(kueue.WorkloadEvictedByAdmissionCheck)
				s.release()
				s.requeue()
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-4")
				s.wantPending(check1, one)
				s.wantCreated("wl-check1-1", "wl-check1-2", "wl-check1-3", "wl-check1-4")
			},
		},
		"a request fails when its workload was preempted already: it is no answer": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.evict(kueue.WorkloadEvictedByPreemption)
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcile()
				s.wantPending(check1, nil)
				s.release()
				s.clock.Step(time.Second)
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
			},
		},
		"a check that is reset keeps the request away that it was Ready with": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.provision(check1, "wl-check1-1")
				s.preemptUnseen()
				s.wantPending(check1, nil)
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
			},
		},
		"the request is made again with its number when its config changes": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.preempt()
				s.reconcile()
				config := &kueue.ProvisioningRequestConfig{}
				if err := s.client.Get(s.ctx, client.ObjectKey{Name: "config-check1"}, config); err != nil {
					s.Fatalf("Getting the config: %v", err)
				}
				config.Spec.ProvisioningClassName = "class2"
				if err := s.client.Update(s.ctx, config); err != nil {
					s.Fatalf("Updating the config: %v", err)
				}
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
				s.wantCreated("wl-check1-1", "wl-check1-2", "wl-check1-2")
			},
		},
		"the limit is reached: Rejected, and no other request": {
			limits: map[kueue.AdmissionCheckReference]int32{check1: 1},
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcile()
				s.retry()
				s.reconcile()
				s.setRequestCondition("wl-check1-2", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				want := kueue.AdmissionCheckState{
					Name: check1, State: kueue.CheckStateRejected, Message: "By test", RetryCount: one,
					LastTransitionTime: metav1.NewTime(since),
				}
				if diff := cmp.Diff(want, s.check(check1)); diff != "" {
					s.Errorf("Unexpected check (-want/+got):\n%s", diff)
				}
				s.wantRequests("wl-check1-2")

				// Deactivated, and reactivated: as new, and the last request is no answer.
				s.evict(kueue.WorkloadDeactivated)
				s.reconcile()
				s.release()
				s.updateStatus(func(wl *kueue.Workload) { requeue.ResetDeactivated(wl, s.clock.Now()) })
				s.updateStatus(func(wl *kueue.Workload) { wl.Status.RequeueState = &kueue.RequeueState{Count: two} })
				s.clock.Step(time.Second)
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-3")
				s.wantPending(check1, nil)
				s.setRequestCondition("wl-check1-3", autoscaling.Failed)
				since = s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				s.wantCreated("wl-check1-1", "wl-check1-2", "wl-check1-3")
			},
		},
		"preemptions do not count for the limit": {
			limits: map[kueue.AdmissionCheckReference]int32{check1: 1},
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				for range 3 {
					s.preempt()
					s.reconcile()
				}
				s.wantRequests("wl-check1-4")
				s.setRequestCondition("wl-check1-4", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
			},
		},
		"a limit of 0: Rejected at once": {
			limits: map[kueue.AdmissionCheckReference]int32{check1: 0},
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcile()
				if got := s.check(check1); got.State != kueue.CheckStateRejected || got.RequeueAfterSeconds != nil {
					s.Errorf("Unexpected check: %v", got)
				}
				s.wantCreated("wl-check1-1")
			},
		},
		"a booking expires before the admission": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.provision(check1, "wl-check1-1")
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				if diff := cmp.Diff("Retrying after booking expired: By test", s.check(check1).Message); diff != "" {
					s.Errorf("Unexpected message (-want/+got):\n%s", diff)
				}
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, one)
			},
		},
		"a booking expires after the admission: no failure, nor when the quota is lost later": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.provision(check1, "wl-check1-1")
				s.admit()
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				s.reconcile()
				s.wantReadyWith(check1, "wl-check1-1")
				s.wantRequests("wl-check1-1")

				s.updateStatus(func(wl *kueue.Workload) {
					admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, "not-provisioning").State = kueue.CheckStatePending
				})
				s.evict(kueue.WorkloadEvictedByPreemption)
				s.reconcile()
				s.wantPending(check1, nil)
				s.release()
				s.reconcile()
				s.wantPending(check1, nil)
				s.clock.Step(time.Second)
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
				s.provision(check1, "wl-check1-2")
				s.wantCreated("wl-check1-1", "wl-check1-2")
			},
		},
		"a booking expires after the admission, and the quota is lost before the controller looks": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.provision(check1, "wl-check1-1")
				s.admit()
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				s.preemptUnseen()
				s.wantRequests("wl-check1-1")
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
			},
		},
		"a booking expires after the admission, and another check asks for a retry": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.provision(check1, "wl-check1-1")
				s.admit()
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				s.updateStatus(func(wl *kueue.Workload) {
					check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, "not-provisioning")
					check.State, check.RequeueAfterSeconds = kueue.CheckStateRetry, ptr.To[int32](30)
				})
				// The check stays Ready while the workload waits.
				s.evict(kueue.WorkloadEvictedByAdmissionCheck)
				s.reconcile()
				s.wantReadyWith(check1, "wl-check1-1")
				s.release()
				s.reconcile()
				s.wantReadyWith(check1, "wl-check1-1")
				s.requeue()
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, nil)
			},
		},
		"revoked capacity rejects, though its booking has expired": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				s.setRequestCondition("wl-check1-1", autoscaling.CapacityRevoked)
				s.reconcile()
				if got := s.check(check1).State; got != kueue.CheckStateRejected {
					s.Errorf("Unexpected state %q", got)
				}
				s.wantCreated("wl-check1-1")
			},
		},
		"two checks back off by their own counts": {
			limits: map[kueue.AdmissionCheckReference]int32{check1: 1, check2: 3},
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.wantRequests("wl-check1-1", "wl-check2-1")
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				s.wantPending(check2, nil)
				s.wantRequests("wl-check1-1", "wl-check2-1")

				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-2", "wl-check2-2")
				s.wantPending(check1, one)
				s.wantPending(check2, nil)

				s.setRequestCondition("wl-check2-2", autoscaling.Failed)
				since = s.clock.Now()
				s.reconcile()
				s.wantRetry(check2, 60, nil, since)
				s.wantPending(check1, one)
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-3", "wl-check2-3")
				s.wantPending(check1, one)
				s.wantPending(check2, one)
			},
		},
		"a request fails while that of another check is missing: no other is made for it": {
			limits: map[kueue.AdmissionCheckReference]int32{check1: 3, check2: 3},
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				if err := s.client.Delete(s.ctx, &autoscaling.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: TestNamespace, Name: "wl-check2-1"}}); err != nil {
					s.Fatalf("Deleting a request: %v", err)
				}
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcile()
				s.wantRequests("wl-check1-1", "wl-check2-1")
				if got := s.check(check1); got.State != kueue.CheckStateRetry || ptr.Deref(got.RequeueAfterSeconds, 0) != 60 {
					s.Errorf("Unexpected check: %v", got)
				}
				s.wantPending(check2, nil)
			},
		},
		"the gate is switched on while a request is in flight, after a preemption": {
			run: func(s *retryScenario) {
				setGate(s.T, false)
				s.reserve()
				s.preemptUnseen()
				s.reconcile()
				s.wantRequests("wl-check1-1")

				setGate(s.T, true)
				s.reconcile()
				s.wantRequests("wl-check1-1")
				s.wantPending(check1, nil)
				s.setRequestCondition("wl-check1-1", autoscaling.Accepted)
				s.reconcile()
				s.wantCreated("wl-check1-1")

				// It fails as any other, and is no answer for what follows.
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 60, nil, since)
				s.wantRequests("wl-check1-1")
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-3")
				s.wantPending(check1, one)
				s.wantCreated("wl-check1-1", "wl-check1-3")
			},
		},
		"the gate is switched on while a request is in flight, after a preemption: it is used": {
			run: func(s *retryScenario) {
				setGate(s.T, false)
				s.reserve()
				s.preemptUnseen()
				s.reconcile()

				setGate(s.T, true)
				s.provision(check1, "wl-check1-1")
				s.admit()
				s.reconcile()
				s.wantReadyWith(check1, "wl-check1-1")
				s.wantRequests("wl-check1-1")
				s.setRequestCondition("wl-check1-1", autoscaling.BookingExpired)
				s.reconcile()
				s.wantReadyWith(check1, "wl-check1-1")

				s.preemptUnseen()
				s.reconcile()
				s.wantRequests("wl-check1-3")
				s.wantCreated("wl-check1-1", "wl-check1-3")
			},
		},
		"the gate is switched on while a request of a retry is in flight, after a preemption": {
			run: func(s *retryScenario) {
				setGate(s.T, false)
				s.reserve()
				s.preemptUnseen()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcileOnce()
				s.evict(kueue.WorkloadEvictedByAdmissionCheck)
				s.reconcile()
				s.release()
				s.clock.Step(time.Minute)
				s.updateStatus(func(wl *kueue.Workload) {
					admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check1).RequeueAfterSeconds = nil
				})
				s.reserve()
				s.reconcile()

				setGate(s.T, true)
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, one)
				s.wantCreated("wl-check1-1", "wl-check1-2")
				s.setRequestCondition("wl-check1-2", autoscaling.Failed)
				since := s.clock.Now()
				s.reconcile()
				s.wantRetry(check1, 120, one, since)
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-4")
				s.wantPending(check1, two)
			},
		},
		"the gate is switched on after the failure was told, before the eviction": {
			run: func(s *retryScenario) {
				setGate(s.T, false)
				s.reserve()
				s.reconcile()
				s.setRequestCondition("wl-check1-1", autoscaling.Failed)
				s.reconcileOnce()
				told := s.check(check1)
				s.wantRetry(check1, 60, nil, told.LastTransitionTime.Time)

				setGate(s.T, true)
				s.reconcile()
				if diff := cmp.Diff(told, s.check(check1)); diff != "" {
					s.Errorf("The check has changed (-want/+got):\n%s", diff)
				}
				s.retry()
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantPending(check1, one)
			},
		},
		"the gate is switched on when a workload that keeps its request was preempted": {
			run: func(s *retryScenario) {
				setGate(s.T, false)
				s.reserve()
				s.reconcile()
				s.preempt()
				s.reconcile()
				s.wantRequests("wl-check1-1")

				setGate(s.T, true)
				s.reconcile()
				if s.cleanup {
					// made again for this reservation
					s.wantRequests("wl-check1-1")
				} else {
					// made for an earlier reservation
					s.wantRequests("wl-check1-2")
				}
				s.wantPending(check1, nil)
			},
		},
		"the gate is switched off while a request is in flight, after a preemption": {
			run: func(s *retryScenario) {
				s.reserve()
				s.reconcile()
				s.preempt()
				s.reconcile()
				s.wantRequests("wl-check1-2")

				setGate(s.T, false)
				s.reconcile()
				s.wantRequests("wl-check1-2")
				s.wantCreated("wl-check1-1", "wl-check1-2")
			},
		},
	}
	for name, tc := range cases {
		for _, cleanup := range []bool{false, true} {
			for _, useMergePatch := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s CleanupProvisioningRequestsOnEviction enabled: %t, WorkloadRequestUseMergePatch enabled: %t", name, cleanup, useMergePatch), func(t *testing.T) {
					features.SetFeatureGateDuringTest(t, features.CleanupProvisioningRequestsOnEviction, cleanup)
					features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, useMergePatch)
					setGate(t, true)
					limits := tc.limits
					if limits == nil {
						limits = map[kueue.AdmissionCheckReference]int32{check1: 3}
					}
					tc.run(newRetryScenario(t, cleanup, useMergePatch, limits))
				})
			}
		}
	}
}

func TestActiveRequestOfReservation(t *testing.T) {
	setGate(t, true)
	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).
		PodSets(*utiltestingapi.MakePodSet("main", 1).Obj()).
		ReserveQuotaAt(utiltestingapi.MakeAdmission("q1").PodSets(
			utiltestingapi.MakePodSetAssignment("main").Count(1).Obj(),
		).Obj(), testStart).
		SchedulingStatsEviction(evictions(kueue.WorkloadEvictedByAdmissionCheck, "", 2)).
		AdmissionChecks(kueue.AdmissionCheckState{Name: check1, State: kueue.CheckStatePending, RetryCount: ptr.To[int32](2)})
	config := utiltestingapi.MakeProvisioningRequestConfig("config").ProvisioningClass("class1").Obj()
	request := func(attempt int32, class string, createdAt time.Time) autoscaling.ProvisioningRequest {
		return autoscaling.ProvisioningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: ProvisioningRequestName("wl", check1, attempt), CreationTimestamp: metav1.NewTime(createdAt)},
			Spec:       autoscaling.ProvisioningRequestSpec{ProvisioningClassName: class},
		}
	}
	before, after := testStart.Add(-time.Minute), testStart.Add(time.Second)

	cases := map[string]struct {
		requests []autoscaling.ProvisioningRequest
		ready    bool
		want     string
	}{
		"none": {},
		"only older ones": {
			requests: []autoscaling.ProvisioningRequest{request(1, "class1", before), request(2, "class1", before)},
		},
		"the one of the reservation, not older ones": {
			requests: []autoscaling.ProvisioningRequest{request(3, "class1", after), request(1, "class1", before), request(2, "class1", before)},
			want:     "wl-check1-3",
		},
		"not one of another config": {
			requests: []autoscaling.ProvisioningRequest{request(3, "class2", after), request(2, "class1", before)},
		},
		"Ready: the last one": {
			requests: []autoscaling.ProvisioningRequest{request(2, "class1", before), request(1, "class1", before)},
			ready:    true,
			want:     "wl-check1-2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := wl.Clone().Obj()
			if tc.ready {
				wl.Status.AdmissionChecks[0].State = kueue.CheckStateReady
			}
			ctx, _ := utiltesting.ContextWithLog(t)
			got, err := (&Controller{}).activeOrLastPRForChecks(ctx, wl, map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig{check1: config}, tc.requests)
			if err != nil {
				t.Fatalf("activeOrLastPRForChecks() error = %v", err)
			}
			gotName := ""
			if req := got[check1]; req != nil {
				gotName = req.Name
			}
			if gotName != tc.want {
				t.Errorf("activeOrLastPRForChecks() = %q, want %q", gotName, tc.want)
			}
		})
	}
}
