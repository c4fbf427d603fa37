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

package core

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/component-base/featuregate"
	"k8s.io/kube-openapi/pkg/validation/spec"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/features"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/api"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
)

// retryNow is not in whole seconds, and the deadlines must not become early for it.
var retryNow = time.Date(2026, 2, 6, 10, 0, 0, 500_000_000, time.UTC)

// retryAt returns a time in whole seconds.
func retryAt(seconds int) time.Time {
	return retryNow.Truncate(time.Second).Add(time.Duration(seconds) * time.Second)
}

// checkController is the field manager of the controller of a check.
const checkController = "check-controller"

// workloadTypeConverter has the fake client apply workloads as an API server with Kueue's
// CRDs does. A strategic merge would not show which fields an apply removes.
var workloadTypeConverter = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "components", "crd", "bases", "kueue.x-k8s.io_workloads.yaml"))
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, crd); err != nil {
		return nil, err
	}
	models := make(map[string]*spec.Schema)
	for _, version := range crd.Spec.Versions {
		data, err := json.Marshal(version.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, err
		}
		model := &spec.Schema{}
		if err := json.Unmarshal(data, model); err != nil {
			return nil, err
		}
		model.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
			"group": crd.Spec.Group, "version": version.Name, "kind": crd.Spec.Names.Kind,
		}})
		models[version.Name] = model
	}
	return managedfields.NewTypeConverter(models, false)
})

type retryReconcileTest struct {
	t          *testing.T
	ctx        context.Context
	client     client.WithWatch
	clock      *testingclock.FakeClock
	recorder   *utiltesting.EventRecorder
	reconciler *WorkloadReconciler

	// writes are those of the reconciler since the last look.
	writes []string
	// byOthers is true while others write.
	byOthers bool
	// beforeWrite is called once, before the next write.
	beforeWrite func()
}

// newRetryReconcileTest stores wl as it would be: Kueue has applied its status, and the
// delays are those of the controllers of the checks.
func newRetryReconcileTest(t *testing.T, wl *kueue.Workload, objs ...client.Object) *retryReconcileTest {
	t.Helper()
	r := &retryReconcileTest{t: t, clock: testingclock.NewFakeClock(retryNow), recorder: &utiltesting.EventRecorder{}, byOthers: true}
	write := func(kind string) {
		if r.byOthers {
			return
		}
		r.writes = append(r.writes, kind)
		if before := r.beforeWrite; before != nil {
			r.beforeWrite = nil
			before()
		}
	}
	converter, err := workloadTypeConverter()
	if err != nil {
		t.Fatalf("Failed making a type converter from the CRD: %v", err)
	}
	r.client = utiltesting.NewClientBuilder().
		WithObjects(append(objs, utiltesting.MakeNamespace("ns"))...).
		WithStatusSubresource(&kueue.Workload{}, &kueue.ClusterQueue{}).
		WithTypeConverters(converter, managedfields.NewDeducedTypeConverter()).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				write("create")
				return c.Create(ctx, obj, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				write("update")
				return c.Update(ctx, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				write("patch")
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, subResource string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				write(subResource + " update")
				return c.SubResource(subResource).Update(ctx, obj, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				kinds := map[types.PatchType]string{types.ApplyPatchType: " apply", types.MergePatchType: " merge"}
				write(subResource + kinds[patch.Type()])
				return c.SubResource(subResource).Patch(ctx, obj, patch, opts...)
			},
		}).
		Build()
	r.ctx, _ = utiltesting.ContextWithLog(t)

	stored := wl.DeepCopy()
	stored.Status = kueue.WorkloadStatus{}
	if err := r.client.Create(r.ctx, stored); err != nil {
		t.Fatalf("Failed creating the workload: %v", err)
	}
	r.apply(constants.AdmissionName, func(stored *kueue.Workload) {
		wl.Status.DeepCopyInto(&stored.Status)
		for i := range stored.Status.AdmissionChecks {
			stored.Status.AdmissionChecks[i].RequeueAfterSeconds = nil
		}
	})
	for _, check := range wl.Status.AdmissionChecks {
		if check.RequeueAfterSeconds != nil {
			r.applyCheck(kueue.AdmissionCheckState{
				Name: check.Name, State: check.State, LastTransitionTime: check.LastTransitionTime,
				Message: check.Message, RequeueAfterSeconds: check.RequeueAfterSeconds,
			})
		}
	}

	cqCache := schdcache.New(r.client)
	qManager := qcache.NewManagerForUnitTests(r.client, cqCache, qcache.WithPreemptionExpectations(preemptexpectations.New()))
	log := ctrl.LoggerFrom(r.ctx)
	cqCache.AddOrUpdateResourceFlavor(log, utiltestingapi.MakeResourceFlavor("rf").Obj())
	for _, name := range []string{"a", "b"} {
		cqCache.AddOrUpdateAdmissionCheck(log, utiltestingapi.MakeAdmissionCheck(name).Active(metav1.ConditionTrue).Obj())
	}
	r.reconciler = NewWorkloadReconciler(r.client, qManager, cqCache, r.recorder)
	r.reconciler.clock = r.clock
	setupClusterQueue(r.ctx, t, r.client, qManager, cqCache, utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas("rf").Resource(corev1.ResourceCPU, "1").Obj()).
		AdmissionChecks("a", "b").
		Active(metav1.ConditionTrue).
		Obj(), false)
	setupLocalQueue(r.ctx, t, r.client, qManager, utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Active(metav1.ConditionTrue).Obj(), false)
	r.byOthers = false
	return r
}

func (r *retryReconcileTest) workload() *kueue.Workload {
	r.t.Helper()
	wl := &kueue.Workload{}
	if err := r.client.Get(r.ctx, client.ObjectKey{Namespace: "ns", Name: "wl"}, wl); err != nil {
		r.t.Fatalf("Failed getting the workload: %v", err)
	}
	return wl
}

func (r *retryReconcileTest) apply(owner client.FieldOwner, update func(*kueue.Workload)) {
	r.t.Helper()
	byOthers := r.byOthers
	r.byOthers = true
	defer func() { r.byOthers = byOthers }()
	err := workloadpatching.PatchStatus(r.ctx, r.client, r.workload(), owner, func(wl *kueue.Workload) (bool, error) {
		update(wl)
		return true, nil
	}, workloadpatching.WithForceApply())
	if err != nil {
		r.t.Fatalf("Failed applying the status: %v", err)
	}
}

// applyCheck has the controller of the check write what it says.
func (r *retryReconcileTest) applyCheck(check kueue.AdmissionCheckState) {
	r.t.Helper()
	r.apply(client.FieldOwner(checkController+"-"+check.Name), func(wl *kueue.Workload) {
		wl.Status.AdmissionChecks = []kueue.AdmissionCheckState{check}
	})
}

