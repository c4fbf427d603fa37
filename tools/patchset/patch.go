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
	"regexp"
	"slices"
	"strings"
)

// Trailers that only this project reads. Overlay is kept by the tool.
const (
	trailerKind     = "Kind"
	trailerStatus   = "Upstream-Status"
	trailerOverlay  = "Overlay"
	trailerDropWhen = "Drop-When"
)

// message is a commit message, its trailers apart.
type message struct {
	subject  string
	body     string // without surrounding blank lines, may be empty
	trailers []trailer
}

type trailer struct{ key, value string }

var trailerLine = regexp.MustCompile(`^([A-Z][A-Za-z-]*): (.+)$`)

// parseMessage splits a commit message. Trailers are the last paragraph, if
// each of its lines is one.
func parseMessage(text string) message {
	subject, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	m := message{subject: strings.TrimSpace(subject)}
	var paragraph []string
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	start := len(lines)
	for start > 0 && strings.TrimSpace(lines[start-1]) != "" {
		start--
	}
	paragraph = lines[start:]
	for _, line := range paragraph {
		match := trailerLine.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			m.trailers, start = nil, len(lines)
			break
		}
		m.trailers = append(m.trailers, trailer{match[1], match[2]})
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	m.body = strings.Trim(strings.Join(lines[:start], "\n"), "\n")
	return m
}

