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
	for _, one := range set.patches {
		if err := work.add(one); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return work.report()
}

// emptyTree returns the tree with nothing but the base in it.
func (p project) emptyTree(src source) (gitRepo, error) {
	if _, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(p.base.Series))); err == nil {
		return gitRepo{}, fmt.Errorf("%s exists: base %s has patches, and its port began already", p.base.Series, p.base.name)
	}
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

	hunks, applied, files int
	left                  []string
	touched               map[string]bool // folders of Go code
}

// nameOf returns where a file of the other base's tree lies in this one, and the
// name of the shared file that it may be.
func (w *porting) nameOf(name string) (here, shared string) {
	if _, ok := w.disk[path.Join(w.project.base.Shared.Own, name)]; ok {
		return name, name
	}
	shared = name
	if w.from.Shared != nil {
		shared = w.from.Shared.inProject(name).path
	}
	return w.project.base.Shared.inTree(shared).path, shared
}

// add makes a commit of what can be done of a patch.
func (w *porting) add(one patch) error {
	leave := func(format string, args ...any) {
		w.left = append(w.left, one.name+": "+fmt.Sprintf(format, args...))
	}
	for _, part := range one.files() {
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
		name, shared := w.nameOf(claimed)
		if slices.ContainsFunc(w.project.base.Shared.Without, func(left without) bool { return matches(left.File, shared) }) {
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
	changed, err := w.repo.dirty()
	if err != nil || len(changed) == 0 {
		return err
	}
	_, err = w.repo.run([]byte(one.msg.withOverlay(nil).String()), "commit", "--quiet", "--file", "-")
	return err
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

// report says what is left to do, what the compiler would say included.
func (w *porting) report() error {
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
		p.say("nothing is left: try it, and then \"make export\"")
		return nil
	}
	p.say("left to do in %s, and in shared of %s:", p.tree, p.base.file)
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
