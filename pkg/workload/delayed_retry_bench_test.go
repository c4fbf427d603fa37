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
	"fmt"
	"testing"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// withChecks adds n checks, all in state Retry with different delays, or all Ready.
func withChecks(wl *utiltestingapi.WorkloadWrapper, n int, state kueue.CheckState) *kueue.Workload {
	for i := range n {
		check := checkAt(fmt.Sprintf("check-%d", i), state, 0)
		if state == kueue.CheckStateRetry {
			check = retryAt(string(check.Name), 0, int32(60-i))
		}
		wl.AdmissionCheck(check)
	}
	return wl.Obj()
}

func BenchmarkPlanRetry(b *testing.B) {
	stages := []struct {
		name  string
		wl    *utiltestingapi.WorkloadWrapper
		state kueue.CheckState
		now   float64
		want  RetryAction
	}{
		{name: "Reserved", wl: reserved(), state: kueue.CheckStateReady, now: 10, want: RetryNone},
		{name: "Evict", wl: reserved(), state: kueue.CheckStateRetry, now: 0.5, want: RetryEvict},
		{name: "Wait", wl: waiting(0, 60), state: kueue.CheckStateRetry, now: 30, want: RetryWait},
		{name: "Record", wl: waiting(0, 50), state: kueue.CheckStateRetry, now: 30, want: RetryRecord},
		{name: "Requeue", wl: waiting(0, 60), state: kueue.CheckStateRetry, now: 60, want: RetryRequeue},
	}
	for _, stage := range stages {
		for _, n := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/checks=%d", stage.name, n), func(b *testing.B) {
				wl := withChecks(stage.wl.Clone(), n, stage.state)
				rctx := RetryContext{Now: at(stage.now), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }}
				if plan := PlanRetry(wl, rctx); plan.Action != stage.want {
					b.Fatalf("Unexpected action %q, want %q", plan.Action, stage.want)
				}
				b.ReportAllocs()
				for b.Loop() {
					PlanRetry(wl, rctx)
				}
			})
		}
	}
}

func BenchmarkMustWait(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("checks=%d", n), func(b *testing.B) {
			wl := withChecks(waiting(0, 60), n, kueue.CheckStateRetry)
			if !MustWait(wl) {
				b.Fatal("The workload does not wait")
			}
			b.ReportAllocs()
			for b.Loop() {
				MustWait(wl)
			}
		})
	}
}

// What is done to write a plan down: the deadline with its messages, and the
// delays for the metrics.
func BenchmarkRetryPlan(b *testing.B) {
	for _, n := range []int{1, 8} {
		wl := withChecks(waiting(0, 60), n, kueue.CheckStateRetry)
		plan := PlanRetry(wl, RetryContext{Now: at(30), IsRequired: func(kueue.AdmissionCheckReference) bool { return true }})
		b.Run(fmt.Sprintf("RecordDeadline/checks=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.Record(wl)
			}
		})
		b.Run(fmt.Sprintf("NewDelays/checks=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.NewDelays(wl)
			}
		})
	}
}
