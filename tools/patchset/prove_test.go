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
	"strings"
	"testing"
)

func TestVerifyCommits(t *testing.T) {
	good := func(f *fixture) {
		f.commit("c: Add", map[string]string{
			"pkg/c/c.go":      "package c\n\n// Two is two.\nfunc Two() int { return 2 }\n",
			"pkg/c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 {\n\t\tt.Error(Two())\n\t}\n}\n",
			// A suite is compiled, and not run: it needs a control plane.
			"test/c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc TestControlPlane(t *testing.T) { t.Error(\"there is none\") }\n",
		})
	}
	cases := map[string]struct {
		commits func(f *fixture)
		want    []string // what the error has, nil for none
		quick   bool     // whether the quick way finds it, too
	}{
		"good": {commits: good},
		"no Go code": {
			commits: func(f *fixture) { f.commit("docs: Write", map[string]string{"pkg/README.md": "text\n"}) },
		},
		"mended by a later commit": {
			commits: func(f *fixture) {
				f.commit("b: Use c", map[string]string{"pkg/b/b.go": "package b\n\nimport \"example.org/upstream/pkg/c\"\n\nvar _ = c.Two()\n"})
				good(f)
			},
			want:  []string{"b-use-c.patch", "pkg/c"},
			quick: true,
		},
		"in a package that depends on what is touched": {
			commits: func(f *fixture) {
				f.commit("b: Use a", map[string]string{"pkg/b/b.go": "package b\n\nimport _ \"example.org/upstream/pkg/a\"\n"})
				f.commit("c: Stand in the way", map[string]string{"pkg/a/c.go": "package a\n\nvar Two int = \"two\"\n"})
			},
			want:  []string{"c-stand-in-the-way.patch", "pkg/a/c.go"},
			quick: true,
		},
		"test that does not compile": {
			commits: func(f *fixture) {
				f.commit("c: Add", map[string]string{"pkg/c/c.go": "package c\n", "pkg/c/c_test.go": "package c\n\nvar _ = later\n"})
			},
			want:  []string{"c-add.patch", "pkg/c/c_test.go", "later"},
			quick: true,
		},
		"test that fails": {
			commits: func(f *fixture) {
				f.commit("c: Add", map[string]string{"pkg/c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) { t.Error(\"not two\") }\n"})
			},
			want: []string{"c-add.patch", "unit tests", "not two"},
		},
	}
	for name, tc := range cases {
		for _, quick := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", quick"}[quick], func(t *testing.T) {
				f := newFixture(t)
				f.must("tree")
				tc.commits(f)
				f.must("export")
				args := []string{"verify-commits"}
				if quick {
					args = append(args, "--quick")
				}
				if tc.want == nil || quick && !tc.quick {
					f.must(args...)
				} else {
					f.refused(tc.want, args...)
				}
			})
		}
	}
}

func TestVerifyCommitsPrintsSizes(t *testing.T) {
	f := newFixture(t)
	f.withAPI()
	f.commitText(carriedMessage, map[string]string{"test/own/own_test.go": "package own\n", "pkg/b/notes.md": "one\ntwo\n"})
	f.must("export")
	f.must("verify-commits", "--quick")
	for _, want := range []string{
		"1 of 4: a: Change one: 1 file, source +1 -1\n",
		"2 of 4: apis: Add a name: 3 files, source +4 -1, generated +1 -1\n",
		"4 of 4: test: Try our own: 2 files, tests +1 -0, other +2 -0\n",
	} {
		if !strings.Contains(f.out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, f.out.String())
		}
	}
}
