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

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"kueue-acrequeueafter/lab/demo/timeline"
)

const metricPrefix = "kueue_admission_check_retr"

// metrics are the manager's metrics of the delayed retries.
type metrics map[string]*dto.MetricFamily

// print prints the metrics of the delayed retries; of the histograms the count
// and the sum.
func (m metrics) print(w io.Writer) {
	for _, name := range m.names() {
		for _, metric := range m[name].Metric {
			labels := make([]string, len(metric.Label))
			for i, label := range metric.Label {
				labels[i] = fmt.Sprintf("%s=%q", label.GetName(), label.GetValue())
			}
			all := "{" + strings.Join(labels, ",") + "}"
			switch m[name].GetType() {
			case dto.MetricType_COUNTER:
				fmt.Fprintf(w, "  %s%s %g\n", name, all, metric.GetCounter().GetValue())
			case dto.MetricType_HISTOGRAM:
				fmt.Fprintf(w, "  %s_count%s %d\n", name, all, metric.GetHistogram().GetSampleCount())
				fmt.Fprintf(w, "  %s_sum%s %.3g\n", name, all, metric.GetHistogram().GetSampleSum())
			default:
				fmt.Fprintf(w, "  %s%s %g\n", name, all, metric.GetGauge().GetValue())
			}
		}
	}
}

func (m metrics) names() []string {
	var names []string
	for name := range m {
		if strings.HasPrefix(name, metricPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// verify holds the counters against what was seen to happen.
func (m metrics) verify(delays []timeline.Delay) timeline.Promise {
	want := map[string]float64{}
	for _, delay := range delays {
		want[delay.Check] += float64(delay.Retries)
	}
	got := map[string]float64{}
	for _, metric := range m["kueue_admission_check_retries_total"].GetMetric() {
		for _, label := range metric.Label {
			if label.GetName() == "admission_check" {
				got[label.GetValue()] += metric.GetCounter().GetValue()
			}
		}
	}
	return timeline.Promise{
		Kept:   maps.Equal(want, got),
		Text:   "the manager's metrics count the same retries",
		Detail: fmt.Sprint(got),
	}
}
