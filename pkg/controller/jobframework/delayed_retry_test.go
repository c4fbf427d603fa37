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
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/podset"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

type fakeJob struct {
	GenericJob
	gvk       schema.GroupVersionKind
	suspended bool
	object    client.Object
}

func (j fakeJob) GVK() schema.GroupVersionKind { return j.gvk }

func (j fakeJob) IsSuspended() bool { return j.suspended }

var jobGVK = batchv1.SchemeGroupVersion.WithKind("Job")

func TestIsStoppedForRetry(t *testing.T) {
	now := time.Now()
	suspended := fakeJob{gvk: jobGVK, suspended: true}
	evicted := func(reason string) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", "ns").Condition(metav1.Condition{
			Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now),
		})
	}
	running := fakeJob{gvk: suspended.gvk}
	slice := utiltestingapi.MakeWorkload("slice", "ns").SimpleReserveQuota("cq", "flavor", now)
	replaces := func() *utiltestingapi.WorkloadWrapper {
		return evicted(kueue.WorkloadEvictedByAdmissionCheck).Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/slice")
	}
	cases := map[string]struct {
		gateOff    bool
		elasticOff bool
		job        GenericJob
		workload   *utiltestingapi.WorkloadWrapper
		replaced   *utiltestingapi.WorkloadWrapper
		want       bool
	}{
		"runs as the slice that is to be replaced": {
			job:      running,
			workload: replaces(),
			replaced: slice.Clone(),
			want:     true,
		},
		"runs as the slice whose larger one is rejected": {
			job:      running,
			workload: evicted("DeactivatedDueToAdmissionCheck").Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/slice"),
			replaced: slice.Clone(),
			want:     true,
		},
		"gate off, runs as the slice whose larger one is deactivated": {
			gateOff:  true,
			job:      running,
			workload: evicted(kueue.WorkloadDeactivated).Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/slice"),
			replaced: slice.Clone(),
		},
		"gate off, runs as the slice whose larger one was left waiting": {
			gateOff:  true,
			job:      running,
			workload: replaces(),
			replaced: slice.Clone(),
			want:     true,
		},
		"the slice that is to be replaced is evicted": {
			job:      running,
			workload: replaces(),
			replaced: slice.Clone().Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption}),
		},
		"the slice that was to be replaced is finished": {
			job:      running,
			workload: replaces(),
			replaced: slice.Clone().Finished(),
		},
		"elastic jobs are off": {
			elasticOff: true,
			job:        running,
			workload:   replaces(),
			replaced:   slice.Clone(),
		},
		"the slice is of another job": {
			job:      running,
			workload: replaces().ControllerReference(jobGVK, "job", "job"),
			replaced: slice.Clone().ControllerReference(jobGVK, "other", "other"),
		},
		"the slice that was to be replaced is gone": {
			job:      running,
			workload: replaces(),
		},
		"holds quota, and has replaced a slice": {
			job:      running,
			workload: replaces().SimpleReserveQuota("cq", "flavor", now),
			replaced: slice.Clone(),
		},
		"suspended, quota released": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
			want:     true,
		},
		"gate off": {
			gateOff:  true,
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
		"quota held": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck).SimpleReserveQuota("cq", "flavor", now),
		},
		"resumed by somebody": {
			job:      running,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
		"evicted for another reason": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByPreemption),
		},
		"a job of another kind": {
			job:      fakeJob{gvk: schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"}, suspended: true},
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, !tc.elasticOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			builder := utiltesting.NewClientBuilder()
			if tc.replaced != nil {
				builder.WithObjects(tc.replaced.Obj())
			}
			r := &JobReconciler{client: builder.Build()}
			if got := r.isStoppedForRetry(ctx, tc.job, tc.workload.Obj()); got != tc.want {
				t.Errorf("Unexpected result: %t, want %t", got, tc.want)
			}
		})
	}
}

func (j fakeJob) Object() client.Object { return j.object }

func TestMoveWaiting(t *testing.T) {
	job := func(suspended bool) fakeJob {
		return fakeJob{suspended: suspended, object: utiltestingjob.MakeJob("job", "ns").Queue("other").Obj()}
	}
	waiting := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Condition(metav1.Condition{
		Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck,
	})
	cases := map[string]struct {
		gateOff  bool
		job      fakeJob
		workload *utiltestingapi.WorkloadWrapper
		want     bool
	}{
		"waits, and the job was moved": {job: job(true), workload: waiting.Clone(), want: true},
		"gate off":                     {gateOff: true, job: job(true), workload: waiting.Clone()},
		"the same queue":               {job: job(true), workload: waiting.Clone().Queue("other")},
		"quota held":                   {job: job(true), workload: waiting.Clone().SimpleReserveQuota("cq", "flavor", time.Now())},
		"the job still runs":           {job: job(false), workload: waiting.Clone()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			before := tc.workload.Obj().Spec.QueueName
			cl := utiltesting.NewClientBuilder().WithObjects(tc.workload.Obj()).Build()
			wl := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(tc.workload.Obj()), wl); err != nil {
				t.Fatalf("Reading the workload: %v", err)
			}
			moved, err := (&JobReconciler{client: cl}).moveWaiting(ctx, tc.job, tc.job.object, wl)
			if err != nil || moved != tc.want {
				t.Errorf("Unexpected result %t, %v; want %t", moved, err, tc.want)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
				t.Fatalf("Reading the workload: %v", err)
			}
			want := before
			if tc.want {
				want = "other"
			}
			if wl.Spec.QueueName != want {
				t.Errorf("Unexpected queue %q, want %q", wl.Spec.QueueName, want)
			}
		})
	}
}

