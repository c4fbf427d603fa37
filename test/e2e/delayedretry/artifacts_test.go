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
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// dumpedKinds are those of the objects that tell why a spec failed.
var dumpedKinds = []schema.GroupVersionKind{
	kueue.SchemeGroupVersion.WithKind("Workload"),
	kueue.SchemeGroupVersion.WithKind("LocalQueue"),
	kueue.SchemeGroupVersion.WithKind("ClusterQueue"),
	kueue.SchemeGroupVersion.WithKind("ResourceFlavor"),
	kueue.SchemeGroupVersion.WithKind("AdmissionCheck"),
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Event"},
}

// The objects of a spec that failed, before they are deleted. Those of specs
// that run at the same time are among them.
var _ = ginkgo.JustAfterEach(func() {
	report := ginkgo.CurrentSpecReport()
	artifacts := os.Getenv("ARTIFACTS")
	if !report.Failed() || artifacts == "" {
		return
	}
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(report.LeafNodeText, "-"), "-")
	dir := filepath.Join(artifacts, "failed", fmt.Sprintf("%s-%d", name, report.NumAttempts))
	gomega.Expect(os.MkdirAll(dir, 0o755)).To(gomega.Succeed())

	var objects bytes.Buffer
	for _, kind := range dumpedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := k8sClient.List(ctx, list); err != nil {
			fmt.Fprintf(&objects, "---\n# no list of %s: %v\n", kind.Kind, err)
		}
		for i := range list.Items {
			encoded, err := yaml.Marshal(&list.Items[i])
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			fmt.Fprintf(&objects, "---\n%s", encoded)
		}
	}
	gomega.Expect(os.WriteFile(filepath.Join(dir, "objects.yaml"), objects.Bytes(), 0o644)).To(gomega.Succeed())

	pods := &corev1.PodList{}
	gomega.Expect(k8sClient.List(ctx, pods)).To(gomega.Succeed())
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Namespace != "kube-system" {
			logs, err := podLogs(pod)
			if err != nil {
				logs = err.Error()
			}
			gomega.Expect(os.WriteFile(filepath.Join(dir, pod.Namespace+"_"+pod.Name+".log"), []byte(logs), 0o644)).To(gomega.Succeed())
		}
	}
})

func podLogs(pod *corev1.Pod) (string, error) {
	logs, err := restClient.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").Do(ctx).Raw()
	return string(logs), err
}
