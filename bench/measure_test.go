package main

import (
	"reflect"
	"strings"
	"testing"

	"kueue-acrequeueafter/bench/result"
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
