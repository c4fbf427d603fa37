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

func TestRebase(t *testing.T) {
	f := newFixture(t)
	f.put(f.base, "pkg/a/one.go", "package a\n\nconst One = 1\n")
	f.withFixes()
	f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": twoTest})
	f.commit("a: Change four", map[string]string{"pkg/a/a.go": changed("Four", "FOUR"), "pkg/a/new.go": "package a\n\nconst Two = One\n"})
	f.must("export")
	want := f.snapshot()

	// Upstream's git: the base, and versions after it.
	upstream := filepath.Join(f.project, "..", "upstream-git")
	r, err := initRepo(upstream)
	if err != nil {
		t.Fatal(err)
	}
	release := func(tag string, files map[string]string) {
		t.Helper()
		for name, content := range files {
			f.put(upstream, name, content)
		}
		for _, args := range [][]string{{"add", "--all", "--force", "."}, {"commit", "--quiet", "--allow-empty", "--message=" + tag}, {"tag", tag}} {
			if _, err := r.run(nil, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := map[string]string{"pkg/a/one.go": "package a\n\nconst One = 1\n"}
	for name, content := range upstreamFiles {
		files[name] = content
	}
	release("v1.0.1", files)
	release("v1.1.0", map[string]string{"pkg/a/one.go": "package a\n\nconst (\n\tZero = 0\n\tOne  = 2\n)\n"})
	release("v1.2.0", map[string]string{"pkg/a/a.go": strings.ReplaceAll(upstreamFiles["pkg/a/a.go"], "// Four", "// 4")})
	f.base = ""

	f.refused([]string{"UPSTREAM=directory"}, "rebase", "--ref", "v1.0.1")
	f.refused([]string{"has no v7.0.0", "git fetch --tags"}, "rebase", "--ref", "v7.0.0", "--upstream", upstream)

	says := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(f.out.String(), text) {
				t.Errorf("The output lacks %q:\n%s", text, f.out.String())
			}
		}
	}
	f.must("rebase", "--ref", "v1.0.1", "--upstream", upstream)
	says("base is example.org/upstream v1.0.1, commit ", "putting the patches of base v1 onto it", "builds and passes the unit tests")
	tree := filepath.Join(f.project, "build/rebase/v1.0.1")
	if got := f.get(tree, "pkg/a/one.go"); got != "package a\n\nconst One = 2\n" {
		t.Errorf("The patched file is %q", got)
	}
	f.refused([]string{"exists: remove it"}, "rebase", "--ref", "v1.0.1", "--upstream", upstream)

	f.must("rebase", "--ref", "v1.1.0", "--upstream", upstream)
	says("upstream has a-mend-one.patch by now: its tests pass without it", "builds and passes the unit tests")

	out := filepath.Join(f.project, "..", "mine")
	f.refused([]string{"is not done", "1 parts are left"}, "rebase", "--ref", "v1.2.0", "--upstream", upstream, "--out", out)
	says("a-change-four.patch: hunk 1 of 1 of pkg/a/a.go: the lines around it are others now")
	if got := f.get(out, "pkg/a/new.go"); got == "" {
		t.Error("What applies is not in the tree")
	}

	got := f.snapshot()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s of the project changed", name)
		}
	}
}

func TestNearestBase(t *testing.T) {
	f, _ := newTwoBases(t)
	for version, want := range map[string]string{"v1.0.5": "v1", "v0.9.0": "v1", "v1.1.3": "v2", "v1.7.0": "v2"} {
		got, err := nearestBase(f.project, version)
		if err != nil {
			t.Fatal(err)
		}
		if got.name != want {
			t.Errorf("The base nearest to %s is %s, want %s", version, got.name, want)
		}
	}
}
