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
	"cmp"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// port makes a tree for a base that has no patches yet, out of those of another
// one: a commit for each patch, with the hunks that apply and the overlay files as
// this base has them. Then it says what is left. Without a name it takes the base
// that shares its overlay.
func (p project) port(baseName string) error {
	if p.base.Shared == nil {
		return fmt.Errorf("%s does not say whose overlay it shares: there is nothing to port", p.base.file)
	}
	if _, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(p.base.Series))); err == nil {
		return fmt.Errorf("%s exists: base %s has patches, and its port began already", p.base.Series, p.base.name)
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	from := p
	if from.base, err = openBase(p.dir, cmp.Or(baseName, p.base.Shared.Base)); err != nil {
		return err
	}
	p.say("base is %s; porting the patches of base %s", src.name, from.base.name)
	set, err := from.load(source{})
	if err != nil {
		return fmt.Errorf("base %s: %w", from.base.name, err)
	}
	r, err := p.emptyTree(src)
	if err != nil {
		return err
	}
	disk, err := p.onDisk()
	if err != nil {
		return err
	}
	work := porting{project: p, from: from.base, repo: r, source: src, disk: disk}
	if err := work.addAll(set.patches); err != nil {
		return err
	}
	return work.report(fmt.Sprintf("left to do in %s, and in shared of %s", p.tree, p.base.file), `try it, and then "make export"`)
}

// emptyTree returns the tree with nothing but the base in it.
func (p project) emptyTree(src source) (gitRepo, error) {
	if entries, err := os.ReadDir(p.tree); err == nil && len(entries) > 0 {
		return gitRepo{}, fmt.Errorf("%s exists: remove it, or name another tree (TREE=...)", p.tree)
	}
	r, err := initRepo(p.tree)
	if err != nil {
		return r, err
	}
	baseCommit, err := commitBase(r, src)
	if err != nil {
		return r, err
	}
	if _, err := r.run(nil, "tag", "base", baseCommit); err != nil {
		return r, err
	}
	_, err = r.run(nil, "reset", "--quiet", "--hard", baseCommit)
	return r, err
}

// porting is a port with what it could not do.
type porting struct {
	project project
	from    *baseFile
	repo    gitRepo
	source  source
	disk    map[string]file // the project's

	onlyTests bool // of the patches

	hunks, applied, files int
	left                  []string
	touched               map[string]bool // folders of Go code
}

// nameOf returns where a file of the other base's tree lies in this one, and the
// name of the shared file that it may be.
func (w *porting) nameOf(name string) (here, shared string) {
	if w.project.base.Shared == nil {
		return name, name
	}
	if _, ok := w.disk[path.Join(w.project.base.Shared.Own, name)]; ok {
		return name, name
	}
	shared = name
	if w.from.Shared != nil {
		shared = w.from.Shared.inProject(name).path
	}
	return w.project.base.Shared.inTree(shared).path, shared
}