func (r *retryReconcileTest) reconcile() (reconcile.Result, error) {
	return r.reconciler.Reconcile(r.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "wl"}})
}

func (r *retryReconcileTest) expectWrites(when string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.writes, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("Unexpected writes, %s (-want,+got):\n%s", when, diff)
	}
	r.writes = nil
}

func (r *retryReconcileTest) expectReconcile(when string, wantAfter time.Duration, wantWrites ...string) {
	r.t.Helper()
	result, err := r.reconcile()
	if err != nil {
		r.t.Errorf("Unexpected error, %s: %v", when, err)
	}
	if diff := cmp.Diff(reconcile.Result{RequeueAfter: wantAfter}, result); diff != "" {
		r.t.Errorf("Unexpected result, %s (-want,+got):\n%s", when, diff)
	}
	r.expectWrites(when, wantWrites...)
}

func (r *retryReconcileTest) expectEvents(want ...utiltesting.EventRecord) {
	r.t.Helper()
	for i := range want {
		want[i].Key = types.NamespacedName{Namespace: "ns", Name: "wl"}
	}
	if diff := cmp.Diff(want, r.recorder.RecordedEvents, cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("Unexpected events (-want,+got):\n%s", diff)
	}
	r.recorder.RecordedEvents = nil
}

// statusOf returns the status for a comparison. The times of conditions are looked at one
// by one: some are those of the real clock.
func statusOf(wl *kueue.Workload) kueue.WorkloadStatus {
	status := *wl.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
		status.Conditions[i].ObservedGeneration = 0
	}
	return status
}

var retryStatusCmpOpts = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type }),
}

func retryCondition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(retryAt(-10))}
}

func retryAdmission() *kueue.Admission {
	return utiltestingapi.MakeAdmission("cq").
		PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).Assignment(corev1.ResourceCPU, "rf", "1").Obj()).
		Obj()
}

