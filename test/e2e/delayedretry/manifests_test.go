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

package delayedretrye2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/test/util"
)

const (
	managerName  = "kueue-controller-manager"
	gateArgument = "--feature-gates=ACRequeueAfter=true"
)

// manifests install a Kueue.
type manifests []*unstructured.Unstructured

// manifestsOf reads the file that the environment variable names.
func manifestsOf(variable string) manifests {
	ginkgo.GinkgoHelper()
	file, found := os.LookupEnv(variable)
	gomega.Expect(found).To(gomega.BeTrue(), variable)
	content, err := os.ReadFile(file)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var m manifests
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return m
		}
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		m = append(m, object)
	}
}

func isCRD(object *unstructured.Unstructured) bool {
	return object.GetKind() == "CustomResourceDefinition"
}

func (m manifests) crds() manifests {
	return slices.DeleteFunc(slices.Clone(m), func(object *unstructured.Unstructured) bool { return !isCRD(object) })
}

func (m manifests) withoutCRDs() manifests {
	return slices.DeleteFunc(slices.Clone(m), isCRD)
}

// withDeployment returns the manifests with the Deployment of the manager changed.
func (m manifests) withDeployment(change func(deployment map[string]any)) manifests {
	ginkgo.GinkgoHelper()
	m = slices.Clone(m)
	i := slices.IndexFunc(m, func(object *unstructured.Unstructured) bool {
		return object.GetKind() == "Deployment" && object.GetName() == managerName
	})
	gomega.Expect(i).NotTo(gomega.Equal(-1))
	m[i] = m[i].DeepCopy()
	change(m[i].Object)
	return m
}

func (m manifests) withReplicas(replicas int64) manifests {
	ginkgo.GinkgoHelper()
	return m.withDeployment(func(deployment map[string]any) {
		gomega.Expect(unstructured.SetNestedField(deployment, replicas, "spec", "replicas")).To(gomega.Succeed())
	})
}

func (m manifests) withGateOff() manifests {
	ginkgo.GinkgoHelper()
	return m.withDeployment(func(deployment map[string]any) {
		containers, _, err := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		container := containers[0].(map[string]any)
		args := container["args"].([]any)
		gomega.Expect(args).To(gomega.ContainElement(gateArgument))
		container["args"] = slices.DeleteFunc(args, func(arg any) bool { return arg == gateArgument })
		gomega.Expect(unstructured.SetNestedSlice(deployment, containers, "spec", "template", "spec", "containers")).To(gomega.Succeed())
	})
}

// apply does what "kubectl apply --server-side" does.
func (m manifests) apply() {
	ginkgo.GinkgoHelper()
	for _, object := range m {
		gomega.Expect(k8sClient.Patch(ctx, object.DeepCopy(), client.Apply, client.FieldOwner("kubectl"))).To(gomega.Succeed(), object.GetKind()+" "+object.GetName())
	}
}

// install applies the manifests, and waits until one of their managers leads.
func (m manifests) install() {
	ginkgo.GinkgoHelper()
	m.apply()
	expectLeader("")
}

// expectLeader waits until only the managers that are asked for run, one of them
// leads, another one than before, and the webhooks for all that specs create answer. It
// returns the name of its pod.
func expectLeader(before string) string {
	ginkgo.GinkgoHelper()
	namespace := util.GetKueueNamespace()
	var leader string
	gomega.Eventually(func(g gomega.Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: namespace, Name: managerName}, deployment)).To(gomega.Succeed())
		g.Expect(deployment.Status.ObservedGeneration).To(gomega.Equal(deployment.Generation))
		g.Expect(deployment.Status.UpdatedReplicas).To(gomega.Equal(*deployment.Spec.Replicas))
		g.Expect(deployment.Status.AvailableReplicas).To(gomega.Equal(*deployment.Spec.Replicas))
		pods := &corev1.PodList{}
		g.Expect(k8sClient.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))).To(gomega.Succeed())
		g.Expect(pods.Items).To(gomega.HaveLen(int(*deployment.Spec.Replicas)))

		lease := &coordinationv1.Lease{}
		g.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: namespace, Name: configapi.DefaultLeaderElectionID}, lease)).To(gomega.Succeed())
		// The name of the pod, and a UUID.
		leader, _, _ = strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		g.Expect(leader).NotTo(gomega.Equal(before))
		g.Expect(pods.Items).To(gomega.ContainElement(gomega.HaveField("Name", leader)))

		// The API server has a connection for each webhook. kube-proxy may send a new one
		// to a pod that is gone for a while; one that has been answered stays.
		for _, object := range []client.Object{
			utiltestingapi.MakeAdmissionCheck("webhook").ControllerName(controllerName).Obj(),
			utiltestingapi.MakeResourceFlavor("webhook").Obj(),
			utiltestingapi.MakeClusterQueue("webhook").Obj(),
			utiltestingapi.MakeLocalQueue("webhook", metav1.NamespaceDefault).ClusterQueue("webhook").Obj(),
			testingjob.MakeJob("webhook", metav1.NamespaceDefault).Queue("webhook").Obj(),
			utiltestingapi.MakeWorkload("webhook", metav1.NamespaceDefault).Obj(),
		} {
			g.Expect(k8sClient.Create(ctx, object, client.DryRunAll)).To(gomega.Succeed())
		}
	}, util.VeryLongTimeout, util.Interval).Should(gomega.Succeed())
	return leader
}

// killLeader deletes the pod of the manager that leads without grace, and waits
// until another one leads.
func killLeader() {
	ginkgo.GinkgoHelper()
	leader := expectLeader("")
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = util.GetKueueNamespace(), leader
	gomega.Expect(k8sClient.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	expectLeader(leader)
}
