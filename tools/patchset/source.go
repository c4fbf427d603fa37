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
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// source is the pristine upstream source, the base that the patches stand on.
type source struct {
	name string // "module version", for people
	dir  string // where its files lie, read-only
}

// findSource returns the base: the module at the version that the go.mod in
// pinDir requires, from Go's module cache. Its content is compared with the
// checksum in go.sum.
func findSource(module, pinDir string) (source, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = pinDir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, runErr := cmd.Output()
	var mod struct{ Path, Version, Dir, Sum, Error string }
	problem := ""
	if err := json.Unmarshal(out, &mod); err != nil || (runErr != nil && mod.Error == "") {
		problem = failure(runErr)
	} else {
		problem = mod.Error
	}
	switch {
	case errors.Is(runErr, exec.ErrNotFound):
		return source{}, errors.New("go is not installed: install Go 1.25 or later and run this again")
	case strings.Contains(problem, "checksum mismatch"):
		return source{}, fmt.Errorf("%s has another checksum than go.sum says: it is not the base of these patches.\n"+
			"Check GOPROXY, and remove a bad copy with \"go clean -modcache\"; do not change go.sum to make this go away.\n%s", module, problem)
	case problem != "":
		return source{}, fmt.Errorf("cannot download %s: %s\n"+
			"The base comes from a Go module proxy: check the network and that GOPROXY names one (\"go env GOPROXY\")", module, problem)
	}
	sum, err := dirhash.HashDir(mod.Dir, mod.Path+"@"+mod.Version, dirhash.Hash1)
	if err != nil {
		return source{}, err
	}
	if sum != mod.Sum {
		return source{}, fmt.Errorf("the files in %s were changed: they have the checksum %s, go.sum says %s.\nRemove that directory (it is a copy in Go's module cache) and run this again", mod.Dir, sum, mod.Sum)
	}
	return source{name: mod.Path + " " + mod.Version, dir: mod.Dir}, nil
}

// sourceOfCommit returns a base that no module proxy has: a commit of upstream's git. Its files
// lie in build/upstream, where they may stay. They are all that the commit has, with the
// dependencies in vendor that no proxy may have either.
func (p project) sourceOfCommit() (source, error) {
	b := p.base
	src := source{
		name: fmt.Sprintf("%s %s, commit %.12s", b.Module, b.Version, b.Commit),
		dir:  filepath.Join(p.dir, "build", "upstream", b.Commit),
	}
	if p.upstream == "" {
		return src, fmt.Errorf("%s is a commit that no module proxy has: say where upstream's git is (UPSTREAM=directory), a clone of the repository that has it",
			src.name)
	}
	dir, err := os.MkdirTemp("", "patchset-upstream-")
	if err != nil {
		return src, err
	}
	defer os.RemoveAll(dir)
	// A repository that borrows upstream's objects: upstream may have no work tree, and stays as it is.
	r, err := initRepo(dir)
	if err != nil {
		return src, err
	}
	objects, err := exec.Command("git", "-C", p.upstream, "rev-parse", "--path-format=absolute", "--git-path", "objects").Output()
	if err != nil {
		return src, fmt.Errorf("%s is no git repository that can be read: %s", p.upstream, failure(err))
	}
	if err := os.WriteFile(filepath.Join(r.gitDir(), "objects", "info", "alternates"), objects, 0o644); err != nil {
		return src, err
	}
	want, err := r.treeOf(b.Commit)
	if err != nil {
		return src, fmt.Errorf("%s has no commit %s: fetch it there (git fetch origin %s)", p.upstream, b.Commit, b.Commit)
	}
	r.files = src.dir
	if _, err := os.Stat(src.dir); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(src.dir, 0o755); err != nil {
			return src, err
		}
		if _, err := r.run(nil, "read-tree", b.Commit); err != nil {
			return src, err
		}
		if _, err := r.run(nil, "checkout-index", "--all"); err != nil {
			return src, err
		}
	}
	if _, err := r.run(nil, "add", "--all", "--force", "."); err != nil {
		return src, err
	}
	switch got, err := r.text("write-tree"); {
	case err != nil:
		return src, err
	case got != want:
		return src, fmt.Errorf("the files in %s are not those of the commit: remove that directory, and run this again", src.dir)
	}
	return src, nil
}

// failure describes why a command failed, with what it wrote to stderr.
func failure(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return fmt.Sprint(err)
}

// commitBase writes the base into the repository as a commit without parent
// and returns it. Ignored files are taken too, all with mode 0644.
func commitBase(r gitRepo, src source) (string, error) {
	index, remove, err := tempIndex()
	if err != nil {
		return "", err
	}
	defer remove()
	ri := r.withIndex(index)
	ri.files = src.dir
	if _, err := ri.run(nil, "-c", "core.fileMode=false", "add", "--all", "--force", "."); err != nil {
		return "", err
	}
	tree, err := ri.text("write-tree")
	if err != nil {
		return "", err
	}
	return r.commitTree(tree, "", "base: "+src.name+"\n")
}
