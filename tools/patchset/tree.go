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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// buildCommits makes a commit for each patch, with its hunks, its overlay files
// and, if it changes the API, the generated code, on the base commit. It only
// writes objects: index, branch and files of the tree stay as they are, also when
// a patch does not apply.
func (p project) buildCommits(r gitRepo, src source, baseCommit string, set patchSet) ([]string, error) {
	index, remove, err := tempIndex()
	if err != nil {
		return nil, err
	}
	defer remove()
	ri := r.withIndex(index)
	if _, err := ri.run(nil, "read-tree", baseCommit); err != nil {
		return nil, err
	}
	var commits []string
	parent := baseCommit
	for _, one := range set.patches {
		if len(one.diff) > 0 {
			if _, err := ri.run(one.diff, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
				return nil, one.explain(err)
			}
		}
		var entries strings.Builder
		for _, name := range one.msg.values(trailerOverlay) {
			f := set.overlay[name]
			blob, err := ri.run(f.content, "hash-object", "-w", "--stdin")
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&entries, "100%o %s\t%s\n", f.mode(), strings.TrimSpace(string(blob)), name)
		}
		if _, err := ri.run([]byte(entries.String()), "update-index", "--add", "--index-info"); err != nil {
			return nil, err
		}
		if p.base.needsGenerated(one) {
			p.say("generating code for %s", one.name)
			if err := p.addGenerated(ri, src); err != nil {
				return nil, fmt.Errorf("after %s: %w", one.name, err)
			}
		}
		tree, err := ri.text("write-tree")
		if err != nil {
			return nil, err
		}
		if parent, err = r.commitTree(tree, parent, one.msg.String()); err != nil {
			return nil, err
		}
		commits = append(commits, parent)
	}
	return commits, nil
}

// stamp is what the tool remembers in a tree's .git about its last run there.
type stamp struct {
	Input string            // what "make tree" made the tree from, "" if it did not
	Head  string            // the commit that was checked out: all below it is kept in the project
	Files map[string]string // the project's files then, as they were on disk, with their checksums
}

func stampPath(r gitRepo) string { return filepath.Join(r.gitDir(), "patchset.json") }

func readStamp(r gitRepo) stamp {
	var s stamp
	if content, err := os.ReadFile(stampPath(r)); err == nil {
		_ = json.Unmarshal(content, &s) // an unreadable stamp is as good as none
	}
	return s
}

func (s stamp) write(r gitRepo) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(stampPath(r), content, 0o644)
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func checksums(files map[string]file) map[string]string {
	sums := map[string]string{}
	for name, f := range files {
		sums[name] = checksum(f.content)
		if f.executable {
			sums[name] += " executable"
		}
	}
	return sums
}

// openTree returns the repository of the tree, which must exist.
func (p project) openTree() (gitRepo, error) {
	r := gitRepo{dir: p.tree}
	if _, err := os.Stat(r.gitDir()); err != nil {
		return r, fmt.Errorf("there is no tree in %s: run \"make tree\" first", p.tree)
	}
	if r.head() == "" {
		return r, fmt.Errorf("the tree in %s has no commits: run \"make tree\" first", p.tree)
	}
	if op := r.unfinished(); op != "" {
		return r, fmt.Errorf("a git %s is not finished in %s: end it (git %s --continue) or drop it (git %s --abort) first", op, p.tree, op, op)
	}
	return r, nil
}

