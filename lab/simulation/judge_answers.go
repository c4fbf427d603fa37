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

package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// What checks answer, and who owns it: rules 6, 9 and 14.

// isOpen returns true for a LocalQueue that is not stopped. The queues forget one that is, as
// if it were deleted.
func isOpen(obj *unstructured.Unstructured) bool {
	if obj == nil || obj.GetKind() != "LocalQueue" {
		return false
	}
	policy, found, _ := unstructured.NestedString(obj.Object, "spec", "stopPolicy")
	return !found || policy == string(kueue.None)
}

// evictedAt is when the workload was evicted last, or zero.
func evictedAt(wl *kueue.Workload) time.Time {
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); cond != nil {
		return cond.LastTransitionTime.Time
	}
	return time.Time{}
}

func (j *judge) releases(wl *kueue.Workload) {
	j.released, j.unseenRelease = time.Now(), j.localQueues[string(wl.Spec.QueueName)].IsZero()
}

// spoke records what somebody else than Kueue said.
func (j *judge) spoke(write memapi.Write, old, wl *kueue.Workload) {
	for _, check := range wl.Status.AdmissionChecks {
		before := workloadCheck(old, check.Name)
		if before != nil && sameCheck(*before, check) {
			continue
		}
		if j.spoken[wl.Name] == nil {
			j.spoken[wl.Name] = make(map[kueue.AdmissionCheckReference]int)
			j.asked[wl.Name] = make(map[kueue.AdmissionCheckReference]asked)
		}
		j.spoken[wl.Name][check.Name] = j.lastRevision
		delete(j.kept[wl.Name], check.Name)
		delete(j.asked[wl.Name], check.Name)
		if check.State == kueue.CheckStateRetry {
			j.asked[wl.Name][check.Name] = j.asks(old, wl, check)
			if !features.Enabled(features.ACRequeueAfter) {
				j.excuse(wl)
				if baseHasFields && check.RequeueAfterSeconds != nil && requeueAt(old).IsZero() {
					j.leftToBase[wl.Name] = true
				}
			}
		}
		if owner := ownedByKueue(write.New, check.Name); check.RequeueAfterSeconds != nil && owner != "" && !isOfProvisioning(owner) && features.Enabled(features.ACRequeueAfter) && !j.world.config.SwitchGate {
			j.fail("rule 6, owner", "%s owns the delay of check %s of %s: %s", owner, check.Name, wl.Name, checkText(check))
		}
	}
}

// ownedByKueue returns the field manager of Kueue's that would keep the delay when
// the check's controller does not apply it any more. With the gate off it does.
func ownedByKueue(wl *unstructured.Unstructured, name kueue.AdmissionCheckReference) string {
	for _, owner := range ownersOfDelay(wl, name) {
		if isKueues(owner) {
			return owner.Manager
		}
	}
	return ""
}

func isKueues(owner metav1.ManagedFieldsEntry) bool {
	return owner.Operation == metav1.ManagedFieldsOperationApply && !strings.HasPrefix(owner.Manager, "check-")
}

// ownersOfDelay are the field managers that own the delay of the check.
func ownersOfDelay(wl *unstructured.Unstructured, name kueue.AdmissionCheckReference) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(wl.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var fields map[string]any
		//lint:ignore SA1019 v0.14's libraries have no other one
		_ = json.Unmarshal(entry.FieldsV1.Raw, &fields)
		_, found, _ := unstructured.NestedMap(fields, "f:status", "f:admissionChecks", fmt.Sprintf(`k:{"name":%q}`, name), "f:requeueAfterSeconds")
		return !found
	})
}

// answered: no value that the API has stored makes a write of Kueue's invalid. A workload
// whose job is moved, or gets another priority, when it has just been given quota stays as it
// is. And upstream prefers the older copy of a worker that is back to the one that was chosen
// since, whose name the API does not let it replace. Nor one that it has left on a workload.
func (j *judge) answered(call *memapi.Call, err error) {
	isMove := (j.world.config.Cohort || j.world.config.Pods || j.world.config.JobSets) && call.Verb == "PUT" && call.Subresource == "" && call.GVR.Resource == "workloads" && err != nil && strings.Contains(err.Error(), "immutable")
	isBack := !j.world.lostWorker.IsZero() && err != nil && strings.Contains(err.Error(), "clusterName is immutable")
	if apierrors.IsInvalid(err) && !isMove && !isBack && features.Enabled(features.ACRequeueAfter) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.keptWorker[call.Key.Name] && strings.Contains(err.Error(), "clusterName is immutable") {
			return
		}
		j.fail("rule 1, refused", "%s %s: %v", call.Caller, call, err)
	}
	if err == nil && call.GVR.Resource == "workloads" && call.Verb != "POST" && call.Verb != "DELETE" {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.unchanged(call)
	}
}

func sameCheck(a, b kueue.AdmissionCheckState) bool {
	return a.State == b.State && a.Message == b.Message && a.LastTransitionTime.Equal(&b.LastTransitionTime) &&
		ptr.Equal(a.RequeueAfterSeconds, b.RequeueAfterSeconds) && equality.Semantic.DeepEqual(a.PodSetUpdates, b.PodSetUpdates)
}

// isOwnCheck returns true if the writer may be the check's controller, which is one of
// Kueue's own. Merge patches have the process for a field manager.
func isOwnCheck(name kueue.AdmissionCheckReference, process, manager string) bool {
	return isProvisioning(name) && (manager == process || manager == kueue.ProvisioningRequestControllerName) ||
		name == multiKueueCheck && (manager == process || manager == kueue.MultiKueueControllerName)
}

// keptAnswers: an eviction that leaves the checks as they are is followed by a reset of all. With
// the gate off they are reset only if a check still asks for a retry.
func (j *judge) keptAnswers(old, wl *kueue.Workload, evictedNow bool) {
	if evictedNow || j.kept[wl.Name] == nil {
		j.kept[wl.Name] = make(map[kueue.AdmissionCheckReference]bool)
	}
	kept := j.kept[wl.Name]
	for _, check := range wl.Status.AdmissionChecks {
		kept[check.Name] = check.State == kueue.CheckStateReady && (kept[check.Name] || evictedNow)
	}
	maps.DeleteFunc(kept, func(name kueue.AdmissionCheckReference, isKept bool) bool {
		return !isKept || workloadCheck(wl, name) == nil
	})
	if !workload.HasQuotaReservation(old) && workload.HasQuotaReservation(wl) && len(kept) > 0 && !j.world.config.SwitchGate {
		j.fail("rule 6, answer", "quota is reserved for %s with answers of %v from before its eviction: %s", wl.Name, slices.Sorted(maps.Keys(kept)), describe(wl))
	}
}
