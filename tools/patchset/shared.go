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
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// shared is what a base's file says about the overlay that it has in common with
// another base: how it is rewritten, and what this base has differently.
type shared struct {
	Base     string               // whose overlay it is
	Own      string               // folder in the project of what only this base has, or has differently
	Imports  map[string]string    // import path -> the one instead
	Symbols  []movedSymbols       // what moved to another package
	Literals map[string]string    // string literal -> the one instead
	Files    map[string]movedFile // file or folder -> where it lies on this base
	Without  []without            // what this base does not have
	Beside   []besideTree         // what of the project uses the tree without being a part of it

	forth, back *rewriter
}

// movedSymbols are names of a package that are in another one, or are called
// otherwise.
type movedSymbols struct {
	From, To string // import paths
	As, Was  string // local names of the two, where an import is added; without, those of the packages
	Names    []string
	Renamed  map[string]string
}

// movedFile is where a file or a folder lies.
type movedFile struct {
	To      string
	Package string // of the Go code there, if it is not the name of the folder
	Was     string // the same for where it comes from
}

// UnmarshalYAML takes a path alone, too.
func (m *movedFile) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&m.To)
	}
	type plain movedFile
	return node.Decode((*plain)(m))
}

// without is a file or a folder that is left out, and why.
type without struct{ File, Reason string }

// matches tells whether a path is one that is named, or lies below it.
func matches(name, file string) bool { return name == file || strings.HasPrefix(file, name+"/") }

// check says what is wrong with the section, and makes it ready for use.
func (s *shared) check(module string) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if s.Base == "" || s.Own == "" {
		complain("base and own are needed")
	}
	forth := &rewriter{module: module, imports: s.Imports, literals: s.Literals, symbols: map[symbol]destination{}}
	back := &rewriter{module: module, imports: map[string]string{}, literals: map[string]string{}, symbols: map[symbol]destination{}}
	inverse := func(field string, m map[string]string, back map[string]string) {
		for _, from := range sortedKeys(m) {
			if other, ok := back[m[from]]; ok {
				complain("%s: %s and %s both become %s, which cannot be undone", field, other, from, m[from])
			}
			back[m[from]] = from
		}
	}
	inverse("imports", s.Imports, back.imports)
	inverse("literals", s.Literals, back.literals)
	for _, moved := range s.Symbols {
		names := maps.Clone(moved.Renamed)
		if names == nil {
			names = map[string]string{}
		}
		for _, name := range moved.Names {
			names[name] = name
		}
		if moved.From == "" || moved.To == "" || len(names) == 0 {
			complain("symbols: an entry without from, to or names: %+v", moved)
		}
		for name, becomes := range names {
			from, to := symbol{moved.From, name}, symbol{moved.To, becomes}
			if _, ok := forth.symbols[from]; ok {
				complain("symbols: %s is named twice", from)
			}
			if _, ok := back.symbols[to]; ok {
				complain("symbols: two become %s, which cannot be undone", to)
			}
			forth.symbols[from], back.symbols[to] = destination{to, moved.As}, destination{from, moved.Was}
		}
	}
	files := map[string]string{}
	for from, to := range s.Files {
		files[from] = to.To
	}
	inverse("files", files, map[string]string{})
	for _, w := range s.Without {
		if w.File == "" || w.Reason == "" {
			complain("without: no reason why %q is left out", w.File)
		}
	}
	for _, b := range s.Beside {
		problems = append(problems, b.check()...)
	}
	s.forth, s.back = forth, back
	return problems
}

// paths returns the paths that the section has.
func (s *shared) paths() []string {
	paths := []string{s.Own}
	for from, to := range s.Files {
		paths = append(paths, from, to.To)
	}
	for _, w := range s.Without {
		paths = append(paths, w.File)
	}
	for _, b := range s.Beside {
		paths = append(paths, b.paths()...)
	}
	slices.Sort(paths)
	return paths
}

// inTree returns where a shared file lies in the tree.
func (s *shared) inTree(name string) place {
	var longest string
	for from := range s.Files {
		if matches(from, name) && len(from) > len(longest) {
			longest = from
		}
	}
	to := s.Files[longest]
	return placed(name, longest, to.To, to.Package)
}

// inProject returns where the project has the shared file that would lie there in
// the tree. There need not be one.
func (s *shared) inProject(name string) place {
	var longest string
	for from, to := range s.Files {
		if matches(to.To, name) && len(to.To) > len(s.Files[longest].To) {
			longest = from
		}
	}
	return placed(name, s.Files[longest].To, longest, s.Files[longest].Was)
}