func TestReconcileRetry(t *testing.T) {
	admission := retryAdmission()
	queued := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").Queue("lq")
	reserved := queued.Clone().ReserveQuotaAt(admission, retryAt(-50))
	admitted := reserved.Clone().AdmittedAt(true, retryAt(-40))

	check := func(name kueue.AdmissionCheckReference, state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(retryAt(-20))}
	}
	a := check("a", kueue.CheckStateRetry)
	a.Message, a.RequeueAfterSeconds, a.RetryCount = "5% are left", new(int32(60)), new(int32(2))
	b := check("b", kueue.CheckStatePending)
	bReady := check("b", kueue.CheckStateReady)
	bReady.RetryCount = new(int32(1))
	longRejected := check("b", kueue.CheckStateRejected)
	longRejected.Message = strings.Repeat("x", 32*1024)
	withDelay := func(check kueue.AdmissionCheckState, delay *int32) kueue.AdmissionCheckState {
		check.RequeueAfterSeconds = delay
		return check
	}
	withPolicyDelay := func(check kueue.AdmissionCheckState, delay int32) kueue.AdmissionCheckState {
		check.PolicyDelaySeconds = &delay
		return check
	}
	reset := func(check kueue.AdmissionCheckState, retryCount *int32) kueue.AdmissionCheckState {
		message := check.Message
		if check.State != kueue.CheckStatePending {
			message = "Reset to Pending for the next attempt. Previously: " + string(check.State)
		}
		// The API cuts the fraction off.
		return kueue.AdmissionCheckState{Name: check.Name, State: kueue.CheckStatePending, Message: message, LastTransitionTime: metav1.NewTime(retryAt(0)), RetryCount: retryCount}
	}

	const words = `"a" after 60 s (5% are left)`
	evictedMessage := func(words string) string { return "Evicted due to AdmissionCheck in Retry state: " + words }
	waitMessage := func(until, words string) string {
		return "Waiting until 2026-02-06T" + until + "Z due to AdmissionCheck in Retry state: " + words
	}
	evicted := func(words string) metav1.Condition {
		return retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, "AdmissionCheck", evictedMessage(words))
	}
	quotaLost := func(words string) metav1.Condition {
		return retryCondition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", evictedMessage(words))
	}
	waitsUntil := func(until, words string) metav1.Condition {
		return retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "AdmissionCheck", waitMessage(until, words))
	}
	requeuedFor := func(words string) metav1.Condition {
		return retryCondition(kueue.WorkloadRequeued, metav1.ConditionTrue, "BackoffFinished", "The workload backoff was finished, "+words)
	}
	requeueAt := func(seconds int) *metav1.Time { return new(metav1.NewTime(retryAt(seconds))) }
	evictions := kueue.WorkloadSchedulingStatsEviction{Reason: kueue.WorkloadEvictedByAdmissionCheck, Count: 1}
	// waiting was evicted 10 seconds ago, and waits for 49.5 more.
	waiting := queued.Clone().
		Conditions(quotaLost(words), evicted(words), waitsUntil("10:00:50", words)).
		RequeueState(nil, requeueAt(50)).
		AdmissionChecks(a, b).
		SchedulingStatsEviction(evictions)

	evictedEvent := func(words string) utiltesting.EventRecord {
		return utiltesting.EventRecord{EventType: corev1.EventTypeNormal, Reason: "EvictedDueToAdmissionCheck", Message: evictedMessage(words)}
	}
	delayedEvent := func(message string) utiltesting.EventRecord {
		return utiltesting.EventRecord{EventType: corev1.EventTypeNormal, Reason: "RequeueDelayed", Message: message}
	}
	policy := func(name string, retry *kueue.AdmissionCheckRetryPolicy) *kueue.AdmissionCheck {
		ac := utiltestingapi.MakeAdmissionCheck(name).ControllerName("example.com/controller").Obj()
		ac.Spec.Retry = retry
		return ac
	}
	static30 := &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30}
	limit2 := &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 30, LimitCount: new(int32(2))}
	withRetryStrategy := map[featuregate.Feature]bool{features.ACRetryStrategy: true}
	gateOff := map[featuregate.Feature]bool{features.ACRequeueAfter: false}

	variant := func(wl *utiltestingapi.WorkloadWrapper) *utiltestingapi.WorkloadWrapper {
		return wl.Clone().OwnerReference(kueue.SchemeGroupVersion.WithKind("Workload"), "parent", "parent-uid")
	}

	// An eviction is applied, as others are; what removes fields of others is a merge patch.
	const write, merge = "status apply or merge", "status merge"

	cases := map[string]struct {
		gates    map[featuregate.Feature]bool
		workload *utiltestingapi.WorkloadWrapper
		checks   []*kueue.AdmissionCheck
		// wantWrites are those of the first reconciliation, and wantNextWrites those of the
		// second. Mostly there is nothing left to write.
		wantWrites     []string
		wantNextWrites []string
		wantAfter      time.Duration
		wantNextAfter  *time.Duration
		// wantWorkload is what the first reconciliation leaves. The default is: all as it was.
		wantWorkload  *utiltestingapi.WorkloadWrapper
		wantEvictedAt *metav1.Time
		wantEvents    []utiltesting.EventRecord
	}{
		"holds quota, the job has not started: evicted and released in one write": {
			workload:      reserved.Clone().AdmissionChecks(a, b),
			wantWrites:    []string{write},
			wantNextAfter: new(60500 * time.Millisecond),
			wantWorkload: queued.Clone().
				Conditions(quotaLost(words), evicted(words), waitsUntil("10:01:01", words)).
				RequeueState(nil, requeueAt(61)).
				AdmissionChecks(a, b).
				SchedulingStatsEviction(evictions),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{evictedEvent(words)},
		},
		"holds quota, no delay: evicted and released, and requeued at once": {
			workload:       reserved.Clone().AdmissionChecks(withDelay(a, nil), b),
			wantWrites:     []string{write},
			wantNextWrites: []string{merge},
			wantWorkload: queued.Clone().
				Conditions(quotaLost(`"a" after 0 s (5% are left)`), evicted(`"a" after 0 s (5% are left)`),
					retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "AdmissionCheck", `Waiting due to AdmissionCheck in Retry state: "a" after 0 s (5% are left)`)).
				AdmissionChecks(withDelay(a, nil), b).
				SchedulingStatsEviction(evictions),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{evictedEvent(`"a" after 0 s (5% are left)`)},
		},
		"admitted: the quota is kept until the job has stopped": {
			workload:   admitted.Clone().AdmissionChecks(a, b),
			wantWrites: []string{write},
			wantWorkload: admitted.Clone().
				Condition(evicted(words)).
				Condition(waitsUntil("10:01:01", words)).
				RequeueState(nil, requeueAt(61)).
				AdmissionChecks(a, b).
				SchedulingStatsEviction(evictions),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{evictedEvent(words)},
		},
		"evicted, the job is being stopped: nothing is written": {
			workload: admitted.Clone().
				Condition(evicted(words)).
				Condition(waitsUntil("10:00:50", words)).
				RequeueState(nil, requeueAt(50)).
				AdmissionChecks(a, b),
		},
		"evicted for another reason, the job is being stopped: the delay holds, the eviction stays": {
			workload: admitted.Clone().
				Condition(retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, "preempted")).
				AdmissionChecks(a, b),
			wantWrites: []string{write},
			wantWorkload: admitted.Clone().
				Condition(retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, "preempted")).
				Condition(waitsUntil("10:00:40", words)).
				RequeueState(nil, requeueAt(40)).
				AdmissionChecks(a, b),
			wantEvictedAt: requeueAt(-10),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:00:40", words))},
		},
		"evicted for another reason, a retry without a delay: requeued when the job has stopped": {
			workload: admitted.Clone().
				Condition(retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, "preempted")).
				AdmissionChecks(withDelay(a, nil), b),
			wantWrites: []string{write},
			wantWorkload: admitted.Clone().
				Condition(retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPreemption, "preempted")).
				Condition(retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "AdmissionCheck", `Waiting due to AdmissionCheck in Retry state: "a" after 0 s (5% are left)`)).
				AdmissionChecks(withDelay(a, nil), b),
			wantEvictedAt: requeueAt(-10),
		},
		"a variant of ConcurrentAdmission: the quota is kept until that of its parent is released": {
			gates:      map[featuregate.Feature]bool{features.ConcurrentAdmission: true},
			workload:   variant(reserved).AdmissionChecks(a, b),
			wantWrites: []string{write},
			wantWorkload: variant(reserved).
				Condition(evicted(words)).
				Condition(waitsUntil("10:01:01", words)).
				RequeueState(nil, requeueAt(61)).
				AdmissionChecks(a, b).
				SchedulingStatsEviction(evictions),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{evictedEvent(words)},
		},
		"holds quota, the ClusterQueue does not ask for the check any more: not evicted": {
			workload:     reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b, withDelay(check("c", kueue.CheckStateRetry), new(int32(60)))),
			wantWrites:   []string{"status update"},
			wantWorkload: reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b),
		},
		"holds quota, the ClusterQueue does not ask for the check any more: not deactivated": {
			workload:     reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b, check("c", kueue.CheckStateRejected)),
			wantWrites:   []string{"status update"},
			wantWorkload: reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b),
		},
		"waits: nothing is written": {
			workload:  waiting,
			wantAfter: 49500 * time.Millisecond,
		},
		"waits, the words of a check change: nothing is written": {
			workload: waiting.Clone().AdmissionChecks(func() kueue.AdmissionCheckState {
				check := a
				check.Message = "still 5% are left"
				return check
			}(), b),
			wantAfter: 49500 * time.Millisecond,
		},
		"waits, a check becomes Ready or Pending: nothing is written": {
			workload:  waiting.Clone().AdmissionChecks(a, check("b", kueue.CheckStateReady)),
			wantAfter: 49500 * time.Millisecond,
		},
		"waits, the deadline moves on": {
			workload:   waiting.Clone().AdmissionChecks(withDelay(a, new(int32(90))), b),
			wantWrites: []string{write},
			wantAfter:  79500 * time.Millisecond,
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), waitsUntil("10:01:20", `"a" after 90 s (5% are left)`)).
				RequeueState(nil, requeueAt(80)).
				AdmissionChecks(withDelay(a, new(int32(90))), b),
			wantEvictedAt: requeueAt(-10),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:01:20", `"a" after 90 s (5% are left)`))},
		},
		"waits, the deadline moves back": {
			workload:   waiting.Clone().AdmissionChecks(withDelay(a, new(int32(30))), b),
			wantWrites: []string{write},
			wantAfter:  19500 * time.Millisecond,
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), waitsUntil("10:00:20", `"a" after 30 s (5% are left)`)).
				RequeueState(nil, requeueAt(20)).
				AdmissionChecks(withDelay(a, new(int32(30))), b),
			wantEvictedAt: requeueAt(-10),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:00:20", `"a" after 30 s (5% are left)`))},
		},
		"waits, another check asks for a longer delay": {
			workload:   waiting.Clone().AdmissionChecks(a, withDelay(check("b", kueue.CheckStateRetry), new(int32(90)))),
			wantWrites: []string{write},
			wantAfter:  79500 * time.Millisecond,
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "AdmissionCheck",
					`Waiting until 2026-02-06T10:01:20Z due to AdmissionChecks in Retry state: "a" after 60 s (5% are left); "b" after 90 s`)).
				RequeueState(nil, requeueAt(80)).
				AdmissionChecks(a, withDelay(check("b", kueue.CheckStateRetry), new(int32(90)))),
			wantEvictedAt: requeueAt(-10),
			wantEvents: []utiltesting.EventRecord{delayedEvent(
				`Waiting until 2026-02-06T10:01:20Z due to AdmissionChecks in Retry state: "a" after 60 s (5% are left); "b" after 90 s`)},
		},
		"waits, the retry is withdrawn: requeued": {
			workload:   waiting.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b),
			wantWrites: []string{merge},
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), requeuedFor("no AdmissionCheck asks for a retry")).
				RequeueState(nil, nil).
				AdmissionChecks(reset(check("a", kueue.CheckStatePending), nil), reset(b, nil)),
			wantEvictedAt: requeueAt(-10),
		},
		"waits, the ClusterQueue does not ask for the check any more: removed, then requeued": {
			workload:       waiting.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b, withDelay(check("c", kueue.CheckStateRetry), new(int32(60)))),
			wantWrites:     []string{"status update"},
			wantNextWrites: []string{merge},
			wantWorkload:   waiting.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), b),
			wantEvictedAt:  requeueAt(-10),
		},
		"the deadline is over: one write resets the checks and counts": {
			workload: waiting.Clone().AdmissionChecks(withPolicyDelay(withDelay(a, new(int32(10))), 5), bReady).
				RequeueState(new(int32(3)), requeueAt(0)),
			wantWrites: []string{merge},
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), requeuedFor(`it was due to AdmissionCheck in Retry state: "a" after 10 s (5% are left)`)).
				RequeueState(nil, nil).
				RequeueState(new(int32(3)), nil).
				AdmissionChecks(reset(a, new(int32(3))), reset(bReady, nil)),
			wantEvictedAt: requeueAt(-10),
		},
		"a retry of a workload in the queue": {
			workload:   queued.Clone().AdmissionChecks(a, b),
			wantWrites: []string{write},
			wantAfter:  60500 * time.Millisecond,
			wantWorkload: queued.Clone().
				Conditions(evicted(words), waitsUntil("10:01:01", words)).
				RequeueState(nil, requeueAt(61)).
				AdmissionChecks(a, b),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:01:01", words))},
		},
		"a retry of a requeued workload: an eviction of its own": {
			workload: queued.Clone().
				Conditions(quotaLost(words), evicted(words), requeuedFor("words")).
				AdmissionChecks(withDelay(a, new(int32(70))), b),
			wantWrites: []string{write},
			wantAfter:  70500 * time.Millisecond,
			wantWorkload: queued.Clone().
				Conditions(quotaLost(words), evicted(`"a" after 70 s (5% are left)`), waitsUntil("10:01:11", `"a" after 70 s (5% are left)`)).
				RequeueState(nil, requeueAt(71)).
				AdmissionChecks(withDelay(a, new(int32(70))), b),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:01:11", `"a" after 70 s (5% are left)`))},
		},
		"in a longer backoff of WaitForPodsReady: the backoff stays": {
			workload: queued.Clone().
				Conditions(
					retryCondition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "words"),
					retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPodsReadyTimeout, "words"),
					retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout, "words"),
				).
				RequeueState(new(int32(1)), requeueAt(500)).
				AdmissionChecks(a, b),
			wantWrites: []string{write},
			wantAfter:  499500 * time.Millisecond,
			wantWorkload: queued.Clone().
				Conditions(
					retryCondition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "words"),
					retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByPodsReadyTimeout, "words"),
					waitsUntil("10:08:20", words),
				).
				RequeueState(new(int32(1)), requeueAt(500)).
				AdmissionChecks(a, b),
			wantEvictedAt: requeueAt(-10),
			wantEvents:    []utiltesting.EventRecord{delayedEvent(waitMessage("10:08:20", words))},
		},
		"rejected while it waits: deactivated": {
			workload:       waiting.Clone().AdmissionChecks(a, check("b", kueue.CheckStateRejected)),
			wantWrites:     []string{write},
			wantNextWrites: []string{"update"},
			wantWorkload: waiting.Clone().
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheck", `AdmissionCheck in Rejected state: "b"`)).
				AdmissionChecks(a, check("b", kueue.CheckStateRejected)),
			wantEvictedAt: requeueAt(-10),
			wantEvents: []utiltesting.EventRecord{{
				EventType: corev1.EventTypeWarning, Reason: "AdmissionCheckRejected", Message: `Deactivated due to AdmissionCheck in Rejected state: "b"`,
			}},
		},
		"rejected while it holds quota, with a retry beside: deactivated, not evicted for the retry": {
			workload:       reserved.Clone().AdmissionChecks(a, check("b", kueue.CheckStateRejected)),
			wantWrites:     []string{write},
			wantNextWrites: []string{"update"},
			wantWorkload: reserved.Clone().
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheck", `AdmissionCheck in Rejected state: "b"`)).
				AdmissionChecks(a, check("b", kueue.CheckStateRejected)),
			wantEvents: []utiltesting.EventRecord{{
				EventType: corev1.EventTypeWarning, Reason: "AdmissionCheckRejected", Message: `Deactivated due to AdmissionCheck in Rejected state: "b"`,
			}},
		},
		"deactivated while it waits: reset": {
			workload:   waiting.Clone().Active(false),
			wantWrites: []string{merge},
			wantWorkload: waiting.Clone().Active(false).
				Conditions(
					quotaLost(words),
					retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadDeactivated, "The workload is deactivated"),
					retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadDeactivated, "The workload is deactivated"),
				).
				RequeueState(nil, nil).
				AdmissionChecks(reset(a, nil), b),
			wantEvictedAt: requeueAt(0),
		},
		"deactivated by Kueue while it waits: reset": {
			workload: waiting.Clone().Active(false).
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheck", `AdmissionCheck in Rejected state: "b"`)).
				AdmissionChecks(a, check("b", kueue.CheckStateRejected)),
			wantWrites: []string{merge},
			wantWorkload: waiting.Clone().Active(false).
				Conditions(
					quotaLost(words),
					retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, "DeactivatedDueToAdmissionCheck", `The workload is deactivated due to AdmissionCheck in Rejected state: "b"`),
					retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "DeactivatedDueToAdmissionCheck", `The workload is deactivated due to AdmissionCheck in Rejected state: "b"`),
				).
				RequeueState(nil, nil).
				AdmissionChecks(reset(a, nil), reset(check("b", kueue.CheckStateRejected), nil)),
			wantEvictedAt: requeueAt(0),
		},
		"a Ready check counts from 0 again, with a write of its own": {
			workload:   reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), bReady),
			wantWrites: []string{merge},
			wantWorkload: reserved.Clone().AdmissionChecks(check("a", kueue.CheckStatePending), func() kueue.AdmissionCheckState {
				check := bReady
				check.RetryCount = new(int32(0))
				return check
			}()),
		},
		"the policy's delay is recorded with the eviction": {
			gates:         withRetryStrategy,
			workload:      reserved.Clone().AdmissionChecks(withDelay(a, nil), b),
			checks:        []*kueue.AdmissionCheck{policy("a", static30)},
			wantWrites:    []string{write},
			wantNextAfter: new(30500 * time.Millisecond),
			wantWorkload: queued.Clone().
				Conditions(quotaLost(`"a" after 30 s (5% are left)`), evicted(`"a" after 30 s (5% are left)`), waitsUntil("10:00:31", `"a" after 30 s (5% are left)`)).
				RequeueState(nil, requeueAt(31)).
				AdmissionChecks(withPolicyDelay(withDelay(a, nil), 30), b).
				SchedulingStatsEviction(evictions),
			wantEvictedAt: requeueAt(1),
			wantEvents:    []utiltesting.EventRecord{evictedEvent(`"a" after 30 s (5% are left)`)},
		},
		"the policy is added while a retry without a delay waits": {
			gates: withRetryStrategy,
			workload: waiting.Clone().
				AdmissionChecks(a, withDelay(check("b", kueue.CheckStateRetry), nil)),
			checks:     []*kueue.AdmissionCheck{policy("b", &kueue.AdmissionCheckRetryPolicy{Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 90})},
			wantWrites: []string{write},
			wantAfter:  79500 * time.Millisecond,
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, "AdmissionCheck",
					`Waiting until 2026-02-06T10:01:20Z due to AdmissionChecks in Retry state: "a" after 60 s (5% are left); "b" after 90 s`)).
				RequeueState(nil, requeueAt(80)).
				AdmissionChecks(a, withPolicyDelay(check("b", kueue.CheckStateRetry), 90)),
			wantEvictedAt: requeueAt(-10),
			wantEvents: []utiltesting.EventRecord{delayedEvent(
				`Waiting until 2026-02-06T10:01:20Z due to AdmissionChecks in Retry state: "a" after 60 s (5% are left); "b" after 90 s`)},
		},
		"the policy's delay changes while the workload waits: nothing is written": {
			gates: withRetryStrategy,
			workload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), waitsUntil("10:00:50", words)).
				AdmissionChecks(withPolicyDelay(withDelay(a, nil), 60), b),
			checks:    []*kueue.AdmissionCheck{policy("a", static30)},
			wantAfter: 49500 * time.Millisecond,
		},
		"the delay of the check wins over the policy": {
			gates:     withRetryStrategy,
			workload:  waiting,
			checks:    []*kueue.AdmissionCheck{policy("a", static30)},
			wantAfter: 49500 * time.Millisecond,
		},
		"the policy of a ProvisioningRequest check is not looked at": {
			gates:    withRetryStrategy,
			workload: waiting,
			checks: []*kueue.AdmissionCheck{func() *kueue.AdmissionCheck {
				ac := policy("a", limit2)
				ac.Spec.ControllerName = kueue.ProvisioningRequestControllerName
				return ac
			}()},
			wantAfter: 49500 * time.Millisecond,
		},
		"without the gate no policy is looked at": {
			workload:  waiting,
			checks:    []*kueue.AdmissionCheck{policy("a", limit2)},
			wantAfter: 49500 * time.Millisecond,
		},
		"the limit of the policy, while the workload holds quota": {
			gates:          withRetryStrategy,
			workload:       reserved.Clone().AdmissionChecks(a, b),
			checks:         []*kueue.AdmissionCheck{policy("a", limit2), policy("b", limit2)},
			wantWrites:     []string{write},
			wantNextWrites: []string{"update"},
			wantWorkload: reserved.Clone().
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheckRetryLimitExceeded",
					`exceeding the limit of retries, AdmissionCheck in Retry state: "a" after 2 retries (5% are left)`)).
				AdmissionChecks(a, b),
			wantEvents: []utiltesting.EventRecord{{
				EventType: corev1.EventTypeWarning, Reason: "AdmissionCheckRetryLimitExceeded",
				Message: `Deactivated due to exceeding the limit of retries, AdmissionCheck in Retry state: "a" after 2 retries (5% are left)`,
			}},
		},
		"the limit of the policy is lowered while the workload waits": {
			gates:          withRetryStrategy,
			workload:       waiting,
			checks:         []*kueue.AdmissionCheck{policy("a", limit2)},
			wantWrites:     []string{write},
			wantNextWrites: []string{"update"},
			wantWorkload: waiting.Clone().
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheckRetryLimitExceeded",
					`exceeding the limit of retries, AdmissionCheck in Retry state: "a" after 2 retries (5% are left)`)),
			wantEvictedAt: requeueAt(-10),
			wantEvents: []utiltesting.EventRecord{{
				EventType: corev1.EventTypeWarning, Reason: "AdmissionCheckRetryLimitExceeded",
				Message: `Deactivated due to exceeding the limit of retries, AdmissionCheck in Retry state: "a" after 2 retries (5% are left)`,
			}},
		},
		"gate off: left waiting, and requeued at its time": {
			gates:      gateOff,
			workload:   waiting.Clone().AdmissionChecks(withDelay(a, new(int32(10))), bReady).RequeueState(nil, requeueAt(0)),
			wantWrites: []string{merge},
			wantWorkload: waiting.Clone().
				Conditions(quotaLost(words), evicted(words), requeuedFor(`it was due to AdmissionCheck in Retry state: "a" after 10 s (5% are left)`)).
				RequeueState(nil, nil).
				AdmissionChecks(reset(a, new(int32(3))), reset(bReady, nil)),
			wantEvictedAt: requeueAt(-10),
		},
		"gate off: a retry in the last moment of a backoff is waited for, as in plain Kueue": {
			gates:         gateOff,
			workload:      queued.Clone().AdmissionChecks(a).RequeueState(nil, requeueAt(0)),
			wantWrites:    []string{write},
			wantNextAfter: new(39500 * time.Millisecond),
			wantWorkload:  queued.Clone().AdmissionChecks(a).RequeueState(nil, requeueAt(40)),
		},
		"gate off: left waiting, and not requeued early": {
			gates:     gateOff,
			workload:  waiting,
			wantAfter: 49500 * time.Millisecond,
		},
		"rejected with all the words that a check may say": {
			workload:   waiting.Clone().AdmissionChecks(a, longRejected),
			wantWrites: []string{write}, wantNextWrites: []string{"update"},
			wantWorkload: waiting.Clone().
				Condition(retryCondition(kueue.WorkloadDeactivationTarget, metav1.ConditionTrue, "AdmissionCheck",
					api.TruncateConditionMessage(`AdmissionCheck in Rejected state: "b" (`+longRejected.Message+")"))).
				AdmissionChecks(a, longRejected),
			wantEvents: []utiltesting.EventRecord{{
				EventType: corev1.EventTypeWarning, Reason: "AdmissionCheckRejected",
				Message: api.TruncateEventMessage(`Deactivated due to AdmissionCheck in Rejected state: "b" (` + longRejected.Message),
			}},
		},
		"a parent of ConcurrentAdmission has no checks": {
			gates:    map[featuregate.Feature]bool{features.ConcurrentAdmission: true},
			workload: waiting.Clone().ParentVariant().RequeueState(nil, requeueAt(500)),
			// Its backoff is plain Kueue's.
			wantAfter: 499500 * time.Millisecond,
		},
		"finished: nothing is written": {
			workload: reserved.Clone().AdmissionChecks(a, b).Condition(retryCondition(kueue.WorkloadFinished, metav1.ConditionTrue, "Succeeded", "words")),
		},
	}
	for name, tc := range cases {
		for _, useMergePatch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WorkloadRequestUseMergePatch enabled: %t", name, useMergePatch), func(t *testing.T) {
				gates := map[featuregate.Feature]bool{
					features.ACRequeueAfter:                   true,
					features.WorkloadRequestUseMergePatch:     useMergePatch,
					features.UnadmittedWorkloadsObservability: false,
				}
				maps.Copy(gates, tc.gates)
				features.SetFeatureGatesDuringTest(t, gates)
				objs := make([]client.Object, 0, len(tc.checks))
				for _, ac := range tc.checks {
					objs = append(objs, ac.DeepCopy())
				}
				r := newRetryReconcileTest(t, tc.workload.Obj(), objs...)
				want := tc.wantWorkload
				if want == nil {
					want = tc.workload
				}
				if diff := cmp.Diff(statusOf(tc.workload.Obj()), statusOf(r.workload()), retryStatusCmpOpts...); diff != "" {
					t.Fatalf("Unexpected workload at the beginning (-want,+got):\n%s", diff)
				}
				writes := func(writes []string) []string {
					var result []string
					for _, w := range writes {
						switch {
						case w != write:
							result = append(result, w)
						case useMergePatch:
							result = append(result, "status merge")
						default:
							result = append(result, "status apply")
						}
					}
					return result
				}

				r.expectReconcile("first reconciliation", tc.wantAfter, writes(tc.wantWrites)...)
				got := r.workload()
				if diff := cmp.Diff(statusOf(want.Obj()), statusOf(got), retryStatusCmpOpts...); diff != "" {
					t.Errorf("Unexpected workload (-want,+got):\n%s", diff)
				}
				if tc.wantEvictedAt != nil {
					evicted := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadEvicted)
					if diff := cmp.Diff(*tc.wantEvictedAt, ptr.Deref(evicted, metav1.Condition{}).LastTransitionTime); diff != "" {
						t.Errorf("Unexpected time of the eviction (-want,+got):\n%s", diff)
					}
				}
				r.expectEvents(tc.wantEvents...)

				nextAfter := tc.wantAfter
				if tc.wantNextAfter != nil {
					nextAfter = *tc.wantNextAfter
				}
				if len(tc.wantNextWrites) > 0 {
					nextAfter = 0
				}
				r.expectReconcile("second reconciliation", nextAfter, writes(tc.wantNextWrites)...)
				r.expectEvents()
			})
		}
	}
}

