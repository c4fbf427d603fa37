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
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// What is judged when all is at rest beside the deadlines, and what no write is for.

// words: the message of Requeued says until when it waits, and who asks for that. It is
// written when the deadline changes: another check with the same one need not be in it, also
// when it takes over from the one that was.
func (j *judge) words(wl *kueue.Workload, message string) {
	if until := requeueAt(wl).UTC().Format(time.RFC3339); !j.named[wl.Name] && !j.namesWhoAsks(wl, message) || !strings.Contains(message, until) {
		j.fail("rule 4, words", "Requeued of %s does not say who asks it to wait until %s: %s", wl.Name, until, message)
	}
}

// namesWhoAsks: the message has one of the checks that ask for the deadline, if any does.
func (j *judge) namesWhoAsks(wl *kueue.Workload, message string) bool {
	asks, named := false, false
	for _, check := range wl.Status.AdmissionChecks {
		if check.State == kueue.CheckStateRetry && j.deadlineOf(wl, func(_ *kueue.Workload, name kueue.AdmissionCheckReference) bool { return name == check.Name }).Equal(requeueAt(wl)) {
			asks, named = true, named || strings.Contains(message, strconv.Quote(string(check.Name)))
		}
	}
	return !asks || named
}

// batchJobs: none runs without quota, and the workload of one that waits is where its job
// is, with its priority.
func (j *judge) batchJobs() {
	all := j.world.workloads()
	for _, obj := range j.world.api.List(batchv1.SchemeGroupVersion.WithResource("jobs")) {
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, job); err != nil {
			panic(err)
		}
		if jobFinished(job) || job.DeletionTimestamp != nil || job.Spec.ManagedBy != nil {
			continue
		}
		holdsQuota := false
		for _, wl := range all {
			if !metav1.IsControlledBy(wl, job) || workloadfinish.IsFinished(wl) {
				continue
			}
			holdsQuota = holdsQuota || workload.HasQuotaReservation(wl)
			if !isPending(wl) || !ptr.Deref(job.Spec.Suspend, false) || workloadslicing.Enabled(job) {
				continue
			}
			j.whereJobIs(wl, job)
		}
		// Both bases end the slice of an elastic job that is evicted while a larger one is
		// pending, and leave its pods.
		if job.Status.Active > 0 && !holdsQuota && !workloadslicing.Enabled(job) {
			j.fail("rule 3, pods", "job %s has %d pods, and no quota", job.Name, job.Status.Active)
		}
	}
}

// jobSets: the workload of one that waits is where its JobSet is.
func (j *judge) jobSets() {
	all := j.world.workloads()
	for _, obj := range j.world.api.List(jobsetapi.SchemeGroupVersion.WithResource("jobsets")) {
		suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspend")
		for _, wl := range all {
			if metav1.IsControlledBy(wl, obj) && isPending(wl) && suspended && obj.GetDeletionTimestamp() == nil {
				j.whereJobIs(wl, obj)
			}
		}
	}
}

func (j *judge) whereJobIs(wl *kueue.Workload, job metav1.Object) {
	if queue := job.GetLabels()[constants.QueueLabel]; string(wl.Spec.QueueName) != queue {
		j.fail("rule 18", "the job of %s is in %s: %s in %s", wl.Name, queue, describe(wl), wl.Spec.QueueName)
	}
	if class := job.GetLabels()[constants.WorkloadPriorityClassLabel]; class != "" && priorityClassOf(wl) != class {
		j.fail("rule 18", "the job of %s has the priority %s: %s with %s", wl.Name, class, describe(wl), priorityClassOf(wl))
	}
}

// idle: no status of one that waits is written to say the same again.
func (j *judge) idle(old, wl *kueue.Workload) {
	if !waitsForChecks(old, j.decided) || workloadfinish.IsFinished(wl) {
		return
	}
	before, after := said(old), said(wl)
	if equality.Semantic.DeepEqual(before, after) {
		j.fail("rule 5", "the status of %s is written, and says the same: %s", wl.Name, describe(wl))
	}
}

