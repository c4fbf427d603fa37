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

package retry

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	cmdtesting "sigs.k8s.io/kueue/cmd/kueuectl/app/testing"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
)

// TestOnHold: a workload that was put on hold keeps what its checks asked for, and
// waits for nothing.
func TestOnHold(t *testing.T) {
	evictedAt := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	wl := cmdtesting.MakeWaitingWorkload("wl", metav1.NamespaceDefault, evictedAt, evictedAt.Add(time.Hour), cmdtesting.RetryCheck("budget", 3600)).
		Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionFalse, Reason: kueue.WorkloadOnHold}).
		Obj()
	if got, waits := wait.Of(wl); waits {
		t.Errorf("It waits: %v", got)
	}
	if got, want := describeState(wl), "it is on hold"; got != want {
		t.Errorf("It is described with %q, want %q", got, want)
	}
}
