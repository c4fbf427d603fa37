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
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The programs that are shipped, as folders of the tree.
const (
	managerProgram = "./cmd/kueue"
	pluginProgram  = "./cmd/kueuectl"
)

// checkDependencies compares the modules that the shipped programs were built
// with to those that plain Kueue's are built with, and looks at what the patched
// files import: whatever listens or dials needs a package for it.
func (r *release) checkDependencies(ctx context.Context) error {
	archive, remove, err := openArchive(r.archivePath())
	if err != nil {
		return err
	}
	defer remove()
	return errors.Join(
		r.checkProgram(ctx, managerProgram, "manager", func(do func(architecture, program string) error) error {
			return eachManager(archive, func(config *v1.ConfigFile, program string) error { return do(config.Architecture, program) })
		}),
		r.checkProgram(ctx, pluginProgram, "plugin", func(do func(architecture, program string) error) error {
			for _, architecture := range r.architectures {
				if err := do(architecture, r.pluginPath(architecture)); err != nil {
					return err
				}
			}
			return nil
		}),
	)
}

// checkProgram does it for one of them; each calls a function with what is shipped.
func (r *release) checkProgram(ctx context.Context, folder, name string, each func(do func(architecture, program string) error) error) error {
	base, err := r.listPackages(ctx, r.base, folder)
	if err != nil {
		return err
	}
	patched, err := r.listPackages(ctx, r.tree, folder)
	if err != nil {
		return err
	}
	var problems []error
	want := modules(base)
	if err := each(func(architecture, program string) error {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return err
		}
		var got []string
		for _, module := range info.Deps {
			module = effective(module)
			got = append(got, module.Path+" "+module.Version)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			problems = append(problems, fmt.Errorf("the modules of the %s for %s are not plain Kueue's (-want,+got):\n%s", name, architecture, diff))
		}
		return nil
	}); err != nil {
		return err
	}
	imports, err := newImports(base, patched)
	if err != nil {
		return err
	}
	for _, i := range imports {
		if opensConnections(i.path) {
			problems = append(problems, fmt.Errorf("%s imports %s", i.file, i.path))
		}
	}
	fmt.Fprintf(r.out, "    the %s has %d modules, as plain Kueue's; %d new imports looked at\n", name, len(want), len(imports))
	return errors.Join(problems...)
}

// modules returns the modules that packages are from, without the main one, as
// sorted "path version".
func modules(packages []goPackage) []string {
	var all []string
	for _, p := range packages {
		if p.Module == nil || p.Module.Main {
			continue
		}
		module := p.Module.Path + " " + p.Module.Version
		if p.Module.Replace != nil {
			module = p.Module.Replace.Path + " " + p.Module.Replace.Version
		}
		all = append(all, module)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// newImport is an import that a file did not have before.
type newImport struct{ file, path string }

// newImports returns what the files of the main module import that they did
// not import in the base.
func newImports(base, patched []goPackage) ([]newImport, error) {
	before := map[string]goPackage{}
	for _, p := range base {
		before[p.ImportPath] = p
	}
	var found []newImport
	for _, p := range patched {
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, file := range p.GoFiles {
			now, err := fileImports(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			then, err := fileImports(filepath.Join(before[p.ImportPath].Dir, file))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			for _, i := range now {
				if !slices.Contains(then, i) {
					found = append(found, newImport{file: p.ImportPath + "/" + file, path: i})
				}
			}
		}
	}
	return found, nil
}

func fileImports(name string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range file.Imports {
		i, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		imports = append(imports, i)
	}
	return imports, nil
}

// opensConnections tells whether a package can listen or dial, or start a
// program that does.
func opensConnections(importPath string) bool {
	for _, prefix := range []string{"net", "syscall", "os/exec", "plugin", "C", "golang.org/x/net", "golang.org/x/sys", "google.golang.org/grpc", "k8s.io/apiserver"} {
		if importPath == prefix || strings.HasPrefix(importPath, prefix+"/") {
			return true
		}
	}
	return slices.Contains([]string{"server", "webhook", "pprof"}, path.Base(importPath))
}

// checkVulnerabilities runs govulncheck on the source of manager and plugin, where
// it can tell what is called, if its database can be reached.
func (r *release) checkVulnerabilities(ctx context.Context, govulncheck string) error {
	if govulncheck == "" {
		r.say("skipped: no --govulncheck")
		return nil
	}
	database := os.Getenv("GOVULNDB")
	if database == "" {
		database = "https://vuln.go.dev"
	}
	if err := reachable(ctx, database); err != nil {
		r.say("LEFT OUT: the search for vulnerabilities, because the database %s is out of reach (%v). The modules are plain Kueue's, see above: what is known of %s holds here. GOVULNDB=https://... or file:///... names another one", database, err, r.baseVersion)
		return nil
	}
	program, err := filepath.Abs(govulncheck)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-db", database, managerProgram, pluginProgram)
	cmd.Dir = r.tree
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("govulncheck: %w\n%s", err, out.Bytes())
	}
	return nil
}

// reachable tells whether a vulnerability database answers.
func reachable(ctx context.Context, database string) error {
	if strings.HasPrefix(database, "file://") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(database, "/")+"/index/db.json", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}
