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
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// rewriter makes Go code of one base fit another one, where things have moved. It
// changes the text at places that the syntax tree gives it, so layout and comments
// stay; gofmt then sorts the imports and aligns.
type rewriter struct {
	module   string                 // import path of the tree's root
	imports  map[string]string      // import path -> the one instead; the local name stays
	symbols  map[symbol]destination // what is in another package, or has another name
	literals map[string]string      // string literal as a whole -> the one instead

	used map[string]bool // which of these were needed, as unused names them
}

func (w *rewriter) use(what string) {
	if w.used == nil {
		w.used = map[string]bool{}
	}
	w.used[what] = true
}

// unused returns what no file needed that was rewritten.
func (w *rewriter) unused() []string {
	var all []string
	for from := range w.imports {
		all = append(all, "imports: "+from)
	}
	for from := range w.symbols {
		all = append(all, "symbols: "+from.String())
	}
	for from := range w.literals {
		all = append(all, "literals: "+from)
	}
	slices.Sort(all)
	return slices.DeleteFunc(all, func(what string) bool { return w.used[what] })
}

// symbol is a name that a package declares.
type symbol struct{ pkg, name string }

func (s symbol) String() string { return s.pkg + "." + s.name }

// destination is where a symbol is found.
type destination struct {
	symbol
	as string // local name of the package, if an import has to be added
}

// place is where a Go file lies. Its package clause is only named where a file
// comes from another folder.
type place struct{ path, pkg string }

// importPath returns the path of the package that a file of the tree belongs to.
func (w *rewriter) importPath(file string) string {
	if dir := path.Dir(file); dir != "." {
		return w.module + "/" + dir
	}
	return w.module
}

// rewrite returns what the content of the file name has to be at another place.
// Only Go code is rewritten.
func (w *rewriter) rewrite(name string, to place, content []byte) ([]byte, error) {
	if path.Ext(name) != ".go" {
		return content, nil
	}
	c, err := parseGo(name, content)
	if err != nil {
		return nil, err
	}
	r := rewriting{rewriter: w, code: c}
	if c.isExternalTest() {
		r.to = "" // no package can be reached without its name
	} else {
		r.from, r.to = w.importPath(name), w.importPath(to.path)
	}
	r.readImports()
	r.movePackage(to.pkg)
	r.moveSymbols()
	r.changeLiterals()
	r.writeImports()
	if len(r.wrong) > 0 {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(r.wrong, "; "))
	}
	if len(r.edits) == 0 {
		return content, nil
	}
	out, err := r.apply()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return format.Source(out)
}

// code is a parsed Go file.
type code struct {
	src  []byte
	fset *token.FileSet
	file *ast.File
	free map[*ast.Ident]bool // those that nothing in the file declares, but imports
}

func parseGo(name string, src []byte) (*code, error) {
	c := &code{src: src, fset: token.NewFileSet(), free: map[*ast.Ident]bool{}}
	var err error
	if c.file, err = parser.ParseFile(c.fset, name, src, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, ident := range c.file.Unresolved {
		c.free[ident] = true
	}
	// The parser leaves out the keys of all composite literals, as they may be
	// fields. In maps and arrays they are not.
	ast.Inspect(c.file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch literal.Type.(type) {
		case *ast.MapType, *ast.ArrayType:
			for _, element := range literal.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					if key, ok := pair.Key.(*ast.Ident); ok && key.Obj == nil {
						c.free[key] = true
					}
				}
			}
		}
		return true
	})
	return c, nil
}

func (c *code) offset(pos token.Pos) int { return c.fset.Position(pos).Offset }
func (c *code) line(pos token.Pos) int   { return c.fset.Position(pos).Line }

// isExternalTest tells whether the file's package is the one of tests beside the
// package of the folder.
func (c *code) isExternalTest() bool {
	return strings.HasSuffix(c.file.Name.Name, "_test") && strings.HasSuffix(c.fset.File(c.file.Pos()).Name(), "_test.go")
}

// imported is an import of a file.
type imported struct {
	spec  *ast.ImportSpec // nil if it is to be added
	name  string          // in the file
	path  string          // before, "" if it is to be added
	to    string          // the path that it gets
	uses  int             // what of it the new file uses
	moved bool            // something of it is in another package now
}

// gone tells whether nothing of it is used any more.
func (i *imported) gone() bool { return i.uses == 0 && i.moved }

// rewriting is the work on one file.
type rewriting struct {
	*rewriter
	*code
	from, to string // import paths of its package, "" for an external test
	imports  []*imported
	edits    []edit
	wrong    []string
}

// edit puts a text in place of what is between two offsets.
type edit struct {
	start, end int
	text       string
	free       bool // the text begins with a name that nothing in the file may declare
}

