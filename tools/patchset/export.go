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
	"path/filepath"
	"slices"
	"strings"
)

var errNothingToExport = errors.New("the tree has no commit of ours on its base: there is nothing to export")

// collect reads the patch set from the commits of the tree.
func (p project) collect(r gitRepo, baseCommit string) (patchSet, error) {
	set := patchSet{overlay: map[string]overlayFile{}, base: p.base}
	disk, err := p.onDisk()
	if err != nil {
		return set, err
	}
	if err := checkRoot(r, baseCommit); err != nil {
		return set, fmt.Errorf("cannot export %s: %w", p.tree, err)
	}
	list, err := r.text("rev-list", "--reverse", "--topo-order", "--parents", "HEAD")
	if err != nil {
		return set, err
	}
	upstream, err := r.items("ls-tree", "-r", "-z", "--name-only", baseCommit)
	if err != nil {
		return set, err
	}
	c := collector{project: p, repo: r, disk: disk, set: &set, upstream: map[string]bool{}, madeBy: map[string]string{}}
	for _, name := range upstream {
		c.upstream[name] = true
	}
	for line := range strings.SplitSeq(list, "\n") {
		commits := strings.Fields(line)
		switch len(commits) {
		case 1: // the base
		case 2:
			if err := c.add(commits[1], commits[0]); err != nil {
				return set, err
			}
		default:
			return set, fmt.Errorf("commit %.12s is a merge: make the history linear with \"git rebase\" in %s", commits[0], p.tree)
		}
	}
	if len(set.patches) == 0 && len(c.wrong) == 0 {
		return set, errNothingToExport
	}
	return set, errors.Join(c.wrong...)
}

// collector gathers the patches commit by commit, and what is wrong with them.
type collector struct {
	project  project
	repo     gitRepo
	disk     map[string]file // the project's
	set      *patchSet
	upstream map[string]bool
	madeBy   map[string]string // new file -> subject of the commit that made it
	api      []string          // subjects of the commits that change the API
	feature  string            // subject of the last commit that is no fix of the base
	carried  string            // subject of the last commit that is carried
	wrong    []error
}

