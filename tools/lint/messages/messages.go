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

// Package messages finds code that decides something from the text of a message:
// messages are for people, and change. It knows those of the conditions of the
// API and of Kueue's admission checks.
//
// It follows a message through local variables, slices, conversions and calls
// that return a string, within a function. It does not follow one that a function
// returns, or that is kept in a field.
package messages

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzer reports where a message decides something. What is allowed: to write
// it, to make another text of it, to hand it on, and what tells whether there is
// something to write: to compare the messages of two objects of the same type, and the
// result of a function that sets a condition.
var Analyzer = &analysis.Analyzer{
	Name:     "messages",
	Doc:      "report decisions that depend on the text of the message of a condition or of an admission check",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

var overlay string

func init() {
	Analyzer.Flags.StringVar(&overlay, "overlay", "", "check only files that this directory has too, at the path that they have in their module")
}

// The types whose field Message it is about: package, or its beginning, and name.
var owners = []struct{ pkg, name string }{
	{"k8s.io/apimachinery/pkg/apis/meta/", "Condition"},
	{"sigs.k8s.io/kueue/apis/kueue/", "AdmissionCheckState"},
}

// The packages that look into texts. A number that they return is a decision too.
var textPackages = map[string]bool{"bytes": true, "cmp": true, "regexp": true, "slices": true, "strconv": true, "strings": true, "unicode/utf8": true}

type checker struct {
	pass *analysis.Pass
	// carriers are the local variables that have a message in them.
	carriers map[types.Object]bool
}

func run(pass *analysis.Pass) (any, error) {
	c := checker{pass, map[types.Object]bool{}}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	c.findCarriers(in)
	in.WithStack([]ast.Node{(*ast.SelectorExpr)(nil), (*ast.Ident)(nil)}, func(node ast.Node, push bool, stack []ast.Node) bool {
		if push && c.isChecked(node.Pos()) && c.isSource(node.(ast.Expr)) {
			if how := c.decides(stack); how != "" {
				pass.Reportf(node.Pos(), "the text of a message decides: %s", how)
			}
		}
		return true
	})
	return nil, nil
}

// isChecked tells whether the file at the position is to be checked: no test, and
// one of the overlay.
func (c checker) isChecked(pos token.Pos) bool {
	name := c.pass.Fset.File(pos).Name()
	if strings.HasSuffix(name, "_test.go") {
		return false
	}
	if overlay == "" || c.pass.Module == nil {
		return overlay == ""
	}
	folder := strings.TrimPrefix(c.pass.Pkg.Path(), c.pass.Module.Path)
	_, err := os.Stat(filepath.Join(overlay, filepath.FromSlash(folder), filepath.Base(name)))
	return err == nil
}

// findCarriers looks for variables that are assigned a message, and for those that
// are assigned these, until there is no other.
func (c checker) findCarriers(in *inspector.Inspector) {
	for known := -1; known < len(c.carriers); {
		known = len(c.carriers)
		in.Preorder([]ast.Node{(*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil)}, func(node ast.Node) {
			switch node := node.(type) {
			case *ast.AssignStmt:
				if len(node.Lhs) == len(node.Rhs) && node.Tok != token.ADD_ASSIGN {
					for i, value := range node.Rhs {
						if name, ok := node.Lhs[i].(*ast.Ident); ok {
							c.assign(name, value)
						}
					}
				}
			case *ast.ValueSpec:
				for i, value := range node.Values {
					if len(node.Values) == len(node.Names) {
						c.assign(node.Names[i], value)
					}
				}
			}
		})
	}
}

func (c checker) assign(name *ast.Ident, value ast.Expr) {
	if variable := c.pass.TypesInfo.ObjectOf(name); variable != nil && c.carries(value) {
		c.carriers[variable] = true
	}
}

// carries tells whether a value is a message or a piece of one. A text that was
// made of one with others is not: it is to be written.
func (c checker) carries(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return c.carries(expr.X)
	case *ast.SliceExpr:
		return c.carries(expr.X)
	case *ast.IndexExpr:
		return c.carries(expr.X)
	case *ast.UnaryExpr:
		return expr.Op == token.AND && c.carries(expr.X)
	case *ast.StarExpr:
		return c.carries(expr.X)
	case *ast.CallExpr:
		if len(expr.Args) == 0 || !c.carries(expr.Args[0]) {
			return false
		}
		fn := typeutil.Callee(c.pass.TypesInfo, expr)
		return c.isConversion(expr) || fn != nil && fn.Pkg() != nil && textPackages[fn.Pkg().Path()]
	default:
		return c.isSource(expr)
	}
}

// isSource tells whether the expression is the field Message of one of the types,
// or a variable that has it.
func (c checker) isSource(expr ast.Expr) bool {
	if name, ok := expr.(*ast.Ident); ok {
		return c.carriers[c.pass.TypesInfo.Uses[name]]
	}
	return c.owner(expr) != nil
}