// TestReconcileRetryToTheEnd follows one retry from the reservation to the admission.
func TestReconcileRetryToTheEnd(t *testing.T) {
	for _, useMergePatch := range []bool{false, true} {
		t.Run(fmt.Sprintf("WorkloadRequestUseMergePatch enabled: %t", useMergePatch), func(t *testing.T) {
			features.SetFeatureGatesDuringTest(t, map[featuregate.Feature]bool{
				features.ACRequeueAfter:                   true,
				features.WorkloadRequestUseMergePatch:     useMergePatch,
				features.UnadmittedWorkloadsObservability: false,
			})
			write := "status apply"
			if useMergePatch {
				write = "status merge"
			}
			a := kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(retryAt(-20)), RequeueAfterSeconds: new(int32(60))}
			b := kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(retryAt(-20))}
			reserved := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").Queue("lq").ReserveQuotaAt(retryAdmission(), retryAt(-50))
			r := newRetryReconcileTest(t, reserved.AdmissionChecks(a, b).Obj())

			r.expectReconcile("evicted and released", 0, write)
			r.expectReconcile("waits", 60500*time.Millisecond)
			r.clock.SetTime(retryAt(30))
			r.expectReconcile("waits still", 31*time.Second)

			a.RequeueAfterSeconds = new(int32(90))
			r.applyCheck(a)
			r.expectReconcile("a longer delay", 61*time.Second, write)
			r.clock.SetTime(retryAt(91).Add(-time.Nanosecond))
			r.expectReconcile("just before the deadline", time.Nanosecond)
			r.clock.SetTime(retryAt(91))
			r.expectReconcile("the deadline", 0, "status merge")
			r.expectReconcile("in the queue", 0)

			// The controllers of the checks own fields of these entries, too.
			message := "Reset to Pending for the next attempt. Previously: Retry"
			wantChecks := []kueue.AdmissionCheckState{
				{Name: "a", State: kueue.CheckStatePending, Message: message, LastTransitionTime: metav1.NewTime(retryAt(91)), RetryCount: new(int32(1))},
				{Name: "b", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(retryAt(91))},
			}
			if diff := cmp.Diff(wantChecks, r.workload().Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks after the requeue (-want,+got):\n%s", diff)
			}
			if got := r.workload().Status.RequeueState; got != nil {
				t.Errorf("Unexpected requeueState after the requeue: %v", got)
			}

			r.apply(constants.AdmissionName, func(wl *kueue.Workload) {
				wl.Status = *reserved.Clone().QuotaReservedTime(retryAt(92)).AdmissionChecks(wantChecks...).Obj().Status.DeepCopy()
			})
			r.expectReconcile("reserved again", 0)
			for _, name := range []kueue.AdmissionCheckReference{"a", "b"} {
				r.applyCheck(kueue.AdmissionCheckState{Name: name, State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(retryAt(93))})
			}
			r.clock.SetTime(retryAt(93))
			r.expectReconcile("admitted", 0, write)
			got := r.workload()
			if !apimeta.IsStatusConditionTrue(got.Status.Conditions, kueue.WorkloadAdmitted) {
				t.Errorf("The workload was not admitted: %v", got.Status.Conditions)
			}
			for _, check := range got.Status.AdmissionChecks {
				if check.RequeueAfterSeconds != nil || check.RetryCount != nil && *check.RetryCount != 0 {
					t.Errorf("Check %s has something of the retry after the admission: %v", check.Name, check)
				}
			}
			r.expectReconcile("runs", 0)
		})
	}
}

