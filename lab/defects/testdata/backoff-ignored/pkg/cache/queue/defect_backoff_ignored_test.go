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
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// TestDefectBackoffIgnored: a Workload exceeded the timeout of WaitForPodsReady, and has to wait for
// an hour. After a restart of Kueue or of its LocalQueue it is tried at once, and takes quota from
// others.
// A LocalQueue that is added puts all its Workloads into the heap
// (pkg/cache/queue/cluster_queue.go:380), also those whose backoff is not over.
// Right: what has to wait is filed as inadmissible, as PushOrUpdate does (line 437).
func TestDefectBackoffIgnored(t *testing.T) {
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		Creation(now).
		RequeueState(new(int32(1)), new(metav1.NewTime(now.Add(time.Hour)))).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByPodsReadyTimeout}).
		Obj()
	manager := NewManagerForUnitTests(utiltesting.NewFakeClient(utiltesting.MakeNamespace("ns"), wl), nil)
	if err := manager.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	if err := manager.AddLocalQueue(ctx, utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj()); err != nil {
		t.Fatalf("Adding the LocalQueue: %v", err)
	}

	if diff := cmp.Diff(map[kueue.ClusterQueueReference][]workload.Reference(nil), manager.Dump()); diff != "" {
		t.Errorf("A Workload with a backoff of an hour is tried at once when its LocalQueue is added; in the heap (-want,+got):\n%s", diff)
	}
}
