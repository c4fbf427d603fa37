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
	"strings"
	"testing"
)

// testShared says how a tiny base differs from another one.
func testShared(t *testing.T) *shared {
	t.Helper()
	s := &shared{
		Base: "v1", Own: "bases/v2/overlay",
		Imports: map[string]string{
			"example.org/up/apis/v1beta1": "example.org/up/apis/v1beta2",
			"example.org/up/wrappers":     "example.org/up/wrappers/later",
		},
		Symbols: []movedSymbols{
			{From: "example.org/up/pkg/a", To: "example.org/up/pkg/a/evict", As: "aevict", Names: []string{"IsEvicted", "Evict", "hidden"}},
			{From: "example.org/up/pkg/a", To: "example.org/up/pkg/a", Names: []string{"Stays"}, Renamed: map[string]string{"Old": "New"}},
			{From: "example.org/up/pkg/a", To: "std", Names: []string{"Plain"}},
		},
		Literals: map[string]string{"up/v1beta1": "up/v1beta2"},
		Files: map[string]movedFile{
			"pkg/a/apply.go":      {To: "pkg/a/evict/apply.go"},
			"pkg/a/apply_test.go": {To: "pkg/a/evict/apply_test.go"},
			"apis/v1beta1":        {To: "apis/v1beta2"},
			"pkg/odd":             {To: "pkg/even", Package: "even2", Was: "odd1"},
		},
	}
	if problems := s.check("example.org/up"); problems != nil {
		t.Fatal(problems)
	}
	return s
}

// dedent takes away the indentation of a source, which backquotes need here.
func dedent(source string) string {
	return strings.ReplaceAll(strings.TrimPrefix(source, "\n"), "\n\t\t\t", "\n")[3:]
}

