package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"kueue-acrequeueafter/bench/result"
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
	}).Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		*result.Run
		Figures  []figure
		Sections []section
		Notes    string
		Pictures string
		Drawn    map[string]bool
	}{run, figures(run), sections(run), strings.TrimSpace(notes), pictures, drawn})
	return b.Bytes(), err
}
