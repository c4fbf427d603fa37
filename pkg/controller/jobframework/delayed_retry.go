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

package jobframework

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

// isStoppedForRetry returns true if nothing of the job is left to stop while its
// workload waits, without quota, for the retry of its admission checks. The quota
// was released when the job had been stopped, or had not been started yet.
func isStoppedForRetry(job GenericJob, wl *kueue.Workload) bool {
	// The pods of a group are suspended one by one.
	_, composable := job.(ComposableJob)
	_, evictedByCheck := workload.IsEvictedByAdmissionCheck(wl)
	return features.Enabled(features.ACRequeueAfter) && !composable && evictedByCheck &&
		!workload.HasQuotaReservation(wl) && job.IsSuspended()
}