// String renders the message in its one canonical form.
func (m message) String() string {
	parts := []string{m.subject}
	if m.body != "" {
		parts = append(parts, m.body)
	}
	if len(m.trailers) > 0 {
		var lines []string
		for _, t := range m.trailers {
			lines = append(lines, t.key+": "+t.value)
		}
		parts = append(parts, strings.Join(lines, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

// values returns the values of a trailer.
func (m message) values(key string) []string {
	var values []string
	for _, t := range m.trailers {
		if t.key == key {
			values = append(values, t.value)
		}
	}
	return values
}

// without returns the message without the given trailers.
func (m message) without(keys ...string) message {
	m.trailers = slices.DeleteFunc(slices.Clone(m.trailers), func(t trailer) bool {
		return slices.Contains(keys, t.key)
	})
	return m
}

// withOverlay returns the message claiming these overlay files and no others.
func (m message) withOverlay(paths []string) message {
	m = m.without(trailerOverlay)
	for _, path := range paths {
		m.trailers = append(m.trailers, trailer{trailerOverlay, path})
	}
	return m
}

// The states of a patch with upstream. All but the first want a reason or a place
// in brackets: "Inappropriate [it needs our examples]".
var upstreamStatus = regexp.MustCompile(`^(?:(Pending)(?: \[.+\])?|(Submitted|Different|Denied|Backport|Inappropriate) \[.+\])$`)

const statusAdvice = `"Pending", "Submitted [where]", "Different [what upstream has instead]", "Denied [why]", "Backport [from where]" or "Inappropriate [why]"`

// isCarried tells whether upstream is not asked to take the patch.
func (m message) isCarried() bool {
	return slices.ContainsFunc(m.values(trailerStatus), func(value string) bool {
		return strings.HasPrefix(value, "Inappropriate ")
	})
}

// isBackport returns true for what upstream has fixed since the base.
func (m message) isBackport() bool {
	return slices.ContainsFunc(m.values(trailerStatus), func(value string) bool {
		return strings.HasPrefix(value, "Backport ")
	})
}

// isFix tells whether the patch fixes a defect of the base, and stands without the others.
func (m message) isFix() bool { return slices.Contains(m.values(trailerKind), "bug") }

var (
	issueRef   = regexp.MustCompile(`#[0-9]+\b`)
	closesWord = regexp.MustCompile(`(?mi)^\s*(fix(es|ed)?|close[sd]?|resolve[sd]?)\b\s*[:#]|^\s*Fixes\b`)
	mention    = regexp.MustCompile(`(^|\s)@[A-Za-z]`)
	diffStart  = regexp.MustCompile(`(?m)^(---|diff |Index: )`)
)

// check says what is wrong with the message, by our rules and upstream's.
func (m message) check() error {
	text := m.String()
	var wrong []error
	if m.subject == "" {
		wrong = append(wrong, errors.New("has no subject"))
	}
	if found := issueRef.FindString(text); found != "" {
		wrong = append(wrong, fmt.Errorf("refers to an issue or pull request (%s): upstream rejects that", found))
	}
	if found := closesWord.FindString(text); found != "" {
		wrong = append(wrong, fmt.Errorf("says %q: upstream rejects words that close issues", strings.TrimSpace(found)))
	}
	if mention.MatchString(text) {
		wrong = append(wrong, errors.New("mentions somebody with @: upstream rejects that"))
	}
	if diffStart.MatchString(text) {
		wrong = append(wrong, errors.New(`has a line that begins with "---", "diff " or "Index: ": git takes it for the patch's start`))
	}
	if m.body == "" {
		wrong = append(wrong, errors.New("does not say why (no text below the subject)"))
	}
	for _, key := range []string{trailerStatus, trailerDropWhen} {
		if len(m.values(key)) == 0 {
			wrong = append(wrong, fmt.Errorf("has no %q trailer in its last paragraph", key+":"))
		}
	}
	for _, value := range m.values(trailerKind) {
		if value != "bug" {
			wrong = append(wrong, fmt.Errorf("has the trailer \"%s: %s\": say \"bug\" for a fix of the base that stands without the other patches, or nothing", trailerKind, value))
		}
	}
	for _, value := range m.values(trailerStatus) {
		if !upstreamStatus.MatchString(value) {
			wrong = append(wrong, fmt.Errorf("has the trailer \"%s: %s\", which is none of %s", trailerStatus, value, statusAdvice))
		}
	}
	return errors.Join(wrong...)
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// fileName returns the name of the patch file for the message.
func (m message) fileName() string {
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(m.subject), "-"), "-")
	for len(slug) > 60 && strings.Contains(slug, "-") { // by whole words
		slug = slug[:strings.LastIndex(slug, "-")]
	}
	return slug + ".patch"
}

// patch is one patch file.
type patch struct {
	name string // its file name
	msg  message
	diff []byte // git's diff of the files that exist upstream, may be empty
}

const patchHeader = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n" +
	"From: " + fixedName + " <" + fixedEmail + ">\n" +
	"Date: " + fixedDate + "\n" +
	"Subject: [PATCH] "

// render returns the patch file, as "git format-patch" would write it with
// --zero-commit --no-signature --no-numbered --no-stat --full-index.
func (p patch) render() []byte {
	return slices.Concat([]byte(patchHeader+p.msg.String()), []byte("\n"), p.diff)
}

// parsePatch reads a patch file.
func parsePatch(name string, content []byte) (patch, error) {
	header, diff := content, []byte(nil)
	if i := bytes.Index(content, []byte("\ndiff --git ")); i >= 0 {
		header, diff = content[:i], content[i+1:]
	}
	_, text, found := strings.Cut(string(header), "\nSubject: [PATCH] ")
	if !found {
		return patch{}, fmt.Errorf("%s is no patch file: it has no line \"Subject: [PATCH] ...\"", name)
	}
	return patch{name: name, msg: parseMessage(text), diff: diff}, nil
}

// fileDiff is the part of a patch that changes one file.
type fileDiff struct {
	path    string
	creates bool
	hunks   []string // the "@@ ... @@" lines
	header  string   // the lines before them
	texts   []string // the hunks with all their lines
}

// files returns the parts of the patch, file by file.
func (p patch) files() []fileDiff {
	var files []fileDiff
	left := 0 // lines of the current hunk still to come, so that no content is taken for a header
	for line := range strings.Lines(string(p.diff)) {
		text := line
		line = strings.TrimSuffix(line, "\n")
		var old, added int
		switch {
		case left > 0:
			switch {
			case strings.HasPrefix(line, "\\"):
			case strings.HasPrefix(line, "-"), strings.HasPrefix(line, "+"):
				left--
			default:
				left -= 2
			}
		case strings.HasPrefix(line, "diff --git a/"):
			path := strings.TrimPrefix(line, "diff --git a/")
			files = append(files, fileDiff{path: path[:(len(path)-len(" b/"))/2]})
		case len(files) == 0:
		case strings.HasPrefix(line, "new file mode "):
			files[len(files)-1].creates = true
		case strings.HasPrefix(line, "@@ "):
			old, added = hunkLengths(line)
			left = old + added
			files[len(files)-1].hunks = append(files[len(files)-1].hunks, line)
			files[len(files)-1].texts = append(files[len(files)-1].texts, "")
		}
		if len(files) == 0 {
			continue
		}
		last := &files[len(files)-1]
		if n := len(last.texts); n > 0 {
			last.texts[n-1] += text
		} else {
			last.header += text
		}
	}
	return files
}

// paths returns the files that the patch changes or adds.
func (p patch) paths() []string {
	paths := p.msg.values(trailerOverlay)
	for _, f := range p.files() {
		paths = append(paths, f.path)
	}
	return paths
}

var hunkLine = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

func hunkLengths(line string) (old, added int) {
	match := hunkLine.FindStringSubmatch(line)
	if match == nil {
		return 0, 0
	}
	return number(match[2]), number(match[3])
}

// number reads a count of a hunk header, which is left out when it is 1.
func number(digits string) int {
	if digits == "" {
		return 1
	}
	n := 0
	fmt.Sscan(digits, &n)
	return n
}

var applyFailed = regexp.MustCompile(`(?m)^error: patch failed: (.+):(\d+)$`)

// explain turns git's complaint that the patch does not apply into one that
// names the patch, the file and the number of the hunk.
func (p patch) explain(gitErr error) error {
	text := gitErr.Error()
	var failed *gitError
	if errors.As(gitErr, &failed) {
		text = failed.stderr
	}
	what := fmt.Sprintf("%s does not apply:", p.name)
	for _, match := range applyFailed.FindAllStringSubmatch(text, -1) {
		file, line := match[1], match[2]
		for _, f := range p.files() {
			if f.path != file {
				continue
			}
			for i, hunk := range f.hunks {
				if m := hunkLine.FindStringSubmatch(hunk); m != nil && m[1] == line {
					what += fmt.Sprintf("\n  hunk %d of %d of %s, at line %s (%s)", i+1, len(f.hunks), file, line, hunk)
				}
			}
		}
	}
	return fmt.Errorf("%s\n%s\nFix the hunk in the patch file by hand, or take the patch out of the series, run \"make tree\", make the change anew in the tree and commit it with the same message; then \"make export\"",
		what, strings.TrimSpace(text))
}
