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

package concurrentadmission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	controllerconsts "sigs.k8s.io/kueue/pkg/controller/constants"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// A variant loses its quota when its parent has. A delay that one of its checks asks
// for holds whatever it was evicted for.
func TestReleasedVariantWaitsForRetry(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		gate         bool
		requeueState *kueue.RequeueState
		wantRequeued metav1.ConditionStatus
		wantReason   string
	}{
		"a deadline is recorded": {
			gate:         true,
			requeueState: &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(now.Add(time.Minute)))},
			wantRequeued: metav1.ConditionFalse,
			wantReason:   kueue.WorkloadWaitingForRetry,
		},
		"none is": {
			gate:         true,
			wantRequeued: metav1.ConditionTrue,
			wantReason:   kueue.WorkloadPending, //nolint:staticcheck // SA1019: what is written without UnadmittedWorkloadsObservability
		},
		"gate off": {
			requeueState: &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(now.Add(time.Minute)))},
			wantRequeued: metav1.ConditionTrue,
			wantReason:   kueue.WorkloadPending, //nolint:staticcheck // SA1019: what is written without UnadmittedWorkloadsObservability
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ConcurrentAdmission, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, tc.gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			variant := utiltestingapi.MakeWorkload("variant", metav1.NamespaceDefault).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").Obj(), now.Add(-time.Minute)).
				AdmissionChecks(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now),
					RequeueAfterSeconds: ptr.To[int32](60)}).
				Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption,
					LastTransitionTime: metav1.NewTime(now)}).Obj()
			variant.Status.RequeueState = tc.requeueState
			parent := utiltestingapi.MakeWorkload("parent", metav1.NamespaceDefault).Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(variant, parent).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			if err := cl.Get(ctx, client.ObjectKeyFromObject(variant), variant); err != nil {
				t.Fatalf("Getting the variant: %v", err)
			}
			r := &variantReconciler{client: cl, clock: testingclock.NewFakeClock(now), recorder: &utiltesting.EventRecorder{}}
			if _, err := r.syncVariantEvictionStatus(ctx, parent, []kueue.Workload{*variant}); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			got := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(variant), got); err != nil {
				t.Fatalf("Getting the variant: %v", err)
			}
			if apimeta.IsStatusConditionTrue(got.Status.Conditions, kueue.WorkloadQuotaReserved) {
				t.Error("The variant holds its quota")
			}
			if requeued := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadRequeued); requeued.Status != tc.wantRequeued {
				t.Errorf("Unexpected Requeued %s, want %s", requeued.Status, tc.wantRequeued)
			}
			reserved := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadQuotaReserved)
			if diff := cmp.Diff(tc.wantReason, reserved.Reason); diff != "" {
				t.Errorf("Unexpected reason of QuotaReserved (-want,+got):\n%s", diff)
			}
		})
	}
}

// A variant that waits for a retry is not the next one to preempt others, and does not
// have them wait for what it has preempted.
func TestWaitingVariantHasNoTurnToPreempt(t *testing.T) {
	now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
	variant := func(name string) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload(name, metav1.NamespaceDefault).
			PreemptionGates(kueue.PreemptionGate{Name: controllerconsts.ConcurrentAdmissionPreemptionGate}).
			Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse})
	}
	blocked := metav1.Condition{Type: kueue.WorkloadBlockedOnPreemptionGates, Status: metav1.ConditionTrue}
	retry := kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(now), RequeueAfterSeconds: ptr.To[int32](60)}
	cases := map[string]struct {
		gateOff  bool
		first    *utiltestingapi.WorkloadWrapper
		want     string
		wantWait time.Duration
	}{
		"the first one asks for a retry": {
			first:    variant("first").Condition(blocked).AdmissionChecks(retry),
			want:     "second",
			wantWait: preemptionTimeout,
		},
		"the first one waits, and had its turn": {
			first: variant("first").AdmissionChecks(retry).RequeueState(nil, ptr.To(metav1.NewTime(now.Add(time.Minute)))).
				PreemptionGateStates(kueue.PreemptionGateState{
					Name: controllerconsts.ConcurrentAdmissionPreemptionGate, Position: kueue.PreemptionGatePositionOpen, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
				}),
			want:     "second",
			wantWait: preemptionTimeout,
		},
		"the first one was not tried yet when it was told to wait": {
			first: utiltestingapi.MakeWorkload("first", metav1.NamespaceDefault).
				PreemptionGates(kueue.PreemptionGate{Name: controllerconsts.ConcurrentAdmissionPreemptionGate}).AdmissionChecks(retry),
			want:     "second",
			wantWait: preemptionTimeout,
		},
		"no check asks for a retry": {
			first:    variant("first").Condition(blocked),
			want:     "first",
			wantWait: preemptionTimeout,
		},
		"gate off": {
			gateOff:  true,
			first:    variant("first").Condition(blocked).AdmissionChecks(retry).RequeueState(nil, ptr.To(metav1.NewTime(now.Add(time.Minute)))),
			want:     "first",
			wantWait: preemptionTimeout,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ConcurrentAdmission, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			r := &variantReconciler{clock: testingclock.NewFakeClock(now)}
			got, gotWait := r.selectVariantToOpenPreemptionGate(ctx, []kueue.Workload{*tc.first.Obj(), *variant("second").Condition(blocked).Obj()})
			if got == nil || got.Name != tc.want || gotWait != tc.wantWait {
				t.Errorf("Unexpected variant %v after %s, want %q after %s", got, gotWait, tc.want, tc.wantWait)
			}
		})
	}
}

