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
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fixture is a tiny upstream with a project that patches it.
type fixture struct {
	t       *testing.T
	name    string // of the base, "v1" if empty
	project string
	base    string
	tree    string
	out     strings.Builder // what the last run printed
}

// upstreamFiles is an upstream whose API is a list of names, from which a
// generator makes a list in capital letters.
var upstreamFiles = map[string]string{
	"README.md":                     "upstream\n",
	"go.mod":                        "module example.org/upstream\n\ngo 1.25\n",
	".gitignore":                    "bin\n*.out\n",
	"bin/tool":                      "ignored by git, but part of the module\n",
	"pkg/a/a.go":                    "package a\n\n// One\n\nfunc one() {}\n\n// Two\n\nfunc two() {}\n\n// Three\n\nfunc three() {}\n\n// Four\n\nfunc four() {}\n",
	"pkg/b/b.go":                    "package b\n",
	"apis/names.go":                 "package apis\n\n// names: a b\n",
	"apis/zz_generated.deepcopy.go": "package apis\n\n// A B\n",
}

// projectFiles is what the project has beside patches and overlay.
var projectFiles = map[string]string{
	"go.mod": "module example.org/project\n\ngo 1.25\n\nrequire example.org/upstream v1.0.0\n",
	"bases/v1/base.yaml": `
module: example.org/upstream
version: v1.0.0
release: 3
pin: .
api: example.org/upstream/apis
kubernetes: {version: 1.2.3}
tree: build/tree
series: patches/series
carried: patches/carried/series
overlay: [apis, pkg, test]
suites: test
generated:
  sources: [apis]
  paths: ['apis/zz_generated\.[a-z]+\.go']
  generators: tools/generators
  commands:
  - run: [shout, apis]
`,
	"tools/generators/go.mod": "module example.org/generators\n\ngo 1.25\n\ntool example.org/generators/shout\n",
	"tools/generators/shout/main.go": `package main

import (
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var all []string
	files, _ := filepath.Glob(os.Args[1] + "/*.go")
	for _, file := range files {
		content, _ := os.ReadFile(file)
		if _, names, ok := strings.Cut(string(content), "// names: "); ok {
			all = append(all, strings.TrimSpace(strings.ToUpper(names)))
		}
	}
	os.WriteFile(os.Args[1]+"/zz_generated.deepcopy.go", []byte("package apis\n\n// "+strings.Join(all, " ")+"\n"), 0o644)
}
`,
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	f := &fixture{t: t, project: filepath.Join(dir, "project"), base: filepath.Join(dir, "base"), tree: filepath.Join(dir, "tree")}
	for name, content := range upstreamFiles {
		f.put(f.base, name, content)
	}
	for name, content := range projectFiles {
		f.put(f.project, name, content)
	}
	return f
}

