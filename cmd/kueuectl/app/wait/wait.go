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

// Package wait tells which workloads wait for the retry of their admission checks.
package wait

import (
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
	"sigs.k8s.io/kueue/pkg/workload/requeue"
)

// Wait is what a workload waits for.
type Wait struct {
	// Checks are those in the state Retry. There is one at least.
	Checks []kueue.AdmissionCheckState
	// Until is requeueState.requeueAt.
	Until time.Time
}

// Of returns what the workload waits for, and whether it waits for the retry of its
// admission checks. One that is evicted waits from then on, also while its job is stopped.
func Of(wl *kueue.Workload) (Wait, bool) {
	checks := workload.RetryChecks(wl)
	if len(checks) == 0 || !requeue.IsWaitingForRetry(wl) || !workload.IsActive(wl) || workloadfinish.IsFinished(wl) {
		return Wait{}, false
	}
	return Wait{Checks: checks, Until: requeue.RequeueAt(wl)}, true
}

// Names returns the names of the checks, in the order in which they are given.
func Names(checks []kueue.AdmissionCheckState) []string {
	names := make([]string, len(checks))
	for i, check := range checks {
		names[i] = string(check.Name)
	}
	return names
}

// Time returns the time as Kueue's conditions and events have it.
func Time(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}
