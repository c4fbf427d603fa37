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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	ruleV1 = "package b\n\nimport (\n\t\"example.org/upstream/apis\"\n\t\"example.org/upstream/pkg/a\"\n)\n\n// rule is the rule.\nfunc rule() { a.Move(apis.Name) }\n"
	ruleV2 = "package b\n\nimport (\n\tapis \"example.org/upstream/apis/v2\"\n\tmover \"example.org/upstream/pkg/a/moved\"\n)\n\n// rule is the rule.\nfunc rule() { mover.Move(apis.Name) }\n"
	seamV1 = "package b\n\nfunc seam() int { return 1 }\n"
	seamV2 = "package b\n\nfunc seam() string { return \"2\" }\n"
)

// newTwoBases returns two bases of one project, of which the second takes the
// overlay of the first one. Both have a patch that changes upstream, and one with
// overlay files: a rule, a seam, and a text.
func newTwoBases(t *testing.T) (first, second *fixture) {
	first = newFixture(t)
	sources := filepath.Join(filepath.Dir(first.project), "sources")
	if err := os.Mkdir(sources, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(first.base, filepath.Join(sources, "v1")); err != nil {
		t.Fatal(err)
	}
	first.base = filepath.Join(sources, "v1")
	second = &fixture{t: t, name: "v2", project: first.project, base: filepath.Join(sources, "v2"), tree: first.tree + "-v2"}
	for name, content := range map[string]string{
		"go.mod":        upstreamFiles["go.mod"],
		"README.md":     "upstream, later\n",
		"pkg/a/a.go":    "package a\n\n// Another\n\n" + strings.TrimPrefix(upstreamFiles["pkg/a/a.go"], "package a\n\n"),
		"pkg/b/b.go":    upstreamFiles["pkg/b/b.go"],
		"apis/v2/v2.go": "package v2\n",
	} {
		second.put(second.base, name, content)
	}
	first.put(first.project, "bases/v2/go.mod", "module example.org/project/v2\n\ngo 1.25\n\nrequire example.org/upstream v1.1.0\n")
	first.put(first.project, "bases/v2/base.yaml", `
module: example.org/upstream
version: v1.1.0
release: 1
pin: bases/v2
api: example.org/upstream/apis/v2
kubernetes: {version: 1.2.4}
tree: build/tree-v2
series: bases/v2/patches/series
carried: bases/v2/patches/carried/series
overlay: [apis/v2, pkg, test]
suites: test
suffix: -v2
shared:
  base: v1
  own: bases/v2/overlay
  imports: {example.org/upstream/apis: example.org/upstream/apis/v2}
  symbols:
  - {from: example.org/upstream/pkg/a, to: example.org/upstream/pkg/a/moved, as: mover, names: [Move]}
  files: {pkg/b/here.go: pkg/c/there.go}
`)
	first.must("tree")
	first.commit("a: Change one", map[string]string{"pkg/a/a.go": changed("One", "ONE")})
	first.commit("b: Add a rule", map[string]string{"pkg/b/rule.go": ruleV1, "pkg/b/seam.go": seamV1, "pkg/b/here.go": "package b\n", "test/text": "text\n"})
	first.must("export")

	second.must("tree")
	second.commit("a: Change four", map[string]string{"pkg/a/a.go": strings.Replace(second.get(second.base, "pkg/a/a.go"), "Four", "FOUR", 1)})
	second.commit("b: Add a rule", map[string]string{"pkg/b/rule.go": ruleV2, "pkg/b/seam.go": seamV2, "pkg/c/there.go": "package c\n", "test/text": "text\n"})
	second.must("export", "--own", "pkg/b/seam.go")
	return first, second
}

func TestTwoBases(t *testing.T) {
	first, second := newTwoBases(t)
	files := second.snapshot()
	for name, want := range map[string]string{
		"pkg/b/rule.go":                  ruleV1,
		"pkg/b/seam.go":                  seamV1,
		"pkg/b/here.go":                  "package b\n",
		"bases/v2/overlay/pkg/b/seam.go": seamV2,
		"bases/v2/patches/series":        "a-change-four.patch\nb-add-a-rule.patch\n",
		"patches/series":                 "a-change-one.patch\nb-add-a-rule.patch\n",
	} {
		if files[name] != want {
			t.Errorf("%s is\n%s", name, files[name])
		}
	}
	own := slices.DeleteFunc(slices.Collect(maps.Keys(files)), func(name string) bool { return !strings.HasPrefix(name, "bases/v2/overlay/") })
	if len(own) != 1 {
		t.Errorf("the second base has files of its own: %q", own)
	}
	if got := files["bases/v2/patches/b-add-a-rule.patch"]; !strings.Contains(got, "Overlay: pkg/b/rule.go\nOverlay: pkg/b/seam.go\nOverlay: pkg/c/there.go\nOverlay: test/text\n") {
		t.Errorf("the patch of the second base claims other files than those of its tree:\n%s", got)
	}

	// Each proof, and each export, leaves the other one alone.
	for _, f := range []*fixture{first, second} {
		f.must("verify")
		f.must("tree")
		head := f.git("rev-parse", "HEAD")
		if err := os.RemoveAll(f.tree); err != nil {
			t.Fatal(err)
		}
		f.must("tree")
		if got := f.git("rev-parse", "HEAD"); got != head {
			t.Errorf("the commit is %s in a new tree, was %s", got, head)
		}
		f.must("tree")
		if !strings.Contains(f.out.String(), "is up to date") {
			t.Errorf("the tree was made again:\n%s", f.out.String())
		}
		f.must("export")
		f.wantFiles(files)
	}
	for name, want := range map[string]string{"pkg/b/rule.go": ruleV2, "pkg/b/seam.go": seamV2, "pkg/c/there.go": "package c\n", "test/text": "text\n"} {
		if got := second.get(second.tree, name); got != want {
			t.Errorf("%s of the second tree is\n%s", name, got)
		}
	}
	if out := filepath.Join(second.project, "..", "pr"); second.run("pr", "--out", out) == nil {
		if got := second.get(out, "0002-b-Add-a-rule.patch"); !strings.Contains(got, "\n+func rule() { mover.Move(apis.Name) }\n") {
			t.Errorf("the series has\n%s", got)
		}
	}
}

// verifyAll runs verify without a base.
func (f *fixture) verifyAll() (string, error) {
	cmd := newCommand()
	f.out.Reset()
	cmd.SetOut(&f.out)
	cmd.SetArgs([]string{"verify", "--project", f.project, "--source-dir", filepath.Dir(f.base)})
	err := cmd.Execute()
	return f.out.String(), err
}

func TestVerifyAllBases(t *testing.T) {
	first, second := newTwoBases(t)
	out, err := first.verifyAll()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := strings.Index(out, "==> base v1\n"), strings.Index(out, "==> base v2\n"); a < 0 || b < a || strings.Count(out, "all is well") != 2 {
		t.Errorf("it says\n%s", out)
	}
	first.put(first.project, "patches/stray.patch", "")
	second.put(second.project, "bases/v2/overlay/pkg/b/stray.go", "package b\n")
	_, err = first.verifyAll()
	if err == nil {
		t.Fatal("nothing was found")
	}
	for _, want := range []string{"base v1:\npatches/stray.patch is not listed", "base v2:\nbases/v2/overlay/pkg/b/stray.go is claimed by no patch"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestARuleIsChangedOnce(t *testing.T) {
	first, second := newTwoBases(t)
	amend := func(f *fixture, name, old, new string) {
		t.Helper()
		replaceIn(t, filepath.Join(f.tree, name), old, new)
		f.git("commit", "--quiet", "--all", "--amend", "--no-edit")
	}
	second.must("tree")
	amend(second, "pkg/b/rule.go", "the rule.", "the better rule.")
	second.must("export")
	if out := second.out.String(); !strings.Contains(out, "make tree BASE=v1") || !strings.Contains(out, "  pkg/b/rule.go") {
		t.Errorf("export does not tell that the other tree is out of date:\n%s", out)
	}
	if got := first.get(first.project, "pkg/b/rule.go"); got != strings.Replace(ruleV1, "the rule.", "the better rule.", 1) {
		t.Errorf("the shared rule is\n%s", got)
	}
	first.must("tree")
	if _, err := first.verifyAll(); err != nil {
		t.Error(err)
	}

	amend(first, "pkg/b/rule.go", "better", "best")
	first.must("export")
	if out := first.out.String(); !strings.Contains(out, "make tree BASE=v2") {
		t.Errorf("export does not tell that the other tree is out of date:\n%s", out)
	}
	amend(second, "pkg/b/seam.go", "2", "3") // a tree that is out of date
	second.refused([]string{"pkg/b/rule.go", "the tree would undo that"}, "export")
	second.must("tree", "--force")
	if got := second.get(second.tree, "pkg/b/rule.go"); got != strings.Replace(ruleV2, "the rule.", "the best rule.", 1) {
		t.Errorf("the rule of the second tree is\n%s", got)
	}

	// Only the seam changes, and a file is new: neither is shared.
	amend(second, "pkg/b/seam.go", "2", "3")
	second.commit("c: More", map[string]string{"pkg/c/more.go": "package c\n"})
	second.must("export")
	if out := second.out.String(); strings.Contains(out, "BASE=v1") {
		t.Errorf("export changed what is shared:\n%s", out)
	}
	if got := second.get(second.project, "bases/v2/overlay/pkg/c/more.go"); got != "package c\n" {
		t.Errorf("the new file is %q", got)
	}
	if _, err := first.verifyAll(); err != nil {
		t.Error(err)
	}
}

func TestSharedExportRefuses(t *testing.T) {
	cases := map[string]struct {
		name, content string // in the second tree
		spoil         func(f *fixture)
		want          []string
	}{
		"another way to import": {
			name:    "pkg/b/rule.go",
			content: strings.NewReplacer("mover", "other").Replace(ruleV2),
			want:    []string{"b: Add a rule", "makes pkg/b/rule.go", `line 5 is "\tother \"example.org/upstream/pkg/a/moved\"", and would be "\tmover`, "make export OWN=pkg/b/rule.go"},
		},
		"a dot import": {
			name:    "pkg/b/rule.go",
			content: "package b\n\nimport . \"example.org/upstream/pkg/a/moved\"\n\nvar _ = Move\n",
			want:    []string{"the rewriting of the tree's file cannot be undone", "with a dot", "OWN=pkg/b/rule.go"},
		},
		"what the other base cannot have": {
			name:    "pkg/b/rule.go",
			content: "package b\n\nimport \"example.org/upstream/pkg/a\"\n\nvar _ = a.Move\n",
			want:    []string{`line 3 is "import \"example.org/upstream/pkg/a\"", and would be "import ("`},
		},
		"a shared file whose rewriting cannot be undone": {
			name:    "pkg/b/rule.go",
			content: strings.Replace(ruleV2, "the rule", "a rule", 1),
			spoil: func(f *fixture) {
				f.replaceInProject("pkg/b/rule.go", "\t\"example.org/upstream/apis\"", "\tapis \"example.org/upstream/apis\"")
				f.must("tree")
			},
			want: []string{"the rewriting of the shared pkg/b/rule.go cannot be undone", `line 4 is "\tapis`, "change it there"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, f := newTwoBases(t)
			f.must("tree")
			if tc.spoil != nil {
				tc.spoil(f)
			}
			f.put(f.tree, tc.name, tc.content)
			f.git("commit", "--quiet", "--all", "--amend", "--no-edit")
			before := f.snapshot()
			f.refused(tc.want, "export")
			f.wantFiles(before)
			// The way out that the message describes.
			f.must("export", "--own", tc.name)
			f.must("verify")
			if got := f.get(f.project, "bases/v2/overlay/"+tc.name); got != tc.content {
				t.Errorf("the base's own file is\n%s", got)
			}
			if got := f.get(f.project, tc.name); got != before[tc.name] {
				t.Errorf("the shared file is\n%s", got)
			}
		})
	}
}

func TestVerifyFindsInTwoBases(t *testing.T) {
	const file = "bases/v2/base.yaml"
	const claims = "bases/v2/patches/b-add-a-rule.patch"
	cases := map[string]struct {
		spoil func(f *fixture)
		base  string // v2 if empty
		want  []string
	}{
		"a shared file that is forgotten": {
			spoil: func(f *fixture) { f.replaceInProject(claims, "Overlay: pkg/c/there.go\n", "") },
			want:  []string{"base v1 shares its overlay, and no patch of this base claims\n  pkg/c/there.go\n", "shared.without of bases/v2/base.yaml"},
		},
		"a shared file that is left out and claimed": {
			spoil: func(f *fixture) {
				f.replaceInProject(file, "  files:", "  without: [{file: pkg/b/rule.go, reason: so}]\n  files:")
			},
			want: []string{"leaves out pkg/b/rule.go, and b-add-a-rule.patch claims it"},
		},
		"a file that is left out and not shared": {
			spoil: func(f *fixture) {
				f.replaceInProject(file, "  files:", "  without: [{file: pkg/x.go, reason: so}]\n  files:")
			},
			want: []string{"leaves out pkg/x.go, which is no shared file"},
		},
		"a file that moves and is not shared": {
			spoil: func(f *fixture) { f.replaceInProject(file, "  files: {", "  files: {pkg/x.go: pkg/y.go, ") },
			want:  []string{"says where pkg/x.go lies, which is no shared file"},
		},
		"an own file that is the shared one": {
			spoil: func(f *fixture) { f.put(f.project, "bases/v2/overlay/pkg/b/rule.go", ruleV2) },
			want:  []string{"bases/v2/overlay/pkg/b/rule.go has nothing but what the shared pkg/b/rule.go gives: remove it"},
		},
		"an own file that nobody claims": {
			spoil: func(f *fixture) { f.put(f.project, "bases/v2/overlay/pkg/b/x.go", "package b\n") },
			want:  []string{"bases/v2/overlay/pkg/b/x.go is claimed by no patch"},
		},
		"rewriting that nothing needs": {
			spoil: func(f *fixture) {
				f.replaceInProject(file, "names: [Move]", "names: [Move, Copy]")
				f.replaceInProject(file, "  imports: {", "  literals: {none: other}\n  imports: {fmt: other, ")
			},
			want: []string{"no shared file needs", "bases/v2/base.yaml", "\n  imports: fmt\n  literals: none\n  symbols: example.org/upstream/pkg/a.Copy"},
		},
		"a file that is neither": {
			spoil: func(f *fixture) {
				f.replaceInProject(claims, "Overlay: pkg/c/there.go\n", "Overlay: pkg/b/here.go\nOverlay: pkg/c/there.go\n")
			},
			want: []string{"claims pkg/b/here.go, and there is neither bases/v2/overlay/pkg/b/here.go nor a shared pkg/b/here.go"},
		},
		"a shared file that cannot be rewritten": {
			spoil: func(f *fixture) {
				f.put(f.project, "pkg/b/rule.go", "package b\n\nimport . \"example.org/upstream/pkg/a\"\n\nvar _ = Move\n")
			},
			want: []string{"claims pkg/b/rule.go, which cannot be made from the shared file", "with a dot"},
		},
		"a shared file that its base does not claim": {
			spoil: func(f *fixture) {
				f.put(f.project, "pkg/b/x.go", "package b\n")
				f.replaceInProject(claims, "Overlay: test/text\n", "Overlay: test/text\nOverlay: pkg/b/x.go\n")
			},
			base: "v1",
			want: []string{"pkg/b/x.go is claimed by no patch"},
		},
		"no such base": {
			spoil: func(f *fixture) { f.replaceInProject(file, "base: v1", "base: v3") },
			want:  []string{"shared.base", "there is no base v3"},
		},
		"itself": {
			spoil: func(f *fixture) { f.replaceInProject(file, "base: v1", "base: v2") },
			want:  []string{"shared.base: it cannot be the base itself"},
		},
		"a base that has its overlay from another one": {
			spoil: func(f *fixture) {
				f.put(f.project, "bases/v3/base.yaml", strings.NewReplacer("base: v1", "base: v2", "bases/v2/patches", "bases/v3/patches", "bases/v2/overlay", "bases/v3/overlay").Replace(f.get(f.project, file)))
			},
			base: "v3",
			want: []string{"shared.base: v2 itself takes its overlay from base v1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, f := newTwoBases(t)
			tc.spoil(f)
			if tc.base != "" {
				f = &fixture{t: t, name: tc.base, project: f.project, base: filepath.Join(filepath.Dir(f.base), strings.Replace(tc.base, "v3", "v2", 1)), tree: f.tree + "-other"}
			}
			f.refused(tc.want, "verify")
		})
	}
}
