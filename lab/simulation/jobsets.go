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
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"sigs.k8s.io/kueue/pkg/controller/constants"
)

// A JobSet is stopped and started as a whole, and has a pod set for each of its jobs.

// createJobSet creates one with two jobs, which together ask for as much as any other job.
func (w *World) createJobSet(name, queue, priority string) {
	set := &jobsetapi.JobSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{constants.QueueLabel: queue}},
		Spec:       jobsetapi.JobSetSpec{Suspend: ptr.To(true)},
	}
	for _, job := range []string{"leader", "worker"} {
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, jobsetapi.ReplicatedJob{
			Name: job, Replicas: 1,
			Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
				Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
					}}},
				}},
			}},
		})
	}
	if priority != "" {
		set.Labels[constants.WorkloadPriorityClassLabel] = priority
	}
	w.note("JobSet %s is created in %s, priority %q", name, queue, priority)
	if err := w.admin.Create(context.Background(), set); err != nil {
		panic(err)
	}
}

// runJobSets does what the controllers of JobSets and Jobs do, and returns whether there
// was anything to do.
func (w *World) runJobSets() bool {
	changed := false
	for _, obj := range w.api.List(jobsetapi.SchemeGroupVersion.WithResource("jobsets")) {
		set := &jobsetapi.JobSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
			panic(err)
		}
		if set.Status.TerminalState != "" {
			continue
		}
		status := jobsetapi.ReplicatedJobStatus{Active: 1, Ready: 1}
		switch {
		case ptr.Deref(set.Spec.Suspend, false):
			status = jobsetapi.ReplicatedJobStatus{Suspended: 1}
		case w.judge.unready[set.Name]:
			status.Ready = 0
		}
		var all []jobsetapi.ReplicatedJobStatus
		for _, job := range set.Spec.ReplicatedJobs {
			status.Name = job.Name
			all = append(all, status)
		}
		if equality.Semantic.DeepEqual(all, set.Status.ReplicatedJobsStatus) {
			continue
		}
		set.Status.ReplicatedJobsStatus = all
		if err := w.admin.Status().Update(context.Background(), set); err == nil {
			changed = true
			w.note("JobSet %s has %d jobs with pods, %d ready", set.Name, len(all)*int(status.Active), len(all)*int(status.Ready))
		}
	}
	return changed
}

// finishJobSet has all jobs of a JobSet complete.
func (w *World) finishJobSet(name string) {
	set := &jobsetapi.JobSet{}
	if err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, set); err != nil || ptr.Deref(set.Spec.Suspend, false) {
		return
	}
	for i := range set.Status.ReplicatedJobsStatus {
		job := &set.Status.ReplicatedJobsStatus[i]
		job.Active, job.Ready, job.Succeeded = 0, 0, 1
	}
	set.Status.TerminalState = string(jobsetapi.JobSetCompleted)
	set.Status.Conditions = append(set.Status.Conditions, metav1.Condition{
		Type: string(jobsetapi.JobSetCompleted), Status: metav1.ConditionTrue, Reason: "AllJobsCompleted", LastTransitionTime: metav1.Now(),
	})
	if err := w.admin.Status().Update(context.Background(), set); err == nil {
		w.note("JobSet %s completes", name)
	}
}