// All variants are activated while none is admitted. One that a check had deactivated
// would be tried again at once, and deactivated again.
func TestVariantDeactivatedByCheckStaysInactive(t *testing.T) {
	evicted := func(reason string) metav1.Condition {
		return metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason}
	}
	rejected := evicted("DeactivatedDueToAdmissionCheck")
	cases := map[string]struct {
		gateOff           bool
		condition         metav1.Condition
		requeued          time.Duration // after the eviction
		parentDeactivated bool
		want              bool
	}{
		"at the limit of its retries":                   {condition: evicted("DeactivatedDueToAdmissionCheckRetryLimitExceeded")},
		"rejected":                                      {condition: rejected},
		"rejected, and requeued before":                 {condition: rejected, requeued: -time.Second},
		"rejected, and activated by hand":               {condition: rejected, requeued: time.Second, want: true},
		"rejected, and then its parent was deactivated": {condition: rejected, parentDeactivated: true, want: true},
		"rejected, and not evicted yet":                 {condition: metav1.Condition{Type: kueue.WorkloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}},
		"for another variant":                           {condition: evicted(kueue.WorkloadDeactivated), want: true},
		"evicted by a check, and no more":               {condition: evicted(kueue.WorkloadEvictedByAdmissionCheck), want: true},
		"rejected, gate off":                            {gateOff: true, condition: rejected, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ConcurrentAdmission, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			now := time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC)
			tc.condition.LastTransitionTime = metav1.NewTime(now)
			variant := utiltestingapi.MakeWorkload("variant", metav1.NamespaceDefault).Active(false).Condition(tc.condition).Obj()
			if tc.requeued != 0 {
				variant.Status.Conditions = append(variant.Status.Conditions, metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(now.Add(tc.requeued))})
			}
			cl := utiltesting.NewClientBuilder().WithObjects(variant).WithStatusSubresource(&kueue.Workload{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).Build()
			if err := cl.Get(ctx, client.ObjectKeyFromObject(variant), variant); err != nil {
				t.Fatalf("Getting the variant: %v", err)
			}
			r := &variantReconciler{client: cl, clock: testingclock.NewFakeClock(now), recorder: &utiltesting.EventRecorder{}}
			cq := utiltestingapi.MakeClusterQueue("cq").Obj()
			parent := utiltestingapi.MakeWorkload("parent", metav1.NamespaceDefault).Active(!tc.parentDeactivated).Obj()
			variants := []kueue.Workload{*variant}
			for range 2 {
				if err := r.deactivateVariants(ctx, parent, variants, cq, nil); err != nil {
					t.Fatalf("Unexpected error: %v", err)
				}
				if err := r.activateVariants(ctx, parent, variants, cq, nil); err != nil {
					t.Fatalf("Unexpected error: %v", err)
				}
				parent.Spec.Active = ptr.To(true)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(variant), variant); err != nil {
				t.Fatalf("Getting the variant: %v", err)
			}
			if got := ptr.Deref(variant.Spec.Active, true); got != tc.want {
				t.Errorf("Unexpected active %t, want %t", got, tc.want)
			}
		})
	}
}
