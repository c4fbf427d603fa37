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

package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	const (
		crds     = "tree/config/components/crd/bases"
		webhooks = "tree/config/components/webhook"
		config   = "tree/config/components/manager/controller_manager_config.yaml"
	)
	cases := map[string]struct {
		missing string
		want    string
	}{
		"all there":      {},
		"no etcd":        {missing: "bin/etcd", want: "run `make build envtest`"},
		"no API server":  {missing: "bin/kube-apiserver", want: "run `make build envtest`"},
		"no manager":     {missing: "bin/manager", want: "run `make build envtest`"},
		"no CRDs":        {missing: crds, want: "run `make tree`"},
		"no webhooks":    {missing: webhooks, want: "run `make tree`"},
		"no config":      {missing: config, want: "run `make tree`"},
		"not executable": {missing: "x", want: "run `make build envtest`"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(path string) string { return filepath.Join(dir, path) }
			for _, path := range []string{"bin", crds, webhooks, config} {
				if path != tc.missing {
					if err := os.MkdirAll(in(path), 0o755); err != nil {
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
			err := Options{BinDir: in("bin"), TreeDir: in("tree")}.Check()
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

// A process ends with what it started itself, and its log holds all of it.
func TestProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var copied strings.Builder
	p, err := StartProcess(ProcessOptions{Log: log, Copy: &copied, Env: []string{"WORD=three"}}, "/bin/sh", "-c",
		`echo one; echo two; sleep 1000 & echo $WORD; wait`)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(p.Tail(1), "three"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the process has not printed its last line: %s", p.Tail(9))
		}
	}
	select {
	case <-p.Exited():
		t.Error("the process has ended before it was stopped")
	default:
	}
	p.Stop()
	<-p.Exited()
	for n, want := range map[int]string{2: "two\nthree", 9: "one\ntwo\nthree"} {
		if got := p.Tail(n); got != "the end of "+log+":\n"+want {
			t.Errorf("Tail(%d) = %q, want %q at its end", n, got, want)
		}
	}
	if copied.String() != "one\ntwo\nthree\n" {
		t.Errorf("copied %q", copied.String())
	}
}

func TestStartProcessThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if _, err := StartProcess(ProcessOptions{Log: filepath.Join(dir, "log")}, filepath.Join(dir, "program")); err == nil {
		t.Error("no error")
	}
}
