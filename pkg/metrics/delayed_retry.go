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

var (
	AdmissionCheckEvictionsTotal = prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_evictions_total",
			Help:      "The number of evictions for which an 'admission_check' asked with a retry, per 'cluster_queue'. An eviction counts for each check of the ClusterQueue that was in Retry then.",
		}, []string{"cluster_queue", "admission_check"},
	)

	AdmissionCheckRetriesTotal = prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retries_total",
			Help:      "The number of retries that an 'admission_check' asked for, per 'cluster_queue'. A retry counts when the workload is requeued.",
		}, []string{"cluster_queue", "admission_check"},
	)

	AdmissionCheckRetryLimitExceededTotal = prometheus.NewCounterVec(
		prometheus.CounterOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_limit_exceeded_total",
			Help:      "The number of workloads that were deactivated because an 'admission_check' asked for a retry and was retried as often as it may be, per 'cluster_queue'.",
		}, []string{"cluster_queue", "admission_check"},
	)

	AdmissionCheckRetryDelay = prometheus.NewHistogramVec(
		prometheus.HistogramOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_delay_seconds",
			Help:      "The delay that an 'admission_check' asked for, or that its policy gave, per 'cluster_queue': all delays when a wait starts with an eviction or a hold for them, then those that move the deadline on.",
			Buckets:   []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400},
		}, []string{"cluster_queue", "admission_check"},
	)

	AdmissionCheckRetryLateness = prometheus.NewHistogramVec(
		prometheus.HistogramOpts{
			Subsystem: constants.KueueName,
			Name:      "admission_check_retry_lateness_seconds",
			Help:      "The time from the end of the longest delay that the admission checks of a workload asked for, or from the release of its quota if that came later, until the workload was requeued, per 'cluster_queue'.",
			Buckets:   prometheus.ExponentialBuckets(0.05, 2, 14),
		}, []string{"cluster_queue"},
	)

	AdmissionCheckRetryWaits = &retryWaitsCollector{
		workloads: prometheus.NewDesc(
			prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_waiting_workloads"),
			"The number of workloads that wait for the retry of their admission checks, per 'cluster_queue'.",
			[]string{"cluster_queue"}, nil),
		earliestDeadline: prometheus.NewDesc(
			prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_earliest_deadline_timestamp_seconds"),
			"The earliest time, in seconds since the epoch, until which a workload waits for the retry of its admission checks, per 'cluster_queue'. A time in the past means that a workload is overdue.",
			[]string{"cluster_queue"}, nil),
		mostRetries: prometheus.NewDesc(
			prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_most_retries"),
			"How often an 'admission_check' was retried since it last succeeded, at most, among the workloads that wait for it, per 'cluster_queue'.",
			[]string{"cluster_queue", "admission_check"}, nil),
		oldestWorkload: prometheus.NewDesc(
			prometheus.BuildFQName("", constants.KueueName, "admission_check_retry_oldest_workload_timestamp_seconds"),
			"When the oldest of the workloads was created, in seconds since the epoch, that wait for an 'admission_check' and were retried for it before, per 'cluster_queue'.",
			[]string{"cluster_queue", "admission_check"}, nil),
	}
)

// RetryWaits tells of the workloads of a ClusterQueue that wait, without quota,
// for the retry of their admission checks.
type RetryWaits struct {
	// Workloads is their number.
	Workloads int
	// EarliestDeadline is the earliest time at which one of them is to be
	// requeued. It means nothing if there is none.
	EarliestDeadline time.Time
	// Retried has the checks for which one of them waits not for the first time.
	Retried map[kueue.AdmissionCheckReference]RetriedWorkloads
}

// RetriedWorkloads tells of the workloads that wait for a check which was retried
// before, since it last succeeded.
type RetriedWorkloads struct {
	// MostRetries is how often it was, at most.
	MostRetries int32
	// OldestCreation is when the oldest of them was created.
	OldestCreation time.Time
}

