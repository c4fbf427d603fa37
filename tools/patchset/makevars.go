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
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// printBase prints what the Makefile needs to know about the base.
func (p project) printBase(format string) error {
	if format != "make" {
		return fmt.Errorf("there is no format %q: say --format=make", format)
	}
	b := p.base
	fmt.Fprintf(p.out, "# Written by \"patchset base\" from %s: change that file.\n", b.file)
	for _, v := range []struct{ name, assign, value string }{
		{"BASE_MODULE", ":=", b.Module},
		{"BASE_VERSION", ":=", b.Version},
		{"RELEASE", ":=", strconv.Itoa(b.Release)},
		{"BASE_PIN", ":=", b.Pin},
		{"BASE_API", ":=", b.API},
		{"KUBE_VERSION", ":=", b.Kubernetes.Version},
		{"TREE", "?=", b.Tree},
		{"BASE_SUFFIX", ":=", b.Suffix},
		{"BASE_BIN", ":=", path.Join("build/bin", strings.TrimPrefix(b.Suffix, "-"))},
		{"BASE_PR", ":=", b.prDir()},
		{"BASE_DIST", ":=", "build/dist" + b.Suffix},
		{"INTEGRATION_SUITES", ":=", strings.Join(b.IntegrationSuites, " ")},
		{"GATE_ON_SKIP", ":=", shellWord(joinSkips(b.SkipWithGateOn.Tests))},
		{"GATE_ON_GINKGO_SKIP", ":=", shellWord(joinSkips(slices.Concat(b.SkipWithGateOn.Specs, b.SpecsWithRaces)))},
		{"GINKGO_SKIP", ":=", shellWord(joinSkips(b.SpecsWithRaces))},
	} {
		if strings.HasPrefix(v.value, "'") {
			fmt.Fprintln(p.out, "# One word of the shell: use it without quotes.")
		}
		fmt.Fprintf(p.out, "%s %s %s\n", v.name, v.assign, makeText(v.value))
	}
	return nil
}

// prDir returns the folder for the series that upstream gets.
func (b *baseFile) prDir() string { return "build/pr" + b.Suffix }

// joinSkips returns one pattern for all tests that are left out.
func joinSkips(skips []skip) string {
	var patterns []string
	for _, s := range skips {
		patterns = append(patterns, s.Skip)
	}
	return strings.Join(patterns, "|")
}

// shellWord quotes a text so that a shell takes it for one word, as it is.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// makeText writes a text so that make takes it as it is in an assignment. A
// backslash is special to make only before a hash sign.
func makeText(text string) string {
	var out strings.Builder
	backslashes := 0
	for _, c := range text {
		switch c {
		case '$':
			out.WriteString("$$")
		case '#':
			out.WriteString(strings.Repeat(`\`, backslashes) + `\#`)
		default:
			out.WriteRune(c)
		}
		if backslashes++; c != '\\' {
			backslashes = 0
		}
	}
	if backslashes > 0 { // the last one would join the next line
		out.WriteString("$()")
	}
	return out.String()
}
