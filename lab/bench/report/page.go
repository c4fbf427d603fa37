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
	_ "embed"
	"strings"
	"text/template"
	"time"

	"kueue-acrequeueafter/lab/bench/result"
)

//go:embed page.md.tmpl
var page string

// write returns the page, in Markdown. The pictures are those that were drawn.
func write(run *result.Run, notes, pictures string, drawn map[string]bool) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"thousands": thousands,
		"number":    number,
		"cells":     func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" },
		"divider":   func(builds []string) string { return "|---|" + strings.Repeat("---:|", len(builds)) },
		"label":     func(build string) string { return labels[build] },
		"join":      func(texts []string) string { return strings.Join(texts, ", ") },
		"day":       func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") },
	}).Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		*result.Run
		Ours     []string
		Says     []string
		Figures  []figure
		Parts    []part
		Sections []section
		Notes    string
		Pictures string
		Drawn    map[string]bool
	}{run, ours(run), says(run), figures(run), parts(run), sections(run), strings.TrimSpace(notes), pictures, drawn})
	return b.Bytes(), err
}
