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

package workloadslicing

import (
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// With the gate ACRequeueAfter on a reservation may be refused. So a slice that is to be
// replaced is finished after the larger one has its quota, and for a moment both have.

// Replaced returns the slice that the workload has replaced, if it is still to be
// finished, or nil. Both hold quota, in the same ClusterQueue. With the gate off the
// scheduler has finished it before.
func Replaced(ctx context.Context, clnt client.Client, wl *kueue.Workload) (*kueue.Workload, error) {
	slice, err := FindReplaced(ctx, clnt, wl)
	if slice == nil || !replaces(wl, slice) {
		return nil, err
	}
	return slice, nil
}

// Outdated returns the slice that is to be finished because the workload holds quota in its
// place, and the reason, or nil. A replaced one holds quota in the same ClusterQueue, and its
// pods run on as those of the workload. With the gate on one of the same job that never ran
// with the quota it has, or has none, is out of sync: it could get some later, and the job
// would have two slices with quota for good.
func Outdated(ctx context.Context, clnt client.Client, wl *kueue.Workload) (*kueue.Workload, string, error) {
	slice, err := FindReplaced(ctx, clnt, wl)
	switch {
	case slice == nil:
		return nil, "", err
	case replaces(wl, slice):
		return slice, kueue.WorkloadSliceReplaced, nil
	case isOutOfSync(wl, slice):
		return slice, kueue.WorkloadFinishedReasonOutOfSync, nil
	default:
		return nil, "", nil
	}
}

func isOutOfSync(larger, smaller *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !workload.IsFinished(smaller) && !workload.IsAdmitted(smaller) &&
		holdsQuota(larger) && !workload.IsEvicted(larger) &&
		metav1.GetControllerOfNoCopy(larger) != nil && metav1.GetControllerOfNoCopy(smaller) != nil
}

// repairTimes has the API server take back what it has stored, of others, too: all of the
// conditions are sent.
func repairTimes(slice *kueue.Workload) {
	if features.Enabled(features.ACRequeueAfter) {
		times.Repair(slice)
	}
}

func replaces(larger, smaller *kueue.Workload) bool {
	return canReplace(larger, smaller) && !workload.IsFinished(smaller) && holdsQuota(larger) && holdsQuota(smaller) &&
		larger.Status.Admission.ClusterQueue == smaller.Status.Admission.ClusterQueue
}

func holdsQuota(wl *kueue.Workload) bool {
	return workload.HasQuotaReservation(wl) && wl.Status.Admission != nil
}

// isOfAnotherJob has the scheduler leave alone what the workload must not replace.
func isOfAnotherJob(wl, slice *kueue.Workload) bool {
	return features.Enabled(features.ACRequeueAfter) && !mayBeOfOneJob(wl, slice)
}

// settle returns the slices of a job that count. With the gate on it deletes those that are
// to replace the same one as another: the job controller makes a second one while it does
// not see the first, and stops at three, for good, whatever quota they hold. A finished one
// would keep its name, which is that of the next slice if the job was not changed since.
func settle(ctx context.Context, clnt client.Client, workloads []kueue.Workload) ([]kueue.Workload, error) {
	if features.Enabled(features.ACRequeueAfter) {
		all := slices.Clone(workloads)
		for i := range all {
			fork := &all[i]
			if !isFork(fork, all) {
				continue
			}
			if err := deleteSlice(ctx, clnt, fork.DeepCopy()); err != nil {
				return nil, fmt.Errorf("deleting the workload slice %s, which has another in its place: %w", fork.Name, err)
			}
			workloads = slices.DeleteFunc(workloads, func(wl kueue.Workload) bool { return wl.Name == fork.Name })
		}
	}
	return withoutReplaced(workloads), nil
}

// deleteSlice fails if somebody has written the slice meanwhile: it may have quota now, and
// needs its finalizer still, without which it can go away while its job runs.
func deleteSlice(ctx context.Context, clnt client.Client, slice *kueue.Workload) error {
	if err := clnt.Delete(ctx, slice, client.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}); err != nil {
		return client.IgnoreNotFound(err)
	}
	// The API server lets nobody add one any more.
	seen := slice.DeepCopy()
	controllerutil.RemoveFinalizer(slice, kueue.ResourceInUseFinalizerName)
	return client.IgnoreNotFound(clnt.Patch(ctx, slice, client.MergeFrom(seen)))
}

// isFork returns true if the slice has no quota, and another one is to replace the same:
// one with quota, or one that can get some, or the first by name, whatever the order of a
// list.
func isFork(wl *kueue.Workload, all []kueue.Workload) bool {
	key := ReplacementForKey(wl)
	return key != nil && !workload.HasQuotaReservation(wl) && slices.ContainsFunc(all, func(other kueue.Workload) bool {
		otherKey := ReplacementForKey(&other)
		return otherKey != nil && *otherKey == *key && comesBefore(&other, wl)
	})
}

func comesBefore(other, wl *kueue.Workload) bool {
	mayRun := func(wl *kueue.Workload) bool { return workload.IsActive(wl) && wl.DeletionTimestamp.IsZero() }
	switch {
	case workload.HasQuotaReservation(other):
		return true
	case mayRun(other) != mayRun(wl):
		return mayRun(other)
	case workload.MustWaitForChecks(other) != workload.MustWaitForChecks(wl):
		return workload.MustWaitForChecks(other) // what its checks have said holds
	default:
		return other.Name < wl.Name
	}
}

// withoutReplaced leaves out those of the slices that another one has replaced.
func withoutReplaced(workloads []kueue.Workload) []kueue.Workload {
	all := slices.Clone(workloads)
	return slices.DeleteFunc(workloads, func(smaller kueue.Workload) bool {
		return slices.ContainsFunc(all, func(larger kueue.Workload) bool { return replaces(&larger, &smaller) })
	})
}

// findEvicted returns the condition of an eviction. With the gate on it is not one that
// is over if the slice was admitted since, and its pods may run: it was delayed once.
func findEvicted(wl *kueue.Workload) *metav1.Condition {
	if features.Enabled(features.ACRequeueAfter) && !workload.IsEvicted(wl) && workload.IsAdmitted(wl) {
		return nil
	}
	return apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
}
