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
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestReadStats(t *testing.T) {
	wall, cpu, err := readStats([]byte("maxrss: 52268\nsysMs: 500\nuserMs: 1500\nwallMs: 40250\n"))
	if wall != 40.25 || cpu != 2 || err != nil {
		t.Errorf("%v s, CPU %v s, %v", wall, cpu, err)
	}
	if _, _, err := readStats([]byte("{}")); err == nil {
		t.Error("no error without times")
	}
}

func TestCountWorkloads(t *testing.T) {
	const header = "id,class name,namespace,name,ms to admitted,ms to finish,num evictions\n"
	cases := map[string]struct {
		list    string
		want    int
		wantErr bool
	}{
		"all finished":     {list: header + "1,small,ns,a,10,210,0\n2,small,ns,b,20,220,1\n", want: 2},
		"one not finished": {list: header + "1,small,ns,a,10,210,0\n2,small,ns,b,20,0,1\n", wantErr: true},
		"none":             {list: header, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "wlStates.csv")
			if err := os.WriteFile(file, []byte(tc.list), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := countWorkloads(file); got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestThin(t *testing.T) {
	const sets = "- count: 5\n  queuesSets:\n  - count: 6\n    nominalQuota: 20\n    workloadsSets:\n    - count: %d\n      workloads:\n      - request: 1\n"
	for name, form := range map[string]string{
		"a list":            sets,
		"a list of a field": "cohorts:\n" + sets,
	} {
		t.Run(name, func(t *testing.T) {
			var got, want any
			if err := errors.Join(yaml.Unmarshal(fmt.Appendf(nil, form, 350), &got), yaml.Unmarshal(fmt.Appendf(nil, form, 35), &want)); err != nil {
				t.Fatal(err)
			}
			thin(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want, +got):\n%s", diff)
			}
		})
	}
}
