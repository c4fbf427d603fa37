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

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// applyToVersion applies the status that update sets, as PatchAdmissionStatus
// does, to the version that it was decided on: no write undoes a check state that
// it has not seen. Unless strict, it goes on to a later version that differs in
// nothing that the write would undo. If update changes w itself, w gets the
// resource version that results, so that another write can follow.
func applyToVersion(ctx context.Context, c client.Client, w *kueue.Workload, clk clock.Clock, update func() (*kueue.Workload, bool, error), strict bool) error {
	seen := w.DeepCopy()
	updated, changed, err := update()
	if err != nil || !changed {
		return err
	}
	version := updated.ResourceVersion
	apply := func() error {
		patch := PrepareWorkloadPatch(updated, true, clk)
		patch.ResourceVersion = version
		err := ApplyAdmissionStatusPatch(ctx, c, patch)
		if err == nil && w == updated {
			w.ResourceVersion = patch.ResourceVersion
		}
		return err
	}

	refused := apply()
	if strict || !apierrors.IsConflict(refused) {
		return refused
	}
	err = wait.ExponentialBackoffWithContext(ctx, retry.DefaultRetry, func(ctx context.Context) (bool, error) {
		latest := &kueue.Workload{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(w), latest); err != nil {
			return false, err
		}
		if latest.ResourceVersion == version {
			return false, nil // the cache is behind
		}
		if !canApplyTo(seen, latest, clk) {
			return false, refused
		}
		version = latest.ResourceVersion
		err := apply()
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		return refused
	}
	return err
}

// canApplyTo returns true if latest is the workload that an apply was decided on
// for, and the apply would undo nothing there but a note on why it has no quota.
func canApplyTo(seen, latest *kueue.Workload, clk clock.Clock) bool {
	applied := func(wl *kueue.Workload) kueue.WorkloadStatus {
		status := PrepareWorkloadPatch(wl, false, clk).Status
		status.AdmissionChecks = wl.Status.AdmissionChecks
		status.ResourceRequests = nil
		apimeta.RemoveStatusCondition(&status.Conditions, kueue.WorkloadQuotaReserved)
		// What the scheduler assumed has fractions of seconds, which the API drops.
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = status.Conditions[i].LastTransitionTime.Rfc3339Copy()
		}
		if latest.Status.ClusterName == nil {
			status.ClusterName = nil // the scheduler may have taken it from an old slice
		}
		return status
	}
	return seen.UID == latest.UID && seen.Generation == latest.Generation && IsFinished(seen) == IsFinished(latest) &&
		HasQuotaReservation(seen) == HasQuotaReservation(latest) &&
		equality.Semantic.DeepEqual(applied(seen), applied(latest))
}
