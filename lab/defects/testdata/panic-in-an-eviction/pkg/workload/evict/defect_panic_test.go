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

	testingclock "k8s.io/utils/clock/testing"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectPanicInAnEviction: with the gate WorkloadRequestUseMergePatch. The scheduler preempts a
// Workload that has just released its quota. The manager panics, and Kueue is restarted.
// The patch meets a conflict and is made anew from what is stored now, without an admission
// (pkg/util/client/client.go:168). Whether there is an admission was asked before the patch
// (pkg/workload/evict/evict.go:161), but it is read after it (line 198).
// Right: no panic, whether the eviction is written or not.
func TestDefectPanicInAnEviction(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	released := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Obj()
	cl := utiltesting.NewClientBuilder().WithObjects(released).WithStatusSubresource(released).Build()

	// What the scheduler has in its cache is one version older.
	cached := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").
		ResourceVersion("1").
		SimpleReserveQuota("cq", "default", now).
		Obj()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("The preemption of a Workload that has just released its quota ends the manager: %v", r)
		}
	}()
	if err := Evict(ctx, cl, &utiltesting.EventRecorder{}, cached, kueue.WorkloadEvictedByPreemption, "Preempted", "",
		testingclock.NewFakeClock(now), false, nil, nil, WithLooseOnApply(), WithRetryOnConflict()); err != nil {
		t.Logf("The eviction was not written: %v", err)
	}
}
