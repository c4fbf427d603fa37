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

package memapi_test

// knownDifference is one that is there on purpose.
type knownDifference struct{ Name, Reason string }

// known are all that memapi does otherwise, as far as anybody knows. No schedule comes to
// them: whatever else differs fails the test.
var known = []knownDifference{
	{
		Name:   "each resource counts its versions on its own",
		Reason: "traces of two builds are compared, and how often the status of a queue is written must not show in them; no client compares the versions of two resources",
	},
	{
		Name:   "one version of each kind is served, and nothing is converted",
		Reason: "the managers ask for one; the test has the CRDs changed in the same way",
	},
	{
		Name:   "all but Workloads is plain in the simulation: without field managers and validation",
		Reason: "it is faster, and the rules are about Workloads; in the test all other kinds of CRDs are tried in both ways, and what the API server refuses as invalid is not asked of a plain one",
	},
	{
		Name:   "a write that changes the field managers alone makes no new version of what is plain",
		Reason: "it has none; there a schedule ends",
	},
	{
		Name:   "an apply to what is plain knows of no other writes",
		Reason: "it has no field managers; of what is plain the managers apply the status of pods alone, which is not tried",
	},
	{
		Name:   "what is built in, and ProvisioningRequests, have no defaults and validation, and what has a CRD elsewhere no schema",
		Reason: "they are in the source of the API server, or in a CRD that is not in the tree; what the simulation writes of Jobs is complete",
	},
	{
		Name:   "of what is built in, an update makes no new Lease or LimitRange, a PodTemplate has no generation, and a list tells the kind of each object",
		Reason: "nobody asks for it; of what is built in Jobs and Secrets are tried",
	},
	{
		Name:   "no admission: webhooks, quotas, namespaces that are missing or end",
		Reason: "the webhooks are tried on a real API server; all is in one namespace, which stays",
	},
	{
		Name:   "dependents are deleted at once, whatever the propagation policy",
		Reason: "there is no other garbage collector; the real API server of the test has none either, so no schedule has an owner that exists",
	},
	{
		Name:   "UIDs and the ends of generated names are counted",
		Reason: "a schedule has to run the same way each time",
	},
	{
		Name:   "a watch has no bookmarks, and never starts from a version that is too old",
		Reason: "the simulation says when one is, with the event that client-go lists again after",
	},
	{
		Name:   "no selectors, no pages of a list, no initial events of a watch, no deletion of a collection, no dry run, no strict field validation",
		Reason: "refused, or ignored: no manager asks for them",
	},
	{
		Name:   "an owner that is named twice is kept twice, and an object may be of any size",
		Reason: "nobody writes such objects",
	},
	{
		Name:   "the times of field managers, and the texts of errors, are not compared",
		Reason: "the two servers answer at different times, and nobody may decide by a text",
	},
}
