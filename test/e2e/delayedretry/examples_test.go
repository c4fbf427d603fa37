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
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/test/util"
)

// The manifests deploy a controller that counts slots, which tells after each
// delay whether one is free, and one that spends budgets, which withdraws its
// delay when the budget changes.
var _ = ginkgo.Describe("Delayed retry asked for by deployed controllers", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter", "smoke"), func() {
	ginkgo.It("Should wait for a slot, then for a budget, and run the job to the end", func() {
		const delay = 6 * time.Second

		manifests := os.Getenv("E2E_EXAMPLES")
		if manifests == "" {
			ginkgo.Skip("E2E_EXAMPLES names no directory with manifests")
		}
		deploy(filepath.Join(manifests, "budget.yaml"), func(*unstructured.Unstructured) {})
		deploy(filepath.Join(manifests, "capacity.yaml"), func(obj *unstructured.Unstructured) {
			switch obj.GetKind() {
			case "Deployment":
				containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
				container := containers[0].(map[string]any)
				container["args"] = append(container["args"].([]any), "--backoff-base="+delay.String(), "--backoff-jitter=0")
				gomega.Expect(unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers")).To(gomega.Succeed())
			case "ConfigMap":
				gomega.Expect(unstructured.SetNestedField(obj.Object, "0", "data", "slots")).To(gomega.Succeed())
			}
		})
		queue := newFixture("budget", "capacity")
		budget := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "budget", Namespace: queue.namespace.Name},
			Data:       map[string]string{"limit": "1", "period": "24h", "resets": "2026-12-01T00:00:00Z"},
		}
		util.MustCreate(ctx, k8sClient, budget)

		ginkgo.By("waiting for a slot")
		created := time.Now()
		job := queue.createJob("job")
		deadline := job.expectWaiting(created.Add(delay))
		setData(client.ObjectKeyFromObject(budget), "limit", "unknown")
		setData(client.ObjectKey{Namespace: "capacity", Name: "slots"}, "slots", "1")
		job.expectWaitsUntil(deadline)

		ginkgo.By("waiting for a budget")
		job.expectWaiting(deadline.Add(time.Hour))
		state := admissioncheck.FindAdmissionCheck(job.workload(gomega.Default).Status.AdmissionChecks, "budget")
		gomega.Expect(state.RequeueAfterSeconds).To(gomega.HaveValue(gomega.BeEquivalentTo(3600)))
		gomega.Consistently(job.pods, unchanged, util.Interval).Should(gomega.BeEmpty())
		setData(client.ObjectKeyFromObject(budget), "limit", "1")

		ginkgo.By("ending the pod")
		job.finish(job.expectRunningPod())

		for _, namespace := range []string{"budget", "capacity"} {
			expectNothingForbidden(namespace)
		}
	})
})

// deploy creates the objects of the manifests, after a change, and waits until
// the check is active. They are deleted after the spec.
func deploy(manifests string, change func(*unstructured.Unstructured)) {
	ginkgo.GinkgoHelper()
	file, err := os.Open(manifests)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	defer file.Close()
	var objs []*unstructured.Unstructured
	ginkgo.DeferCleanup(func() {
		for _, obj := range objs {
			gomega.Expect(client.IgnoreNotFound(k8sClient.Delete(ctx, obj))).To(gomega.Succeed())
		}
		for _, obj := range objs {
			gomega.Eventually(func() error {
				return k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			}, util.LongTimeout, util.Interval).Should(utiltesting.BeNotFoundError())
		}
	})
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			break
		} else {
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
		}
		change(obj)
		util.MustCreate(ctx, k8sClient, obj)
		objs = append(objs, obj)
	}
	for _, obj := range objs {
		if obj.GetKind() == "AdmissionCheck" {
			gomega.Eventually(func(g gomega.Gomega) {
				check := &kueue.AdmissionCheck{}
				g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(obj), check)).To(gomega.Succeed())
				g.Expect(check.Status.Conditions).To(utiltesting.HaveConditionStatusTrue(kueue.AdmissionCheckActive))
			}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
		}
	}
}

// setData changes an entry of a ConfigMap.
func setData(key client.ObjectKey, entry, value string) {
	ginkgo.GinkgoHelper()
	configMap := &corev1.ConfigMap{}
	gomega.Eventually(func(g gomega.Gomega) {
		g.Expect(k8sClient.Get(ctx, key, configMap)).To(gomega.Succeed())
		configMap.Data[entry] = value
		g.Expect(k8sClient.Update(ctx, configMap)).To(gomega.Succeed())
	}, util.Timeout, util.Interval).Should(gomega.Succeed())
}
