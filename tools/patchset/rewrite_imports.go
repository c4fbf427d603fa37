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
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readImports reads the imports of the file, and where they lead to.
func (r *rewriting) readImports() {
	for _, spec := range r.file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			r.complain("line %d: %v", r.line(spec.Pos()), err)
			continue
		}
		i := &imported{spec: spec, name: path.Base(from), path: from, to: from}
		if to, ok := r.rewriter.imports[from]; ok {
			i.to = to
			r.use("imports: " + from)
		}
		if spec.Name != nil {
			i.name = spec.Name.Name
		}
		r.imports = append(r.imports, i)
	}
}

// writeImports changes, removes and adds imports. gofmt sorts them afterwards,
// within their groups.
func (r *rewriting) writeImports() {
	names := map[string]*imported{}
	var added []*imported
	for _, i := range r.imports {
		if i.gone() {
			continue
		}
		if other := names[i.name]; other != nil && i.spec == nil {
			r.complain("%s is the local name of %s, and would be that of %s, too: choose another one", i.name, other.to, i.to)
		}
		if i.name != "_" && i.name != "." {
			names[i.name] = i
		}
		if i.spec == nil {
			added = append(added, i)
		} else if i.to != i.path {
			r.replace(i.spec.Pos(), i.spec.Path.End(), i.String())
		}
	}
	slices.SortFunc(added, func(a, b *imported) int { return cmp.Compare(a.to, b.to) })
	decls := r.importDecls()
	for n, decl := range decls {
		var add []*imported
		if n == 0 {
			add = added
		}
		r.writeImportDecl(decl, add)
	}
	if len(decls) == 0 && len(added) > 0 {
		_, end := r.lines(r.file.Name.End(), r.file.Name.End())
		r.edits = append(r.edits, edit{start: end, end: end, text: "\nimport (\n" + r.grouped(added) + ")\n"})
	}
}

// importDecls returns the import declarations. New imports go to the first, which
// is in brackets if any is.
func (r *rewriting) importDecls() []*ast.GenDecl {
	var decls []*ast.GenDecl
	for _, decl := range r.file.Decls {
		if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.IMPORT {
			decls = append(decls, decl)
		}
	}
	slices.SortStableFunc(decls, func(a, b *ast.GenDecl) int {
		return cmp.Compare(min(b.Lparen, 1), min(a.Lparen, 1))
	})
	return decls
}

// writeImportDecl takes out of a declaration what is gone, and adds to it.
func (r *rewriting) writeImportDecl(decl *ast.GenDecl, added []*imported) {
	var old, stay []*imported
	for _, i := range r.imports {
		if i.spec == nil || i.spec.Pos() < decl.Pos() || i.spec.End() > decl.End() {
			continue
		}
		old = append(old, i)
		if !i.gone() {
			stay = append(stay, i)
		} else if i.spec.Doc != nil || i.spec.Comment != nil {
			r.complain("the import of %s on line %d is no longer used, and has a comment: take that away", i.path, r.line(i.spec.Pos()))
		}
	}
	start, _ := r.lines(decl.Pos(), decl.Pos())
	_, end := r.lines(decl.End(), decl.End())
	switch {
	case len(stay) == len(old) && len(added) == 0:
	case len(stay) == 0 && len(added) == 0:
		r.edits = append(r.edits, edit{start: start, end: end})
	case !decl.Lparen.IsValid():
		r.edits = slices.DeleteFunc(r.edits, func(e edit) bool { return e.start >= start && e.end <= end }) // of its path
		r.edits = append(r.edits, edit{start: start, end: end, text: "import (\n" + r.grouped(append(stay, added...)) + ")\n"})
	default:
		for _, i := range old {
			if i.gone() {
				start, end := r.lines(i.spec.Pos(), i.spec.End())
				r.edits = append(r.edits, edit{start: start, end: end})
			}
		}
		for group := range numberOfGroups {
			if add := inGroup(added, group, r.module); len(add) > 0 {
				r.addImports(old, group, add)
			}
		}
	}
}

// addImports adds imports to their group, among those that are there.
func (r *rewriting) addImports(old []*imported, group int, added []*imported) {
	text := r.grouped(added)
	at := slices.IndexFunc(old, func(i *imported) bool { return i.group(r.module) > group }) - 1
	if at == -2 {
		at = len(old) - 1
	}
	if at < 0 { // before all others
		spec := old[0].spec
		from := spec.Pos()
		if spec.Doc != nil {
			from = spec.Doc.Pos()
		}
		start, _ := r.lines(from, from)
		r.edits = append(r.edits, edit{start: start, end: start, text: text + "\n"})
		return
	}
	if old[at].group(r.module) != group {
		text = "\n" + text
		if at+1 < len(old) {
			text += "\n"
		}
	}
	_, end := r.lines(old[at].spec.Pos(), old[at].spec.End())
	r.edits = append(r.edits, edit{start: end, end: end, text: text})
}

// lines returns the offsets at which the first of the lines begins that hold a
// range, and the one after it.
func (r *rewriting) lines(from, to token.Pos) (start, end int) {
	start, end = r.offset(from), r.offset(to)
	start = bytes.LastIndexByte(r.src[:start], '\n') + 1
	if length := bytes.IndexByte(r.src[end:], '\n'); length >= 0 {
		return start, end + length + 1
	}
	return start, len(r.src)
}

// The groups of imports that upstream has, in order: the standard library, other
// modules, its own packages.
const (
	standardGroup = iota
	otherGroup
	ownGroup
	numberOfGroups
)

func (i *imported) group(module string) int {
	first, _, _ := strings.Cut(i.to, "/")
	switch {
	case i.to == module || strings.HasPrefix(i.to, module+"/"):
		return ownGroup
	case strings.Contains(first, "."):
		return otherGroup
	default:
		return standardGroup
	}
}

func inGroup(imports []*imported, group int, module string) []*imported {
	return slices.DeleteFunc(slices.Clone(imports), func(i *imported) bool { return i.group(module) != group })
}

// grouped returns the lines of imports, with blank lines between the groups.
func (r *rewriting) grouped(imports []*imported) string {
	var groups []string
	for group := range numberOfGroups {
		var lines string
		for _, i := range inGroup(imports, group, r.module) {
			lines += "\t" + i.String() + "\n"
		}
		if lines != "" {
			groups = append(groups, lines)
		}
	}
	return strings.Join(groups, "\n")
}

// String returns the import as it stands in the new file.
func (i *imported) String() string {
	named := i.name != path.Base(i.to)
	if i.spec != nil && i.to == i.path {
		named = i.spec.Name != nil // as it was, also where that says nothing
	}
	if named {
		return i.name + " " + strconv.Quote(i.to)
	}
	return strconv.Quote(i.to)
}
