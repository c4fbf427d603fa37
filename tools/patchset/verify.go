package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// scratch applies the patch set in a directory of its own, which the caller
// removes. The first of the commits is the base.
func (p project) scratch(b base, set patchSet, msgOf func(message) message) (r gitRepo, commits []string, err error) {
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
	baseCommit, err := commitBase(r, b)
	if err != nil {
		return r, nil, err
	}
	patches, err := buildCommits(r, baseCommit, set, msgOf)
	if err != nil {
		return r, nil, err
	}
	commits = append([]string{baseCommit}, patches...)
	_, err = r.run(nil, "reset", "--quiet", "--hard", commits[len(commits)-1])
	return r, commits, err
}

// verify applies the patch set in a directory of its own, exports it again and
// compares; then it generates code there twice and compares that.
func (p project) verify() error {
	b, err := p.base()
	if err != nil {
		return err
	}
	p.say("checking %s, the patches and the overlay", p.series)
	set, err := p.load(b)
	if err != nil {
		return err
	}
	r, commits, err := p.scratch(b, set, asIs)
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
	if p.generators != "" {
		if err := p.verifyGenerated(r, b); err != nil {
			return err
		}
	}
	p.say("all is well: %d patches, %d overlay files", len(set.patches), len(set.overlay))
	return nil
}

// verifyGenerated checks that code can be generated from the patched types,
// that only generated files change by it, and that a second run changes nothing.
func (p project) verifyGenerated(r gitRepo, b base) error {
	var first string
	for range 2 {
		if err := p.generateInto(r, b); err != nil {
			return err
		}
		changed, err := r.dirty()
		if err != nil {
			return err
		}
		for _, name := range changed {
			if !isGenerated(name) {
				return fmt.Errorf("the code generators changed %s, which is not among the generated files", name)
			}
		}
		if _, err := r.run(nil, "add", "--all", "--force", "."); err != nil {
			return err
		}
		tree, err := r.text("write-tree")
		if err != nil {
			return err
		}
		if first != "" && tree != first {
			return errors.New("generating code a second time gives other files")
		}
		first = tree
	}
	return nil
}

// verifyCompile builds the tree as it is after each patch, generated code
// included, and vets the packages touched so far, tests included.
func (p project) verifyCompile() error {
	b, err := p.base()
	if err != nil {
		return err
	}
	set, err := p.load(b)
	if err != nil {
		return err
	}
	r, commits, err := p.scratch(b, set, asIs)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	for i, one := range set.patches {
		p.say("compiling after %s (%d of %d; minutes when nothing is cached)", one.name, i+1, len(set.patches))
		if _, err := r.run(nil, "reset", "--quiet", "--hard", commits[i+1]); err != nil {
			return err
		}
		if p.generators != "" {
			if err := p.generateInto(r, b); err != nil {
				return fmt.Errorf("after %s: %w", one.name, err)
			}
		}
		sofar := set
		sofar.patches = set.patches[:i+1]
		if err := command(r.dir, "go", "build", "./..."); err != nil {
			return fmt.Errorf("%s does not compile on the patches before it: %w", one.name, err)
		}
		if packages := existing(r.dir, sofar.touched()); len(packages) > 0 {
			if err := command(r.dir, "go", append([]string{"vet"}, packages...)...); err != nil {
				return fmt.Errorf("%s: its packages' tests do not pass go vet: %w", one.name, err)
			}
		}
	}
	p.say("every patch compiles on those before it")
	return nil
}

// touched returns the Go packages that the patches change or add files to, as
// "./dir" relative to the tree.
func (s patchSet) touched() []string {
	dirs := map[string]bool{}
	add := func(name string) {
		if path.Ext(name) == ".go" {
			dirs["./"+path.Dir(name)] = true
		}
	}
	for _, p := range s.patches {
		for _, f := range p.files() {
			add(f.path)
		}
		for _, name := range p.msg.values(trailerOverlay) {
			add(name)
		}
	}
	return sortedKeys(dirs)
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
	b, err := findBase(p.module, p.pin, p.baseDir)
	if err != nil {
		return err
	}
	set, err := p.load(b)
	if err != nil {
		return err
	}
	for _, pkg := range set.touched() {
		if unit && strings.HasPrefix(pkg, "./test/") {
			continue
		}
		fmt.Fprintln(p.out, pkg)
	}
	return nil
}
