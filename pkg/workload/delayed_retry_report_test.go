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

	"github.com/prometheus/client_golang/prometheus/testutil"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
)

func TestReportWait(t *testing.T) {
	for name, tc := range map[string]struct {
		gateOff     bool
		reason      string
		check       kueue.AdmissionCheckState
		want        string
		wantObserve int
	}{
		"a delay": {
			reason:      kueue.WorkloadEvictedByPreemption,
			check:       retryAt("a", 0, 60),
			want:        "Evicted. Admission check(s) a asked for a retry, waiting until 2026-02-06T10:01:00Z",
			wantObserve: 1,
		},
		"no delay":                        {reason: kueue.WorkloadEvictedByPreemption, check: checkAt("a", kueue.CheckStateRetry, 0), want: "Evicted"},
		"by the check, which tells of it": {reason: kueue.WorkloadEvictedByAdmissionCheck, check: retryAt("a", 0, 60), want: "Evicted"},
		"deactivated":                     {reason: kueue.WorkloadDeactivated, check: retryAt("a", 0, 60), want: "Evicted"},
		"gate off":                        {gateOff: true, reason: kueue.WorkloadEvictedByPreemption, check: retryAt("a", 0, 60), want: "Evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			metrics.AdmissionCheckRetryDelay.Reset()
			t.Cleanup(metrics.AdmissionCheckRetryDelay.Reset)
			wl := reserved().AdmissionChecks(tc.check).Obj()
			evictAt(wl, at(0), tc.reason, "Evicted")
			if got := reportWait(wl, "cq", tc.reason, "Evicted"); got != tc.want {
				t.Errorf("Unexpected message %q, want %q", got, tc.want)
			}
			if got := testutil.CollectAndCount(metrics.AdmissionCheckRetryDelay); got != tc.wantObserve {
				t.Errorf("Unexpected number of checks with a delay %d, want %d", got, tc.wantObserve)
			}
		})
	}
}
