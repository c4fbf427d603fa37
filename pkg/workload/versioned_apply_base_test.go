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

package workload

import (
	"context"

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// applyForTest applies what update sets in wl, if it returns true.
func applyForTest(ctx context.Context, c client.Client, wl *kueue.Workload, strict bool, update func(*kueue.Workload) bool) error {
	var options []workloadpatching.PatchStatusOption
	if !strict {
		options = append(options, workloadpatching.WithLooseOnApply())
	}
	return workloadpatching.PatchAdmissionStatus(ctx, c, wl, testingclock.NewFakeClock(at(0)), func(wl *kueue.Workload) (bool, error) {
		return update(wl), nil
	}, options...)
}