func (f *fixture) put(dir, name, content string) {
	f.t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(dir, name string) string {
	f.t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(content)
}

// run runs the tool as the command line does.
func (f *fixture) run(args ...string) error {
	cmd := newCommand()
	f.out.Reset()
	cmd.SetOut(&f.out)
	cmd.SetArgs(append([]string{"--project", f.project, "--base", cmp.Or(f.name, "v1"), "--source-dir", f.base, "--tree", f.tree}, args...))
	return cmd.Execute()
}

// must runs the tool and fails the test when it fails.
func (f *fixture) must(args ...string) {
	f.t.Helper()
	if err := f.run(args...); err != nil {
		f.t.Fatalf("patchset %s: %v", strings.Join(args, " "), err)
	}
}

// refused runs the tool and wants it to fail with a message that has all parts.
func (f *fixture) refused(parts []string, args ...string) {
	f.t.Helper()
	err := f.run(args...)
	if err == nil {
		f.t.Fatalf("patchset %s succeeded, want an error with %q", strings.Join(args, " "), parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			f.t.Errorf("patchset %s: the error lacks %q:\n%v", strings.Join(args, " "), part, err)
		}
	}
}

func (f *fixture) git(args ...string) string {
	f.t.Helper()
	out, err := gitRepo{dir: f.tree}.text(args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

const goodMessage = "Why it is so.\n\nUpstream-Status: Pending\nDrop-When: never\n"

// commit changes files in the tree and commits them.
func (f *fixture) commit(subject string, files map[string]string) {
	f.t.Helper()
	f.commitText(subject+"\n\n"+goodMessage, files)
}

func (f *fixture) commitText(text string, files map[string]string) {
	f.t.Helper()
	for name, content := range files {
		f.put(f.tree, name, content)
	}
	f.git("add", "--all")
	f.git("commit", "--quiet", "--allow-empty", "--message", text)
}

// changed returns the content of upstream's pkg/a/a.go with words replaced.
func changed(oldnew ...string) string {
	return strings.NewReplacer(oldnew...).Replace(upstreamFiles["pkg/a/a.go"])
}

// standard makes a tree with two patches, the second with an overlay file, and
// exports it.
func (f *fixture) standard() {
	f.t.Helper()
	f.must("tree")
	f.commit("a: Change one", map[string]string{"pkg/a/a.go": changed("One", "ONE")})
	f.commit("a: Change four", map[string]string{"pkg/a/a.go": changed("One", "ONE", "Four", "FOUR"), "pkg/a/new.go": "package a\n"})
	f.must("export")
}

// remove removes a file of the project.
func (f *fixture) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.project, name)); err != nil {
		f.t.Fatal(err)
	}
}

