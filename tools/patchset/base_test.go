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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// replaceInProject changes a text of a file of the project.
func (f *fixture) replaceInProject(name, old, new string) {
	f.t.Helper()
	replaceIn(f.t, filepath.Join(f.project, name), old, new)
}

func TestBaseIsRefused(t *testing.T) {
	const file = "bases/v1/base.yaml"
	edit := func(old, new string) func(*fixture) {
		return func(f *fixture) { f.replaceInProject(file, old, new) }
	}
	cases := map[string]struct {
		spoil func(f *fixture)
		args  []string
		want  []string
	}{
		"no such base": {
			args: []string{"--base", "v3"},
			want: []string{"there is no base v3", "bases/v3/base.yaml", "bases here: v1"},
		},
		"unknown field": {
			spoil: edit("suites: test", "suites: test\noverlays: [pkg]"),
			want:  []string{file, "line", "there is no field overlays"},
		},
		"no YAML": {
			spoil: edit("suites: test", "suites: ["),
			want:  []string{file, "line"},
		},
		"two documents": {
			spoil: edit("suites: test", "suites: test\n---\npin: b"),
			want:  []string{"more than one document"},
		},
		"fields missing": {
			spoil: edit("tree: build/tree\nseries: patches/series", ""),
			want:  []string{file, "tree is missing", "series is missing"},
		},
		"no release": {
			spoil: edit("release: 3", "release: 0"),
			want:  []string{"release is missing: the number of the next release"},
		},
		"version of something else": {
			spoil: edit("version: v1.0.0", "version: 1.0"),
			want:  []string{`version "1.0" is none of a Go module`},
		},
		"Kubernetes' version of a module": {
			spoil: edit("{version: 1.2.3}", "{version: v0.2.3}"),
			want:  []string{`kubernetes.version "v0.2.3"`, "such as 1.36.2"},
		},
		"path that leads out": {
			spoil: edit("overlay: [apis, pkg, test]", "overlay: [../pkg]"),
			want:  []string{`overlay: "../pkg" is no plain path`},
		},
		"series in one folder": {
			spoil: edit("patches/carried/series", "patches/carried-series"),
			want:  []string{"lie in the same folder"},
		},
		"bad expression": {
			spoil: edit(`zz_generated\.[a-z]+`, "zz_generated("),
			want:  []string{"generated: paths:"},
		},
		"suffix that is no part of a name": {
			spoil: edit("suites: test", "suites: test\nsuffix: /v1"),
			want:  []string{`suffix "/v1" is no part of a file's name`},
		},
		"path of what is shared": {
			spoil: edit("suites: test", "suites: test\nshared: {base: v0, own: ../own, files: {/a: b}}"),
			want:  []string{`shared: "../own" is no plain path`, `shared: "/a" is no plain path`},
		},
		"skip without a reason": {
			spoil: edit("suites: test", "suites: test\nskipWithGateOn: {tests: [{skip: TestA}]}"),
			want:  []string{`no reason why "TestA" is left out`},
		},
		"another version in go.mod": {
			spoil: func(f *fixture) { f.replaceInProject("go.mod", "v1.0.0", "v1.0.1") },
			want:  []string{"says example.org/upstream v1.0.0", "go.mod requires v1.0.1", "go get example.org/upstream@v1.0.0"},
		},
		"not in go.mod": {
			spoil: func(f *fixture) { f.replaceInProject("go.mod", "require example.org/upstream v1.0.0", "") },
			want:  []string{"does not require it", "go get example.org/upstream@v1.0.0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if tc.spoil != nil {
				tc.spoil(f)
			}
			f.refused(tc.want, append([]string{"base"}, tc.args...)...)
		})
	}
}

// All bases of this project can be read.
func TestBases(t *testing.T) {
	root := filepath.Join("..", "..")
	names, err := baseNames(root)
	if err != nil || len(names) == 0 {
		t.Fatalf("the project has the bases %q (%v)", names, err)
	}
	for _, name := range names {
		if _, err := openBase(root, name); err != nil {
			t.Error(err)
		}
	}
}

func TestMakeVariables(t *testing.T) {
	for _, tool := range []string{"make", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	f := newFixture(t)
	f.replaceInProject("bases/v1/base.yaml", "suites: test", `suites: test
suffix: -v1
integrationSuites: [core, jobs/job]
skipWithGateOn:
  tests:
  - {skip: 'TestA/^a_(b|c)$', reason: r}
  - {skip: 'TestB/it''s "$HOME" \$\(x\) \#1 #2, \\#3 %.`+"`x`"+`\\', reason: r}
  specs:
  - {skip: 'one, then (two|three)', reason: r}
  - {skip: 'four\.', reason: r}
specsWithRaces:
- {skip: 'five', reason: r}
`)
	f.must("base", "--format=make")
	dir := t.TempDir()
	f.put(dir, "base.mk", f.out.String())
	f.put(dir, "Makefile", `SHELL := /usr/bin/env bash -o pipefail
include base.mk
FLAGS := -skip $(GATE_ON_SKIP)
.PHONY: show
show:
	@printf '%s\n' $(KUBE_VERSION) $(BASE_VERSION) $(RELEASE) $(BASE_PIN) $(TREE) $(BASE_SUFFIX) $(BASE_BIN) $(BASE_PR) $(BASE_DIST) $(INTEGRATION_SUITES) $(FLAGS) $(if x, --skip $(GATE_ON_GINKGO_SKIP)) $(GINKGO_SKIP)
`)
	cmd := exec.Command("make", "--no-print-directory", "show")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(failure(err))
	}
	want := `1.2.3
v1.0.0
3
.
build/tree
-v1
build/bin/v1
build/pr-v1
build/dist-v1
core
jobs/job
-skip
TestA/^a_(b|c)$|TestB/it's "$HOME" \$\(x\) \#1 #2, \\#3 %.` + "`x`" + `\\
--skip
one, then (two|three)|four\.|five
five
`
	if string(out) != want {
		t.Errorf("make and the shell give\n%s\nwant\n%s", out, want)
	}
}