func (r *rewriting) complain(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

func (r *rewriting) replace(start, end token.Pos, text string) {
	r.edits = append(r.edits, edit{start: r.offset(start), end: r.offset(end), text: text})
}

// apply makes the edits, and checks that the names in them mean what they should.
func (r *rewriting) apply() ([]byte, error) {
	slices.SortStableFunc(r.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	var out bytes.Buffer
	done := 0
	free := map[int]edit{}
	for _, e := range r.edits {
		out.Write(r.src[done:e.start])
		if e.free {
			free[out.Len()] = e
		}
		out.WriteString(e.text)
		done = e.end
	}
	out.Write(r.src[done:])
	after, err := parseGo("", out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the rewriting gives no Go code (a bug of this tool): %w", err)
	}
	ast.Inspect(after.file, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && ident.Obj == nil {
			delete(free, after.offset(ident.Pos()))
		}
		return true
	})
	for at, e := range free {
		name := regexp.MustCompile(`^\w+`).Find(out.Bytes()[at:])
		return nil, fmt.Errorf("line %d would use %s, which the file declares: choose another local name", 1+bytes.Count(r.src[:e.start], []byte("\n")), name)
	}
	return out.Bytes(), nil
}

// movePackage changes the package clause.
func (r *rewriting) movePackage(name string) {
	if name == "" {
		return
	}
	if r.isExternalTest() {
		name += "_test"
	}
	if r.file.Name.Name != name {
		r.replace(r.file.Name.Pos(), r.file.Name.End(), name)
	}
}

// moveSymbols changes each use of a symbol that is elsewhere.
func (r *rewriting) moveSymbols() {
	byName := map[string]*imported{}
	for _, i := range r.imports {
		byName[i.name] = i
	}
	for moved, to := range r.symbols {
		if r.file.Scope.Lookup(moved.name) != nil && moved.pkg == r.from && to.symbol != (symbol{r.to, moved.name}) {
			r.complain("it declares %s, which is said to be %s", moved.name, to)
		}
		if i := byName["."]; i != nil && i.path == moved.pkg && to.symbol != moved {
			r.complain("line %d imports %s with a dot, so it cannot be told what it uses of it (%s is elsewhere): give the import a name", r.line(i.spec.Pos()), i.path, moved.name)
		}
	}
	if len(r.wrong) > 0 {
		return
	}
	qualified := map[*ast.Ident]bool{}
	ast.Inspect(r.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok || !r.free[pkg] || byName[pkg.Name] == nil {
				return true
			}
			qualified[pkg] = true
			i := byName[pkg.Name]
			to, ok := r.symbols[symbol{i.path, n.Sel.Name}]
			if ok {
				r.use("symbols: " + symbol{i.path, n.Sel.Name}.String())
			} else {
				to.symbol = symbol{i.to, n.Sel.Name}
			}
			if to.symbol == (symbol{i.to, n.Sel.Name}) && i.to != r.to {
				i.uses++
				return true
			}
			i.moved = true
			if qualifier := r.qualifier(to); qualifier == "" {
				r.edits = append(r.edits, edit{start: r.offset(pkg.Pos()), end: r.offset(n.Sel.End()), text: to.name, free: true})
			} else {
				if qualifier != pkg.Name {
					r.edits = append(r.edits, edit{start: r.offset(pkg.Pos()), end: r.offset(pkg.End()), text: qualifier, free: true})
				}
				if to.name != n.Sel.Name {
					r.replace(n.Sel.Pos(), n.Sel.End(), to.name)
				}
			}
		case *ast.Ident:
			to, ok := r.symbols[symbol{r.from, n.Name}]
			if !ok || r.from == "" || !r.free[n] || qualified[n] {
				return true
			}
			r.use("symbols: " + symbol{r.from, n.Name}.String())
			if to.symbol == (symbol{r.to, n.Name}) {
				return true
			}
			text := to.name
			if qualifier := r.qualifier(to); qualifier != "" {
				if !ast.IsExported(to.name) {
					r.complain("line %d uses %s, which is in %s and not exported", r.line(n.Pos()), n.Name, to.pkg)
				}
				text = qualifier + "." + to.name
			}
			r.edits = append(r.edits, edit{start: r.offset(n.Pos()), end: r.offset(n.End()), text: text, free: true})
		}
		return true
	})
}

// qualifier returns the local name of the package that a symbol is in, "" for the
// file's own package. It sees to the import.
func (r *rewriting) qualifier(of destination) string {
	if of.pkg == r.to {
		return ""
	}
	for _, i := range r.imports {
		if i.to == of.pkg && i.name != "_" && i.name != "." {
			i.uses++
			return i.name
		}
	}
	i := &imported{name: cmp.Or(of.as, path.Base(of.pkg)), to: of.pkg, uses: 1}
	r.imports = append(r.imports, i)
	return i.name
}

// changeLiterals changes the strings that the base calls otherwise.
func (r *rewriting) changeLiterals() {
	if len(r.literals) == 0 {
		return
	}
	ast.Inspect(r.file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
			value, err := strconv.Unquote(n.Value)
			to, ok := r.literals[value]
			if err != nil || !ok {
				return true
			}
			r.use("literals: " + value)
			quoted := strconv.Quote(to)
			if n.Value[0] == '`' {
				quoted = "`" + to + "`"
			}
			r.replace(n.Pos(), n.End(), quoted)
		}
		return true
	})
}
