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
	"os/exec"
	"path/filepath"
	"slices"
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
		"a process that hangs": {
			report: []byte("[]"),
			want:   result{Failures: []string{errNoControlPlane.Error()}}, err: errNoControlPlane,
		},
		"a manager that does not start": {
			report: report(spec("failed", "SynchronizedBeforeSuite", "", "no match for kind")),
			want:   result{Failures: []string{"Job  (SynchronizedBeforeSuite)"}},
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

// TestPlan: what was never run comes first, then the oldest trees, and last this one.
func TestCrashed(t *testing.T) {
	for out, want := range map[string]bool{
		"[FAIL] a spec\npanic: runtime error\n":             true,
		"  fatal error: concurrent map writes\n":            true,
		"Observed a panic: recovered\nSIGQUIT: quit\n":      false,
		"Ginkgo timed out waiting for all parallel procs\n": false,
	} {
		if got := crashed.MatchString(out); got != want {
			t.Errorf("%q: crashed %t, want %t", out, got, want)
		}
	}
}

func TestPlan(t *testing.T) {
	r := results{
		"a, gate off": {Commit: "newest", Tree: "this"},
		"a, gate on":  {Commit: "newest", Tree: "other"},
		"b, gate off": {Commit: "older", Tree: "other"},
		"c, gate off": {Commit: "oldest", Tree: "this"},
		"c, gate on":  {Commit: "oldest", Tree: "other"},
		"d, gate off": {Commit: "of another branch", Tree: "other"},
		"d, gate on":  {Tree: "this"},
	}
	suites := []suite{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	var got []string
	for _, j := range r.plan(suites, []string{"off", "on"}, "this", []string{"newest", "older", "oldest"}) {
		got = append(got, j.key())
	}
	want := []string{
		"b, gate on", "d, gate off", "c, gate on", "b, gate off", "a, gate on",
		"a, gate off", "c, gate off", "d, gate on",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRunAll(t *testing.T) {
	passed := result{Passed: 2, Tree: "this"}
	failure := result{Passed: 1, Failures: []string{"it waits (It)"}, Tree: "this"}
	old := result{Passed: 3, Tree: "older"}
	noControlPlane := result{Failures: []string{errNoControlPlane.Error()}, Tree: "this"}
	cases := map[string]struct {
		before results
		again  bool
		finds  result
		err    error

		tried, failed bool
		kept          results
	}{
		"never run":                {finds: passed, tried: true, kept: results{"a, gate on": passed}},
		"another tree":             {before: results{"a, gate on": old}, finds: passed, tried: true, kept: results{"a, gate on": passed}},
		"this tree":                {before: results{"a, gate on": passed}},
		"this tree, again":         {before: results{"a, gate on": passed}, again: true, finds: failure, tried: true, failed: true, kept: results{"a, gate on": failure}},
		"a failure is kept":        {before: results{"a, gate on": old}, finds: failure, tried: true, failed: true, kept: results{"a, gate on": failure}},
		"a failure with this tree": {before: results{"a, gate on": failure}, failed: true},
		"no control plane":         {before: results{"a, gate on": old}, finds: noControlPlane, tried: true, failed: true},
		"interrupted":              {before: results{"a, gate on": old}, finds: failure, err: errors.New("interrupted"), tried: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := results{}
			for key, r := range tc.before {
				before[key] = r
			}
			tried, kept := false, results(nil)
			failed, err := runAll([]job{{suite{name: "a"}, "on"}}, before, "this", tc.again, func(job) (result, error) {
				tried = true
				return tc.finds, tc.err
			}, func(key string, r result) error {
				kept = results{key: r}
				return nil
			})
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if tried != tc.tried || failed != tc.failed {
				t.Errorf("tried %t, want %t; failed %t, want %t", tried, tc.tried, failed, tc.failed)
			}
			if diff := cmp.Diff(tc.kept, kept); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestKeep: the file has a line for each result, in order, also for those that others
// have added since the run began.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record", "v1.json")
	for _, one := range []struct {
		key string
		r   result
	}{
		{"b, gate on", result{Passed: 1}},
		{"a, gate on", result{Passed: 5, LeftOut: 2, Skipped: 1, Seconds: 90, Date: "2026-11-23", Commit: "0123456789ab", Tree: "ba9876543210"}},
		{"b, gate on", result{Passed: 3, Failures: []string{"it waits (It)"}, Seconds: 7, Date: "2026-11-24", Commit: "0123456789ab", Tree: "ba9876543210"}},
	} {
		if _, err := keep(file, one.key, one.r); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
"a, gate on":{"passed":5,"leftOut":2,"skipped":1,"seconds":90,"date":"2026-11-23","commit":"0123456789ab","tree":"ba9876543210"},
"b, gate on":{"passed":3,"failures":["it waits (It)"],"seconds":7,"date":"2026-11-24","commit":"0123456789ab","tree":"ba9876543210"}
}
`
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Error(diff)
	}
}

// TestMadeOf: the commit is the last one of what the trees are made of, and there is
// none with changes to that.
func TestMadeOf(t *testing.T) {
	dir := t.TempDir()
	git := func(arguments ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, arguments...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	change := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(name, content string) string {
		t.Helper()
		change(name, content)
		git("add", ".")
		git("commit", "--quiet", "--message", name)
		return git("rev-parse", "HEAD")[:12]
	}
	check := func(want string, wantHistory ...string) {
		t.Helper()
		got, history, err := madeOf(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if got != want || !slices.Equal(history, wantHistory) {
			t.Errorf("commit %q, history %q, want %q, %q", got, history, want, wantHistory)
		}
	}
	git("init", "--quiet")
	first := commit("patches/a.patch", "1")
	second := commit("pkg/workload/a.go", "1")
	commit("docs/upstream-tests/v1.json", "{}")
	check(second, second, first)
	change("docs/upstream-tests/v1.json", "{ }")
	check(second, second, first)
	change("bases/v1/base.yaml", "skipWithGateOn:")
	check("", second, first)
}

// TestPage: the part of another base stays as it is.
func TestPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	b := base{Version: "v2", WithoutSuites: []withoutSuite{{Suite: "c", Reason: "it needs a cloud"}}}
	b.SkipWithGateOn.Specs = []skip{{Skip: "waits", Reason: "rule 3"}}
	r := results{
		"unit a, gate off": {Passed: 3, Commit: "1111", Date: "2026-11-22", Tree: "one"},
		"unit a, gate on":  {Passed: 2, Seconds: 60, Commit: "1111", Date: "2026-11-22", Tree: "one"},
		"unit b, gate off": {Passed: 3, Commit: "1111", Date: "2026-11-22", Tree: "one"},
		"unit b, gate on":  {Passed: 2, Commit: "2222", Date: "2026-11-23", Tree: "two"},
		"unit c, gate on":  {Passed: 2, Commit: "2222", Date: "2026-11-23", Tree: "two"},
		"b, gate off":      {Passed: 1, Failures: []string{"it runs (It)"}, Commit: "2222", Date: "2026-11-23"},
		"e, gate off":      {Passed: 2, Commit: "1111", Date: "2026-11-22", Tree: "one"},
		"e, gate on":       {Passed: 1, LeftOut: 1, Commit: "2222", Date: "2026-11-23", Tree: "two"},
		"gone, gate off":   {Failures: []string{"it is gone (It)"}},
	}
	if err := os.WriteFile(page, []byte("# Old\n\n## On v1\n\n| old |\n\n## On v2\n\n| older |\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(page, b, r, []string{"unit a", "unit b", "unit c", "b", "c", "d", "e"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.TrimPrefix(string(content), preface)
	want := `
## On v1

| old |

## On v2

Of 6 suites 4 have run with the gate off, 4 with it on.

| suite | gate off | gate on | left out with the gate on | minutes | tree of the commit, day |
|---|---|---|---|---|---|
| unit a | 3 passed | 2 passed | 1 | 1.0 | 1111, 2026-11-22 |
| unit b | 3 passed | 2 passed | | 0.0 | off: 1111, 2026-11-22; on: 2222, 2026-11-23 |
| unit c | not run | 2 passed | | 0.0 | 2222, 2026-11-23 |
| b | 1 passed, **1 failed** | not run | | 0.0 | 2222, 2026-11-23 |
| c | left out: it needs a cloud | | | | |
| d | not run | not run | | | |
| e | 2 passed | 1 passed | 1 | 0.0 | off: 1111, 2026-11-22; on: 2222, 2026-11-23 |

Failed:

- b, gate off: it runs (It)

Left out with the gate on, specs:

- ` + "`waits`" + `: rule 3
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
