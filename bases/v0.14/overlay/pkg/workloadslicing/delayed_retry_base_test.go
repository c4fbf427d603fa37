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
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/cache/hierarchy"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The larger slice has got its quota, and the smaller one is still to be finished.
func TestTwoSlicesWithQuota(t *testing.T) {
	now := time.Now()
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	slice := func(name string, creation time.Time, pods int) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload(name, "ns").ControllerReference(gvk, "job", "job").Creation(creation).
			PodSets(*utiltestingapi.MakePodSet("main", pods).Obj())
	}
	smaller := slice("smaller", now.Add(-time.Minute), 1).SimpleReserveQuota("cq", "flavor", now)
	larger := slice("larger", now, 2).Annotation(WorkloadSliceReplacementFor, "ns/smaller").SimpleReserveQuota("cq", "flavor", now)
	wasEvicted := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionFalse, Reason: kueue.WorkloadQuotaReserved}
	runsAgain := smaller.Clone().Condition(wasEvicted).AdmittedAt(true, now)
	cases := map[string]struct {
		gateOff         bool
		smaller, larger *utiltestingapi.WorkloadWrapper
		pods            int32
		want            string
		wantFinished    bool
		wantErr         bool
	}{
		"replaced":                 {smaller: smaller, larger: larger, pods: 2, want: "larger"},
		"replaced, gate off since": {gateOff: true, smaller: smaller, larger: larger, pods: 2, want: "larger"},
		"replaced, and scaled again: another slice": {smaller: smaller, larger: larger, pods: 5},
		"not replaced":                               {smaller: smaller, larger: slice("larger", now, 2).SimpleReserveQuota("cq", "flavor", now), pods: 2, wantErr: true},
		"in another ClusterQueue":                    {smaller: smaller, larger: slice("larger", now, 2).Annotation(WorkloadSliceReplacementFor, "ns/smaller").SimpleReserveQuota("other", "flavor", now), pods: 2, wantErr: true},
		"the smaller one was evicted once":           {smaller: runsAgain, larger: slice("larger", now, 2), pods: 2, want: "larger"},
		"the smaller one was evicted once, gate off": {gateOff: true, smaller: runsAgain, larger: slice("larger", now, 2), pods: 2, want: "larger", wantFinished: true},
		"the smaller one waits for its checks again": {smaller: smaller.Clone().Condition(wasEvicted), larger: slice("larger", now, 2), pods: 2, want: "larger", wantFinished: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			job := utiltestingjob.MakeJob("job", "ns").UID("job").Parallelism(tc.pods).Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(tc.smaller.Clone().Obj(), tc.larger.Clone().Obj()).WithStatusSubresource(&kueue.Workload{}).
				WithIndex(&kueue.Workload{}, indexer.OwnerReferenceIndexKey(gvk), indexer.WorkloadOwnerIndexFunc(gvk)).Build()
			podSets := []kueue.PodSet{*utiltestingapi.MakePodSet("main", int(tc.pods)).Obj()}
			got, compatible, err := EnsureWorkloadSlices(ctx, cl, testingclock.NewFakeClock(now), podSets, job, gvk)
			if (err != nil) != tc.wantErr || !compatible {
				t.Errorf("Unexpected result: %t, %v", compatible, err)
			}
			if gotName := ptr.Deref(got, kueue.Workload{}).Name; gotName != tc.want {
				t.Errorf("Unexpected slice %q, want %q", gotName, tc.want)
			}
			wl := &kueue.Workload{}
			if err := cl.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "smaller"}, wl); err != nil {
				t.Fatalf("Getting the smaller slice: %v", err)
			}
			if finished := workload.IsFinished(wl); finished != tc.wantFinished {
				t.Errorf("Unexpected end of the smaller slice: %t, want %t", finished, tc.wantFinished)
			}
		})
	}
}