// AddRetried adds a workload that waits for the check, which was retried so often
// before.
func (w *RetryWaits) AddRetried(check kueue.AdmissionCheckReference, count int32, created time.Time) {
	if count <= 0 {
		return
	}
	if w.Retried == nil {
		w.Retried = make(map[kueue.AdmissionCheckReference]RetriedWorkloads)
	}
	retried, found := w.Retried[check]
	retried.MostRetries = max(retried.MostRetries, count)
	if !found || created.Before(retried.OldestCreation) {
		retried.OldestCreation = created
	}
	w.Retried[check] = retried
}

// retryWaitsCollector asks who waits when the metrics are scraped: a count that
// is kept up to date would have to hear of every way in which a wait can end.
type retryWaitsCollector struct {
	source                      atomic.Pointer[func() map[kueue.ClusterQueueReference]RetryWaits]
	workloads, earliestDeadline *prometheus.Desc
	mostRetries, oldestWorkload *prometheus.Desc
}

func (c *retryWaitsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.workloads
	ch <- c.earliestDeadline
	ch <- c.mostRetries
	ch <- c.oldestWorkload
}

func (c *retryWaitsCollector) Collect(ch chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	for cqName, waits := range (*source)() {
		ch <- prometheus.MustNewConstMetric(c.workloads, prometheus.GaugeValue, float64(waits.Workloads), string(cqName))
		if waits.Workloads > 0 {
			ch <- prometheus.MustNewConstMetric(c.earliestDeadline, prometheus.GaugeValue, float64(waits.EarliestDeadline.Unix()), string(cqName))
		}
		for check, retried := range waits.Retried {
			ch <- prometheus.MustNewConstMetric(c.mostRetries, prometheus.GaugeValue, float64(retried.MostRetries), string(cqName), string(check))
			ch <- prometheus.MustNewConstMetric(c.oldestWorkload, prometheus.GaugeValue, float64(retried.OldestCreation.Unix()), string(cqName), string(check))
		}
	}
}

// ReportRetryWaits reports from now on, at each scrape, what source returns.
func ReportRetryWaits(source func() map[kueue.ClusterQueueReference]RetryWaits) {
	AdmissionCheckRetryWaits.source.Store(&source)
}

// ReportAdmissionCheckEviction counts an eviction for a retry of the check.
func ReportAdmissionCheckEviction(cqName kueue.ClusterQueueReference, check kueue.AdmissionCheckReference) {
	AdmissionCheckEvictionsTotal.WithLabelValues(string(cqName), string(check)).Inc()
}

// ReportAdmissionCheckRetry counts a retry of the check.
func ReportAdmissionCheckRetry(cqName kueue.ClusterQueueReference, check kueue.AdmissionCheckReference) {
	AdmissionCheckRetriesTotal.WithLabelValues(string(cqName), string(check)).Inc()
}

// ReportAdmissionCheckRetryLimitExceeded counts a workload that was deactivated
// because the check may not be retried any more.
func ReportAdmissionCheckRetryLimitExceeded(cqName kueue.ClusterQueueReference, check kueue.AdmissionCheckReference) {
	AdmissionCheckRetryLimitExceededTotal.WithLabelValues(string(cqName), string(check)).Inc()
}

// ReportAdmissionCheckRetryDelay records a delay that the check asked for.
func ReportAdmissionCheckRetryDelay(cqName kueue.ClusterQueueReference, check kueue.AdmissionCheckReference, delay time.Duration) {
	AdmissionCheckRetryDelay.WithLabelValues(string(cqName), string(check)).Observe(delay.Seconds())
}

// ReportAdmissionCheckRetryLateness records how long after its deadline a
// workload was requeued.
func ReportAdmissionCheckRetryLateness(cqName kueue.ClusterQueueReference, lateness time.Duration) {
	AdmissionCheckRetryLateness.WithLabelValues(string(cqName)).Observe(lateness.Seconds())
}

func clearClusterQueueRetryMetrics(cqName string) {
	labels := prometheus.Labels{"cluster_queue": cqName}
	AdmissionCheckEvictionsTotal.DeletePartialMatch(labels)
	AdmissionCheckRetriesTotal.DeletePartialMatch(labels)
	AdmissionCheckRetryLimitExceededTotal.DeletePartialMatch(labels)
	AdmissionCheckRetryDelay.DeletePartialMatch(labels)
	AdmissionCheckRetryLateness.DeletePartialMatch(labels)
}
