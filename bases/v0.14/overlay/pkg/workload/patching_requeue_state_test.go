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
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
)

func TestPrepareWorkloadPatchRequeueState(t *testing.T) {
	counted := &kueue.RequeueState{Count: ptr.To[int32](1)}
	cases := map[string]struct {
		requeueState, want *kueue.RequeueState
	}{
		"none":         {},
		"empty":        {requeueState: &kueue.RequeueState{}},
		"with a count": {requeueState: counted, want: counted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wl := utiltestingapi.MakeWorkload("wl", "ns").Obj()
			wl.Status.RequeueState = tc.requeueState
			patch := PrepareWorkloadPatch(wl, true, testingclock.NewFakeClock(time.Now()))
			if diff := cmp.Diff(tc.want, patch.Status.RequeueState); diff != "" {
				t.Errorf("Unexpected requeueState (-want,+got):\n%s", diff)
			}
		})
	}
}
