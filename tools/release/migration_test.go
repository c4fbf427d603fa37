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

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kustomizetypes "sigs.k8s.io/kustomize/api/types"
)

const migrationPage = "../../docs/migration.md"

// pageCommands returns the commands of docs/migration.md that begin with the program.
func pageCommands(t *testing.T, program string) []string {
	t.Helper()
	var commands []string
	continued := false
	for line := range strings.Lines(string(get(t, migrationPage))) {
		line = strings.TrimSpace(line)
		switch {
		case continued:
			commands[len(commands)-1] += " " + strings.TrimSuffix(line, `\`)
		case strings.HasPrefix(line, program+" "):
			commands = append(commands, strings.TrimSuffix(line, `\`))
		default:
			continue
		}
		continued = strings.HasSuffix(line, `\`)
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no commands of %s", migrationPage, program)
	}
	return commands
}

// TestMigration does what docs/migration.md says on an API server, with manifests and
// chart: from the plain Kueue that PLAIN names, and back.
func TestMigration(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS does not name a directory with etcd and kube-apiserver: see make check-dist")
	}
	r := newRelease(t, "")
	r.tree, r.base = patchedTree(t), plainSource(t)
	if err := errors.Join(r.makeManifests(), r.makeChart()); err != nil {
		t.Fatal(err)
	}
	t.Run("manifests", func(t *testing.T) {
		c, _ := startControlPlane(t)
		plain, err := kustomize(r.base, kustomizetypes.Kustomization{})
		if err != nil {
			t.Fatal(err)
		}
		before, err := asObjects(plain)
		if err != nil {
			t.Fatal(err)
		}
		applyObjects(t, c, before)
		expectGates(t, c, nil)
		for _, command := range pageCommands(t, "sed") {
			applyObjects(t, c, objects(t, string(get(t, r.manifestsPath()))))
			expectGates(t, c, []string{gateArgument})
			edit, apply, _ := strings.Cut(command, "|")
			if want := "kubectl apply --server-side -f -"; strings.TrimSpace(apply) != want {
				t.Errorf("%s: its output goes to %q, and not to %q", command, apply, want)
			}
			sed := exec.Command("sh", "-c", edit)
			sed.Dir = r.dist
			edited, err := sed.Output()
			if err != nil {
				t.Fatalf("%s: %v", edit, err)
			}
			applyObjects(t, c, objects(t, string(edited)))
			expectGates(t, c, nil)
		}
	})
	t.Run("chart", func(t *testing.T) {
		c, kubeconfig := startControlPlane(t)
		h := helm{release: r, kubeconfig: kubeconfig}
		if err := h.run(t, "helm install kueue oci://registry.k8s.io/kueue/charts/kueue --namespace kueue-system --create-namespace"); err != nil {
			t.Fatal(err)
		}
		expectGates(t, c, nil)
		kept := priorityClass(t, c)
		if err := c.Create(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		for _, command := range pageCommands(t, "helm") {
			if strings.HasPrefix(command, "helm uninstall") {
				// The page went back to plain Kueue before.
				if err := h.run(t, "helm upgrade kueue kueue-*.tgz --namespace kueue-system"); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.run(t, command); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
			switch {
			case strings.HasPrefix(command, "helm uninstall"):
				err := c.Get(t.Context(), types.NamespacedName{Namespace: "kueue-system", Name: deploymentName}, &appsv1.Deployment{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("after %s the Deployment is there: %v", command, err)
				}
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

// helm does what the program of that name does, as far as the page needs it.
type helm struct {
	release    *release
	kubeconfig string
}

func (h helm) run(t *testing.T, command string) error {
	t.Helper()
	var arguments, sets []string
	var namespace string
	var create, reuse bool
	words := strings.Fields(command)[1:]
	for i := 0; i < len(words); i++ {
		value := func() string {
			i++
			return strings.Trim(words[i], "'")
		}
		switch word := words[i]; word {
		case "--namespace":
			namespace = value()
		case "--set":
			sets = append(sets, value())
		case "--version":
			value() // It is that of PLAIN here.
		case "--create-namespace":
			create = true
		case "--reset-then-reuse-values":
			reuse = true
		default:
			if strings.HasPrefix(word, "-") {
				t.Fatalf("%s: %s is not known here", command, word)
			}
			arguments = append(arguments, word)
		}
	}
	var configuration action.Configuration
	if err := configuration.Init(kube.GetConfig(h.kubeconfig, "", namespace), namespace, "secret", t.Logf); err != nil {
		return err
	}
	name := arguments[1]
	switch arguments[0] {
	case "install":
		install := action.NewInstall(&configuration)
		install.ReleaseName, install.Namespace, install.CreateNamespace = name, namespace, create
		_, err := install.RunWithContext(t.Context(), h.chart(t, arguments[2]), setValues(t, sets...))
		return err
	case "upgrade":
		upgrade := action.NewUpgrade(&configuration)
		upgrade.Namespace, upgrade.ResetThenReuseValues = namespace, reuse
		_, err := upgrade.RunWithContext(t.Context(), name, h.chart(t, arguments[2]), setValues(t, sets...))
		return err
	case "uninstall":
		_, err := action.NewUninstall(&configuration).Run(name)
		return err
	}
	t.Fatalf("%s: not known here", command)
	return nil
}

// chart returns ours, or plain Kueue's as it lies in its sources.
func (h helm) chart(t *testing.T, name string) *chart.Chart {
	t.Helper()
	path := filepath.Join(h.release.base, "charts", componentName)
	switch name {
	case "kueue-*.tgz":
		path = h.release.chartPath()
	case "oci://registry.k8s.io/kueue/charts/kueue":
	default:
		t.Fatalf("no chart %s", name)
	}
	loaded, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
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

func applyObjects(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if err := c.Patch(t.Context(), object, client.Apply, client.FieldOwner("kubectl")); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
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
