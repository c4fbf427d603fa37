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
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/constants"
)

// AdmissionCheckRetryWaits reports who waits when the metrics are scraped.
var AdmissionCheckRetryWaits = &retryWaitsCollector{}

// newRetryMetrics makes the metrics with the labels of a check in a ClusterQueue, and of a
// ClusterQueue.
func newRetryMetrics(checkLabels, cqLabels []string) {
	AdmissionCheckRetriesTotal = prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retries_total",
			Help:      "The number of retries that an 'admission_check' asked for, per 'cluster_queue'. A retry counts when the workload is requeued.",
		}, checkLabels,
	)

	AdmissionCheckRetryLimitExceededTotal = prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_limit_exceeded_total",
			Help:      "The number of workloads that were deactivated because an 'admission_check' asked for more retries than its policy allows, per 'cluster_queue'.",
		}, checkLabels,
	)

	AdmissionCheckRetryDelay = prometheus.NewHistogramVec(
		prometheus.HistogramOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_delay_seconds",
			Help:      "The delays that an 'admission_check' asked for, or that its policy gave, per 'cluster_queue'. They are observed when a workload begins to wait and whenever its deadline changes.",
			Buckets:   []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400},
		}, checkLabels,
	)

	AdmissionCheckRetryLateness = prometheus.NewHistogramVec(
		prometheus.HistogramOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_lateness_seconds",
			Help:      "The time from the end of the longest delay that the admission checks of a workload asked for until the workload was requeued, per 'cluster_queue'.",
			Buckets:   prometheus.ExponentialBuckets(0.05, 2, 14),
		}, cqLabels,
	)

	AdmissionCheckRetryWaits.workloads = prometheus.NewDesc(
		prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_waiting_workloads"),
		"The number of workloads that wait for the retry of their admission checks, per 'cluster_queue'.",
		cqLabels, nil)
	AdmissionCheckRetryWaits.earliestDeadline = prometheus.NewDesc(
		prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_earliest_deadline_timestamp_seconds"),
		"The earliest time, in seconds since the epoch, until which a workload waits for the retry of its admission checks, per 'cluster_queue'.",
		cqLabels, nil)
}

func retryMetrics() []prometheus.Collector {
	return []prometheus.Collector{
		AdmissionCheckRetriesTotal,
		AdmissionCheckRetryLimitExceededTotal,
		AdmissionCheckRetryDelay,
		AdmissionCheckRetryLateness,
		AdmissionCheckRetryWaits,
	}
}

func clearRetryMetrics(cqLabel prometheus.Labels) {
	AdmissionCheckRetriesTotal.DeletePartialMatch(cqLabel)
	AdmissionCheckRetryLimitExceededTotal.DeletePartialMatch(cqLabel)
	AdmissionCheckRetryDelay.DeletePartialMatch(cqLabel)
	AdmissionCheckRetryLateness.DeletePartialMatch(cqLabel)
}

// RetryWaits are the workloads of a ClusterQueue that wait for the retry of their checks.
type RetryWaits struct {
	Workloads        int
	EarliestDeadline time.Time
}

// retryWaitsCollector asks who waits when the metrics are scraped. A gauge would have to
// be told of every way in which a wait can end.
type retryWaitsCollector struct {
	source                      atomic.Pointer[retryWaitsSource]
	workloads, earliestDeadline *prometheus.Desc
}

type retryWaitsSource struct {
	waits       func() map[kueue.ClusterQueueReference]RetryWaits
	labelValues func(kueue.ClusterQueueReference) []string
}

func (c *retryWaitsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.workloads
	ch <- c.earliestDeadline
}

func (c *retryWaitsCollector) Collect(ch chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	for cqName, waits := range source.waits() {
		labelValues := source.labelValues(cqName)
		ch <- prometheus.MustNewConstMetric(c.workloads, prometheus.GaugeValue, float64(waits.Workloads), labelValues...)
		if !waits.EarliestDeadline.IsZero() {
			ch <- prometheus.MustNewConstMetric(c.earliestDeadline, prometheus.GaugeValue, float64(waits.EarliestDeadline.Unix()), labelValues...)
		}
	}
}

// ReportRetryWaits reports from now on, at each scrape, who waits.
func ReportRetryWaits(waits func() map[kueue.ClusterQueueReference]RetryWaits, labelValues func(kueue.ClusterQueueReference) []string) {
	AdmissionCheckRetryWaits.source.Store(&retryWaitsSource{waits: waits, labelValues: labelValues})
}

func ReportAdmissionCheckRetry(labelValues []string) {
	AdmissionCheckRetriesTotal.WithLabelValues(labelValues...).Inc()
}

func ReportAdmissionCheckRetryLimitExceeded(labelValues []string) {
	AdmissionCheckRetryLimitExceededTotal.WithLabelValues(labelValues...).Inc()
}

func ReportAdmissionCheckRetryDelay(delay time.Duration, labelValues []string) {
	AdmissionCheckRetryDelay.WithLabelValues(labelValues...).Observe(delay.Seconds())
}

func ReportAdmissionCheckRetryLateness(lateness time.Duration, labelValues []string) {
	AdmissionCheckRetryLateness.WithLabelValues(labelValues...).Observe(lateness.Seconds())
}
