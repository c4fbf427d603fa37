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
	"testing"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
)

func TestEvictionLeavesRetries(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	want := []kueue.AdmissionCheckState{retryAt("a", 0, 60)}
	wl := reserved().AdmissionChecks(want...).Obj()
	prepareForEviction(wl, at(5), kueue.WorkloadEvictedByAdmissionCheck, "")
	if diff := cmp.Diff(want, wl.Status.AdmissionChecks); diff != "" {
		t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
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
