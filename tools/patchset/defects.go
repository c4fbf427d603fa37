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
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// showDefects shows defects of the base that no patch fixes, or the one with the given name.
// A defect is a folder with tests at upstream's paths, which fail on the plain base. It is an
// error if one of them passes: the defect is gone.
func (p project) showDefects(only string) error {
	if p.base.Defects == "" {
		return fmt.Errorf("%s names no folder of defects", p.base.file)
	}
	folder := filepath.Join(p.dir, filepath.FromSlash(p.base.Defects))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if only != "" && !slices.Contains(names, only) {
		return fmt.Errorf("%s has no defect %q; it has: %s", p.base.Defects, only, strings.Join(names, ", "))
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s, as it is", src.name)
	tree, err := os.MkdirTemp("", "patchset-defects-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	if err := os.CopyFS(tree, os.DirFS(src.dir)); err != nil {
		return err
	}
	var gone []error
	for _, name := range names {
		if only == "" || only == name {
			p.say("%s", name)
			gone = append(gone, p.showDefect(tree, filepath.Join(folder, name)))
		}
	}
	return errors.Join(gone...)
}

// showDefect runs the tests of one defect in a tree of the plain base, and prints what they say.
func (p project) showDefect(tree, folder string) error {
	tests, err := filesBelow(folder)
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, test := range tests {
		content, err := os.ReadFile(filepath.Join(folder, test))
		if err != nil {
			return err
		}
		target := filepath.Join(tree, test)
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return err
		}
		defer os.Remove(target) // the next defect's tests run without it
		dirs["./"+path.Dir(filepath.ToSlash(test))] = true
	}
	packages := sortedKeys(dirs)
	if err := command(tree, "go", append([]string{"vet"}, packages...)...); err != nil {
		return fmt.Errorf("the tests of %s do not compile on the base: %w", filepath.Base(folder), err)
	}
	err = command(tree, "go", append([]string{"test", "-count=1", "-run=^TestDefect"}, packages...)...)
	if err == nil {
		return fmt.Errorf("the defect %s is gone, or its tests cannot see it: they pass on the base", filepath.Base(folder))
	}
	said := failuresOf(err.Error())
	if said == "" {
		return fmt.Errorf("the tests of %s do not run on the base: %w", filepath.Base(folder), err)
	}
	fmt.Fprintln(p.out, said)
	return nil
}

// filesBelow returns the files below a folder, relative to it.
func filesBelow(folder string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(folder, func(full string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, full)
		files = append(files, name)
		return err
	})
	return files, err
}

var (
	startOfTestLine = regexp.MustCompile(`^\s*(\S+\.go:\d+: |--- |(FAIL|ok|PASS)\b)`)
	saidByDefect    = regexp.MustCompile(`^\s*(defect_\S+\.go:\d+: |--- FAIL: |panic: )`)
)

// failuresOf returns of the output of "go test" what the tests of a defect say, without the
// logs of what they test.
func failuresOf(output string) string {
	var said []string
	isSaid := false
	for line := range strings.Lines(output) {
		if saidByDefect.MatchString(line) {
			isSaid = true
		} else if startOfTestLine.MatchString(line) {
			isSaid = false
		}
		if isSaid {
			said = append(said, "    "+strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(said, "\n")
}
