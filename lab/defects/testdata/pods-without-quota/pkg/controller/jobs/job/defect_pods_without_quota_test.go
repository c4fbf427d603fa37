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

package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workloadslicing"
)

// TestDefectPodsWithoutQuota: an elastic job runs with 2 pods and is scaled to 4. It is preempted
// before there is quota for 4. Its 2 pods run on, and their quota is given to the other job.
// The evicted slice is finished, which releases its quota, since a newer one is pending
// (pkg/workloadslicing/workloadslicing.go:325). The job goes on with the newer one, which is not
// evicted, so that nobody stops the job (pkg/controller/jobframework/reconciler.go:658).
// Right: the job is suspended before the evicted slice releases its quota.
func TestDefectPodsWithoutQuota(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ElasticJobsViaWorkloadSlices, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	now := time.Now().Truncate(time.Second)
	job := utiltestingjob.MakeJob("job", "ns").
		UID("job").
		Queue("lq").
		Request(corev1.ResourceCPU, "1").
		SetAnnotation(constants.ElasticJobAnnotation, "true").
		Parallelism(4).
		Suspend(false).
		Active(2).
		Obj()
	slice := func(name string, count int, created time.Time) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload(name, "ns").
			Queue("lq").
			Creation(created).
			Annotation(constants.ElasticJobAnnotation, "true").
			PodSets(*utiltestingapi.MakePodSet(kueue.DefaultPodSetName, count).Request(corev1.ResourceCPU, "1").Obj())
	}
	preempted := slice("two-pods", 2, now.Add(-time.Minute)).
		SimpleReserveQuota("cq", "default", now).
		AdmittedAt(true, now).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption}).
		Obj()
	pending := slice("four-pods", 4, now).
		Annotation(workloadslicing.WorkloadSliceReplacementFor, "ns/two-pods").
		Obj()

	builder := utiltesting.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge})
	indexer := utiltesting.AsIndexer(builder)
	if err := SetupIndexes(ctx, indexer); err != nil {
		t.Fatalf("Setting up the indexes: %v", err)
	}
	cl := builder.WithObjects(utiltesting.MakeNamespace("ns"), job).WithStatusSubresource(&kueue.Workload{}).Build()
	for _, wl := range []*kueue.Workload{preempted, pending} {
		if err := ctrl.SetControllerReference(job, wl, cl.Scheme()); err != nil {
			t.Fatalf("Setting the owner: %v", err)
		}
		if err := cl.Create(ctx, wl); err != nil {
			t.Fatalf("Creating the Workload: %v", err)
		}
	}
	reconciler, err := NewReconciler(ctx, cl, indexer, &utiltesting.EventRecorder{},
		jobframework.WithCache(schdcache.New(cl)), jobframework.WithClock(testingclock.NewFakeClock(now)))
	if err != nil {
		t.Fatalf("Creating the reconciler: %v", err)
	}

	// Three times, so that it comes to rest.
	for range 3 {
		if _, err := reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}); err != nil {
			t.Fatalf("Reconciling: %v", err)
		}
	}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(preempted), preempted); err != nil {
		t.Fatalf("Reading the preempted slice: %v", err)
	}
	var got batchv1.Job
	if err := cl.Get(ctx, client.ObjectKeyFromObject(job), &got); err != nil {
		t.Fatalf("Reading the job: %v", err)
	}
	if workloadfinish.IsFinished(preempted) && !*got.Spec.Suspend {
		t.Error("The slice of an elastic job was preempted, and its quota is released, but the job is not suspended: its pods run on without quota")
	}
}
