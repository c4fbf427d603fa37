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

package provisioning

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
)

func TestProvisioningRequestName(t *testing.T) {
	long := strings.Repeat("a", 200)
	cases := map[string]struct {
		workload string
		check    kueue.AdmissionCheckReference
		attempt  int32
		// wantName is not checked when empty.
		wantName string
	}{
		"short names": {
			workload: "wl",
			check:    "check",
			attempt:  1,
			wantName: "wl-check-1",
		},
		"long names": {
			workload: long,
			check:    kueue.AdmissionCheckReference(long),
			attempt:  1,
		},
		"long names, second attempt": {
			workload: long,
			check:    kueue.AdmissionCheckReference(long),
			attempt:  2,
		},
		"long names, maximal attempt": {
			workload: long,
			check:    kueue.AdmissionCheckReference(long),
			attempt:  math.MaxInt32,
		},
		"just not limited, maximal attempt": {
			workload: strings.Repeat("a", 230),
			check:    "check",
			attempt:  math.MaxInt32,
			wantName: strings.Repeat("a", 230) + "-check-2147483647",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, log := utiltesting.ContextWithLog(t)
			gotName := ProvisioningRequestName(tc.workload, tc.check, tc.attempt)
			if tc.wantName != "" && gotName != tc.wantName {
				t.Errorf("Unexpected name %q, want %q", gotName, tc.wantName)
			}
			if errs := validation.IsDNS1123Subdomain(gotName); len(errs) > 0 {
				t.Errorf("Invalid name %q: %v", gotName, errs)
			}

			pr := &autoscaling.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Name: gotName}}
			if !matchesWorkloadAndCheck(pr, tc.workload, tc.check) {
				t.Fatalf("The name %q doesn't match the workload and the check", gotName)
			}
			if diff := cmp.Diff(tc.attempt, getAttempt(log, pr, tc.workload, tc.check)); diff != "" {
				t.Errorf("Unexpected attempt (-want,+got):\n%s", diff)
			}
			if matchesWorkloadAndCheck(pr, tc.workload+"b", tc.check) {
				t.Errorf("The name %q matches another workload", gotName)
			}
		})
	}
}
