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

package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// TestDefectQuotaGivenTwice: somebody deactivates a Workload whose job runs (spec.active=false). The
// pods run on until the job is stopped, but the quota is free at once, and is given to others too.
// If the Workload is activated again before it is evicted, both keep the quota.
// The handler of the event takes each inactive Workload out of the scheduler's cache, also if it
// holds quota (pkg/controller/core/workload_controller.go:1403), and so does the cache itself
// (pkg/cache/scheduler/cache.go:794).
// Right: the quota is free when the Workload has released it.
func TestDefectQuotaGivenTwice(t *testing.T) {
	ctx, log := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	cl := utiltesting.NewClientBuilder().Build()
	cqCache := schdcache.New(cl)
	qManager := qcache.NewManagerForUnitTests(cl, cqCache)
	reconciler := NewWorkloadReconciler(cl, qManager, cqCache, &utiltesting.EventRecorder{})

	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas("default").Resource(corev1.ResourceCPU, "5").Obj()).
		Obj()
	if err := cqCache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Adding the ClusterQueue: %v", err)
	}
	running := utiltestingapi.MakeWorkload("wl", "ns").
		Queue("lq").
		Request(corev1.ResourceCPU, "5").
		SimpleReserveQuota("cq", "default", now).
		AdmittedAt(true, now).
		Obj()
	cqCache.AddOrUpdateWorkload(log, running)

	deactivated := running.DeepCopy()
	deactivated.Spec.Active = new(false)
	reconciler.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: running, ObjectNew: deactivated})

	usage, err := cqCache.Usage(cq)
	if err != nil {
		t.Fatalf("Reading the usage of the ClusterQueue: %v", err)
	}
	if got, want := usage.ReservedResources[0].Resources[0].Total, resource.MustParse("5"); got.Cmp(want) != 0 {
		t.Errorf("A deactivated Workload holds 5 CPUs, and its pods still run, but the scheduler counts %s as used: it gives the same quota to others", got.String())
	}
}