// addAll makes a commit of what can be done of each patch. A fix that upstream has by now, as
// its tests say, falls away.
func (w *porting) addAll(patches []patch) error {
	for _, one := range patches {
		there := false
		var err error
		if one.msg.isFix() {
			there, err = w.isThere(one)
		}
		switch {
		case err != nil:
		case there:
			w.project.say("upstream has %s by now: its tests pass without it", one.name)
		default:
			err = w.add(one)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// isThere tells whether the tests of a fix pass without it. One whose tests do not apply or do
// not compile is none that is there.
func (w *porting) isThere(fix patch) (bool, error) {
	tests := porting{project: w.project, from: w.from, repo: w.repo, source: w.source, disk: w.disk, onlyTests: true}
	if err := tests.put(fix); err != nil {
		return false, err
	}
	there := len(tests.left) == 0 && len(tests.touched) > 0
	if there {
		w.project.say("running the tests of %s without it", fix.name)
		there = command(w.repo.dir, "go", append([]string{"test"}, sortedKeys(tests.touched)...)...) == nil
	}
	_, err := w.repo.run(nil, "reset", "--quiet", "--hard", "HEAD")
	return there, err
}

func (w *porting) add(one patch) error {
	if err := w.put(one); err != nil {
		return err
	}
	if w.project.base.needsGenerated(one) {
		w.project.say("generating code for %s", one.name)
		if err := w.project.addGenerated(w.repo, w.source); err != nil {
			w.left = append(w.left, fmt.Sprintf("%s: the generated code: %v", one.name, err))
		} else if _, err := w.repo.run(nil, "checkout-index", "--all", "--force"); err != nil {
			return err
		}
	}
	changed, err := w.repo.dirty()
	if err != nil || len(changed) == 0 {
		return err
	}
	_, err = w.repo.run([]byte(one.msg.withOverlay(nil).String()), "commit", "--quiet", "--file", "-")
	return err
}

// put brings what can be done of a patch into the tree, and adds it to the index.
func (w *porting) put(one patch) error {
	leave := func(format string, args ...any) {
		w.left = append(w.left, one.name+": "+fmt.Sprintf(format, args...))
	}
	for _, part := range one.files() {
		if w.onlyTests && !strings.HasSuffix(part.path, "_test.go") {
			continue
		}
		w.hunks += len(part.hunks)
		name, _ := w.nameOf(part.path)
		if !w.source.has(name) {
			leave("%s does not exist any more (%d hunks)", name, len(part.hunks))
			continue
		}
		header := strings.NewReplacer("a/"+part.path, "a/"+name, "b/"+part.path, "b/"+name).Replace(part.header)
		for i, hunk := range part.texts {
			diff := []byte(header + hunk)
			if _, err := w.repo.run(diff, "apply", "--index", "--whitespace=nowarn", "-"); err == nil {
				w.applied++
				w.touch(name)
				continue
			}
			why := "the lines around it are others now"
			if _, err := w.repo.run(diff, "apply", "--check", "--reverse", "-"); err == nil {
				why = "it is there already"
			}
			leave("hunk %d of %d of %s: %s\n%s", i+1, len(part.hunks), name, why, indented(hunk))
		}
	}
	for _, claimed := range one.msg.values(trailerOverlay) {
		if w.onlyTests && !strings.HasSuffix(claimed, "_test.go") {
			continue
		}
		name, shared := w.nameOf(claimed)
		if here := w.project.base.Shared; here != nil && slices.ContainsFunc(here.Without, func(left without) bool { return matches(left.File, shared) }) {
			continue
		}
		f, err := w.project.base.overlayFrom(w.disk, name)
		switch {
		case err != nil:
			leave("%s: %v", name, err)
			continue
		case w.source.has(name):
			leave("%s exists in %s", name, w.source.name)
			continue
		}
		full := filepath.Join(w.repo.dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, f.content, f.mode())); err != nil {
			return err
		}
		w.files++
		w.touch(name)
		if _, err := w.repo.run(nil, "--literal-pathspecs", "add", "--force", "--", name); err != nil {
			return err
		}
	}
	return nil
}

func (w *porting) touch(name string) {
	if filepath.Ext(name) != ".go" {
		return
	}
	if w.touched == nil {
		w.touched = map[string]bool{}
	}
	w.touched["./"+filepath.ToSlash(filepath.Dir(name))] = true
}

// report says what is left to do, what the compiler would say included, or what comes next.
func (w *porting) report(leftToDo, next string) error {
	p := w.project
	p.say("%s: %d of %d hunks applied, %d overlay files", p.tree, w.applied, w.hunks, w.files)
	if len(w.touched) > 0 {
		p.say("checking the types of the touched packages")
		wrong, err := typeErrors(p.tree, sortedKeys(w.touched)...)
		if err != nil {
			return err
		}
		w.left = append(w.left, wrong...)
	}
	if len(w.left) == 0 {
		p.say("nothing is left: %s", next)
		return nil
	}
	p.say("%s:", leftToDo)
	for _, what := range w.left {
		fmt.Fprintf(p.out, "  %s\n", what)
	}
	elsewhere, err := p.elsewhere(w.left)
	if err == nil && len(elsewhere) > 0 {
		p.say("of the names that are undefined there, these are declared elsewhere; \"symbols\" or \"imports\" of %s can lead there:", p.base.file)
		for _, name := range sortedKeys(elsewhere) {
			fmt.Fprintf(p.out, "  %s: %s\n", name, strings.Join(elsewhere[name], ", "))
		}
	}
	return err
}

var undefined = regexp.MustCompile(`undefined: (?:\w+\.)?(\w+)$`)

// elsewhere returns the packages of the tree that declare what is undefined.
func (p project) elsewhere(wrong []string) (map[string][]string, error) {
	wanted := map[string]bool{}
	for _, text := range wrong {
		if match := undefined.FindStringSubmatch(text); match != nil {
			wanted[match[1]] = true
		}
	}
	found := map[string][]string{}
	err := filepath.WalkDir(p.tree, func(full string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(full) != ".go" || strings.HasSuffix(full, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), full, nil, 0)
		if err != nil {
			return nil // not for the compiler, such as a template
		}
		dir, err := filepath.Rel(p.tree, filepath.Dir(full))
		for name := range file.Scope.Objects {
			if pkg := p.base.Module + "/" + filepath.ToSlash(dir); wanted[name] && !slices.Contains(found[name], pkg) {
				found[name] = append(found[name], pkg)
			}
		}
		return err
	})
	return found, err
}

// indented puts a hunk below a line of a list.
func indented(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n      ")
}
