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

func TestShowDefects(t *testing.T) {
	// The log of what is tested stands around what the test says.
	const shows = "package a\n\nimport \"testing\"\n\nfunc TestDefectOne(t *testing.T) {\n\tlogSomething(t)\n\tif One != 2 {\n\t\tt.Errorf(\"One is too small:\\n%d\", One)\n\t}\n\tlogSomething(t)\n}\n"
	const logs = "package a\n\nimport \"testing\"\n\nfunc logSomething(t *testing.T) { t.Log(\"noise\") }\n"

	testCases := map[string]struct {
		files  map[string]string
		args   []string
		want   []string // in the output; of an error if it is one
		absent []string
		fails  bool
	}{
		"is there": {
			files:  map[string]string{"small/pkg/a/defect_one_test.go": shows, "small/pkg/a/log_test.go": logs},
			args:   []string{"--name", "small"},
			want:   []string{"--- FAIL: TestDefectOne", "One is too small:\n            1\n"},
			absent: []string{"noise"},
		},
		"each without the tests of the others": {
			files: map[string]string{
				"first/pkg/a/defect_one_test.go": shows, "first/pkg/a/log_test.go": logs,
				"second/pkg/a/defect_two_test.go": shows, "second/pkg/a/log_test.go": logs,
			},
			want: []string{"patchset: first\n", "defect_one_test.go", "patchset: second\n", "defect_two_test.go"},
		},
		"is gone": {
			files: map[string]string{"small/pkg/a/defect_one_test.go": strings.Replace(shows, "!= 2", "> 2", 1), "small/pkg/a/log_test.go": logs},
			want:  []string{"the defect small is gone"},
			fails: true,
		},
		"has no test": {
			files: map[string]string{"small/pkg/a/log_test.go": logs},
			want:  []string{"the defect small is gone, or its tests cannot see it"},
			fails: true,
		},
		"does not compile": {
			files: map[string]string{"small/pkg/a/defect_one_test.go": shows},
			want:  []string{"the tests of small do not compile on the base"},
			fails: true,
		},
		"there is none of this name": {
			files: map[string]string{"small/pkg/a/log_test.go": logs},
			args:  []string{"--name", "large"},
			want:  []string{`no defect "large"; it has: small`},
			fails: true,
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(f.base, "pkg/a/one.go", "package a\n\nconst One = 1\n")
			f.replaceInProject("bases/v1/base.yaml", "overlay:", "defects: defects\noverlay:")
			for file, content := range tc.files {
				f.put(f.project, "defects/"+file, content)
			}
			args := append([]string{"show-defects"}, tc.args...)
			if tc.fails {
				f.refused(tc.want, args...)
				return
			}
			f.must(args...)
			for _, want := range tc.want {
				if !strings.Contains(f.out.String(), want) {
					t.Errorf("The output lacks %q:\n%s", want, f.out.String())
				}
			}
			for _, absent := range tc.absent {
				if strings.Contains(f.out.String(), absent) {
					t.Errorf("The output has %q:\n%s", absent, f.out.String())
				}
			}
		})
	}
	newFixture(t).refused([]string{"names no folder of defects"}, "show-defects")
}