// TestReconcileRetryDeactivatedAndReactivated verifies that a workload which was deactivated
// while it waited is as new when it is active again.
func TestReconcileRetryDeactivatedAndReactivated(t *testing.T) {
	for _, useMergePatch := range []bool{false, true} {
		t.Run(fmt.Sprintf("WorkloadRequestUseMergePatch enabled: %t", useMergePatch), func(t *testing.T) {
			features.SetFeatureGatesDuringTest(t, map[featuregate.Feature]bool{
				features.ACRequeueAfter:                   true,
				features.WorkloadRequestUseMergePatch:     useMergePatch,
				features.UnadmittedWorkloadsObservability: false,
			})
			write := "status apply"
			if useMergePatch {
				write = "status merge"
			}
			r := newRetryReconcileTest(t, utiltestingapi.MakeWorkload("wl", "ns").UID("uid").Queue("lq").
				ReserveQuotaAt(retryAdmission(), retryAt(-50)).
				AdmissionChecks(
					kueue.AdmissionCheckState{Name: "a", State: kueue.CheckStateRetry, LastTransitionTime: metav1.NewTime(retryAt(-20)), RequeueAfterSeconds: new(int32(60)), RetryCount: new(int32(2))},
					kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateReady, LastTransitionTime: metav1.NewTime(retryAt(-20))},
				).Obj())
			r.expectReconcile("evicted and released", 0, write)
			setActive := func(active bool) {
				r.byOthers = true
				defer func() { r.byOthers = false }()
				wl := r.workload()
				wl.Spec.Active = &active
				if err := r.client.Update(r.ctx, wl); err != nil {
					t.Fatalf("Failed updating the workload: %v", err)
				}
			}
			for attempt := range 2 {
				setActive(false)
				// What waits is reset, what is queued is evicted.
				r.expectReconcile("deactivated", 0, [...]string{"status merge", write}[attempt])
				r.expectReconcile("stays deactivated", 0)
				deactivatedAt := apimeta.FindStatusCondition(r.workload().Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime
				if diff := cmp.Diff(metav1.NewTime(r.clock.Now().Truncate(time.Second)), deactivatedAt); diff != "" {
					t.Errorf("Unexpected time of deactivation %d (-want,+got):\n%s", attempt, diff)
				}

				r.clock.Step(10 * time.Second)
				if attempt == 1 {
					r.applyCheck(kueue.AdmissionCheckState{Name: "b", State: kueue.CheckStateRejected, LastTransitionTime: metav1.NewTime(r.clock.Now())})
					r.expectReconcile("rejected when it is deactivated", 0)
				}
				setActive(true)
				if attempt == 1 {
					r.expectReconcile("reactivated: the rejection does not count", 0, "status merge")
				}
				r.expectReconcile("reactivated: the eviction is over", 0, write)
				if attempt == 0 {
					r.expectReconcile("reactivated: requeued", 0, write)
				}
				r.expectReconcile("in the queue", 0)
				got := r.workload()
				if !apimeta.IsStatusConditionFalse(got.Status.Conditions, kueue.WorkloadEvicted) {
					t.Errorf("Something tells of the eviction: %v", got.Status.Conditions)
				}
				if !apimeta.IsStatusConditionTrue(got.Status.Conditions, kueue.WorkloadRequeued) {
					t.Errorf("The workload is not requeued: %v", got.Status.Conditions)
				}
				if got.Status.RequeueState != nil {
					t.Errorf("Unexpected requeueState: %v", got.Status.RequeueState)
				}
				for _, check := range got.Status.AdmissionChecks {
					if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || check.RetryCount != nil {
						t.Errorf("Check %s has something of the retry: %v", check.Name, check)
					}
				}
				r.clock.Step(10 * time.Second)
			}
		})
	}
}

