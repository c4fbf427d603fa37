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
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// verifyKubernetes checks that upstream's go.mod and those of the project that
// the base's file names have the version of Kubernetes that it says.
func (p project) verifyKubernetes(src source) error {
	wrong := p.base.Kubernetes.check(filepath.Join(src.dir, "go.mod"), p.base.Module+"'s go.mod", p.base.Kubernetes.Others,
		"kubernetes.version in "+p.base.file+" should be upstream's (or kubernetes.others, where upstream has several)")
	for _, name := range p.base.Kubernetes.GoMods {
		wrong = errors.Join(wrong, p.base.Kubernetes.check(filepath.Join(p.dir, filepath.FromSlash(name)), name, nil,
			fmt.Sprintf("run \"go get\" with the version there, and \"go mod tidy\" (in %s), or correct kubernetes.version in %s", path.Dir(name), p.base.file)))
	}
	return wrong
}

// check compares the versions of Kubernetes' modules in a go.mod with the one
// that is wanted. It looks at those that the file asks for itself: required
// directly, put in place by "replace", or with a tool.
func (k kubernetes) check(file, name string, others map[string]string, advice string) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s, which should have the version of Kubernetes, does not exist: correct kubernetes.goMods", name)
	}
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(name, content, nil)
	if err != nil {
		return err
	}
	var asked []module.Version
	replaced := map[string]bool{}
	for _, replace := range mod.Replace {
		replaced[replace.Old.Path] = true
		asked = append(asked, replace.New)
	}
	for _, required := range mod.Require {
		if path := required.Mod.Path; !replaced[path] && (!required.Indirect || hasTool(mod, path)) {
			asked = append(asked, required.Mod)
		}
	}
	var wrong []error
	for _, m := range asked {
		if want := cmp.Or(others[m.Path], k.versionOf(m)); want != "" && m.Version != want {
			wrong = append(wrong, fmt.Errorf("%s has %s %s, and Kubernetes is to be %s: that is %s@%s; %s", name, m.Path, m.Version, k.Version, m.Path, want, advice))
		}
	}
	return errors.Join(wrong...)
}

func hasTool(mod *modfile.File, modulePath string) bool {
	for _, tool := range mod.Tool {
		if tool.Path == modulePath || strings.HasPrefix(tool.Path, modulePath+"/") {
			return true
		}
	}
	return false
}

// versionOf returns the version that a module of Kubernetes' should have, "" for
// another module. Those that are published with Kubernetes lie directly below
// k8s.io and have versions v0.x.y; others there have none, or have a major one.
func (k kubernetes) versionOf(m module.Version) string {
	name, ok := strings.CutPrefix(m.Path, "k8s.io/")
	switch {
	case !ok, strings.Contains(name, "/"):
		return ""
	case name == "kubernetes":
		return "v" + k.Version
	case semver.Major(m.Version) != "v0", module.IsPseudoVersion(m.Version):
		return ""
	default:
		return "v0." + strings.TrimPrefix(k.Version, "1.")
	}
}
