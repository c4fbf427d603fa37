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

package timeline

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

var start = time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)

func at(second float64) time.Time {
	return start.Add(time.Duration(second*1000+0.5) * time.Millisecond)
}

func whole(second float64) metav1.Time {
	return metav1.NewTime(at(second).Truncate(time.Second))
}

// step is one write of a Workload: it changes what the write before left.
type step struct {
	second float64
	change func(wl *kueue.Workload, now metav1.Time)
}

// workload returns the versions that the steps make.
func workload(job string, steps ...step) []Version {
	wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Name: "job-" + job, OwnerReferences: []metav1.OwnerReference{{Name: job}},
	}}
	var versions []Version
	for i, s := range steps {
		wl = wl.DeepCopy()
		wl.ResourceVersion = fmt.Sprint(i + 1)
		s.change(wl, whole(s.second))
		versions = append(versions, Version{At: at(s.second), Workload: wl})
	}
	return versions
}

func condition(wl *kueue.Workload, name string, status bool, now metav1.Time, reason string) {
	c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: now}
	if status {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&wl.Status.Conditions, c)
}

func check(wl *kueue.Workload, name string, now metav1.Time, state kueue.CheckState) *kueue.AdmissionCheckState {
	c := checkOf(wl, name)
	if c == nil {
		wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, kueue.AdmissionCheckState{Name: kueue.AdmissionCheckReference(name)})
		c = checkOf(wl, name)
	}
	c.State, c.LastTransitionTime = state, now
	return c
}

// The steps that the feature takes; the tests of broken promises change them.

func queued(wl *kueue.Workload, _ metav1.Time) {}

func reserved(wl *kueue.Workload, now metav1.Time) {
	condition(wl, kueue.WorkloadQuotaReserved, true, now, "QuotaReserved")
	if isTrue(wl, kueue.WorkloadEvicted) {
		condition(wl, kueue.WorkloadEvicted, false, now, "QuotaReserved")
	}
	for _, name := range []string{"capacity", "budget"} {
		if checkOf(wl, name) == nil {
			check(wl, name, now, kueue.CheckStatePending)
		}
	}
}

func asks(name string, seconds int32) func(*kueue.Workload, metav1.Time) {
	return func(wl *kueue.Workload, now metav1.Time) {
		check(wl, name, now, kueue.CheckStateRetry).RequeueAfterSeconds = ptr.To(seconds)
	}
}

func evicted(until float64) func(*kueue.Workload, metav1.Time) {
	return func(wl *kueue.Workload, now metav1.Time) {
		condition(wl, kueue.WorkloadEvicted, true, now, kueue.WorkloadEvictedByAdmissionCheck)
		deadline(until)(wl, now)
	}
}

func deadline(until float64) func(*kueue.Workload, metav1.Time) {
	return func(wl *kueue.Workload, _ metav1.Time) {
		wl.Status.RequeueState = &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(at(until)))}
	}
}

func released(wl *kueue.Workload, now metav1.Time) {
	condition(wl, kueue.WorkloadQuotaReserved, false, now, "Pending")
	condition(wl, kueue.WorkloadRequeued, false, now, kueue.WorkloadEvictedByAdmissionCheck)
}

func requeued(wl *kueue.Workload, now metav1.Time) {
	condition(wl, kueue.WorkloadRequeued, true, now, "BackoffFinished")
	wl.Status.RequeueState = nil
	for i := range wl.Status.AdmissionChecks {
		c := &wl.Status.AdmissionChecks[i]
		if inRetry(c) {
			c.RetryCount = ptr.To(ptr.Deref(c.RetryCount, 0) + 1)
		}
		c.State, c.LastTransitionTime, c.RequeueAfterSeconds = kueue.CheckStatePending, now, nil
	}
}

func admitted(wl *kueue.Workload, now metav1.Time) {
	check(wl, "capacity", now, kueue.CheckStateReady)
	check(wl, "budget", now, kueue.CheckStateReady)
	condition(wl, kueue.WorkloadAdmitted, true, now, "Admitted")
}

func finished(wl *kueue.Workload, now metav1.Time) {
	condition(wl, kueue.WorkloadFinished, true, now, "Succeeded")
}

// waitingSteps is what happens to job-a when the rules are kept.
func waitingSteps() []step {
	return []step{
		{0.1, queued},
		{0.2, reserved},
		{3.2, asks("capacity", 5)},
		{3.3, evicted(8)},
		{3.4, released},
		{6.2, asks("budget", 12)},
		{6.3, deadline(18)},
		{18.02, requeued},
		{18.1, reserved},
		{18.2, admitted},
		{22.3, finished},
	}
}

func otherSteps(from, to float64) []step {
	return []step{{1, queued}, {from, reserved}, {from + 0.1, admitted}, {to, finished}}
}

var testScript = Script{
	Job:    "job-a",
	Others: []string{"job-b", "job-c"},
	First:  Ask{Check: "capacity", Delay: 5 * time.Second},
	Second: Ask{Check: "budget", Delay: 12 * time.Second},
}

// story returns a history of three Jobs that all finish, job-a by the steps.
func story(steps []step) *History {
	h := NewHistory(start)
	h.End = at(22.4)
	for job, versions := range map[string][]Version{
		"job-a": workload("job-a", steps...),
		"job-b": workload("job-b", otherSteps(3.5, 7.5)...),
		"job-c": workload("job-c", otherSteps(7.6, 11.6)...),
	} {
		if isTrue(versions[len(versions)-1].Workload, kueue.WorkloadFinished) {
			h.jobs[job] = completeJob(job)
		}
		h.workloads[job] = versions
	}
	h.names = []string{"job-a", "job-b", "job-c"}
	for _, name := range h.names {
		var old *kueue.Workload
		for _, v := range h.workloads[name] {
			h.keep(describeWorkload(v.At, name, old, v.Workload))
			old = v.Workload
		}
	}
	return h
}

func completeJob(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
			Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
		}}},
	}
}
