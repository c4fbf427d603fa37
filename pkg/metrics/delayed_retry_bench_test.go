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

package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// What is reported when a workload is requeued.
func BenchmarkReportRetry(b *testing.B) {
	b.Cleanup(func() { ClearClusterQueueMetrics("benchmark") })
	for _, n := range []int{1, 8} {
		checks := make([]kueue.AdmissionCheckReference, n)
		for i := range checks {
			checks[i] = kueue.AdmissionCheckReference(fmt.Sprintf("check-%d", i))
		}
		b.Run(fmt.Sprintf("checks=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, check := range checks {
					ReportAdmissionCheckRetry("benchmark", check)
					ReportAdmissionCheckRetryDelay("benchmark", check, time.Minute)
				}
				ReportAdmissionCheckRetryLateness("benchmark", time.Second)
			}
		})
	}
}

func BenchmarkCollectRetryWaits(b *testing.B) {
	b.Cleanup(func() { AdmissionCheckRetryWaits.source.Store(nil) })
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("clusterQueues=%d", n), func(b *testing.B) {
			waits := make(map[kueue.ClusterQueueReference]RetryWaits, n)
			for i := range n {
				waits[kueue.ClusterQueueReference(fmt.Sprintf("cq-%d", i))] = RetryWaits{Workloads: 1, EarliestDeadline: time.Unix(1800000000, 0)}
			}
			ReportRetryWaits(func() map[kueue.ClusterQueueReference]RetryWaits { return waits })
			ch := make(chan prometheus.Metric, 2*n)
			b.ReportAllocs()
			for b.Loop() {
				AdmissionCheckRetryWaits.Collect(ch)
				for range 2 * n {
					<-ch
				}
			}
		})
	}
}