// TestReconcileRetryOfAnOldVersion verifies that what a check says in the last moment is
// not lost: the write fails, and the next reconciliation decides anew.
func TestReconcileRetryOfAnOldVersion(t *testing.T) {
	queued := utiltestingapi.MakeWorkload("wl", "ns").UID("uid").Queue("lq")
	reserved := queued.Clone().ReserveQuotaAt(retryAdmission(), retryAt(-50))
	waiting := queued.Clone().
		Conditions(
			retryCondition(kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", "words"),
			retryCondition(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.WorkloadEvictedByAdmissionCheck, "words"),
			retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, "words"),
		).
		RequeueState(nil, new(metav1.NewTime(retryAt(0))))
	check := func(name kueue.AdmissionCheckReference, state kueue.CheckState, delay *int32) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(retryAt(-20)), RequeueAfterSeconds: delay}
	}

	cases := map[string]struct {
		workload *kueue.Workload
		// says is what a check says before the write.
		says kueue.AdmissionCheckState
		// wantHolds is whether the workload holds quota after the next reconciliation.
		wantHolds bool
		// wantRequeueAt is recorded by the next reconciliation.
		wantRequeueAt *metav1.Time
		wantNext      reconcile.Result
	}{
		"withdrawn before the eviction: not evicted": {
			workload:  reserved.Clone().AdmissionChecks(check("a", kueue.CheckStateRetry, new(int32(60))), check("b", kueue.CheckStatePending, nil)).Obj(),
			says:      check("a", kueue.CheckStatePending, nil),
			wantHolds: true,
		},
		"another retry before the eviction: its deadline is recorded": {
			workload:      reserved.Clone().AdmissionChecks(check("a", kueue.CheckStateRetry, new(int32(60))), check("b", kueue.CheckStatePending, nil)).Obj(),
			says:          check("b", kueue.CheckStateRetry, new(int32(90))),
			wantRequeueAt: new(metav1.NewTime(retryAt(91))),
		},
		"another retry before the requeue: it waits on": {
			workload:      waiting.Clone().AdmissionChecks(check("a", kueue.CheckStateRetry, new(int32(10))), check("b", kueue.CheckStatePending, nil)).Obj(),
			says:          check("b", kueue.CheckStateRetry, new(int32(90))),
			wantRequeueAt: new(metav1.NewTime(retryAt(80))),
			wantNext:      reconcile.Result{RequeueAfter: 79500 * time.Millisecond},
		},
		"another delay before one is recorded": {
			workload:      waiting.Clone().AdmissionChecks(check("a", kueue.CheckStateRetry, new(int32(60))), check("b", kueue.CheckStatePending, nil)).Obj(),
			says:          check("a", kueue.CheckStateRetry, new(int32(90))),
			wantRequeueAt: new(metav1.NewTime(retryAt(80))),
			wantNext:      reconcile.Result{RequeueAfter: 79500 * time.Millisecond},
		},
		"a rejection is taken back before the deactivation": {
			workload:  reserved.Clone().AdmissionChecks(check("a", kueue.CheckStateRejected, nil), check("b", kueue.CheckStatePending, nil)).Obj(),
			says:      check("a", kueue.CheckStatePending, nil),
			wantHolds: true,
		},
	}
	for name, tc := range cases {
		for _, useMergePatch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WorkloadRequestUseMergePatch enabled: %t", name, useMergePatch), func(t *testing.T) {
				features.SetFeatureGatesDuringTest(t, map[featuregate.Feature]bool{
					features.ACRequeueAfter:               true,
					features.WorkloadRequestUseMergePatch: useMergePatch,
				})
				r := newRetryReconcileTest(t, tc.workload)
				var said *kueue.Workload
				r.beforeWrite = func() {
					r.applyCheck(tc.says)
					said = r.workload()
				}
				if result, err := r.reconcile(); !apierrors.IsConflict(err) {
					t.Errorf("Unexpected result: %v, error: %v, want a conflict", result, err)
				}
				if len(r.writes) != 1 {
					t.Errorf("Unexpected writes: %v, want one that is not repeated", r.writes)
				}
				r.writes = nil
				r.expectEvents()
				if diff := cmp.Diff(said, r.workload()); diff != "" {
					t.Errorf("The refused write changed the workload (-want,+got):\n%s", diff)
				}

				result, err := r.reconcile()
				if err != nil {
					t.Errorf("Unexpected error: %v", err)
				}
				if diff := cmp.Diff(tc.wantNext, result); diff != "" {
					t.Errorf("Unexpected result of the next reconciliation (-want,+got):\n%s", diff)
				}
				got := r.workload()
				if holds := got.Status.Admission != nil; holds != tc.wantHolds {
					t.Errorf("Unexpected quota: %t, want: %t", holds, tc.wantHolds)
				}
				var gotRequeueAt *metav1.Time
				if got.Status.RequeueState != nil {
					gotRequeueAt = got.Status.RequeueState.RequeueAt
				}
				if diff := cmp.Diff(tc.wantRequeueAt, gotRequeueAt); diff != "" {
					t.Errorf("Unexpected requeueAt (-want,+got):\n%s", diff)
				}
				if target := apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadDeactivationTarget); target != nil {
					t.Errorf("Unexpected condition: %v", target)
				}
			})
		}
	}
}

