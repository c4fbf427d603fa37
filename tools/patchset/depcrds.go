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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// copyDependencyCRDs copies the CRDs of other modules to the tree, where
// upstream's suites read them, and writes those of upstream as they want them.
func (p project) copyDependencyCRDs() error {
	for _, crds := range p.base.DependencyCRDs {
		root, err := moduleDir(p.tree, crds.Module)
		if err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(crds.From), "*.yaml"))
		if err != nil {
			return err
		}
		for _, without := range crds.Without {
			at := slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == without })
			if at < 0 {
				return fmt.Errorf("%s has no %s/%s, which %s leaves out: take it out there", crds.Module, crds.From, without, p.base.file)
			}
			files = slices.Delete(files, at, at+1)
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no YAML files in %s: correct dependencyCRDs in %s", crds.Module, crds.From, p.base.file)
		}
		to := filepath.Join(p.tree, filepath.FromSlash(crds.To))
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
			return err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o644); err != nil {
				return err
			}
		}
		p.say("%s: files in %s: %d", crds.Module, crds.To, len(files))
	}
	return p.writeKustomizedCRDs()
}

// writeKustomizedCRDs writes what upstream's kustomization makes of its CRDs.
func (p project) writeKustomizedCRDs() error {
	crds := p.base.KustomizedCRDs
	if crds == nil {
		return nil
	}
	from, to := filepath.Join(p.tree, filepath.FromSlash(crds.From)), filepath.Join(p.tree, filepath.FromSlash(crds.To))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), from)
	if err != nil {
		return fmt.Errorf("kustomize %s of the tree, which %s names: %w", crds.From, p.base.file, err)
	}
	content, err := resources.AsYaml()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	p.say("CRDs in %s: %d", crds.To, resources.Size())
	return os.WriteFile(to, content, 0o644)
}

// moduleDir returns where the files of a module lie that the module in dir
// requires. It downloads them if need be.
func moduleDir(dir, module string) (string, error) {
	list := func() (string, error) {
		out, err := goOutput(dir, "list", "-m", "-f", "{{.Dir}}", module)
		return strings.TrimSpace(out), err
	}
	root, err := list()
	if err != nil || root != "" {
		return root, err
	}
	if _, err := goOutput(dir, "mod", "download", module); err != nil {
		return "", err
	}
	return list()
}

// goOutput runs go in a directory and returns what it prints.
func goOutput(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), goEnv...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %s", strings.Join(args, " "), failure(err))
	}
	return string(out), nil
}
