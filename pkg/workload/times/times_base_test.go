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

package times

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Kueue sends the preemption gates with all that it applies.
func TestRepairOfPreemptionGates(t *testing.T) {
	refused := time.Date(9999, time.December, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
	wl := &kueue.Workload{Status: kueue.WorkloadStatus{PreemptionGates: []kueue.PreemptionGateState{
		{Name: "gate", Position: kueue.PreemptionGatePositionOpen, LastTransitionTime: metav1.NewTime(refused)},
	}}}
	Repair(wl)
	if got := wl.Status.PreemptionGates[0].LastTransitionTime; !got.Time.Equal(latestTime) {
		t.Errorf("Unexpected time %s, want %s", got, latestTime)
	}
}
