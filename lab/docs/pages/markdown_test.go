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
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestBlocks(t *testing.T) {
	page := strings.ReplaceAll(`# A page

'''sh
kubectl get workloads
'''

'''console
NAME
'''

- In a list:

  '''yaml
  # queue.yaml
  kind: ClusterQueue
  '''

<!-- not run: there is no helm here -->
'''sh
helm upgrade
'''

## Hidden

<!-- run: wait_for_it -->

<!-- run: other.md#a-section -->

'''console
no script before it
'''

## Another program

<!-- run with: python3 -->

'''sh
python3 --version
'''
`, "'''", "```")
	want := []block{
		{section: "a-page", language: "sh", content: "kubectl get workloads\n", line: 4, output: ptr.To("NAME\n")},
		{section: "a-page", language: "yaml", content: "# queue.yaml\nkind: ClusterQueue\n", line: 14},
		{section: "a-page", language: "sh", content: "helm upgrade\n", line: 20, notRun: "there is no helm here"},
		{section: "hidden", language: "sh", function: "wait_for_it", line: 25},
		{section: "hidden", include: "other.md#a-section", line: 27},
		{section: "hidden", language: "console", content: "no script before it\n", line: 30},
		{section: "another-program", language: "sh", content: "python3 --version\n", line: 38, needs: "python3"},
	}
	got, err := blocks([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(block{})); diff != "" {
		t.Errorf("blocks (-want,+got):\n%s", diff)
	}
	if name := got[1].file(); name != "queue.yaml" {
		t.Errorf("file: got %q", name)
	}
	for name, page := range map[string]string{
		"an indented block":             "Text.\n\n    kubectl get workloads\n",
		"a reason without a block":      "<!-- not run: no reason -->\n\nText.\n",
		"an unknown comment":            "<!-- run: kubectl wait -->\n",
		"a reason at the end of a page": "<!-- not run: no reason -->\n",
	} {
		if _, err := blocks([]byte(page)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMatches(t *testing.T) {
	const output = `NAME              RETRIES   UNTIL                  AGE
job-train-1a2b3   2         2026-11-21T10:06:10Z   7s
job-eval-c0ffe    0         <none>                 3m5s
`
	cases := map[string]struct {
		expected string
		want     bool
	}{
		"the same":                        {output, true},
		"other blanks, times, ages, hash": {"NAME RETRIES UNTIL AGE\njob-train-fffff 2 2027-01-01T00:00:00Z 5d\njob-eval-00000 0 <none> 1s", true},
		"any lines":                       {"NAME RETRIES UNTIL AGE\n...\n", true},
		"any words":                       {"NAME ...\n...\njob-eval-... 0 ...", true},
		"another count":                   {"NAME RETRIES UNTIL AGE\njob-train-1a2b3 3 2026-11-21T10:06:10Z 7s\n...", false},
		"another name":                    {"NAME RETRIES UNTIL AGE\njob-test-1a2b3 2 2026-11-21T10:06:10Z 7s\n...", false},
		"no time":                         {"NAME RETRIES UNTIL AGE\njob-train-1a2b3 2 <none> 7s\n...", false},
		"a line is missing":               {"NAME RETRIES UNTIL AGE\njob-train-1a2b3 2 2026-11-21T10:06:10Z 7s", false},
		"a line too many":                 {output + "job-more-12345 0 <none> 1s", false},
		"nothing":                         {"", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := matches(tc.expected, output); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
