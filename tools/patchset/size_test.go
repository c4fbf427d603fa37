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

func TestSize(t *testing.T) {
	const header = "/*\nCopyright\n*/\n\n"
	testCases := map[string]struct {
		budgets string
		want    []string // lines of the table, with one blank for many
		refused []string
	}{
		"within": {
			budgets: "- {name: new, new: ['pkg/.*'], without: [pkg/c/other.go], lines: 3}\n- {name: hunks, hunks: ['.*'], lines: 4, files: 2}\n- {name: fixes, each: true, lines: 2, files: 1}\n",
			want:    []string{"v1 new 3 3 1", "v1 hunks 4 4 2 2", "v1 b-mend-b 2 2 0", "v1 fixes 0 1 1"},
		},
		"too many lines": {
			budgets: "- {name: new, new: ['pkg/.*'], lines: 5}\n",
			want:    []string{"v1 new 6 5 2 OVER"},
			refused: []string{"v1, new: 6 lines in 2 files, at most 5 lines"},
		},
		"a fix with too many": {
			budgets: "- {name: fixes, each: true, lines: 1}\n",
			want:    []string{"v1 b-mend-b 2 1 0 OVER"},
			refused: []string{"b-mend-b: 2 lines"},
		},
		"no pattern": {
			budgets: "- {name: new, new: ['(']}\n",
			refused: []string{"budgets: new: error parsing regexp"},
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.withFixes()
			f.commitText(fix("b: Mend b"), map[string]string{"pkg/b/b.go": "package b // mended\n"})
			f.commit("c: Add", map[string]string{
				"pkg/c/c.go":      header + "package c\n\n// One\n\nfunc one() {}\n",
				"pkg/c/other.go":  header + "package c\n\n// Two\n\nfunc two() {}\n",
				"pkg/c/c_test.go": "package c\n",
				"pkg/b/b.go":      "package b // used\n",
				"pkg/a/a.go":      strings.Replace(upstreamFiles["pkg/a/a.go"], "// Two\n", "// Second\n\n", 1),
			})
			f.must("export")
			f.replaceInProject("bases/v1/base.yaml", "suites: test", "budgets:\n"+tc.budgets+"suites: test")
			if tc.refused == nil {
				f.must("size")
			} else {
				f.refused(tc.refused, "size")
			}
			got := map[string]bool{}
			for line := range strings.SplitSeq(f.out.String(), "\n") {
				got[strings.Join(strings.Fields(line), " ")] = true
			}
			for _, line := range tc.want {
				if !got[line] {
					t.Errorf("The table lacks %q:\n%s", line, f.out.String())
				}
			}
		})
	}
}

func TestUpstreamPage(t *testing.T) {
	f := newFixture(t)
	f.standard()
	f.put(f.project, "docs/upstream.md", "# Page\n")
	f.refused([]string{"docs/upstream.md has no place for the table"}, "upstream-page")
	f.put(f.project, "docs/upstream.md", "# Page\n\n"+tableBegin+tableEnd+"\nThe end.\n")
	f.refused([]string{`run "make upstream-page"`}, "upstream-page", "--check")
	f.must("upstream-page")
	f.must("upstream-page", "--check")
	page := f.get(f.project, "docs/upstream.md")
	for _, want := range []string{"# Page\n", "| 1 | [a: Change one](../patches/a-change-one.patch) | Pending |", "\nThe end.\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("The page lacks %q:\n%s", want, page)
		}
	}
}
