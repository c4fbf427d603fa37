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
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// generated is what a base's file says about the code that upstream generates
// from the types of its API.
type generated struct {
	Sources    []string // folders: a commit that changes Go code there has generated code
	Paths      []string // regular expressions of the files that are generated
	Generators string   // folder of the module that pins the generators
	Commands   []generatorCommand
	ChartCRDs  *chartCRDs `yaml:"chartCRDs"`

	paths *regexp.Regexp
}

// generatorCommand is a generator with its arguments.
type generatorCommand struct {
	Run        []string
	Replaces   string // a folder: what the generator made there is removed before
	ClientsFor string `yaml:"clientsFor"` // a folder: packages there that have clients are further arguments
}

// chartCRDs are the folders of the CRDs, and of the Helm chart's copies.
type chartCRDs struct{ From, To string }

// check says what is wrong with the section, and makes it ready for use.
func (g *generated) check() (problems []string) {
	if len(g.Sources) == 0 || len(g.Paths) == 0 || g.Generators == "" || len(g.Commands) == 0 {
		problems = append(problems, "sources, paths, generators and commands are needed")
	}
	for _, command := range g.Commands {
		if len(command.Run) == 0 {
			problems = append(problems, "a command has nothing to run")
		}
	}
	if g.ChartCRDs != nil && (g.ChartCRDs.From == "" || g.ChartCRDs.To == "") {
		problems = append(problems, "chartCRDs needs from and to")
	}
	var err error
	if g.paths, err = regexp.Compile("^(?:" + strings.Join(g.Paths, "|") + ")$"); err != nil {
		problems = append(problems, fmt.Sprintf("paths: %v", err))
	}
	return problems
}

// isGenerated tells whether a path of the tree holds generated code.
func (b *baseFile) isGenerated(name string) bool {
	return b.Generated != nil && b.Generated.paths.MatchString(name)
}

// isSource tells whether code is generated from a file of the tree.
func (b *baseFile) isSource(name string) bool {
	if b.Generated == nil || b.isGenerated(name) || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
		return false
	}
	return slices.ContainsFunc(b.Generated.Sources, func(folder string) bool { return strings.HasPrefix(name, folder+"/") })
}

// needsGenerated tells whether a patch changes what code is generated from.
func (b *baseFile) needsGenerated(p patch) bool {
	return slices.ContainsFunc(p.paths(), b.isSource)
}

// What makes the commits: with another version of it, the tree is made anew.
//
//go:embed generate.go rewrite.go rewrite_imports.go tree.go
var ownSource embed.FS

// generatorsKey identifies what generated code is made with.
func (p project) generatorsKey() (string, error) {
	var key []byte
	for _, name := range []string{"generate.go", "rewrite.go", "rewrite_imports.go", "tree.go"} {
		content, err := ownSource.ReadFile(name)
		if err != nil {
			return "", err
		}
		key = append(key, content...)
	}
	files := []string{p.base.file}
	if p.base.Generated != nil {
		files = append(files, path.Join(p.base.Generated.Generators, "go.mod"), path.Join(p.base.Generated.Generators, "go.sum"))
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a module that requires nothing has no go.sum
			return "", err
		}
		key = append(key, content...)
	}
	return checksum(key), nil
}

