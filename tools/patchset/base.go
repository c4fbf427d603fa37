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
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"gopkg.in/yaml.v3"
)

// baseFile is a base.yaml: all that the tool and the Makefile know about the
// upstream that a patch set stands on. bases/v0.19/base.yaml explains the fields.
type baseFile struct {
	name string // of the folder that it lies in
	file string // its path in the project

	Module     string
	Version    string
	Release    int // the number of the next release on it, or of the last one
	Pin        string
	Commit     string // of upstream's git, for a base that no module proxy has; then there is no pin
	API        string
	Kubernetes kubernetes

	Tree    string
	Fixes   string
	Series  string
	Carried string
	Defects string // folder with tests that fail on the base, and are no part of the patch set; empty for none
	Overlay []string
	Suites  string
	Suffix  string  // of what is built from the tree, to tell it from other bases
	Shared  *shared // nil if the base has its overlay for itself, or is the one that shares it

	Budgets         []budget
	Generated       *generated
	PullRequests    []pullRequest `yaml:"pullRequests"`
	PullRequestNote string        `yaml:"pullRequestNote"`

	SkipWithGateOn    struct{ Tests, Specs []skip } `yaml:"skipWithGateOn"`
	SpecsWithRaces    []skip                        `yaml:"specsWithRaces"`
	WithoutSuites     []withoutSuite                `yaml:"withoutSuites"`
	WithoutSpecs      []skip                        `yaml:"withoutSpecs"`
	IntegrationSuites []string                      `yaml:"integrationSuites"`
	DependencyCRDs    []dependencyCRDs              `yaml:"dependencyCRDs"`
	KustomizedCRDs    *kustomizedCRDs               `yaml:"kustomizedCRDs"`
}

// kubernetes is the version of Kubernetes, and the go.mod files that agree on it.
type kubernetes struct {
	Version string
	Others  map[string]string // modules that upstream itself has at another version
	GoMods  []string          `yaml:"goMods"`
}

// skip is a part of a pattern of tests that are left out, and why.
type skip struct{ Skip, Reason string }

// withoutSuite is a suite that cannot run here, for "make test-upstream".
type withoutSuite struct{ Suite, Reason string }

// dependencyCRDs are CRDs of another module that upstream's tests read.
type dependencyCRDs struct {
	Module, From, To string
	Without          []string
}

// kustomizedCRDs are the folder of a kustomization of upstream's own CRDs, and the
// file with its output that upstream's tests read.
type kustomizedCRDs struct{ From, To string }

// basePath returns the path of a base's file, in the project.
func basePath(name string) string { return path.Join("bases", name, "base.yaml") }

// openBase reads and checks the file of the base with the given name.
func openBase(project, name string) (*baseFile, error) {
	b := &baseFile{name: name, file: basePath(name)}
	content, err := os.ReadFile(filepath.Join(project, filepath.FromSlash(b.file)))
	if errors.Is(err, os.ErrNotExist) {
		others, _ := baseNames(project)
		return nil, fmt.Errorf("there is no base %s: %s does not exist (bases here: %s)", name, b.file, strings.Join(others, ", "))
	}
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(b); err != nil {
		return nil, fmt.Errorf("%s: %s", b.file, plainYAMLError(err))
	}
	if decoder.Decode(new(yaml.Node)) != io.EOF {
		return nil, fmt.Errorf("%s has more than one document", b.file)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%s:\n%w", b.file, err)
	}
	return b, b.checkPin(project)
}

// baseNames returns the names of all bases of the project.
func baseNames(project string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(project, "bases", "*", "base.yaml"))
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names, err
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// plainYAMLError takes what only a Go programmer understands out of an error.
func plainYAMLError(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return unknownField.ReplaceAllString(text, "there is no field $1")
}

