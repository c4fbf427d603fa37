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

// Package kit is for the controllers of Kueue's admission checks. The author
// writes one function,
//
//	func(ctx context.Context, wl *kueue.Workload, check kit.Check) (kit.Verdict, error)
//
// and Setup calls it for each workload that holds quota and waits for the answer
// of the check. The verdict is Pending, Ready, Retry after a delay, or Rejected.
// The kit writes it to the workload's status, and keeps the condition Active of
// the AdmissionChecks.
//
// It is built with the types of a plain release of Kueue, those of v1beta2.
// AddToScheme asks the API server which versions it serves, and takes the newest
// that it knows: v1beta2, or v1beta1, which is all that Kueue v0.14 has.
//
// What an answer does is described in KEP-3258, delayed admission check retries.
// The delay needs the feature gate ACRequeueAfter of a patched Kueue. While it is off,
// v0.15 to v0.19 keep the quota until the delay is over, and v0.14 retries workloads at
// once. An API server whose CRD of Workload has no requeueAfterSeconds refuses every
// Retry.
package kit
