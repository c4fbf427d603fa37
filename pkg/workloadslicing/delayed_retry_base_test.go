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

package workloadslicing

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The scheduler was stopped after the larger slice had got its quota.
func TestTwoSlicesWithQuota(t *testing.T) {
	for _, gate := range []bool{false, true} {
		t.Run(map[bool]string{true: "gate on", false: "gate off"}[gate], func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			now := time.Now()
			gvk := batchv1.SchemeGroupVersion.WithKind("Job")
			job := utiltestingjob.MakeJob("job", "ns").UID("job").Parallelism(2).Obj()
			slice := func(name string, creation time.Time, pods int) *kueue.Workload {
				return utiltestingapi.MakeWorkload(name, "ns").ControllerReference(gvk, "job", "job").Creation(creation).
					PodSets(*utiltestingapi.MakePodSet("main", pods).Obj()).SimpleReserveQuota("cq", "flavor", now).Obj()
			}
			smaller, larger := slice("smaller", now.Add(-time.Minute), 1), slice("larger", now, 2)
			cl := utiltesting.NewClientBuilder().WithObjects(smaller, larger).WithStatusSubresource(&kueue.Workload{}).
				WithIndex(&kueue.Workload{}, indexer.OwnerReferenceIndexKey(gvk), indexer.WorkloadOwnerIndexFunc(gvk)).Build()
			got, _, err := EnsureWorkloadSlices(ctx, cl, testingclock.NewFakeClock(now), larger.Spec.PodSets, job, gvk)
			if (err == nil) != gate || gate && got.Name != larger.Name {
				t.Errorf("Unexpected slice %v, %v", got, err)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(smaller), smaller); err != nil {
				t.Fatalf("Getting the smaller slice: %v", err)
			}
			finished := apimeta.FindStatusCondition(smaller.Status.Conditions, kueue.WorkloadFinished)
			if workload.IsFinished(smaller) != gate || gate && finished.Reason != kueue.WorkloadSliceReplaced {
				t.Errorf("Unexpected end of the smaller slice: %v", finished)
			}
		})
	}
}
