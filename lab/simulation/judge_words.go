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
	"slices"
	"strings"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// How the judge tells of workloads.

func (j *judge) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.0fs", t.Sub(j.world.start).Seconds())
}

// hideNewFields: for traces that are compared with those of upstream's code, where
// it has no such fields.
var hideNewFields bool

func checkText(check kueue.AdmissionCheckState) string {
	text := fmt.Sprintf("%s=%s", check.Name, check.State)
	if check.RequeueAfterSeconds != nil && !hideNewFields {
		text += fmt.Sprintf(" after %d s", *check.RequeueAfterSeconds)
	}
	if check.RetryCount != nil && !hideNewFields {
		text += fmt.Sprintf(" count %d", *check.RetryCount)
	}
	return text + " since " + check.LastTransitionTime.UTC().Format("4:05")
}

// parts are what tells one state of a workload from another.
func parts(wl *kueue.Workload) []string {
	var result []string
	if !workload.IsActive(wl) {
		result = append(result, "inactive")
	}
	for _, cond := range wl.Status.Conditions {
		result = append(result, fmt.Sprintf("%s=%s(%s %s)", cond.Type, cond.Status, cond.Reason, cond.LastTransitionTime.UTC().Format("4:05")))
	}
	for _, check := range wl.Status.AdmissionChecks {
		result = append(result, checkText(check))
	}
	if at := requeueAt(wl); !at.IsZero() {
		result = append(result, "requeueAt "+at.UTC().Format("4:05"))
	}
	if count := requeueStateCount(wl); count > 0 {
		result = append(result, fmt.Sprintf("requeueState.count %d", count))
	}
	return result
}

func describe(wl *kueue.Workload) string {
	return wl.Name + " " + strings.Join(parts(wl), ", ")
}

func difference(old, wl *kueue.Workload) string {
	before, after := parts(old), parts(wl)
	var result []string
	for _, part := range after {
		if !slices.Contains(before, part) {
			result = append(result, "+"+part)
		}
	}
	for _, part := range before {
		if !slices.Contains(after, part) {
			result = append(result, "-"+part)
		}
	}
	return strings.Join(result, " ")
}
