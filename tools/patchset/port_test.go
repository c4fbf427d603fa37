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
	"path/filepath"
	"strings"
	"testing"
)

func TestPort(t *testing.T) {
	_, f := newTwoBases(t)
	if err := os.RemoveAll(filepath.Join(f.project, "bases/v2/patches")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.project, "bases/v2/overlay")); err != nil {
		t.Fatal(err)
	}
	f.refused([]string{"exists: remove it"}, "port")
	f.tree += "-port"
	f.put(f.base, "pkg/a/later/later.go", "package later\n\n// gone is here now.\nfunc Gone() {}\n")
	f.put(f.project, "pkg/b/rule.go", "package b\n\nimport \"example.org/upstream/pkg/a\"\n\nvar x = a.Gone\n")
	f.put(f.base, "pkg/b/seam.go", "package b\n")
	f.replaceInProject("patches/a-change-one.patch", "-// One\n+// ONE\n", "-// 1\n+// ONE\n")
	name := "patches/b-add-a-rule.patch"
	f.put(f.project, name, f.get(f.project, name)+`diff --git a/pkg/a/a.go b/pkg/a/a.go
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/pkg/a/a.go
+++ b/pkg/a/a.go
@@ -10,6 +10,6 @@
 
 func two() {}
 
-// Three
+// THREE
 
 func three() {}
@@ -4,6 +4,6 @@
 
 func one() {}
 
-// 2
+// Two
 
 func two() {}
diff --git a/pkg/none.go b/pkg/none.go
--- a/pkg/none.go
+++ b/pkg/none.go
@@ -1,1 +1,1 @@
-package none
+package other
`)
	f.must("port")
	out := f.out.String()
	for _, want := range []string{
		"1 of 4 hunks applied, 3 overlay files",
		"a-change-one.patch: hunk 1 of 1 of pkg/a/a.go: the lines around it are others now",
		"      -// 1\n      +// ONE\n",
		"b-add-a-rule.patch: hunk 2 of 2 of pkg/a/a.go: it is there already",
		"b-add-a-rule.patch: pkg/none.go does not exist any more (1 hunks)",
		"b-add-a-rule.patch: pkg/b/seam.go exists in v2",
		"pkg/b/rule.go:5:11: undefined: a.Gone",
		"\n  Gone: example.org/upstream/pkg/a/later\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("port does not say %q:\n%s", want, out)
		}
	}
	if got := f.git("log", "--format=%s"); got != "b: Add a rule\nbase: v2" {
		t.Errorf("the tree has the commits\n%s", got)
	}
	if got := f.get(f.tree, "pkg/a/a.go"); !strings.Contains(got, "// One\n") || !strings.Contains(got, "// THREE\n") {
		t.Errorf("the patched file is\n%s", got)
	}
	if got := f.get(f.tree, "pkg/c/there.go"); got != "package c\n" {
		t.Errorf("the file that moves is %q", got)
	}
	// The outcome can be exported, and is no port any more.
	f.must("export", "--own", "pkg/b/rule.go")
	f.refused([]string{"bases/v2/patches/series exists", "began already"}, "port")
}

func TestPortNeedsAnotherBase(t *testing.T) {
	f := newFixture(t)
	f.refused([]string{"bases/v1/base.yaml does not say whose overlay it shares"}, "port")
}

func TestNewBase(t *testing.T) {
	_, f := newTwoBases(t)
	next := filepath.Join(filepath.Dir(f.base), "v3")
	f.put(next, "go.mod", upstreamFiles["go.mod"]+"\nrequire k8s.io/api v0.5.6\n")
	f.put(f.project, "bases/v2/pin.go", "package pin\n")
	for from, shared := range map[string]string{"v1": "  base: v1\n  own: bases/new-v1/overlay\n", "v2": "  base: v1\n  own: bases/new-v2/overlay\n  imports:"} {
		name := "new-" + from
		make := &fixture{t: t, name: from, project: f.project, base: next}
		make.must("new-base", "--version", "v1.2.0", name)
		text := f.get(f.project, "bases/"+name+"/base.yaml")
		for _, want := range []string{
			"\nversion: v1.2.0\n", "\nrelease: 1\n", "\npin: bases/" + name + "\n", "\ntree: build/tree-" + name + "\n", "\nsuffix: -" + name + "\n",
			"\nseries: bases/" + name + "/patches/series\n", "\noverlay: [apis", shared,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, text)
			}
		}
		if got := f.get(f.project, "bases/"+name+"/go.mod"); got != "module example.org/project/bases/"+name+"\n\ngo 1.25\n\nignore ./overlay\n\nrequire example.org/upstream v1.2.0\n" {
			t.Errorf("go.mod is\n%s", got)
		}
		make.refused([]string{"bases/" + name + "/base.yaml exists"}, "new-base", "--version", "v1.2.0", name)
		b, err := openBase(f.project, name)
		if err != nil {
			t.Fatal(err)
		}
		if b.Kubernetes.Version != "1.5.6" {
			t.Errorf("the new base has Kubernetes %s", b.Kubernetes.Version)
		}
	}
	if got := f.get(f.project, "bases/new-v2/pin.go"); got != "package pin\n" {
		t.Errorf("pin.go is %q", got)
	}
	if got := f.get(f.project, "bases/new-v2/overlay/pkg/b/seam.go"); got != seamV2 {
		t.Errorf("the seam is\n%s", got)
	}

	// Ported from the nearest base, with its seams, all of it applies.
	for name, content := range upstreamFiles {
		if name != "go.mod" {
			f.put(next, name, content)
		}
	}
	last := &fixture{t: t, name: "new-v2", project: f.project, base: next, tree: f.tree + "-last"}
	last.must("port", "--from", "v2")
	if out := last.out.String(); !strings.Contains(out, "1 of 1 hunks applied, 4 overlay files") {
		t.Errorf("port says\n%s", out)
	}
	if got := last.get(last.tree, "pkg/b/seam.go"); got != seamV2 {
		t.Errorf("the seam in the tree is\n%s", got)
	}
	if got := last.get(last.tree, "pkg/b/rule.go"); got != ruleV2 {
		t.Errorf("the rule in the tree is\n%s", got)
	}
	last.must("export")
}
