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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// The eviction asks this package, which it cannot import, what becomes of the
// checks. The delay belongs to the controller of the check: Kueue applies the rest.
func TestEvictionLeavesRetries(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	var applied []kueue.AdmissionCheckState
	c := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			applied = obj.(*kueue.Workload).Status.AdmissionChecks
			return nil
		},
	}).Build()
	wl := reserved().AdmissionChecks(withRetryCount(retryAt("a", 0, 60), 2)).Obj()
	wl.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
	recorder := events.NewFakeRecorder(1)
	if err := workloadevict.Evict(ctx, c, recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, "90% used", "",
		testingclock.NewFakeClock(at(5)), false, nil, nil); err != nil {
		t.Fatalf("Unexpected error: %v", err)
	}
	want := []kueue.AdmissionCheckState{withRetryCount(checkAt("a", kueue.CheckStateRetry, 0), 2)}
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Errorf("Unexpected checks in the apply (-want,+got):\n%s", diff)
	}
	select {
	case got := <-recorder.Events:
		if !strings.Contains(got, "90% used") {
			t.Errorf("The event does not have the words as they are: %s", got)
		}
	default:
		t.Error("No event tells of the eviction")
	}
}

// What was granted while the workload was queued is taken back with the hold, as with
// an eviction, and not again with what is recorded later.
func TestHoldClosesPreemptionGates(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	gate := kueue.PreemptionGateState{Name: "gate", Position: kueue.PreemptionGatePositionOpen, LastTransitionTime: metav1.NewTime(at(-10))}
	wl := requeuedWorkload().PreemptionGates(kueue.PreemptionGate{Name: "gate"}).PreemptionGateStates(gate).
		Condition(conditionAt(kueue.WorkloadBlockedOnPreemptionGates, metav1.ConditionTrue, kueue.PreemptionGated, "", -20)).
		AdmissionChecks(retryAt("a", 0, 60)).Obj()
	for _, seconds := range []float64{5, 6} {
		plan := planAt(wl, at(seconds))
		if want := map[float64]RetryAction{5: RetryHold, 6: RetryRecord}[seconds]; plan.Action != want {
			t.Fatalf("Unexpected action %q, want %q", plan.Action, want)
		}
		plan.Record(wl)
		want := []kueue.PreemptionGateState{{Name: "gate", Position: kueue.PreemptionGatePositionClosed, LastTransitionTime: metav1.NewTime(at(5))}}
		if diff := cmp.Diff(want, wl.Status.PreemptionGates); diff != "" {
			t.Errorf("Unexpected gates at %v (-want,+got):\n%s", seconds, diff)
		}
		if blocked := BlockedOnPreemptionGatesCondition(wl); blocked != nil {
			t.Errorf("Unexpected condition at %v: %v", seconds, blocked)
		}
		wl.Status.AdmissionChecks[0].RequeueAfterSeconds = ptr.To[int32](90)
	}
}

// A job that wants no quota now says so still when it has ended.
func TestConcludeOnHold(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	onHold := conditionAt(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, kueue.WorkloadOnHold, "Scaled to zero", 0)
	wl := evictedByRetry(0, 60).Conditions(onHold, conditionAt(kueue.WorkloadFinished, metav1.ConditionTrue, kueue.WorkloadFinishedReasonSucceeded, "", 1)).Obj()
	if !MustConclude(wl) {
		t.Fatal("Nothing to conclude")
	}
	Conclude(wl, at(2))
	if diff := cmp.Diff(&onHold, apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)); diff != "" {
		t.Errorf("Unexpected condition (-want,+got):\n%s", diff)
	}
}
