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

package mutants

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the page anew")

// readers are the tables of what readers have found, or switched off, and how many lines
// each has.
var readers = map[string]int{
	"| What was found |":        11, // ten, one of which was two
	"| What was switched off |": 10, // twelve, two of which v0.14 alone has
}

var nameInPage = regexp.MustCompile("`([a-z-]+)`")

// TestRules wants mutants to break rules that there are: a rule that is renamed would find
// none of them any more.
func TestRules(t *testing.T) {
	rules, err := RulesOfJudge("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range All {
		for _, rule := range m.Rules {
			if !slices.Contains(rules, rule) {
				t.Errorf("mutant %s is to break a rule that the judge does not have: %s", m.Name, rule)
			}
		}
	}
}

// TestPage wants the page of the base to have its mutants, each with what finds it.
func TestPage(t *testing.T) {
	const page = "README.md"
	names := make(map[string]bool)
	for _, m := range All {
		if names[m.Name] || (len(m.Rules) == 0) == (m.Test == "") {
			t.Errorf("mutant %s is there twice, or has not either rules or a test", m.Name)
		}
		if (m.Why == "") != (m.Test == "") {
			t.Errorf("mutant %s: say why the simulation does not find it if a test does, and only then", m.Name)
		}
		names[m.Name] = true
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text, old, _ := strings.Cut(string(content), "| Mutant | Changes |")
	for heading, lines := range readers {
		_, rows, _ := strings.Cut(text, heading)
		rows, _, _ = strings.Cut(rows, "\n\n")
		for _, name := range nameInPage.FindAllStringSubmatch(rows, -1) {
			if !names[name[1]] {
				t.Errorf("%s tells of %s, which is no mutant", page, name[1])
			}
		}
		if pageIsWhole && strings.Count(rows, "\n| ") != lines {
			t.Errorf("%s does not have %d lines after %q", page, lines, heading)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text+Table()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Table(), "| Mutant | Changes |"+old); diff != "" {
		t.Errorf("%s is old: see there how it is written (-want,+got):\n%s", page, diff)
	}
}

// TestTestsOfBase: what a base finds in another way is one of the list, and is found so.
func TestTestsOfBase(t *testing.T) {
	for name, base := range testsOfBase {
		if !slices.ContainsFunc(All, func(m Mutant) bool { return m.Name == name && m.Test == base.Test }) {
			t.Errorf("No mutant %s is found by %s", name, base.Test)
		}
	}
}
