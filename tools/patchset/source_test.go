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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindSourceRefuses(t *testing.T) {
	p := project{dir: filepath.Join("..", ".."), out: t.Output()}
	if err := p.open(defaultBase); err != nil {
		t.Fatal(err)
	}
	module, version, root := p.base.Module, p.base.Version, filepath.Join(p.dir, p.base.Pin)
	if _, err := findSource(module, root); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	downloads := "file://" + strings.TrimSpace(string(out)) + "/cache/download"

	cases := map[string]struct {
		proxy string
		spoil func(t *testing.T, pin, cache string)
		want  []string
	}{
		"no proxy": {
			proxy: "off",
			want:  []string{"cannot download " + module, "GOPROXY"},
		},
		"another checksum": {
			proxy: downloads,
			spoil: func(t *testing.T, pin, _ string) {
				replaceIn(t, filepath.Join(pin, "go.sum"), module+" "+version+" h1:", module+" "+version+" h1:A")
			},
			want: []string{"another checksum than go.sum says", "do not change go.sum"},
		},
		"a file changed in the module cache": {
			proxy: downloads,
			spoil: func(t *testing.T, pin, cache string) {
				if _, err := findSource(module, pin); err != nil {
					t.Fatal(err)
				}
				replaceIn(t, filepath.Join(cache, module+"@"+version+"/README.md"), "Kueue", "Queue")
			},
			want: []string{"were changed", "Remove that directory"},
		},
		"no go": {
			proxy: "off",
			spoil: func(t *testing.T, _, _ string) { t.Setenv("PATH", "") },
			want:  []string{"go is not installed"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pin, cache := t.TempDir(), t.TempDir()
			for _, name := range []string{"go.mod", "go.sum"} {
				content, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(pin, name), content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("GOMODCACHE", cache)
			t.Setenv("GOPROXY", tc.proxy)
			t.Setenv("GOSUMDB", "off")
			t.Setenv("GOFLAGS", "-modcacherw")
			if tc.spoil != nil {
				tc.spoil(t, pin, cache)
			}
			_, err := findSource(module, pin)
			if err == nil {
				t.Fatal("the base was accepted")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func replaceIn(t *testing.T, name, old, new string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(content), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