// placed returns where a file lies after a move, itself or of a folder above it.
func placed(name, from, to, pkg string) place {
	if from == "" {
		return place{path: name}
	}
	moved := to + strings.TrimPrefix(name, from)
	switch {
	case path.Dir(moved) == path.Dir(name):
		pkg = ""
	case pkg == "":
		pkg = path.Base(path.Dir(moved))
	}
	return place{path: moved, pkg: pkg}
}

// overlayFile is a file that the patches add to the tree.
type overlayFile struct {
	file         // as the tree has it
	place string // where the project keeps it
	kept  file   // as it is there
}

// overlayFrom returns the file of the tree with the given name, from the files of
// the project.
func (b *baseFile) overlayFrom(disk map[string]file, name string) (overlayFile, error) {
	if b.Shared == nil {
		f, ok := disk[name]
		if !ok {
			return overlayFile{}, errors.New("which does not exist")
		}
		return overlayFile{f, name, f}, nil
	}
	own := path.Join(b.Shared.Own, name)
	common, kept, found, err := b.Shared.from(disk, name)
	if f, ok := disk[own]; ok {
		if err == nil && found && common.equal(f) {
			return overlayFile{}, fmt.Errorf("and %s has nothing but what the shared %s gives: remove it", own, kept)
		}
		return overlayFile{f, own, f}, nil
	}
	if !found {
		return overlayFile{}, fmt.Errorf("and there is neither %s nor a shared %s", own, kept)
	}
	if err != nil {
		return overlayFile{}, fmt.Errorf("which cannot be made from the shared file: %w", err)
	}
	return overlayFile{common, kept, disk[kept]}, nil
}

// from returns what a shared file gives for the tree, and its own name.
func (s *shared) from(disk map[string]file, name string) (f file, kept string, found bool, err error) {
	kept = s.inProject(name).path
	to := s.inTree(kept)
	if f, found = disk[kept]; !found || to.path != name {
		return file{}, kept, false, nil
	}
	f.content, err = s.forth.rewrite(kept, to, f.content)
	return f, kept, true, err
}

// overlayOf returns how the project keeps a file of the tree: in the shared file
// if there is one, unless this base has one of its own, or is to have. It refuses
// what the rewriting cannot undo.
func (p project) overlayOf(disk map[string]file, name string, f file) (overlayFile, error) {
	s := p.base.Shared
	if s == nil {
		return overlayFile{f, name, f}, nil
	}
	own := path.Join(s.Own, name)
	common, kept, found, err := s.from(disk, name)
	if _, ok := disk[own]; ok || !found || slices.Contains(p.own, name) {
		return overlayFile{f, own, f}, nil
	}
	if err == nil && common.equal(f) {
		return overlayFile{f, kept, disk[kept]}, nil
	}
	seam := fmt.Sprintf("if it has to differ, let this base have it for itself (make export OWN=%s)", name)
	if err != nil {
		return overlayFile{}, fmt.Errorf("the shared file cannot be rewritten: %w; %s", err, seam)
	}
	undo := func(what string, f file) (file, error) {
		content, err := s.back.rewrite(name, s.inProject(name), f.content)
		if err != nil {
			return f, fmt.Errorf("the rewriting of %s cannot be undone: %w; %s", what, err, seam)
		}
		f.content = content
		return f, nil
	}
	before, err := undo("the shared "+kept, common)
	if err != nil {
		return overlayFile{}, err
	}
	if !before.equal(disk[kept]) {
		return overlayFile{}, fmt.Errorf("the rewriting of the shared %s cannot be undone: %s; change it there, for the other base, or, %s",
			kept, firstDifference(disk[kept].content, before.content), seam)
	}
	after, err := undo("the tree's file", f)
	if err != nil {
		return overlayFile{}, err
	}
	again, err := s.forth.rewrite(kept, s.inTree(kept), after.content)
	if err != nil {
		return overlayFile{}, fmt.Errorf("it cannot be shared: %w; %s", err, seam)
	}
	if string(again) != string(f.content) {
		return overlayFile{}, fmt.Errorf("as a shared file, rewritten for this base, it would be another one: %s; %s", firstDifference(f.content, again), seam)
	}
	return overlayFile{f, kept, after}, nil
}

// firstDifference tells where two texts differ first.
func firstDifference(want, got []byte) string {
	wanted, given := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i, line := range wanted {
		if i >= len(given) || given[i] != line {
			other := "nothing"
			if i < len(given) {
				other = fmt.Sprintf("%q", given[i])
			}
			return fmt.Sprintf("line %d is %q, and would be %s", i+1, line, other)
		}
	}
	if len(given) > len(wanted) {
		return fmt.Sprintf("it would go on after its end, with %q", given[len(wanted)])
	}
	return "it differs in whether it may be executed"
}

