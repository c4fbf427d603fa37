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

package provisioning

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// patchCheckStates writes the check states in wlPatch. With the gate on it is a
// merge patch with the resource version, which changes, and so owns, no more than
// what differs from wl: an apply of the whole list would own the delays that
// other checks ask for, and one without requeueState remove what it owns there.
func (c *Controller) patchCheckStates(ctx context.Context, wl, wlPatch *kueue.Workload) error {
	if !features.Enabled(features.ACRequeueAfter) {
		return c.client.Status().Patch(ctx, wlPatch, client.Apply, client.FieldOwner(kueue.ProvisioningRequestControllerName), client.ForceOwnership)
	}
	return c.mergeStatus(ctx, wl, func() {
		setCheckStates(wl, wlPatch.Status.AdmissionChecks)
	})
}

// mergeStatus writes what update changes in the status by a merge patch with the
// resource version.
func (c *Controller) mergeStatus(ctx context.Context, wl *kueue.Workload, update func()) error {
	// One time that the API does not take back would have it refuse the whole list.
	times.Repair(wl)
	return clientutil.PatchStatus(ctx, c.client, wl, func() (client.Object, bool, error) {
		update()
		times.Repair(wl)
		return wl, true, nil
	})
}

// merge writes what update changes, if it does, in the same way.
func (c *Controller) merge(ctx context.Context, wl *kueue.Workload, update func() (bool, error)) error {
	return clientutil.Patch(ctx, c.client, wl, func() (client.Object, bool, error) {
		changed, err := update()
		return wl, changed, err
	})
}

// checksOfFlavors returns the admission checks that the ClusterQueue asks for on
// the flavors that are assigned to the workload.
func checksOfFlavors(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	return workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, admissioncheck.NewAdmissionChecks(cq))
}

// cleanUpRequests deletes the requests of a workload that was evicted.
func (c *Controller) cleanUpRequests(context.Context, *kueue.Workload, []autoscaling.ProvisioningRequest) error {
	return nil
}
