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

// Command overlay writes changes for "go test -overlay": the mutants of the tree, the
// baseline, in which the patched files are as upstream has them with its fixes, or the
// faults of memapi, whose folder takes the place of the tree.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kueue-acrequeueafter/lab/simulation/memapi/faults"
	"kueue-acrequeueafter/lab/simulation/mutants"
)

func main() {
	verbs := map[string]func(source, dir string) error{
		"mutants":  func(source, dir string) error { return mutants.WriteOverlay(mutants.All, source, dir) },
		"faults":   func(source, dir string) error { return mutants.WriteOverlay(faults.All, source, dir) },
		"baseline": writeBaseline,
	}
	if len(os.Args) != 4 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: overlay mutants|baseline|faults TREE DIR")
		os.Exit(2)
	}
	if err := verbs[os.Args[1]](os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// writeBaseline writes the patched files as they are before the gate comes: upstream's, with
// the fixes, which are not behind it. The new fields of structs stay, since the new files do
// not compile without, and the gate.
func writeBaseline(tree, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// The tag is set by tools/patchset, which makes a commit of each patch.
	commits, err := git(tree, "log", "--reverse", "--format=%H", "-S", "ACRequeueAfter", "base..HEAD", "--", "pkg/features")
	if err != nil {
		return err
	}
	gate, _, found := strings.Cut(commits, "\n")
	if !found {
		return fmt.Errorf("no commit of %s has the gate: run make tree", tree)
	}
	base := gate + "^"
	files, err := git(tree, "diff", "--name-only", "--diff-filter=M", base, "HEAD", "--", "pkg", ":!pkg/features", ":!*_test.go")
	if err != nil {
		return err
	}
	replace := make(map[string]string)
	for _, file := range strings.Fields(files) {
		source, err := git(tree, "show", base+":"+file)
		if err != nil {
			return err
		}
		patched, err := git(tree, "show", "HEAD:"+file)
		if err != nil {
			return err
		}
		if source, err = withNewFields(source, patched); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		from, err := filepath.Abs(filepath.Join(tree, file))
		if err != nil {
			return err
		}
		to, err := filepath.Abs(filepath.Join(dir, strings.ReplaceAll(file, "/", "_")))
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(source), 0o644); err != nil {
			return err
		}
		replace[from] = to
	}
	data, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
}

// withNewFields returns a file of the base with the fields that its structs have in the
// patched one.
func withNewFields(base, patched string) (string, error) {
	known, err := fieldsOf(base)
	if err != nil {
		return "", err
	}
	now, err := fieldsOf(patched)
	if err != nil {
		return "", err
	}
	for name, fields := range now {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if _, found := known[name][field]; !found && known[name] != nil {
				head := "type " + name + " struct {\n"
				base = strings.Replace(base, head, head+"\t"+fields[field]+"\n", 1)
			}
		}
	}
	return base, nil
}

// fieldsOf returns the named fields of the structs of a file, as they are written.
func fieldsOf(source string) (map[string]map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string)
	for node := range ast.Preorder(file) {
		spec, isType := node.(*ast.TypeSpec)
		if !isType {
			continue
		}
		structure, isStruct := spec.Type.(*ast.StructType)
		if !isStruct {
			continue
		}
		fields := make(map[string]string)
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				fields[name.Name] = source[field.Pos()-1 : field.End()-1]
			}
		}
		all[spec.Name.Name] = fields
	}
	return all, nil
}

func git(tree string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = tree
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
