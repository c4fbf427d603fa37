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

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestInstall installs manifests and chart on an API server, with kubectl and helm,
// and looks at what stands there: those that DIST, VERSION, IMAGE
// and GATE name, as they lie there, and those that are made from the tree.
func TestInstall(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not name a directory with etcd, kube-apiserver, kubectl and helm: see make check-dist")
	}
	if dist := os.Getenv("DIST"); dist != "" {
		r := newRelease(t, os.Getenv("IMAGE"))
		r.dist, r.version, r.gateFlag = dist, os.Getenv("VERSION"), os.Getenv("GATE")
		if err := r.complete(); err != nil {
			t.Fatal(err)
		}
		t.Run("what lies in "+filepath.Base(dist), func(t *testing.T) { testInstall(t, r) })
	}
	tree := patchedTree(t)
	for _, gate := range []string{"on", "off"} {
		t.Run("what is made with the gate "+gate, func(t *testing.T) {
			r := newRelease(t, "")
			r.tree, r.gateFlag = tree, gate
			if err := errors.Join(r.complete(), r.makeManifests(), r.makeChart()); err != nil {
				t.Fatal(err)
			}
			testInstall(t, r)
		})
	}
}

func testInstall(t *testing.T, r *release) {
	for _, form := range []string{"manifests", "chart"} {
		t.Run(form, func(t *testing.T) {
			c, reader := startControlPlane(t, r)
			switch form {
			case "manifests":
				reader.runs(t, "kubectl apply --server-side -f "+filepath.Base(r.manifestsPath()))
			case "chart":
				reader.runs(t, "helm install kueue "+filepath.Base(r.chartPath())+" --namespace kueue-system --create-namespace")
			}

			var deployment appsv1.Deployment
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "kueue-system", Name: deploymentName}, &deployment); err != nil {
				t.Fatal(err)
			}
			manager := deployment.Spec.Template.Spec.Containers[0]
			if want := imageRepository(r.image) + ":" + r.image.TagStr(); manager.Image != want {
				t.Errorf("image = %s, want %s", manager.Image, want)
			}
			if manager.ImagePullPolicy != corev1.PullIfNotPresent {
				t.Errorf("imagePullPolicy = %s: an image that was loaded would not be used", manager.ImagePullPolicy)
			}
			gates := slices.DeleteFunc(slices.Clone(manager.Args), func(a string) bool { return !strings.Contains(a, "feature-gates") })
			var want []string
			if r.gate {
				want = []string{"--feature-gates=ACRequeueAfter=true"}
			}
			if !slices.Equal(gates, want) {
				t.Errorf("arguments that set gates = %q, want %q", gates, want)
			}
			if err := checkAPI([]*unstructured.Unstructured{storedCRD(t, c)}); err != nil {
				t.Errorf("the API as the server has it:\n%v", err)
			}
		})
	}
}

// reader types commands into a shell, in the folder of a release.
type reader struct {
	folder string
	env    []string
}

// runs has the shell find kubectl and helm where etcd and kube-apiserver are.
func (r reader) runs(t *testing.T, command string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
	shell.Dir, shell.Env = r.folder, r.env
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
}

// startControlPlane returns a client, and somebody who has the release and a kubeconfig.
func startControlPlane(t *testing.T, r *release) (client.Client, reader) {
	t.Helper()
	// A busy machine takes longer than the 20 s that are usual.
	plane := &envtest.Environment{ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute}
	config, err := plane.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	put(t, kubeconfig, plane.KubeConfig)
	return c, reader{folder: r.dist, env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home,
		"PATH="+os.Getenv("KUBEBUILDER_ASSETS")+string(os.PathListSeparator)+os.Getenv("PATH"))}
}

// storedCRD returns the CRD of workloads as the API server has it.
func storedCRD(t *testing.T, c client.Client) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.Get(t.Context(), types.NamespacedName{Name: "workloads.kueue.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}
