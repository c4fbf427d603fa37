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

// generatedSubject is the subject of the commits that hold generated code.
const generatedSubject = "generated code"

// buildCommits makes a commit for each patch, with its hunks and its overlay
// files, on the base commit. It only writes objects: index, branch and files
// of the tree stay as they are, also when a patch does not apply.
func buildCommits(r gitRepo, baseCommit string, set patchSet, msgOf func(message) message) ([]string, error) {
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
	for _, p := range set.patches {
		if len(p.diff) > 0 {
			if _, err := ri.run(p.diff, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
				return nil, p.explain(err)
			}
		}
		var entries strings.Builder
		for _, name := range p.msg.values(trailerOverlay) {
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
		tree, err := ri.text("write-tree")
		if err != nil {
			return nil, err
		}
		if parent, err = r.commitTree(tree, parent, msgOf(p.msg).String()); err != nil {
			return nil, err
		}
		commits = append(commits, parent)
	}
	return commits, nil
}

// asIs is the msgOf for a tree of our own, which keeps the internal trailers.
func asIs(m message) message { return m }

// stamp is what the tool remembers in a tree's .git about its last run there.
type stamp struct {
	Patched    string            // the last patch's commit
	Generators string            // what the generated code was made with
	Head       string            // the commit that was checked out: all below it is kept in the project
	Files      map[string]string // the project's files then, as they were on disk, with their checksums
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
	b, err := p.base()
	if err != nil {
		return err
	}
	set, err := p.load(b)
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
	baseCommit, err := commitBase(r, b)
	if err != nil {
		return err
	}
	if r.head() != "" {
		if err := p.keepWork(r, baseCommit, set, force); err != nil {
			return err
		}
	}
	commits, err := buildCommits(r, baseCommit, set, asIs)
	if err != nil {
		return err
	}
	if _, err := r.run(nil, "tag", "--force", "base", baseCommit); err != nil { // for "git rebase --interactive base"
		return err
	}
	patched := baseCommit
	if len(commits) > 0 {
		patched = commits[len(commits)-1]
	}
	disk, err := p.ours(set.files())
	if err != nil {
		return err
	}
	now := stamp{Patched: patched, Files: checksums(disk)}
	if now.Generators, err = p.generatorsKey(); err != nil {
		return err
	}
	before := readStamp(r)
	if before.Patched == now.Patched && before.Generators == now.Generators && before.Head == r.head() {
		p.say("%s is up to date: %d patches", p.tree, len(commits))
		before.Files = now.Files
		return before.write(r)
	}
	p.say("%s: %d patches applied", p.tree, len(commits))
	if _, err := r.run(nil, "reset", "--quiet", "--hard", patched); err != nil {
		return err
	}
	if p.generators != "" {
		if err := p.generateInto(r, b); err != nil {
			return err
		}
		if err := commitGenerated(r, p, generatedSubject); err != nil {
			return err
		}
	}
	now.Head = r.head()
	return now.write(r)
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
