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
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// controllerName is the spec.controllerName of the AdmissionCheck of a name.
func controllerName(check string) string {
	return "example.com/" + check
}

// checkClient is what the controller of an admission check needs of the API.
type checkClient struct {
	client.Client
	check string
}

// activate tells Kueue that the check has a controller.
func (c checkClient) activate(ctx context.Context) error {
	check := &kueue.AdmissionCheck{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "AdmissionCheck"},
		ObjectMeta: metav1.ObjectMeta{Name: c.check},
		Status: kueue.AdmissionCheckStatus{Conditions: []metav1.Condition{{
			Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue,
			Reason: "Active", Message: "the controller is at work", LastTransitionTime: metav1.Now(),
		}}},
	}
	return c.Status().Patch(ctx, check, client.Apply, client.FieldOwner(controllerName(c.check)), client.ForceOwnership)
}

// answer writes the check's entry in the status of a Workload, if the Workload
// is still the one that the answer was made for.
func (c checkClient) answer(ctx context.Context, wl *kueue.Workload, answer kueue.AdmissionCheckState) (ctrl.Result, error) {
	answer.Name = kueue.AdmissionCheckReference(c.check)
	answer.LastTransitionTime = metav1.Now()
	patch := &kueue.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Namespace: wl.Namespace, Name: wl.Name, ResourceVersion: wl.ResourceVersion},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{answer}},
	}
	err := c.Status().Patch(ctx, patch, client.Apply, client.FieldOwner(controllerName(c.check)), client.ForceOwnership)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}

// stateOf returns the check's state, if Kueue asked for the check.
func (c checkClient) stateOf(wl *kueue.Workload) kueue.CheckState {
	for _, check := range wl.Status.AdmissionChecks {
		if string(check.Name) == c.check {
			return check.State
		}
	}
	return ""
}

func hasCondition(wl *kueue.Workload, condition string) bool {
	return meta.IsStatusConditionTrue(wl.Status.Conditions, condition)
}

// isOf tells whether the Workload belongs to the Job.
func isOf(wl *kueue.Workload, job string) bool {
	return len(wl.OwnerReferences) > 0 && wl.OwnerReferences[0].Name == job
}

// startControllers starts the controllers that live outside of Kueue: one for
// each check, one for the Jobs, each with a client of its own.
func (d *demo) startControllers(ctx context.Context, cancel context.CancelCauseFunc, cfg *rest.Config) (*sync.WaitGroup, error) {
	var running sync.WaitGroup
	for name, setup := range map[string]func(ctrl.Manager) error{
		"capacity": setupCapacity,
		"budget":   setupBudget,
		"jobs":     setupJobs,
	} {
		own := rest.CopyConfig(cfg)
		own.UserAgent = "demo-" + name
		mgr, err := ctrl.NewManager(own, manager.Options{
			Scheme:  newScheme(),
			Metrics: metricsserver.Options{BindAddress: "0"},
		})
		if err == nil {
			err = setup(mgr)
		}
		if err != nil {
			return &running, fmt.Errorf("controller %s: %w", name, err)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			if err := mgr.Start(ctx); err != nil {
				cancel(fmt.Errorf("controller %s: %w", name, err))
			}
		}()
	}
	return &running, nil
}
