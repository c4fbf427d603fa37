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

// Package mutants has the known mistakes of a delayed retry as changes of the
// code, to show that the simulation finds them.
package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Variable is the environment variable that names the mutant to switch on.
const Variable = "KUEUE_MUTANT"

// Mutant is a mistake: Old, which occurs once in the file, is replaced by New. New does
// as Old unless MUTANT, which stands for a condition, is true.
type Mutant struct {
	Name, File, Old, New string
	// Rules are those that it breaks, in the words of the judge. A violation of another
	// one would be an accident.
	Rules []string
	// Test finds it where no schedule comes to it: a package of the tree, a space, and
	// the test, or one case of it.
	Test string
	// Why no schedule comes to it, or none has to.
	Why string
	// MergePatch: it is one of the other way of writing.
	MergePatch bool
	// Policy: a check has a policy. Switched: the gate is switched in between. Cohort:
	// there are two ClusterQueues, and jobs are moved from one to the other.
	Policy, Switched, Cohort bool
	// Reach names the schedules of a world with one thing more.
	Reach string
}

func init() {
	for i, m := range All {
		if base, found := testsOfBase[m.Name]; found {
			All[i].Rules, All[i].Test, All[i].Why = nil, base.Test, base.Why
		}
	}
}

// Table lists the mutants of the page of this base, and what finds them, in Markdown.
func Table() string {
	table := "| Mutant | Changes | Found by | Why not by the simulation |\n|---|---|---|---|\n"
	for _, m := range inPage() {
		finder := "the simulation: " + strings.Join(m.Rules, "; ")
		if pkg, test, found := strings.Cut(m.Test, " "); found {
			finder = fmt.Sprintf("`%s` in `%s`", test, pkg)
		}
		table += fmt.Sprintf("| %s | `%s` | %s | %s |\n", m.Name, m.File, finder, m.Why)
	}
	return table
}

var ruleOfJudge = regexp.MustCompile(`(?:\.fail\(|Rule: )"([^"]+)"`)

// RulesOfJudge returns the rules, in the words of the judge, of the simulation in dir.
func RulesOfJudge(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var rules []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range ruleOfJudge.FindAllSubmatch(content, -1) {
			rules = append(rules, string(match[1]))
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules), nil
}

// helper is what the mutants call.
const helper = "package %s\n\nimport \"os\"\n\nfunc mutant(name string) bool { return os.Getenv(%q) == name }\n"

// WriteOverlay writes the files below source that the mutants change, and
// overlay.json for the -overlay flag of the go command, to dir.
func WriteOverlay(all []Mutant, source, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	changed := make(map[string][]byte)
	for _, m := range all {
		content, found := changed[m.File]
		if !found {
			var err error
			if content, err = os.ReadFile(filepath.Join(source, m.File)); err != nil {
				return err
			}
			_, clause, _ := bytes.Cut(content, []byte("\npackage "))
			name, _, _ := bytes.Cut(clause, []byte("\n"))
			changed[filepath.Join(filepath.Dir(m.File), "zz_mutant.go")] = fmt.Appendf(nil, helper, name, Variable)
		}
		if n := bytes.Count(content, []byte(m.Old)); n != 1 {
			return fmt.Errorf("mutant %s: found %d times in %s, should be once: %q; adapt the list of mutants", m.Name, n, m.File, m.Old)
		}
		mistake := strings.ReplaceAll(m.New, "MUTANT", fmt.Sprintf("mutant(%q)", m.Name))
		changed[m.File] = bytes.Replace(content, []byte(m.Old), []byte(mistake), 1)
	}
	replace := make(map[string]string)
	for file, content := range changed {
		absolute, err := filepath.Abs(filepath.Join(source, file))
		if err != nil {
			return err
		}
		target, err := filepath.Abs(filepath.Join(dir, strings.ReplaceAll(file, "/", "_")))
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
		replace[absolute] = target
	}
	data, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
}
