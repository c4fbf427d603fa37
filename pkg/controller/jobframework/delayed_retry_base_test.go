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

package jobframework

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// movedByOthers is a job whose own controller gives the workload its queue, as that
// of serving pods does.
type movedByOthers struct {
	fakeJob
}

func (movedByOthers) CustomQueueNameChange(context.Context, client.Client, *kueue.Workload) error {
	return nil
}

func TestMoveWaitingOfJobThatIsMovedByOthers(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	wl := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Obj()
	cl := utiltesting.NewClientBuilder().WithObjects(wl).Build()
	job := movedByOthers{fakeJob{suspended: true, object: utiltestingjob.MakeJob("job", "ns").Queue("other").Obj()}}
	if moved, err := (&JobReconciler{client: cl}).moveWaiting(ctx, job, job.object, wl); moved || err != nil {
		t.Errorf("Unexpected result %t, %v; want nothing to be done", moved, err)
	}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
		t.Fatalf("Reading the workload: %v", err)
	}
	if wl.Spec.QueueName != "lq" {
		t.Errorf("Unexpected queue %q, want that of the job's own controller", wl.Spec.QueueName)
	}
}

func (j fakeJob) Finished(context.Context) (string, bool, bool) { return "", false, false }

// The pods of an elastic job's child are those of the slice that is to be replaced.
func TestShouldSuspendChildOfElasticJob(t *testing.T) {
	now := time.Now()
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	ancestor := utiltestingjob.MakeJob("ancestor", "ns").UID("ancestor").SetAnnotation(workloadslicing.EnabledAnnotationKey, workloadslicing.EnabledAnnotationValue).Obj()
	child := fakeJob{gvk: gvk, object: utiltestingjob.MakeJob("child", "ns").Obj()}
	smaller := utiltestingapi.MakeWorkload("smaller", "ns").Creation(now.Add(-time.Minute)).ControllerReference(gvk, "ancestor", "ancestor")
	evictedFor := func(reason string) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("larger", "ns").Creation(now).ControllerReference(gvk, "ancestor", "ancestor").
			Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/smaller").
			Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason})
	}
	cases := map[string]struct {
		gateOff bool
		smaller *utiltestingapi.WorkloadWrapper
		larger  *utiltestingapi.WorkloadWrapper
		want    bool
	}{
		"the other slice holds its quota":            {smaller: smaller.Clone().SimpleReserveQuota("cq", "flavor", now), larger: evictedFor(kueue.WorkloadEvictedByAdmissionCheck)},
		"the other slice has lost its quota":         {smaller: smaller.Clone(), larger: evictedFor(kueue.WorkloadEvictedByAdmissionCheck), want: true},
		"the larger slice is rejected":               {smaller: smaller.Clone().SimpleReserveQuota("cq", "flavor", now), larger: evictedFor("DeactivatedDueToAdmissionCheck")},
		"gate off, the larger slice is deactivated":  {gateOff: true, smaller: smaller.Clone().SimpleReserveQuota("cq", "flavor", now), larger: evictedFor(kueue.WorkloadDeactivated), want: true},
		"gate off, the larger slice is left waiting": {gateOff: true, smaller: smaller.Clone().SimpleReserveQuota("cq", "flavor", now), larger: evictedFor(kueue.WorkloadEvictedByAdmissionCheck)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			cl := utiltesting.NewClientBuilder().WithObjects(tc.smaller.Obj(), tc.larger.Obj()).
				WithIndex(&kueue.Workload{}, indexer.OwnerReferenceIndexKey(gvk), indexer.WorkloadOwnerIndexFunc(gvk)).Build()
			got, err := (&JobReconciler{client: cl}).shouldSuspendChildJob(ctx, child, ancestor)
			if err != nil || got != tc.want {
				t.Errorf("Unexpected result %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}
