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
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// besideTree is Go code of the project that uses the tree without being a part of
// it. It is written for the base that shares its overlay; rewritten like that, it
// makes a module of its own for this base.
type besideTree struct {
	From    string   // folder of the module that it is part of
	Folders []string // which folders of that are taken
	Own     string   // folder with go.mod, go.sum and the files that this base has differently
	To      string   // where it is written
}

// paths returns the paths that the entry has.
func (b besideTree) paths() []string { return append([]string{b.From, b.Own, b.To}, b.Folders...) }

func (b besideTree) check() (problems []string) {
	if b.From == "" || b.Own == "" || b.To == "" || len(b.Folders) == 0 {
		problems = append(problems, fmt.Sprintf("beside: an entry without from, folders, own or to: %+v", b))
	}
	for _, folder := range b.Folders {
		if !matches(b.From, folder) {
			problems = append(problems, fmt.Sprintf("beside: %s does not lie in %s", folder, b.From))
		}
	}
	return problems
}

// code returns the files of the module. Test data is left out.
func (b besideTree) code(p project) (map[string]file, error) {
	files := map[string]file{}
	var wrong []error
	for _, folder := range b.Folders {
		err := p.walk(folder, func(name string, f file) (err error) {
			if strings.Contains(name, "/testdata/") {
				return nil
			}
			if f.content, err = p.base.Shared.forth.rewrite(name, place{path: name}, f.content); err != nil {
				// What this base has for itself need not be like the shared one.
				if _, missing := os.Stat(filepath.Join(p.dir, b.Own, strings.TrimPrefix(name, b.From+"/"))); missing != nil {
					wrong = append(wrong, fmt.Errorf("%w; if it has to differ, let this base have one of its own in %s", err, b.Own))
				}
			}
			files[strings.TrimPrefix(name, b.From+"/")] = f
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	err := p.walk(b.Own, func(name string, f file) error {
		in := strings.TrimPrefix(name, b.Own+"/")
		if common, ok := files[in]; ok && common.equal(f) {
			wrong = append(wrong, fmt.Errorf("%s has nothing but what the shared %s gives: remove it", name, path.Join(b.From, in)))
		}
		files[in] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, ok := files["go.mod"]; !ok {
		wrong = append(wrong, fmt.Errorf("%s has no go.mod", b.Own))
	}
	return files, errors.Join(wrong...)
}

// walk calls do with all files of a folder of the project.
func (p project) walk(folder string, do func(name string, f file) error) error {
	return filepath.WalkDir(filepath.Join(p.dir, filepath.FromSlash(folder)), func(full string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(p.dir, full)
		if err != nil {
			return err
		}
		f, err := p.readFile(filepath.ToSlash(name))
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(name), f)
	})
}

// writeBeside writes the modules that use the tree, for this base.
func (p project) writeBeside() error {
	if p.base.Shared == nil || len(p.base.Shared.Beside) == 0 {
		return fmt.Errorf("%s has no shared.beside: what uses the tree is written for this base", p.base.file)
	}
	for _, b := range p.base.Shared.Beside {
		files, err := b.code(p)
		if err != nil {
			return err
		}
		if err := p.replaceFolder(b.To, files); err != nil {
			return err
		}
		p.say("%s is %s for this base: %d files", b.To, strings.Join(b.Folders, ", "), len(files))
	}
	return nil
}

// replaceFolder has the folder of the project hold these files and no others.
func (p project) replaceFolder(folder string, files map[string]file) error {
	if _, err := os.Stat(filepath.Join(p.dir, folder)); err == nil {
		err := p.walk(folder, func(name string, _ file) error {
			if _, ok := files[strings.TrimPrefix(name, folder+"/")]; ok {
				return nil
			}
			return os.Remove(filepath.Join(p.dir, name))
		})
		if err != nil {
			return err
		}
	}
	for name, f := range files {
		full := filepath.Join(p.dir, folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.content, f.mode()); err != nil {
			return err
		}
	}
	return nil
}
