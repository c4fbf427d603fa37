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

package kit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const controllerName = "example.com/budget"

var (
	testNow    = time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC)
	testBefore = metav1.NewTime(testNow.Add(-time.Hour).Local())
	errTest    = errors.New("test")
)

func activeCheck(name string) *checkWrapper {
	return makeCheck(name).active(metav1.ConditionTrue)
}

func checkState(name kueue.AdmissionCheckReference, state kueue.CheckState) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: testBefore, RetryCount: ptr.To[int32](2)}
}

func askingWorkload(name string, checks ...kueue.AdmissionCheckReference) *workloadWrapper {
	var states []kueue.AdmissionCheckState
	for _, check := range checks {
		states = append(states, checkState(check, kueue.CheckStatePending))
	}
	return makeWorkload(name).reserved().checks(states...)
}

func waitingWorkload(name string, check kueue.AdmissionCheckReference) *workloadWrapper {
	return makeWorkload(name).evicted().checks(checkState(check, kueue.CheckStateRetry))
}

// refusedWorkload has a check that asks for a retry, and is not evicted yet.
func refusedWorkload(name string, check kueue.AdmissionCheckReference) *workloadWrapper {
	return askingWorkload(name).checks(checkState(check, kueue.CheckStateRetry))
}

// newTestController returns a controller on a fake client that counts the writes
// by field manager.
func newTestController(opts Options, objs ...client.Object) (*controller, map[string]int) {
	c, writes := newFakeClient(objs...)
	opts.ControllerName = controllerName
	opts.Clock = testingclock.NewFakePassiveClock(testNow)
	return &controller{
		Options: opts,
		client:  c,
		writer:  &Writer{Client: c, Reader: c, FieldManager: controllerName, Clock: opts.Clock},
	}, writes
}