// commitProject commits all that is in the project.
func (f *fixture) commitProject() {
	f.t.Helper()
	r, err := initRepo(f.project)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", "work"}} {
		if _, err := r.run(nil, args...); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) snapshot() map[string]string {
	f.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(f.project, func(full string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(f.project, full)
		files[name] = f.get(f.project, name)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return files
}

// wantFiles fails the test unless the project has these files and no others.
func (f *fixture) wantFiles(want map[string]string) {
	f.t.Helper()
	got := f.snapshot()
	for _, name := range sortedKeys(want) {
		if content, ok := got[name]; !ok {
			f.t.Errorf("%s is gone", name)
		} else if content != want[name] {
			f.t.Errorf("%s changed:\n%s", name, content)
		}
	}
	for _, name := range sortedKeys(got) {
		if _, ok := want[name]; !ok {
			f.t.Errorf("%s is new", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	f := newFixture(t)
	f.standard()
	want := f.snapshot()
	if got := want["patches/series"]; got != "a-change-one.patch\na-change-four.patch\n" {
		t.Errorf("series is %q", got)
	}
	if got := want["pkg/a/new.go"]; got != "package a\n" {
		t.Errorf("overlay file is %q", got)
	}
	if strings.Contains(want["patches/a-change-four.patch"], "new file mode") {
		t.Error("the patch creates the overlay file")
	}
	if !strings.Contains(want["patches/a-change-four.patch"], "\nOverlay: pkg/a/new.go\n") {
		t.Errorf("the patch does not claim the overlay file:\n%s", want["patches/a-change-four.patch"])
	}
	f.must("verify")

	// Another machine, from the project alone: same commits, same files.
	f.must("tree")
	head := f.git("rev-parse", "HEAD")
	if err := os.RemoveAll(f.tree); err != nil {
		t.Fatal(err)
	}
	f.must("tree")
	if got := f.git("rev-parse", "HEAD"); got != head {
		t.Errorf("the commit is %s in a new tree, was %s", got, head)
	}
	if got := f.get(f.tree, "pkg/a/a.go"); got != changed("One", "ONE", "Four", "FOUR") {
		t.Errorf("patched file is:\n%s", got)
	}
	if got := f.git("ls-files", "bin/tool"); got != "bin/tool" {
		t.Error("a file of the base that git ignores is not in the tree")
	}
	f.must("export")
	for name, content := range f.snapshot() {
		if want[name] != content {
			t.Errorf("%s changed by tree and export:\n%s", name, content)
		}
	}
}

func TestExportDoesNotDependOnWhoCommits(t *testing.T) {
	f := newFixture(t)
	f.standard()
	want := f.snapshot()
	f.git("config", "user.name", "somebody")
	f.git("config", "diff.noprefix", "true")
	f.git("config", "diff.algorithm", "histogram")
	f.git("config", "core.abbrev", "4")
	f.git("commit", "--quiet", "--amend", "--no-edit", "--author", "Some Body <some@body>", "--date", "2001-02-03T04:05:06")
	f.must("export")
	for name, content := range f.snapshot() {
		if want[name] != content {
			t.Errorf("%s changed:\n%s", name, content)
		}
	}
}

func TestOverlayOnlyPatch(t *testing.T) {
	f := newFixture(t)
	f.must("tree")
	f.commit("test: Add a suite", map[string]string{"test/new/suite_test.go": "package new\n"})
	f.must("export")
	f.must("verify")
	before := f.get(f.project, "patches/test-add-a-suite.patch")
	f.must("tree")
	f.must("export")
	if after := f.get(f.project, "patches/test-add-a-suite.patch"); after != before {
		t.Errorf("the patch changed:\n%s", after)
	}
	if got := f.git("log", "-1", "--format=", "--name-only"); got != "test/new/suite_test.go" {
		t.Errorf("the commit holds %q", got)
	}
}

func TestModeOfOverlayFile(t *testing.T) {
	f := newFixture(t)
	f.must("tree")
	f.put(f.tree, "test/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(f.tree, "test/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.commit("test: Add a script", nil)
	f.must("export")
	f.must("verify")
	info, err := os.Stat(filepath.Join(f.project, "test/run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode()&0o100 == 0 {
		t.Error("the script is not executable in the project")
	}
}

func TestUpToDateTreeIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.standard()
	modified := func() time.Time {
		info, err := os.Stat(filepath.Join(f.tree, "pkg/a/a.go"))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	f.must("tree")
	before := modified()
	f.must("tree")
	if !strings.Contains(f.out.String(), "is up to date") {
		t.Errorf("the tree was made again:\n%s", f.out.String())
	}
	// A later patch changes another file: this one is not written again.
	f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // new\n"})
	f.must("export")
	f.must("tree")
	if strings.Contains(f.out.String(), "is up to date") {
		t.Errorf("the tree was not made again:\n%s", f.out.String())
	}
	if after := modified(); !after.Equal(before) {
		t.Error("a file that did not change was written again")
	}
}

func TestTreeRefuses(t *testing.T) {
	cases := map[string]struct {
		spoil func(f *fixture)
		want  []string
	}{
		"uncommitted change": {
			spoil: func(f *fixture) { f.put(f.tree, "pkg/b/b.go", "package b // mine\n") },
			want:  []string{"not committed", "pkg/b/b.go", "make export", "FORCE=1"},
		},
		"new file": {
			spoil: func(f *fixture) { f.put(f.tree, "pkg/b/c.go", "package b\n") },
			want:  []string{"not committed", "pkg/b/c.go"},
		},
		"commit that is not exported": {
			spoil: func(f *fixture) { f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // mine\n"}) },
			want:  []string{"commits that are not exported", "make export"},
		},
		"commit that cannot be exported": {
			spoil: func(f *fixture) { f.commitText("b: wip", map[string]string{"pkg/b/b.go": "package b // mine\n"}) },
			want:  []string{"commits that are not exported", "wip"},
		},
		"half a rebase": {
			spoil: func(f *fixture) { f.put(f.tree, ".git/rebase-merge/done", "") },
			want:  []string{"rebase is not finished", "git rebase --abort"},
		},
		"a directory of somebody else": {
			spoil: func(f *fixture) {
				if err := os.RemoveAll(filepath.Join(f.tree, ".git")); err != nil {
					f.t.Fatal(err)
				}
			},
			want: []string{"no tree of this tool"},
		},
		"a repository of somebody else": {
			spoil: func(f *fixture) {
				if err := os.RemoveAll(filepath.Join(f.tree, ".git")); err != nil {
					f.t.Fatal(err)
				}
				f.git("init", "--quiet", "--initial-branch=main")
				f.commit("all", nil)
			},
			want: []string{"no tree of this tool"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.standard()
			tc.spoil(f)
			f.refused(tc.want, "tree")
		})
	}
}

func TestForcedTreeKeepsWork(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // committed\n"})
	head := f.git("rev-parse", "HEAD")
	f.put(f.tree, "pkg/b/c.go", "package b // not committed\n")
	f.must("tree", "--force")
	if got := f.git("rev-parse", "put-aside/"+head[:12]); got != head {
		t.Errorf("the branch with the old commits is at %s, want %s", got, head)
	}
	if got := f.git("show", "stash@{0}^3:pkg/b/c.go"); got != "package b // not committed" {
		t.Errorf("the stash has %q", got)
	}
	if got := f.get(f.tree, "pkg/b/b.go"); got != upstreamFiles["pkg/b/b.go"] {
		t.Errorf("the tree still has %q", got)
	}
}

func TestFailingHunkIsNamed(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.must("tree")
	head := f.git("rev-parse", "HEAD")
	// Upstream changes what the second hunk of the second patch stands on.
	f.commit("a: Change three places", map[string]string{"pkg/a/a.go": changed("One", "1", "Two", "Two", "Four", "4")})
	f.must("export")
	f.must("tree")
	name := "patches/a-change-three-places.patch"
	text := f.get(f.project, name)
	f.put(f.project, name, strings.Replace(text, "-// FOUR", "-// WHAT", 1))
	f.refused([]string{"a-change-three-places.patch does not apply", "hunk 2 of 2 of pkg/a/a.go", "make export"}, "tree")
	f.refused([]string{"a-change-three-places.patch does not apply", "hunk 2 of 2 of pkg/a/a.go"}, "verify")
	if got := f.get(f.tree, "pkg/a/a.go"); got != changed("One", "1", "Four", "4") {
		t.Errorf("the tree changed although the patch failed (it was at %s):\n%s", head, got)
	}
}

func TestVerifyFinds(t *testing.T) {
	const patchFile = "patches/a-change-four.patch"
	edit := func(name, old, new string) func(*fixture) {
		return func(f *fixture) {
			text := f.get(f.project, name)
			if !strings.Contains(text, old) {
				f.t.Fatalf("%s has no %q:\n%s", name, old, text)
			}
			f.put(f.project, name, strings.Replace(text, old, new, 1))
		}
	}
	cases := map[string]struct {
		spoil func(f *fixture)
		want  []string
	}{
		"unclaimed overlay file": {
			spoil: func(f *fixture) { f.put(f.project, "pkg/b/stray.go", "package b\n") },
			want:  []string{"pkg/b/stray.go is claimed by no patch"},
		},
		"file in an overlay folder outside of the roots": {
			spoil: func(f *fixture) { f.put(f.project, "test/stray.go", "package b\n") },
			want:  []string{"test/stray.go is claimed by no patch"},
		},
		"missing overlay file": {
			spoil: func(f *fixture) { os.Remove(filepath.Join(f.project, "pkg/a/new.go")) },
			want:  []string{"a-change-four.patch claims pkg/a/new.go, which does not exist"},
		},
		"overlay file claimed twice": {
			spoil: edit("patches/a-change-one.patch", "Drop-When: never\n", "Drop-When: never\nOverlay: pkg/a/new.go\n"),
			want:  []string{"pkg/a/new.go is claimed by a-change-one.patch and by a-change-four.patch"},
		},
		"overlay file that exists upstream": {
			spoil: func(f *fixture) {
				f.put(f.project, "pkg/b/b.go", "package b\n")
				edit(patchFile, "Drop-When: never\n", "Drop-When: never\nOverlay: pkg/b/b.go\n")(f)
			},
			want: []string{"pkg/b/b.go exists in"},
		},
		"overlay file outside of the overlay": {
			spoil: func(f *fixture) {
				f.put(f.project, "cmd/x.go", "package x\n")
				edit(patchFile, "Drop-When: never\n", "Drop-When: never\nOverlay: cmd/x.go\n")(f)
			},
			want: []string{"cmd/x.go, which is outside of the overlay"},
		},
		"patch not in the series": {
			spoil: func(f *fixture) { f.put(f.project, "patches/stale.patch", "") },
			want:  []string{"patches/stale.patch is not listed"},
		},
		"patch twice in the series": {
			spoil: edit("patches/series", "a-change-four.patch\n", "a-change-four.patch\na-change-one.patch\n"),
			want:  []string{"lists a-change-one.patch twice"},
		},
		"patch missing": {
			spoil: func(f *fixture) { os.Remove(filepath.Join(f.project, patchFile)) },
			want:  []string{"lists a-change-four.patch, which does not exist"},
		},
		"patch that creates a file": {
			spoil: func(f *fixture) {
				f.put(f.project, patchFile, f.get(f.project, patchFile)+"diff --git a/pkg/b/x.go b/pkg/b/x.go\nnew file mode 100644\nindex 0000000..1111111\n--- /dev/null\n+++ b/pkg/b/x.go\n@@ -0,0 +1 @@\n+package b\n")
			},
			want: []string{"a-change-four.patch creates pkg/b/x.go"},
		},
		"patch that changes generated code": {
			spoil: edit(patchFile, "diff --git a/pkg/a/a.go b/pkg/a/a.go", "diff --git a/apis/zz_generated.deepcopy.go b/apis/zz_generated.deepcopy.go"),
			want:  []string{"a-change-four.patch changes apis/zz_generated.deepcopy.go, which is generated"},
		},
		"stale patch: line numbers that moved": {
			spoil: edit(patchFile, "@@ -12,6 +12,6 @@", "@@ -11,6 +11,6 @@"),
			want:  []string{"not what \"make export\" writes", patchFile},
		},
		"patch in other words than export's": {
			spoil: edit(patchFile, "Date: Thu, 1 Jan 2026", "Date: Fri, 2 Jan 2026"),
			want:  []string{"not what \"make export\" writes", patchFile},
		},
		"overlay trailers out of place": {
			spoil: edit(patchFile, "Upstream-Status: Pending\nDrop-When: never\nOverlay: pkg/a/new.go\n", "Overlay: pkg/a/new.go\nUpstream-Status: Pending\nDrop-When: never\n"),
			want:  []string{"not what \"make export\" writes", patchFile},
		},
		"message that upstream rejects": {
			spoil: edit(patchFile, "Why it is so.", "Fixes #123"),
			want:  []string{"refers to an issue", "words that close issues"},
		},
		"no trailer": {
			spoil: edit(patchFile, "Drop-When: never\n", ""),
			want:  []string{`no "Drop-When:" trailer`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.standard()
			f.must("verify")
			tc.spoil(f)
			f.refused(tc.want, "verify")
		})
	}
}

func TestExportRefuses(t *testing.T) {
	cases := map[string]struct {
		spoil func(f *fixture)
		want  []string
	}{
		"dirty tree": {
			spoil: func(f *fixture) { f.put(f.tree, "pkg/b/b.go", "package b // mine\n") },
			want:  []string{"not committed", "pkg/b/b.go"},
		},
		"nothing to export": {
			spoil: func(f *fixture) { f.git("reset", "--quiet", "--hard", "HEAD~2") },
			want:  []string{"nothing to export"},
		},
		"half a rebase": {
			spoil: func(f *fixture) { f.put(f.tree, ".git/rebase-merge/done", "") },
			want:  []string{"rebase is not finished"},
		},
		"half an am": {
			spoil: func(f *fixture) { f.put(f.tree, ".git/rebase-apply/applying", "") },
			want:  []string{"git am is not finished"},
		},
		"merge": {
			spoil: func(f *fixture) {
				f.git("checkout", "--quiet", "-b", "side", "HEAD~1")
				f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // mine\n"})
				f.git("merge", "--quiet", "--no-edit", "main")
			},
			want: []string{"is a merge"},
		},
		"empty commit": {
			spoil: func(f *fixture) { f.commit("b: Nothing", nil) },
			want:  []string{"b: Nothing", "changes nothing"},
		},
		"new file outside of the overlay": {
			spoil: func(f *fixture) { f.commit("cmd: Add", map[string]string{"cmd/x/main.go": "package main\n"}) },
			want:  []string{"cmd/x/main.go", "outside of the overlay"},
		},
		"new file changed by another commit": {
			spoil: func(f *fixture) { f.commit("a: More", map[string]string{"pkg/a/new.go": "package a // more\n"}) },
			want:  []string{"changes pkg/a/new.go", `"a: Change four" made`, "squash"},
		},
		"generated file in a commit that does not change the API": {
			spoil: func(f *fixture) {
				f.commit("b: Change", map[string]string{"apis/zz_generated.deepcopy.go": "package apis // new\n", "pkg/b/b.go": "package b // new\n"})
			},
			want: []string{"apis/zz_generated.deepcopy.go, which is generated", "make generate"},
		},
		"generated file alone": {
			spoil: func(f *fixture) {
				f.commitText("generated code", map[string]string{"apis/zz_generated.deepcopy.go": "package apis // new\n"})
			},
			want: []string{"apis/zz_generated.deepcopy.go, which is generated", "make generate"},
		},
		"generated fixup of a commit that does not change the API": {
			spoil: func(f *fixture) {
				f.commitText("fixup! a: Change one", map[string]string{"apis/zz_generated.deepcopy.go": "package apis // new\n"})
			},
			want: []string{"apis/zz_generated.deepcopy.go, which is generated", "autosquash"},
		},
		"fixup": {
			spoil: func(f *fixture) {
				f.commitText("fixup! a: Change one", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{"autosquash"},
		},
		"patch after one that is carried": {
			spoil: func(f *fixture) {
				f.commitText("b: Ours\n\nWhy.\n\nUpstream-Status: Inappropriate [it is ours]\nDrop-When: never\n", map[string]string{"pkg/b/b.go": "package b // new\n"})
				f.commit("b: Theirs", map[string]string{"pkg/b/c.go": "package b\n"})
			},
			want: []string{"b: Theirs", `stands after "b: Ours", which is carried`},
		},
		"unknown status": {
			spoil: func(f *fixture) {
				f.commitText("b: Change\n\nWhy.\n\nUpstream-Status: Sometime\nDrop-When: never\n", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{`"Upstream-Status: Sometime"`, `"Different [what upstream has instead]"`},
		},
		"status without a reason": {
			spoil: func(f *fixture) {
				f.commitText("b: Change\n\nWhy.\n\nUpstream-Status: Inappropriate\nDrop-When: never\n", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{`"Upstream-Status: Inappropriate"`, `"Inappropriate [why]"`},
		},
		"issue number": {
			spoil: func(f *fixture) {
				f.commitText("b: Change\n\nSee #123.\n\nUpstream-Status: x\nDrop-When: y\n", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{"#123"},
		},
		"Fixes": {
			spoil: func(f *fixture) {
				f.commitText("b: Change\n\nFixes the thing.\n\nUpstream-Status: x\nDrop-When: y\n", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{"close issues"},
		},
		"no reason": {
			spoil: func(f *fixture) {
				f.commitText("b: Change", map[string]string{"pkg/b/b.go": "package b // new\n"})
			},
			want: []string{"does not say why", "Upstream-Status:", "Drop-When:"},
		},
		"same name": {
			spoil: func(f *fixture) { f.commit("a: change one!", map[string]string{"pkg/b/b.go": "package b // new\n"}) },
			want:  []string{"a-change-one.patch", "same file name"},
		},
		"another base": {
			spoil: func(f *fixture) { f.put(f.base, "README.md", "a later upstream\n") },
			want:  []string{"not the pristine base"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.standard()
			before := f.snapshot()
			tc.spoil(f)
			f.refused(tc.want, "export")
			for name, content := range f.snapshot() {
				if before[name] != content {
					t.Errorf("%s was written all the same", name)
				}
			}
		})
	}
}

func TestExportRemovesWhatIsGone(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.put(f.project, "patches/README.md", "about the patches\n")
	f.git("reset", "--quiet", "--hard", "HEAD~1")
	f.must("export")
	files := f.snapshot()
	for _, gone := range []string{"patches/a-change-four.patch", "pkg/a/new.go"} {
		if _, ok := files[gone]; ok {
			t.Errorf("%s is still there", gone)
		}
	}
	if _, err := os.Stat(filepath.Join(f.project, "pkg")); err == nil {
		t.Error("the empty overlay folder is still there")
	}
	if files["patches/README.md"] == "" {
		t.Error("patches/README.md was removed")
	}
	f.must("verify")
}

func TestExportRefusesToUndoNewerWork(t *testing.T) {
	cases := map[string]struct {
		change func(f *fixture) // in the project, after the tree was made
		want   string           // the file that the error names
	}{
		"overlay file edited": {
			change: func(f *fixture) { f.put(f.project, "pkg/a/new.go", "package a // by hand\n") },
			want:   "pkg/a/new.go",
		},
		"overlay file made executable": {
			change: func(f *fixture) {
				if err := os.Chmod(filepath.Join(f.project, "pkg/a/new.go"), 0o755); err != nil {
					f.t.Fatal(err)
				}
			},
			want: "pkg/a/new.go",
		},
		"overlay file removed": {
			change: func(f *fixture) { f.remove("pkg/a/new.go") },
			want:   "pkg/a/new.go",
		},
		"new file in an overlay folder": {
			change: func(f *fixture) { f.put(f.project, "pkg/a/newer.go", "package a // by hand\n") },
			want:   "pkg/a/newer.go",
		},
		"patch edited": {
			change: func(f *fixture) {
				f.put(f.project, "patches/a-change-one.patch", f.get(f.project, "patches/a-change-one.patch")+"# by hand\n")
			},
			want: "patches/a-change-one.patch",
		},
		"patch removed": {
			change: func(f *fixture) { f.remove("patches/a-change-one.patch") },
			want:   "patches/a-change-one.patch",
		},
		"series edited": {
			change: func(f *fixture) { f.put(f.project, "patches/series", "a-change-four.patch\n") },
			want:   "patches/series",
		},
	}
	for name, tc := range cases {
		for _, commit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, committed: %t", name, commit), func(t *testing.T) {
				f := newFixture(t)
				f.standard()
				exported := f.snapshot()
				tc.change(f)
				if commit {
					f.commitProject()
				}
				before := f.snapshot()
				f.refused([]string{tc.want, "make tree", "make export FORCE=1"}, "export")
				f.wantFiles(before)
				f.must("export", "--force")
				after := f.snapshot()
				for name, content := range exported {
					if after[name] != content {
						t.Errorf("%s is not what the tree has", name)
					}
				}
				f.must("verify")
				f.must("export")
			})
		}
	}
}

func TestTreeMadeBeforeAPull(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.must("tree")
	// Somebody else's work arrives: a patch changed, a patch and a file added.
	other := &fixture{t: t, project: f.project, base: f.base, tree: f.tree + "-other"}
	other.must("tree")
	other.git("commit", "--quiet", "--amend", "--message", "a: Change four\n\nA better reason.\n\nUpstream-Status: Pending\nDrop-When: never\n")
	other.commit("test: Add a suite", map[string]string{"test/new/suite_test.go": "package new\n"})
	other.must("export")
	pulled := f.snapshot()

	f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // mine\n"})
	head := f.git("rev-parse", "HEAD")
	f.refused([]string{"patches/a-change-four.patch", "patches/series", "patches/test-add-a-suite.patch", "test/new/suite_test.go", "make tree FORCE=1", "cherry-pick"}, "export")
	f.wantFiles(pulled)

	// The way out that the message describes.
	f.refused([]string{"commits that are not exported"}, "tree")
	f.must("tree", "--force")
	f.git("cherry-pick", "put-aside/"+head[:12])
	f.must("export")
	f.must("verify")
	own := f.get(f.project, "patches/b-change.patch")
	if !strings.Contains(own, "+package b // mine\n") {
		t.Errorf("the patch of the tree's own commit is:\n%s", own)
	}
	pulled["patches/series"] += "b-change.patch\n"
	pulled["patches/b-change.patch"] = own
	f.wantFiles(pulled)
}

func TestExportAfterTreeRewritesPatchEditedByHand(t *testing.T) {
	f := newFixture(t)
	f.standard()
	want := f.snapshot()
	f.put(f.project, "patches/series", "# by hand\n"+want["patches/series"])
	f.put(f.project, "patches/a-change-one.patch", strings.Replace(want["patches/a-change-one.patch"], "Date: Thu", "Date: Fri", 1))
	f.must("tree")
	f.must("export")
	f.wantFiles(want)
}

func TestPullRequest(t *testing.T) {
	f := newFixture(t)
	f.standard()
	out := filepath.Join(f.project, "..", "pr")
	f.put(out, "0009-old.patch", "left from the last time")
	f.must("pr", "--out", out, "--author", "Zoë Q <zoe@example.org>")
	series, err := filepath.Glob(filepath.Join(out, "*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	if len(series) != 2 {
		t.Fatalf("the series is %q, want 2 patches", series)
	}
	for _, name := range series {
		text := f.get("", name)
		for _, key := range []string{trailerStatus, trailerOverlay, trailerDropWhen} {
			if strings.Contains(text, key+":") {
				t.Errorf("%s has the trailer %s:\n%s", name, key, text)
			}
		}
		if !strings.Contains(text, "Why it is so.") {
			t.Errorf("%s lost its message:\n%s", name, text)
		}
	}
	// On a repository of somebody else, whose history is another one.
	upstream := &fixture{t: t, tree: filepath.Join(f.project, "..", "upstream")}
	if _, err := initRepo(upstream.tree); err != nil {
		t.Fatal(err)
	}
	upstream.commitText("upstream's first", nil)
	for name, content := range upstreamFiles {
		upstream.put(upstream.tree, name, content)
	}
	upstream.git("add", "--all", "--force")
	upstream.git("commit", "--quiet", "--message", "upstream's second")
	upstream.git(append([]string{"am", "--quiet"}, series...)...)
	if got, want := upstream.git("rev-parse", "HEAD^{tree}"), f.git("rev-parse", "HEAD^{tree}"); got != want {
		t.Errorf("git am gives the files %s, want %s", got, want)
	}
	if got := upstream.git("log", "-1", "--format=%an <%ae>"); got != "Zoë Q <zoe@example.org>" {
		t.Errorf("the author is %s", got)
	}
}

func TestSecondBaseIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.put(f.project, "later/series", "one.patch\n")
	f.put(f.project, "later/one.patch", patchHeader+"Later\n\nOverlay: pkg/b/later.go\nOverlay: pkg/a/new.go\n\n")
	f.put(f.project, "pkg/b/later.go", "package b\n")
	f.refused([]string{"pkg/b/later.go is claimed by no patch"}, "verify")
	f.put(f.project, "bases/v2/base.yaml", strings.Replace(projectFiles["bases/v1/base.yaml"], "patches/series\ncarried: patches/carried/series", "later/series", 1))
	f.must("tree")
	f.commit("b: Change", map[string]string{"pkg/b/b.go": "package b // new\n"})
	f.must("export")
	f.must("verify")
	if got := f.get(f.project, "pkg/b/later.go"); got != "package b\n" {
		t.Errorf("the other base's overlay file is %q", got)
	}
}

func TestTouched(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.commit("test: Add a suite", map[string]string{"test/new/suite_test.go": "package new\n"})
	f.must("export")
	for unit, want := range map[string]string{"--unit=false": "./pkg/a\n./test/new\n", "--unit": "./pkg/a\n"} {
		cmd := newCommand()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"touched", unit, "--project", f.project, "--base", "v1", "--source-dir", f.base})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("touched %s prints %q, want %q", unit, out.String(), want)
		}
	}
}
