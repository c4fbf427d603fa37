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

package patching

import "sigs.k8s.io/kueue/pkg/features"

// WithStrictForChecks has the write of a Workload that has, or is to get, admission checks
// conflict if it is stale, whatever the options before it say: it could undo a Retry. A
// Workload without checks is written as without the gate.
func WithStrictForChecks(checks int) PatchStatusOption {
	return func(o *patchStatusOptions) {
		if checks > 0 && features.Enabled(features.ACRequeueAfter) {
			o.StrictPatch, o.StrictApply, o.RetryOnConflictForPatch = true, true, false
		}
	}
}
