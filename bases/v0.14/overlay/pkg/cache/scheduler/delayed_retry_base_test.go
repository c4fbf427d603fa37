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
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

// A workload that was assumed in a ClusterQueue that is gone, or another one since, is
// not taken for assumed for ever.
func TestForgetCopyWithoutItsQueue(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		t.Run(fmt.Sprintf("recreated %t", recreated), func(t *testing.T) {
			ctx, log := utiltesting.ContextWithLog(t)
			cache := New(utiltesting.NewFakeClient())
			cq := utiltestingapi.MakeClusterQueue("cq").Obj()
			if err := cache.AddClusterQueue(ctx, cq); err != nil {
				t.Fatalf("Adding the ClusterQueue: %v", err)
			}
			wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).SimpleReserveQuota("cq", "rf", time.Now()).Obj()
			if err := cache.AssumeWorkload(log, wl); err != nil {
				t.Fatalf("Assuming the workload: %v", err)
			}
			cache.DeleteClusterQueue(cq)
			if recreated {
				if err := cache.AddClusterQueue(ctx, cq); err != nil {
					t.Fatalf("Adding the ClusterQueue again: %v", err)
				}
			}
			if cache.ForgetCopy(log, wl, func() *kueue.Workload { return nil }) {
				t.Error("The workload is accounted for")
			}
			if info := workload.NewInfo(wl); cache.IsAssumedOrAdmittedWorkload(*info) {
				t.Error("The workload is still assumed")
			}
		})
	}
}
