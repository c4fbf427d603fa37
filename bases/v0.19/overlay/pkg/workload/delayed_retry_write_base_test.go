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
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
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
	if err := workloadevict.Evict(ctx, c, events.NewFakeRecorder(1), wl, kueue.WorkloadEvictedByAdmissionCheck, "", "",
		testingclock.NewFakeClock(at(5)), false, nil, nil); err != nil {
		t.Fatalf("Unexpected error: %v", err)
	}
	want := []kueue.AdmissionCheckState{withRetryCount(checkAt("a", kueue.CheckStateRetry, 0), 2)}
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Errorf("Unexpected checks in the apply (-want,+got):\n%s", diff)
	}
}
