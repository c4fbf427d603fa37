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
	"slices"
	"strings"
	"testing"
)

// These tests use the real bases and generators: they show that the tool makes
// what upstream's own targets make.
func realTree(t *testing.T, base string) (project, source, gitRepo) {
	t.Helper()
	p := project{dir: filepath.Join("..", ".."), out: t.Output()}
	if err := p.open(base); err != nil {
		t.Fatal(err)
	}
	if p.base.Commit != "" {
		t.Skip("needs upstream's git")
	}
	src, err := p.source()
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := p.scratch(src, patchSet{base: p.base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(r.dir) })
	return p, src, r
}

// regenerate runs the generators and returns the files that differ from the commit.
func regenerate(t *testing.T, p project, src source, r gitRepo) []string {
	t.Helper()
	if err := p.runGenerators(r.dir, src); err != nil {
		t.Fatal(err)
	}
	changed, err := r.dirty()
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestGenerateOnThePristineBase(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every generator on every base; make verify runs them on the patched trees")
	}
	names, err := baseNames(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { testGenerateOnThePristineBase(t, name) })
	}
}

func testGenerateOnThePristineBase(t *testing.T, base string) {
	p, src, r := realTree(t, base)
	// Away with all of it: what comes back is made, not left over.
	made := []string{"apis/*/*/zz_generated.deepcopy.go"}
	if charts := p.base.Generated.ChartCRDs; charts != nil {
		made = append(made, charts.From+"/*_*.yaml", charts.To+"/*_*.yaml")
	}
	for _, command := range p.base.Generated.Commands {
		if command.Replaces != "" {
			if err := removeGenerated(filepath.Join(r.dir, command.Replaces), command.Run[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pattern := range made {
		files, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, name := range files {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed := regenerate(t, p, src, r); len(changed) > 0 {
		t.Errorf("generated code differs from upstream's:\n%s", strings.Join(changed, "\n"))
	}
}

// A field in the one version that v0.14 has: no conversion needs to know it.
func TestGenerateForANewField(t *testing.T) {
	p, src, r := realTree(t, "v0.14")
	api := strings.TrimPrefix(p.base.API, p.base.Module+"/")
	types := api + "/workload_types.go"
	content, err := os.ReadFile(filepath.Join(r.dir, types))
	if err != nil {
		t.Fatal(err)
	}
	const anchor = "type AdmissionCheckState struct {\n"
	text := strings.Replace(string(content), anchor, anchor+
		"\t// tries is a field with a description that is long enough to be folded by the writer of the CRD, and a \"quote: colon\".\n\t// +optional\n\tTries *int32 `json:\"tries,omitempty\"`\n\n", 1)
	if err := os.WriteFile(filepath.Join(r.dir, types), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	charts := p.base.Generated.ChartCRDs
	crd := "kueue.x-k8s.io_workloads.yaml"
	want := []string{types, api + "/zz_generated.deepcopy.go", charts.From + "/" + crd, charts.To + "/" + crd}
	for _, command := range p.base.Generated.Commands {
		if command.Replaces != "" {
			want = append(want, command.Replaces+strings.TrimPrefix(api, "apis")+"/admissioncheckstate.go")
		}
	}
	slices.Sort(want)
	for range 2 {
		changed := regenerate(t, p, src, r)
		slices.Sort(changed)
		if !slices.Equal(changed, want) {
			t.Fatalf("changed files are\n%s\nwant\n%s", strings.Join(changed, "\n"), strings.Join(want, "\n"))
		}
	}
	chart, err := r.text("diff", "--unified=0", "--", charts.To+"/"+crd)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(chart, "\n+                      tries:\n+                        description: ") || strings.Contains(chart, "\n-  ") {
		t.Errorf("the chart's CRD changed otherwise than by the field:\n%s", chart)
	}
}

// A marker in both versions of the API changes the CRD, with both versions in it,
// and no Go code: conversions and clients stay.
func TestGenerateForAMarker(t *testing.T) {
	p, src, r := realTree(t, defaultBase)
	charts := p.base.Generated.ChartCRDs
	crd := "kueue.x-k8s.io_workloads.yaml"
	want := []string{charts.From + "/" + crd, charts.To + "/" + crd}
	for _, version := range []string{"v1beta1", "v1beta2"} {
		types := "apis/kueue/" + version + "/workload_types.go"
		want = append(want, types)
		for _, field := range []string{"RequeueAfterSeconds", "RetryCount"} {
			replaceIn(t, filepath.Join(r.dir, types), "\t"+field+" *int32", "\t// +kubebuilder:validation:Maximum=2147483647\n\t"+field+" *int32")
		}
	}
	slices.Sort(want)
	changed := regenerate(t, p, src, r)
	slices.Sort(changed)
	if !slices.Equal(changed, want) {
		t.Errorf("changed files are\n%s\nwant\n%s", strings.Join(changed, "\n"), strings.Join(want, "\n"))
	}
	for _, folder := range []string{charts.From, charts.To} {
		diff, err := r.text("diff", "--unified=0", "--", folder+"/"+crd)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(diff, "  maximum: 2147483647"); got != 4 || strings.Contains(diff, "\n-  ") {
			t.Errorf("%s has %d maxima, want 4 and no other change:\n%s", folder, got, diff)
		}
	}
}
