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

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
)

// applyForTest applies what update sets in wl, if it returns true.
func applyForTest(ctx context.Context, c client.Client, wl *kueue.Workload, strict bool, update func(*kueue.Workload) bool) error {
	return PatchAdmissionStatus(ctx, c, wl, testingclock.NewFakeClock(at(0)), func() (*kueue.Workload, bool, error) {
		return wl, update(wl), nil
	}, func(o *PatchAdmissionStatusOptions) { o.StrictApply = strict })
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
