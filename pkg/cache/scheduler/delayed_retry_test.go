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

package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

// What accounts for a workload is forgotten with the write that it was made for, and
// nobody sees the cache without the workload if it holds quota.
func TestForgetCopy(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	version := func(version string) *kueue.Workload {
		return utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).ResourceVersion(version).Request(corev1.ResourceCPU, "1").SimpleReserveQuota("cq", "rf", now).Obj()
	}
	moved := version("4")
	moved.Spec.QueueName = "other"
	for name, tc := range map[string]struct {
		newer    *kueue.Workload
		reserved *kueue.Workload
		want     []string
		// wantQueue: of the same LocalQueue.
		wantQueue bool
	}{
		"it holds no quota":                 {},
		"it holds quota":                    {reserved: version("2"), want: []string{"2"}, wantQueue: true},
		"it holds quota of another queue":   {reserved: moved, want: []string{"4"}},
		"an event has come, which is newer": {newer: version("3"), reserved: version("2"), want: []string{"3"}, wantQueue: true},
		"another reservation has come":      {newer: version("1"), want: []string{"1"}, wantQueue: true},
		"one of another queue has come":     {newer: moved, want: []string{"4"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, log := utiltesting.ContextWithLog(t)
			cache := New(utiltesting.NewFakeClient())
			cache.AddOrUpdateResourceFlavor(log, utiltestingapi.MakeResourceFlavor("rf").Obj())
			if err := cache.AddClusterQueue(ctx, utiltestingapi.MakeClusterQueue("cq").ResourceGroup(*utiltestingapi.MakeFlavorQuotas("rf").Resource(corev1.ResourceCPU, "1").Obj()).Obj()); err != nil {
				t.Fatalf("Adding the ClusterQueue: %v", err)
			}
			wl := version("1")
			cache.AddOrUpdateWorkload(log, wl)
			if tc.newer != nil {
				cache.AddOrUpdateWorkload(log, tc.newer)
			}
			isAccountedFor := cache.ForgetCopy(log, wl, func() *kueue.Workload {
				if cache.TryRLock() {
					cache.RUnlock()
					t.Error("Others see the cache without the workload")
				}
				return tc.reserved
			})
			if isAccountedFor != tc.wantQueue {
				t.Errorf("Unexpected answer: %t, want %t", isAccountedFor, tc.wantQueue)
			}
			snapshot, err := cache.Snapshot(ctx)
			if err != nil {
				t.Fatalf("Taking a snapshot: %v", err)
			}
			var got []string
			for _, info := range snapshot.ClusterQueue("cq").Workloads {
				got = append(got, info.Obj.ResourceVersion)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected versions of the workload in the cache (-want,+got):\n%s", diff)
			}
		})
	}
}
