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
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroup(t *testing.T) {
	got := group([]string{
		"example.com/kueue/test/integration/singlecluster/tas",
		"example.com/kueue/pkg/cache/queue",
		"example.com/kueue/pkg/cache/scheduler",
		"example.com/kueue/test/e2e/singlecluster",
		"example.com/kueue/test/util",
		"example.com/kueue/cmd/importer/pod",
	}, "example.com/kueue")
	want := []suite{
		{name: "unit cmd/importer", packages: []string{"./cmd/importer/pod"}},
		{name: "unit pkg/cache", packages: []string{"./pkg/cache/queue", "./pkg/cache/scheduler"}},
		{name: "singlecluster/tas", packages: []string{"./test/integration/singlecluster/tas"}, specs: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(suite{})); diff != "" {
		t.Error(diff)
	}
}

func TestReadEvents(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	got := readEvents([]byte(`{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"=== RUN A\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"fail","Package":"p","Test":"B/b"}
{"Action":"fail","Package":"p","Test":"B"}
{"Action":"fail","Package":"p"}
{"Action":"skip","Package":"q","Test":"C"}
{"Action":"pass","Package":"q"}
{"Action":"fail","Package":"r"}
`), log)
	want := result{Passed: 1, Skipped: 1, Failures: []string{"p B/b", "p B", "r"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadReport(t *testing.T) {
	spec := func(state, kind, text, message string) string {
		return `{"State":"` + state + `","LeafNodeType":"` + kind + `","ContainerHierarchyTexts":["Job"],"LeafNodeText":"` + text + `","Failure":{"Message":"` + message + `"}}`
	}
	report := func(specs ...string) []byte {
		return []byte(`[{"SuiteDescription":"Jobs","SuiteSucceeded":true,"SpecReports":[` + strings.Join(specs, ",") + `]}]`)
	}
	cases := map[string]struct {
		report []byte
		want   result
		err    error
	}{
		"all kinds": {
			report: report(spec("passed", "BeforeSuite", "", ""), spec("passed", "It", "a", ""), spec("skipped", "It", "left out", ""), spec("pending", "It", "b", ""), spec("failed", "It", "c", "no"), spec("timedout", "AfterSuite", "", "late")),
			want:   result{Passed: 1, LeftOut: 1, Skipped: 1, Failures: []string{"Job c (It)", "Job  (AfterSuite)"}},
		},
		"no control plane": {
			report: report(spec("failed", "SynchronizedBeforeSuite", "", "unable to start control plane itself")),
			want:   result{Failures: []string{errNoControlPlane.Error()}}, err: errNoControlPlane,
		},
		"no control plane of a spec's own": {
			report: report(spec("passed", "It", "a", ""), spec("failed", "It", "b", "unable to start control plane itself: timeout")),
			want:   result{Failures: []string{errNoControlPlane.Error()}}, err: errNoControlPlane,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := readReport(tc.report, "left out|gone")
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPage: the part of another base stays as it is.
func TestPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	b := base{Version: "v2", WithoutSuites: []withoutSuite{{Suite: "c", Reason: "it needs a cloud"}}}
	b.SkipWithGateOn.Specs = []skip{{Skip: "waits", Reason: "rule 3"}}
	r := results{
		"unit a, gate off": {Passed: 3, Date: "2026-11-22"}, "unit a, gate on": {Passed: 2, Seconds: 60, Date: "2026-11-23"},
		"b, gate off": {Passed: 1, Failures: []string{"it runs (It)"}},
	}
	if err := os.WriteFile(page, []byte("# Old\n\n## On v1\n\n| old |\n\n## On v2\n\n| older |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, b, r, []string{"unit a", "b", "c", "d"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(content), "writes this page.\n")
	want := `
## On v1

| old |

## On v2

| suite | gate off | gate on | left out with the gate on | minutes | day |
|---|---|---|---|---|---|
| unit a | 3 passed | 2 passed | 1 | 1.0 | 2026-11-23 |
| b | 1 passed, **1 failed** | not run | | 0.0 |  |
| c | left out: it needs a cloud | | | | |
| d | not run | not run | | | |

Failed:

- b, gate off: it runs (It)

Left out with the gate on, specs:

- ` + "`waits`" + `: rule 3
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
