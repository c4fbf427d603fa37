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
	"path/filepath"
	"strings"
	"testing"
)

const generatedFile = "apis/zz_generated.deepcopy.go"

// withAPI makes a tree with a patch that changes the API, between two others, and
// exports it; then the tree is made from the project.
func (f *fixture) withAPI() {
	f.t.Helper()
	f.must("tree")
	f.commit("a: Change one", map[string]string{"pkg/a/a.go": changed("One", "ONE")})
	f.commit("apis: Add a name", map[string]string{"apis/names.go": "package apis\n\n// names: a b c\n", "apis/more.go": "package apis\n\n// names: d\n"})
	f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // new\n"})
	f.must("export")
	f.must("tree")
}

func TestGeneratedCodeIsInTheCommitThatChangesTheAPI(t *testing.T) {
	f := newFixture(t)
	f.withAPI()
	if got := f.git("log", "--format=%s", "HEAD", "--", generatedFile); got != "apis: Add a name\nbase: base" {
		t.Errorf("the generated code changes in\n%s", got)
	}
	if got := f.get(f.tree, generatedFile); got != "package apis\n\n// D A B C\n" {
		t.Errorf("the generated code is\n%s", got)
	}
	if got := f.get(f.project, "patches/apis-add-a-name.patch"); strings.Contains(got, generatedFile) {
		t.Errorf("the patch has generated code:\n%s", got)
	}
	want := f.snapshot()
	f.must("export")
	f.wantFiles(want)
	f.must("tree")
	f.must("verify")
	if strings.Contains(f.out.String(), "not compared") {
		t.Errorf("the tree was not compared:\n%s", f.out.String())
	}

	// The same elsewhere, and at once when nothing changed.
	head := f.git("rev-parse", "HEAD")
	other := &fixture{t: t, project: f.project, base: f.base, tree: f.tree + "-other"}
	other.must("tree")
	if got := other.git("rev-parse", "HEAD"); got != head {
		t.Errorf("the commit is %s in another tree, %s here", got, head)
	}
	other.must("tree")
	if strings.Contains(other.out.String(), "generating") {
		t.Errorf("generated for a tree that is up to date:\n%s", other.out.String())
	}

	out := filepath.Join(f.project, "..", "pr")
	f.must("pr", "--out", out)
	if got := f.get(out, "0002-apis-Add-a-name.patch"); !strings.Contains(got, "+// D A B C\n") {
		t.Errorf("the series lacks the generated code:\n%s", got)
	}
}

func TestGenerateWhileWorking(t *testing.T) {
	f := newFixture(t)
	f.withAPI()
	f.must("generate")
	if !strings.Contains(f.out.String(), "up to date") {
		t.Errorf("generating says\n%s", f.out.String())
	}

	// With a change that is not committed, generated files wait for it.
	f.put(f.tree, "apis/more.go", "package apis\n\n// names: e\n")
	f.must("generate")
	if got := f.git("status", "--porcelain"); got != "M apis/more.go\n M "+generatedFile {
		t.Errorf("the tree has\n%s", got)
	}
	f.git("reset", "--quiet", "--hard")

	// With the change in its commit, they follow as a fixup.
	f.put(f.tree, "apis/more.go", "package apis\n\n// names: e\n")
	f.git("commit", "--quiet", "--all", "--fixup", "HEAD~1")
	f.refused([]string{"autosquash"}, "export")
	f.must("generate")
	if got := f.git("log", "-1", "--format=%s", "--name-only"); got != "fixup! apis: Add a name\n\n"+generatedFile {
		t.Errorf("the last commit is\n%s", got)
	}
	if _, err := (gitRepo{dir: f.tree}).run(nil, "-c", "sequence.editor=true", "rebase", "--quiet", "--interactive", "--autosquash", "base"); err != nil {
		t.Fatal(err)
	}
	f.must("export")
	f.must("tree")
	f.must("verify")
}

func TestExportLeavesOutAGeneratedFixup(t *testing.T) {
	f := newFixture(t)
	f.must("tree")
	f.commit("apis: Add a name", map[string]string{"apis/names.go": "package apis\n\n// names: a b c\n"})
	f.must("generate")
	f.must("export")
	if got := f.get(f.project, "patches/series"); got != "apis-add-a-name.patch\n" {
		t.Errorf("series is %q", got)
	}
	f.must("tree")
	if got := f.git("log", "--format=%s"); got != "apis: Add a name\nbase: base" {
		t.Errorf("the tree has the commits\n%s", got)
	}
	f.must("verify")
}

func TestVerifyFindsWhatGeneratorsDo(t *testing.T) {
	const generator = "tools/generators/shout/main.go"
	cases := map[string]struct {
		spoil func(f *fixture)
		want  []string
	}{
		"another file": {
			spoil: func(f *fixture) {
				f.replaceInProject(generator, "\tvar all", "\tos.WriteFile(\"pkg/b/b.go\", nil, 0o644)\n\tvar all")
			},
			want: []string{"apis-add-a-name.patch", "the code generators changed pkg/b/b.go", "generated.paths"},
		},
		"other code each time": {
			spoil: func(f *fixture) {
				f.replaceInProject(generator, "\tvar all", "\told, _ := os.ReadFile(\""+generatedFile+"\")\n\tvar all")
				f.replaceInProject(generator, `strings.Join(all, " ")`, `strings.Join(all, " ")+strings.Repeat("!", len(old))`)
			},
			want: []string{"gives other files", generatedFile},
		},
		"code from files that are not named": {
			spoil: func(f *fixture) {
				f.replaceInProject("bases/v1/base.yaml", "sources: [apis]", "sources: [api]")
			},
			want: []string{"gives other files", generatedFile, "generated.sources"},
		},
		"no program": {
			spoil: func(f *fixture) { f.replaceInProject(generator, "package main", "package mine") },
			want:  []string{"apis-add-a-name.patch"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.withAPI()
			tc.spoil(f)
			f.refused(tc.want, "verify")
		})
	}
}

func TestVerifyComparesTheTree(t *testing.T) {
	f := newFixture(t)
	f.withAPI()
	r := gitRepo{dir: f.tree}
	known := readStamp(r)
	f.git("commit", "--quiet", "--amend", "--message", "b: Change\n\nAnother reason.")
	f.must("verify")
	if !strings.Contains(f.out.String(), "not compared") {
		t.Errorf("a tree with other work was compared:\n%s", f.out.String())
	}
	known.Head = r.head()
	if err := known.write(r); err != nil {
		t.Fatal(err)
	}
	f.refused([]string{"making it anew gives"}, "verify")
}
