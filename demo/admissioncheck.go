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

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// controllerName is the spec.controllerName of the AdmissionCheck of a name.
func controllerName(check string) string {
	return "example.com/" + check
}

// isOf tells whether the Workload belongs to the Job.
func isOf(wl *kueue.Workload, job string) bool {
	return len(wl.OwnerReferences) > 0 && wl.OwnerReferences[0].Name == job
}

// round tells a Workload's first reservation of quota from later ones. Without
// the gate, which the demo can show too, Kueue counts no retries.
type round struct {
	first time.Time
}

func (r *round) isFirst(wl *kueue.Workload) bool {
	reserved := meta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime.Time
	if r.first.IsZero() {
		r.first = reserved
	}
	return r.first.Equal(reserved)
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
