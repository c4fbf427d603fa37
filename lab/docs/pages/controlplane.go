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
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kueue-acrequeueafter/lab/controlplane"
)

// Where the programs are, the patched tree, and plain releases, unless the
// environment says otherwise.
var (
	binDir   = fromEnvironment("DOCS_BIN_DIR", "../../../build/bin")
	treeDir  = fromEnvironment("DOCS_TREE_DIR", "../../../build/kueue")
	plainDir = fromEnvironment("DOCS_PLAIN_DIR", "../../../build/bench/versions")
)

func fromEnvironment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// startControlPlane starts a control plane with the gates on, or with a plain
// release if one is named. All ends with the test.
func startControlPlane(t *testing.T, plain string) *controlplane.ControlPlane {
	t.Helper()
	options := controlplane.Options{Gate: true, RetryStrategy: true}
	if plain != "" {
		options = options.WithPlain(filepath.Join(plainDir, plain))
	}
	return start(t, options)
}

// start starts a control plane with the programs and the tree of the documentation,
// unless the options have others.
func start(t *testing.T, options controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	for _, tool := range []string{"kubectl", "jq", "promtool"} {
		if _, err := os.Stat(filepath.Join(binDir, tool)); err != nil {
			t.Fatalf("%v: run `make docs-tools`", err)
		}
	}
	if _, err := os.Stat(filepath.Join(binDir, "kubectl-kueue")); err != nil {
		t.Fatalf("%v: run `make kueuectl`", err)
	}
	log.SetLogger(logr.Discard())
	out := t.TempDir()
	options.BinDir, options.TreeDir, options.Out = binDir, cmp.Or(options.TreeDir, treeDir), out
	plane, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			content, _ := os.ReadFile(filepath.Join(out, "manager.log"))
			for line := range strings.Lines(string(content)) {
				if strings.Contains(line, `"level":"error"`) {
					t.Logf("the manager's log: %s", line)
				}
			}
		}
	})
	return plane
}
