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

func TestCompare(t *testing.T) {
	const before = `goos: linux
pkg: sigs.k8s.io/kueue/pkg/workload
BenchmarkPlan/one-2   1000   500 ns/op   64 B/op   20 allocs/op
BenchmarkPlan/one-2   1000   900 ns/op   64 B/op   20 allocs/op
BenchmarkWait-2       1000   500 ns/op    0 B/op    0 allocs/op
`
	for name, tc := range map[string]struct {
		replace []string
		want    string
	}{
		"slower, on more processors": {replace: []string{"500 ns/op", "5000 ns/op", "-2 ", "-64 "}},
		"a tenth more":               {replace: []string{"20 allocs/op", "22 allocs/op"}},
		"more than a tenth":          {replace: []string{"20 allocs/op", "23 allocs/op"}, want: "sigs.k8s.io/kueue/pkg/workload.Plan/one allocates 23 times, 20 in"},
		"one where there was none":   {replace: []string{" 0 allocs/op", " 1 allocs/op"}, want: "Wait allocates 1 times, 0 in"},
		"fewer":                      {replace: []string{"20 allocs/op", "10 allocs/op"}},
		"one is gone":                {replace: []string{"BenchmarkWait", "BenchmarkPlan/one"}, want: "Wait is in"},
		"one is new":                 {replace: []string{"BenchmarkPlan/one-2   1000   900", "BenchmarkPlan/two-2   1000   900"}, want: "Plan/two is not in"},
		"none":                       {replace: []string{" allocs/op", " things/op"}, want: "has no benchmark"},
	} {
		t.Run(name, func(t *testing.T) {
			file := func(name, text string) string {
				path := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			err := compare(file("old", before), file("new", strings.NewReplacer(tc.replace...).Replace(before)))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Unexpected error %v, want %q", err, tc.want)
			}
		})
	}
}
