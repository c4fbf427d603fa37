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

	"sigs.k8s.io/kueue/pkg/metrics"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	testingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectCountedInADeletedQueue: kueue_pending_workloads counts the Workloads of a LocalQueue that
// is deleted or stopped, and not yet those of one that is added or started again, until something
// else happens in the ClusterQueue.
// AddLocalQueue and DeleteLocalQueue change what is pending in the ClusterQueue, and do not report
// it (pkg/cache/queue/manager.go:538 and 604).
// Right: both call reportCQPendingWorkloads.
func TestDefectCountedInADeletedQueue(t *testing.T) {
	ctx, log := utiltesting.ContextWithLog(t)
	wl := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Creation(time.Now()).Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq-of-deleted").Obj()
	manager := NewManagerForUnitTests(utiltesting.NewFakeClient(utiltesting.MakeNamespace("ns"), wl), nil,
		WithPreemptionExpectations(preemptexpectations.New()))
	if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq-of-deleted").Obj()); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	expectPending := func(when string, want float64) {
		t.Helper()
		var got float64
		for _, point := range testingmetrics.CollectFilteredGaugeVec(metrics.PendingWorkloads, map[string]string{"cluster_queue": "cq-of-deleted"}) {
			got += point.Value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kueue_pending_workloads is wrong %s (-want,+got):\n%s", when, diff)
		}
	}

	if err := manager.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}
	expectPending("when a LocalQueue with one Workload was added", 1)

	if err := manager.AddOrUpdateWorkload(log, wl); err != nil {
		t.Fatalf("Updating the Workload: %v", err)
	}
	manager.DeleteLocalQueue(log, lq)
	expectPending("when that LocalQueue was deleted", 0)
}