func TestRewrite(t *testing.T) {
	cases := map[string]struct {
		name  string // pkg/b/x.go if empty
		forth string
		back  string // what comes back, "" for what there was
		from  string
		to    string // where the file lies then, "" for the same place
	}{
		"nothing to do": {
			from: `
			package b

			import  "fmt" // not formatted

			var  _ = fmt.Sprint
			`,
			forth: `
			package b

			import  "fmt" // not formatted

			var  _ = fmt.Sprint
			`,
		},
		"imports keep their local names": {
			from: `
			package b

			import (
				"fmt"

				other "example.com/z"

				api "example.org/up/apis/v1beta1"
				"example.org/up/wrappers"
			)

			var _ = fmt.Sprint(api.A, other.B, wrappers.C)
			`,
			forth: `
			package b

			import (
				"fmt"

				other "example.com/z"

				api "example.org/up/apis/v1beta2"
				wrappers "example.org/up/wrappers/later"
			)

			var _ = fmt.Sprint(api.A, other.B, wrappers.C)
			`,
		},
		"imports are sorted": {
			from: `
			package b

			import (
				w "example.org/up/wrappers"
				"example.org/up/wrappers/earlier"
			)

			var _ = w.A + earlier.B
			`,
			forth: `
			package b

			import (
				"example.org/up/wrappers/earlier"
				w "example.org/up/wrappers/later"
			)

			var _ = w.A + earlier.B
			`,
		},
		"a symbol in another package, the old one stays": {
			from: `
			package b

			import (
				"fmt"

				"example.org/up/pkg/a"
				"example.org/up/pkg/z"
			)

			// f asks a.IsEvicted. // a comment stays
			func f(x a.Info) bool {
				fmt.Print(z.A) /* so does this */

				return a.IsEvicted(x) && // and
					a.Has(x)
			}
			`,
			forth: `
			package b

			import (
				"fmt"

				"example.org/up/pkg/a"
				aevict "example.org/up/pkg/a/evict"
				"example.org/up/pkg/z"
			)

			// f asks a.IsEvicted. // a comment stays
			func f(x a.Info) bool {
				fmt.Print(z.A) /* so does this */

				return aevict.IsEvicted(x) && // and
					a.Has(x)
			}
			`,
		},
		"a symbol in another package, the old one goes": {
			from: `
			package b

			import (
				"fmt"

				"example.org/up/pkg/a"
			)

			var s = []struct{ f, ggg any }{
				{f: a.IsEvicted, ggg: fmt.Sprint},
			}
			`,
			forth: `
			package b

			import (
				"fmt"

				aevict "example.org/up/pkg/a/evict"
			)

			var s = []struct{ f, ggg any }{
				{f: aevict.IsEvicted, ggg: fmt.Sprint},
			}
			`,
		},
		"a symbol in a package that is imported already": {
			from: `
			package b

			import (
				pkga "example.org/up/pkg/a"
				evicting "example.org/up/pkg/a/evict"
			)

			var x, y, z = pkga.Evict, evicting.Reason, pkga.Old
			`,
			forth: `
			package b

			import (
				pkga "example.org/up/pkg/a"
				evicting "example.org/up/pkg/a/evict"
			)

			var x, y, z = evicting.Evict, evicting.Reason, pkga.New
			`,
		},
		"the only import": {
			from: `
			package b

			import "example.org/up/pkg/a"

			var x = a.Evict
			`,
			forth: `
			package b

			import (
				aevict "example.org/up/pkg/a/evict"
			)

			var x = aevict.Evict
			`,
			back: `
			package b

			import (
				"example.org/up/pkg/a"
			)

			var x = a.Evict
			`,
		},
		"the only import, which stays": {
			from: `
			package b

			import "example.org/up/pkg/a"

			var x = a.Evict(a.Other)
			`,
			forth: `
			package b

			import (
				"example.org/up/pkg/a"
				aevict "example.org/up/pkg/a/evict"
			)

			var x = aevict.Evict(a.Other)
			`,
			back: `
			package b

			import (
				"example.org/up/pkg/a"
			)

			var x = a.Evict(a.Other)
			`,
		},
		"the first import of a group": {
			from: `
			package b

			import (
				"example.com/z"

				"example.org/up/pkg/a"
			)

			var x = a.Plain(z.A, a.B)
			`,
			forth: `
			package b

			import (
				"std"

				"example.com/z"

				"example.org/up/pkg/a"
			)

			var x = std.Plain(z.A, a.B)
			`,
		},
		"in the package itself": {
			name: "pkg/a/x.go",
			from: `
			package a

			import (
				"fmt"
			)

			type T struct {
				Evict     func()
				IsEvicted bool
			}

			func (t T) hidden() { t.Evict() }

			func f[Evict any](e Evict) { fmt.Print(e) }

			var m = map[any]any{IsEvicted: T{IsEvicted: IsEvicted(1)}, "b": [...]any{Stays: Old[int, T](Evict)}}

			func g(IsEvicted bool) bool {
				if Old := Old; !Old {
					return IsEvicted
				}
				Evict(Stays)
				Old()
				return Stays
			}
			`,
			forth: `
			package a

			import (
				"fmt"

				aevict "example.org/up/pkg/a/evict"
			)

			type T struct {
				Evict     func()
				IsEvicted bool
			}

			func (t T) hidden() { t.Evict() }

			func f[Evict any](e Evict) { fmt.Print(e) }

			var m = map[any]any{aevict.IsEvicted: T{IsEvicted: aevict.IsEvicted(1)}, "b": [...]any{Stays: New[int, T](aevict.Evict)}}

			func g(IsEvicted bool) bool {
				if Old := New; !Old {
					return IsEvicted
				}
				aevict.Evict(Stays)
				New()
				return Stays
			}
			`,
		},
		"no import yet": {
			name: "pkg/a/x.go",
			from: `
			package a // the package

			// f is documented.
			func f() { Evict() }
			`,
			forth: `
			package a // the package

			import (
				aevict "example.org/up/pkg/a/evict"
			)

			// f is documented.
			func f() { aevict.Evict() }
			`,
		},
		"a local variable of the name of the package": {
			from: `
			package b

			import (
				"example.org/up/pkg/a"
			)

			func f() {
				a.Evict(a.Info{})
				a := g()
				a.Evict(a.IsEvicted)
			}
			`,
			forth: `
			package b

			import (
				"example.org/up/pkg/a"
				aevict "example.org/up/pkg/a/evict"
			)

			func f() {
				aevict.Evict(a.Info{})
				a := g()
				a.Evict(a.IsEvicted)
			}
			`,
		},
		"a file that moves": {
			name: "pkg/a/apply.go",
			to:   "pkg/a/evict/apply.go",
			from: `
			package a

			import (
				"fmt"
			)

			func Evict() { fmt.Print(IsEvicted(Stays), hidden) }
			`,
			forth: `
			package evict

			import (
				"fmt"

				"example.org/up/pkg/a"
			)

			func Evict() { fmt.Print(IsEvicted(a.Stays), hidden) }
			`,
		},
		"a file that moves to a package which it imports": {
			name: "pkg/a/apply.go",
			to:   "pkg/a/evict/apply.go",
			from: `
			package a

			import (
				"example.org/up/pkg/a/evict"
			)

			var m = map[string]any{"a": map[any]any{evict.Reason: evict.Reason}}
			`,
			forth: `
			package evict

			var m = map[string]any{"a": map[any]any{Reason: Reason}}
			`,
			back: `
			package a

			var m = map[string]any{"a": map[any]any{Reason: Reason}}
			`,
		},
		"a test beside the package that moves": {
			name: "pkg/a/apply_test.go",
			to:   "pkg/a/evict/apply_test.go",
			from: `
			package a_test

			import (
				"example.org/up/pkg/a"
			)

			var _ = a.Evict(IsEvicted)
			`,
			forth: `
			package evict_test

			import (
				aevict "example.org/up/pkg/a/evict"
			)

			var _ = aevict.Evict(IsEvicted)
			`,
		},
		"a file of a folder that moves, with package names of their own": {
			name: "pkg/odd/sub.go",
			to:   "pkg/even/sub.go",
			from: `
			package odd1
			`,
			forth: `
			package even2
			`,
		},
		"literals": {
			from: `
			package b

			import (
				"up/v1beta1"
			)

			var _ = []string{"up/v1beta1", ` + "`up/v1beta1`" + `, "up/v1beta1 and more"}
			`,
			forth: `
			package b

			import (
				"up/v1beta1"
			)

			var _ = []string{"up/v1beta2", ` + "`up/v1beta2`" + `, "up/v1beta1 and more"}
			`,
		},
		"other imports": {
			from: `
			package b

			import (
				_ "example.org/up/apis/v1beta1"
				. "example.org/up/wrappers"
			)

			import "fmt"

			var _ = fmt.Sprint(IsEvicted)
			`,
			forth: `
			package b

			import (
				_ "example.org/up/apis/v1beta2"
				. "example.org/up/wrappers/later"
			)

			import "fmt"

			var _ = fmt.Sprint(IsEvicted)
			`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testShared(t)
			if tc.name == "" {
				tc.name = "pkg/b/x.go"
			}
			if tc.to == "" {
				tc.to = tc.name
			}
			if tc.back == "" {
				tc.back = tc.from
			}
			to := s.inTree(tc.name)
			if to.path != tc.to {
				t.Fatalf("the file lies in %s, want %s", to.path, tc.to)
			}
			got, err := s.forth.rewrite(tc.name, to, []byte(dedent(tc.from)))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != dedent(tc.forth) {
				t.Errorf("rewritten, it is\n%s", got)
			}
			back, err := s.back.rewrite(tc.to, s.inProject(tc.to), []byte(dedent(tc.forth)))
			if err != nil {
				t.Fatal(err)
			}
			if string(back) != dedent(tc.back) {
				t.Errorf("what comes back is\n%s", back)
			}
		})
	}
}

