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
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
)

// newBase writes the folder of a new base of the same module: what pins the
// version, and a base.yaml like that of the base it is made from. With a commit of
// upstream that is the pin.
func (p project) newBase(name, version, commit string) error {
	from := p.base
	folder := path.Join("bases", name)
	if _, err := p.readFile(basePath(name)); err == nil {
		return fmt.Errorf("%s exists", basePath(name))
	}
	text, err := p.readFile(from.file)
	if err != nil {
		return err
	}
	src := source{dir: p.sourceDir}
	if commit != "" {
		next := *from
		next.Version, next.Commit = version, commit
		one := p
		one.base = &next
		src, err = one.source()
	} else {
		if err = p.writePin(folder, version); err == nil && src.dir == "" {
			src, err = findSource(from.Module, filepath.Join(p.dir, filepath.FromSlash(folder)))
		}
	}
	if err != nil {
		return err
	}
	k8s, err := kubernetesOf(src)
	if err != nil {
		return err
	}
	if err := p.writeNew(basePath(name), string(from.textFor(name, version, commit, k8s, string(text.content)))); err != nil {
		return err
	}
	if from.Shared != nil {
		own, err := p.onDisk()
		if err != nil {
			return err
		}
		for _, file := range sortedKeys(own) {
			if in, ok := strings.CutPrefix(file, from.Shared.Own+"/"); ok {
				if err := p.writeNew(path.Join(folder, "overlay", in), string(own[file].content)); err != nil {
					return err
				}
			}
		}
	}
	if _, err := openBase(p.dir, name); err != nil {
		return err
	}
	p.say("wrote %s: go through it. %q makes a tree of what can be ported, and says what is left", basePath(name), "make port BASE="+name+" FROM="+from.name)
	p.say("its generators are still those of %s (%s): those that upstream used for %s belong in a module of its own", from.name, from.file, version)
	return nil
}

// writePin writes the go.mod, and what needs it, that pins the version of a base.
func (p project) writePin(folder, version string) error {
	root, err := p.readFile("go.mod")
	if err != nil {
		return err
	}
	mod, err := modfile.Parse("go.mod", root.content, nil)
	if err != nil {
		return err
	}
	goMod := fmt.Sprintf("module %s/%s\n\ngo %s\n\nignore ./overlay\n\nrequire %s %s\n", mod.Module.Mod.Path, folder, mod.Go.Version, p.base.Module, version)
	if err := p.writeNew(path.Join(folder, "go.mod"), goMod); err != nil {
		return err
	}
	pin, err := p.readFile(path.Join(p.base.Pin, "pin.go"))
	if err != nil {
		return nil // it has none
	}
	return p.writeNew(path.Join(folder, "pin.go"), string(pin.content))
}

// textFor returns the text of the file for a new base: this one, but for what
// cannot be the same.
func (b *baseFile) textFor(name, version, commit, kubernetes, text string) []byte {
	set := func(key, value string) {
		line := regexp.MustCompile(`(?m)^` + key + `:.*$`)
		if line.MatchString(text) {
			text = line.ReplaceAllLiteralString(text, key+": "+value)
		} else {
			text += "\n" + key + ": " + value + "\n"
		}
	}
	folder := path.Join("bases", name)
	set("version", version)
	set("release", "1")
	if commit != "" {
		text = regexp.MustCompile(`(?m)^pin:.*\n`).ReplaceAllString(text, "")
		set("commit", commit)
	} else {
		text = regexp.MustCompile(`(?m)^commit:.*\n`).ReplaceAllString(text, "")
		set("pin", folder)
	}
	set("tree", b.Tree[:len(b.Tree)-len(b.Suffix)]+"-"+name)
	if b.Fixes != "" {
		set("fixes", folder+"/patches/fixes/series")
	}
	set("series", folder+"/patches/series")
	set("carried", folder+"/patches/carried/series")
	set("suffix", "-"+name)
	// Without modules at other versions, and go.mod files that are the old base's.
	text = regexp.MustCompile(`(?m)^kubernetes:.*\n(?:  .*\n)*`).ReplaceAllLiteralString(text, "kubernetes:\n  version: "+kubernetes+"\n")
	if b.Shared == nil {
		text += fmt.Sprintf("\nshared:\n  base: %s\n  own: %s/overlay\n", b.name, folder)
	} else {
		set("  own", folder+"/overlay")
	}
	return []byte(text)
}

// kubernetesOf returns the version of Kubernetes that a source is made with.
func kubernetesOf(src source) (string, error) {
	content, err := os.ReadFile(filepath.Join(src.dir, "go.mod"))
	if err != nil {
		return "", err
	}
	mod, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return "", err
	}
	for _, required := range mod.Require {
		if required.Mod.Path == "k8s.io/api" {
			return "1." + strings.TrimPrefix(required.Mod.Version, "v0."), nil
		}
	}
	return "", errors.New("its go.mod does not require k8s.io/api, so its version of Kubernetes is not known")
}

// writeNew writes a file of the project that does not exist yet.
func (p project) writeNew(name, content string) error {
	full := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(full, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		p.say("%s exists: left as it is", name)
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}
