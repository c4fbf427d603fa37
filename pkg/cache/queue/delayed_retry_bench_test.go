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

package queue

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

// waitingInfo returns a workload that waits for n checks until the deadline.
func waitingInfo(name string, n int, deadline time.Time) *workload.Info {
	wl := utiltestingapi.MakeWorkload(name, defaultNamespace).
		RequeueState(nil, ptr.To(metav1.NewTime(deadline))).
		Condition(metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByAdmissionCheck,
			Message: "Admission check(s) check-0 asked for a retry"}).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionFalse, Reason: kueue.WorkloadEvictedByAdmissionCheck,
			Message: "Admission check(s) check-0 asked for a retry"})
	for i := range n {
		wl.AdmissionCheck(kueue.AdmissionCheckState{
			Name:                kueue.AdmissionCheckReference(fmt.Sprintf("check-%d", i)),
			State:               kueue.CheckStateRetry,
			RequeueAfterSeconds: ptr.To[int32](60),
		})
	}
	return workload.NewInfo(wl.Obj())
}

// What an update of a workload costs, in the heap and waiting, with the gate off and on.
func BenchmarkPushOrUpdateWithRetry(b *testing.B) {
	now := time.Now().Truncate(time.Second)
	for _, place := range []string{"Pending", "Waiting"} {
		for _, gate := range []bool{false, true} {
			for _, n := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/gate=%t/checks=%d", place, gate, n), func(b *testing.B) {
					features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, gate)
					cq := newClusterQueueForTest(b.Context(), testingclock.NewFakeClock(now))
					info := waitingInfo("wl", n, now.Add(time.Minute))
					if place == "Pending" {
						info.Obj.Status.Conditions, info.Obj.Status.RequeueState = nil, nil
						for i := range info.Obj.Status.AdmissionChecks {
							check := &info.Obj.Status.AdmissionChecks[i]
							check.State, check.RequeueAfterSeconds = kueue.CheckStatePending, nil
						}
					}
					cq.PushOrUpdate(info)
					if active := cq.pendingActive() == 1; active != (place == "Pending") {
						b.Fatalf("Unexpected place of the workload, active: %v", active)
					}
					b.ReportAllocs()
					for b.Loop() {
						cq.PushOrUpdate(info)
					}
				})
			}
		}
	}
}

// What a scrape of the metrics costs for a ClusterQueue, whose lock it holds.
func BenchmarkRetryWaits(b *testing.B) {
	now := time.Now().Truncate(time.Second)
	for _, workloads := range []int{100, 1000} {
		for _, n := range []int{1, 8} {
			b.Run(fmt.Sprintf("workloads=%d/checks=%d", workloads, n), func(b *testing.B) {
				features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, true)
				cq := newClusterQueueForTest(b.Context(), testingclock.NewFakeClock(now))
				for i := range workloads {
					cq.PushOrUpdate(waitingInfo(fmt.Sprintf("wl-%d", i), n, now.Add(time.Duration(i+1)*time.Second)))
				}
				if waits := cq.retryWaits(); waits.Workloads != workloads {
					b.Fatalf("Unexpected number of waiting workloads %d, want %d", waits.Workloads, workloads)
				}
				b.ReportAllocs()
				for b.Loop() {
					cq.retryWaits()
				}
			})
		}
	}
}

// What a release of quota costs while workloads of the ClusterQueue wait, and what it
// costs to count them by LocalQueue, which an event of a workload asks for: both under
// the lock of all queues.
func BenchmarkQueueWithRetryWaits(b *testing.B) {
	now := time.Now().Truncate(time.Second)
	for _, workloads := range []int{100, 10000} {
		features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, true)
		cq := newClusterQueueForTest(b.Context(), testingclock.NewFakeClock(now))
		if err := cq.Update(utiltestingapi.MakeClusterQueue("cq").Obj()); err != nil {
			b.Fatalf("Failed updating ClusterQueue: %v", err)
		}
		for i := range workloads {
			cq.PushOrUpdate(waitingInfo(fmt.Sprintf("wl-%d", i), 1, now.Add(time.Minute)))
		}
		b.Run(fmt.Sprintf("Release/workloads=%d", workloads), func(b *testing.B) {
			cl := utiltesting.NewFakeClient(utiltesting.MakeNamespace(defaultNamespace))
			b.ReportAllocs()
			for b.Loop() {
				if releaseQuota(b.Context(), cq, cl) {
					b.Fatal("Unexpected move of a workload that waits")
				}
			}
		})
		b.Run(fmt.Sprintf("Count/workloads=%d", workloads), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, inadmissible := cq.PendingInLocalQueue(defaultNamespace + "/"); inadmissible != workloads {
					b.Fatalf("Unexpected number of inadmissible workloads %d, want %d", inadmissible, workloads)
				}
			}
		})
	}
}
