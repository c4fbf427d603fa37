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

package simulation

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// An elastic job changes how many pods it has while it runs. For fewer, its workload
// is changed. For more it gets another one, a slice, which asks its own checks, and
// takes the place of the one before with its quota.

// maxPods does not fit together with anything else.
const maxPods = 2

// setElastic lets Kueue take elastic jobs as such, or as the base does. Those of v0.14.8
// do not get along with topologies: with these, a job that was scaled, and then evicted
// for whatever reason, cannot be started again.
func setElastic(on bool) error {
	return errors.Join(setFeature(features.ElasticJobsViaWorkloadSlices, on || elasticByDefault),
		setFeature(features.TopologyAwareScheduling, !on || elasticByDefault))
}

// scaleJob changes how many pods an elastic job has, if it is one that is not over.
func (w *World) scaleJob(name string, pods int32) {
	patchSpec(w, &batchv1.Job{}, client.ObjectKey{Namespace: namespace, Name: name}, func(job *batchv1.Job) {
		if workloadslicing.Enabled(job) && !jobFinished(job) && *job.Spec.Parallelism != pods {
			w.note("job %s is scaled from %d to %d pods", name, *job.Spec.Parallelism, pods)
			job.Spec.Parallelism = ptr.To(pods)
		}
	})
}

// scaleAll gives all elastic jobs as many pods as the others have.
func (w *World) scaleAll() {
	for _, obj := range w.api.List(batchv1.SchemeGroupVersion.WithResource("jobs")) {
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, job); err != nil {
			panic(err)
		}
		w.scaleJob(job.Name, 1)
	}
}

// isScaled: not all ask for the same, or some have a part of it already.
func isScaled(wl *kueue.Workload) bool {
	return pods(wl) > 1 || workloadslicing.ReplacementForKey(wl) != nil
}

// pods of a workload, each of which asks for one CPU.
func pods(wl *kueue.Workload) int {
	millis := int64(0)
	for _, set := range wl.Spec.PodSets {
		for _, container := range set.Template.Spec.Containers {
			millis += int64(set.Count) * container.Resources.Requests.Cpu().MilliValue()
		}
	}
	return int(millis / 1000)
}

// isReplaced: another one holds its quota, and it is about to be finished.
func isReplaced(old *kueue.Workload, all []*kueue.Workload) bool {
	for _, wl := range all {
		if key := workloadslicing.ReplacementForKey(wl); key != nil && *key == workload.Key(old) && workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) {
			return true
		}
	}
	return false
}

// takesOver: it is to get the quota that a slice holds. Where the job is moved to another
// ClusterQueue both get their own, for good, with plain Kueue, too.
func takesOver(wl *kueue.Workload, all []*kueue.Workload) bool {
	key := workloadslicing.ReplacementForKey(wl)
	return key != nil && slices.ContainsFunc(all, func(old *kueue.Workload) bool {
		return *key == workload.Key(old) && workload.HasQuotaReservation(old)
	})
}

// isScaling: it has no pods yet, or they are not as many as it is to have. Kueue leaves a
// slice open whose job completes before its larger one has quota, on both bases.
func (w *World) isScaling(job *batchv1.Job) bool {
	return workloadslicing.Enabled(job) && !slices.ContainsFunc(w.workloads(), func(wl *kueue.Workload) bool {
		isOwned := slices.ContainsFunc(wl.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == job.UID })
		return isOwned && workload.IsAdmitted(wl) && !workloadfinish.IsFinished(wl) && pods(wl) == int(*job.Spec.Parallelism)
	})
}

// job: Kueue stops none whose workload, or one of its slices, is to run.
func (j *judge) job(write memapi.Write) {
	isSuspended := func(job *unstructured.Unstructured) bool {
		suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
		return suspended
	}
	if write.Old == nil || isSuspended(write.Old) || !isSuspended(write.New) || !strings.HasPrefix(write.Caller, "kueue-") {
		return
	}
	for _, versions := range j.versions {
		wl := versions[slices.Max(slices.Collect(maps.Keys(versions)))]
		isOwned := slices.ContainsFunc(wl.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == write.New.GetUID() })
		if isOwned && workload.IsAdmitted(wl) && !workloadevict.IsEvicted(wl) && !workloadfinish.IsFinished(wl) && time.Since(j.admissionLost[wl.Name]) > known {
			j.fail("rule 3, job that may run", "%s stops %s of %s", write.Caller, write.New.GetName(), describe(wl))
		}
	}
}
