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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

func TestDescribeWorkload(t *testing.T) {
	time.Local = time.UTC
	type told struct {
		Kind Kind
		Text string
	}
	versions := workload("job-a", waitingSteps()...)
	withoutDelay := workload("job-a",
		step{0, reserved},
		step{1, asks("capacity", 5)},
		step{2, requeued},
	)
	withQuota := workload("job-a",
		step{0, reserved},
		step{1, asks("capacity", 5)},
		step{2, deadline(6)},
	)
	cases := map[string]struct {
		old, wl Version
		want    *told
	}{
		"created":          {wl: versions[0], want: &told{Queued, "queued"}},
		"reserved":         {old: versions[0], wl: versions[1], want: &told{Reserved, "quota reserved"}},
		"asks to retry":    {old: versions[1], wl: versions[2], want: &told{Retry, "check capacity asks to retry after 5s"}},
		"evicted":          {old: versions[2], wl: versions[3], want: &told{Evicted, "evicted (AdmissionCheck); waits until 12:00:08 (in 4.7s)"}},
		"released":         {old: versions[3], wl: versions[4], want: &told{Released, "quota free"}},
		"deadline moved":   {old: versions[5], wl: versions[6], want: &told{Moved, "deadline moved from 12:00:08 to 12:00:18 (in 11.7s)"}},
		"requeued":         {old: versions[6], wl: versions[7], want: &told{Requeued, "requeued; Pending again: capacity (retry 1), budget (retry 1)"}},
		"admitted":         {old: versions[8], wl: versions[9], want: &told{Ready, "check capacity is ready; check budget is ready; admitted"}},
		"finished":         {old: versions[9], wl: versions[10], want: &told{Finished, "finished, quota free"}},
		"nothing new":      {old: versions[10], wl: versions[10]},
		"keeps its quota":  {old: withQuota[1], wl: withQuota[2], want: &told{Evicted, "waits until 12:00:06 (in 4.0s), and keeps the quota"}},
		"without eviction": {old: withoutDelay[1], wl: withoutDelay[2], want: &told{Requeued, "requeued; Pending again: capacity (retry 1)"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got *told
			if e := describeWorkload(tc.wl.At, "job-a", tc.old.Workload, tc.wl.Workload); e != nil {
				got = &told{e.Kind, e.Text}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected event (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestHistoryOfTheSameVersion(t *testing.T) {
	h := NewHistory(start)
	v := workload("job-a", step{0, queued})[0]
	if h.AddWorkload(v.At, v.Workload) == nil {
		t.Error("the first version tells nothing")
	}
	if e := h.AddWorkload(v.At, v.Workload); e != nil || len(h.Versions("job-a")) != 1 {
		t.Errorf("the same version again tells %v", e)
	}
	if e := h.AddWorkload(v.At, &kueue.Workload{}); e != nil {
		t.Errorf("a Workload without an owner tells %v", e)
	}
}

func TestFinished(t *testing.T) {
	h := NewHistory(start)
	for _, v := range workload("job-b", otherSteps(2, 3)...) {
		if h.Finished("job-b") {
			t.Error("finished too early")
		}
		h.AddWorkload(v.At, v.Workload)
	}
	running := &batchv1.Job{Status: batchv1.JobStatus{Active: 1}}
	running.Name = "job-b"
	if e := h.AddJob(at(2), running); e == nil || e.Text != "its pods run" {
		t.Errorf("unexpected event %v", e)
	}
	if h.Finished("job-b") {
		t.Error("finished before the Job is complete")
	}
	if e := h.AddJob(at(3), completeJob("job-b")); e == nil || e.Text != "its pods are done" {
		t.Errorf("unexpected event %v", e)
	}
	if !h.Finished("job-b") {
		t.Error("not finished")
	}
}
