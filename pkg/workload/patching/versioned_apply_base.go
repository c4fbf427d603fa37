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

package patching

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/features"
)

// errDecidedOnOlder is no conflict, which would be tried again.
var errDecidedOnOlder = errors.New("the write was decided on an older version")

// patchVersion is PatchAdmissionStatus with the gate on: it writes what update sets
// to the version that it was decided on.
func patchVersion(ctx context.Context, c client.Client, wl *kueue.Workload, clk clock.Clock, update UpdateFunc, opts *patchStatusOptions) error {
	seen := wl.DeepCopy()
	if !opts.ForceApply && features.Enabled(features.WorkloadRequestUseMergePatch) {
		stored := mergeBase(wl)
		err := patchStatus(ctx, c, stored, constants.AdmissionName, func(latest *kueue.Workload) (bool, error) {
			switch {
			case latest.ResourceVersion == seen.ResourceVersion:
				latest.Status.Admission = seen.Status.Admission.DeepCopy()
			case !canApplyTo(seen, latest, clk):
				return false, errDecidedOnOlder
			}
			return update(latest)
		}, opts)
		if errors.Is(err, errDecidedOnOlder) {
			return apierrors.NewConflict(kueue.Resource("workloads"), wl.Name, err)
		}
		if err == nil {
			stored.DeepCopyInto(wl)
		}
		return err
	}
	updated := wl.DeepCopy()
	if changed, err := update(updated); err != nil || !changed {
		return err
	}
	return applyToVersion(ctx, c, seen, clk, opts.StrictApply, func(version string) error {
		patch := prepareWorkloadPatch(updated, true, clk)
		patch.ResourceVersion = version
		err := c.Status().Patch(ctx, patch, client.Apply, client.FieldOwner(constants.AdmissionName), client.ForceOwnership) //nolint:staticcheck //SA1019: client.Apply is deprecated
		if err == nil {
			patch.DeepCopyInto(wl)
		}
		return err
	})
}