func TestRewriteRefuses(t *testing.T) {
	cases := map[string]struct {
		name   string
		source string
		want   []string
	}{
		"dot import": {
			source: "package b\n\nimport . \"example.org/up/pkg/a\"\n\nvar _ = Evict\n",
			want:   []string{"pkg/b/x.go", "line 3 imports example.org/up/pkg/a with a dot", "give the import a name"},
		},
		"the local name is declared in the file": {
			source: "package b\n\nimport \"example.org/up/pkg/a\"\n\nfunc f(aevict int) {\n\ta.Evict(aevict)\n}\n",
			want:   []string{"line 6 would use aevict, which the file declares"},
		},
		"the local name is that of another import": {
			source: "package b\n\nimport (\n\taevict \"fmt\"\n\n\t\"example.org/up/pkg/a\"\n)\n\nvar _ = a.Evict(aevict.Print)\n",
			want:   []string{"aevict is the local name of fmt, and would be that of example.org/up/pkg/a/evict, too"},
		},
		"a variable hides the function": {
			name:   "pkg/a/x.go",
			source: "package a\n\nfunc f(New int) {\n\tOld(New)\n}\n",
			want:   []string{"line 4 would use New"},
		},
		"not exported": {
			name:   "pkg/a/x.go",
			source: "package a\n\nvar _ = hidden\n",
			want:   []string{"line 3 uses hidden, which is in example.org/up/pkg/a/evict and not exported"},
		},
		"declared where it should not be": {
			name:   "pkg/a/x.go",
			source: "package a\n\nfunc Evict() {}\n",
			want:   []string{"declares Evict, which is said to be example.org/up/pkg/a/evict.Evict"},
		},
		"a comment at an import that goes": {
			source: "package b\n\nimport (\n\t\"example.org/up/pkg/a\" // for a reason\n)\n\nvar _ = a.Evict\n",
			want:   []string{"the import of example.org/up/pkg/a on line 4 is no longer used, and has a comment"},
		},
		"no Go": {
			source: "package\n",
			want:   []string{"pkg/b/x.go:1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testShared(t)
			if tc.name == "" {
				tc.name = "pkg/b/x.go"
			}
			out, err := s.forth.rewrite(tc.name, s.inTree(tc.name), []byte(tc.source))
			if err == nil {
				t.Fatalf("it gives\n%s", out)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestSharedIsRefused(t *testing.T) {
	cases := map[string]struct {
		spoil func(s *shared)
		want  string
	}{
		"no base": {
			spoil: func(s *shared) { s.Base = "" },
			want:  "base and own are needed",
		},
		"two imports become one": {
			spoil: func(s *shared) { s.Imports["example.org/up/x"] = "example.org/up/apis/v1beta2" },
			want:  "imports: example.org/up/apis/v1beta1 and example.org/up/x both become example.org/up/apis/v1beta2, which cannot be undone",
		},
		"two files become one": {
			spoil: func(s *shared) { s.Files["pkg/x"] = movedFile{To: "pkg/even"} },
			want:  "files: pkg/odd and pkg/x both become pkg/even",
		},
		"two symbols become one": {
			spoil: func(s *shared) { s.Symbols[1].Renamed["Older"] = "New" },
			want:  "two become example.org/up/pkg/a.New",
		},
		"a symbol twice": {
			spoil: func(s *shared) { s.Symbols[1].Names = append(s.Symbols[1].Names, "Evict") },
			want:  "example.org/up/pkg/a.Evict is named twice",
		},
		"symbols without names": {
			spoil: func(s *shared) { s.Symbols[0].Names = nil },
			want:  "without from, to or names",
		},
		"left out without a reason": {
			spoil: func(s *shared) { s.Without = []without{{File: "pkg/x.go"}} },
			want:  `no reason why "pkg/x.go" is left out`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testShared(t)
			tc.spoil(s)
			if got := strings.Join(s.check("example.org/up"), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("the problems are\n%s\nwant %s", got, tc.want)
			}
		})
	}
}