// The job controller has made another slice before it saw the one before.
func TestForkedSlices(t *testing.T) {
	now := time.Now()
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	slice := func(name string, pods int) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload(name, "ns").ControllerReference(gvk, "job", "job").Creation(now).PodSets(*utiltestingapi.MakePodSet("main", pods).Obj())
	}
	smaller := slice("smaller", 1).Creation(now.Add(-time.Minute)).SimpleReserveQuota("cq", "flavor", now)
	larger := func(name string) *utiltestingapi.WorkloadWrapper {
		return slice(name, 2).Annotation(WorkloadSliceReplacementFor, "ns/smaller")
	}
	evicted := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}
	cases := map[string]struct {
		gateOff  bool
		pods     int32
		slices   []*utiltestingapi.WorkloadWrapper
		want     string
		wantLeft []string
		wantErr  bool
	}{
		"none has quota":               {slices: []*utiltestingapi.WorkloadWrapper{smaller, larger("a"), larger("b")}, want: "a", wantLeft: []string{"a", "smaller"}},
		"the first cannot get any":     {slices: []*utiltestingapi.WorkloadWrapper{smaller, larger("a").Active(false), larger("b")}, want: "b", wantLeft: []string{"b", "smaller"}},
		"one has quota for fewer pods": {pods: 3, slices: []*utiltestingapi.WorkloadWrapper{smaller.Clone().Finished(), larger("a"), larger("b").SimpleReserveQuota("cq", "flavor", now)}, wantLeft: []string{"b"}},
		"the smaller one is finished":  {slices: []*utiltestingapi.WorkloadWrapper{smaller.Clone().Finished(), larger("a"), larger("b").SimpleReserveQuota("cq", "flavor", now)}, want: "b", wantLeft: []string{"b"}},
		"one replaces the other":       {slices: []*utiltestingapi.WorkloadWrapper{smaller, larger("a").SimpleReserveQuota("cq", "flavor", now), slice("b", 2).Annotation(WorkloadSliceReplacementFor, "ns/a")}, want: "b", wantLeft: []string{"a", "b", "smaller"}},
		"gate off":                     {gateOff: true, slices: []*utiltestingapi.WorkloadWrapper{smaller, larger("a"), larger("b")}, wantErr: true, wantLeft: []string{"a", "b", "smaller"}},
		"one has quota, and is to be stopped": {
			slices: []*utiltestingapi.WorkloadWrapper{slice("smaller", 1).Creation(now.Add(-time.Minute)), larger("a"), larger("b").SimpleReserveQuota("cq", "flavor", now).Condition(evicted)},
			// The next reconciliation has that one alone.
			wantErr: true, wantLeft: []string{"b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			builder := utiltesting.NewClientBuilder().WithStatusSubresource(&kueue.Workload{}).
				WithIndex(&kueue.Workload{}, indexer.OwnerReferenceIndexKey(gvk), indexer.WorkloadOwnerIndexFunc(gvk))
			for _, slice := range tc.slices {
				builder.WithObjects(slice.Clone().Finalizers(kueue.ResourceInUseFinalizerName).Obj())
			}
			cl := builder.Build()
			pods := cmp.Or(tc.pods, 2)
			job := utiltestingjob.MakeJob("job", "ns").UID("job").Parallelism(pods).Obj()
			got, _, err := EnsureWorkloadSlices(ctx, cl, testingclock.NewFakeClock(now), []kueue.PodSet{*utiltestingapi.MakePodSet("main", int(pods)).Obj()}, job, gvk)
			if gotName := ptr.Deref(got, kueue.Workload{}).Name; gotName != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("Unexpected slice %q, %v; want %q", gotName, err, tc.want)
			}
			left, err := FindNotFinishedWorkloads(ctx, cl, job, gvk)
			if err != nil {
				t.Fatalf("Listing the slices: %v", err)
			}
			var names []string
			for _, wl := range left {
				names = append(names, wl.Name)
			}
			slices.Sort(names)
			if diff := gocmp.Diff(tc.wantLeft, names); diff != "" {
				t.Errorf("Unexpected slices left (-want,+got):\n%s", diff)
			}
		})
	}
}

