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
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// draGate has the reconciler look up what a workload requests of DRA.
const draGate = features.DynamicResourceAllocation

// newTestQueues returns queues, and a function that has them look again at the
// inadmissible workloads of a ClusterQueue, as after a change of it.
func newTestQueues(c client.Client, cache *schdcache.Cache) (*qcache.Manager, func(context.Context, kueue.ClusterQueueReference)) {
	queues := qcache.NewManager(c, cache)
	return queues, func(ctx context.Context, cqName kueue.ClusterQueueReference) {
		queues.QueueInadmissibleWorkloads(ctx, sets.New(cqName))
	}
}

// tryInVain has the heads of all queues not fit.
func (f *retryFixture) tryInVain() {
	for _, head := range f.queues.Heads(f.ctx) {
		f.queues.RequeueWorkload(f.ctx, &head, qcache.RequeueReasonGeneric)
	}
}

// delete has the reconciler see that the workload is gone.
func (f *retryFixture) delete(wl *kueue.Workload) {
	f.reconciler.Delete(event.TypedDeleteEvent[*kueue.Workload]{Object: wl})
}

// deleteFromQueues takes the LocalQueue out of the queues.
func (f *retryFixture) deleteFromQueues(lq *kueue.LocalQueue) {
	f.queues.DeleteLocalQueue(lq)
}

// expectRetryWithGateOff goes on after check a has asked for a delay of a minute: the
// workload is evicted, and requeued at once.
func (f *retryFixture) expectRetryWithGateOff() {
	f.Helper()
	wl := f.reconcileAt(0, 1, 0)
	if wl.Status.RequeueState != nil || workload.HasRetryChecks(wl) || !workload.IsEvicted(wl) {
		f.Errorf("Unexpected status after the Retry: %v", wl.Status)
	}
	f.release()
	f.reconcileAt(0, 1, 0)
	f.expectQueued(1, 0)
}

// endOfLeftWait returns when the wait of a workload ends, with the gate switched off,
// for which a deadline was recorded, and whose check asks for a later one since: that
// is ignored.
func (f *retryFixture) endOfLeftWait(recorded, _ time.Duration) time.Duration {
	return recorded
}

// The manager was stopped after the reservation of a larger slice, and before the end of
// the one that it replaces.
func TestReplacedSliceIsFinished(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	waiting := utiltestingapi.MakeWorkload("smaller", "ns").ControllerReference(gvk, "job", "job").Queue("lq")
	smaller := waiting.Clone().SimpleReserveQuota("cq", "flavor", start)
	larger := utiltestingapi.MakeWorkload("larger", "ns").ControllerReference(gvk, "job", "job").Queue("lq").Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/smaller").
		SimpleReserveQuota("cq", "flavor", start).AdmissionChecks(
		kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStatePending}, kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending})
	// The API server has stored the year 1, which is sent as null, and takes no null.
	withoutTime := smaller.Clone().Condition(metav1.Condition{Type: "example.com/Seen", Status: metav1.ConditionTrue, Reason: "Seen"})
	cases := map[string]struct {
		gateOff         bool
		smaller, larger *utiltestingapi.WorkloadWrapper
		want            string
	}{
		"gate on":                               {smaller: smaller, larger: larger, want: kueue.WorkloadSliceReplaced},
		"gate off since":                        {gateOff: true, smaller: smaller, larger: larger, want: kueue.WorkloadSliceReplaced},
		"the larger one has finished meanwhile": {smaller: smaller, larger: larger.Clone().Finished(), want: kueue.WorkloadSliceReplaced},
		"a condition of another's has no time":  {smaller: withoutTime, larger: larger, want: kueue.WorkloadSliceReplaced},
		"the smaller one was evicted":           {smaller: waiting.Clone().Evicted(), larger: larger, want: kueue.WorkloadFinishedReasonOutOfSync},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			f := newRetryFixture(t, tc.larger.Clone().Obj(), start)
			smaller := tc.smaller.Clone().Obj()
			if err := f.client.Create(f.ctx, smaller); err != nil {
				t.Fatalf("Creating the smaller slice: %v", err)
			}
			f.reconcileAt(0, 1, 0)
			f.expectEvents(tc.want)
			if err := f.client.Get(f.ctx, client.ObjectKeyFromObject(smaller), smaller); err != nil {
				t.Fatalf("Getting the smaller slice: %v", err)
			}
			if finished := apimeta.FindStatusCondition(smaller.Status.Conditions, kueue.WorkloadFinished); finished == nil || finished.Reason != tc.want {
				t.Errorf("Unexpected end of the smaller slice: %v", finished)
			}
			for _, cond := range smaller.Status.Conditions {
				if cond.LastTransitionTime.IsZero() {
					t.Errorf("A condition is sent without a time: %v", cond)
				}
			}
			f.reconcileAt(time.Second, 0, 0)
		})
	}
}
