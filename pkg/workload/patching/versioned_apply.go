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
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// catchUp is how long a loose write waits for the cache to show the version that it has
// met: more than half a second. On a busy machine events are as late, and who wrote a
// note does not write it again before something else happens.
var catchUp = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 7}

// applyToVersion calls apply for the version of the workload that the write was
// decided on: no write undoes a check state that it has not seen. Unless strict, it
// goes on to a later version that differs from seen in nothing that the write would
// undo.
func applyToVersion(ctx context.Context, c client.Client, seen *kueue.Workload, clk clock.Clock, strict bool, apply func(version string) error) error {
	version := seen.ResourceVersion
	refused := apply(version)
	if strict || !apierrors.IsConflict(refused) {
		return refused
	}
	var failed error // a request of its own may be out of time, too
	err := wait.ExponentialBackoffWithContext(ctx, catchUp, func(ctx context.Context) (bool, error) {
		latest := &kueue.Workload{}
		if failed = c.Get(ctx, client.ObjectKeyFromObject(seen), latest); failed != nil {
			return false, failed
		}
		if latest.ResourceVersion == version {
			return false, nil // the cache is behind
		}
		if !canApplyTo(seen, latest, clk) {
			return false, refused
		}
		version = latest.ResourceVersion
		err := apply(version)
		if apierrors.IsConflict(err) {
			return false, nil
		}
		failed = err
		return err == nil, err
	})
	if failed == nil && wait.Interrupted(err) {
		return refused
	}
	return err
}

// mergeBase returns what a merge patch of wl is computed from. The patch has all
// conditions, and so it has all of the admission, too, if there is one. The scheduler
// may have assumed both, and nothing is stored yet.
func mergeBase(wl *kueue.Workload) *kueue.Workload {
	base := wl.DeepCopy()
	if base.Status.Admission != nil {
		base.Status.Admission = &kueue.Admission{}
	}
	return base
}

// hasDelayOfPolicy returns true if the check is in Retry with the delay that Kueue has
// recorded for it.
func hasDelayOfPolicy(wl *kueue.Workload, check kueue.AdmissionCheckState) bool {
	return check.State == kueue.CheckStateRetry && check.RequeueAfterSeconds != nil && wl.Status.RequeueState != nil &&
		slices.ContainsFunc(wl.Status.RequeueState.ObservedRetries, func(observed kueue.ObservedRetry) bool {
			return observed.Name == check.Name && ptr.Equal(observed.DelaySeconds, check.RequeueAfterSeconds)
		})
}

// canApplyTo returns true if latest is the workload that an apply was decided on
// for, and the apply would undo nothing there but a note on why it has no quota, or is
// not admitted.
func canApplyTo(seen, latest *kueue.Workload, clk clock.Clock) bool {
	applied := func(wl *kueue.Workload) kueue.WorkloadStatus {
		status := prepareWorkloadPatch(wl, false, clk).Status
		status.AdmissionChecks = wl.Status.AdmissionChecks
		status.ResourceRequests = nil
		apimeta.RemoveStatusCondition(&status.Conditions, kueue.WorkloadQuotaReserved)
		if !apimeta.IsStatusConditionTrue(status.Conditions, kueue.WorkloadAdmitted) {
			apimeta.RemoveStatusCondition(&status.Conditions, kueue.WorkloadAdmitted)
		}
		// What the scheduler assumed has fractions of seconds, which the API drops.
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = status.Conditions[i].LastTransitionTime.Rfc3339Copy()
		}
		if latest.Status.ClusterName == nil {
			status.ClusterName = nil // the scheduler may have taken it from an old slice
		}
		return status
	}
	same := func(conditionType string) bool {
		return apimeta.IsStatusConditionTrue(seen.Status.Conditions, conditionType) == apimeta.IsStatusConditionTrue(latest.Status.Conditions, conditionType)
	}
	return seen.UID == latest.UID && seen.Generation == latest.Generation && same(kueue.WorkloadFinished) && same(kueue.WorkloadQuotaReserved) &&
		equality.Semantic.DeepEqual(applied(seen), applied(latest))
}
