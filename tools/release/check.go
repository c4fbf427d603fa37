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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kustomizetypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// check holds what is shipped against plain Kueue, and the stamps against each
// other. It goes on after a finding, so that one run shows all.
func (r *release) check(ctx context.Context, govulncheck string) error {
	checks := []struct {
		name string
		run  func(context.Context) error
	}{
		{"the versions agree", r.checkVersions},
		{"the manifests differ from plain Kueue's in image, gate and API only: same rights, ports and security contexts", r.checkManifests},
		{"the same of the chart, whose CRDs outlive it", r.checkChart},
		{"manager and plugin have plain Kueue's dependencies, and nothing new that opens a connection", r.checkDependencies},
		{"no known vulnerabilities", func(ctx context.Context) error { return r.checkVulnerabilities(ctx, govulncheck) }},
	}
	var failed []string
	for _, c := range checks {
		r.say("check: %s", c.name)
		if err := c.run(ctx); err != nil {
			fmt.Fprintf(r.out, "    FAILED: %v\n", err)
			failed = append(failed, c.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("what is shipped fails %d of %d checks: %s", len(failed), len(checks), strings.Join(failed, "; "))
	}
	return nil
}

// checkManifests prints how the manifests differ from plain Kueue's, and
// refuses what is not expected.
func (r *release) checkManifests(context.Context) error {
	base, err := kustomize(r.base, kustomizetypes.Kustomization{})
	if err != nil {
		return err
	}
	before, err := asObjects(base)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(r.manifestsPath())
	if err != nil {
		return err
	}
	after, err := decodeObjects(content)
	if err != nil {
		return err
	}
	return r.compare(before, after)
}

// checkChart does the same for what the chart installs by default.
func (r *release) checkChart(context.Context) error {
	base, err := loader.LoadDir(filepath.Join(r.base, "charts", componentName))
	if err != nil {
		return err
	}
	packaged, err := loader.LoadFile(r.chartPath())
	if err != nil {
		return err
	}
	// The version stands in every label.
	base.Metadata.Version, base.Metadata.AppVersion = packaged.Metadata.Version, packaged.Metadata.AppVersion
	before, err := renderChart(base, nil)
	if err != nil {
		return err
	}
	after, err := renderChart(packaged, nil)
	if err != nil {
		return err
	}
	if err := r.checkDeployment(after, deploymentName); err != nil {
		return err
	}
	return errors.Join(r.compare(before, after), checkKept(after))
}

// expected are the differences to plain Kueue that a release has. Everything
// else is a finding: rights, ports, security contexts, webhooks, arguments. A
// difference that must be there and is not, is one too. Some versions of Kueue have
// the fields of the checks, without an upper bound; what must be there of the API
// is in wantedFields.
var expected = []struct {
	what, object string
	path         *regexp.Regexp
	value        any                   // of what is added or replaced; nil: any
	required     func(r *release) bool // nil: it may be there
}{
	{"the image", managerDeployment, regexp.MustCompile(`^replace /spec/template/spec/containers/0/image$`), nil, always},
	{"its pull policy", managerDeployment, regexp.MustCompile(`^replace /spec/template/spec/containers/0/imagePullPolicy$`), nil, nil},
	{"the gate", managerDeployment, regexp.MustCompile(`^add /spec/template/spec/containers/0/args/[0-9]+$`), gateArgument, func(r *release) bool { return r.gate }},
	{"the fields of the checks", workloadsCRD, ofStatus("add", "admissionChecks/items/properties/(requeueAfterSeconds|retryCount|policyDelaySeconds)"), nil, nil},
	{"their upper bound", workloadsCRD, ofStatus("add", "admissionChecks/items/properties/(requeueAfterSeconds|retryCount)/maximum"), math.MaxInt32, nil},
	{"their description", workloadsCRD, ofStatus("replace", "admissionChecks/items/properties/(requeueAfterSeconds|retryCount)/description"), nil, nil},
	{"the policy for retries", admissionChecksCRD, regexp.MustCompile(`^add /spec/versions/[0-9]+/schema/openAPIV3Schema/properties/spec/properties/retry$`), nil, always},
	{"its columns", admissionChecksCRD, regexp.MustCompile(`^add /spec/versions/[0-9]+/additionalPrinterColumns$`), nil, nil},
	{"that Helm keeps them", anyCRD, regexp.MustCompile(`^add /metadata/annotations/helm\.sh~1resource-policy$`), "keep", nil},
	{"the column with the time of the retry", workloadsCRD, regexp.MustCompile(`^add /spec/versions/[0-9]+/additionalPrinterColumns/[0-9]+$`), nil, nil},
}

// wantedFields are what each version of the API has of a workload's status. Without
// them the API server drops what a check asks for, and nobody is told.
var wantedFields = []struct {
	path   []string
	schema map[string]any // and more
}{
	{[]string{"admissionChecks", "items", "properties", "requeueAfterSeconds"}, int32Schema},
	{[]string{"admissionChecks", "items", "properties", "retryCount"}, int32Schema},
	{[]string{"admissionChecks", "items", "properties", "policyDelaySeconds"}, int32Schema},
}

// int32Schema keeps out what a client of Kueue could not read: one such value, once
// stored, ends all lists and watches of Workloads.
var int32Schema = map[string]any{"type": "integer", "format": "int32", "minimum": 0, "maximum": math.MaxInt32}

// wantedColumn is one of "kubectl get workloads -o wide".
var wantedColumn = map[string]any{"name": "Requeue at", "jsonPath": ".status.requeueState.requeueAt"}

const (
	managerDeployment = "Deployment kueue-system/kueue-controller-manager"

	crdKind            = "CustomResourceDefinition"
	workloadsCRD       = crdKind + " workloads.kueue.x-k8s.io"
	admissionChecksCRD = crdKind + " admissionchecks.kueue.x-k8s.io"
	anyCRD             = crdKind + " *"
)

func always(*release) bool { return true }

func ofStatus(operation, path string) *regexp.Regexp {
	return regexp.MustCompile(`^` + operation + ` /spec/versions/[0-9]+/schema/openAPIV3Schema/properties/status/properties/` + path + `$`)
}

// compare prints the differences of two sets of objects, and returns an error
// for those that are not expected, and for those that are and are not there.
func (r *release) compare(before, after []*unstructured.Unstructured) error {
	differences, err := differ(before, after)
	if err != nil {
		return err
	}
	var findings []error
	there := make([]bool, len(expected))
	for _, d := range differences {
		fmt.Fprintf(r.out, "    %s\n", d)
		if i := d.expected(); i >= 0 {
			there[i] = true
		} else {
			findings = append(findings, fmt.Errorf("not expected: %s", d))
		}
	}
	for i, e := range expected {
		if !there[i] && e.required != nil && e.required(r) {
			findings = append(findings, fmt.Errorf("not there: %s (%s, %s)", e.what, e.object, e.path))
		}
	}
	return errors.Join(append(findings, checkAPI(after))...)
}

// checkAPI returns an error for what a version of the workloads' API lacks.
func checkAPI(objects []*unstructured.Unstructured) error {
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind()+" "+o.GetName() == workloadsCRD
	})
	if i < 0 {
		return fmt.Errorf("not there: %s", workloadsCRD)
	}
	versions, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "versions")
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return fmt.Errorf("%s has no versions", workloadsCRD)
	}
	var findings []error
	for _, version := range versions {
		version := version.(map[string]any)
		status := []string{"schema", "openAPIV3Schema", "properties", "status", "properties"}
		for _, field := range wantedFields {
			schema, _, err := unstructured.NestedMap(version, append(status, field.path...)...)
			if err != nil {
				return err
			}
			if !has(schema, field.schema) {
				findings = append(findings, fmt.Errorf("%s in version %s is %s, and not %s", strings.Join(field.path, "."), version["name"], inJSON(schema), inJSON(field.schema)))
			}
		}
		columns, _, err := unstructured.NestedSlice(version, "additionalPrinterColumns")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(columns, func(column any) bool { return has(column.(map[string]any), wantedColumn) }) {
			findings = append(findings, fmt.Errorf("version %s has no column %s", version["name"], inJSON(wantedColumn)))
		}
	}
	return errors.Join(findings...)
}

