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
	"slices"
	"testing"
)

func TestBeside(t *testing.T) {
	_, f := newTwoBases(t)
	f.refused([]string{"base.yaml has no shared.beside"}, "beside")
	f.replaceInProject("bases/v2/base.yaml", "  imports: {", "  beside:\n  - {from: lab, folders: [lab/use], own: bases/v2/lab, to: build/lab-v2}\n  imports: {")
	f.put(f.project, "lab/go.mod", "module example.org/project/lab\n")
	f.put(f.project, "lab/other/other.go", "package other\n")
	f.put(f.project, "lab/use/README.md", "text\n")
	f.put(f.project, "lab/use/rule.go", ruleV1)
	f.put(f.project, "lab/use/seam.go", seamV1)
	f.put(f.project, "lab/use/testdata/last-failure", "")
	f.put(f.project, "bases/v2/lab/use/seam.go", seamV2)
	f.refused([]string{"bases/v2/lab has no go.mod"}, "beside")
	f.put(f.project, "bases/v2/lab/go.mod", "module example.org/project/lab\n\nreplace example.org/upstream => ../tree-v2\n")
	f.put(f.project, "build/lab-v2/use/gone.go", "package use\n")
	f.must("beside")
	want := map[string]string{
		"go.mod":        f.get(f.project, "bases/v2/lab/go.mod"),
		"use/README.md": "text\n",
		"use/rule.go":   ruleV2,
		"use/seam.go":   seamV2,
	}
	got := map[string]string{}
	if err := (project{dir: f.project}).walk("build/lab-v2", func(name string, file file) error {
		got[name[len("build/lab-v2/"):]] = string(file.content)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("it wrote %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	f.must("verify")

	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"what has a dot":      {"lab/use/more.go", "package use\n\nimport . \"example.org/upstream/pkg/a\"\n", []string{"lab/use/more.go", "imports example.org/upstream/pkg/a with a dot", "one of its own in bases/v2/lab"}},
		"what is no Go":       {"lab/use/more.go", "package\n", []string{"lab/use/more.go"}},
		"a seam without need": {"bases/v2/lab/use/rule.go", ruleV2, []string{"bases/v2/lab/use/rule.go has nothing but what the shared lab/use/rule.go gives"}},
	} {
		t.Run(name, func(t *testing.T) {
			f.put(f.project, tc.file, tc.content)
			f.refused(tc.want, "beside")
			f.refused(tc.want, "verify")
			if err := (project{dir: f.project}).replaceFolder("bases/v2/lab", map[string]file{
				"go.mod": {content: []byte(want["go.mod"])}, "use/seam.go": {content: []byte(seamV2)},
			}); err != nil {
				t.Fatal(err)
			}
			f.put(f.project, "lab/use/more.go", "package use\n")
			f.must("verify")
		})
	}
	f.replaceInProject("bases/v2/base.yaml", "folders: [lab/use]", "folders: [pkg/b]")
	f.refused([]string{"shared: beside: pkg/b does not lie in lab"}, "beside")
}
