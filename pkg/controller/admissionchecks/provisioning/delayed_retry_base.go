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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	clientutil "sigs.k8s.io/kueue/pkg/util/client"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// patchCheckStates writes the check states that update sets. With the gate on it
// is a merge patch with the resource version, which changes, and so owns, no more
// than what differs from wl: an apply of the whole list would own the delays that
// other checks ask for, and one without requeueState remove what it owns there.
func (c *Controller) patchCheckStates(ctx context.Context, wl *kueue.Workload, update workloadpatching.UpdateFunc) error {
	if !features.Enabled(features.ACRequeueAfter) {
		return workloadpatching.PatchStatus(ctx, c.client, wl, kueue.ProvisioningRequestControllerName, update)
	}
	wlPatch := wl.DeepCopy()
	if updated, err := update(wlPatch); err != nil || !updated {
		return err
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
	return clientutil.PatchStatus(ctx, c.client, wl, func() (bool, error) {
		update()
		times.Repair(wl)
		return true, nil
	})
}

// merge writes what update changes, if it does, in the same way.
func (c *Controller) merge(ctx context.Context, wl *kueue.Workload, update func() (bool, error)) error {
	return clientutil.Patch(ctx, c.client, wl, update)
}

// checksOfFlavors returns the admission checks that the ClusterQueue asks for on
// the flavors that are assigned to the workload.
func checksOfFlavors(ctx context.Context, wl *kueue.Workload, cq *kueue.ClusterQueue) sets.Set[kueue.AdmissionCheckReference] {
	return workload.AdmissionChecksForWorkload(ctrl.LoggerFrom(ctx), wl, cq)
}

// cleanUpRequests deletes the requests of a workload that was evicted, but for those
// that have failed, and whose check has yet to ask for a retry, or does so since this
// reconciliation. They hold no capacity. The numbers of the others are recorded before.
func (c *Controller) cleanUpRequests(ctx context.Context, wl *kueue.Workload, requests []autoscaling.ProvisioningRequest) error {
	if !cleansUpRequests(wl) {
		return nil
	}
	unheard := make(map[kueue.AdmissionCheckReference]*autoscaling.ProvisioningRequest)
	for checkName, last := range lastRequests(wl, requests) {
		check := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, checkName)
		used := usedAttemptsOf(wl)
		if check != nil && asksForRetry(wl, last.request) && last.attempt > used[checkName] &&
			(check.State != kueue.CheckStatePending || last.attempt > attemptOffset(check, attemptOffsetsOf(wl), used)+retriesOf(check)) {
			unheard[checkName] = last.request
		}
	}
	return c.deleteUnusedProvisioningRequests(ctx, requests, unheard)
}
