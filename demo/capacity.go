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

	ctrl "sigs.k8s.io/controller-runtime"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
)

// capacity is the external controller of the check "capacity". It asks to
// retry the first job later, once; it takes a moment to find that out.
type capacity struct {
	round round
	since time.Time
}

func setupCapacity(mgr ctrl.Manager) error {
	c := &capacity{}
	return external.Setup(mgr, external.Options{ControllerName: controllerName(script.First.Check), Decide: c.decide})
}

func (c *capacity) decide(_ context.Context, wl *kueue.Workload, _ external.Check) (external.Verdict, error) {
	if !isOf(wl, script.Job) || !c.round.isFirst(wl) {
		return external.Ready("there is room"), nil
	}
	if c.since.IsZero() {
		c.since = time.Now()
	}
	if left := capacityThinks - time.Since(c.since); left > 0 {
		return external.Verdict{AskAgain: left}, nil
	}
	return external.Retry(script.First.Delay, "no room in the zone"), nil
}
