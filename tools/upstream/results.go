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
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is that of a suite with the gate off or on.
type result struct {
	Passed   int      `json:"passed"`
	Failures []string `json:"failures,omitempty"`
	LeftOut  int      `json:"leftOut,omitempty"`
	Skipped  int      `json:"skipped,omitempty"`
	Seconds  int      `json:"seconds"`
	Date     string   `json:"date"`
	// Commit is the last one of the files that the tree was made of, Tree what git calls
	// its files: other commits may have the same.
	Commit string `json:"commit,omitempty"`
	Tree   string `json:"tree"`
}

// counts tells whether the tests were tried at all.
func (r result) counts() bool {
	return !slices.Contains(r.Failures, errNoControlPlane.Error())
}

func (r result) String() string {
	if !r.counts() {
		return errNoControlPlane.Error()
	}
	text := fmt.Sprintf("%d passed, %d failed", r.Passed, len(r.Failures))
	if r.LeftOut > 0 {
		text += fmt.Sprintf(", %d left out", r.LeftOut)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", r.Skipped)
	}
	return text + " (" + (time.Duration(r.Seconds) * time.Second).String() + ")"
}

// job is a suite with the gate off or on.
type job struct {
	suite suite
	gate  string
}

func (j job) key() string { return j.suite.name + ", gate " + j.gate }

// results are those of a base, by "SUITE, gate GATE".
type results map[string]result

func (r results) summary(j job, tree string) string {
	old, known := r[j.key()]
	switch {
	case !known:
		return "not run"
	case old.Tree == tree:
		return old.String() + ", as before"
	}
	return old.String() + ", with the tree of " + strings.TrimSpace(old.Commit+" "+old.Date)
}

// plan puts first what was never run, then what was run with the oldest tree, and last
// what has a result for this one. The newest commit is the first of history; one that
// is not there any more is older than all.
func (r results) plan(suites []suite, gates []string, tree string, history []string) []job {
	var jobs []job
	for _, s := range suites {
		for _, gate := range gates {
			jobs = append(jobs, job{s, gate})
		}
	}
	age := func(j job) int {
		old, known := r[j.key()]
		i := slices.Index(history, old.Commit)
		switch {
		case !known:
			return len(history) + 1
		case old.Tree == tree:
			return -1
		case i < 0:
			return len(history)
		}
		return i
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return age(b) - age(a) })
	return jobs
}

func readResults(file string) (results, error) {
	r := results{}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// keep adds a result to a file. Others may have been added meanwhile, so it is read anew.
func keep(file, key string, r result) (results, error) {
	all, err := readResults(file)
	if err != nil {
		return nil, err
	}
	all[key] = r
	// A line each: those of other machines are easy to merge.
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		line, err := json.Marshal(map[string]result{key: all[key]})
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(line[1:len(line)-1]))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return all, os.WriteFile(file, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o644)
}

// of returns the two results of a suite. The unit tests that are left out leave no
// trace: they are those that there are with the gate off alone.
func (r results) of(name string) (off, on *result) {
	if got, found := r[name+", gate off"]; found {
		off = &got
	}
	if got, found := r[name+", gate on"]; found {
		on = &got
	}
	if off != nil && on != nil && isUnit(name) {
		count := func(r *result) int { return r.Passed + r.Skipped + len(r.Failures) }
		on.LeftOut = max(0, count(off)-count(on))
	}
	return off, on
}

func isUnit(suite string) bool { return strings.HasPrefix(suite, "unit ") }

// share says how many suites have run.
func (r results) share(b base, names []string) string {
	all, ran := 0, map[string]int{}
	for _, name := range names {
		if b.without(name) != "" {
			continue
		}
		all++
		for _, gate := range []string{"off", "on"} {
			if _, found := r[name+", gate "+gate]; found {
				ran[gate]++
			}
		}
	}
	return fmt.Sprintf("Of %d suites %d have run with the gate off, %d with it on.", all, ran["off"], ran["on"])
}

