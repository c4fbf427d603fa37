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

package jobframework

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
)

type fakeJob struct {
	GenericJob
	gvk       schema.GroupVersionKind
	suspended bool
}

func (j fakeJob) GVK() schema.GroupVersionKind { return j.gvk }

func (j fakeJob) IsSuspended() bool { return j.suspended }

func TestIsStoppedForRetry(t *testing.T) {
	now := time.Now()
	suspended := fakeJob{gvk: batchv1.SchemeGroupVersion.WithKind("Job"), suspended: true}
	evicted := func(reason string) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", "ns").Condition(metav1.Condition{
			Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now),
		})
	}
	cases := map[string]struct {
		gateOff  bool
		job      GenericJob
		workload *utiltestingapi.WorkloadWrapper
		want     bool
	}{
		"suspended, quota released": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
			want:     true,
		},
		"gate off": {
			gateOff:  true,
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
		"quota held": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck).SimpleReserveQuota("cq", "flavor", now),
		},
		"resumed by somebody": {
			job:      fakeJob{gvk: suspended.gvk},
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
		"evicted for another reason": {
			job:      suspended,
			workload: evicted(kueue.WorkloadEvictedByPreemption),
		},
		"a job of another kind": {
			job:      fakeJob{gvk: schema.GroupVersionKind{Group: "trainer.kubeflow.org", Version: "v1alpha1", Kind: "TrainJob"}, suspended: true},
			workload: evicted(kueue.WorkloadEvictedByAdmissionCheck),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			if got := isStoppedForRetry(tc.job, tc.workload.Obj()); got != tc.want {
				t.Errorf("Unexpected result: %t, want %t", got, tc.want)
			}
		})
	}
}
