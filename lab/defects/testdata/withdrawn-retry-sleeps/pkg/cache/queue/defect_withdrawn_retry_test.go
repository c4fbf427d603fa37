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

package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// TestDefectWithdrawnRetrySleeps: a check says Retry for a pending Workload, and takes it back. The
// Workload stays pending, although there is quota, until something else happens in its
// ClusterQueue or cohort.
// The scheduler files it as inadmissible for its check (pkg/scheduler/scheduler.go:674). An update
// takes it out of there only for what PushOrUpdate compares
// (pkg/cache/queue/cluster_queue.go:421), and the states of checks are not compared.
// Right: it is back in the heap when no check is in Retry or Rejected any more.
func TestDefectWithdrawnRetrySleeps(t *testing.T) {
	ctx, log := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	check := func(state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: "check", State: state, LastTransitionTime: metav1.NewTime(now)}
	}
	wl := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Creation(now).AdmissionCheck(check(kueue.CheckStateRetry)).Obj()
	manager := NewManagerForUnitTests(utiltesting.NewFakeClient(utiltesting.MakeNamespace("ns"), wl), nil,
		WithPreemptionExpectations(preemptexpectations.New()))
	if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}

	// The scheduler puts it back because of its check.
	head := manager.Heads(ctx)[0]
	manager.RequeueWorkload(ctx, &head.Info, RequeueReasonGeneric, QuotaReservedReasonPendingEvaluation)

	withdrawn := wl.DeepCopy()
	withdrawn.Status.AdmissionChecks[0] = check(kueue.CheckStatePending)
	if err := manager.AddOrUpdateWorkload(log, withdrawn); err != nil {
		t.Fatalf("Updating the Workload: %v", err)
	}
	want := map[kueue.ClusterQueueReference][]workload.Reference{"cq": {"ns/wl"}}
	if diff := cmp.Diff(want, manager.Dump()); diff != "" {
		t.Errorf("The Retry of its check was withdrawn, and nobody tries the Workload again, although there is quota; in the heap (-want,+got):\n%s", diff)
	}
}
