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

// Package timeline tells what happened to the Workloads of the demo: in words,
// as a chart, and held against what the feature promises. It knows nothing but
// the versions of the objects that the API server sent, and does no I/O.
package timeline

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Version is one version of a Workload and the moment it was seen.
type Version struct {
	At       time.Time
	Workload *kueue.Workload
}

// History holds every version of the Workloads, by the name of their Job.
type History struct {
	// Start is the zero of the time axis, End its end.
	Start, End time.Time

	names     []string
	workloads map[string][]Version
	jobs      map[string]*batchv1.Job
	events    []Event
}

// NewHistory returns an empty history with its start.
func NewHistory(start time.Time) *History {
	return &History{
		Start:     start,
		workloads: map[string][]Version{},
		jobs:      map[string]*batchv1.Job{},
	}
}

// AddWorkload takes the next version of a Workload and returns what it tells,
// or nil if it tells nothing new.
func (h *History) AddWorkload(at time.Time, wl *kueue.Workload) *Event {
	if len(wl.OwnerReferences) == 0 {
		return nil
	}
	job := wl.OwnerReferences[0].Name
	h.know(job)
	var old *kueue.Workload
	if versions := h.workloads[job]; len(versions) > 0 {
		old = versions[len(versions)-1].Workload
	}
	if old != nil && old.ResourceVersion == wl.ResourceVersion {
		return nil
	}
	h.workloads[job] = append(h.workloads[job], Version{At: at, Workload: wl})
	return h.keep(describeWorkload(at, job, old, wl))
}

// AddJob takes the next version of a Job and returns what it tells, or nil.
func (h *History) AddJob(at time.Time, job *batchv1.Job) *Event {
	h.know(job.Name)
	old := h.jobs[job.Name]
	h.jobs[job.Name] = job
	return h.keep(describeJob(at, old, job))
}

// Versions returns the versions of the Workload of a Job.
func (h *History) Versions(job string) []Version {
	return h.workloads[job]
}

// Names returns the names of the Jobs in order of their appearance.
func (h *History) Names() []string {
	return h.names
}

// Finished tells whether the named Jobs are complete and their Workloads
// finished.
func (h *History) Finished(jobs ...string) bool {
	for _, name := range jobs {
		versions := h.workloads[name]
		if len(versions) == 0 || !isTrue(versions[len(versions)-1].Workload, kueue.WorkloadFinished) {
			return false
		}
		if job := h.jobs[name]; job == nil || !jobHas(job, batchv1.JobComplete) {
			return false
		}
	}
	return true
}

func (h *History) know(job string) {
	for _, name := range h.names {
		if name == job {
			return
		}
	}
	h.names = append(h.names, job)
}

func (h *History) keep(e *Event) *Event {
	if e != nil {
		h.events = append(h.events, *e)
	}
	return e
}

func isTrue(wl *kueue.Workload, condition string) bool {
	return wl != nil && meta.IsStatusConditionTrue(wl.Status.Conditions, condition)
}

func requeueAt(wl *kueue.Workload) *time.Time {
	if wl == nil || wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return nil
	}
	return &wl.Status.RequeueState.RequeueAt.Time
}

func checkOf(wl *kueue.Workload, name string) *kueue.AdmissionCheckState {
	if wl == nil {
		return nil
	}
	for i := range wl.Status.AdmissionChecks {
		if string(wl.Status.AdmissionChecks[i].Name) == name {
			return &wl.Status.AdmissionChecks[i]
		}
	}
	return nil
}

func inRetry(check *kueue.AdmissionCheckState) bool {
	return check != nil && check.State == kueue.CheckStateRetry
}
