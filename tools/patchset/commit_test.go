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

// withCommit has the base be a commit of upstream's git, and returns that and the commit.
func (f *fixture) withCommit() (upstream, commit string) {
	f.t.Helper()
	upstream = f.base
	r, err := initRepo(upstream)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "--all", "--force", "."}, {"commit", "--quiet", "--message=upstream"}} {
		if _, err := r.run(nil, args...); err != nil {
			f.t.Fatal(err)
		}
	}
	commit = r.head()
	f.base = "" // the source is the commit alone
	f.replaceInProject("bases/v1/base.yaml", "pin: .", "commit: "+commit)
	return upstream, commit
}

func TestBaseOfCommit(t *testing.T) {
	f := newFixture(t)
	f.put(f.base, "go.mod", upstreamFiles["go.mod"]+"\nrequire k8s.io/api v0.2.3\n")
	f.put(f.base, "hack/go.mod", "module example.org/hack\n") // no module proxy serves it
	upstream, commit := f.withCommit()
	f.refused([]string{"example.org/upstream v1.0.0, commit " + commit[:12], "UPSTREAM=directory"}, "tree")
	f.refused([]string{"is no git repository"}, "tree", "--upstream", t.TempDir())

	// What is not in the commit is no part of the base.
	f.put(upstream, "pkg/b/b.go", "package b // work in progress\n")
	f.must("tree", "--upstream", upstream)
	if got := f.get(f.tree, "pkg/b/b.go"); got != upstreamFiles["pkg/b/b.go"] {
		t.Errorf("The file of the tree is %q", got)
	}
	if got := f.get(f.tree, "hack/go.mod"); got == "" {
		t.Error("The tree has not all files of the commit")
	}
	f.commit("b: Say more", map[string]string{"pkg/b/b.go": "package b // patched\n"})
	f.must("export", "--upstream", upstream)
	f.must("verify", "--upstream", upstream)
	all := newCommand() // of all bases, those that can be had
	f.out.Reset()
	all.SetOut(&f.out)
	all.SetArgs([]string{"--project", f.project, "verify"})
	if err := all.Execute(); err != nil {
		t.Errorf("Verifying all bases: %v", err)
	}
	if got := f.out.String(); !strings.Contains(got, "LEFT OUT: base v1, which is a commit of upstream (UPSTREAM=directory)") {
		t.Errorf("The output of verify is\n%s", got)
	}

	f.must("new-base", "main", "--version", "v1.1.0-devel", "--commit", commit, "--upstream", upstream)
	text := f.get(f.project, "bases/main/base.yaml")
	if !strings.Contains(text, "\ncommit: "+commit+"\n") || strings.Contains(text, "pin:") {
		t.Errorf("The new base is\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(f.project, "bases/main/go.mod")); err == nil {
		t.Error("The new base has a go.mod, which can pin no commit")
	}

	files := filepath.Join(f.project, "build/upstream", commit, "pkg/b/b.go")
	if err := os.Chmod(files, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files, []byte("package b // changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.refused([]string{"are not those of the commit: remove that directory"}, "verify", "--upstream", upstream)

	f.replaceInProject("bases/v1/base.yaml", commit, strings.Repeat("0", 40))
	f.refused([]string{"has no commit 0000", "git fetch"}, "tree", "--upstream", upstream)
	f.replaceInProject("bases/v1/base.yaml", strings.Repeat("0", 40), "main")
	f.refused([]string{`commit "main" is no hash of 40 digits`}, "tree", "--upstream", upstream)
}