// makeTree makes the patched tree, or brings it up to date. It refuses to
// throw away work, unless forced: then it is kept in a branch and a stash.
func (p project) makeTree(force bool) error {
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s", src.name)
	set, err := p.load(src)
	if err != nil {
		return err
	}
	r := gitRepo{dir: p.tree}
	if entries, err := os.ReadDir(p.tree); err == nil && len(entries) > 0 {
		if _, err := os.Stat(r.gitDir()); err != nil {
			return fmt.Errorf("%s exists and is no tree of this tool: name another one (TREE=...) or remove it", p.tree)
		}
	}
	if r, err = initRepo(p.tree); err != nil {
		return err
	}
	baseCommit, err := commitBase(r, src)
	if err != nil {
		return err
	}
	if r.head() != "" {
		if err := p.keepWork(r, baseCommit, set, force); err != nil {
			return err
		}
	}
	input, err := p.input(baseCommit, set)
	if err != nil {
		return err
	}
	disk, err := p.ours(set.files())
	if err != nil {
		return err
	}
	now := stamp{Input: input, Head: r.head(), Files: checksums(disk)}
	if before := readStamp(r); before.Input == now.Input && before.Head == now.Head {
		p.say("%s is up to date: %d patches", p.tree, len(set.patches))
		return now.write(r)
	}
	commits, err := p.buildCommits(r, src, baseCommit, set)
	if err != nil {
		return err
	}
	if _, err := r.run(nil, "tag", "--force", "base", baseCommit); err != nil { // for "git rebase --interactive base"
		return err
	}
	now.Head = baseCommit
	if len(commits) > 0 {
		now.Head = commits[len(commits)-1]
	}
	if _, err := r.run(nil, "reset", "--quiet", "--hard", now.Head); err != nil {
		return err
	}
	p.say("%s: %d patches applied", p.tree, len(commits))
	return now.write(r)
}

// input identifies all that a tree is made from.
func (p project) input(baseCommit string, set patchSet) (string, error) {
	generators, err := p.generatorsKey()
	if err != nil {
		return "", err
	}
	files, err := json.Marshal(checksums(set.files()))
	return checksum(fmt.Appendf(nil, "%s %s %s", baseCommit, generators, files)), err
}

// keepWork refuses to go on when the tree holds work that is not kept in the
// project. When forced, it puts such work aside.
func (p project) keepWork(r gitRepo, baseCommit string, set patchSet, force bool) error {
	if _, err := p.openTree(); err != nil {
		return err
	}
	known := readStamp(r)
	if known.Head == "" {
		if err := checkRoot(r, baseCommit); err != nil {
			return fmt.Errorf("%s is no tree of this tool: name another one (TREE=...) or remove it (%w)", p.tree, err)
		}
	}
	changed, err := r.dirty()
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		if !force {
			return fmt.Errorf("%s has changes that are not committed:\n  %s\nCommit them and run \"make export\", or put them aside with \"make tree FORCE=1\"", p.tree, firstOf(changed))
		}
		if _, err := r.run(nil, "stash", "push", "--quiet", "--include-untracked", "--message", "put aside by make tree FORCE=1"); err != nil {
			return err
		}
		p.say("uncommitted changes are kept in the tree's \"git stash list\"")
	}
	if r.head() == known.Head {
		return nil
	}
	inTree, err := p.collect(r, baseCommit)
	if err == nil && len(differences(set.files(), inTree.files())) == 0 {
		return nil
	}
	if errors.Is(err, errNothingToExport) {
		return nil
	}
	if !force {
		why := "they differ from the project's patches"
		if err != nil {
			why = err.Error()
		}
		return fmt.Errorf("%s has commits that are not exported (%s).\nRun \"make export\" to keep them, or put them aside in a branch with \"make tree FORCE=1\"", p.tree, why)
	}
	branch := "put-aside/" + r.head()[:12]
	if _, err := r.run(nil, "branch", "--force", branch, "HEAD"); err != nil {
		return err
	}
	p.say("commits that were not exported are kept in the tree's branch %s", branch)
	return nil
}

// checkRoot tells whether the tree stands on the base.
func checkRoot(r gitRepo, baseCommit string) error {
	roots, err := r.text("rev-list", "--max-parents=0", "HEAD")
	if err != nil {
		return err
	}
	if strings.Contains(roots, "\n") {
		return errors.New("its history has several first commits")
	}
	got, err := r.treeOf(roots)
	if err != nil {
		return err
	}
	want, err := r.treeOf(baseCommit)
	if err != nil {
		return err
	}
	if got != want {
		return errors.New("its first commit is not the pristine base")
	}
	return nil
}

// firstOf joins the first few names for a message.
func firstOf(names []string) string {
	const most = 10
	if len(names) > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, "\n  ")
}
