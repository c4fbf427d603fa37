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
	"reflect"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"

	"kueue-acrequeueafter/lab/bench/result"
)

func TestReadCalls(t *testing.T) {
	const log = `{"verb":"patch","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"workloads","subresource":"status","namespace":"jobs","name":"a"},"responseStatus":{"code":200}}
{"verb":"patch","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"workloads","subresource":"status","namespace":"jobs","name":"b"},"responseStatus":{"code":409}}
{"verb":"patch","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"workloads","subresource":"status","namespace":"other","name":"probe"},"responseStatus":{"code":200}}
{"verb":"update","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"clusterqueues","subresource":"status","name":"other"},"responseStatus":{"code":200}}
{"verb":"create","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"events","namespace":"jobs"},"responseStatus":{"code":201}}
{"verb":"watch","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}
{"verb":"create","user":{"username":"admin"},"userAgent":"kueue/v0.14.8","objectRef":{"resource":"tokenreviews"},"responseStatus":{"code":201}}
{"verb":"patch","user":{"username":"bench"},"userAgent":"bench/v0.0.0","objectRef":{"resource":"workloads","subresource":"status","namespace":"jobs","name":"a"},"responseStatus":{"code":200}}
{"verb":"list","user":{"username":"system:apiserver"},"userAgent":"kube-apiserver/v1.34.1","objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}
{"verb":"patch","user":{"username":"admin"},"userAg`
	calls, err := readCalls(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	got, conflicts := calls.count()
	want := []result.Call{{Verb: "patch", Resource: "workloads/status", Count: 2}, {Verb: "create", Resource: "events", Count: 1}}
	if !reflect.DeepEqual(got, want) || conflicts != 1 {
		t.Errorf("Unexpected calls: %v and %d conflicts, want %v and 1", got, conflicts, want)
	}
	r := result.Result{Calls: got}
	if r.Writes("") != 2 || r.Writes("workloads/status") != 2 {
		t.Errorf("Unexpected writes: %d, to workloads/status %d; want 2 and 2", r.Writes(""), r.Writes("workloads/status"))
	}
}

func TestSumBy(t *testing.T) {
	sample := func(queue string, gauge float64) *dto.Metric {
		return &dto.Metric{
			Label: []*dto.LabelPair{{Name: ptr.To("cluster_queue"), Value: ptr.To(queue)}, {Name: ptr.To("status"), Value: ptr.To("active")}},
			Gauge: &dto.Gauge{Value: ptr.To(gauge)},
		}
	}
	got := sumBy(&dto.MetricFamily{Metric: []*dto.Metric{sample("a", 2), sample("b", 5), sample("a", 1)}}, "cluster_queue")
	if want := map[string]int{"a": 3, "b": 5}; !reflect.DeepEqual(got, want) {
		t.Errorf("Unexpected sums %v, want %v", got, want)
	}
	if got := sumBy(nil, "cluster_queue"); len(got) > 0 {
		t.Errorf("Unexpected sums %v of no metric", got)
	}
}
