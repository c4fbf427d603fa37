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
	"path/filepath"
	"strings"
	"testing"
)

func TestPrepare(t *testing.T) {
	cases := map[string]struct {
		missing string
		want    string
	}{
		"all there":      {},
		"no etcd":        {missing: "bin/etcd", want: "run `make build envtest`"},
		"no API server":  {missing: "bin/kube-apiserver", want: "run `make build envtest`"},
		"no manager":     {missing: "bin/manager", want: "run `make build envtest`"},
		"no CRDs":        {missing: "crds", want: "run `make tree`"},
		"no webhooks":    {missing: "webhooks", want: "run `make tree`"},
		"not executable": {missing: "x", want: "run `make build envtest`"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(path string) string { return filepath.Join(dir, path) }
			for _, path := range []string{"bin", "crds", "webhooks"} {
				if path != tc.missing {
					if err := os.Mkdir(in(path), 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			mode := os.FileMode(0o755)
			if tc.missing == "x" {
				mode = 0o644
			}
			for _, path := range []string{"bin/etcd", "bin/kube-apiserver", "bin/manager"} {
				if path != tc.missing {
					if err := os.WriteFile(in(path), nil, mode); err != nil {
						t.Fatal(err)
					}
				}
			}
			d := &demo{options: options{binDir: in("bin"), crds: in("crds"), webhooks: in("webhooks"), out: in("out")}}
			err := d.prepare()
			if tc.want == "" {
				if err != nil {
					t.Errorf("unexpected error: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v does not say %q", err, tc.want)
			}
		})
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{2: "two\nthree", 9: "one\ntwo\nthree"} {
		if got := tail(path, n); got != want {
			t.Errorf("tail(%d) = %q, want %q", n, got, want)
		}
	}
}
