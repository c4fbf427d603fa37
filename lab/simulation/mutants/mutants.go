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
	// Test finds it where schedules seldom come to it: a package of the tree, a space, and
	// the test.
	Test string
	// World has the schedules on which it is tried, if it is not the plain one.
	World string
	// MergePatch: it is one of the other way of writing.
	MergePatch bool
}

// helper is what the mutants call.
const helper = "package %s\n\nimport \"os\"\n\nfunc mutant(name string) bool { return os.Getenv(%q) == name }\n"

// WriteOverlay writes the files below source that the mutants change, and
// overlay.json for the -overlay flag of the go command, to dir.
func WriteOverlay(all []Mutant, source, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	changed, leftOut := make(map[string][]byte), ""
	for _, m := range all {
		content, found := changed[m.File]
		if !found {
			var err error
			if content, err = os.ReadFile(filepath.Join(source, m.File)); err != nil && HasAll {
				return err
			}
		}
		if n := bytes.Count(content, []byte(m.Old)); n == 0 && !HasAll {
			leftOut += m.Name + "\n"
			continue
		} else if n != 1 {
			return fmt.Errorf("mutant %s: found %d times in %s, should be once: %q; adapt the list of mutants", m.Name, n, m.File, m.Old)
		}
		if changed[m.File] == nil {
			_, clause, _ := bytes.Cut(content, []byte("\npackage "))
			name, _, _ := bytes.Cut(clause, []byte("\n"))
			changed[filepath.Join(filepath.Dir(m.File), "zz_mutant.go")] = fmt.Appendf(nil, helper, name, Variable)
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
	if err := os.WriteFile(filepath.Join(dir, "left-out"), []byte(leftOut), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
}