func TestReconcileWorkload(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "budget")
	budget := activeCheck("budget").obj()
	states := func(states ...kueue.AdmissionCheckState) []kueue.AdmissionCheckState { return states }
	readyState := func(name kueue.AdmissionCheckReference) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, State: kueue.CheckStateReady, Message: "paid", LastTransitionTime: metav1.NewTime(testNow.Local()), RetryCount: ptr.To[int32](2)}
	}

	readyWhileWaiting := func(context.Context, *kueue.Workload, Check) (Verdict, error) { return Ready("paid"), nil }
	withdrawn := kueue.AdmissionCheckState{
		Name: "budget", State: kueue.CheckStatePending, Message: "paid", LastTransitionTime: metav1.NewTime(testNow.Local()), RetryCount: ptr.To[int32](2),
	}
	cases := map[string]struct {
		wl      *kueue.Workload
		checks  []client.Object
		opts    Options
		verdict Verdict
		err     error
		// meanwhile is called while the function decides.
		meanwhile func(context.Context, client.Client)

		wantCalls  []string
		wantStates []kueue.AdmissionCheckState
		wantWrites map[string]int
		wantResult ctrl.Result
		wantErr    error
	}{
		"ready": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			verdict:    Ready("paid"),
			wantCalls:  []string{"Decide budget"},
			wantStates: states(readyState("budget")),
			wantWrites: map[string]int{"example.com/budget/budget": 1},
		},
		"two checks of the controller, and one of another": {
			wl:         askingWorkload("wl", "budget", "other", "second").obj(),
			checks:     []client.Object{budget, activeCheck("second").obj(), activeCheck("other").of("example.com/other").obj()},
			verdict:    Ready("paid"),
			wantCalls:  []string{"Decide budget", "Decide second"},
			wantStates: states(readyState("budget"), checkState("other", kueue.CheckStatePending), readyState("second")),
			wantWrites: map[string]int{"example.com/budget/budget": 1, "example.com/budget/second": 1},
		},
		"a check that is not active": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{activeCheck("budget").active(metav1.ConditionFalse).obj()},
			verdict:    Ready("paid"),
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
		},
		"a check that does not exist": {
			wl:         askingWorkload("wl", "budget").obj(),
			verdict:    Ready("paid"),
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
		},
		"a workload that does not exist": {
			checks: []client.Object{budget},
		},
		"a workload without quota": {
			wl:         makeWorkload("wl").checks(checkState("budget", kueue.CheckStatePending)).obj(),
			checks:     []client.Object{budget},
			verdict:    Ready("paid"),
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
		},
		"an error of the function": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			verdict:    Rejected("must not be written"),
			err:        errTest,
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
			wantErr:    errTest,
		},
		"an error of the function about something that does not exist": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			err:        notFound,
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
			wantErr:    notFound,
		},
		"the workload changes meanwhile": {
			wl:      askingWorkload("wl", "budget", "second").obj(),
			checks:  []client.Object{budget, activeCheck("second").obj()},
			verdict: Ready("paid"),
			meanwhile: func(ctx context.Context, c client.Client) {
				wl := &kueue.Workload{}
				_ = c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "wl"}, wl)
				wl.Labels = map[string]string{"changed": "yes"}
				_ = c.Update(ctx, wl)
			},
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending), checkState("second", kueue.CheckStatePending)),
			wantWrites: map[string]int{"example.com/budget/budget": 1},
			wantResult: ctrl.Result{RequeueAfter: conflictDelay},
		},
		"the workload is deleted meanwhile": {
			wl:      askingWorkload("wl", "budget").obj(),
			checks:  []client.Object{budget},
			verdict: Ready("paid"),
			meanwhile: func(ctx context.Context, c client.Client) {
				_ = c.Delete(ctx, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "wl"}})
			},
			wantCalls:  []string{"Decide budget"},
			wantWrites: map[string]int{"example.com/budget/budget": 1},
		},
		"nothing new to say, and no time to ask again": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			verdict:    Pending(""),
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
		},
		"nothing to say is asked again as pending is": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{Poll: time.Minute},
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
			wantResult: ctrl.Result{RequeueAfter: time.Minute},
		},
		"the verdict says when to ask again": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{Poll: time.Minute},
			verdict:    Verdict{State: kueue.CheckStatePending, AskAgain: time.Second},
			wantCalls:  []string{"Decide budget"},
			wantStates: states(checkState("budget", kueue.CheckStatePending)),
			wantResult: ctrl.Result{RequeueAfter: time.Second},
		},
		"an answer is not asked for again": {
			wl:         askingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{Poll: time.Minute},
			verdict:    Ready("paid"),
			wantCalls:  []string{"Decide budget"},
			wantStates: states(readyState("budget")),
			wantWrites: map[string]int{"example.com/budget/budget": 1},
		},
		"waiting": {
			wl:         waitingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{Poll: time.Minute},
			verdict:    Ready("paid"),
			wantStates: states(checkState("budget", kueue.CheckStateRetry)),
		},
		"waiting, and would be ready now": {
			wl:         waitingWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{WhileWaiting: readyWhileWaiting},
			wantCalls:  []string{"WhileWaiting budget"},
			wantStates: states(withdrawn),
			wantWrites: map[string]int{"example.com/budget/budget": 1},
		},
		"to be evicted": {
			wl:         refusedWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{Poll: time.Minute},
			verdict:    Ready("paid"),
			wantStates: states(checkState("budget", kueue.CheckStateRetry)),
		},
		"to be evicted, and would be ready now": {
			wl:         refusedWorkload("wl", "budget").obj(),
			checks:     []client.Object{budget},
			opts:       Options{WhileWaiting: readyWhileWaiting},
			wantCalls:  []string{"WhileWaiting budget"},
			wantStates: states(withdrawn),
			wantWrites: map[string]int{"example.com/budget/budget": 1},
		},
		"waiting, with a function for it": {
			wl:     waitingWorkload("wl", "budget").obj(),
			checks: []client.Object{budget},
			opts: Options{Poll: time.Minute, WhileWaiting: func(context.Context, *kueue.Workload, Check) (Verdict, error) {
				return Verdict{}, nil
			}},
			wantCalls:  []string{"WhileWaiting budget"},
			wantStates: states(checkState("budget", kueue.CheckStateRetry)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			objs := tc.checks
			if tc.wl != nil {
				objs = append(objs, tc.wl)
			}
			var calls []string
			var c *controller
			opts := tc.opts
			opts.Decide = func(ctx context.Context, wl *kueue.Workload, check Check) (Verdict, error) {
				calls = append(calls, "Decide "+check.AdmissionCheck.Name)
				if check.Retries() != 2 {
					t.Errorf("Retries() = %d, want 2", check.Retries())
				}
				if tc.meanwhile != nil {
					tc.meanwhile(ctx, c.client)
				}
				return tc.verdict, tc.err
			}
			if whileWaiting := opts.WhileWaiting; whileWaiting != nil {
				opts.WhileWaiting = func(ctx context.Context, wl *kueue.Workload, check Check) (Verdict, error) {
					calls = append(calls, "WhileWaiting "+check.AdmissionCheck.Name)
					return whileWaiting(ctx, wl, check)
				}
			}
			c, writes := newTestController(opts, objs...)
			key := client.ObjectKey{Namespace: "ns", Name: "wl"}

			result, err := c.reconcileWorkload(ctx, reconcile.Request{NamespacedName: key})
			if !errors.Is(err, tc.wantErr) || (err != nil) != (tc.wantErr != nil) {
				t.Errorf("Unexpected error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.wantResult, result); diff != "" {
				t.Errorf("Unexpected result (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantCalls, calls); diff != "" {
				t.Errorf("Unexpected calls (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantWrites, writes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Unexpected writes (-want,+got):\n%s", diff)
			}
			got := &kueue.Workload{}
			if err := c.client.Get(ctx, key, got); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantStates, got.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected states (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestReconcileCheck(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string, generation int64, at time.Time) []metav1.Condition {
		return []metav1.Condition{{
			Type: kueue.AdmissionCheckActive, Status: status, Reason: reason, Message: message,
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(at.Local()),
		}}
	}
	active := condition(metav1.ConditionTrue, "Active", "The admission check is active", 1, testBefore.Time)
	noBudget := func(context.Context, *kueue.AdmissionCheck) error { return Inactive("NoBudget", "there is no budget") }
	check := func() *checkWrapper { return makeCheck("budget") }

	cases := map[string]struct {
		check          *kueue.AdmissionCheck
		validate       func(context.Context, *kueue.AdmissionCheck) error
		wantConditions []metav1.Condition
		wantWrites     int
		wantErr        error
	}{
		"becomes active": {
			check:          check().obj(),
			wantConditions: condition(metav1.ConditionTrue, "Active", "The admission check is active", 1, testNow),
			wantWrites:     1,
		},
		"is active": {
			check:          check().condition(active[0]).obj(),
			validate:       func(context.Context, *kueue.AdmissionCheck) error { return nil },
			wantConditions: active,
		},
		"becomes inactive": {
			check:          check().condition(active[0]).obj(),
			validate:       noBudget,
			wantConditions: condition(metav1.ConditionFalse, "NoBudget", "there is no budget", 1, testNow),
			wantWrites:     1,
		},
		"inactive without a reason": {
			check:          check().obj(),
			validate:       func(context.Context, *kueue.AdmissionCheck) error { return Inactive("", "closed") },
			wantConditions: condition(metav1.ConditionFalse, "Inactive", "closed", 1, testNow),
			wantWrites:     1,
		},
		"another reason keeps the transition time": {
			check:          check().condition(condition(metav1.ConditionFalse, "Other", "other", 1, testBefore.Time)[0]).obj(),
			validate:       noBudget,
			wantConditions: condition(metav1.ConditionFalse, "NoBudget", "there is no budget", 1, testBefore.Time),
			wantWrites:     1,
		},
		"another generation keeps the transition time": {
			check:          check().generation(2).condition(active[0]).obj(),
			wantConditions: condition(metav1.ConditionTrue, "Active", "The admission check is active", 2, testBefore.Time),
			wantWrites:     1,
		},
		"cannot be validated": {
			check:          check().condition(active[0]).obj(),
			validate:       func(context.Context, *kueue.AdmissionCheck) error { return errTest },
			wantConditions: active,
			wantErr:        errTest,
		},
		"of another controller": {
			check: check().of("example.com/other").obj(),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c, writes := newTestController(Options{Validate: tc.validate}, tc.check)
			key := client.ObjectKeyFromObject(tc.check)
			_, err := c.reconcileCheck(ctx, reconcile.Request{NamespacedName: key})
			if !errors.Is(err, tc.wantErr) || (err != nil) != (tc.wantErr != nil) {
				t.Errorf("Unexpected error %v, want %v", err, tc.wantErr)
			}
			got := &kueue.AdmissionCheck{}
			if err := c.client.Get(ctx, key, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantConditions, got.Status.Conditions, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Unexpected conditions (-want,+got):\n%s", diff)
			}
			if writes["example.com/budget/budget"] != tc.wantWrites {
				t.Errorf("Unexpected writes: %v, want %d", writes, tc.wantWrites)
			}
		})
	}
}

func TestMapping(t *testing.T) {
	ctx := t.Context()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "budget"}}
	objs := []client.Object{
		activeCheck("budget").obj(),
		activeCheck("other").of("example.com/other").obj(),
		askingWorkload("asks", "budget").obj(),
		askingWorkload("asks-another", "other").obj(),
		makeWorkload("in-queue").checks(checkState("budget", kueue.CheckStatePending)).obj(),
		waitingWorkload("waits", "budget").obj(),
		refusedWorkload("refused", "budget").obj(),
	}
	noVerdict := func(context.Context, *kueue.Workload, Check) (Verdict, error) { return Verdict{}, nil }
	onlyAsks := Source{Concerns: func(obj client.Object, wl *kueue.Workload) bool {
		return obj.GetName() == "budget" && wl.Name == "asks"
	}}
	names := func(requests []reconcile.Request) string {
		var names []string
		for _, request := range requests {
			names = append(names, request.Name)
		}
		return strings.Join(names, " ")
	}
	for name, tc := range map[string]struct {
		opts                                           Options
		wantOfCheck, wantOfSource, wantOfLimitedSource string
	}{
		"without a function for those that wait": {
			opts:                Options{Decide: noVerdict},
			wantOfCheck:         "asks",
			wantOfSource:        "asks asks-another",
			wantOfLimitedSource: "asks",
		},
		"with a function for those that wait": {
			opts:                Options{Decide: noVerdict, WhileWaiting: noVerdict},
			wantOfCheck:         "asks refused waits",
			wantOfSource:        "asks asks-another refused waits",
			wantOfLimitedSource: "asks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestController(tc.opts, objs...)
			if got := names(c.workloadsOfCheck(ctx, objs[0])); got != tc.wantOfCheck {
				t.Errorf("Workloads of the check: %q, want %q", got, tc.wantOfCheck)
			}
			if got := names(c.workloadsOfSource(Source{})(ctx, configMap)); got != tc.wantOfSource {
				t.Errorf("Workloads of the source: %q, want %q", got, tc.wantOfSource)
			}
			if got := names(c.workloadsOfSource(onlyAsks)(ctx, configMap)); got != tc.wantOfLimitedSource {
				t.Errorf("Workloads of the limited source: %q, want %q", got, tc.wantOfLimitedSource)
			}
			if got := names(c.allChecks(ctx, configMap)); got != "budget" {
				t.Errorf("Checks: %q, want %q", got, "budget")
			}
		})
	}
}

