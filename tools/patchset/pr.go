package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
)

// forUpstream strips the trailers that only this project reads.
func forUpstream(m message) message {
	return m.without(trailerStatus, trailerOverlay, trailerDropWhen)
}

// pullRequest writes the patch set, generated code last, as a plain series for
// "git am" to outDir, and proves that it applies to the base and gives the
// same files there.
func (p project) pullRequest(outDir, author string) error {
	who, err := mail.ParseAddress(author)
	if err != nil {
		return fmt.Errorf("the author %q is not of the form \"Name <mail@address>\": %w", author, err)
	}
	if outDir, err = filepath.Abs(outDir); err != nil {
		return err
	}
	b, err := p.base()
	if err != nil {
		return err
	}
	set, err := p.load(b)
	if err != nil {
		return err
	}
	if len(set.patches) == 0 {
		return errors.New("the patch set is empty: there is nothing to send")
	}
	r, commits, err := p.scratch(b, set, forUpstream)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if p.generators != "" {
		if err := p.generateInto(r, b); err != nil {
			return err
		}
		if err := commitGenerated(r, p, "Update generated code"); err != nil {
			return err
		}
	}
	old, err := filepath.Glob(filepath.Join(outDir, "*.patch"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	if _, err := r.run(nil, "format-patch", "--quiet", "--zero-commit", "--no-signature", "--no-numbered", "--no-stat",
		"--full-index", "--binary", "--no-renames", "--output-directory", outDir, commits[0]+"..HEAD"); err != nil {
		return err
	}
	series, err := filepath.Glob(filepath.Join(outDir, "*.patch"))
	if err != nil {
		return err
	}
	from := "\nFrom: " + fixedName + " <" + fixedEmail + ">\n"
	for _, name := range series {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		content = bytes.Replace(content, []byte(from), []byte("\nFrom: "+who.String()+"\n"), 1)
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	if err := applyAndCompare(b, series, r); err != nil {
		return err
	}
	p.say("%d patches in %s; \"git am\" applies them to %s and gives the files of the tree", len(series), outDir, b.name)
	p.say("note: upstream's site/ is not in the module: its reference page is not part of the series, upstream makes it with \"make generate-apiref\"")
	return nil
}

// applyAndCompare runs "git am" with the series on the pristine base and
// compares the outcome with what is checked out in want.
func applyAndCompare(b base, series []string, want gitRepo) error {
	dir, err := os.MkdirTemp("", "patchset-am-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := initRepo(dir)
	if err != nil {
		return err
	}
	baseCommit, err := commitBase(r, b)
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
	expected, err := want.treeOf("HEAD")
	if err != nil {
		return err
	}
	if got != expected {
		return errors.New("the series applies, but gives other files than the tree has")
	}
	return nil
}
