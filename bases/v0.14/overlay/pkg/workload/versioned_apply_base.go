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

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
)

// patchVersion is PatchAdmissionStatus with the gate on: it writes what update sets
// to the version that it was decided on. If update changes w itself, w gets the
// resource version that results, so that another write can follow.
func patchVersion(ctx context.Context, c client.Client, w *kueue.Workload, clk clock.Clock, update func() (*kueue.Workload, bool, error), opts *PatchAdmissionStatusOptions) error {
	seen := w.DeepCopy()
	updated, changed, err := update()
	if err != nil || !changed {
		return err
	}
	if features.Enabled(features.WorkloadRequestUseMergePatch) {
		stored := mergeBase(seen)
		err := clientutil.PatchStatus(ctx, c, stored, func() (client.Object, bool, error) { return updated, true, nil })
		if err == nil {
			stored.DeepCopyInto(w)
		}
		return err
	}
	seen.ResourceVersion = updated.ResourceVersion
	return applyToVersion(ctx, c, seen, clk, opts.StrictApply, func(version string) error {
		patch := PrepareWorkloadPatch(updated, true, clk)
		patch.ResourceVersion = version
		err := ApplyAdmissionStatusPatch(ctx, c, patch)
		if err == nil && w == updated {
			w.ResourceVersion = patch.ResourceVersion
		}
		return err
	})
}
