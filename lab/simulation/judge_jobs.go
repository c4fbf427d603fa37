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
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// Jobs that are deleted: the retention of rule 11.

// jobDeleted: the time after which Kueue deletes it counts from the deactivation.
func (j *judge) jobDeleted(write memapi.Write) {
	if !strings.HasPrefix(write.Caller, "kueue-") || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	j.seenEvents["jobs deleted"]++
	// One of an elastic job's slices is enough, as in the base. Times of conditions have no
	// fractions of seconds. One that was activated meanwhile may be deleted on what was
	// read before, as with the base.
	var of string
	var age time.Duration
	for name, versions := range j.versions {
		wl := versions[slices.Max(slices.Collect(maps.Keys(versions)))]
		if !slices.ContainsFunc(wl.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == write.Old.GetUID() }) {
			continue
		}
		of += describe(wl) + " "
		// Another slice of the job may hold quota, and not have started it.
		if seen := versions[j.decidedOn.cached[name]]; seen != nil && !j.givenUp[name].IsZero() && workload.IsActive(seen) && workload.HasQuotaReservation(seen) && !workloadevict.IsEvicted(seen) {
			j.fail("rule 11, retention", "the job is deleted, which has quota again, of %s", describe(seen))
		}
		if !j.givenUp[name].IsZero() {
			age = max(age, time.Since(j.deactivated[name]))
		}
	}
	switch {
	case of == "":
	case age == 0:
		j.fail("rule 11, retention", "the job is deleted, which Kueue has not given up, of %s", of)
	case age <= retention-time.Second-j.world.apart():
		j.fail("rule 11, retention", "the job is deleted %s after the deactivation, of %s", age, of)
	}
}

// retained: the job of one that Kueue has deactivated is deleted in time, also if Kueue
// acted on the deactivation late. Those of slices and of workers may run as another
// workload.
func (j *judge) retained(wl *kueue.Workload, overdue time.Duration) {
	config := j.world.config
	owner := metav1.GetControllerOf(wl)
	since := min(time.Since(j.deactivated[wl.Name]), time.Since(j.givenUp[wl.Name]))
	if !config.Retention || config.Elastic || config.MultiKueue || owner == nil || !workloadevict.IsEvictedDueToDeactivationByKueue(wl) || since <= retention+overdue {
		return
	}
	job := &unstructured.Unstructured{}
	job.SetAPIVersion(owner.APIVersion)
	job.SetKind(owner.Kind)
	if err := j.world.admin.Get(context.Background(), client.ObjectKey{Namespace: wl.Namespace, Name: owner.Name}, job); err == nil && job.GetDeletionTimestamp() == nil {
		j.fail("rule 11, retention", "the job of %s is still there %s after the deactivation: %s", wl.Name, since, describe(wl))
	}
}
