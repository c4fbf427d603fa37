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

	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// capacity is the external controller of the check "capacity". It asks to
// retry the first job later, once; it takes a moment to find that out.
type capacity struct {
	checkClient
	since time.Time
	asked bool
}

func setupCapacity(mgr ctrl.Manager) error {
	c := &capacity{checkClient: checkClient{Client: mgr.GetClient(), check: script.First.Check}}
	if err := mgr.Add(activator(c.activate)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("capacity").For(&kueue.Workload{}).Complete(c)
}

func (c *capacity) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wl := &kueue.Workload{}
	if err := c.Get(ctx, req.NamespacedName, wl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !hasCondition(wl, kueue.WorkloadQuotaReserved) || c.stateOf(wl) != kueue.CheckStatePending {
		return ctrl.Result{}, nil
	}
	if c.asked || !isOf(wl, script.Job) {
		return c.answer(ctx, wl, kueue.AdmissionCheckState{State: kueue.CheckStateReady, Message: "there is room"})
	}

	if c.since.IsZero() {
		c.since = time.Now()
	}
	if left := capacityThinks - time.Since(c.since); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	result, err := c.answer(ctx, wl, kueue.AdmissionCheckState{
		State:               kueue.CheckStateRetry,
		Message:             "no room in the zone",
		RequeueAfterSeconds: ptr.To(int32(script.First.Delay.Seconds())),
	})
	c.asked = err == nil && result.IsZero()
	return result, err
}
