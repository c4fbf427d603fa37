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
	"fmt"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
)

// reportWait observes the delays that an eviction for another reason than a check has
// recorded, and returns what its event is to say: the message, and until when the workload
// waits for which checks.
func reportWait(wl *kueue.Workload, cqName kueue.ClusterQueueReference, reason, message string) string {
	deadline, waits := RetryDeadline(wl)
	if !features.Enabled(features.ACRequeueAfter) || !waits || !deadline.After(evictedAt(wl)) || reason == kueue.WorkloadEvictedByAdmissionCheck {
		return message
	}
	retry := checksInRetry(wl)
	for _, check := range retry {
		if check.RequeueAfterSeconds != nil {
			metrics.ReportAdmissionCheckRetryDelay(cqName, check.Name, time.Duration(*check.RequeueAfterSeconds)*time.Second)
		}
	}
	return fmt.Sprintf("%s. %s", message, waitMessage(retry, evictedAt(wl), deadline, backoffUntil(wl)))
}
