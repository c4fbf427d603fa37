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
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Kind is the kind of an event.
type Kind int

const (
	Queued Kind = iota
	Ready
	Reserved
	Retry
	Evicted
	Released
	Moved
	Requeued
	Admitted
	Running
	Finished
)

// Event is what one write of an object tells.
type Event struct {
	At   time.Time
	Job  string
	Kind Kind
	Text string
}

// marked tells whether the chart shows the event by a number.
func (e Event) marked() bool {
	switch e.Kind {
	case Retry, Evicted, Moved, Requeued:
		return true
	default:
		return false
	}
}

// describeWorkload compares two versions of a Workload. All that one write
// changed is one event, of the first kind that applies.
func describeWorkload(at time.Time, job string, old, wl *kueue.Workload) *Event {
	var texts []string
	kind := Queued
	say := func(k Kind, format string, args ...any) {
		if len(texts) == 0 {
			kind = k
		}
		texts = append(texts, fmt.Sprintf(format, args...))
	}
	became := func(condition string) bool { return isTrue(wl, condition) && !isTrue(old, condition) }

	if old == nil {
		say(Queued, "queued")
	}
	if became(kueue.WorkloadFinished) {
		say(Finished, "finished, quota free")
	}
	describeAnswers(old, wl, say)
	if became(kueue.WorkloadEvicted) {
		reason := meta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).Reason
		say(Evicted, "evicted (%s)", reason)
	}
	if isTrue(old, kueue.WorkloadQuotaReserved) && !isTrue(wl, kueue.WorkloadQuotaReserved) {
		say(Released, "quota free")
	}
	if became(kueue.WorkloadRequeued) {
		say(Requeued, "requeued")
	}
	describeDeadline(at, old, wl, say)
	if reset := describeReset(old, wl); reset != "" {
		say(Requeued, "%s", reset)
	}
	if became(kueue.WorkloadQuotaReserved) {
		say(Reserved, "quota reserved")
	}
	if became(kueue.WorkloadAdmitted) {
		say(Admitted, "admitted")
	}
	if len(texts) == 0 {
		return nil
	}
	return &Event{At: at, Job: job, Kind: kind, Text: strings.Join(texts, "; ")}
}

// describeAnswers tells what the controllers of the checks wrote.
func describeAnswers(old, wl *kueue.Workload, say func(Kind, string, ...any)) {
	for i := range wl.Status.AdmissionChecks {
		now := &wl.Status.AdmissionChecks[i]
		before := checkOf(old, string(now.Name))
		if before == nil {
			before = &kueue.AdmissionCheckState{}
		}
		changed := before.State != now.State
		switch now.State {
		case kueue.CheckStateRetry:
			switch {
			case !changed && ptr.Equal(before.RequeueAfterSeconds, now.RequeueAfterSeconds):
			case now.RequeueAfterSeconds == nil:
				say(Retry, "check %s asks to retry", now.Name)
			default:
				say(Retry, "check %s asks to retry after %ds", now.Name, *now.RequeueAfterSeconds)
			}
		case kueue.CheckStateReady:
			if changed {
				say(Ready, "check %s is ready", now.Name)
			}
		case kueue.CheckStateRejected:
			if changed {
				say(Retry, "check %s rejects it", now.Name)
			}
		}
	}
}

func describeDeadline(at time.Time, old, wl *kueue.Workload, say func(Kind, string, ...any)) {
	before, now := requeueAt(old), requeueAt(wl)
	switch {
	case now == nil:
	case before == nil:
		text := fmt.Sprintf("waits until %s (in %s)", clock(*now), seconds(now.Sub(at)))
		if isTrue(wl, kueue.WorkloadQuotaReserved) && !isTrue(wl, kueue.WorkloadEvicted) {
			text += ", and keeps the quota"
		}
		say(Evicted, "%s", text)
	case !before.Equal(*now):
		say(Moved, "deadline moved from %s to %s (in %s)", clock(*before), clock(*now), seconds(now.Sub(at)))
	}
}

// describeReset tells which checks were sent from Retry back to Pending.
func describeReset(old, wl *kueue.Workload) string {
	var checks []string
	for i := range wl.Status.AdmissionChecks {
		now := &wl.Status.AdmissionChecks[i]
		if now.State != kueue.CheckStatePending || !inRetry(checkOf(old, string(now.Name))) {
			continue
		}
		text := string(now.Name)
		if now.RetryCount != nil {
			text += fmt.Sprintf(" (retry %d)", *now.RetryCount)
		}
		checks = append(checks, text)
	}
	if len(checks) == 0 {
		return ""
	}
	return "Pending again: " + strings.Join(checks, ", ")
}

func describeJob(at time.Time, old, job *batchv1.Job) *Event {
	switch {
	case jobHas(job, batchv1.JobComplete) && !jobHas(old, batchv1.JobComplete):
		return &Event{At: at, Job: job.Name, Kind: Running, Text: "its pods are done"}
	case job.Status.Active > 0 && (old == nil || old.Status.Active == 0):
		return &Event{At: at, Job: job.Name, Kind: Running, Text: "its pods run"}
	default:
		return nil
	}
}

func jobHas(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	if job == nil {
		return false
	}
	for _, c := range job.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func clock(t time.Time) string {
	return t.Local().Format(time.TimeOnly)
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1fs", d.Seconds())
}