// has tells whether an object has these fields, and maybe others.
func has(object, want map[string]any) bool {
	for name, value := range want {
		if inJSON(object[name]) != inJSON(value) {
			return false
		}
	}
	return true
}

// inJSON writes what came from JSON, or is written as it is.
func inJSON(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

// difference is what one field of one object has else than before.
type difference struct {
	object string // kind and name
	path   string // operation and JSON pointer
	value  any    // after it
}

func (d difference) String() string {
	text := d.object + ": " + d.path
	if d.value != nil {
		text += " " + inJSON(d.value)
	}
	// A field's description is long.
	if limit := 300; len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + " ..."
	}
	return text
}

// expected returns the index of the difference in the list of those that are
// expected, or -1.
func (d difference) expected() int {
	for i, e := range expected {
		if (e.object == d.object || e.object == anyCRD && strings.HasPrefix(d.object, crdKind+" ")) && e.path.MatchString(d.path) && (e.value == nil || inJSON(e.value) == inJSON(d.value)) {
			return i
		}
	}
	return -1
}

// differ returns the differences of two sets of objects, by object and path.
func differ(before, after []*unstructured.Unstructured) ([]difference, error) {
	byName := map[string][2]*unstructured.Unstructured{}
	for i, objects := range [][]*unstructured.Unstructured{before, after} {
		for _, object := range objects {
			name := object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			pair := byName[name]
			if pair[i] != nil {
				return nil, fmt.Errorf("%s is there twice", name)
			}
			pair[i] = object
			byName[name] = pair
		}
	}
	var differences []difference
	for name, pair := range byName {
		switch {
		case pair[0] == nil:
			differences = append(differences, difference{object: name, path: "new"})
			continue
		case pair[1] == nil:
			differences = append(differences, difference{object: name, path: "gone"})
			continue
		}
		old, err := pair[0].MarshalJSON()
		if err != nil {
			return nil, err
		}
		changed, err := pair[1].MarshalJSON()
		if err != nil {
			return nil, err
		}
		operations, err := jsonpatch.CreatePatch(old, changed)
		if err != nil {
			return nil, err
		}
		for _, operation := range operations {
			differences = append(differences, difference{object: name, path: operation.Operation + " " + operation.Path, value: operation.Value})
		}
	}
	slices.SortFunc(differences, func(a, b difference) int { return strings.Compare(a.String(), b.String()) })
	return differences, nil
}

// decodeObjects reads a stream of YAML documents.
func decodeObjects(content []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// goPackage is what "go list" says of a package.
type goPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	Module          *struct {
		Path, Version string
		Main          bool
		Replace       *struct{ Path, Version string }
	}
}

// listPackages returns the packages of a program of a tree.
func (r *release) listPackages(ctx context.Context, tree, program string) ([]goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Module", program)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+r.architectures[0])
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			return nil, fmt.Errorf("go list in %s: %s", tree, exit.Stderr)
		}
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}