// table has a row for each suite.
func (r results) table(b base, names []string) []byte {
	var text bytes.Buffer
	text.WriteString("| suite | gate off | gate on | left out with the gate on | minutes | tree of the commit, day |\n|---|---|---|---|---|---|\n")
	for _, name := range names {
		if reason := b.without(name); reason != "" {
			fmt.Fprintf(&text, "| %s | left out: %s | | | | |\n", name, reason)
			continue
		}
		off, on := r.of(name)
		seconds, leftOut, of := 0, "", map[string]string{}
		cell := func(r *result, gate string) string {
			if r == nil {
				return "not run"
			}
			seconds, of[gate] = seconds+r.Seconds, r.Commit+", "+r.Date
			if len(r.Failures) > 0 {
				return fmt.Sprintf("%d passed, **%d failed**", r.Passed, len(r.Failures))
			}
			return fmt.Sprintf("%d passed", r.Passed)
		}
		cells := cell(off, "off") + " | " + cell(on, "on")
		if len(of) == 0 {
			fmt.Fprintf(&text, "| %s | %s | | | |\n", name, cells)
			continue
		}
		// Of two trees the numbers of unit tests say nothing about each other.
		if on != nil && (!isUnit(name) || off != nil && off.Tree == on.Tree) {
			leftOut = fmt.Sprintf(" %d", on.LeftOut)
		}
		both := of["off"]
		if off == nil {
			both = of["on"]
		} else if on != nil && of["on"] != both {
			both = "off: " + both + "; on: " + of["on"]
		}
		fmt.Fprintf(&text, "| %s | %s |%s | %.1f | %s |\n", name, cells, leftOut, float64(seconds)/60, both)
	}
	return text.Bytes()
}

const preface = `# Upstream's own tests

Upstream's unit tests and envtest suites, on the patched trees, with the feature
gate ` + "`ACRequeueAfter`" + ` off and on. The specs and tests that the patches add are among
them. What expects what the KEP replaces is left out with the gate on, by name; the list
under each table has the reasons. With the gate off nothing is left out but what cannot run
here. The packages below ` + "`test/`" + ` that need a cluster, or measure, are no part of this.

` + "`make test-upstream`" + ` runs them, for hours, and adds each result here. A result is of the
tree of a commit of this repository. Results up to 2026-11-27 are of the core before it was
written anew.
`

// writePage writes the part of the base, and keeps those of others.
func writePage(page string, b base, r results, names []string) error {
	if len(r) == 0 {
		return errors.New("there are no results: run make test-upstream")
	}
	parts := map[string]string{}
	content, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, part := range strings.Split("\n"+string(content), "\n## ")[1:] {
		title, _, _ := strings.Cut(part, "\n")
		parts[title] = strings.TrimSpace(part)
	}
	title := "On " + b.Version
	parts[title] = strings.TrimSpace(title + "\n\n" + r.share(b, names) + "\n\n" + string(r.table(b, names)) + r.notes(b, names))
	text := preface
	for _, title := range slices.Sorted(maps.Keys(parts)) {
		text += "\n## " + parts[title] + "\n"
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// notes are what has failed, and what is left out and why.
func (r results) notes(b base, names []string) string {
	var text strings.Builder
	var failures []string
	for _, suite := range names {
		for _, key := range []string{suite + ", gate off", suite + ", gate on"} {
			for _, name := range r[key].Failures {
				failures = append(failures, fmt.Sprintf("- %s: %s\n", key, name))
			}
		}
	}
	if len(failures) > 0 {
		text.WriteString("\nFailed:\n\n" + strings.Join(failures, ""))
	}
	for _, list := range []struct {
		of    string
		skips []skip
	}{{"with the gate on, unit tests", b.SkipWithGateOn.Tests}, {"with the gate on, specs", b.SkipWithGateOn.Specs}, {"with the gate off and on, specs", b.WithoutSpecs}} {
		if len(list.skips) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\nLeft out %s:\n\n", list.of)
		for _, s := range list.skips {
			fmt.Fprintf(&text, "- `%s`: %s\n", s.Skip, strings.ReplaceAll(s.Reason, "\n", " "))
		}
	}
	return text.String()
}
