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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/controller/jobs/jobset"
	"sigs.k8s.io/kueue/pkg/controller/jobs/pod"
)

// What is the same for all kinds of jobs.

// setUpJobs sets up Kueue's controllers of the kinds of jobs that there are.
func (w *World) setUpJobs(ctx context.Context, mgr ctrl.Manager, recorder eventRecorder, options []jobframework.Option) error {
	for _, kind := range []struct {
		used          bool
		setUpIndexes  func(context.Context, client.FieldIndexer) error
		newReconciler jobframework.ReconcilerFactory
	}{
		{true, job.SetupIndexes, job.NewReconciler},
		{w.config.Pods, pod.SetupIndexes, pod.NewReconciler},
		{w.config.JobSets, jobset.SetupIndexes, jobset.NewReconciler},
	} {
		if !kind.used {
			continue
		}
		if err := kind.setUpIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		jobs, err := kind.newReconciler(ctx, mgr.GetClient(), mgr.GetFieldIndexer(), recorder, options...)
		if err != nil {
			return err
		}
		if err := jobs.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}

// relabel changes the labels of a job, of whatever kind.
func (w *World) relabel(name string, change func(map[string]string)) {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	patchSpec(w, &batchv1.Job{}, key, func(job *batchv1.Job) { change(job.Labels) })
	patchSpec(w, &corev1.Pod{}, key, func(pod *corev1.Pod) { change(pod.Labels) })
	patchSpec(w, &jobsetapi.JobSet{}, key, func(set *jobsetapi.JobSet) { change(set.Labels) })
}