func TestReleasedChecks(t *testing.T) {
	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(
			*utiltestingapi.MakeFlavorQuotas("rf").Resource(corev1.ResourceCPU, "1").Obj(),
			*utiltestingapi.MakeFlavorQuotas("other").Resource(corev1.ResourceCPU, "1").Obj(),
		).
		AdmissionCheckStrategy(
			*utiltestingapi.MakeAdmissionCheckStrategyRule("a", "rf").Obj(),
			*utiltestingapi.MakeAdmissionCheckStrategyRule("b").Obj(),
		).Obj()
	check := func(name kueue.AdmissionCheckReference, state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(retryAt(0))}
	}
	waits := retryCondition(kueue.WorkloadRequeued, metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck, "words")
	wl := func(checks ...kueue.AdmissionCheckState) *utiltestingapi.WorkloadWrapper {
		return utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").AdmissionChecks(checks...)
	}
	otherFlavor := utiltestingapi.MakeAdmission("cq").
		PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).Assignment(corev1.ResourceCPU, "other", "1").Obj()).
		Obj()

	cases := map[string]struct {
		gateOff  bool
		workload *kueue.Workload
		want     []kueue.AdmissionCheckState
	}{
		"a retry of a check for a flavor keeps the workload waiting without the flavor": {
			workload: wl(check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady)).Condition(waits).Obj(),
			want:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateRetry), check("b", kueue.CheckStateReady)},
		},
		"a check for a flavor that is Ready stays while the workload waits": {
			workload: wl(check("a", kueue.CheckStateReady), check("b", kueue.CheckStateRetry)).Condition(waits).Obj(),
			want:     []kueue.AdmissionCheckState{check("a", kueue.CheckStateReady), check("b", kueue.CheckStateRetry)},
		},
		"a check for a flavor that is Ready goes when nothing waits": {
			workload: wl(check("a", kueue.CheckStateReady), check("b", kueue.CheckStatePending)).Obj(),
			want:     []kueue.AdmissionCheckState{check("b", kueue.CheckStatePending)},
		},
		"a check for a flavor keeps its count after the requeue": {
			workload: wl(check("a", kueue.CheckStatePending), check("b", kueue.CheckStatePending)).Obj(),
			want:     []kueue.AdmissionCheckState{check("a", kueue.CheckStatePending), check("b", kueue.CheckStatePending)},
		},
		"a check for a flavor goes when the workload has another flavor": {
			workload: wl(check("a", kueue.CheckStateRetry), check("b", kueue.CheckStatePending)).ReserveQuotaAt(otherFlavor, retryAt(0)).Obj(),
			want:     []kueue.AdmissionCheckState{check("b", kueue.CheckStatePending)},
		},
		"a check that the ClusterQueue does not ask for goes": {
			workload: wl(check("b", kueue.CheckStatePending), check("c", kueue.CheckStateRetry)).Condition(waits).Obj(),
			want:     []kueue.AdmissionCheckState{check("b", kueue.CheckStatePending)},
		},
		"gate off: a check for a flavor goes with the flavor": {
			gateOff:  true,
			workload: wl(check("a", kueue.CheckStateRetry), check("b", kueue.CheckStatePending)).Condition(waits).Obj(),
			want:     []kueue.AdmissionCheckState{check("b", kueue.CheckStatePending)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			ctx, _ := utiltesting.ContextWithLog(t)
			cl := utiltesting.NewFakeClient(tc.workload)
			cqCache := schdcache.New(cl)
			reconciler := NewWorkloadReconciler(cl, qcache.NewManagerForUnitTests(cl, cqCache), cqCache, &utiltesting.EventRecorder{})
			if _, err := reconciler.reconcileSyncAdmissionChecks(ctx, tc.workload, cq); err != nil {
				t.Fatalf("Unexpected error: %v", err)
			}
			if diff := cmp.Diff(tc.want, tc.workload.Status.AdmissionChecks); diff != "" {
				t.Errorf("Unexpected checks (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestWorkloadsInRetry(t *testing.T) {
	inState := func(name string, check kueue.AdmissionCheckReference, state kueue.CheckState) *kueue.Workload {
		return utiltestingapi.MakeWorkload(name, "ns").AdmissionChecks(kueue.AdmissionCheckState{Name: check, State: state}).Obj()
	}
	r := &WorkloadReconciler{client: utiltesting.NewClientBuilder().WithObjects(
		inState("retry", "a", kueue.CheckStateRetry),
		inState("retry-of-another", "b", kueue.CheckStateRetry),
		inState("pending", "a", kueue.CheckStatePending),
		utiltestingapi.MakeWorkload("no-check", "ns").Obj(),
	).WithIndex(&kueue.Workload{}, indexer.WorkloadAdmissionCheckKey, indexer.IndexWorkloadAdmissionCheck).Build()}
	ac := utiltestingapi.MakeAdmissionCheck("a").Obj()
	if got := r.workloadsInRetry(t.Context(), ac); len(got) > 0 {
		t.Errorf("Unexpected requests without the gate: %v", got)
	}
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.ACRetryStrategy, true)
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "retry"}}}
	if diff := cmp.Diff(want, r.workloadsInRetry(t.Context(), ac)); diff != "" {
		t.Errorf("Unexpected requests (-want,+got):\n%s", diff)
	}
}