// checkShared looks for shared files that the base forgot, and for what its file
// says of files that are not shared.
func (l *loader) checkShared() {
	s := l.project.base.Shared
	if s == nil || len(l.set.patches) == 0 { // a base of which nothing is written yet
		return
	}
	var forgotten []string
	for _, name := range l.shared {
		to := s.inTree(name).path
		left := slices.IndexFunc(s.Without, func(w without) bool { return matches(w.File, name) })
		switch {
		case left < 0 && l.claims[to] == "":
			forgotten = append(forgotten, to)
		case left >= 0 && l.claims[to] != "":
			l.complain("%s leaves out %s, and %s claims it: take it out of shared.without", l.project.base.file, name, l.claims[to])
		}
	}
	if len(forgotten) > 0 {
		l.complain("base %s shares its overlay, and no patch of this base claims\n  %s\nName them in %q trailers, or leave them out, with the reason, in shared.without of %s",
			s.Base, firstOf(forgotten), trailerOverlay+":", l.project.base.file)
	}
	any := func(file string) bool {
		return slices.ContainsFunc(l.shared, func(name string) bool { return matches(file, name) })
	}
	for _, w := range s.Without {
		if !any(w.File) {
			l.complain("%s leaves out %s, which is no shared file: take it out of shared.without", l.project.base.file, w.File)
		}
	}
	for _, file := range sortedKeys(s.Files) {
		if !any(file) {
			l.complain("%s says where %s lies, which is no shared file: take it out of shared.files", l.project.base.file, file)
		}
	}
}

// verifyShared looks for what cannot be rewritten beside the tree, and for
// rewriting that no file needs.
func (p project) verifyShared(set patchSet) error {
	if p.base.Shared == nil || len(set.patches) == 0 {
		return nil
	}
	for _, b := range p.base.Shared.Beside {
		if _, err := b.code(p); err != nil {
			return err
		}
	}
	if unused := p.base.Shared.forth.unused(); len(unused) > 0 {
		return fmt.Errorf("no shared file needs these parts of \"shared\" in %s: take them out\n  %s", p.base.file, firstOf(unused))
	}
	return nil
}

// sharedFiles returns the names of the files that the base shares with another
// one: the overlay of that.
func (p project) sharedFiles() ([]string, error) {
	if p.base.Shared == nil {
		return nil, nil
	}
	other, err := openBase(p.dir, p.base.Shared.Base)
	if err != nil {
		return nil, fmt.Errorf("%s: shared.base: %w", p.base.file, err)
	}
	if other.Shared != nil {
		return nil, fmt.Errorf("%s: shared.base: %s itself takes its overlay from base %s: name that one", p.base.file, other.name, other.Shared.Base)
	}
	_, claims, err := p.listed(other)
	slices.Sort(claims)
	return claims, err
}

// sharing returns the names of the bases that take their overlay from this one,
// or that share one with it.
func (p project) sharing() ([]string, error) {
	names, err := baseNames(p.dir)
	if err != nil {
		return nil, err
	}
	owner := p.base.name
	if p.base.Shared != nil {
		owner = p.base.Shared.Base
	}
	var sharing []string
	for _, name := range names {
		if name == p.base.name {
			continue
		}
		other, err := openBase(p.dir, name)
		if err != nil {
			return nil, err
		}
		if name == owner || (other.Shared != nil && other.Shared.Base == owner) {
			sharing = append(sharing, name)
		}
	}
	return sharing, nil
}

// tellOthers names the bases whose trees are out of date after an export that
// changed shared files.
func (p project) tellOthers(written []string) error {
	sharing, err := p.sharing()
	if err != nil || len(sharing) == 0 {
		return err
	}
	written = slices.DeleteFunc(slices.Clone(written), func(name string) bool {
		return p.base.Shared != nil && (matches(p.base.Shared.Own, name)) || p.isOfSeries(name)
	})
	if len(written) == 0 {
		return nil
	}
	p.say("these files are shared: make the trees of the other bases anew (make tree BASE=%s), and prove all (make verify):\n  %s",
		strings.Join(sharing, ", "), firstOf(written))
	return nil
}

// isOfSeries tells whether a file lies next to a series of the base.
func (p project) isOfSeries(name string) bool {
	return slices.ContainsFunc(p.base.seriesFiles(), func(series string) bool { return path.Dir(name) == path.Dir(series) })
}

// readFile reads a file of the project.
func (p project) readFile(name string) (file, error) {
	full := filepath.Join(p.dir, filepath.FromSlash(name))
	info, err := os.Stat(full)
	if err != nil {
		return file{}, err
	}
	content, err := os.ReadFile(full)
	return file{content: content, executable: info.Mode()&0o100 != 0}, err
}
