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

package retry

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubetesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/client-go/clientset/versioned/fake"
	cmdtesting "sigs.k8s.io/kueue/cmd/kueuectl/app/testing"
	"sigs.k8s.io/kueue/cmd/kueuectl/app/wait"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
)

func TestRetryWorkload(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	evictedAt := now.Add(-time.Minute)
	until := metav1.NewTime(now.Add(time.Hour))
	ready := kueue.AdmissionCheckState{Name: "ready", State: kueue.CheckStateReady, RequeueAfterSeconds: ptr.To[int32](60)}
	undecided := kueue.AdmissionCheckState{Name: "undecided", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](2)}
	budget, noDelay := cmdtesting.RetryCheck("budget", 3600), cmdtesting.RetryCheck("budget", 0)

	waiting := func(checks ...kueue.AdmissionCheckState) *utiltestingapi.WorkloadWrapper {
		return cmdtesting.MakeWaitingWorkload("wl", metav1.NamespaceDefault, evictedAt, until.Time, checks...).ResourceVersion("7")
	}
	withBackoff := func(wl *kueue.Workload) *kueue.Workload {
		wl.Status.RequeueState.Count = ptr.To[int32](1)
		apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadEvicted, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPodsReadyTimeout})
		return wl
	}
	reserved := func() *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).
			Admission(utiltestingapi.MakeAdmission("cq").Obj()).
			Condition(metav1.Condition{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue})
	}
	condition := func(wl *utiltestingapi.WorkloadWrapper, conditionType string, status metav1.ConditionStatus, reason string) *utiltestingapi.WorkloadWrapper {
		return wl.Condition(metav1.Condition{Type: conditionType, Status: status, Reason: reason})
	}
	const notWaiting = `workload "wl" does not wait for its admission checks: `

	testCases := map[string]struct {
		args     []string
		workload *kueue.Workload
		// patchErrs are the answers to the first patches.
		patchErrs []error
		// between is what somebody else makes of the workload before the second read.
		between *kueue.Workload

		wantChecks  []kueue.AdmissionCheckState
		wantPatches []string
		wantDryRun  []string
		wantOut     string
		wantOutErr  string
		wantErr     string
	}{
		"should set the delays of the checks in Retry to 0": {
			args:       []string{"wl"},
			workload:   waiting(ready, budget, undecided).Obj(),
			wantChecks: []kueue.AdmissionCheckState{ready, noDelay, {Name: "undecided", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](2), RequeueAfterSeconds: ptr.To[int32](0)}},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/1/requeueAfterSeconds","value":0},` +
				`{"op":"add","path":"/status/admissionChecks/2/requeueAfterSeconds","value":0}]`},
			wantOut: "workload.kueue.x-k8s.io/wl retried\n",
		},
		"should retry a workload whose job is being stopped": {
			args:       []string{"wl"},
			workload:   cmdtesting.MakeStoppingWorkload("wl", metav1.NamespaceDefault, evictedAt, until.Time, budget).ResourceVersion("7").Obj(),
			wantChecks: []kueue.AdmissionCheckState{noDelay},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`},
			wantOut: "workload.kueue.x-k8s.io/wl retried\n",
		},
		"should send nothing with client dry run": {
			args:       []string{"wl", "--dry-run", "client"},
			workload:   waiting(budget).Obj(),
			wantChecks: []kueue.AdmissionCheckState{budget},
			wantOut:    "workload.kueue.x-k8s.io/wl retried (client dry run)\n",
		},
		"should print what would be sent with client dry run": {
			args:       []string{"wl", "--dry-run", "client", "-o", "jsonpath={.status.admissionChecks[0].requeueAfterSeconds}"},
			workload:   waiting(budget).Obj(),
			wantChecks: []kueue.AdmissionCheckState{budget},
			wantOut:    "0",
		},
		"should say so to the server with server dry run": {
			args:       []string{"wl", "--dry-run", "server"},
			workload:   waiting(budget).Obj(),
			wantChecks: []kueue.AdmissionCheckState{noDelay},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`},
			wantDryRun: []string{metav1.DryRunAll},
			wantOut:    "workload.kueue.x-k8s.io/wl retried (server dry run)\n",
		},
		"should read anew after a conflict": {
			args:       []string{"wl"},
			workload:   waiting(budget).Obj(),
			patchErrs:  []error{apierrors.NewConflict(schema.GroupResource{}, "wl", errors.New("test error"))},
			between:    waiting(undecided, budget).ResourceVersion("8").Obj(),
			wantChecks: []kueue.AdmissionCheckState{{Name: "undecided", State: kueue.CheckStateRetry, RetryCount: ptr.To[int32](2), RequeueAfterSeconds: ptr.To[int32](0)}, noDelay},
			wantPatches: []string{
				`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
					`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`,
				`[{"op":"replace","path":"/metadata/resourceVersion","value":"8"},` +
					`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0},` +
					`{"op":"add","path":"/status/admissionChecks/1/requeueAfterSeconds","value":0}]`,
			},
			wantOut: "workload.kueue.x-k8s.io/wl retried\n",
		},
		"should not retry after a conflict what does not wait any more": {
			args:       []string{"wl"},
			workload:   waiting(budget).Obj(),
			patchErrs:  []error{apierrors.NewConflict(schema.GroupResource{}, "wl", errors.New("test error"))},
			between:    waiting(ready).ResourceVersion("8").Obj(),
			wantChecks: []kueue.AdmissionCheckState{ready},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`},
			wantErr: notWaiting + "no check is in state Retry any more, and it is about to be requeued",
		},
		"should tell of a backoff that goes on": {
			args:       []string{"wl"},
			workload:   withBackoff(waiting(budget).Obj()),
			wantChecks: []kueue.AdmissionCheckState{noDelay},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`},
			wantOut:    "workload.kueue.x-k8s.io/wl retried\n",
			wantOutErr: "Workload \"wl\" is not requeued yet: it waits until 2026-11-21T11:00:00Z for a backoff of WaitForPodsReady\n",
		},
		"should print not found error": {
			args:    []string{"wl"},
			wantErr: `workloads.kueue.x-k8s.io "wl" not found`,
		},
		"should print forbidden error": {
			args:      []string{"wl"},
			workload:  waiting(budget).Obj(),
			patchErrs: []error{apierrors.NewForbidden(schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"}, "wl", errors.New("test error"))},
			wantPatches: []string{`[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},` +
				`{"op":"add","path":"/status/admissionChecks/0/requeueAfterSeconds","value":0}]`},
			wantChecks: []kueue.AdmissionCheckState{budget},
			wantErr:    `workloads.kueue.x-k8s.io "wl" is forbidden: test error`,
		},
		"should print invalid dry run error": {
			args:    []string{"wl", "--dry-run", "maybe"},
			wantErr: `invalid dry-run value (maybe). Must be "none", "server", or "client"`,
		},
		"should want a name": {
			wantErr: "accepts 1 arg(s), received 0",
		},
		"should say that it is finished": {
			args:     []string{"wl"},
			workload: waiting(budget).Finished().Obj(),
			wantErr:  notWaiting + "it is finished",
		},
		"should say that it is deactivated": {
			args:     []string{"wl"},
			workload: waiting(budget).Active(false).Obj(),
			wantErr:  notWaiting + "it is deactivated",
		},
		"should say that it has quota reserved": {
			args:     []string{"wl"},
			workload: reserved().AdmissionChecks(ready).Obj(),
			wantErr:  notWaiting + "it has quota reserved, and no check is in state Retry",
		},
		"should say that nothing has it wait though a check is in Retry": {
			args:     []string{"wl"},
			workload: utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).AdmissionChecks(budget).Obj(),
			wantErr:  notWaiting + "admission check(s) budget asked for a retry, but Kueue has not recorded a wait (is the feature gate ACRequeueAfter on?)",
		},
		"should say that it holds quota though a check is in Retry": {
			args:     []string{"wl"},
			workload: reserved().AdmissionChecks(budget, undecided).RequeueState(nil, &until).Obj(),
			wantErr:  notWaiting + "admission check(s) budget, undecided asked for a retry, but Kueue has not recorded a wait (is the feature gate ACRequeueAfter on?)",
		},
		"should say that it waits for a backoff": {
			args: []string{"wl"},
			workload: condition(utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).RequeueState(ptr.To[int32](1), &until),
				kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPodsReadyTimeout).Obj(),
			wantErr: notWaiting + "it waits until 2026-11-21T11:00:00Z for a backoff of WaitForPodsReady",
		},
		"should say that it is pending": {
			args:     []string{"wl"},
			workload: utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Obj(),
			wantErr:  notWaiting + "it is pending, and no check is in state Retry",
		},
	}
	for name, tc := range testCases {
		t.Run(name, func(t *testing.T) {
			streams, _, out, outErr := genericiooptions.NewTestIOStreams()

			clientset := fake.NewSimpleClientset()
			if tc.workload != nil {
				clientset = fake.NewSimpleClientset(tc.workload)
			}
			var gotPatches []string
			clientset.PrependReactor("patch", "workloads", func(action kubetesting.Action) (bool, runtime.Object, error) {
				patch := action.(kubetesting.PatchActionImpl)
				if patch.GetSubresource() != "status" {
					t.Errorf("Unexpected patch of subresource %q", patch.GetSubresource())
				}
				if diff := cmp.Diff("kueuectl", patch.PatchOptions.FieldManager); diff != "" {
					t.Errorf("Unexpected field manager (-want/+got)\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantDryRun, patch.PatchOptions.DryRun); diff != "" {
					t.Errorf("Unexpected dry run (-want/+got)\n%s", diff)
				}
				gotPatches = append(gotPatches, string(patch.GetPatch()))
				if len(gotPatches) > len(tc.patchErrs) {
					return false, nil, nil
				}
				if tc.between != nil {
					if err := clientset.Tracker().Update(kueue.SchemeGroupVersion.WithResource("workloads"), tc.between, metav1.NamespaceDefault); err != nil {
						t.Errorf("Unexpected error\n%s", err)
					}
				}
				return true, nil, tc.patchErrs[len(gotPatches)-1]
			})

			cmd := NewRetryCmd(cmdtesting.NewTestClientGetter().WithKueueClientset(clientset), streams, testingclock.NewFakePassiveClock(now))
			cmd.SetArgs(append([]string{"workload"}, tc.args...))
			cmd.SetOut(out)
			cmd.SilenceErrors = true
			cmd.SilenceUsage = true

			var gotErr string
			if err := cmd.Execute(); err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("Unexpected error (-want/+got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOut, out.String()); diff != "" {
				t.Errorf("Unexpected output (-want/+got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOutErr, outErr.String()); diff != "" {
				t.Errorf("Unexpected error output (-want/+got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantPatches, gotPatches); diff != "" {
				t.Errorf("Unexpected patches (-want/+got)\n%s", diff)
			}
			if tc.wantChecks == nil {
				return
			}
			wl, err := wait.Workloads(clientset, metav1.NamespaceDefault).Get(t.Context(), "wl", metav1.GetOptions{})
			if err != nil {
				t.Fatalf("Unexpected error\n%s", err)
			}
			if diff := cmp.Diff(tc.wantChecks, wl.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want/+got)\n%s", diff)
			}
		})
	}
}