func TestSetState(t *testing.T) {
	retryAfter := func(seconds int) func(*kueue.Workload, kueue.AdmissionCheckState) Verdict {
		return func(*kueue.Workload, kueue.AdmissionCheckState) Verdict {
			return Retry(time.Duration(seconds)*time.Second, "spent")
		}
	}
	key := client.ObjectKey{Namespace: "ns", Name: "wl"}
	cases := map[string]struct {
		wl        *kueue.Workload
		check     kueue.AdmissionCheckReference
		conflicts int
		decide    func(*kueue.Workload, kueue.AdmissionCheckState) Verdict

		wantDecisions int
		wantWrites    int
		wantDelay     *int32
		wantConflict  bool
		wantNotFound  bool
	}{
		"written": {
			wl: waitingWorkload("wl", "budget").obj(), decide: retryAfter(5),
			wantDecisions: 1, wantWrites: 1, wantDelay: ptr.To[int32](5),
		},
		"decided again after conflicts": {
			wl: waitingWorkload("wl", "budget").obj(), conflicts: 2, decide: retryAfter(5),
			wantDecisions: 3, wantWrites: 3, wantDelay: ptr.To[int32](5),
		},
		"given up after many conflicts": {
			wl: waitingWorkload("wl", "budget").obj(), conflicts: 100, decide: retryAfter(5),
			wantDecisions: 4, wantWrites: 4, wantConflict: true,
		},
		"nothing to say": {
			wl:            waitingWorkload("wl", "budget").obj(),
			decide:        func(*kueue.Workload, kueue.AdmissionCheckState) Verdict { return Verdict{} },
			wantDecisions: 1,
		},
		"without the check": {
			wl: waitingWorkload("wl", "other").obj(), decide: retryAfter(5),
		},
		"deactivated": {
			wl: waitingWorkload("wl", "budget").inactive().obj(), decide: retryAfter(5), wantDecisions: 1,
		},
		"without the workload": {
			decide: retryAfter(5), wantNotFound: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			var objs []client.Object
			if tc.wl != nil {
				objs = append(objs, tc.wl)
			}
			c, writes := newTestController(Options{}, objs...)
			decisions := 0
			seen := map[string]bool{}
			err := c.writer.SetState(ctx, key, "budget", func(wl *kueue.Workload, state kueue.AdmissionCheckState) Verdict {
				decisions++
				if seen[wl.ResourceVersion] || state.Name != "budget" {
					t.Errorf("Decided again on the same version, or on another check: %v", state)
				}
				seen[wl.ResourceVersion] = true
				if decisions <= tc.conflicts {
					changed := wl.DeepCopy()
					changed.Labels = map[string]string{"version": wl.ResourceVersion}
					if err := c.client.Update(ctx, changed); err != nil {
						t.Fatal(err)
					}
				}
				return tc.decide(wl, state)
			})
			if apierrors.IsConflict(err) != tc.wantConflict || apierrors.IsNotFound(err) != tc.wantNotFound || (err != nil) != (tc.wantConflict || tc.wantNotFound) {
				t.Errorf("Unexpected error %v", err)
			}
			if decisions != tc.wantDecisions || writes["example.com/budget/budget"] != tc.wantWrites {
				t.Errorf("%d decisions and %v writes, want %d and %d", decisions, writes, tc.wantDecisions, tc.wantWrites)
			}
			if tc.wl == nil {
				return
			}
			got := &kueue.Workload{}
			if err := c.client.Get(ctx, key, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantDelay, got.Status.AdmissionChecks[0].RequeueAfterSeconds); diff != "" {
				t.Errorf("Unexpected delay (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestSooner(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{
		{},
		{a: 1, want: 1},
		{b: 1, want: 1},
		{a: 1, b: 2, want: 1},
		{a: 2, b: 1, want: 1},
	} {
		if got := sooner(tc.a, tc.b); got != tc.want {
			t.Errorf("sooner(%d, %d) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

// What is written says nothing but what is meant: other versions of Kueue need not
// know the other fields of the types.
func TestWriteSaysNothingElse(t *testing.T) {
	next := NextState(askingWorkload("wl", "budget").obj(), "budget", Retry(time.Minute, "spent"), testNow)
	c, _ := newFakeClient()
	written, err := statusOf(c, makeWorkload("wl").obj(), "7", "admissionChecks", next)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta2",
		"kind":       "Workload",
		"metadata":   map[string]any{"namespace": "ns", "name": "wl", "resourceVersion": "7"},
		"status": map[string]any{"admissionChecks": []any{map[string]any{
			"name": "budget", "state": "Retry", "message": "spent", "lastTransitionTime": "2026-11-21T10:00:00Z", "requeueAfterSeconds": int64(60),
		}}},
	}
	if diff := cmp.Diff(want, written.Object); diff != "" {
		t.Errorf("Unexpected write (-want,+got):\n%s", diff)
	}
}

func TestFieldManager(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]bool{}
	for _, tc := range []struct {
		base  string
		check kueue.AdmissionCheckReference
	}{
		{base: controllerName, check: "budget"},
		{base: controllerName, check: kueue.AdmissionCheckReference(long)},
		{base: controllerName, check: kueue.AdmissionCheckReference(long + "y")},
		{base: long, check: "budget"},
		{base: long, check: "other"},
	} {
		name := fieldManager(tc.base, tc.check)
		if len(name) > maxFieldManagerLength || seen[name] || name != fieldManager(tc.base, tc.check) {
			t.Errorf("Not usable as a field manager: %q", name)
		}
		seen[name] = true
	}
	if !seen["example.com/budget/budget"] {
		t.Errorf("A short name is not as it was: %v", seen)
	}
}

func TestSetupOptions(t *testing.T) {
	for name, opts := range map[string]Options{
		"no name":     {Decide: func(context.Context, *kueue.Workload, Check) (Verdict, error) { return Verdict{}, nil }},
		"no function": {ControllerName: controllerName},
	} {
		if err := Setup(nil, opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