// The retention of what Kueue has deactivated is not for a job that runs as the slice that
// the deactivated one was to replace.
func TestJobOfRejectedSliceIsKept(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now()
	larger := utiltestingapi.MakeWorkload("larger", "ns").Active(false).Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/smaller").
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: "DeactivatedDueToAdmissionCheck", LastTransitionTime: metav1.NewTime(now)}).Obj()
	held := utiltestingapi.MakeWorkload("smaller", "ns").SimpleReserveQuota("cq", "flavor", now)
	cases := map[string]struct {
		smaller   *utiltestingapi.WorkloadWrapper
		suspended bool
		want      time.Duration
	}{
		"runs as the smaller slice":      {smaller: held},
		"the smaller slice is finished":  {smaller: held.Clone().Finished(), want: time.Hour},
		"has not started, or is stopped": {smaller: held, suspended: true, want: time.Hour},
		"runs on another cluster":        {smaller: held.Clone().ClusterName("worker"), suspended: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := fakeJob{gvk: jobGVK, object: utiltestingjob.MakeJob("job", "ns").Obj(), suspended: tc.suspended}
			cl := utiltesting.NewClientBuilder().WithObjects(tc.smaller.Clone().Obj(), larger.DeepCopy(), job.object).Build()
			r := &JobReconciler{client: cl, clock: testingclock.NewFakeClock(now), workloadRetentionPolicy: WorkloadRetentionPolicy{AfterDeactivatedByKueue: ptr.To(time.Hour)}}
			if after, err := r.handleWorkloadAfterDeactivatedPolicy(ctx, job, larger.DeepCopy()); after != tc.want || err != nil {
				t.Errorf("Unexpected deletion of the job after %s, %v; want %s", after, err, tc.want)
			}
		})
	}
}

// What Kueue has deactivated, is active again, and is deactivated by a user, is not Kueue's to
// delete, and not from the time of the first deactivation on.
func TestJobDeactivatedAgainIsKept(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	evicted := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: "DeactivatedDueToAdmissionCheck", LastTransitionTime: metav1.NewTime(now)}
	requeued := metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadDeactivated, LastTransitionTime: metav1.NewTime(now)}
	reactivated := metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadReactivated, LastTransitionTime: metav1.NewTime(now.Add(time.Minute))}
	cases := map[string]struct {
		gateOff    bool
		conditions []metav1.Condition
		want       time.Duration
	}{
		"deactivated by Kueue":                 {conditions: []metav1.Condition{evicted, requeued}, want: time.Hour},
		"active in between":                    {conditions: []metav1.Condition{evicted, reactivated}},
		"active in between, with the gate off": {conditions: []metav1.Condition{evicted, reactivated}, gateOff: true, want: time.Hour},
		"with a target of the base, set while the job stopped": {
			conditions: []metav1.Condition{evicted, requeued, {Type: kueue.WorkloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: kueue.WorkloadMaximumExecutionTimeExceeded}}, want: time.Hour,
		},
		"rejected before Requeued tells of the return": {conditions: []metav1.Condition{evicted, requeued, {Type: kueue.WorkloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := utiltestingapi.MakeWorkload("wl", "ns").Active(false).Conditions(tc.conditions...).Obj()
			job := fakeJob{gvk: jobGVK, object: utiltestingjob.MakeJob("job", "ns").Obj(), suspended: true}
			cl := utiltesting.NewClientBuilder().WithObjects(wl, job.object).Build()
			r := &JobReconciler{client: cl, clock: testingclock.NewFakeClock(now), workloadRetentionPolicy: WorkloadRetentionPolicy{AfterDeactivatedByKueue: ptr.To(time.Hour)}}
			if after, err := r.handleWorkloadAfterDeactivatedPolicy(ctx, job, wl); after != tc.want || err != nil {
				t.Errorf("Unexpected deletion of the job after %s, %v; want %s", after, err, tc.want)
			}
		})
	}
}

type stoppedJob struct{ fakeJob }

func (stoppedJob) Stop(context.Context, client.Client, []podset.PodSetInfo, StopReason, string) (bool, error) {
	return true, nil
}

// A controller may say anything, and users read it in the events of their jobs.
func TestEventsHaveTheWordsOfChecks(t *testing.T) {
	ctx, _ := utiltesting.ContextWithLog(t)
	const words = "90% used"
	job := stoppedJob{fakeJob{gvk: jobGVK, object: utiltestingjob.MakeJob("job", "ns").Obj()}}
	wl := utiltestingapi.MakeWorkload("wl", "ns").AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStatePending, Message: words}).Obj()
	recorder := &utiltesting.EventRecorder{}
	r := &JobReconciler{client: utiltesting.NewClientBuilder().WithObjects(wl, job.object).Build(), record: recorder}
	r.recordAdmissionCheckUpdate(wl, job)
	if err := r.stopJob(ctx, job, wl, StopReasonNotAdmitted, words); err != nil {
		t.Fatalf("Stopping the job: %v", err)
	}
	if len(recorder.RecordedEvents) != 2 {
		t.Fatalf("Unexpected events: %v", recorder.RecordedEvents)
	}
	for _, event := range recorder.RecordedEvents {
		if !strings.HasSuffix(event.Message, words) {
			t.Errorf("The event %s says %q, want %q", event.Reason, event.Message, words)
		}
	}
}
