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

package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	utiltestingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// bareRetry is what most controllers of checks say: Retry and nothing else.
func (f *retryFixture) bareRetry(name kueue.AdmissionCheckReference) {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, kueue.AdmissionCheckState{Name: name, State: kueue.CheckStateRetry}, f.clock)
	})
}

// reserve does what the scheduler does.
func (f *retryFixture) reserve() {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		admission := retryWorkload(f.start).SimpleReserveQuota("cq", "flavor", f.start).Obj().Status.Admission
		workload.SetQuotaReservation(wl, admission, f.clock)
	})
}

func (f *retryFixture) expectDelay(wl *kueue.Workload, name kueue.AdmissionCheckReference, want *int32) {
	f.Helper()
	i := slices.IndexFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool { return check.Name == name })
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks[i].RequeueAfterSeconds); diff != "" {
		f.Errorf("Unexpected delay of check %s (-want,+got):\n%s", name, diff)
	}
}

func TestReconcileRetryPolicy(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	pending := func(name kueue.AdmissionCheckReference) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(start)}
	}
	check := func(controller string, policy *kueue.AdmissionCheckRetryPolicy) *kueue.AdmissionCheck {
		ac := utiltestingapi.MakeAdmissionCheck("a").ControllerName(controller).Obj()
		ac.Spec.Retry = policy
		return ac
	}
	backoff := func(limit *int32) *kueue.AdmissionCheckRetryPolicy {
		return &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryBackoff, BaseDelaySeconds: 30, MaxDelaySeconds: ptr.To[int32](100), LimitCount: limit}
	}
	newFixture := func(t *testing.T, ac *kueue.AdmissionCheck) *retryFixture {
		f := newRetryFixture(t, retryWorkload(start).SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(pending("a"), pending("b")).Obj(), start)
		if ac != nil {
			if err := f.client.Create(f.ctx, ac); err != nil {
				t.Fatalf("Creating the AdmissionCheck: %v", err)
			}
		}
		return f
	}

	for _, mergePatch := range []bool{false, true} {
		t.Run(fmt.Sprintf("each retry waits longer, no write more, then the limit; WorkloadRequestUseMergePatch=%t", mergePatch), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, true)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, mergePatch)
			metrics.ClearClusterQueueMetrics("cq")
			t.Cleanup(func() { metrics.ClearClusterQueueMetrics("cq") })
			f := newFixture(t, check("example.com/budget", backoff(ptr.To[int32](3))))
			now := time.Duration(0)
			for count, delay := range []int32{30, 60, 100} {
				f.clock.SetTime(start.Add(now))
				f.bareRetry("a")
				wl := f.reconcileAt(now, 1, 0)
				f.expectDelay(wl, "a", &delay)
				f.expectDelay(wl, "b", nil)
				due := now + time.Duration(delay)*time.Second
				f.expectRequeueAt(wl, due)
				f.reconcileAt(due-1, 0, 1)
				wl = f.reconcileAt(due, 1, 0)
				f.expectDelay(wl, "a", nil)
				if got := ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0); got != int32(count)+1 {
					t.Errorf("Unexpected retryCount %d, want %d", got, count+1)
				}
				now = due
				f.reserve()
			}
			if diff := cmp.Diff(seconds{Count: 3, Sum: 30 + 60 + 100}, histogram(t, metrics.AdmissionCheckRetryDelay, "cq", "a")); diff != "" {
				t.Errorf("Unexpected delays in the metric (-want,+got):\n%s", diff)
			}

			f.bareRetry("a")
			wl := f.reconcileAt(now, 1, 0)
			target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
			if target == nil || target.Reason != kueue.WorkloadAdmissionCheckRetryLimitExceeded {
				t.Fatalf("Unexpected condition at the limit: %v", target)
			}
			if event := f.recorder.RecordedEvents[len(f.recorder.RecordedEvents)-1]; event.Reason != kueue.WorkloadAdmissionCheckRetryLimitExceeded || event.EventType != corev1.EventTypeWarning {
				t.Errorf("Unexpected event at the limit: %v", event)
			}
			points := utiltestingmetrics.CollectFilteredGaugeVec(metrics.AdmissionCheckRetryLimitExceededTotal, map[string]string{"cluster_queue": "cq"})
			if len(points) != 1 || points[0].Labels["admission_check"] != "a" || points[0].Value != 1 {
				t.Errorf("Unexpected metric at the limit: %v", points)
			}

			f.reconcileAt(now, 0, 0)
			if wl = f.workload(); workload.IsActive(wl) {
				t.Fatal("The workload is not deactivated")
			}
			f.reconcileAt(now, 1, 0)
			f.release()
			for range 3 { // until nothing is left to do
				f.clock.Step(2 * time.Second)
				if _, err := f.reconciler.Reconcile(f.ctx, reconcile.Request{NamespacedName: f.key}); err != nil {
					t.Fatalf("Reconciling: %v", err)
				}
			}
			wl = f.workload()
			if got := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); got == nil || got.Reason != "DeactivatedDueToAdmissionCheckRetryLimitExceeded" {
				t.Errorf("Unexpected eviction: %v", got)
			}
			for _, check := range wl.Status.AdmissionChecks {
				if check.State == kueue.CheckStateRetry || check.RequeueAfterSeconds != nil || ptr.Deref(check.RetryCount, 0) != 0 {
					t.Errorf("Unexpected check after the deactivation: %v", check)
				}
			}
		})
	}

	cases := map[string]struct {
		gateOff bool
		check   *kueue.AdmissionCheck
	}{
		"gate off":              {gateOff: true, check: check("example.com/budget", backoff(ptr.To[int32](0)))},
		"no policy":             {check: check("example.com/budget", nil)},
		"no AdmissionCheck":     {},
		"a ProvisioningRequest": {check: check(kueue.ProvisioningRequestControllerName, backoff(ptr.To[int32](0)))},
	}
	for name, tc := range cases {
		t.Run(name+": back at once", func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, !tc.gateOff)
			f := newFixture(t, tc.check)
			f.bareRetry("a")
			f.expectDelay(f.reconcileAt(0, 1, 0), "a", nil)
			f.reconcileAt(0, 1, 0)
			f.expectQueued(1, 0)
		})
	}

	t.Run("MultiKueue's Retry gets the policy", func(t *testing.T) {
		features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
		features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, true)
		f := newFixture(t, check(kueue.MultiKueueControllerName, backoff(nil)))
		f.bareRetry("a")
		f.expectDelay(f.reconcileAt(0, 1, 0), "a", ptr.To[int32](30))
	})
}