func TestKubernetesVersion(t *testing.T) {
	cases := map[string]struct {
		goMod string
		want  []string // what the error has, nil for none
	}{
		"agrees": {
			goMod: "require (\n\tk8s.io/api v0.2.3\n\tk8s.io/kubernetes v1.2.3\n\tk8s.io/klog/v2 v2.130.1\n\tk8s.io/utils v0.0.0-20250604170112-4c0f3b243397\n\tk8s.io/sample v0.1.0 // indirect\n)\n",
		},
		"required": {
			goMod: "require k8s.io/api v0.2.2\n",
			want:  []string{"lab/go.mod has k8s.io/api v0.2.2", "k8s.io/api@v0.2.3", `"go mod tidy" (in lab)`, "bases/v1/base.yaml"},
		},
		"Kubernetes itself": {
			goMod: "require k8s.io/kubernetes v1.2.4\n",
			want:  []string{"k8s.io/kubernetes@v1.2.3"},
		},
		"replaced": {
			goMod: "require k8s.io/api v0.0.0\n\nreplace k8s.io/api => k8s.io/api v0.2.2\n",
			want:  []string{"lab/go.mod has k8s.io/api v0.2.2"},
		},
		"replaced by the right one": {
			goMod: "require k8s.io/api v0.0.0\n\nreplace k8s.io/api => k8s.io/api v0.2.3\n",
		},
		"tool": {
			goMod: "tool k8s.io/code-generator/cmd/x\n\nrequire k8s.io/code-generator v0.2.2 // indirect\n",
			want:  []string{"k8s.io/code-generator@v0.2.3"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.replaceInProject("bases/v1/base.yaml", "{version: 1.2.3}", "{version: 1.2.3, goMods: [lab/go.mod]}")
			f.put(f.project, "lab/go.mod", "module example.org/lab\n\ngo 1.25\n\n"+tc.goMod)
			if tc.want == nil {
				f.must("verify")
			} else {
				f.refused(tc.want, "verify")
			}
		})
	}
	t.Run("upstream", func(t *testing.T) {
		f := newFixture(t)
		f.put(f.base, "go.mod", upstreamFiles["go.mod"]+"\nrequire k8s.io/api v0.3.0\n")
		f.refused([]string{"example.org/upstream's go.mod has k8s.io/api v0.3.0", "kubernetes.version in bases/v1/base.yaml"}, "verify")
		f.replaceInProject("bases/v1/base.yaml", "{version: 1.2.3}", "{version: 1.2.3, others: {k8s.io/api: v0.3.0}}")
		f.must("verify")
	})
}

func TestDependencyCRDs(t *testing.T) {
	f := newFixture(t)
	f.put(f.base, "go.mod", upstreamFiles["go.mod"]+"\nrequire example.org/crds v1.0.0\n\nreplace example.org/crds => ../crds\n")
	crds := filepath.Join(f.project, "..", "crds")
	for name, content := range map[string]string{"go.mod": "module example.org/crds\n", "crd/a.yaml": "a", "crd/b.yaml": "b", "crd/c.txt": "c"} {
		f.put(crds, name, content)
	}
	const entry = "{module: example.org/crds, from: crd, to: dep-crds/others, without: [b.yaml]}"
	f.replaceInProject("bases/v1/base.yaml", "suites: test", "suites: test\ndependencyCRDs: ["+entry+"]")
	f.must("tree")
	f.put(f.tree, "dep-crds/others/old.yaml", "of another version")
	f.must("dep-crds")
	files, err := os.ReadDir(filepath.Join(f.tree, "dep-crds/others"))
	if err != nil || len(files) != 1 || files[0].Name() != "a.yaml" {
		t.Errorf("the folder has %v (%v), want a.yaml alone", files, err)
	}
	for field, wrong := range map[string]string{"b.yaml": "z.yaml", "from: crd": "from: none"} {
		f.replaceInProject("bases/v1/base.yaml", field, wrong)
		f.refused([]string{"example.org/crds has no", strings.TrimPrefix(wrong, "from: "), "bases/v1/base.yaml"}, "dep-crds")
		f.replaceInProject("bases/v1/base.yaml", wrong, field)
	}
}

func TestKustomizedCRDs(t *testing.T) {
	f := newFixture(t)
	f.replaceInProject("bases/v1/base.yaml", "suites: test", "suites: test\nkustomizedCRDs: {from: crd, to: crd/_output/all.yaml}")
	f.must("tree")
	f.put(f.tree, "crd/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	f.put(f.tree, "crd/kustomization.yaml", "resources: [a.yaml]\nlabels: [{pairs: {from: kustomize}}]\n")
	f.must("dep-crds")
	content, err := os.ReadFile(filepath.Join(f.tree, "crd/_output/all.yaml"))
	if err != nil || !strings.Contains(string(content), "from: kustomize") {
		t.Errorf("the file has %q (%v), want what kustomize makes", content, err)
	}
	f.put(f.tree, "crd/kustomization.yaml", "resources: [none.yaml]\n")
	f.refused([]string{"kustomize crd of the tree", "bases/v1/base.yaml"}, "dep-crds")
	f.replaceInProject("bases/v1/base.yaml", "from: crd,", "from: ../crd,")
	f.refused([]string{"kustomizedCRDs"}, "dep-crds")
}
