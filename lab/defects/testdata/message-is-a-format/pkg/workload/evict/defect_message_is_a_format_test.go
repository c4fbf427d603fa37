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

package evict

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectMessageIsAFormat: a check says Retry with the message "50% of nodes are down". The event
// of the eviction says "50%!o(MISSING)f nodes are down".
// The message is given to Eventf as the format (pkg/workload/evict/evict.go:295). So it is in
// pkg/controller/core/workload_controller.go:989 and pkg/controller/jobframework/reconciler.go:838.
// Right: the message is an argument of the format "%s".
func TestDefectMessageIsAFormat(t *testing.T) {
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").SimpleReserveQuota("cq", "default", now).Obj()
	cl := utiltesting.NewClientBuilder().
		WithObjects(wl).
		WithStatusSubresource(wl).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		Build()
	recorder := &utiltesting.EventRecorder{}
	message := `Evicted due to AdmissionCheck in Retry state: "check" (50% of nodes are down)`

	if err := Evict(ctx, cl, recorder, wl, kueue.WorkloadEvictedByAdmissionCheck, message, "", testingclock.NewFakeClock(now), false, nil, nil); err != nil {
		t.Fatalf("Evicting: %v", err)
	}
	if diff := cmp.Diff(message, recorder.RecordedEvents[0].Message); diff != "" {
		t.Errorf("The event garbles the message of the check, which has a %% in it (-want,+got):\n%s", diff)
	}
}
