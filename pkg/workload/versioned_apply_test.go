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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
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

// replaced returns wl with the condition in the place of an earlier one.
func replaced(wl *utiltestingapi.WorkloadWrapper, condition metav1.Condition) *utiltestingapi.WorkloadWrapper {
	apimeta.RemoveStatusCondition(&wl.Status.Conditions, condition.Type)
	return wl.Condition(condition)
}

func reserved() *utiltestingapi.WorkloadWrapper {
	return utiltestingapi.MakeWorkload("wl", "ns").
		Condition(conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "", -100))
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
			if err := applyForTest(ctx, client, wl, false, func(*kueue.Workload) bool { return true }); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if strict != tc.wantStrict {
				t.Errorf("Unexpected apply, with a resource version: %v, want %v", strict, tc.wantStrict)
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
		wantApplied bool
		wantReads   int
	}{
		"no other write": {
			wantApplied: true,
		},
		"the scheduler noted why it has no quota": {
			writes:      writes{replaced(seen(), pending("Pending")).ResourceRequests(kueue.PodSetRequest{Name: "main"})},
			wantApplied: true,
			wantReads:   1,
		},
		"and why it is not admitted": {
			writes:      writes{seen().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionFalse, "NoReservation", "", 0))},
			wantApplied: true,
			wantReads:   1,
		},
		"it was admitted": {
			writes:    writes{seen().Condition(conditionAt(kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "", 0))},
			wantReads: 1,
		},
		"one write after the other": {
			writes:      writes{seen().Label("a", "b"), seen().Label("a", "c")},
			wantApplied: true,
			wantReads:   2,
		},
		"one write after the other, without end": {
			writes:    writes{seen(), seen(), seen(), seen(), seen(), seen(), seen(), seen(), seen()},
			wantReads: 7,
		},
		"the cache is behind": {
			writes:      writes{seen().Label("a", "b")},
			readsBehind: 2,
			wantApplied: true,
			wantReads:   3,
		},
		"the cache is far behind": {
			writes:      writes{seen().Label("a", "b")},
			readsBehind: 6,
			wantApplied: true,
			wantReads:   7,
		},
		"the cache stays behind": {
			writes:      writes{seen().Label("a", "b")},
			readsBehind: 100,
			wantReads:   7,
		},
		"a strict apply": {
			writes: writes{seen().Label("a", "b")},
			strict: true,
		},
		"a label and a condition of somebody else": {
			writes:      writes{seen().Label("a", "b").Condition(conditionAt("OfSomebody", metav1.ConditionFalse, "", "", 0))},
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
			writes:      writes{replaced(seen(), conditionAt(kueue.WorkloadPreempted, metav1.ConditionFalse, "QuotaReserved", "", 0))},
			wantApplied: true,
			wantReads:   1,
		},
		"it was preempted": {
			writes:    writes{replaced(seen(), conditionAt(kueue.WorkloadPreempted, metav1.ConditionTrue, "InClusterQueue", "", 0))},
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
			writes:    writes{replaced(seen(), conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "", 0))},
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
			err := applyForTest(ctx, cl, wl, tc.strict, func(wl *kueue.Workload) bool {
				return UnsetQuotaReservationWithCondition(wl, "Waiting", "", at(0))
			})
			if tc.wantApplied && err != nil || !tc.wantApplied && !apierrors.IsConflict(err) {
				t.Errorf("Unexpected error: %v", err)
			}
			wantVersion := "10"
			if tc.wantApplied {
				wantVersion = "99"
			}
			if wl.ResourceVersion != wantVersion {
				t.Errorf("Unexpected resource version %s, want %s", wl.ResourceVersion, wantVersion)
			}
			wantApplies := 1
			switch {
			case tc.wantApplied:
				wantApplies += len(tc.writes)
			case tc.readsBehind == 0 && !tc.strict:
				wantApplies = min(len(tc.writes), 8)
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
	err := applyForTest(ctx, cl, wl, false, func(*kueue.Workload) bool { return true })
	if !apierrors.IsNotFound(err) {
		t.Errorf("Unexpected error: %v, want that it is not found", err)
	}
}

