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

package pages

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// block is a fenced code block of a page, or a script that readers do not see.
type block struct {
	// section is the anchor of the heading above it.
	section  string
	language string
	content  string
	line     int
	// output is what the script must print; nil if any output will do.
	output *string
	// notRun is the reason why the block is not run, if it is not.
	notRun string
	// include names a section of another page, page.md#section, to be run here.
	include string
	// function names a function in the file of the page in testdata, to be run here.
	function string
	// needs names a program without which the block is not run, or is "".
	needs string
}

var (
	notRun   = regexp.MustCompile(`(?s)^<!--\s*not run:\s*(.+?)\s*-->\s*$`)
	include  = regexp.MustCompile(`^<!--\s*run: (\S+\.md#\S+)\s*-->\s*$`)
	function = regexp.MustCompile(`^<!--\s*run: (\w+)\s*-->\s*$`)
	with     = regexp.MustCompile(`^<!--\s*run with: (\w+)\s*-->\s*$`)
	plain    = regexp.MustCompile(`(?m)^<!--\s*run on: plain (v[\d.]+)\s*-->\s*$`)
	fileName = regexp.MustCompile(`^(?://|#) ([\w./-]+\.\w+)\n`)
)

// file returns the name of the file that the block is the content of, or "".
func (b block) file() string {
	if match := fileName.FindStringSubmatch(b.content); match != nil {
		return match[1]
	}
	return ""
}

// plainRelease returns the plain release of Kueue that a page is about, or "".
func plainRelease(page []byte) string {
	if match := plain.FindSubmatch(page); match != nil {
		return string(match[1])
	}
	return ""
}

// blocks returns the blocks of a page in their order.
func blocks(page []byte) ([]block, error) {
	var found []block
	var section, needs string
	reasons := map[ast.Node]string{} // by the node that the comment precedes
	scripts := map[ast.Node]int{}
	err := ast.Walk(parse(page), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			section, needs = anchor(node), ""
		case *ast.HTMLBlock:
			comment := content(node, page)
			if node.HasClosure() {
				comment += string(node.ClosureLine.Value(page))
			}
			if match := notRun.FindStringSubmatch(comment); match != nil {
				if _, ok := node.NextSibling().(*ast.FencedCodeBlock); !ok {
					return ast.WalkStop, fmt.Errorf("line %d: no block follows %s", lineOf(node, page), comment)
				}
				reasons[node.NextSibling()] = match[1]
			} else if match := function.FindStringSubmatch(comment); match != nil {
				found = append(found, block{section: section, language: "sh", function: match[1], line: lineOf(node, page), needs: needs})
			} else if match := with.FindStringSubmatch(comment); match != nil {
				needs = match[1]
			} else if match := include.FindStringSubmatch(comment); match != nil {
				found = append(found, block{section: section, include: match[1], line: lineOf(node, page), needs: needs})
			} else if strings.Contains(comment, "run") && strings.Contains(comment, ":") && !plain.MatchString(comment) {
				return ast.WalkStop, fmt.Errorf("line %d: a comment of no known form: %s", lineOf(node, page), comment)
			}
		case *ast.CodeBlock:
			return ast.WalkStop, fmt.Errorf("line %d: an indented block; use a fence with a language", lineOf(node, page))
		case *ast.FencedCodeBlock:
			b := block{section: section, language: string(node.Language(page)), content: content(node, page), line: lineOf(node, page), notRun: reasons[node], needs: needs}
			if script, ok := scripts[node.PreviousSibling()]; ok && (b.language == "console" || b.language == "text") {
				found[script].output = &b.content
				return ast.WalkContinue, nil
			}
			if b.language == "sh" && b.notRun == "" && b.file() == "" {
				scripts[node] = len(found)
			}
			found = append(found, b)
		}
		return ast.WalkContinue, nil
	})
	return found, err
}

// links returns where the links of a page lead to, and anchors what they can lead to.
func links(page []byte) (links, anchors []string) {
	_ = ast.Walk(parse(page), func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch node := node.(type) {
			case *ast.Heading:
				anchors = append(anchors, anchor(node))
			case *ast.Link:
				links = append(links, string(node.Destination))
			case *ast.Image:
				links = append(links, string(node.Destination))
			}
		}
		return ast.WalkContinue, nil
	})
	return links, anchors
}

func parse(page []byte) ast.Node {
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	return markdown.Parser().Parse(text.NewReader(page))
}

func anchor(heading *ast.Heading) string {
	id, _ := heading.AttributeString("id")
	name, _ := id.([]byte)
	return string(name)
}

func content(node ast.Node, page []byte) string {
	return string(node.Lines().Value(page))
}

// lineOf returns the number of the first line of what the node contains.
func lineOf(node ast.Node, page []byte) int {
	if node.Lines().Len() == 0 {
		return 0
	}
	return 1 + strings.Count(string(page[:node.Lines().At(0).Start]), "\n")
}

// volatile is what differs from run to run: times, ages, UIDs, and the names of
// Workloads that Kueue derives from UIDs.
var volatile = []string{
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`,
	`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`,
	`-[0-9a-f]{5}\b`,
	`\b\d+(?:ms|[smhd])(?:\d+[smh])?\b`,
}

// matches tells whether an output is what a page promises: the same lines, with
// any blanks between the words and any times, ages, UIDs and names of Workloads.
// "..." stands for anything in a line, and alone in a line for any lines.
func matches(expected, output string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimSpace(expected) + "\n") {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(`[ \t]*`)
		for i, word := range strings.Fields(line) {
			if i > 0 {
				pattern.WriteString(`[ \t]+`)
			}
			pattern.WriteString(wordPattern(word))
		}
		pattern.WriteString(`[ \t]*\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.TrimSpace(output) + "\n")
}

func wordPattern(word string) string {
	for _, kind := range volatile {
		if at := regexp.MustCompile(kind).FindStringIndex(word); at != nil {
			return wordPattern(word[:at[0]]) + kind + wordPattern(word[at[1]:])
		}
	}
	return strings.ReplaceAll(regexp.QuoteMeta(word), `\.\.\.`, `.*`)
}
