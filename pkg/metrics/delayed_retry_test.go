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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/testing/metrics"
)

func TestReportAndCleanupRetryMetrics(t *testing.T) {
	for _, cqName := range []kueue.ClusterQueueReference{"retries", "others"} {
		ReportAdmissionCheckEviction(cqName, "a")
		ReportAdmissionCheckRetry(cqName, "a")
		ReportAdmissionCheckRetry(cqName, "b")
		ReportAdmissionCheckRetryDelay(cqName, "a", time.Minute)
		ReportAdmissionCheckRetryLateness(cqName, time.Second)
	}
	expectFilteredMetricsCount(t, AdmissionCheckEvictionsTotal, 1, "cluster_queue", "retries", "admission_check", "a")
	expectFilteredMetricsCount(t, AdmissionCheckRetriesTotal, 2, "cluster_queue", "retries")
	expectFilteredMetricsCount(t, AdmissionCheckRetryDelay, 1, "cluster_queue", "retries", "admission_check", "a")
	expectFilteredMetricsCount(t, AdmissionCheckRetryLateness, 1, "cluster_queue", "retries")

	ClearClusterQueueMetrics("retries")
	expectFilteredMetricsCount(t, AdmissionCheckEvictionsTotal, 0, "cluster_queue", "retries")
	expectFilteredMetricsCount(t, AdmissionCheckRetriesTotal, 0, "cluster_queue", "retries")
	expectFilteredMetricsCount(t, AdmissionCheckRetryDelay, 0, "cluster_queue", "retries")
	expectFilteredMetricsCount(t, AdmissionCheckRetryLateness, 0, "cluster_queue", "retries")
	expectFilteredMetricsCount(t, AdmissionCheckEvictionsTotal, 1, "cluster_queue", "others")
	expectFilteredMetricsCount(t, AdmissionCheckRetriesTotal, 2, "cluster_queue", "others")
	expectFilteredMetricsCount(t, AdmissionCheckRetryDelay, 1, "cluster_queue", "others")
	expectFilteredMetricsCount(t, AdmissionCheckRetryLateness, 1, "cluster_queue", "others")
}

func TestReportRetryWaits(t *testing.T) {
	t.Cleanup(func() { AdmissionCheckRetryWaits.source.Store(nil) })
	expectFilteredMetricsCount(t, AdmissionCheckRetryWaits, 0)

	ReportRetryWaits(func() map[kueue.ClusterQueueReference]RetryWaits {
		return map[kueue.ClusterQueueReference]RetryWaits{
			"idle": {},
			"busy": {
				Workloads: 3, EarliestDeadline: time.Unix(1800000000, 0),
				Retried: map[kueue.AdmissionCheckReference]RetriedWorkloads{"a": {MostRetries: 7, OldestCreation: time.Unix(1700000000, 0)}},
			},
		}
	})
	ofCheck := map[string]string{"cluster_queue": "busy", "admission_check": "a"}
	wantBusy := []metrics.MetricDataPoint{
		{Labels: map[string]string{"cluster_queue": "busy"}, Value: 3},
		{Labels: map[string]string{"cluster_queue": "busy"}, Value: 1800000000},
		{Labels: ofCheck, Value: 7},
		{Labels: ofCheck, Value: 1700000000},
	}
	if diff := cmp.Diff(wantBusy, metrics.CollectFilteredGaugeVec(AdmissionCheckRetryWaits, map[string]string{"cluster_queue": "busy"})); diff != "" {
		t.Errorf("Unexpected metrics (-want,+got):\n%s", diff)
	}
	wantIdle := []metrics.MetricDataPoint{{Labels: map[string]string{"cluster_queue": "idle"}}}
	if diff := cmp.Diff(wantIdle, metrics.CollectFilteredGaugeVec(AdmissionCheckRetryWaits, map[string]string{"cluster_queue": "idle"})); diff != "" {
		t.Errorf("Unexpected metrics (-want,+got):\n%s", diff)
	}

	// Another manager in the same process takes over.
	ReportRetryWaits(func() map[kueue.ClusterQueueReference]RetryWaits { return nil })
	expectFilteredMetricsCount(t, AdmissionCheckRetryWaits, 0)
}

func TestAddRetried(t *testing.T) {
	noon := time.Unix(1800000000, 0)
	waits := RetryWaits{}
	waits.AddRetried("first", 0, noon)
	if waits.Retried != nil {
		t.Errorf("Unexpected workloads that were retried: %v", waits.Retried)
	}
	waits.AddRetried("a", 2, noon)
	waits.AddRetried("a", 5, noon.Add(time.Hour))
	waits.AddRetried("a", 1, noon.Add(-time.Hour))
	waits.AddRetried("b", 1, noon)
	want := map[kueue.AdmissionCheckReference]RetriedWorkloads{
		"a": {MostRetries: 5, OldestCreation: noon.Add(-time.Hour)},
		"b": {MostRetries: 1, OldestCreation: noon},
	}
	if diff := cmp.Diff(want, waits.Retried); diff != "" {
		t.Errorf("Unexpected workloads that were retried (-want,+got):\n%s", diff)
	}
}