// unchanged: nor is it written without a change. A workload that waits costs no API call.
func (j *judge) unchanged(call *memapi.Call) {
	key := call.Caller + " " + call.Key.Name + " " + call.Subresource
	if j.changes[key] > 0 {
		j.changes[key]--
		return
	}
	versions := j.versions[call.Key.Name]
	if len(versions) == 0 || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	latest := slices.Max(slices.Collect(maps.Keys(versions)))
	if j.decidedOn.cached[call.Key.Name] < latest {
		return // it would have changed what the process had seen
	}
	if wl := versions[latest]; waitsForChecks(wl, j.decided) {
		j.fail("rule 5", "%s %s changes nothing of what waits: %s", call.Caller, call, describe(wl))
	}
}

// wait: there is an event when a wait for checks begins or changes.
func (j *judge) wait(old, wl *kueue.Workload) {
	was, is := requeueAt(old), requeueAt(wl)
	asks := slices.ContainsFunc(append(slices.Clone(old.Status.AdmissionChecks), wl.Status.AdmissionChecks...), func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateRetry && j.isRequired(old, check.Name)
	})
	if was.Equal(is) || is.IsZero() || !asks || j.unanswered {
		return
	}
	j.silent[wl.Name] = fmt.Sprintf("%s, from %s to %s", describe(wl), j.at(was), j.at(is))
}

// event: all that tell of a wait will do.
func (j *judge) event(obj runtime.Object, reason string) {
	wl, ok := obj.(*kueue.Workload)
	if !ok {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if reason == "RequeueDelayed" || strings.HasPrefix(reason, "EvictedDueTo") {
		delete(j.silent, wl.Name)
	}
}

// crashed: what a manager was about to tell nobody hears.
func (j *judge) crashed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.silent)
}

func (j *judge) events() {
	for _, wait := range j.silent {
		j.fail("sight, events", "the wait has changed, and no event tells of it: %s", wait)
	}
}

// waitsForChecks: it has no quota before a time that is ahead, as a check wants it.
func waitsForChecks(wl *kueue.Workload, at time.Time) bool {
	return !workloadfinish.IsFinished(wl) && !workload.HasQuotaReservation(wl) && workload.HasRetryChecks(wl) && requeueAt(wl).After(at)
}

// isUnrecordableForBase: with the gate off the base of v0.19 tries for ever to record a time that
// the API cannot hold: a later one, or, with merge patches, one with a fraction of a second.
func isUnrecordableForBase(wl *kueue.Workload) bool {
	return baseHasFields && slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		delay := time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0)) * time.Second
		at := check.LastTransitionTime.Add(delay)
		isCutOff := at.Nanosecond() != 0 && features.Enabled(features.WorkloadRequestUseMergePatch)
		return check.State == kueue.CheckStateRetry && (at.Year() > 9999 || isCutOff)
	})
}

// said is the status without the generations and times of its conditions and checks.
func said(wl *kueue.Workload) kueue.WorkloadStatus {
	status := *wl.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration, status.Conditions[i].LastTransitionTime = 0, metav1.Time{}
	}
	for i := range status.AdmissionChecks {
		status.AdmissionChecks[i].LastTransitionTime = metav1.Time{}
	}
	return status
}

// deactivation: Kueue deactivates what it has said that it will, and for a check's sake
// what a check has rejected.
func (j *judge) deactivation(old, wl *kueue.Workload) {
	if workload.IsActive(old) && !workload.IsActive(wl) && !conditionTrue(old, kueue.WorkloadDeactivationTarget) {
		j.fail("rule 8", "%s is deactivated, and nobody has said why: %s", wl.Name, describe(old))
	}
	target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	if conditionTrue(old, kueue.WorkloadDeactivationTarget) || target == nil || target.Status != metav1.ConditionTrue || target.Reason != kueue.WorkloadEvictedByAdmissionCheck {
		return
	}
	if !workload.HasRejectedChecks(old) {
		j.fail("rule 8", "%s is to be deactivated for a check, and none rejects it: %s", wl.Name, describe(old))
	}
}
