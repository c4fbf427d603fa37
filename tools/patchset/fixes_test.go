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
