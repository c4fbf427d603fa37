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
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/demo/timeline"
	"kueue-acrequeueafter/lab/objects"
)

// controllerName is the spec.controllerName of the AdmissionCheck of a name.
func controllerName(check string) string {
	return "example.com/" + check
}

// check is the external controller of an admission check. It asks to retry the
// first job later, once, and lets everything else pass. One that never passes says
// Retry whenever it is asked, without a delay.
type check struct {
	client.Client
	timeline.Ask
	thinks time.Duration // from the first job's first reservation to the answer
	why    string
	never  bool

	began    time.Time
	since    time.Time
	answered bool
}

func (c *check) setup(mgr ctrl.Manager) error {
	c.Client, c.began = mgr.GetClient(), time.Now()
	return errors.Join(
		ctrl.NewControllerManagedBy(mgr).Named(c.Check).For(&kueue.Workload{}).Complete(c),
		ctrl.NewControllerManagedBy(mgr).Named(c.Check+"-active").For(&kueue.AdmissionCheck{}).Complete(reconcile.Func(c.activate)),
	)
}

// activate says that the check has a controller: without one Kueue admits nothing.
func (c *check) activate(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Name != c.Check {
		return ctrl.Result{}, nil
	}
	active := &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: c.Check},
		Status: kueue.AdmissionCheckStatus{Conditions: []metav1.Condition{{
			Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active", Message: "at work", LastTransitionTime: metav1.NewTime(c.began),
		}}},
	}
	return ctrl.Result{}, objects.ApplyStatus(ctx, c, active, client.FieldOwner(controllerName(c.Check)))
}

func (c *check) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wl := &kueue.Workload{}
	if err := c.Get(ctx, req.NamespacedName, wl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	reserved := meta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	if c.never || c.answered || len(wl.OwnerReferences) == 0 || wl.OwnerReferences[0].Name != script.Job {
		if !reserved || !c.isPending(wl) {
			return ctrl.Result{}, nil
		}
		if c.never {
			return c.write(ctx, wl, kueue.AdmissionCheckState{State: kueue.CheckStateRetry, Message: c.why})
		}
		return c.write(ctx, wl, kueue.AdmissionCheckState{State: kueue.CheckStateReady, Message: "nothing in the way"})
	}
	if c.since.IsZero() {
		if !reserved {
			return ctrl.Result{}, nil
		}
		c.since = time.Now()
	}
	if left := c.thinks - time.Since(c.since); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	// By now the other check may have had the job evicted: that changes nothing.
	result, err := c.write(ctx, wl, kueue.AdmissionCheckState{
		State: kueue.CheckStateRetry, Message: c.why, RequeueAfterSeconds: ptr.To(int32(c.Delay.Seconds())),
	})
	c.answered = err == nil && result.IsZero()
	return result, err
}

func (c *check) isPending(wl *kueue.Workload) bool {
	for _, state := range wl.Status.AdmissionChecks {
		if string(state.Name) == c.Check {
			return state.State == kueue.CheckStatePending
		}
	}
	return false
}

// write answers this version of the Workload, and no later one.
func (c *check) write(ctx context.Context, wl *kueue.Workload, state kueue.AdmissionCheckState) (ctrl.Result, error) {
	state.Name, state.LastTransitionTime = kueue.AdmissionCheckReference(c.Check), metav1.Now()
	patch := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: wl.Namespace, Name: wl.Name, ResourceVersion: wl.ResourceVersion},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{state}},
	}
	err := objects.ApplyStatus(ctx, c, patch, client.FieldOwner(controllerName(c.Check)))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// startControllers starts the controllers that live outside of Kueue: one for
// each check, one for the Jobs, each with a client of its own.
func (d *demo) startControllers(ctx context.Context, cancel context.CancelCauseFunc, cfg *rest.Config) (*sync.WaitGroup, error) {
	first := &check{Ask: script.First, thinks: firstThinks, why: "no room in the zone"}
	// Its answer is late: by then the job is evicted and waits.
	second := &check{Ask: script.Second, thinks: firstThinks + secondThinks, why: "the budget is spent for now"}
	stormy := &check{Ask: timeline.Ask{Check: licence}, never: true, why: "no licence is free"}
	var running sync.WaitGroup
	version, err := objects.Version(cfg)
	if err != nil {
		return &running, err
	}
	for name, setup := range map[string]func(ctrl.Manager) error{
		script.First.Check:  first.setup,
		script.Second.Check: second.setup,
		licence:             stormy.setup,
		"jobs":              setupJobs,
	} {
		own := rest.CopyConfig(cfg)
		own.UserAgent = "demo-" + name
		mgr, err := ctrl.NewManager(own, manager.Options{
			Scheme:  objects.Scheme(version),
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