// One that was written since the copy may have quota, and its job may run.
func TestForkThatWasWrittenSinceIsKept(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	fork := func(name string) *kueue.Workload {
		return utiltestingapi.MakeWorkload(name, "ns").Annotation(WorkloadSliceReplacementFor, "ns/smaller").Finalizers(kueue.ResourceInUseFinalizerName).Obj()
	}
	write := func(ctx context.Context, cl client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		latest := &kueue.Workload{}
		if err := cl.Get(ctx, client.ObjectKeyFromObject(obj), latest); err != nil {
			return err
		}
		latest.Labels = map[string]string{"written": "since"}
		return errors.Join(cl.Update(ctx, latest), cl.Delete(ctx, obj, opts...))
	}
	cl := utiltesting.NewClientBuilder().WithObjects(fork("a"), fork("b")).WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{Delete: write}).Build()
	list := &kueue.WorkloadList{}
	if err := cl.List(ctx, list); err != nil {
		t.Fatalf("Listing the slices: %v", err)
	}
	if _, err := settle(ctx, cl, list.Items); err == nil {
		t.Error("The slice is deleted on an old copy")
	}
	b := &kueue.Workload{}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(&list.Items[1]), b); err != nil {
		t.Fatalf("Getting the slice: %v", err)
	}
	if !b.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(b, kueue.ResourceInUseFinalizerName) {
		t.Errorf("It is being deleted, or has lost its finalizer: %v", b.ObjectMeta)
	}
}

func TestOutdated(t *testing.T) {
	now := time.Now()
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	waiting := utiltestingapi.MakeWorkload("smaller", "ns").ControllerReference(gvk, "job", "job")
	smaller := waiting.Clone().SimpleReserveQuota("cq", "flavor", now)
	larger := func(replaced string) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("larger", "ns").ControllerReference(gvk, "job", "job").Annotation(WorkloadSliceReplacementFor, replaced)
	}
	reserved := larger("ns/smaller").SimpleReserveQuota("cq", "flavor", now)
	elsewhere := larger("other/smaller").SimpleReserveQuota("cq", "flavor", now)
	inOther := larger("ns/smaller").SimpleReserveQuota("other", "flavor", now)
	copied := utiltestingapi.MakeWorkload("larger", "ns").Annotation(WorkloadSliceReplacementFor, "ns/smaller").SimpleReserveQuota("cq", "flavor", now)
	withoutAdmission := larger("ns/smaller").SimpleReserveQuota("cq", "flavor", now)
	withoutAdmission.Status.Admission = nil
	cases := map[string]struct {
		gateOff         bool
		elasticOff      bool
		smaller, larger *utiltestingapi.WorkloadWrapper
		want            string
	}{
		"both hold quota":       {smaller: smaller, larger: reserved, want: kueue.WorkloadSliceReplaced},
		"both do, gate off":     {gateOff: true, smaller: smaller, larger: reserved, want: kueue.WorkloadSliceReplaced},
		"elastic jobs are off":  {elasticOff: true, smaller: smaller, larger: reserved},
		"the larger one waits":  {smaller: smaller, larger: larger("ns/smaller")},
		"finished already":      {smaller: smaller.Clone().Finished(), larger: reserved},
		"gone":                  {smaller: utiltestingapi.MakeWorkload("other", "ns"), larger: reserved},
		"has lost its quota":    {smaller: waiting, larger: reserved, want: kueue.WorkloadFinishedReasonOutOfSync},
		"has none, gate off":    {gateOff: true, smaller: waiting, larger: reserved},
		"both have none":        {smaller: waiting, larger: larger("ns/smaller")},
		"has none, finished":    {smaller: waiting.Clone().Finished(), larger: reserved},
		"has none, of nobody":   {smaller: utiltestingapi.MakeWorkload("smaller", "ns"), larger: reserved},
		"of another namespace":  {smaller: utiltestingapi.MakeWorkload("smaller", "other").SimpleReserveQuota("cq", "flavor", now), larger: elsewhere},
		"the same name is here": {smaller: smaller, larger: elsewhere},
		"of another job": {
			smaller: utiltestingapi.MakeWorkload("smaller", "ns").ControllerReference(gvk, "other", "other").SimpleReserveQuota("cq", "flavor", now),
			larger:  reserved,
		},
		"a copy, whose job is still to come": {
			smaller: smaller,
			larger:  copied,
			want:    kueue.WorkloadSliceReplaced,
		},
		"of another ClusterQueue":              {smaller: smaller, larger: inOther, want: kueue.WorkloadFinishedReasonOutOfSync},
		"of another ClusterQueue, and runs":    {smaller: smaller.Clone().AdmittedAt(true, now), larger: inOther},
		"has none, as the larger one, soon":    {smaller: waiting, larger: reserved.Clone().Evicted()},
		"has none, a copy without its job yet": {smaller: waiting, larger: copied},
		"without an admission":                 {smaller: smaller, larger: withoutAdmission},
		"it names itself":                      {smaller: smaller, larger: larger("ns/larger").SimpleReserveQuota("cq", "flavor", now)},
		"it names what is no name":             {smaller: smaller, larger: larger("a/b/c").SimpleReserveQuota("cq", "flavor", now)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, !tc.elasticOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := tc.larger.Clone().Obj()
			cl := utiltesting.NewClientBuilder().WithObjects(tc.smaller.Clone().Obj(), wl).Build()
			got, reason, err := Outdated(ctx, cl, wl)
			if err != nil || reason != tc.want || (got != nil) != (tc.want != "") {
				t.Errorf("Unexpected slice %v to be finished with %q, %v", got, reason, err)
			}
			if got, err = Replaced(ctx, cl, wl); err != nil || (got != nil) != (tc.want == kueue.WorkloadSliceReplaced) {
				t.Errorf("Unexpected replaced slice %v, %v", got, err)
			}
		})
	}
}

