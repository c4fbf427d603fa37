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
	dir          string   // the repository that holds patches and overlay
	series       string   // the series file, relative to dir; its patches lie next to it
	otherSeries  []string // series of other bases: what they list or claim is left alone
	overlayRoots []string // where new files may stand, in the project as in the tree
	tree         string   // the patched tree
	generators   string   // the module that pins the code generators, "" for none

	module, pin, baseDir string // see findBase

	out io.Writer // progress
}

// say prints a line of progress.
func (p project) say(format string, args ...any) {
	fmt.Fprintf(p.out, "patchset: "+format+"\n", args...)
}

func (p project) base() (base, error) {
	b, err := findBase(p.module, p.pin, p.baseDir)
	if err == nil {
		p.say("base is %s", b.name)
	}
	return b, err
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
	patches []patch
	overlay map[string]file
	dir     string // where the patches lie, relative to the project
	series  string // the series file, relative to the project
}

// files returns everything that the project keeps for the patch set.
func (s patchSet) files() map[string]file {
	files := map[string]file{}
	var names strings.Builder
	for _, p := range s.patches {
		names.WriteString(p.name + "\n")
		files[path.Join(s.dir, p.name)] = file{content: p.render()}
	}
	files[s.series] = file{content: []byte(names.String())}
	for name, f := range s.overlay {
		files[name] = f
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
	for _, root := range p.overlayRoots {
		if strings.HasPrefix(name, root+"/") {
			return root
		}
	}
	return ""
}

// others returns the files that belong to the patch sets of other bases.
func (p project) others() (map[string]bool, error) {
	others := map[string]bool{}
	for _, series := range p.otherSeries {
		content, err := os.ReadFile(filepath.Join(p.dir, series))
		if err != nil {
			return nil, err
		}
		others[series] = true
		for _, name := range seriesNames(content) {
			name = path.Join(path.Dir(series), name)
			others[name] = true
			content, err := os.ReadFile(filepath.Join(p.dir, name))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", series, err)
			}
			other, err := parsePatch(name, content)
			if err != nil {
				return nil, err
			}
			for _, claimed := range other.msg.values(trailerOverlay) {
				others[claimed] = true
			}
		}
	}
	return others, nil
}

// onDisk returns all files of the project that belong to a patch set or seem
// to: series, patches, and what lies in the overlay's folders.
func (p project) onDisk() (map[string]file, error) {
	folders := []string{path.Dir(p.series)}
	for _, root := range p.overlayRoots {
		top, _, _ := strings.Cut(root, "/")
		if !slices.Contains(folders, top) {
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
			info, err := os.Stat(full)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(full)
			files[filepath.ToSlash(name)] = file{content: content, executable: info.Mode()&0o100 != 0}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// readme is the one file next to the patches that is not of the patch set.
func (p project) readme() string { return path.Join(path.Dir(p.series), "README.md") }

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
		if _, ok := want[name]; !ok && (others[name] || name == p.readme()) {
			delete(disk, name)
		}
	}
	return disk, nil
}

// load reads the patch set and checks all that can be seen without applying it.
func (p project) load(b base) (patchSet, error) {
	set := patchSet{overlay: map[string]file{}, dir: path.Dir(p.series), series: p.series}
	disk, err := p.onDisk()
	if err != nil {
		return set, err
	}
	others, err := p.others()
	if err != nil {
		return set, err
	}
	series, ok := disk[p.series]
	if !ok {
		p.say("%s does not exist yet: the patch set is empty", p.series)
	}
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	claims := map[string]string{} // overlay file -> the patch that claims it
	listed := map[string]bool{p.series: true}
	for _, name := range seriesNames(series.content) {
		full := path.Join(set.dir, name)
		if listed[full] {
			complain("%s lists %s twice", p.series, name)
			continue
		}
		listed[full] = true
		f, ok := disk[full]
		if !ok {
			complain("%s lists %s, which does not exist", p.series, name)
			continue
		}
		one, err := parsePatch(name, f.content)
		if err != nil {
			complain("%w", err)
			continue
		}
		set.patches = append(set.patches, one)
		for _, part := range one.files() {
			switch {
			case part.creates:
				complain("%s creates %s: a new file belongs to the overlay (put it at %s here and name it in an %q trailer of the patch)", name, part.path, part.path, trailerOverlay+":")
			case isGenerated(part.path):
				complain("%s changes %s, which is generated: \"make tree\" makes it anew, take it out of the patch", name, part.path)
			}
		}
		for _, claimed := range one.msg.values(trailerOverlay) {
			f, ok := disk[claimed]
			switch {
			case claims[claimed] != "":
				complain("%s is claimed by %s and by %s", claimed, claims[claimed], name)
			case p.overlayRoot(claimed) == "":
				complain("%s claims %s, which is outside of the overlay (%s)", name, claimed, strings.Join(p.overlayRoots, ", "))
			case isGenerated(claimed):
				complain("%s claims %s, which is a generated file", name, claimed)
			case !ok:
				complain("%s claims %s, which does not exist", name, claimed)
			case b.has(claimed):
				complain("%s exists in %s: the overlay only adds files, a change to it belongs into the patch as a hunk", claimed, b.name)
			}
			claims[claimed] = name
			set.overlay[claimed] = f
		}
	}
	for _, name := range sortedKeys(disk) {
		switch {
		case listed[name] || claims[name] != "" || others[name] || name == p.readme():
		case path.Dir(name) == set.dir:
			complain("%s is not listed in %s: list it or remove it", name, p.series)
		default:
			complain("%s is claimed by no patch: name it in an %q trailer of the patch that it belongs to, or remove it", name, trailerOverlay+":")
		}
	}
	return set, errors.Join(wrong...)
}

// has tells whether a file is part of the base.
func (b base) has(name string) bool {
	_, err := os.Lstat(filepath.Join(b.dir, filepath.FromSlash(name)))
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
