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
	"time"

	"github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

// enablePodsReady returns WaitForPodsReady, enabled with the timeout.
func enablePodsReady(timeout time.Duration) *config.WaitForPodsReady {
	return &config.WaitForPodsReady{Timeout: metav1.Duration{Duration: timeout}}
}

// keepRequests has the requests of a workload outlive its evictions. They do not
// otherwise, and a spec cannot change, delete or reuse one that is gone.
func keepRequests() {
	features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.CleanupProvisioningRequestsOnEviction, false)
}

// isBackingOffWithGateOff tells whether the workload waits for a check, with the gate
// off. Kueue's own implementation keeps the quota, and counts afterwards.
func isBackingOffWithGateOff(wl *kueue.Workload) bool {
	return wl.Status.RequeueState != nil && wl.Status.RequeueState.RequeueAt != nil && workload.HasRetryChecks(wl)
}