// add turns a commit into a patch. It collects complaints in c.wrong; an error
// means that git failed.
func (c *collector) add(parent, commit string) error {
	text, err := c.repo.run(nil, "log", "-1", "--format=%B", commit)
	if err != nil {
		return err
	}
	msg := parseMessage(string(text))
	complain := func(format string, args ...any) {
		c.wrong = append(c.wrong, fmt.Errorf("commit %.12s %q %s", commit, msg.subject, fmt.Sprintf(format, args...)))
	}
	changes, err := c.changes(parent, commit)
	if err != nil {
		return err
	}
	changes, generated := c.withoutGenerated(changes)
	if c.isGeneratedFixup(msg, changes, generated) {
		return nil
	}
	c.checkPlace(msg, changes, generated, complain)
	if err := msg.check(); err != nil {
		complain("is not ready:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	if len(changes) == 0 && len(generated) == 0 {
		complain("changes nothing: drop it")
	}
	var hunks, overlay []string
	for _, change := range changes {
		switch {
		case c.upstream[change.path] && change.status == "A":
			complain("adds %s again, which an earlier commit removed: squash the two", change.path)
		case c.upstream[change.path]:
			hunks = append(hunks, change.path)
		case change.status != "A":
			complain("changes %s, which the commit %q made: a new file belongs to one patch, squash the two (git rebase --interactive)", change.path, c.madeBy[change.path])
		case c.madeBy[change.path] != "":
			complain("makes %s, which the commit %q made before: squash the two", change.path, c.madeBy[change.path])
		case c.project.overlayRoot(change.path) == "":
			complain("makes %s, which is outside of the overlay (%s): move it there", change.path, strings.Join(c.project.base.Overlay, ", "))
		case change.mode != "100644" && change.mode != "100755":
			complain("makes %s, which is no ordinary file", change.path)
		default:
			c.madeBy[change.path] = msg.subject
			content, err := c.repo.run(nil, "cat-file", "blob", change.blob)
			if err != nil {
				return err
			}
			overlay = append(overlay, change.path)
			f := file{content: content, executable: change.mode == "100755"}
			if c.set.overlay[change.path], err = c.project.overlayOf(c.disk, change.path, f); err != nil {
				complain("makes %s: %v", change.path, err)
			}
		}
	}
	one := patch{name: msg.fileName(), msg: msg.withOverlay(overlay)}
	if slices.ContainsFunc(c.set.patches, func(other patch) bool { return other.name == one.name }) {
		complain("has the same file name (%s) as another patch: change its subject", one.name)
	}
	if len(hunks) > 0 {
		args := append([]string{"--literal-pathspecs", "diff-tree", "-p", "--full-index", "--binary", "--no-renames", "--no-color",
			"--no-ext-diff", "--no-textconv", "--unified=3", "--diff-algorithm=myers", parent, commit, "--"}, hunks...)
		if one.diff, err = c.repo.run(nil, args...); err != nil {
			return err
		}
	}
	c.set.patches = append(c.set.patches, one)
	return nil
}

// fixup begins the subject of a commit that "git rebase --autosquash" puts into
// an earlier one.
const fixup = "fixup! "

// isGeneratedFixup tells whether a commit is one that "make generate" leaves: it
// has generated code alone, which belongs to an earlier commit.
func (c *collector) isGeneratedFixup(msg message, changes, generated []change) bool {
	target, ok := strings.CutPrefix(msg.subject, fixup)
	return ok && len(changes) == 0 && len(generated) > 0 && slices.Contains(c.api, target)
}

// checkPlace complains about a commit that has what belongs to another one, or
// stands where it cannot be exported from.
func (c *collector) checkPlace(msg message, changes, generated []change, complain func(string, ...any)) {
	base := c.project.base
	if strings.HasPrefix(msg.subject, fixup) {
		complain("belongs to an earlier one: put them together with \"git rebase --interactive --autosquash base\"")
	}
	if slices.ContainsFunc(changes, func(change change) bool { return base.isSource(change.path) }) {
		c.api = append(c.api, msg.subject)
	} else if len(generated) > 0 {
		complain("changes %s, which is generated, and not what it is made from (%s): take it out of the commit; \"make generate\" puts it with the commit that changes the API",
			generated[0].path, strings.Join(base.Generated.Sources, ", "))
	}
	switch {
	case msg.isFix() && base.Fixes == "":
		complain("is a fix of the base (%s), but %s names no series for such patches: say \"fixes: ...\" there", trailerKind, base.file)
	case msg.isFix() && msg.isCarried():
		complain("is a fix of the base (%s), and carried (%s): say one of the two", trailerKind, trailerStatus)
	case msg.isFix() && c.feature != "":
		complain("is a fix of the base, which stands without the others, but comes after %q: put it before (git rebase --interactive base)", c.feature)
	}
	if !msg.isFix() {
		c.feature = msg.subject
	}
	switch {
	case msg.isCarried() && base.Carried == "":
		complain("is carried (%s), but %s names no series for such patches: say \"carried: ...\" there", trailerStatus, base.file)
	case msg.isCarried():
		c.carried = msg.subject
	case c.carried != "":
		complain("stands after %q, which is carried, and upstream would get it without that one: put it before (git rebase --interactive base)", c.carried)
	}
}

// withoutGenerated takes the generated files out of the changes.
func (c *collector) withoutGenerated(all []change) (changes, generated []change) {
	for _, change := range all {
		if c.project.base.isGenerated(change.path) {
			generated = append(generated, change)
		} else {
			changes = append(changes, change)
		}
	}
	return changes, generated
}

// change is a file that a commit changes.
type change struct{ status, mode, blob, path string }

// changes returns the files that differ between two commits.
func (c *collector) changes(parent, commit string) ([]change, error) {
	items, err := c.repo.items("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", parent, commit)
	if err != nil {
		return nil, err
	}
	var changes []change
	for i := 0; i+1 < len(items); i += 2 { // ":oldmode newmode oldblob newblob status", then the path
		fields := strings.Fields(items[i])
		changes = append(changes, change{status: fields[4], mode: fields[1], blob: fields[3], path: items[i+1]})
	}
	return changes, nil
}

// export writes the commits of the tree to the project as patches, series and
// overlay files, and removes those that are no longer part of it.
func (p project) export(force bool) error {
	r, err := p.openTree()
	if err != nil {
		return err
	}
	changed, err := r.dirty()
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("%s has changes that are not committed:\n  %s\nCommit them (a fix of an earlier patch with \"git commit --fixup\" and \"git rebase --autosquash\"), then run \"make export\" again", p.tree, firstOf(changed))
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	baseCommit, err := commitBase(r, src)
	if err != nil {
		return err
	}
	set, err := p.collect(r, baseCommit)
	if err != nil {
		return err
	}
	ignored, err := r.items(append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"}, p.base.Overlay...)...)
	if err == nil && len(ignored) > 0 {
		p.say("note: git ignores these files in the overlay's folders, so they are not exported:\n  %s", firstOf(ignored))
	}
	if err := p.write(set, readStamp(r), force); err != nil {
		return err
	}
	now := readStamp(r)
	now.Head, now.Files = r.head(), checksums(set.files())
	now.Input = "" // the next "make tree" builds anew, generated code included
	return now.write(r)
}

// write brings the project's files to those of the set. Unless forced, it
// refuses to undo what was done to them since the tree knew them, by hand or by
// git: committed or not, the tree was not made from it.
func (p project) write(set patchSet, known stamp, force bool) error {
	want := set.files()
	disk, err := p.ours(want)
	if err != nil {
		return err
	}
	todo := differences(disk, want)
	now := checksums(disk)
	var newer []string
	for _, name := range todo {
		if now[name] != known.Files[name] {
			newer = append(newer, name)
		}
	}
	if len(newer) > 0 && !force {
		return fmt.Errorf("these files were changed, added or removed here after the last \"make tree\" or \"make export\", and the tree would undo that:\n  %s\n"+
			"Run \"make tree\" first, which takes them into the tree. If the tree has commits that are not exported, \"make tree FORCE=1\" puts these aside in a branch: \"git cherry-pick\" them from there, then run \"make export\" again.\n"+
			"To undo what was done here, say \"make export FORCE=1\"", firstOf(newer))
	}
	for _, name := range todo {
		full := filepath.Join(p.dir, filepath.FromSlash(name))
		f, ok := want[name]
		if !ok {
			p.say("removed %s", name)
			if err := os.Remove(full); err != nil {
				return err
			}
			for dir := filepath.Dir(full); dir != p.dir && os.Remove(dir) == nil; {
				dir = filepath.Dir(dir)
			}
			continue
		}
		p.say("wrote %s", name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.content, f.mode()); err != nil {
			return err
		}
		if err := os.Chmod(full, f.mode()); err != nil {
			return err
		}
	}
	p.say("%d patches and %d overlay files exported, %d files changed", len(set.patches), len(set.overlay), len(todo))
	return p.tellOthers(todo)
}

// differences returns the names of the files that two sets do not share.
func differences(a, b map[string]file) []string {
	var names []string
	for _, name := range sortedKeys(a) {
		if other, ok := b[name]; !ok || !other.equal(a[name]) {
			names = append(names, name)
		}
	}
	for _, name := range sortedKeys(b) {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
