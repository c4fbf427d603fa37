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
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// project is where the patch set is kept and how it is laid out.
type project struct {
	dir  string    // the repository that holds patches and overlay
	base *baseFile // what the patches stand on
	tree string    // the patched tree

	sourceDir string   // take the base's source from here, not from a module
	upstream  string   // upstream's git, for a base that is a commit
	own       []string // files of the tree that export is to keep for this base alone

	out io.Writer // progress
}

// say prints a line of progress.
func (p project) say(format string, args ...any) {
	fmt.Fprintf(p.out, "patchset: "+format+"\n", args...)
}

// source finds the base's source.
func (p project) source() (source, error) {
	if p.sourceDir != "" {
		return source{name: filepath.Base(p.sourceDir), dir: p.sourceDir}, nil
	}
	if p.base.Commit != "" {
		return p.sourceOfCommit()
	}
	return findSource(p.base.Module, filepath.Join(p.dir, filepath.FromSlash(p.base.Pin)))
}

// file is the content of a file in the project or the tree.
type file struct {
	content    []byte
	executable bool
}

func (f file) equal(other file) bool {
	return f.executable == other.executable && bytes.Equal(f.content, other.content)
}

func (f file) mode() fs.FileMode {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// patchSet is the series with its patches, and the overlay files by path.
type patchSet struct {
	patches []patch // fixes of the base first, those that are carried last
	overlay map[string]overlayFile
	base    *baseFile
}

// seriesOf returns the series file that lists a patch.
func (s patchSet) seriesOf(p patch) string {
	switch {
	case p.msg.isFix():
		return s.base.Fixes
	case p.msg.isCarried():
		return s.base.Carried
	}
	return s.base.Series
}

// fixes returns the patches that fix defects of the base.
func (s patchSet) fixes() []patch {
	end := 0
	for end < len(s.patches) && s.patches[end].msg.isFix() {
		end++
	}
	return s.patches[:end]
}

// forUpstream returns the patches that upstream is asked to take.
func (s patchSet) forUpstream() []patch {
	end := len(s.patches)
	for end > 0 && s.patches[end-1].msg.isCarried() {
		end--
	}
	return s.patches[:end]
}

// files returns everything that the project keeps for the patch set.
func (s patchSet) files() map[string]file {
	files := map[string]file{}
	names := map[string][]byte{s.base.Series: nil}
	for _, p := range s.patches {
		series := s.seriesOf(p)
		names[series] = append(names[series], p.name+"\n"...)
		files[path.Join(path.Dir(series), p.name)] = file{content: p.render()}
	}
	for series, content := range names {
		files[series] = file{content: content}
	}
	for _, f := range s.overlay {
		files[f.place] = f.kept
	}
	return files
}

// seriesNames reads the patch names of a series file: one a line, "#" begins a
// comment.
func seriesNames(content []byte) []string {
	var names []string
	for line := range strings.SplitSeq(string(content), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			names = append(names, line)
		}
	}
	return names
}

// overlayRoot returns the overlay root that a path lies in, "" if in none.
func (p project) overlayRoot(name string) string {
	for _, root := range p.base.Overlay {
		if strings.HasPrefix(name, root+"/") {
			return root
		}
	}
	return ""
}

// others returns the files that belong to the patch sets of other bases.
func (p project) others() (map[string]bool, error) {
	names, err := baseNames(p.dir)
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, name := range names {
		if name == p.base.name {
			continue
		}
		other, err := openBase(p.dir, name)
		if err != nil {
			return nil, err
		}
		listed, claims, err := p.listed(other)
		if err != nil {
			return nil, err
		}
		if other.Shared != nil {
			claims = nil // they are this base's files, or lie elsewhere
		}
		for _, name := range append(listed, claims...) {
			others[name] = true
		}
	}
	return others, nil
}

// listed returns the series of a base with the patches that these list, and the
// files of the tree that the patches claim.
func (p project) listed(base *baseFile) (listed, claims []string, err error) {
	for _, series := range base.seriesFiles() {
		f, err := p.readFile(series)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		listed = append(listed, series)
		for _, name := range seriesNames(f.content) {
			name = path.Join(path.Dir(series), name)
			f, err := p.readFile(name)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", series, err)
			}
			patch, err := parsePatch(name, f.content)
			if err != nil {
				return nil, nil, err
			}
			listed = append(listed, name)
			claims = append(claims, patch.msg.values(trailerOverlay)...)
		}
	}
	return listed, claims, nil
}

