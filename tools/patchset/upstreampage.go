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
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The lines of a page between which the table stands.
const (
	tableBegin = "<!-- written by \"make upstream-page\" -->\n"
	tableEnd   = "<!-- end -->\n"
)

// upstreamPage writes the table of the patches into a page, from their messages: what is to
// be sent, where it stands upstream, and when it goes. With check it only says whether the
// page has it.
func (p project) upstreamPage(name string, check bool) error {
	patches, err := p.readPatches()
	if err != nil {
		return err
	}
	full := filepath.Join(p.dir, filepath.FromSlash(name))
	content, err := os.ReadFile(full)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(content, []byte(tableBegin))
	_, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !found || !ended {
		return fmt.Errorf("%s has no place for the table: the lines %q and %q", name, strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	text := &strings.Builder{}
	fmt.Fprint(text, string(before), tableBegin, "| | Patch | Upstream | It goes when |\n|---|---|---|---|\n")
	for i, one := range patches {
		fmt.Fprintf(text, "| %d | [%s](../%s) | %s | %s |\n", i+1, one.msg.subject, p.pathOf(one),
			strings.Join(one.msg.values(trailerStatus), "; "), strings.Join(one.msg.values(trailerDropWhen), "; "))
	}
	fmt.Fprint(text, tableEnd, string(after))
	if text.String() == string(content) {
		return nil
	}
	if check {
		return fmt.Errorf("%s does not have the patches as they are: run \"make upstream-page\"", name)
	}
	p.say("wrote %s", name)
	return os.WriteFile(full, []byte(text.String()), 0o644)
}

// pathOf returns where a patch of the base lies.
func (p project) pathOf(one patch) string {
	series := patchSet{base: p.base}.seriesOf(one)
	return filepath.ToSlash(filepath.Join(filepath.Dir(series), one.name))
}
