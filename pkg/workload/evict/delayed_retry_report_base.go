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

package evict

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// ReportWait observes the delays that the eviction has recorded, and returns what its event
// is to say. Package workload sets it, as it does ResetChecks. Until then that is the
// message alone.
var ReportWait = func(_ *kueue.Workload, _ kueue.ClusterQueueReference, _, message string) string {
	return message
}
