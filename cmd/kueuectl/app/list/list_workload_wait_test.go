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

package list

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	kubetesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/client-go/clientset/versioned/fake"
	cmdtesting "sigs.k8s.io/kueue/cmd/kueuectl/app/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestWorkloadCmdWaits(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	queued := func(name string) kueue.Workload {
		return *utiltestingapi.MakeWorkload(name, metav1.NamespaceDefault).Queue("lq1").Creation(now.Add(-time.Hour)).Obj()
	}
	waiting := func(name string, checks ...kueue.AdmissionCheckState) kueue.Workload {
		return *cmdtesting.MakeWaitingWorkload(name, metav1.NamespaceDefault, now, now.Add(time.Hour), checks...).
			Queue("lq1").Creation(now.Add(-2 * time.Hour)).Obj()
	}
	budget, capacity := cmdtesting.RetryCheck("budget", 3600), cmdtesting.RetryCheck("capacity", 60)
	budget.RetryCount = ptr.To[int32](2)

	testCases := map[string]struct {
		args    []string
		pages   [][]kueue.Workload
		wantOut string
	}{
		"should print no columns if nobody waits": {
			pages: [][]kueue.Workload{{queued("wl1")}, {queued("wl2")}},
			wantOut: `NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS    POSITION IN QUEUE   EXEC TIME   AGE
wl1                          lq1                         PENDING                                   60m
wl2                          lq1                         PENDING                                   60m
`,
		},
		"should print who waits for which checks": {
			pages: [][]kueue.Workload{{waiting("wl1", budget), queued("wl2"), waiting("wl3", budget, capacity)}},
			wantOut: `NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS    POSITION IN QUEUE   EXEC TIME   AGE    WAITS FOR          UNTIL                  RETRIES
wl1                          lq1                         PENDING                                   120m   budget             2026-11-21T11:00:00Z   2
wl2                          lq1                         PENDING                                   60m                                              
wl3                          lq1                         PENDING                                   120m   budget, capacity   2026-11-21T11:00:00Z   2, 0
`,
		},
		"should print the columns for all pages if somebody waits on the last one": {
			pages: [][]kueue.Workload{{queued("wl1")}, {waiting("wl2", capacity)}},
			wantOut: `NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS    POSITION IN QUEUE   EXEC TIME   AGE    WAITS FOR   UNTIL                  RETRIES
wl1                          lq1                         PENDING                                   60m                                       
wl2                          lq1                         PENDING                                   120m   capacity    2026-11-21T11:00:00Z   0
`,
		},
		"should print the columns for the workloads that are not filtered out": {
			args:  []string{"--status", "finished"},
			pages: [][]kueue.Workload{{waiting("wl1", budget)}, {*utiltestingapi.MakeWorkload("wl2", metav1.NamespaceDefault).Queue("lq1").Finished().Creation(now.Add(-time.Hour)).Obj()}},
			wantOut: `NAME   JOB TYPE   JOB NAME   LOCALQUEUE   CLUSTERQUEUE   STATUS     POSITION IN QUEUE   EXEC TIME   AGE
wl2                          lq1                         FINISHED                                   60m
`,
		},
		"should leave other outputs alone": {
			args:    []string{"-o", "jsonpath={.items[*].metadata.name}"},
			pages:   [][]kueue.Workload{{waiting("wl1", budget)}},
			wantOut: "wl1",
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			streams, _, out, outErr := genericiooptions.NewTestIOStreams()

			clientset := fake.NewSimpleClientset()
			page := 0
			clientset.PrependReactor("list", "workloads", func(kubetesting.Action) (bool, runtime.Object, error) {
				list := &kueue.WorkloadList{Items: tc.pages[page]}
				if page++; page < len(tc.pages) {
					list.Continue = "more"
				}
				return true, list, nil
			})

			cmd := NewWorkloadCmd(cmdtesting.NewTestClientGetter().WithKueueClientset(clientset), streams, testingclock.NewFakeClock(now))
			cmd.SetArgs(tc.args)

			if err := cmd.Execute(); err != nil {
				t.Errorf("Unexpected error\n%s", err)
			}
			if diff := cmp.Diff(tc.wantOut, out.String()); diff != "" {
				t.Errorf("Unexpected output (-want/+got)\n%s", diff)
			}
			if diff := cmp.Diff("", outErr.String()); diff != "" {
				t.Errorf("Unexpected output (-want/+got)\n%s", diff)
			}
		})
	}
}

// The visibility API counts those that wait, too.
func TestNobodyWhoWaitsHasAPosition(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}, {Name: "Position in Queue", Type: "string"}},
		Rows:              []metav1.TableRow{{Cells: []any{"wl1", "0"}}, {Cells: []any{"wl2", "1"}}},
	}
	list := &kueue.WorkloadList{Items: []kueue.Workload{
		*cmdtesting.MakeWaitingWorkload("wl1", metav1.NamespaceDefault, now, now.Add(time.Hour), cmdtesting.RetryCheck("budget", 3600)).Obj(),
		*utiltestingapi.MakeWorkload("wl2", metav1.NamespaceDefault).Obj(),
	}}
	out := &bytes.Buffer{}
	if err := new(waitTable).printPage(printers.NewTablePrinter(printers.PrintOptions{}), table, list, out); err != nil {
		t.Fatalf("Unexpected error\n%s", err)
	}
	want := `NAME   POSITION IN QUEUE   WAITS FOR   UNTIL                  RETRIES
wl1                        budget      2026-11-21T11:00:00Z   0
wl2    1                                                      
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("Unexpected output (-want/+got)\n%s", diff)
	}
}