// runGenerators makes the generated code anew in the files of a tree.
func (p project) runGenerators(tree string, src source) error {
	g := p.base.Generated
	bin, err := os.MkdirTemp("", "patchset-generators-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if err := command(filepath.Join(p.dir, filepath.FromSlash(g.Generators)), "go", "build", "-o", bin+string(filepath.Separator), "tool"); err != nil {
		return fmt.Errorf("building the code generators: %w", err)
	}
	for _, c := range g.Commands {
		generator, args := c.Run[0], slices.Clone(c.Run[1:])
		if c.ClientsFor != "" {
			packages, err := clientPackages(tree, c.ClientsFor)
			if err != nil {
				return err
			}
			args = append(args, inModule(p.base.Module, packages)...)
		}
		if c.Replaces != "" {
			if err := removeGenerated(filepath.Join(tree, filepath.FromSlash(c.Replaces)), generator); err != nil {
				return err
			}
		}
		if err := command(tree, filepath.Join(bin, generator), args...); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	if g.ChartCRDs == nil {
		return nil
	}
	return g.ChartCRDs.generate(tree, src)
}

// addGenerated generates code from the files of an index and puts it there.
func (p project) addGenerated(index gitRepo, src source) error {
	dir, err := os.MkdirTemp("", "patchset-generate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	before, err := index.text("write-tree")
	if err != nil {
		return err
	}
	if _, err := index.run(nil, "checkout-index", "--all", "--force", "--prefix="+dir+"/"); err != nil {
		return err
	}
	if err := p.runGenerators(dir, src); err != nil {
		return err
	}
	index.files = dir
	if _, err := index.run(nil, "add", "--all", "--force", "."); err != nil {
		return err
	}
	after, err := index.text("write-tree")
	if err != nil {
		return err
	}
	changed, err := index.items("diff-tree", "-r", "-z", "--name-only", before, after)
	if err != nil {
		return err
	}
	for _, name := range changed {
		if !p.base.isGenerated(name) {
			return fmt.Errorf("the code generators changed %s, which is not among the generated files (generated.paths in %s)", name, p.base.file)
		}
	}
	return nil
}

// goEnv keeps what is set around the tool from changing what Go does.
var goEnv = []string{"GOWORK=off", "GOFLAGS=-trimpath -buildvcs=false"}

// command runs a program in a directory, without what would change its result.
func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), goEnv...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

var (
	genclient  = regexp.MustCompile(`(?m)^\s*//\s*\+genclient`)
	apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// clientPackages returns the API packages in a folder of the tree that upstream
// makes clients for, relative to the tree.
func clientPackages(tree, folder string) ([]string, error) {
	var packages []string
	err := filepath.WalkDir(filepath.Join(tree, filepath.FromSlash(folder)), func(full string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(full) != ".go" || !apiVersion.MatchString(filepath.Base(filepath.Dir(full))) {
			return err
		}
		content, err := os.ReadFile(full)
		if err != nil || !genclient.Match(content) {
			return err
		}
		name, err := filepath.Rel(tree, filepath.Dir(full))
		if name = filepath.ToSlash(name); !slices.Contains(packages, name) {
			packages = append(packages, name)
		}
		return err
	})
	return packages, err
}

func inModule(module string, dirs []string) []string {
	packages := make([]string, len(dirs))
	for i, dir := range dirs {
		packages[i] = module + "/" + dir
	}
	return packages
}

// removeGenerated removes the Go files below dir that a generator made.
func removeGenerated(dir, generator string) error {
	line := "// Code generated by " + generator + ". DO NOT EDIT."
	return filepath.WalkDir(dir, func(full string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(full) != ".go" {
			return err
		}
		content, err := os.ReadFile(full)
		if err == nil && bytes.Contains(content, []byte("\n"+line+"\n")) {
			err = os.Remove(full)
		}
		return err
	})
}

// generate makes the CRDs of the Helm chart. Upstream renders them from the
// CRDs with a tool that is not in its module: same YAML, indented by yaml.v3,
// with a few lines of template put in. So the difference between the base's
// CRD and the new one, both rendered by yaml.v3, is merged into the base's
// chart file; the template's lines stay where they are.
func (c chartCRDs) generate(tree string, src source) error {
	crds, err := filepath.Glob(filepath.Join(tree, c.From, "*_*.yaml"))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "patchset-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, crd := range crds {
		name := filepath.Base(crd)
		before, after := filepath.Join(work, "before"), filepath.Join(work, "after")
		chart := filepath.Join(src.dir, c.To, name)
		if _, err := os.Stat(chart); err != nil {
			return fmt.Errorf("%s is a new CRD: its chart file cannot be derived from one of the base", name)
		}
		if err := render(filepath.Join(src.dir, c.From, name), before); err != nil {
			return err
		}
		if err := render(crd, after); err != nil {
			return err
		}
		cmd := exec.Command("git", "merge-file", "-p", chart, before, after)
		cmd.Dir = work
		merged, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("the change of %s cannot be merged into the chart's file: %s", name, failure(err))
		}
		if err := os.WriteFile(filepath.Join(tree, c.To, name), merged, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render writes the YAML document in from to the file to, as yaml.v3 does.
func render(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// generate makes generated code anew in the tree as it is, for somebody who
// works on the types there. It belongs to the commit that changes the API: what
// changed is committed as a fixup of that one, if nothing else waits to be.
func (p project) generate() error {
	if p.base.Generated == nil {
		return fmt.Errorf("%s says nothing about generated code", p.base.file)
	}
	r, err := p.openTree()
	if err != nil {
		return err
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("generating code")
	if err := p.runGenerators(r.dir, src); err != nil {
		return err
	}
	changed, err := r.dirty()
	if err != nil {
		return err
	}
	made := slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return !p.base.isGenerated(name) })
	target, err := p.lastAPICommit(r)
	switch {
	case err != nil:
		return err
	case len(made) == 0:
		p.say("the generated code is up to date")
		return nil
	case len(made) < len(changed) || target == "":
		p.say("%d generated files changed; commit them with your change of the API:\n  %s", len(made), firstOf(made))
		return nil
	}
	if _, err := r.run(nil, append([]string{"--literal-pathspecs", "add", "--all", "--force", "--"}, made...)...); err != nil {
		return err
	}
	if _, err := r.run(nil, "commit", "--quiet", "--fixup", target); err != nil {
		return err
	}
	p.say("%d generated files committed as a fixup of %.12s, which changed the API last (\"git rebase --autosquash --interactive base\" puts them together, \"make tree\" does after \"make export\", too):\n  %s",
		len(made), target, firstOf(made))
	return nil
}

// lastAPICommit returns the last commit that changes the API and is no fixup, ""
// if there is none.
func (p project) lastAPICommit(r gitRepo) (string, error) {
	commits, err := r.text("rev-list", "--min-parents=1", "HEAD")
	if err != nil {
		return "", err
	}
	for commit := range strings.FieldsSeq(commits) {
		names, err := r.items("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", "--no-renames", commit)
		if err != nil {
			return "", err
		}
		subject, err := r.text("log", "-1", "--format=%s", commit)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(names, p.base.isSource) && !strings.HasPrefix(subject, fixup) {
			return commit, nil
		}
	}
	return "", nil
}
