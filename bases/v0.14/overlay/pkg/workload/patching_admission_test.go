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

package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
)

func TestMergePatchOfAssumedAdmission(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	admission := utiltestingapi.MakeAdmission("cq").Obj()
	pending := utiltestingapi.MakeWorkload("wl", "ns").Obj()
	reserved := utiltestingapi.MakeWorkload("wl", "ns").ReserveQuotaAt(admission, now).Obj()
	cases := map[string]struct {
		stored, seen *kueue.Workload
		release      bool
		want         kueue.ClusterQueueReference
	}{
		"assumed":               {stored: pending, seen: reserved, want: "cq"},
		"assumed, and released": {stored: pending, seen: reserved, release: true},
		"reserved":              {stored: reserved, seen: reserved, want: "cq"},
		"released":              {stored: reserved, seen: reserved, release: true},
		"pending":               {stored: pending, seen: pending},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			stored := tc.stored.DeepCopy()
			cl := utiltesting.NewClientBuilder().WithObjects(stored).WithStatusSubresource(stored).Build()
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			wl := tc.seen.DeepCopy()
			wl.ResourceVersion = stored.ResourceVersion
			err := PatchAdmissionStatus(ctx, cl, wl, testingclock.NewFakeClock(now), func() (*kueue.Workload, bool, error) {
				apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption})
				if tc.release {
					apimeta.RemoveStatusCondition(&wl.Status.Conditions, kueue.WorkloadQuotaReserved)
					wl.Status.Admission = nil
				}
				return wl, true, nil
			})
			if err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			var got kueue.ClusterQueueReference
			if stored.Status.Admission != nil {
				got = stored.Status.Admission.ClusterQueue
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected admission (-want,+got):\n%s", diff)
			}
			if reserved := apimeta.IsStatusConditionTrue(stored.Status.Conditions, kueue.WorkloadQuotaReserved); reserved != (tc.want != "") {
				t.Errorf("QuotaReserved is %t, and the admission is that of %q", reserved, got)
			}
		})
	}
}