// A workload that names one of somebody else's gets no quota of it, and may preempt it.
func TestReplacedWorkloadSliceOfAnotherJob(t *testing.T) {
	gvk := batchv1.SchemeGroupVersion.WithKind("Job")
	larger := func(namespace string) *workload.Info {
		return workload.NewInfo(utiltestingapi.MakeWorkload("larger", namespace).ControllerReference(gvk, "job", "job").
			Annotation(WorkloadSliceReplacementFor, "ns/smaller").Admission(utiltestingapi.MakeAdmission("cq").Obj()).Obj())
	}
	cases := map[string]struct {
		gateOff bool
		larger  *workload.Info
		owner   string
		want    bool
	}{
		"of the same job":                {larger: larger("ns"), owner: "job", want: true},
		"of another job":                 {larger: larger("ns"), owner: "other"},
		"of another namespace":           {larger: larger("other"), owner: "job"},
		"of another namespace, gate off": {gateOff: true, larger: larger("other"), owner: "job", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			smaller := utiltestingapi.MakeWorkload("smaller", "ns").ControllerReference(gvk, "job", tc.owner).Obj()
			snapshot := &schdcache.Snapshot{Manager: hierarchy.NewManagerForTest(
				map[kueue.CohortReference]*schdcache.CohortSnapshot{},
				map[kueue.ClusterQueueReference]*schdcache.ClusterQueueSnapshot{
					"cq": {Workloads: map[workload.Reference]*workload.Info{workload.Key(smaller): workload.NewInfo(smaller)}},
				})}
			if _, replaced := ReplacedWorkloadSlice(tc.larger, snapshot); (replaced != nil) != tc.want {
				t.Errorf("Unexpected slice %v", replaced)
			}
			if _, target := FindReplacedSliceTarget(tc.larger.Obj, []*preemption.Target{{WorkloadInfo: workload.NewInfo(smaller)}}); (target != nil) != tc.want {
				t.Errorf("Unexpected target %v", target)
			}
		})
	}
}
