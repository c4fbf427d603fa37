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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Every commit that the tool makes has this author, committer and date, so
// that the same input gives the same commit hashes everywhere.
const (
	fixedName  = "ACRequeueAfter patches"
	fixedEmail = "patches@localhost"
	fixedDate  = "Thu, 1 Jan 2026 00:00:00 +0000"
)

// gitRepo runs git on one repository. It reads no configuration but the
// repository's own, so nobody's settings change a result.
type gitRepo struct {
	dir   string // where the repository is, and the work tree
	index string // an index file of its own, "" for the repository's
	files string // a work tree elsewhere, "" for dir
}

func (r gitRepo) gitDir() string { return filepath.Join(r.dir, ".git") }

// withIndex returns the same repository, working on another index file.
func (r gitRepo) withIndex(path string) gitRepo {
	r.index = path
	return r
}

// gitError is a git command that failed, with what it wrote to stderr.
type gitError struct {
	args   []string
	stderr string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: %s", strings.Join(e.args, " "), strings.TrimSpace(e.stderr))
}

// run runs git with stdin and returns its stdout unchanged.
func (r gitRepo) run(stdin []byte, args ...string) ([]byte, error) {
	files := r.files
	if files == "" {
		files = r.dir
	}
	cmd := exec.Command("git", append([]string{
		"--git-dir=" + r.gitDir(), "--work-tree=" + files,
		"-c", "core.autocrlf=false", "-c", "core.excludesFile=", "-c", "commit.gpgSign=false",
		"-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false",
	}, args...)...)
	cmd.Dir = files
	cmd.Env = r.environ()
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, errors.New("git is not installed: install git 2.31 or later and run this again")
		}
		return nil, &gitError{args: args, stderr: stderr.String() + err.Error()}
	}
	return stdout.Bytes(), nil
}

// text runs git and returns its stdout without surrounding white space.
func (r gitRepo) text(args ...string) (string, error) {
	out, err := r.run(nil, args...)
	return strings.TrimSpace(string(out)), err
}

// items runs git and returns the non-empty NUL-separated items of its stdout.
func (r gitRepo) items(args ...string) ([]string, error) {
	out, err := r.run(nil, args...)
	if err != nil {
		return nil, err
	}
	var items []string
	for item := range strings.SplitSeq(string(out), "\x00") {
		if item != "" {
			items = append(items, item)
		}
	}
	return items, nil
}

func (r gitRepo) environ() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			env = append(env, v)
		}
	}
	env = append(env,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME="+fixedName, "GIT_AUTHOR_EMAIL="+fixedEmail, "GIT_AUTHOR_DATE="+fixedDate,
		"GIT_COMMITTER_NAME="+fixedName, "GIT_COMMITTER_EMAIL="+fixedEmail, "GIT_COMMITTER_DATE="+fixedDate,
		"LC_ALL=C", "TZ=UTC",
	)
	if r.index != "" {
		env = append(env, "GIT_INDEX_FILE="+r.index)
	}
	return env
}

// initRepo makes dir a git repository if it is none.
func initRepo(dir string) (gitRepo, error) {
	r := gitRepo{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	if _, err := os.Stat(r.gitDir()); err == nil {
		return r, nil
	}
	_, err := r.run(nil, "init", "--quiet", "--initial-branch=main")
	return r, err
}

// commitTree commits a tree object and returns the commit.
func (r gitRepo) commitTree(tree, parent, message string) (string, error) {
	args := []string{"commit-tree", tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := r.run([]byte(message), append(args, "-F", "-")...)
	return strings.TrimSpace(string(out)), err
}

// treeOf returns the tree object of a commit.
func (r gitRepo) treeOf(commit string) (string, error) {
	return r.text("rev-parse", "--verify", "--quiet", commit+"^{tree}")
}

// head returns the commit that is checked out, "" if there is none yet.
func (r gitRepo) head() string {
	head, err := r.text("rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return ""
	}
	return head
}

// dirty returns the paths that differ from the commit that is checked out.
func (r gitRepo) dirty() ([]string, error) {
	items, err := r.items("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		items[i] = item[3:] // two letters of status and a blank
	}
	return items, nil
}

// unfinished names the git operation that was begun and not ended, if any.
func (r gitRepo) unfinished() string {
	for _, op := range []struct{ file, name string }{
		{"rebase-merge", "rebase"}, {"rebase-apply/applying", "am"}, {"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"}, {"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Stat(filepath.Join(r.gitDir(), op.file)); err == nil {
			return op.name
		}
	}
	return ""
}

// tempIndex returns the path of an index file that does not exist yet and a
// function that removes it again.
func tempIndex() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "patchset-index-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "index"), func() { os.RemoveAll(dir) }, nil
}
