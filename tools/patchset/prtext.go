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
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// pullRequest is one that is sent, in the words of base.yaml. Each fix is one of its own,
// before these.
type pullRequest struct {
	Title string
	// Kinds are labels of upstream's, without "/kind ".
	Kinds []string
	// Patches are patterns of file names, from end to end.
	Patches []string
	// Notes are for the reviewer.
	Notes string
	// ReleaseNote is what a user is told, "NONE" if empty.
	ReleaseNote string `yaml:"releaseNote"`
}

func (r pullRequest) check() error {
	if r.Title == "" || len(r.Kinds) == 0 || len(r.Patches) == 0 {
		return errors.New("title, kinds and patches are needed")
	}
	for _, pattern := range r.Patches {
		if _, err := regexp.Compile(pattern); err != nil {
			return err
		}
	}
	return nil
}

// The sections are those of upstream's template.
var pullRequestTemplate = template.Must(template.New("pull request").Parse(`<!-- Title: {{.Title}}
     Patches, for "git am":{{range .Files}} {{.}}{{end}} -->

#### What type of PR is this?
{{range .Kinds}}
/kind {{.}}{{end}}

#### What this PR does / why we need it:

{{.What}}

#### Which issue(s) this PR fixes:

{{.Issues}}

#### Special notes for your reviewer:
{{range .Notes}}
- {{.}}{{end}}

#### Does this PR introduce a user-facing change?

` + "```release-note\n{{.ReleaseNote}}\n```\n"))

// pullRequestTexts writes the text of each pull request to outDir, in the order in which they
// are sent. The series are the files of the patches. A fix that upstream has already is not
// sent.
func (p project) pullRequestTexts(outDir string, patches []patch, series []string) error {
	old, err := filepath.Glob(filepath.Join(outDir, "pull-request-*.md"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	var requests []pullRequest
	var parts [][]int // of each, indices of its patches
	for i, one := range patches {
		if one.msg.isFix() && !one.msg.isBackport() {
			seen, _, _ := strings.Cut(one.msg.body, "\n\n")
			requests = append(requests, pullRequest{Title: one.msg.subject, Kinds: []string{"bug"}, ReleaseNote: seen})
			parts = append(parts, []int{i})
		}
	}
	for _, request := range p.base.PullRequests {
		var part []int
		for i, one := range patches {
			if !one.msg.isFix() && matchesAny(request.Patches, one.name) {
				part = append(part, i)
			}
		}
		if len(part) > 0 {
			requests = append(requests, request)
			parts = append(parts, part)
		}
	}
	for n, request := range requests {
		if err := writePullRequestText(filepath.Join(outDir, fmt.Sprintf("pull-request-%02d.md", n+1)), request, parts[n], patches, series); err != nil {
			return err
		}
	}
	if len(requests) > 0 {
		p.say("the texts of %d pull requests are in %s", len(requests), filepath.Join(outDir, "pull-request-*.md"))
	}
	return nil
}

func writePullRequestText(name string, request pullRequest, part []int, patches []patch, series []string) error {
	text := struct {
		pullRequest
		Files, Notes []string
		What, Issues string
	}{pullRequest: request, Issues: "None."}
	text.ReleaseNote = cmp.Or(strings.TrimSpace(request.ReleaseNote), "NONE")
	if request.Notes != "" {
		text.Notes = append(text.Notes, strings.TrimSpace(request.Notes))
	}
	var what []string
	for _, i := range part {
		msg := patches[i].msg
		text.Files = append(text.Files, filepath.Base(series[i]))
		if len(part) > 1 {
			what = append(what, "**"+msg.subject+"**")
		}
		what = append(what, msg.body)
		for _, status := range msg.values(trailerStatus) {
			text.Notes = append(text.Notes, fmt.Sprintf("%q: %s.", msg.subject, status))
		}
	}
	text.What = strings.Join(what, "\n\n")
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return pullRequestTemplate.Execute(f, text)
}
