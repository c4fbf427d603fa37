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

package workload

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestKeepsCheckStates(t *testing.T) {
	reserved := utiltestingapi.MakeWorkload("wl", "ns").SimpleReserveQuota("cq", "flavor", time.Now())
	admitted := reserved.Clone().Condition(metav1.Condition{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, Reason: "ByTest"})
	evicted := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck}
	preempted := metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption}
	cases := map[string]struct {
		gateOff  bool
		workload *utiltestingapi.WorkloadWrapper
		want     bool
	}{
		"its job is to be stopped": {workload: admitted.Clone().Condition(evicted), want: true},
		"pods of the slice before": {workload: reserved.Clone().Condition(evicted), want: true},
		"preempted":                {workload: admitted.Clone().Condition(preempted), want: true},
		"its job was not started":  {workload: reserved.Clone().Condition(preempted)},
		"gate off":                 {gateOff: true, workload: admitted.Clone().Condition(evicted)},
		"not evicted":              {workload: admitted.Clone()},
		"the quota is released":    {workload: utiltestingapi.MakeWorkload("wl", "ns").Condition(evicted)},
		"deactivated":              {workload: admitted.Clone().Condition(evicted).Active(false)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			if got := KeepsCheckStates(tc.workload.Obj()); got != tc.want {
				t.Errorf("Unexpected result %t, want %t", got, tc.want)
			}
		})
	}
}
