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

package simulation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// With a topology each flavor has nodes of its own, and jobs ask for one of them. As
// there is a check for ProvisioningRequests, the node is chosen in a second pass of the
// scheduler, when all checks are Ready.

const topologyName = "nodes"

// flavors returns the flavors, and what else there is for a topology.
func (w *World) flavors() []client.Object {
	var objects []client.Object
	if w.config.Topology {
		objects = append(objects, &kueue.Topology{
			ObjectMeta: metav1.ObjectMeta{Name: topologyName},
			Spec:       kueue.TopologySpec{Levels: []kueue.TopologyLevel{{NodeLabel: corev1.LabelHostname}}},
		})
	}
	for _, name := range []string{"f1", "f2"} {
		flavor := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if w.config.Topology {
			flavor.Spec.NodeLabels, flavor.Spec.TopologyName = map[string]string{"flavor": name}, new(kueue.TopologyReference)
			*flavor.Spec.TopologyName = topologyName
		}
		objects = append(objects, flavor)
	}
	return objects
}

// createNode creates the node of a flavor, which is large enough for its quota.
func (w *World) createNode(flavor string) {
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + flavor, Labels: map[string]string{"flavor": flavor, corev1.LabelHostname: "node-" + flavor}}}
	if err := w.admin.Create(ctx, node); err != nil {
		panic(err)
	}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10"), corev1.ResourcePods: resource.MustParse("10")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if err := w.admin.Status().Update(ctx, node); err != nil {
		panic(err)
	}
}

// hasNode returns true if the flavor has its node.
func (w *World) hasNode(flavor string) bool {
	return w.admin.Get(context.Background(), client.ObjectKey{Name: "node-" + flavor}, &corev1.Node{}) == nil
}

// switchNode deletes the node of a flavor, or creates it again.
func (w *World) switchNode(flavor string) {
	if w.hasNode(flavor) {
		w.note("the node of %s is lost", flavor)
		_ = w.admin.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + flavor}})
		return
	}
	w.note("the node of %s is there", flavor)
	w.createNode(flavor)
}

// nodeLost returns true if a flavor with a topology has no node.
func (w *World) nodeLost() bool {
	return w.config.Topology && !(w.hasNode("f1") && w.hasNode("f2"))
}

// restoreNodes ends what switchNode began.
func (w *World) restoreNodes() {
	for _, flavor := range []string{"f1", "f2"} {
		if w.config.Topology && !w.hasNode(flavor) {
			w.switchNode(flavor)
		}
	}
}

// hasNodeAssigned returns true if the workload has its place in the topology.
func hasNodeAssigned(wl *kueue.Workload) bool {
	return wl.Status.Admission != nil && wl.Status.Admission.PodSetAssignments[0].TopologyAssignment != nil
}

// topology: a node is chosen for those that hold quota, and wait for nothing, and nobody
// is admitted without one.
func (j *judge) topology(old, wl *kueue.Workload) {
	if !j.world.config.Topology || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	if !workload.IsAdmitted(old) && workload.IsAdmitted(wl) && !hasNodeAssigned(wl) {
		j.fail("rule 7, second pass", "%s is admitted without a node", describe(wl))
	}
	if hasNodeAssigned(old) || !hasNodeAssigned(wl) {
		return
	}
	j.seenEvents["second passes"]++
	if !workload.HasQuotaReservation(old) || workloadevict.IsEvicted(old) || workload.HasRetryChecks(old) || workload.HasRejectedChecks(old) {
		j.fail("rule 7, second pass", "a node is chosen for %s", describe(old))
	}
}

// overcommitted: who was refused has not forgotten the quota that others hold, or the
// same one for whom it has chosen a node.
func (j *judge) overcommitted(held int) {
	if j.world.config.Replicas == 1 && held > cpus {
		j.fail("rule 7, second pass", "quota for %d is held by %d", cpus, held)
	}
}
