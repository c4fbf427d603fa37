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
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

// verifyCommits proves commit by commit that the tree builds and that the unit
// tests of the packages that the commit touches pass; and that the series for
// upstream gives the same files. The quick way checks the types of all packages,
// tests included, and neither compiles nor runs anything.
func (p project) verifyCommits(quick bool) error {
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s", src.name)
	set, err := p.load(src)
	if err != nil {
		return err
	}
	r, commits, err := p.scratch(src, set)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	for i, one := range set.patches {
		if _, err := r.run(nil, "reset", "--quiet", "--hard", commits[i+1]); err != nil {
			return err
		}
		size, err := p.sizeOf(r, commits[i], commits[i+1])
		if err != nil {
			return err
		}
		p.say("%d of %d: %s: %s", i+1, len(set.patches), one.msg.subject, size)
		check := p.buildAndTest
		if quick {
			check = func(dir string, _ ...patch) error { return checkTypes(dir) }
		}
		if len(touched(one)) == 0 {
			continue // no Go code
		}
		if err := check(r.dir, one); err != nil {
			return fmt.Errorf("with the patches up to %s: %w", one.name, err)
		}
	}
	if err := p.proveSeries(r, src, commits, set); err != nil {
		return err
	}
	p.say("every commit is well, and the series for upstream gives the same files")
	return nil
}

// proveSeries proves that the series that "make pr" writes gives the files that
// the tree has before the patches that are carried.
func (p project) proveSeries(r gitRepo, src source, commits []string, set patchSet) error {
	upstream := set.forUpstream()
	if len(upstream) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "patchset-pr-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	series, err := writeSeries(r, commits, upstream, dir, defaultAuthor)
	if err != nil {
		return err
	}
	return applyAndCompare(src, series, r, commits[len(upstream)])
}

// buildAndTest builds all packages of the tree, vets those that the patches
// touch, and runs their unit tests.
func (p project) buildAndTest(dir string, patches ...patch) error {
	if err := command(dir, "go", "build", "./..."); err != nil {
		return fmt.Errorf("the tree does not compile: %w", err)
	}
	packages := existing(dir, touched(patches...))
	if len(packages) == 0 {
		return nil
	}
	if err := command(dir, "go", append([]string{"vet"}, packages...)...); err != nil {
		return fmt.Errorf("the touched packages do not pass go vet: %w", err)
	}
	if packages = p.base.unitTests(packages); len(packages) == 0 {
		return nil
	}
	if err := command(dir, "go", append([]string{"test"}, packages...)...); err != nil {
		return fmt.Errorf("the unit tests of the touched packages fail: %w", err)
	}
	return nil
}

// checkTypes checks the types of all packages in dir, tests included.
func checkTypes(dir string) error {
	wrong, err := typeErrors(dir, "./...")
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("the types are not right:\n  %s", firstOf(wrong))
	}
	return err
}

// typeErrors checks the types of packages in dir, tests included. It reads other
// modules without the bodies of their functions, and compiles nothing: so
// it takes seconds, where compiling what depends on an API takes minutes.
func typeErrors(dir string, patterns ...string) ([]string, error) {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	own := dir + string(filepath.Separator)
	config := &packages.Config{
		Dir:   dir,
		Env:   append(os.Environ(), goEnv...),
		Tests: true,
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax,
		Fset:  parsed.fset,
		ParseFile: func(fset *token.FileSet, name string, content []byte) (*ast.File, error) {
			if strings.HasPrefix(name, own) {
				return parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
			}
			return parsed.file(name, content)
		},
	}
	roots, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, pkg := range roots {
		if strings.HasSuffix(pkg.ID, ".test") { // the main of a test, which go wrote
			continue
		}
		for _, problem := range pkg.Errors {
			if text := strings.TrimPrefix(problem.Error(), own); !slices.Contains(wrong, text) { // a package and its tests share files
				wrong = append(wrong, text)
			}
		}
	}
	return wrong, nil
}

// parsed has the files of other modules: they are the same for each commit.
var parsed = parsedFiles{fset: token.NewFileSet()}

type parsedFiles struct {
	fset  *token.FileSet
	files sync.Map // from the path to the *ast.File
}

// file parses a file, without the bodies of its functions.
func (p *parsedFiles) file(name string, content []byte) (*ast.File, error) {
	if file, ok := p.files.Load(name); ok {
		return file.(*ast.File), nil
	}
	file, err := parser.ParseFile(p.fset, name, content, parser.SkipObjectResolution)
	if err != nil {
		return file, err
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
	p.files.Store(name, file)
	return file, nil
}

// size is how much a commit changes: lines added and removed, by what they are.
type size struct {
	files                           int
	source, tests, generated, other lines
}

type lines struct{ added, removed int }

// sizeOf counts what differs between two commits.
func (p project) sizeOf(r gitRepo, parent, commit string) (size, error) {
	items, err := r.items("diff-tree", "-r", "-z", "--numstat", "--no-renames", parent, commit)
	if err != nil {
		return size{}, err
	}
	s := size{files: len(items)}
	for _, item := range items { // added, removed and path, with tabs; "-" for a binary file
		fields := strings.SplitN(item, "\t", 3)
		kind := &s.other
		switch name := fields[2]; {
		case p.base.isGenerated(name):
			kind = &s.generated
		case strings.HasSuffix(name, "_test.go"), p.base.isSuite(name):
			kind = &s.tests
		case path.Ext(name) == ".go":
			kind = &s.source
		}
		var changed lines
		fmt.Sscan(fields[0], &changed.added)
		fmt.Sscan(fields[1], &changed.removed)
		kind.added += changed.added
		kind.removed += changed.removed
	}
	return s, nil
}

func (s size) String() string {
	text := fmt.Sprintf("%d files", s.files)
	if s.files == 1 {
		text = "1 file"
	}
	for _, part := range []struct {
		name string
		lines
	}{{"source", s.source}, {"tests", s.tests}, {"generated", s.generated}, {"other", s.other}} {
		if part.lines != (lines{}) {
			text += fmt.Sprintf(", %s +%d -%d", part.name, part.added, part.removed)
		}
	}
	return text
}
