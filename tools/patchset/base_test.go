package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindBaseRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the base")
	}
	const module = "sigs.k8s.io/kueue"
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := findBase(module, root, ""); err != nil {
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
				replaceIn(t, filepath.Join(pin, "go.sum"), "kueue v0.14.8 h1:", "kueue v0.14.8 h1:A")
			},
			want: []string{"another checksum than go.sum says", "do not change go.sum"},
		},
		"a file changed in the module cache": {
			proxy: downloads,
			spoil: func(t *testing.T, pin, cache string) {
				if _, err := findBase(module, pin, ""); err != nil {
					t.Fatal(err)
				}
				replaceIn(t, filepath.Join(cache, module+"@v0.14.8/README.md"), "Kueue", "Queue")
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
			_, err := findBase(module, pin, "")
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