// What Kueue applies it owns. A delay that a check's controller asks for must not be
// among it: it would outlive its removal. One of a policy is Kueue's own.
func TestApplyOfDelays(t *testing.T) {
	record := func(transition float64, delay *int32) []kueue.ObservedRetry {
		return []kueue.ObservedRetry{{Name: "a", LastTransitionTime: metav1.NewTime(at(transition)), DelaySeconds: delay}}
	}
	cases := map[string]struct {
		check    kueue.AdmissionCheckState
		observed []kueue.ObservedRetry
		want     bool
	}{
		"of a policy":                  {check: retryAt("a", 0, 30), observed: record(0, ptr.To[int32](30)), want: true},
		"of its controller's own":      {check: retryAt("a", 0, 30), observed: record(0, nil)},
		"of its controller's, instead": {check: retryAt("a", 0, 20), observed: record(0, ptr.To[int32](30))},
		"of a policy, asked again":     {check: retryAt("a", 5, 30), observed: record(0, ptr.To[int32](30)), want: true},
		"of a policy, withdrawn": {
			check: func() kueue.AdmissionCheckState {
				check := retryAt("a", 5, 30)
				check.State = kueue.CheckStateReady
				return check
			}(),
			observed: record(0, ptr.To[int32](30)),
		},
		"without a record": {check: retryAt("a", 0, 30)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			var patched string
			client := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
					if patch.Type() != types.ApplyPatchType {
						t.Errorf("Unexpected type of patch %q: what is not applied cannot be removed by an apply", patch.Type())
					}
					data, err := patch.Data(obj)
					patched = string(data)
					return err
				},
			}).Build()
			wl := reserved().AdmissionChecks(tc.check).Obj()
			if err := applyForTest(ctx, client, wl, true, func(wl *kueue.Workload) bool {
				wl.Status.RequeueState = &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(at(30))), ObservedRetries: tc.observed}
				return true
			}); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if got := strings.Contains(patched, "requeueAfterSeconds"); got != tc.want {
				t.Errorf("Unexpected delay %t in the apply, want %t: %s", got, tc.want, patched)
			}
		})
	}
}

// The scheduler may evict a workload for which it has just assumed quota, before the
// reservation is written. The conditions and the admission have to agree.
func TestMergePatchOfAssumed(t *testing.T) {
	pending := utiltestingapi.MakeWorkload("wl", "ns").Obj()
	withQuota := reserved().Admission(utiltestingapi.MakeAdmission("cq").Obj()).Obj()
	cases := map[string]struct {
		stored  *kueue.Workload
		seen    *kueue.Workload
		release bool
		want    *kueue.Admission
	}{
		"assumed":               {stored: pending, seen: withQuota, want: withQuota.Status.Admission},
		"assumed, and released": {stored: pending, seen: withQuota, release: true},
		"reserved":              {stored: withQuota, seen: withQuota, want: withQuota.Status.Admission},
		"released":              {stored: withQuota, seen: withQuota, release: true},
		"pending":               {stored: pending, seen: pending},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			stored := tc.stored.DeepCopy()
			cl := utiltesting.NewClientBuilder().WithObjects(stored).WithStatusSubresource(stored).Build()
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			wl := tc.seen.DeepCopy()
			wl.ResourceVersion = stored.ResourceVersion
			if err := applyForTest(ctx, cl, wl, true, func(wl *kueue.Workload) bool {
				apimeta.SetStatusCondition(&wl.Status.Conditions, conditionAt(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, "", 0))
				if tc.release {
					apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadQuotaReserved)
					wl.Status.Admission = nil
				}
				return true
			}); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if diff := cmp.Diff(tc.want, stored.Status.Admission, cmpopts.EquateEmpty()); diff != "" || HasQuotaReservation(stored) != (tc.want != nil) {
				t.Errorf("Unexpected admission, quota is reserved: %v (-want,+got):\n%s", HasQuotaReservation(stored), diff)
			}
			if wl.ResourceVersion != stored.ResourceVersion {
				t.Errorf("Unexpected resource version %s, want %s", wl.ResourceVersion, stored.ResourceVersion)
			}
		})
	}
}
