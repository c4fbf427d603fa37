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
	"cmp"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
)

// defaultAuthor is who a series is from if nobody says.
const defaultAuthor = fixedName + " <" + fixedEmail + ">"

// forUpstream strips the trailers that only this project reads.
func forUpstream(m message) message {
	return m.without(trailerKind, trailerStatus, trailerOverlay, trailerDropWhen)
}

// pullRequest writes the patch set, generated code included, as a plain series
// for "git am" to outDir, and proves that it applies to the base and gives the
// same files there. What is carried is left out, unless asked for.
//
// With the name of a fix it writes that one alone.
func (p project) pullRequest(outDir, author string, carried bool, fix string) error {
	if fix != "" {
		return p.pullRequestOfFix(outDir, author, fix)
	}
	outDir, err := filepath.Abs(cmp.Or(outDir, p.base.prDir()))
	if err != nil {
		return err
	}
	src, err := p.source()
	if err != nil {
		return err
	}
	p.say("base is %s", src.name)
	set, err := p.load(src)
	if err != nil {
		return err
	}
	if all := len(set.patches); !carried {
		set.patches = set.forUpstream()
		if left := all - len(set.patches); left > 0 {
			p.say("leaving out %d patches that are carried", left)
		}
	}
	if len(set.patches) == 0 {
		return errors.New("the patch set is empty: there is nothing to send")
	}
	r, commits, err := p.scratch(src, set)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	series, err := writeSeries(r, commits, set.patches, outDir, author)
	if err != nil {
		return err
	}
	if err := applyAndCompare(src, series, r, "HEAD"); err != nil {
		return err
	}
	p.say("%d patches in %s; \"git am\" applies them to %s and gives the files of the tree", len(series), outDir, src.name)
	if err := p.pullRequestTexts(outDir, set.patches, series); err != nil {
		return err
	}
	if p.base.PullRequestNote != "" {
		p.say("note: %s", p.base.PullRequestNote)
	}
	return nil
}

// writeSeries writes the patches to outDir as "git am" takes them, and returns
// their files. The first of the commits is the base, then there is one a patch.
func writeSeries(r gitRepo, commits []string, patches []patch, outDir, author string) ([]string, error) {
	who, err := mail.ParseAddress(author)
	if err != nil {
		return nil, fmt.Errorf("the author %q is not of the form \"Name <mail@address>\": %w", author, err)
	}
	last := commits[0]
	for i, one := range patches {
		tree, err := r.treeOf(commits[i+1])
		if err != nil {
			return nil, err
		}
		if last, err = r.commitTree(tree, last, forUpstream(one.msg).String()); err != nil {
			return nil, err
		}
	}
	old, err := filepath.Glob(filepath.Join(outDir, "*.patch"))
	if err != nil {
		return nil, err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	if _, err := r.run(nil, "format-patch", "--quiet", "--zero-commit", "--no-signature", "--no-numbered", "--no-stat",
		"--full-index", "--binary", "--no-renames", "--output-directory", outDir, commits[0]+".."+last); err != nil {
		return nil, err
	}
	series, err := filepath.Glob(filepath.Join(outDir, "*.patch"))
	if err != nil {
		return nil, err
	}
	from := "\nFrom: " + defaultAuthor + "\n"
	for _, name := range series {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		content = bytes.Replace(content, []byte(from), []byte("\nFrom: "+who.String()+"\n"), 1)
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return nil, err
		}
	}
	return series, nil
}

// applyAndCompare runs "git am" with the series on the pristine base and
// compares the outcome with a commit of another repository.
func applyAndCompare(src source, series []string, want gitRepo, commit string) error {
	dir, err := os.MkdirTemp("", "patchset-am-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := initRepo(dir)
	if err != nil {
		return err
	}
	baseCommit, err := commitBase(r, src)
	if err != nil {
		return err
	}
	if _, err := r.run(nil, "reset", "--quiet", "--hard", baseCommit); err != nil {
		return err
	}
	if _, err := r.run(nil, append([]string{"am", "--quiet"}, series...)...); err != nil {
		return fmt.Errorf("the series does not apply: %w", err)
	}
	got, err := r.treeOf("HEAD")
	if err != nil {
		return err
	}
	expected, err := want.treeOf(commit)
	if err != nil {
		return err
	}
	if got != expected {
		return errors.New("the series applies, but gives other files than the tree has")
	}
	return nil
}