// owner returns the type whose field Message the expression selects, or nil.
func (c checker) owner(expr ast.Expr) types.Type {
	selector, ok := ast.Unparen(expr).(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Message" {
		return nil
	}
	selection := c.pass.TypesInfo.Selections[selector]
	if selection == nil || selection.Kind() != types.FieldVal {
		return nil
	}
	// The field may be one of an embedded struct.
	owner := deref(selection.Recv())
	for _, field := range selection.Index()[:len(selection.Index())-1] {
		owner = deref(owner.Underlying().(*types.Struct).Field(field).Type())
	}
	named, ok := owner.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	for _, known := range owners {
		if named.Obj().Name() == known.name && strings.HasPrefix(named.Obj().Pkg().Path(), known.pkg) {
			return named
		}
	}
	return nil
}

func deref(t types.Type) types.Type {
	t = types.Unalias(t)
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return types.Unalias(pointer.Elem())
	}
	return t
}

// decides tells how the last node of the stack, which has a message, decides
// something; it is empty if it does not.
func (c checker) decides(stack []ast.Node) string {
	// As long as the expression around it is still the message, or a text made of it.
	text := true
	for i := len(stack) - 1; i > 0; i-- {
		node, _ := stack[i].(ast.Expr)
		switch parent := stack[i-1].(type) {
		case *ast.FuncLit, *ast.BlockStmt:
			return ""
		case *ast.IfStmt:
			return within(node, parent.Cond, "the condition of an if")
		case *ast.ForStmt:
			return within(node, parent.Cond, "the condition of a for")
		case *ast.RangeStmt:
			return within(node, parent.X, "the range of a for")
		case *ast.SwitchStmt:
			return within(node, parent.Tag, "the tag of a switch")
		case *ast.CaseClause:
			for _, expr := range parent.List {
				if node == expr {
					return "in a case of a switch"
				}
			}
			return ""
		case *ast.AssignStmt, *ast.ReturnStmt, *ast.ExprStmt:
			return ""
		case *ast.BinaryExpr:
			switch {
			case c.comparesWithWritten(parent):
				return ""
			case text && isComparison(parent.Op):
				return "it is compared"
			}
			text = text && parent.Op == token.ADD
		case *ast.IndexExpr:
			if text && parent.Index == node {
				if _, ok := c.pass.TypesInfo.TypeOf(parent.X).Underlying().(*types.Map); ok {
					return "it is the key of a map"
				}
			}
			text = text && parent.X == node
		case *ast.CallExpr:
			if text && parent.Fun != node {
				if _, alone := stack[max(i-2, 0)].(*ast.ExprStmt); alone {
					return "" // nobody asks for the result
				}
				if how := c.callDecides(parent); how != "" {
					return how
				}
				text = isText(c.pass.TypesInfo.TypeOf(parent))
			}
		case *ast.ParenExpr, *ast.SliceExpr, *ast.StarExpr, *ast.UnaryExpr:
		default:
			text = false
		}
	}
	return ""
}

func within(node, expr ast.Expr, where string) string {
	if node != nil && node == expr {
		return "in " + where
	}
	return ""
}

func isComparison(op token.Token) bool {
	switch op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return true
	}
	return false
}

// comparesWithWritten tells whether two whole messages of objects of one type are
// compared, the one that is there and the one to be written.
func (c checker) comparesWithWritten(expr *ast.BinaryExpr) bool {
	x, y := c.owner(expr.X), c.owner(expr.Y)
	return (expr.Op == token.EQL || expr.Op == token.NEQ) && x != nil && y != nil && types.Identical(x, y)
}

// callDecides tells whether the result of a call that is given a message is a
// decision: a bool, the length, or a number of the packages that look into texts.
func (c checker) callDecides(call *ast.CallExpr) string {
	if c.isConversion(call) {
		return ""
	}
	callee := typeutil.Callee(c.pass.TypesInfo, call)
	if callee != nil && strings.HasPrefix(callee.Name(), "Set") && strings.HasSuffix(callee.Name(), "Condition") {
		return ""
	}
	if builtin, ok := callee.(*types.Builtin); ok {
		if builtin.Name() == "len" {
			return "its length is taken"
		}
		return ""
	}
	inText := callee != nil && callee.Pkg() != nil && textPackages[callee.Pkg().Path()]
	results := []types.Type{c.pass.TypesInfo.TypeOf(call)}
	if tuple, ok := results[0].(*types.Tuple); ok {
		results = nil
		for result := range tuple.Variables() {
			results = append(results, result.Type())
		}
	}
	for _, result := range results {
		if basic, ok := result.Underlying().(*types.Basic); ok && (basic.Info()&types.IsBoolean != 0 || inText && basic.Info()&types.IsInteger != 0) {
			name := "a function"
			if callee != nil {
				name = callee.Name()
			}
			return name + " judges it"
		}
	}
	return ""
}

func (c checker) isConversion(call *ast.CallExpr) bool {
	return c.pass.TypesInfo.Types[call.Fun].IsType()
}

// isText tells whether a result of the type still has the message in it.
func isText(t types.Type) bool {
	if slice, ok := t.Underlying().(*types.Slice); ok {
		t = slice.Elem()
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && (basic.Info()&types.IsString != 0 || basic.Kind() == types.Byte || basic.Kind() == types.Rune)
}
