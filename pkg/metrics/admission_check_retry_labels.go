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

import "github.com/prometheus/client_golang/prometheus"

var (
	// +metricsdoc:group=clusterqueue
	// +metricsdoc:labels=cluster_queue="the name of the ClusterQueue",admission_check="the name of the AdmissionCheck",replica_role="one of `leader`, `follower`, or `standalone`"
	AdmissionCheckRetriesTotal *prometheus.CounterVec

	// +metricsdoc:group=clusterqueue
	// +metricsdoc:labels=cluster_queue="the name of the ClusterQueue",admission_check="the name of the AdmissionCheck",replica_role="one of `leader`, `follower`, or `standalone`"
	AdmissionCheckRetryLimitExceededTotal *prometheus.CounterVec

	// +metricsdoc:group=clusterqueue
	// +metricsdoc:labels=cluster_queue="the name of the ClusterQueue",admission_check="the name of the AdmissionCheck",replica_role="one of `leader`, `follower`, or `standalone`"
	AdmissionCheckRetryDelay *prometheus.HistogramVec

	// +metricsdoc:group=clusterqueue
	// +metricsdoc:labels=cluster_queue="the name of the ClusterQueue",replica_role="one of `leader`, `follower`, or `standalone`"
	AdmissionCheckRetryLateness *prometheus.HistogramVec
)

func initRetryMetrics(clusterQueueMetricsLabels []string) {
	newRetryMetrics(
		append([]string{"cluster_queue", "admission_check", "replica_role"}, clusterQueueMetricsLabels...),
		append([]string{"cluster_queue", "replica_role"}, clusterQueueMetricsLabels...),
	)
}