// check says what is wrong with the file, all at once.
func (b *baseFile) check() error {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("  "+format, args...)) }
	for _, field := range []struct{ name, value string }{
		{"module", b.Module}, {"version", b.Version}, {"pin", b.Pin + b.Commit}, {"api", b.API},
		{"kubernetes.version", b.Kubernetes.Version}, {"tree", b.Tree}, {"series", b.Series}, {"suites", b.Suites},
	} {
		if field.value == "" {
			complain("%s is missing", field.name)
		}
	}
	if b.Commit != "" && (b.Pin != "" || !commitHash.MatchString(b.Commit)) {
		complain("commit %q is no hash of 40 digits, or there is a pin, too", b.Commit)
	}
	if len(b.Overlay) == 0 {
		complain("overlay is missing: name the folders in which the patches may add files")
	}
	if b.Release < 1 {
		complain("release is missing: the number of the next release, from 1")
	}
	if b.Version != "" && !semver.IsValid(b.Version) {
		complain("version %q is none of a Go module, such as v1.2.3", b.Version)
	}
	if v := b.Kubernetes.Version; v != "" && (!semver.IsValid("v"+v) || !strings.HasPrefix(v, "1.") || strings.Count(v, ".") != 2) {
		complain("kubernetes.version %q is none of Kubernetes, such as 1.36.2", v)
	}
	local := func(field string, paths ...string) {
		for _, name := range paths {
			if name != "" && (!filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name) {
				complain("%s: %q is no plain path below the root, such as a/b", field, name)
			}
		}
	}
	local("pin", b.Pin)
	local("tree", b.Tree)
	local("fixes", b.Fixes)
	local("series", b.Series)
	local("carried", b.Carried)
	local("defects", b.Defects)
	local("overlay", b.Overlay...)
	local("suites", b.Suites)
	local("kubernetes.goMods", b.Kubernetes.GoMods...)
	local("integrationSuites", b.IntegrationSuites...)
	folders := map[string]string{}
	for _, series := range b.seriesFiles() {
		if other, found := folders[path.Dir(series)]; found {
			complain("%s and %s lie in the same folder: patch files would be mixed up", other, series)
		}
		folders[path.Dir(series)] = series
	}
	for _, one := range b.Budgets {
		if err := one.check(); err != nil {
			complain("budgets: %v", err)
		}
	}
	for _, one := range b.PullRequests {
		if err := one.check(); err != nil {
			complain("pullRequests: %q: %v", one.Title, err)
		}
	}
	if b.Generated != nil {
		local("generated.sources", b.Generated.Sources...)
		local("generated.generators", b.Generated.Generators)
		for _, problem := range b.Generated.check() {
			complain("generated: %s", problem)
		}
	}
	if b.Shared != nil {
		local("shared", b.Shared.paths()...)
		for _, problem := range b.Shared.check(b.Module) {
			complain("shared: %s", problem)
		}
		if b.Shared.Base == b.name {
			complain("shared.base: it cannot be the base itself")
		}
	}
	if strings.ContainsAny(b.Suffix, "/ \t\n") {
		complain("suffix %q is no part of a file's name", b.Suffix)
	}
	for field, skips := range map[string][]skip{
		"skipWithGateOn.tests": b.SkipWithGateOn.Tests, "skipWithGateOn.specs": b.SkipWithGateOn.Specs, "specsWithRaces": b.SpecsWithRaces, "withoutSpecs": b.WithoutSpecs,
	} {
		for _, s := range skips {
			if s.Reason == "" {
				complain("%s: no reason why %q is left out", field, s.Skip)
			}
			if _, err := regexp.Compile(s.Skip); err != nil || s.Skip == "" {
				complain("%s: %q is no pattern of tests (%v)", field, s.Skip, err)
			}
			if strings.ContainsAny(s.Skip, "\n\r") {
				complain("%s: %q has more than one line", field, s.Skip)
			}
		}
	}
	for _, crds := range b.DependencyCRDs {
		if crds.Module == "" || crds.From == "" || crds.To == "" {
			complain("dependencyCRDs: an entry without module, from or to: %+v", crds)
		}
		local("dependencyCRDs", append(crds.Without, crds.From, crds.To)...)
	}
	if crds := b.KustomizedCRDs; crds != nil {
		if crds.From == "" || crds.To == "" {
			complain("kustomizedCRDs needs from and to")
		}
		local("kustomizedCRDs", crds.From, crds.To)
	}
	return errors.Join(wrong...)
}

// commitHash is the whole name of a commit, which is also the checksum of its content.
var commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// checkPin compares the version of the base with the go.mod that pins it.
func (b *baseFile) checkPin(project string) error {
	if b.Commit != "" {
		return nil // it is the pin
	}
	name := path.Join(b.Pin, "go.mod")
	content, err := os.ReadFile(filepath.Join(project, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("%s says that %s is pinned in %s: %w", b.file, b.Module, name, err)
	}
	mod, err := modfile.Parse(name, content, nil)
	if err != nil {
		return err
	}
	for _, required := range mod.Require {
		if required.Mod.Path != b.Module {
			continue
		}
		if required.Mod.Version != b.Version {
			return fmt.Errorf("%s says %s %s, but %s requires %s: make them agree (\"go get %s@%s\" in the folder of go.mod, and \"go mod tidy\")",
				b.file, b.Module, b.Version, name, required.Mod.Version, b.Module, b.Version)
		}
		return nil
	}
	return fmt.Errorf("%s says that %s is pinned in %s, which does not require it: run \"go get %s@%s\" there", b.file, b.Module, name, b.Module, b.Version)
}

// isSuite tells whether a path of the tree belongs to tests that need a control
// plane.
func (b *baseFile) isSuite(name string) bool { return strings.HasPrefix(name, b.Suites+"/") }

// seriesFiles returns the files that list patches, in the order of the patches.
func (b *baseFile) seriesFiles() []string {
	return slices.DeleteFunc([]string{b.Fixes, b.Series, b.Carried}, func(series string) bool { return series == "" })
}
