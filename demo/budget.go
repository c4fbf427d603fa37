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
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
)

// budget is the external controller of the check "budget". Its answer about
// the first job is slow: by then the job is evicted and waits. It asks for a
// longer delay, once.
type budget struct {
	writer *external.Writer
	round  round
	once   sync.Once
}

func setupBudget(mgr ctrl.Manager) error {
	name := controllerName(script.Second.Check)
	b := &budget{writer: &external.Writer{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), FieldManager: name}}
	return external.Setup(mgr, external.Options{ControllerName: name, Decide: b.decide})
}

func (b *budget) decide(ctx context.Context, wl *kueue.Workload, check external.Check) (external.Verdict, error) {
	if !isOf(wl, script.Job) || !b.round.isFirst(wl) {
		return external.Ready("paid for"), nil
	}
	b.once.Do(func() {
		key := client.ObjectKeyFromObject(wl)
		time.AfterFunc(capacityThinks+budgetThinks, func() { b.answer(ctx, key, check.State.Name) })
	})
	return external.Verdict{}, nil
}

func (b *budget) answer(ctx context.Context, key client.ObjectKey, check kueue.AdmissionCheckReference) {
	err := b.writer.SetState(ctx, key, check, func(*kueue.Workload, kueue.AdmissionCheckState) external.Verdict {
		return external.Retry(script.Second.Delay, "the budget is spent for now")
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The answer was not written")
	}
}
