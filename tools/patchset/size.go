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
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// budget is how many lines of source a part of the patch set may have: without tests,
// generated code, licence headers and blank lines.
type budget struct {
	Name string
	// New are patterns of files that the patches add.
	New []string
	// Hunks are patterns of the names of patches, without ".patch", whose added and removed
	// lines in upstream's files are counted.
	Hunks []string
	// Without are patterns of files and patches that are counted elsewhere.
	Without []string
	// Each has a line of its own for each of the fixes, and the budget is that of each.
	Each bool
	// Seams counts what differs between this base and the one that shares its overlay.
	Seams bool
	// Lines and Files are the most that there may be, 0 for any number.
	Lines, Files int
}

// check says what is wrong with a budget in base.yaml.
func (b budget) check() error {
	if b.Name == "" {
		return errors.New("an entry has no name")
	}
	for _, pattern := range slices.Concat(b.New, b.Hunks, b.Without) {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return nil
}

// counted is what a budget counts.
type counted struct {
	name         string
	lines, files int
	budget       budget
}

// isOver tells whether there is more than the budget has.
func (c counted) isOver() bool {
	return c.budget.Lines > 0 && c.lines > c.budget.Lines || c.budget.Files > 0 && c.files > c.budget.Files
}

// size prints how many lines the parts of the patch sets have, and fails if one has more
// than its budget.
func (p project) size() error {
	bases := []string{}
	if p.base != nil {
		bases = append(bases, p.base.name)
	} else {
		all, err := baseNames(p.dir)
		if err != nil {
			return err
		}
		bases = all
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "base\tpart\tlines\tat most\tfiles\tat most")
	limit := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	var over []error
	for _, name := range bases {
		one := p
		var err error
		if one.base, err = openBase(p.dir, name); err != nil {
			return err
		}
		rows, err := one.countBudgets()
		if err != nil {
			return err
		}
		for _, row := range rows {
			mark := ""
			if row.isOver() {
				mark = "  OVER"
				over = append(over, fmt.Errorf("%s, %s: %d lines in %d files, at most %s lines and %s files are allowed (budgets of %s)",
					name, row.name, row.lines, row.files, orAny(row.budget.Lines), orAny(row.budget.Files), one.base.file))
			}
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%s%s\n", name, row.name, row.lines, limit(row.budget.Lines), row.files, limit(row.budget.Files), mark)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return errors.Join(over...)
}

func orAny(n int) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}

// countBudgets counts what the budgets of the base are about.
func (p project) countBudgets() ([]counted, error) {
	patches, err := p.readPatches()
	if err != nil {
		return nil, err
	}
	var rows []counted
	for _, b := range p.base.Budgets {
		row := counted{name: b.Name, budget: b}
		for _, one := range patches {
			if b.Each && one.msg.isFix() {
				each := counted{name: "  " + one.slug(), budget: budget{Lines: b.Lines}}
				each.lines, _ = p.base.hunkLines(one)
				rows = append(rows, each)
				row.files++
			}
			if !one.msg.isFix() && matchesAny(b.Hunks, one.slug()) && !matchesAny(b.Without, one.slug()) {
				lines, files := p.base.hunkLines(one)
				row.lines += lines
				row.files += files
			}
			for _, name := range one.msg.values(trailerOverlay) {
				if p.base.isSourceLine(name) && matchesAny(b.New, name) && !matchesAny(b.Without, name) {
					lines, err := p.sourceLines(name)
					if err != nil {
						return nil, err
					}
					row.lines += lines
					row.files++
				}
			}
		}
		if b.Each {
			row.budget.Lines = 0
		}
		if b.Seams {
			if row.lines, row.files, err = p.seamLines(); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readPatches reads the patches of all series of the base.
func (p project) readPatches() ([]patch, error) {
	var patches []patch
	for _, series := range p.base.seriesFiles() {
		f, err := p.readFile(series)
		if err != nil {
			continue // there is none
		}
		for _, name := range seriesNames(f.content) {
			f, err := p.readFile(path.Join(path.Dir(series), name))
			if err != nil {
				return nil, err
			}
			one, err := parsePatch(name, f.content)
			if err != nil {
				return nil, err
			}
			patches = append(patches, one)
		}
	}
	return patches, nil
}

// isSourceLine tells whether the lines of a file of the tree are counted.
func (b *baseFile) isSourceLine(name string) bool {
	return path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && !b.isSuite(name) && !b.isGenerated(name)
}

// hunkLines counts the lines that a patch adds to and removes from upstream's source.
func (b *baseFile) hunkLines(one patch) (lines, files int) {
	for _, f := range one.files() {
		if !b.isSourceLine(f.path) {
			continue
		}
		files++
		for _, hunk := range f.texts {
			for line := range strings.Lines(hunk) {
				if (line[0] == '+' || line[0] == '-') && strings.TrimSpace(line[1:]) != "" {
					lines++
				}
			}
		}
	}
	return lines, files
}

var licenceHeader = regexp.MustCompile(`^/\*(?s:.*?)\*/\n`)

// linesOf counts the lines of a Go file that are not blank, after its licence header.
func linesOf(content []byte) int {
	lines := 0
	for line := range bytes.Lines(licenceHeader.ReplaceAll(content, nil)) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	return lines
}

// sourceLines counts the lines of a file that the patches add, as the project keeps it.
func (p project) sourceLines(name string) (int, error) {
	if s := p.base.Shared; s != nil {
		if f, err := p.readFile(path.Join(s.Own, name)); err == nil {
			return linesOf(f.content), nil
		}
		name = s.inProject(name).path
	}
	f, err := p.readFile(name)
	return linesOf(f.content), err
}

// seamLines counts the files that this base has for itself, and those of the shared overlay
// that they stand for.
func (p project) seamLines() (lines, files int, err error) {
	s := p.base.Shared
	if s == nil {
		return 0, 0, fmt.Errorf("%s: a budget of seams is for a base that shares the overlay of another one", p.base.file)
	}
	disk, err := p.onDisk()
	if err != nil {
		return 0, 0, err
	}
	for _, name := range sortedKeys(disk) {
		inTree, own := strings.CutPrefix(name, s.Own+"/")
		if !own || !p.base.isSourceLine(inTree) {
			continue
		}
		files++
		lines += linesOf(disk[name].content)
		if other, found := disk[s.inProject(inTree).path]; found {
			lines += linesOf(other.content)
		}
	}
	return lines, files, nil
}

// matchesAny tells whether one of the patterns matches all of the name.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(name)
	})
}
