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
	"slices"
	"strings"
)

// scratch applies the patch set in a directory of its own, which the caller
// removes. The first of the commits is the base.
func (p project) scratch(src source, set patchSet) (r gitRepo, commits []string, err error) {
	dir, err := os.MkdirTemp("", "patchset-tree-")
	if err != nil {
		return r, nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if r, err = initRepo(dir); err != nil {
		return r, nil, err
	}
	baseCommit, err := commitBase(r, src)
	if err != nil {
		return r, nil, err
	}
	patches, err := p.buildCommits(r, src, baseCommit, set)
	if err != nil {
		return r, nil, err
	}
	commits = append([]string{baseCommit}, patches...)
	_, err = r.run(nil, "reset", "--quiet", "--hard", commits[len(commits)-1])
	return r, commits, err
}

// verifyAll proves all bases, one after the other.
func (p project) verifyAll() error {
	if p.tree != "" {
		return errors.New("--tree names the tree of one base: say which (--base)")
	}
	names, err := baseNames(p.dir)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no bases", p.dir)
	}
	var wrong []error
	for _, name := range names {
		fmt.Fprintf(p.out, "==> base %s\n", name)
		one := p
		if one.sourceDir != "" {
			one.sourceDir = filepath.Join(one.sourceDir, name)
		}
		err := one.open(name)
		switch {
		case err != nil:
		case one.base.Commit != "" && one.upstream == "" && one.sourceDir == "":
			p.say("LEFT OUT: base %s, which is a commit of upstream (UPSTREAM=directory)", name)
		default:
			err = one.verify()
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("base %s:\n%w", name, err))
		}
	}
	return errors.Join(wrong...)
}

// verify applies the patch set in a directory of its own, generated code
// included, exports it again and compares. Then it generates code anew there, and
// compares with the tree that "make tree" made.
func (p project) verify() error {
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s; checking versions, %s, the patches and the overlay", src.name, p.base.Series)
	set, err := p.load(src)
	if err := errors.Join(p.verifyKubernetes(src), err); err != nil {
		return err
	}
	if err := p.verifyShared(set); err != nil {
		return err
	}
	r, commits, err := p.scratch(src, set)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	p.say("applied %d patches; exporting them again and comparing", len(set.patches))
	again, err := p.collect(r, commits[0])
	if err != nil && !(errors.Is(err, errNothingToExport) && len(set.patches) == 0) {
		return fmt.Errorf("the patches cannot be exported again:\n%w", err)
	}
	disk, err := p.ours(again.files())
	if err != nil {
		return err
	}
	if stale := differences(disk, again.files()); len(stale) > 0 && len(disk) > 0 {
		return fmt.Errorf("these files are not what \"make export\" writes:\n  %s\nRun \"make tree\" and \"make export\"", firstOf(stale))
	}
	if err := p.verifyGenerated(r, src); err != nil {
		return err
	}
	if err := p.verifyTree(r, commits, set); err != nil {
		return err
	}
	p.say("all is well: %d patches, %d overlay files", len(set.patches), len(set.overlay))
	return nil
}

// verifyGenerated checks that the generators, run on the last commit, change
// nothing: a second run gives the same files, and no patch changes the API beside
// those that have the generated code.
func (p project) verifyGenerated(r gitRepo, src source) error {
	if p.base.Generated == nil {
		return nil
	}
	p.say("generating code again and comparing")
	if err := p.runGenerators(r.dir, src); err != nil {
		return err
	}
	changed, err := r.dirty()
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("generating code on all patches gives other files than in the commits that change the API:\n  %s\n"+
			"Either the generators give other files the second time, or a patch changes what they read outside of generated.sources in %s", firstOf(changed), p.base.file)
	}
	return err
}

// verifyTree compares the tree with the commits made anew, if it is as "make
// tree" left it, and that was from the files that are here.
func (p project) verifyTree(r gitRepo, commits []string, set patchSet) error {
	tree := gitRepo{dir: p.tree}
	if _, err := os.Stat(tree.gitDir()); err != nil {
		return nil
	}
	input, err := p.input(commits[0], set)
	if err != nil {
		return err
	}
	known := readStamp(tree)
	if known.Input != input || known.Head != tree.head() {
		p.say("%s has other work, or is older: not compared", p.tree)
		return nil
	}
	if last := commits[len(commits)-1]; known.Head != last {
		return fmt.Errorf("%s has the commit %.12s, but making it anew gives %.12s: what it was made from is not all in the stamp (a bug of this tool); remove %s and run \"make tree\"",
			p.tree, known.Head, last, p.tree)
	}
	return nil
}

// touched returns the Go packages that the patches change or add files to, as
// "./dir" relative to the tree.
func touched(patches ...patch) []string {
	dirs := map[string]bool{}
	for _, p := range patches {
		for _, name := range p.paths() {
			if path.Ext(name) == ".go" {
				dirs["./"+path.Dir(name)] = true
			}
		}
	}
	return sortedKeys(dirs)
}

// unitTests leaves out the packages of suites, which need a control plane.
func (b *baseFile) unitTests(packages []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(pkg string) bool {
		return b.isSuite(strings.TrimPrefix(pkg, "./") + "/")
	})
}

// existing leaves out directories that the tree has no Go files in.
func existing(tree string, packages []string) []string {
	var found []string
	for _, pkg := range packages {
		if files, _ := filepath.Glob(filepath.Join(tree, pkg, "*.go")); len(files) > 0 {
			found = append(found, pkg)
		}
	}
	return found
}

// printTouched prints the touched packages, one a line, and nothing else.
func (p project) printTouched(unit bool) error {
	src, err := p.source()
	if err != nil {
		return err
	}
	set, err := p.load(src)
	if err != nil {
		return err
	}
	packages := touched(set.patches...)
	if unit {
		packages = p.base.unitTests(packages)
	}
	for _, pkg := range packages {
		fmt.Fprintln(p.out, pkg)
	}
	return nil
}
