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

const carriedMessage = "test: Try our own\n\nIt needs what we have.\n\nUpstream-Status: Inappropriate [it needs our examples]\nDrop-When: never\n"

func TestCarriedPatches(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.commitText(carriedMessage, map[string]string{"test/own/own_test.go": "package own\n", "pkg/b/b.go": "package b // ours\n"})
	f.must("export")
	f.put(f.project, "patches/carried/README.md", "about them\n")
	files := f.snapshot()
	if got := files["patches/series"]; got != "a-change-one.patch\na-change-four.patch\n" {
		t.Errorf("series is %q", got)
	}
	if got := files["patches/carried/series"]; got != "test-try-our-own.patch\n" {
		t.Errorf("the carried series is %q", got)
	}
	if got := files["patches/carried/test-try-our-own.patch"]; !strings.Contains(got, "+package b // ours\n") {
		t.Errorf("the carried patch is\n%s", got)
	}
	f.must("verify")
	f.must("tree")
	if got := f.git("log", "-1", "--format=%s"); got != "test: Try our own" {
		t.Errorf("the last commit is %q", got)
	}
	f.must("export")
	f.wantFiles(files)

	out := filepath.Join(f.project, "..", "pr")
	for _, tc := range []struct {
		args []string
		want int
	}{{nil, 2}, {[]string{"--carried"}, 3}} {
		f.must(append([]string{"pr", "--out", out}, tc.args...)...)
		if series, _ := filepath.Glob(filepath.Join(out, "*.patch")); len(series) != tc.want {
			t.Errorf("pr %q writes %q, want %d patches", tc.args, series, tc.want)
		}
	}

	// With another status it belongs to the others, and the carried series goes.
	f.git("commit", "--quiet", "--amend", "--message", strings.Replace(carriedMessage, "Inappropriate [it needs our examples]", "Pending", 1))
	f.must("export")
	f.must("verify")
	if got := f.get(f.project, "patches/series"); got != "a-change-one.patch\na-change-four.patch\ntest-try-our-own.patch\n" {
		t.Errorf("series is %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.project, "patches/carried/series")); err == nil {
		t.Error("the carried series is still there")
	}
}

func TestCarriedPatchInTheWrongSeries(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.replaceInProject("patches/a-change-four.patch", "Upstream-Status: Pending", "Upstream-Status: Inappropriate [ours]")
	f.refused([]string{"not what \"make export\" writes", "patches/carried/a-change-four.patch"}, "verify")
	f.must("tree")
	f.must("export")
	f.must("verify")
	f.put(f.project, "patches/carried/stray.patch", "")
	f.refused([]string{"patches/carried/stray.patch is not listed"}, "verify")
}

func TestNoPlaceForCarriedPatches(t *testing.T) {
	f := newFixture(t)
	f.replaceInProject("bases/v1/base.yaml", "carried: patches/carried/series", "")
	f.standard()
	f.commitText(carriedMessage, map[string]string{"test/own/own_test.go": "package own\n"})
	f.refused([]string{"names no series for such patches", "bases/v1/base.yaml"}, "export")
}
