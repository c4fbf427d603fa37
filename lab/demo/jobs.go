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

package main

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pods plays the Job controller and the pods of the Jobs: a Job that is not
// suspended runs for a while and is complete.
type pods struct {
	client.Client
	began map[types.UID]time.Time
}

func setupJobs(mgr ctrl.Manager) error {
	p := &pods{Client: mgr.GetClient(), began: map[types.UID]time.Time{}}
	return ctrl.NewControllerManagedBy(mgr).Named("jobs").For(&batchv1.Job{}).Complete(p)
}

func (p *pods) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &batchv1.Job{}
	if err := p.Get(ctx, req.NamespacedName, job); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var next time.Duration
	switch began, running := p.began[job.UID]; {
	case job.Status.CompletionTime != nil:
		return ctrl.Result{}, nil
	case ptr.Deref(job.Spec.Suspend, false):
		if job.Status.Active == 0 {
			return ctrl.Result{}, nil
		}
		delete(p.began, job.UID)
		job.Status.Active, job.Status.Ready = 0, ptr.To[int32](0)
	case !running || job.Status.Active == 0:
		if !running {
			p.began[job.UID] = time.Now()
		}
		if job.Status.StartTime == nil {
			job.Status.StartTime = ptr.To(metav1.Now())
		}
		job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
		next = podsRun
	case time.Since(began) < podsRun:
		return ctrl.Result{RequeueAfter: podsRun - time.Since(began)}, nil
	default:
		now := metav1.Now()
		job.Status.Active, job.Status.Ready, job.Status.Succeeded = 0, ptr.To[int32](0), 1
		job.Status.CompletionTime = &now
		for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached,
				LastProbeTime: now, LastTransitionTime: now,
			})
		}
	}
	err := p.Status().Update(ctx, job)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{RequeueAfter: next}, err
}
