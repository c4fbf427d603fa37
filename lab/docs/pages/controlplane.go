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
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kueue-acrequeueafter/lab/controlplane"
)

const (
	binDir  = "../../../build/bin"
	treeDir = "../../../build/kueue"
)

// startControlPlane starts a control plane with the gate on, and returns the path
// of a kubeconfig. All ends with the test.
func startControlPlane(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"kubectl", "jq", "promtool"} {
		if _, err := os.Stat(filepath.Join(binDir, tool)); err != nil {
			t.Fatalf("%v: run `make docs-tools`", err)
		}
	}
	log.SetLogger(logr.Discard())
	out := t.TempDir()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{BinDir: binDir, TreeDir: treeDir, Out: out, Gate: true})
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
	return plane.Kubeconfig
}
