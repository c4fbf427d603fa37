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

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kustomizetypes "sigs.k8s.io/kustomize/api/types"
)

const migrationPage = "../../docs/migration.md"

// pageCommands returns the commands of docs/migration.md that begin so, in their order.
func pageCommands(t *testing.T, beginnings ...string) []string {
	t.Helper()
	var commands []string
	continued := false
	for line := range strings.Lines(string(get(t, migrationPage))) {
		line = strings.TrimSpace(line)
		switch {
		case continued:
			commands[len(commands)-1] += " " + strings.TrimSuffix(line, `\`)
		case slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(line, b+" ") }):
			commands = append(commands, strings.TrimSuffix(line, `\`))
		default:
			continue
		}
		continued = strings.HasSuffix(line, `\`)
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no commands that begin with %q", migrationPage, beginnings)
	}
	return commands
}

// TestMigration runs the commands of docs/migration.md that install Kueue, with kubectl
// and helm, on an API server: from the plain Kueue that PLAIN names, and back.
func TestMigration(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not name a directory with etcd, kube-apiserver, kubectl and helm: see make check-dist")
	}
	r := newRelease(t, "")
	r.tree, r.base = patchedTree(t), plainSource(t)
	if err := errors.Join(r.makeManifests(), r.makeChart()); err != nil {
		t.Fatal(err)
	}
	t.Run("manifests", func(t *testing.T) {
		c, reader := startControlPlane(t, r)
		plain, err := kustomize(r.base, kustomizetypes.Kustomization{})
		if err != nil {
			t.Fatal(err)
		}
		content, err := plain.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(r.dist, "plain.yaml"), content)
		reader.runs(t, "kubectl apply --server-side -f plain.yaml")
		expectGates(t, c, nil)
		for _, command := range pageCommands(t, "sed", "kubectl apply --server-side -f manifests.yaml") {
			reader.runs(t, command)
			switch {
			case strings.Contains(command, "ACRetryStrategy"):
				expectGates(t, c, []string{gateArgument + ",ACRetryStrategy=true"})
			case strings.HasPrefix(command, "sed"):
				expectGates(t, c, nil)
			default:
				expectGates(t, c, []string{gateArgument})
			}
		}
	})
	t.Run("chart", func(t *testing.T) {
		c, reader := startControlPlane(t, r)
		// As it lies in Kueue's sources: no registry is asked.
		const published = "oci://registry.k8s.io/kueue/charts/kueue"
		plain := filepath.Join(r.base, "charts", componentName)
		reader.runs(t, "helm install kueue "+plain+" --namespace kueue-system --create-namespace")
		expectGates(t, c, nil)
		kept := priorityClass(t, c)
		if err := c.Create(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		for _, command := range pageCommands(t, "helm") {
			if strings.HasPrefix(command, "helm uninstall") {
				// The page went back to plain Kueue before.
				reader.runs(t, "helm upgrade kueue kueue-*.tgz --namespace kueue-system")
			}
			reader.runs(t, strings.ReplaceAll(command, published, plain))
			switch {
			case strings.HasPrefix(command, "helm uninstall"):
				err := c.Get(t.Context(), types.NamespacedName{Namespace: "kueue-system", Name: deploymentName}, &appsv1.Deployment{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("after %s the Deployment is there: %v", command, err)
				}
			case strings.Contains(command, "ACRetryStrategy"):
				expectGates(t, c, []string{gateArgument + ",ACRetryStrategy=true"})
			case strings.Contains(command, "enabled=true"), strings.HasPrefix(command, "helm install"):
				expectGates(t, c, []string{gateArgument})
			case strings.Contains(command, "enabled=false"):
				expectGates(t, c, []string{"--feature-gates=" + gateName + "=false"})
			default:
				expectGates(t, c, nil)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil {
				t.Fatalf("after %s: %v", command, err)
			}
		}
	})
}

// What is made from the tree differs from plain Kueue as "release check" has it.
func TestDifferences(t *testing.T) {
	r := newRelease(t, "")
	r.tree, r.base = patchedTree(t), plainSource(t)
	if err := errors.Join(r.makeManifests(), r.makeChart()); err != nil {
		t.Fatal(err)
	}
	if err := r.checkManifests(t.Context()); err != nil {
		t.Errorf("the manifests:\n%v", err)
	}
	if err := r.checkChart(t.Context()); err != nil {
		t.Errorf("the chart:\n%v", err)
	}
}

// Who reads the chart's README is told first that its addresses are those of plain Kueue.
func TestChartNotice(t *testing.T) {
	r := newRelease(t, "")
	r.tree = patchedTree(t)
	if err := r.makeChart(); err != nil {
		t.Fatal(err)
	}
	packaged, err := loader.LoadFile(r.chartPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range packaged.Files {
		if file.Name == "README.md" && strings.HasPrefix(string(file.Data), chartNotice) && len(file.Data) > len(chartNotice) {
			return
		}
	}
	t.Error("No README.md of the chart begins with the notice")
}

// A gate without a name, or without a value, must not get as far as the manager.
func TestChartValues(t *testing.T) {
	r := newRelease(t, "")
	r.tree = patchedTree(t)
	if err := r.makeChart(); err != nil {
		t.Fatal(err)
	}
	const gates = "controllerManager.featureGates"
	for set, want := range map[string]string{
		"":              gateArgument,
		gates + "=null": "",
		gates + "[0].name=ACRequeueAfter," + gates + "[0].enabled=false":                                                                    "--feature-gates=ACRequeueAfter=false",
		gates + "[0].name=ACRequeueAfter," + gates + "[0].enabled=true," + gates + "[1].name=ACRetryStrategy," + gates + "[1].enabled=true": "--feature-gates=ACRequeueAfter=true,ACRetryStrategy=true",
		gates + "[0].enabled=false":                                    "error: name",
		gates + "[0].name=ACRequeueAfter":                              "error: enabled",
		gates + "[0].name=ACRequeueAfter," + gates + "[0].enabled=on":  "error: boolean",
		gates + "[0].name=ACRequeueAfter," + gates + "[0].enable=true": "error: enable",
		gates + "={}":                   "error: object",
		gates + ".ACRequeueAfter=false": "error: array",
	} {
		t.Run(set, func(t *testing.T) {
			packaged, err := loader.LoadFile(r.chartPath())
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := renderChart(packaged, setValues(t, set))
			if message, ok := strings.CutPrefix(want, "error: "); ok {
				if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), "featureGates") {
					t.Errorf("err = %v, want one of featureGates with %q", err, message)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, object := range rendered {
				if object.GetKind() == "Deployment" && object.GetName() == deploymentName {
					got = strings.Join(gatesOf(t, object), " ")
				}
			}
			if got != want {
				t.Errorf("arguments that set gates = %q, want %q", got, want)
			}
			if err := checkKept(rendered); err != nil {
				t.Error(err)
			}
		})
	}
}

func setValues(t *testing.T, sets ...string) map[string]any {
	t.Helper()
	options := values.Options{Values: slices.DeleteFunc(sets, func(s string) bool { return s == "" })}
	merged, err := options.MergeValues(getter.Providers{})
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

// plainSource returns the folder of the sources of plain Kueue.
func plainSource(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("PLAIN"); dir != "" {
		return dir
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}

// expectGates looks at the arguments of the manager that set gates.
func expectGates(t *testing.T, c client.Client, want []string) {
	t.Helper()
	deployment := &unstructured.Unstructured{}
	deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := c.Get(t.Context(), types.NamespacedName{Namespace: "kueue-system", Name: deploymentName}, deployment); err != nil {
		t.Fatal(err)
	}
	if got := gatesOf(t, deployment); !slices.Equal(got, want) {
		t.Errorf("arguments that set gates = %q, want %q", got, want)
	}
}

func gatesOf(t *testing.T, deployment *unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	arguments, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(arguments, func(a string) bool { return !strings.HasPrefix(a, "--feature-gates") })
}

// priorityClass returns an object of Kueue's API that no webhook looks at, in the
// version that is stored.
func priorityClass(t *testing.T, c client.Client) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: crdKind})
	if err := c.Get(t.Context(), types.NamespacedName{Name: "workloadpriorityclasses.kueue.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"value": int64(1)}}
	for _, version := range versions {
		if version := version.(map[string]any); version["storage"] == true {
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: version["name"].(string), Kind: "WorkloadPriorityClass"})
		}
	}
	object.SetName("kept")
	return object
}