// onDisk returns all files of the project that belong to a patch set or seem
// to: series, patches, and what lies in the overlay's folders. Of an overlay that
// another base shares, it has the files that that one claims.
func (p project) onDisk() (map[string]file, error) {
	var folders []string
	for _, series := range p.base.seriesFiles() {
		folders = append(folders, path.Dir(series))
	}
	if p.base.Shared != nil {
		folders = append(folders, p.base.Shared.Own)
	} else {
		for _, root := range p.base.Overlay {
			top, _, _ := strings.Cut(root, "/")
			folders = append(folders, top)
		}
	}
	files := map[string]file{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(p.dir, folder), func(full string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || (err == nil && entry.IsDir()) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(p.dir, full)
			if err != nil {
				return err
			}
			name = filepath.ToSlash(name)
			files[name], err = p.readFile(name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	shared, err := p.sharedFiles()
	for _, name := range shared {
		f, err := p.readFile(name)
		if err == nil {
			files[name] = f
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return files, err
}

// isReadme tells whether a file is the one next to a series that is not of the
// patch set.
func (p project) isReadme(name string) bool {
	return slices.ContainsFunc(p.base.seriesFiles(), func(series string) bool {
		return name == path.Join(path.Dir(series), "README.md")
	})
}

// ours returns the files on disk that should be those of want.
func (p project) ours(want map[string]file) (map[string]file, error) {
	disk, err := p.onDisk()
	if err != nil {
		return nil, err
	}
	others, err := p.others()
	if err != nil {
		return nil, err
	}
	for name := range disk {
		if _, ok := want[name]; !ok && (others[name] || p.isReadme(name)) {
			delete(disk, name)
		}
	}
	return disk, nil
}

// load reads the patch set and checks all that can be seen without applying it.
func (p project) load(src source) (patchSet, error) {
	set := patchSet{overlay: map[string]overlayFile{}, base: p.base}
	disk, err := p.onDisk()
	if err != nil {
		return set, err
	}
	others, err := p.others()
	if err != nil {
		return set, err
	}
	if _, ok := disk[p.base.Series]; !ok {
		p.say("%s does not exist yet: the patch set is empty", p.base.Series)
	}
	shared, err := p.sharedFiles()
	if err != nil {
		return set, err
	}
	l := loader{project: p, source: src, disk: disk, shared: shared, set: &set, listed: map[string]bool{}, claims: map[string]string{}, used: map[string]bool{}}
	for _, series := range p.base.seriesFiles() {
		l.readSeries(series)
	}
	for _, name := range sortedKeys(disk) {
		switch {
		case l.listed[name] || l.used[name] || others[name] || p.isReadme(name):
		case p.isOfSeries(name):
			l.complain("%s is not listed in the series next to it: list it or remove it", name)
		default:
			l.complain("%s is claimed by no patch: name it in an %q trailer of the patch that it belongs to, or remove it", name, trailerOverlay+":")
		}
	}
	l.checkShared()
	return set, errors.Join(l.wrong...)
}

// loader gathers the patches from the files of the project, and what is wrong
// with them.
type loader struct {
	project project
	source  source
	disk    map[string]file
	shared  []string // files of the overlay that another base shares
	set     *patchSet
	listed  map[string]bool   // series files, and the patch files that they list
	claims  map[string]string // file that is added to the tree -> the patch that claims it
	used    map[string]bool   // where the project keeps these
	wrong   []error
}

func (l *loader) complain(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Errorf(format, args...))
}

// readSeries adds the patches of a series file.
func (l *loader) readSeries(series string) {
	l.listed[series] = true
	for _, name := range seriesNames(l.disk[series].content) {
		full := path.Join(path.Dir(series), name)
		if l.listed[full] {
			l.complain("%s lists %s twice", series, name)
			continue
		}
		l.listed[full] = true
		f, ok := l.disk[full]
		if !ok {
			l.complain("%s lists %s, which does not exist", series, name)
			continue
		}
		one, err := parsePatch(name, f.content)
		if err != nil {
			l.complain("%w", err)
			continue
		}
		l.add(one)
	}
}

// add adds a patch with its overlay files.
func (l *loader) add(one patch) {
	l.set.patches = append(l.set.patches, one)
	isGenerated := l.project.base.isGenerated
	for _, part := range one.files() {
		switch {
		case part.creates:
			l.complain("%s creates %s: a new file belongs to the overlay (put it at %s here and name it in an %q trailer of the patch)", one.name, part.path, part.path, trailerOverlay+":")
		case isGenerated(part.path):
			l.complain("%s changes %s, which is generated: \"make tree\" makes it anew, take it out of the patch", one.name, part.path)
		}
	}
	for _, claimed := range one.msg.values(trailerOverlay) {
		f, err := l.project.base.overlayFrom(l.disk, claimed)
		switch {
		case l.claims[claimed] != "":
			l.complain("%s is claimed by %s and by %s", claimed, l.claims[claimed], one.name)
		case l.project.overlayRoot(claimed) == "":
			l.complain("%s claims %s, which is outside of the overlay (%s)", one.name, claimed, strings.Join(l.project.base.Overlay, ", "))
		case isGenerated(claimed):
			l.complain("%s claims %s, which is a generated file", one.name, claimed)
		case err != nil:
			l.complain("%s claims %s, %w", one.name, claimed, err)
		case l.source.has(claimed):
			l.complain("%s exists in %s: the overlay only adds files, a change to it belongs into the patch as a hunk", claimed, l.source.name)
		}
		l.claims[claimed] = one.name
		l.used[f.place] = true
		l.set.overlay[claimed] = f
	}
}

// has tells whether a file is part of the base.
func (s source) has(name string) bool {
	if s.dir == "" { // nothing is known of it
		return false
	}
	_, err := os.Lstat(filepath.Join(s.dir, filepath.FromSlash(name)))
	return err == nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
