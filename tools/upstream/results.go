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
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// result is that of a suite with the gate off or on.
type result struct {
	Passed, Skipped, LeftOut int
	Failures                 []string
	Seconds                  int
	// State is that of the tree, Date the day.
	State, Date string
}

// counts tells whether the tests were tried at all.
func (r result) counts() bool {
	return !slices.Contains(r.Failures, errNoControlPlane.Error())
}

func (r result) summary(known bool) string {
	switch {
	case !known:
		return "not run"
	case !r.counts():
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

// results are those of a base, by "SUITE, gate GATE".
type results map[string]result

func readResults(out string) (results, error) {
	r := results{}
	content, err := os.ReadFile(filepath.Join(out, "results.json"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(content, &r)
}

func (r results) write(out string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "results.json"), append(content, '\n'), 0o644)
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
	if off != nil && on != nil && strings.HasPrefix(name, "unit ") {
		count := func(r *result) int { return r.Passed + r.Skipped + len(r.Failures) }
		on.LeftOut = max(0, count(off)-count(on))
	}
	return off, on
}

func (r results) print(out io.Writer, b base, suites []suite) error {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	_, err := out.Write(r.table(b, names))
	return err
}

// table has a row for each suite.
func (r results) table(b base, names []string) []byte {
	var text bytes.Buffer
	text.WriteString("| suite | gate off | gate on | left out with the gate on | minutes | day |\n|---|---|---|---|---|---|\n")
	for _, name := range names {
		if reason := b.without(name); reason != "" {
			fmt.Fprintf(&text, "| %s | left out: %s | | | | |\n", name, reason)
			continue
		}
		off, on := r.of(name)
		seconds, day, leftOut := 0, "", ""
		if off == nil && on == nil {
			fmt.Fprintf(&text, "| %s | not run | not run | | | |\n", name)
			continue
		}
		cell := func(r *result) string {
			if r == nil || !r.counts() {
				return "not run"
			}
			seconds, day = seconds+r.Seconds, max(day, r.Date)
			if len(r.Failures) > 0 {
				return fmt.Sprintf("%d passed, **%d failed**", r.Passed, len(r.Failures))
			}
			return fmt.Sprintf("%d passed", r.Passed)
		}
		cells := cell(off) + " | " + cell(on)
		if on != nil {
			leftOut = fmt.Sprintf(" %d", on.LeftOut)
		}
		fmt.Fprintf(&text, "| %s | %s |%s | %.1f | %s |\n", name, cells, leftOut, float64(seconds)/60, day)
	}
	return text.Bytes()
}

const preface = `# Upstream's own tests

All of upstream's unit tests and envtest suites, on the patched trees, with the feature
gate ` + "`ACRequeueAfter`" + ` off and on. The specs and tests that the patches add are among
them. What expects what the KEP replaces is left out with the gate on, by name; the list
under each table has the reasons. With the gate off nothing is left out.

` + "`make test-upstream`" + ` runs them, for hours; ` + "`make upstream-report`" + ` writes this page.
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
	parts[title] = strings.TrimSpace(title + "\n\n" + string(r.table(b, names)) + r.notes(b))
	text := preface
	for _, title := range slices.Sorted(maps.Keys(parts)) {
		text += "\n## " + parts[title] + "\n"
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// notes are what has failed, and what is left out and why.
func (r results) notes(b base) string {
	var text strings.Builder
	var failures []string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		for _, name := range r[key].Failures {
			failures = append(failures, fmt.Sprintf("- %s: %s\n", key, name))
		}
	}
	if len(failures) > 0 {
		text.WriteString("\nFailed:\n\n" + strings.Join(failures, ""))
	}
	for _, list := range []struct {
		of    string
		skips []skip
	}{{"unit tests", b.SkipWithGateOn.Tests}, {"specs", b.SkipWithGateOn.Specs}} {
		if len(list.skips) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\nLeft out with the gate on, %s:\n\n", list.of)
		for _, s := range list.skips {
			fmt.Fprintf(&text, "- `%s`: %s\n", s.Skip, strings.ReplaceAll(s.Reason, "\n", " "))
		}
	}
	return text.String()
}
