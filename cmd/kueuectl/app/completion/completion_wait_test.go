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

package completion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"sigs.k8s.io/kueue/client-go/clientset/versioned/fake"
	cmdtesting "sigs.k8s.io/kueue/cmd/kueuectl/app/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestWaitingWorkloadNameCompletionFunc(t *testing.T) {
	evictedAt := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	objs := []runtime.Object{
		utiltestingapi.MakeWorkload("wl1", metav1.NamespaceDefault).Obj(),
		cmdtesting.MakeWaitingWorkload("wl2", metav1.NamespaceDefault, evictedAt, evictedAt.Add(time.Hour), cmdtesting.RetryCheck("budget", 3600)).Obj(),
		cmdtesting.MakeWaitingWorkload("wl3", "ns", evictedAt, evictedAt.Add(time.Hour), cmdtesting.RetryCheck("budget", 3600)).Obj(),
	}
	testCases := map[string]struct {
		ns        string
		args      []string
		wantNames []string
	}{
		"should return the names of the workloads that wait": {
			ns:        metav1.NamespaceDefault,
			wantNames: []string{"wl2"},
		},
		"should return those of the namespace": {
			ns:        "ns",
			wantNames: []string{"wl3"},
		},
		"should return no second name": {
			ns:   metav1.NamespaceDefault,
			args: []string{"wl2"},
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			tcg := cmdtesting.NewTestClientGetter().WithNamespace(tc.ns).WithKueueClientset(fake.NewSimpleClientset(objs...))

			gotNames, gotDirective := WaitingWorkloadNameFunc(tcg)(&cobra.Command{}, tc.args, "")
			if diff := cmp.Diff(tc.wantNames, gotNames); diff != "" {
				t.Errorf("Unexpected names (-want/+got)\n%s", diff)
			}
			if diff := cmp.Diff(cobra.ShellCompDirectiveNoFileComp, gotDirective); diff != "" {
				t.Errorf("Unexpected directive (-want/+got)\n%s", diff)
			}
		})
	}
}
