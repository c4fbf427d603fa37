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

// fix returns the message of a fix of the base.
func fix(subject string) string {
	return subject + "\n\nIt is wrong.\n\nKind: bug\nUpstream-Status: Pending\nDrop-When: upstream has it\n"
}

func (f *fixture) withFixes() {
	f.t.Helper()
	f.replaceInProject("bases/v1/base.yaml", "series: patches/series", "fixes: patches/fixes/series\nseries: patches/series")
	f.must("tree")
}

const twoTest = "package a\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif One != 2 {\n\t\tt.Error(One)\n\t}\n}\n"

func TestFixes(t *testing.T) {
	f := newFixture(t)
	f.put(f.base, "pkg/a/one.go", "package a\n\nconst One = 1\n")
	f.withFixes()
	f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": twoTest})
	f.commitText(fix("b: Mend b"), map[string]string{
		"pkg/b/b.go":      "package b // mended\n\nconst B = 1\n",
		"pkg/b/b_test.go": "package b\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestMended(t *testing.T) {\n\tif text, _ := os.ReadFile(\"b.go\"); !strings.Contains(string(text), \"mended\") {\n\t\tt.Error(\"it is not\")\n\t}\n}\n",
	})
	f.commit("a: Build on it", map[string]string{"pkg/a/more.go": "package a\n\nconst Two = One\n"})
	f.must("export")
	f.must("verify")
	if got, want := f.get(f.project, "patches/fixes/series"), "a-mend-one.patch\nb-mend-b.patch\n"; got != want {
		t.Errorf("The fixes are %q, want %q", got, want)
	}
	if got, want := f.get(f.project, "patches/series"), "a-build-on-it.patch\n"; got != want {
		t.Errorf("The series is %q, want %q", got, want)
	}

	f.must("verify-fixes")
	for _, want := range []string{"without it fails: TestTwo\n", "without it fails: TestMended\n"} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("The output lacks %q:\n%s", want, f.out.String())
		}
	}
	f.refused([]string{`no fix "c"`, "a-mend-one, b-mend-b"}, "verify-fixes", "--fix", "c")

	out := filepath.Join(f.project, "..", "pr")
	f.must("pr", "--out", out, "--fix", "b-mend-b")
	series, _ := filepath.Glob(filepath.Join(out, "*.patch"))
	if len(series) != 1 {
		t.Fatalf("The series has %q, want one patch", series)
	}
	content, err := os.ReadFile(series[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "Kind: bug") || !strings.Contains(string(content), "+package b // mended") {
		t.Errorf("The patch is\n%s", content)
	}
	text := f.get(out, "pull-request-01.md")
	for _, want := range []string{"Title: b: Mend b\n", "\n/kind bug\n", "0001-b-Mend-b.patch", "```release-note\nIt is wrong.\n```", "- \"b: Mend b\": Pending.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("The text of the pull request lacks %q:\n%s", want, text)
		}
	}
}

func TestTextsOfPullRequests(t *testing.T) {
	f := newFixture(t)
	f.put(f.base, "pkg/a/one.go", "package a\n\nconst One = 1\n")
	f.replaceInProject("bases/v1/base.yaml", "series: patches/series", `pullRequests:
- {title: Say it first, kinds: [kep], patches: [b-.*]}
- {title: "The feature, as a whole", kinds: [feature, api-change], patches: [a-.*], notes: It stands on the words., releaseNote: There is more.}
- {title: Not there, kinds: [feature], patches: [c-.*]}
fixes: patches/fixes/series
series: patches/series`)
	f.must("tree")
	f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": twoTest})
	backport := strings.Replace(fix("b: Mend b"), "Pending", "Backport [pull 1]", 1)
	f.commitText(backport, map[string]string{"pkg/b/b.go": "package b // mended\n"})
	f.commit("a: Build", map[string]string{"pkg/a/more.go": "package a\n"})
	f.commit("a: Build more", map[string]string{"pkg/a/most.go": "package a\n"})
	f.commit("b: Write it down", map[string]string{"pkg/b/words.go": "package b\n"})
	f.must("export")
	out := filepath.Join(f.project, "..", "pr")
	f.put(out, "pull-request-09.md", "left from the last time")
	f.must("pr", "--out", out)

	texts, _ := filepath.Glob(filepath.Join(out, "*.md"))
	if len(texts) != 3 {
		t.Fatalf("The texts are %q, want 3", texts)
	}
	for name, parts := range map[string][]string{
		"pull-request-01.md": {"Title: a: Mend one\n", "0001-a-Mend-one.patch"},
		"pull-request-02.md": {"Title: Say it first\n", "/kind kep\n", "0005-b-Write-it-down.patch", "```release-note\nNONE\n```"},
		"pull-request-03.md": {
			"Title: The feature, as a whole\n", "/kind feature\n/kind api-change\n", "0003-a-Build.patch 0004-a-Build-more.patch",
			"**a: Build**\n\nWhy it is so.", "- It stands on the words.\n", "```release-note\nThere is more.\n```",
		},
	} {
		for _, want := range parts {
			if text := f.get(out, name); !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, text)
			}
		}
	}

	f.replaceInProject("bases/v1/base.yaml", "[b-.*]", "['(']")
	f.refused([]string{"pullRequests", "Say it first", "missing closing"}, "tree")
}

func TestFixesThatAreNone(t *testing.T) {
	testCases := map[string]struct {
		commits func(f *fixture)
		verb    string
		want    []string
	}{
		"after the feature": {
			commits: func(f *fixture) {
				f.commit("a: Build", map[string]string{"pkg/a/more.go": "package a\n"})
				f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": twoTest})
			},
			verb: "export",
			want: []string{`comes after "a: Build"`},
		},
		"of another kind": {
			commits: func(f *fixture) {
				f.commitText(strings.Replace(fix("a: Mend one"), "bug", "feature", 1), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n"})
			},
			verb: "export",
			want: []string{`"Kind: feature"`},
		},
		"needs one before it": {
			commits: func(f *fixture) {
				f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": twoTest})
				f.commitText(fix("a: Mend more"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 3\n"})
			},
			verb: "verify-fixes",
			want: []string{"a-mend-more.patch does not apply to the base without the fixes before it"},
		},
		"without a test": {
			commits: func(f *fixture) {
				f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n"})
			},
			verb: "verify-fixes",
			want: []string{"a-mend-one.patch has no test"},
		},
		"its test passes without it": {
			commits: func(f *fixture) {
				f.commitText(fix("a: Mend one"), map[string]string{"pkg/a/one.go": "package a\n\nconst One = 2\n", "pkg/a/one_test.go": strings.Replace(twoTest, "!= 2", "< 1", 1)})
			},
			verb: "verify-fixes",
			want: []string{"pass without it"},
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(f.base, "pkg/a/one.go", "package a\n\nconst One = 1\n")
			f.withFixes()
			tc.commits(f)
			if tc.verb != "export" {
				f.must("export")
			}
			f.refused(tc.want, tc.verb)
		})
	}
}
