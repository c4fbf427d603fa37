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

// budget is the external controller of the check "budget". Its answer about
// the first job is slow: by then the job is evicted and waits. It asks for a
// longer delay, once.
type budget struct {
	checkClient
	evicted time.Time
	asked   bool
}

func setupBudget(mgr ctrl.Manager) error {
	b := &budget{checkClient: checkClient{Client: mgr.GetClient(), check: script.Second.Check}}
	if err := mgr.Add(activator(b.activate)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("budget").For(&kueue.Workload{}).Complete(b)
}

func (b *budget) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wl := &kueue.Workload{}
	if err := b.Get(ctx, req.NamespacedName, wl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	state := b.stateOf(wl)
	if isOf(wl, script.Job) && !b.asked {
		if b.evicted.IsZero() {
			if !hasCondition(wl, kueue.WorkloadEvicted) {
				return ctrl.Result{}, nil
			}
			b.evicted = time.Now()
		}
		if left := budgetThinks - time.Since(b.evicted); left > 0 || state == "" {
			return ctrl.Result{RequeueAfter: max(left, 50*time.Millisecond)}, nil
		}
		result, err := b.answer(ctx, wl, kueue.AdmissionCheckState{
			State:               kueue.CheckStateRetry,
			Message:             "the budget is spent for now",
			RequeueAfterSeconds: ptr.To(int32(script.Second.Delay.Seconds())),
		})
		b.asked = err == nil && result.IsZero()
		return result, err
	}
	if !hasCondition(wl, kueue.WorkloadQuotaReserved) || state != kueue.CheckStatePending {
		return ctrl.Result{}, nil
	}
	return b.answer(ctx, wl, kueue.AdmissionCheckState{State: kueue.CheckStateReady, Message: "paid for"})
}
