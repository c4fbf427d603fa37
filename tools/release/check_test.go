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
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const plainObjects = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: kueue-controller-manager
  namespace: kueue-system
spec:
  template:
    spec:
      containers:
      - name: manager
        image: upstream:main
        imagePullPolicy: Always
        args: ["--zap-log-level=2"]
        ports: [{containerPort: 8443}]
        securityContext: {readOnlyRootFilesystem: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: kueue-manager-role
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: workloads.kueue.x-k8s.io
spec:
  versions:
  - name: v1beta1
    additionalPrinterColumns: [{name: Age}]
    schema: {openAPIV3Schema: {properties: {status: {properties: {admissionChecks: {items: {properties: {name: {type: string}}}}, requeueState: {properties: {count: {type: integer}}}}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: admissionchecks.kueue.x-k8s.io
spec:
  versions:
  - name: v1beta1
    schema: {openAPIV3Schema: {properties: {spec: {properties: {controllerName: {type: string}}}}}}
`

const (
	int32s = "{description: ours, type: integer, format: int32, minimum: 0, maximum: 2147483647}"
	// unbounded are the fields of later versions of plain Kueue.
	unbounded = "{description: theirs, type: integer, format: int32, minimum: 0}"
)

// released is what a release changes of them: old, new, old, new ...
var released = []string{
	"upstream:main", "ours:v1",
	`["--zap-log-level=2"]`, `["--zap-log-level=2", "--feature-gates=ACRequeueAfter=true"]`,
	"{name: {type: string}}", "{name: {type: string}, requeueAfterSeconds: " + int32s + ", retryCount: " + int32s + ", policyDelaySeconds: " + int32s + "}",
	"[{name: Age}]", "[{name: Age}, {name: Requeue at, jsonPath: .status.requeueState.requeueAt}]",
	"{controllerName: {type: string}}", "{controllerName: {type: string}, retry: {type: object}}",
}

func TestCompare(t *testing.T) {
	const manager = "not expected: " + managerDeployment + ": "
	const wantInt32 = `{"format":"int32","maximum":2147483647,"minimum":0,"type":"integer"}`
	withFields := []string{"{name: {type: string}}", "{name: {type: string}, requeueAfterSeconds: " + unbounded + ", retryCount: " + unbounded + "}"}
	secondVersion := []string{"  - name: v1beta1\n", "  - name: v1beta2\n    schema: {openAPIV3Schema: {properties: {status: {properties: {}}}}}\n  - name: v1beta1\n"}
	cases := map[string]struct {
		gateOff bool
		plain   []string // changes of plain Kueue: old, new, old, new ...
		change  []string // those of what is released
		// refused is the finding; empty: none.
		refused string
	}{
		"what is released": {},
		"the pull policy": {
			change: []string{"Always", "IfNotPresent"},
		},
		"the gate is off": {
			gateOff: true,
			change:  []string{`, "--feature-gates=ACRequeueAfter=true"`, ""},
		},
		"the gate is missing": {
			change:  []string{`, "--feature-gates=ACRequeueAfter=true"`, ""},
			refused: "not there: the gate (" + managerDeployment + ", ^add /spec/template/spec/containers/0/args/[0-9]+$)",
		},
		"the image is missing": {
			change:  []string{"ours:v1", "upstream:main"},
			refused: "not there: the image (" + managerDeployment + ", ^replace /spec/template/spec/containers/0/image$)",
		},
		"the fields of the checks are missing": {
			change: []string{", requeueAfterSeconds: " + int32s + ", retryCount: " + int32s, ""},
			refused: "admissionChecks.items.properties.requeueAfterSeconds in version v1beta1 is null, and not " + wantInt32 + "\n" +
				"admissionChecks.items.properties.retryCount in version v1beta1 is null, and not " + wantInt32,
		},
		"the delay of the policy is missing": {
			change:  []string{", policyDelaySeconds: " + int32s, ""},
			refused: `admissionChecks.items.properties.policyDelaySeconds in version v1beta1 is null, and not ` + wantInt32,
		},
		"a field has no maximum": {
			change:  []string{"retryCount: " + int32s, "retryCount: {type: integer, format: int32, minimum: 0}"},
			refused: `admissionChecks.items.properties.retryCount in version v1beta1 is {"format":"int32","minimum":0,"type":"integer"}, and not ` + wantInt32,
		},
		"the column is missing": {
			change:  []string{", {name: Requeue at, jsonPath: .status.requeueState.requeueAt}", ""},
			refused: `version v1beta1 has no column {"jsonPath":".status.requeueState.requeueAt","name":"Requeue at"}`,
		},
		"the policy is missing": {
			change:  []string{", retry: {type: object}", ""},
			refused: "not there: the policy for retries (" + admissionChecksCRD + ", ^add /spec/versions/[0-9]+/schema/openAPIV3Schema/properties/spec/properties/retry$)",
		},
		"the columns of the policy": {
			change: []string{"    schema: {openAPIV3Schema: {properties: {spec:", "    additionalPrinterColumns: [{name: Age}, {name: Retry}]\n    schema: {openAPIV3Schema: {properties: {spec:"},
		},
		"plain Kueue has the fields of the checks, unbounded": {
			plain: withFields,
		},
		"it has them, and they stay unbounded": {
			plain:   withFields,
			change:  []string{"retryCount: " + int32s, "retryCount: " + unbounded},
			refused: `admissionChecks.items.properties.retryCount in version v1beta1 is {"description":"theirs","format":"int32","minimum":0,"type":"integer"}, and not ` + wantInt32,
		},
		"it has them, and they lose the lower bound": {
			plain:  withFields,
			change: []string{"retryCount: " + int32s, "retryCount: {description: ours, type: integer, format: int32, maximum: 2147483647}"},
			refused: "not expected: " + workloadsCRD + ": remove /spec/versions/0/schema/openAPIV3Schema/properties/status/properties/admissionChecks/items/properties/retryCount/minimum\n" +
				`admissionChecks.items.properties.retryCount in version v1beta1 is {"description":"ours","format":"int32","maximum":2147483647,"type":"integer"}, and not ` + wantInt32,
		},
		"the second version of the API has nothing": {
			plain:  secondVersion,
			change: secondVersion,
			refused: "admissionChecks.items.properties.requeueAfterSeconds in version v1beta2 is null, and not " + wantInt32 + "\n" +
				"admissionChecks.items.properties.retryCount in version v1beta2 is null, and not " + wantInt32 + "\n" +
				"admissionChecks.items.properties.policyDelaySeconds in version v1beta2 is null, and not " + wantInt32 + "\n" +
				`version v1beta2 has no column {"jsonPath":".status.requeueState.requeueAt","name":"Requeue at"}`,
		},
		"another argument": {
			change:  []string{`["--zap-log-level=2"`, `["--zap-log-level=2", "--pprof"`},
			refused: manager + `add /spec/template/spec/containers/0/args/1 "--pprof"`,
		},
		"another gate": {
			change:  []string{`["--zap-log-level=2"`, `["--zap-log-level=2", "--feature-gates=AllAlpha=true"`},
			refused: manager + `add /spec/template/spec/containers/0/args/1 "--feature-gates=AllAlpha=true"`,
		},
		"a port": {
			change:  []string{"[{containerPort: 8443}]", "[{containerPort: 8443}, {containerPort: 6060}]"},
			refused: manager + `add /spec/template/spec/containers/0/ports/1 {"containerPort":6060}`,
		},
		"a security context": {
			change:  []string{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"},
			refused: manager + "replace /spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem false",
		},
		"a right": {
			change:  []string{"verbs: [get]", "verbs: [get, delete]"},
			refused: `not expected: ClusterRole kueue-manager-role: add /rules/0/verbs/1 "delete"`,
		},
		"a field of another name": {
			change:  []string{"{name: {type: string}", "{name: {type: string}, other: {type: integer}"},
			refused: "not expected: " + workloadsCRD + `: add /spec/versions/0/schema/openAPIV3Schema/properties/status/properties/admissionChecks/items/properties/other {"type":"integer"}`,
		},
		"an object that is gone, another that is new": {
			change:  []string{"name: kueue-manager-role", "name: kueue-other-role"},
			refused: "not expected: ClusterRole kueue-manager-role: gone\nnot expected: ClusterRole kueue-other-role: new",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, "")
			r.gate = !tc.gateOff
			before := replaced(t, plainObjects, tc.plain)
			after := replaced(t, replaced(t, plainObjects, released), tc.change)
			if diff := cmp.Diff(tc.refused, text(r.compare(objects(t, before), objects(t, after)))); diff != "" {
				t.Errorf("findings (-want,+got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func replaced(t *testing.T, content string, change []string) string {
	t.Helper()
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(content, change[i]) {
			t.Fatalf("nothing to replace: %s", change[i])
		}
	}
	return strings.NewReplacer(change...).Replace(content)
}

func objects(t *testing.T, content string) []*unstructured.Unstructured {
	t.Helper()
	decoded, err := decodeObjects([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestCheckDeployment(t *testing.T) {
	const gateOn = `["--zap-log-level=2", "--feature-gates=ACRequeueAfter=true"]`
	cases := map[string]struct {
		gate, args, image string
		wantErr           bool
	}{
		"on":           {gate: "on", args: gateOn, image: "localhost/kueue:" + testVersion},
		"off":          {gate: "off", args: `[]`, image: "localhost/kueue:" + testVersion},
		"on, not set":  {gate: "on", args: `[]`, image: "localhost/kueue:" + testVersion, wantErr: true},
		"off, but set": {gate: "off", args: gateOn, image: "localhost/kueue:" + testVersion, wantErr: true},
		"set twice":    {gate: "on", args: `["--feature-gates=ACRequeueAfter=true", "--feature-gates=ACRequeueAfter=false"]`, image: "localhost/kueue:" + testVersion, wantErr: true},
		"other image":  {gate: "on", args: gateOn, image: "localhost/kueue:old", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, "")
			r.gateFlag = tc.gate
			if err := r.complete(); err != nil {
				t.Fatal(err)
			}
			content := replaced(t, plainObjects, []string{`["--zap-log-level=2"]`, tc.args, "upstream:main", tc.image})
			if err := r.checkDeployment(objects(t, content), deploymentName); (err != nil) != tc.wantErr {
				t.Errorf("err = %v, want one: %v", err, tc.wantErr)
			}
		})
	}
}

func TestNewImports(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"base/a.go":    "package a\n\nimport \"fmt\"\n",
		"patched/a.go": "package a\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n",
		"patched/b.go": "package a\n\nimport \"time\"\n",
	}
	for name, content := range files {
		put(t, filepath.Join(dir, name), []byte(content))
	}
	pkg := func(name string, files ...string) goPackage {
		p := goPackage{ImportPath: "example.com/a", Dir: filepath.Join(dir, name), GoFiles: files}
		p.Module = &struct {
			Path, Version string
			Main          bool
			Replace       *struct{ Path, Version string }
		}{Path: "example.com", Main: true}
		return p
	}
	got, err := newImports([]goPackage{pkg("base", "a.go")}, []goPackage{pkg("patched", "a.go", "b.go")})
	if err != nil {
		t.Fatal(err)
	}
	want := []newImport{{"example.com/a/a.go", "net/http"}, {"example.com/a/b.go", "time"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(newImport{})); diff != "" {
		t.Errorf("imports (-want,+got):\n%s", diff)
	}
}

func TestOpensConnections(t *testing.T) {
	for importPath, want := range map[string]bool{
		"net":      true,
		"net/http": true,
		"sigs.k8s.io/controller-runtime/pkg/metrics/server": true,
		"os/exec":             true,
		"time":                false,
		"network.example.com": false,
		"sigs.k8s.io/controller-runtime/pkg/client": false,
	} {
		if got := opensConnections(importPath); got != want {
			t.Errorf("opensConnections(%s) = %v", importPath, got)
		}
	}
}

func TestLoggedVersion(t *testing.T) {
	log := "W klog says something\n" +
		`{"level":"info","msg":"Initializing","gitVersion":"v1.2.3","gitCommit":"abc"}` + "\n" +
		`{"level":"error","msg":"unable to get kubeconfig"}`
	if got, err := loggedVersion([]byte(log)); err != nil || got != "v1.2.3" {
		t.Errorf("loggedVersion = %q, %v", got, err)
	}
	if _, err := loggedVersion([]byte("exec format error")); err == nil {
		t.Error("no version: want an error")
	}
}

func TestNewestVersion(t *testing.T) {
	changelog := []byte("# Changelog\n\n## v2.0.0-ours.1 (today)\n\n## v1.0.0-ours.2\n\n## v1.0.0-ours.1\n")
	for baseVersion, want := range map[string]string{"v2.0.0": "v2.0.0-ours.1", "v1.0.0": "v1.0.0-ours.2", "v1.0": ""} {
		if got, err := newestVersion(changelog, baseVersion); got != want || (err != nil) != (want == "") {
			t.Errorf("newestVersion on %s = %q, %v", baseVersion, got, err)
		}
	}
}

func TestVulnerabilities(t *testing.T) {
	cases := map[string]struct {
		status  int
		found   bool
		wantErr bool
		wantRun bool
	}{
		"out of reach":       {status: http.StatusForbidden},
		"nothing found":      {status: http.StatusOK, wantRun: true},
		"something is found": {status: http.StatusOK, found: true, wantRun: true, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) }))
			defer server.Close()
			t.Setenv("GOVULNDB", server.URL)
			r := newRelease(t, "")
			var said strings.Builder
			r.out = &said
			ran := filepath.Join(r.dist, "ran")
			exit := 0
			if tc.found {
				exit = 3
			}
			program := filepath.Join(r.dist, "govulncheck")
			put(t, program, fmt.Appendf(nil, "#!/bin/sh\necho \"$@\" > %s\nexit %d\n", ran, exit))
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := r.checkVulnerabilities(t.Context(), program); (err != nil) != tc.wantErr {
				t.Errorf("err = %v, want one: %v", err, tc.wantErr)
			}
			_, err := os.Stat(ran)
			if (err == nil) != tc.wantRun {
				t.Errorf("govulncheck ran: %v, want %v", err == nil, tc.wantRun)
			}
			if skipped := strings.Contains(said.String(), "LEFT OUT"); skipped == tc.wantRun {
				t.Errorf("it says:\n%s", said.String())
			}
		})
	}
}

func TestVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a release for each mistake; make dist checks the real one")
	}
	const otherVersion = "v0.14.8-acrequeueafter.8"
	cases := map[string]struct {
		// change is made to what is shipped.
		change  func(t *testing.T, r *release)
		wantErr string
	}{
		"all agree": {},
		"the changelog is of another release": {
			change: func(t *testing.T, r *release) {
				put(t, r.changelogPath(), []byte("## "+otherVersion+"\n"))
			},
			wantErr: "the newest version on v0.14.8 in the changelog is " + otherVersion,
		},
		"the image is of another version": {
			change: func(t *testing.T, r *release) {
				other := *r
				other.version = otherVersion
				if err := other.makeImage(); err != nil {
					t.Fatal(err)
				}
				rename(t, other.archivePath(), r.archivePath())
				rename(t, other.sbomPath(), r.sbomPath())
			},
			wantErr: `image label, amd64 is "` + otherVersion + `"`,
		},
		"the manager is of another version": {
			change: func(t *testing.T, r *release) {
				for _, architecture := range r.architectures {
					put(t, r.managerPath(architecture), get(t, buildManager(t, otherVersion)))
				}
				if err := r.makeImage(); err != nil {
					t.Fatal(err)
				}
			},
			wantErr: `manager's first log line is "` + otherVersion + `"`,
		},
		"the manager is plain Kueue's": {
			change: func(t *testing.T, r *release) {
				for _, architecture := range r.architectures {
					put(t, r.managerPath(architecture), get(t, buildManager(t, testVersion, "-X main.gate=Other")))
				}
				if err := r.makeImage(); err != nil {
					t.Fatal(err)
				}
			},
			wantErr: "unrecognized feature gate",
		},
		"the manifests are of another image": {
			change: func(t *testing.T, r *release) {
				put(t, r.manifestsPath(), []byte(replaced(t, string(get(t, r.manifestsPath())), []string{"localhost/kueue:" + testVersion, "localhost/kueue:" + otherVersion})))
			},
			wantErr: "the manager's image is localhost/kueue:" + otherVersion,
		},
		"the chart is of another version": {
			change: func(t *testing.T, r *release) {
				other := *r
				other.version = otherVersion
				if err := other.makeChart(); err != nil {
					t.Fatal(err)
				}
				rename(t, other.chartPath(), r.chartPath())
			},
			wantErr: `chart's appVersion is "` + otherVersion + `"`,
		},
		"the SBOM is of another image": {
			change: func(t *testing.T, r *release) {
				if err := r.makeSBOM(v1.Hash{Algorithm: "sha256", Hex: "abc"}); err != nil {
					t.Fatal(err)
				}
			},
			wantErr: `SBOM's digest is "abc"`,
		},
		"the plugin is of another version": {
			change: func(t *testing.T, r *release) {
				for _, architecture := range r.architectures {
					put(t, r.builtPluginPath(architecture), get(t, build(t, "plugin", architecture, otherVersion)))
				}
				if err := r.makePlugins(); err != nil {
					t.Fatal(err)
				}
			},
			wantErr: `plugin's version is "` + otherVersion + `"`,
		},
		"the plugin is for another architecture": {
			change: func(t *testing.T, r *release) {
				put(t, r.builtPluginPath("arm64"), get(t, r.builtPluginPath("amd64")))
				if err := r.makePlugins(); err != nil {
					t.Fatal(err)
				}
			},
			wantErr: `plugin's architecture is "amd64", and not "arm64"`,
		},
		"the plugin is not that of its SBOM": {
			change: func(t *testing.T, r *release) {
				put(t, r.pluginPath("arm64"), get(t, build(t, "plugin", "arm64", otherVersion)))
			},
			wantErr: "the SBOM of the plugins is not of ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, "")
			r.tree = patchedTree(t)
			for _, make := range []func() error{r.makeImage, r.makePlugins, r.makeManifests, r.makeChart} {
				if err := make(); err != nil {
					t.Fatal(err)
				}
			}
			put(t, r.changelogPath(), []byte("# Changelog\n\n## "+testVersion+"\n"))
			if tc.change != nil {
				tc.change(t, r)
			}
			err := r.checkVersions(t.Context())
			if tc.wantErr == "" && err != nil || !strings.Contains(text(err), tc.wantErr) {
				t.Errorf("err = %v, want one with %q", err, tc.wantErr)
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// patchedTree returns the tree that "make tree" makes, or the one that is named.
func patchedTree(t *testing.T) string {
	t.Helper()
	tree, named := os.LookupEnv("PATCHED_TREE")
	if !named {
		tree = "../../build/kueue"
	}
	tree, err := filepath.Abs(tree)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree, upstreamKustomization)); err != nil {
		t.Skip("there is no patched tree: make tree")
	}
	return tree
}
