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

	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// setRequeueAfter sets the delay of the next retry of the check.
func setRequeueAfter(check *kueue.AdmissionCheckState, strategy *kueue.ProvisioningRequestRetryStrategy) {
	delay := float64(*strategy.BackoffBaseSeconds) * math.Pow(2, float64(ptr.Deref(check.RetryCount, 0)))
	check.RequeueAfterSeconds = ptr.To(int32(min(delay, float64(*strategy.BackoffMaxSeconds))))
}
