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

package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/features"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

type retrySchedulerTest struct {
	client    client.Client
	cache     *schdcache.Cache
	queues    *qcache.Manager
	scheduler *Scheduler
	recorder  *utiltesting.EventRecorder
	wg        sync.WaitGroup
	// beforeAdmission is called before a reservation is written.
	beforeAdmission func()
	// beforeWrite is called before any write of the scheduler.
	beforeWrite func()
	// writes counts those of the scheduler.
	writes int
}

func newRetrySchedulerTest(ctx context.Context, t *testing.T, wl *kueue.Workload, checks ...kueue.AdmissionCheckReference) *retrySchedulerTest {
	t.Helper()
	rf := utiltestingapi.MakeResourceFlavor("rf").Obj()
	cq := utiltestingapi.MakeClusterQueue("cq").
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas("rf").Resource(corev1.ResourceCPU, "2").Obj()).
		AdmissionChecks(checks...).
		Obj()
	lq := utiltestingapi.MakeLocalQueue("lq", metav1.NamespaceDefault).ClusterQueue("cq").Obj()
	s := &retrySchedulerTest{recorder: &utiltesting.EventRecorder{}}
	s.client = utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(metav1.NamespaceDefault), rf, cq, lq, wl).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				s.writes++
				if s.beforeWrite != nil {
					s.beforeWrite()
				}
				return utiltesting.TreatSSAAsStrategicMerge(ctx, c, subResourceName, obj, patch, opts...)
			},
		}).
		Build()
	s.cache = schdcache.New(s.client)
	s.queues = qcache.NewManagerForUnitTests(s.client, s.cache, qcache.WithPreemptionExpectations(preemptexpectations.New()))
	_, log := utiltesting.ContextWithLog(t)
	s.cache.AddOrUpdateResourceFlavor(log, rf)
	s.cache.AddOrUpdateAdmissionCheck(log, utiltestingapi.MakeAdmissionCheck("check").Active(metav1.ConditionTrue).Obj())
	if err := s.cache.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Failed adding ClusterQueue to the cache: %v", err)
	}
	if err := s.queues.AddClusterQueue(ctx, cq); err != nil {
		t.Fatalf("Failed adding ClusterQueue to the queues: %v", err)
	}
	if err := s.queues.AddLocalQueue(ctx, lq); err != nil {
		t.Fatalf("Failed adding LocalQueue: %v", err)
	}
	s.scheduler = New(s.queues, s.cache, s.client, s.recorder, WithPreemptionExpectations(preemptexpectations.New()))
	s.scheduler.setAdmissionRoutineWrapper(routine.NewWrapper(func() {
		s.wg.Add(1)
		if s.beforeAdmission != nil {
			s.beforeAdmission()
		}
	}, s.wg.Done))
	return s
}

// queued returns the workloads in the heap, and those that are inadmissible.
func (s *retrySchedulerTest) queued(t *testing.T) (active, inadmissible []workload.Reference) {
	t.Helper()
	return s.queues.Dump()["cq"], s.queues.DumpInadmissible()["cq"]
}

func (s *retrySchedulerTest) expectQueued(t *testing.T, when string, wantActive, wantInadmissible []workload.Reference) {
	t.Helper()
	active, inadmissible := s.queued(t)
	if diff := cmp.Diff(wantActive, active); diff != "" {
		t.Errorf("Unexpected workloads in the heap, %s (-want,+got):\n%s", when, diff)
	}
	if diff := cmp.Diff(wantInadmissible, inadmissible); diff != "" {
		t.Errorf("Unexpected inadmissible workloads, %s (-want,+got):\n%s", when, diff)
	}
}

// TestNominateWorkloadThatMustWait verifies that the scheduler reserves no quota for a
// workload that must wait, however it came into the heap, and leaves its status alone.
func TestNominateWorkloadThatMustWait(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1")
	check := func(state kueue.CheckState) kueue.AdmissionCheckState {
		return kueue.AdmissionCheckState{Name: "check", State: state, LastTransitionTime: metav1.NewTime(now)}
	}
	requeued := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kueue.WorkloadRequeued, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now)}
	}
	key := []workload.Reference{"default/wl"}

	cases := map[string]struct {
		gateOff          bool
		workload         *kueue.Workload
		wantNominated    bool
		wantWrites       int
		wantActive       []workload.Reference
		wantInadmissible []workload.Reference
		wantEvents       []utiltesting.EventRecord
	}{
		"a retry that nobody has acted on": {
			workload:         wl.Clone().AdmissionChecks(check(kueue.CheckStateRetry)).Obj(),
			wantInadmissible: key,
		},
		"a rejection that nobody has acted on": {
			workload:         wl.Clone().AdmissionChecks(check(kueue.CheckStateRejected)).Obj(),
			wantInadmissible: key,
		},
		"a recorded wait": {
			workload: wl.Clone().AdmissionChecks(check(kueue.CheckStateRetry)).
				RequeueState(nil, new(metav1.NewTime(now.Add(time.Hour)))).
				Condition(requeued(metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
			wantInadmissible: key,
		},
		"a recorded wait whose time is over": {
			workload: wl.Clone().AdmissionChecks(check(kueue.CheckStatePending)).
				RequeueState(nil, new(metav1.NewTime(now.Add(-time.Hour)))).
				Condition(requeued(metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
			wantInadmissible: key,
		},
		"not requeued for another reason": {
			workload:         wl.Clone().Condition(requeued(metav1.ConditionFalse, kueue.WorkloadEvictedByLocalQueueStopped)).Obj(),
			wantInadmissible: key,
		},
		"requeued": {
			workload: wl.Clone().AdmissionChecks(check(kueue.CheckStatePending)).
				Condition(requeued(metav1.ConditionTrue, kueue.WorkloadBackoffFinished)).Obj(),
			wantNominated: true,
			wantActive:    key,
		},
		"gate off: a retry is noted, as in plain Kueue": {
			gateOff:          true,
			workload:         wl.Clone().AdmissionChecks(check(kueue.CheckStateRetry)).Obj(),
			wantWrites:       1,
			wantInadmissible: key,
			wantEvents: []utiltesting.EventRecord{{
				Key:       types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "wl"},
				EventType: corev1.EventTypeWarning,
				Reason:    "Pending",
				Message:   "The workload has failed admission checks",
			}},
		},
	}
	for name, tc := range cases {
		for _, useMergePatch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WorkloadRequestUseMergePatch enabled: %t", name, useMergePatch), func(t *testing.T) {
				features.SetFeatureGatesDuringTest(t, map[featuregate.Feature]bool{
					features.ACRequeueAfter:                   !tc.gateOff,
					features.WorkloadRequestUseMergePatch:     useMergePatch,
					features.UnadmittedWorkloadsObservability: false,
				})
				ctx, log := utiltesting.ContextWithLog(t)
				s := newRetrySchedulerTest(ctx, t, tc.workload.DeepCopy(), "check")
				s.queues.DeleteAndForgetWorkload(log, workload.Key(tc.workload))
				before := &kueue.Workload{}
				if err := s.client.Get(ctx, client.ObjectKeyFromObject(tc.workload), before); err != nil {
					t.Fatalf("Failed getting the workload: %v", err)
				}
				snapshot, err := s.cache.Snapshot(ctx)
				if err != nil {
					t.Fatalf("Failed taking a snapshot: %v", err)
				}
				head := qcache.Head{Info: *workload.NewInfo(before.DeepCopy())}
				head.ClusterQueue = "cq"

				nominated, inadmissible := s.scheduler.nominate(ctx, []qcache.Head{head}, snapshot)
				if got := len(nominated) == 1; got != tc.wantNominated {
					t.Errorf("Unexpected nomination: %t, want: %t", got, tc.wantNominated)
				}
				if got := len(inadmissible) == 1; got == tc.wantNominated {
					t.Errorf("Unexpected inadmissible entries: %v", inadmissible)
				}
				for _, e := range inadmissible {
					// It is the text of an event if the workload has quota and needs a second pass.
					if e.inadmissibleMsg == "" {
						t.Error("The entry does not say why it is inadmissible")
					}
				}
				for _, e := range append(nominated, inadmissible...) {
					if tc.wantNominated {
						e.requeueReason = qcache.RequeueReasonFailedAfterNomination
						e.skipStatusUpdate = true
					}
					s.scheduler.requeueAndUpdate(ctx, e)
				}

				if s.writes != tc.wantWrites {
					t.Errorf("Unexpected number of writes: %d, want: %d", s.writes, tc.wantWrites)
				}
				active, waits := s.queued(t)
				if diff := cmp.Diff(tc.wantActive, active); diff != "" {
					t.Errorf("Unexpected workloads in the heap (-want,+got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantInadmissible, waits); diff != "" {
					t.Errorf("Unexpected inadmissible workloads (-want,+got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.wantEvents, s.recorder.RecordedEvents, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("Unexpected events (-want,+got):\n%s", diff)
				}
			})
		}
	}
}

func pendingCheck() []kueue.AdmissionCheckState {
	return []kueue.AdmissionCheckState{{Name: "check", State: kueue.CheckStatePending, LastTransitionTime: metav1.NewTime(time.Now())}}
}

// TestScheduleOldVersion verifies that the scheduler reserves no quota with a copy that does
// not know of a retry: the write fails, the quota is free again, and the workload waits.
func TestScheduleOldVersion(t *testing.T) {
	asked := []kueue.AdmissionCheckReference{"check"}
	cases := map[string]struct {
		checks        []kueue.AdmissionCheckState
		queueChecks   []kueue.AdmissionCheckReference
		useMergePatch bool
	}{
		"the check was pending":                     {checks: pendingCheck(), queueChecks: asked},
		"the check was pending, merge patch":        {checks: pendingCheck(), queueChecks: asked, useMergePatch: true},
		"the check was not there yet":               {queueChecks: asked},
		"the check was not there yet, merge patch":  {queueChecks: asked, useMergePatch: true},
		"the queue asked no check yet":              {},
		"the queue asked no check yet, merge patch": {useMergePatch: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, tc.useMergePatch)
			ctx, log := utiltesting.ContextWithLog(t)
			wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "1").
				AdmissionChecks(tc.checks...).
				Obj()
			s := newRetrySchedulerTest(ctx, t, wl, tc.queueChecks...)
			s.beforeAdmission = func() {
				cq := &kueue.ClusterQueue{}
				if err := s.client.Get(ctx, client.ObjectKey{Name: "cq"}, cq); err != nil {
					t.Errorf("Failed getting the ClusterQueue: %v", err)
				}
				cq.Spec.AdmissionChecksStrategy = utiltestingapi.MakeClusterQueue("cq").AdmissionChecks(asked...).Obj().Spec.AdmissionChecksStrategy
				if err := s.cache.UpdateClusterQueue(log, cq); err != nil {
					t.Errorf("Failed updating the ClusterQueue in the cache: %v", err)
				}
			}
			retry := &kueue.Workload{}
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(wl), retry); err != nil {
				t.Fatalf("Failed getting the workload: %v", err)
			}
			retry.Status.AdmissionChecks = pendingCheck()
			retry.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
			if err := s.client.Status().Update(ctx, retry); err != nil {
				t.Fatalf("Failed updating the workload: %v", err)
			}

			expect := func(when string, wantWrites int, wantState kueue.CheckState, wantReserved bool, wantActive, wantInadmissible []workload.Reference) {
				t.Helper()
				if s.writes != wantWrites {
					t.Errorf("Unexpected number of writes, %s: %d, want: %d", when, s.writes, wantWrites)
				}
				got := &kueue.Workload{}
				if err := s.client.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
					t.Fatalf("Failed getting the workload: %v", err)
				}
				if state := got.Status.AdmissionChecks[0].State; state != wantState {
					t.Errorf("Unexpected state of the check, %s: %s, want: %s", when, state, wantState)
				}
				if reserved := workload.HasQuotaReservation(got); reserved != wantReserved {
					t.Errorf("Unexpected reservation, %s: %t, want: %t", when, reserved, wantReserved)
				}
				if !wantReserved && apimeta.FindStatusCondition(got.Status.Conditions, kueue.WorkloadQuotaReserved) != nil {
					t.Errorf("Unexpected conditions, %s: %v", when, got.Status.Conditions)
				}
				snapshot, err := s.cache.Snapshot(ctx)
				if err != nil {
					t.Fatalf("Failed taking a snapshot: %v", err)
				}
				if cached := len(snapshot.ClusterQueue("cq").Workloads) == 1; cached != wantReserved {
					t.Errorf("Unexpected quota in the cache, %s: %t, want: %t", when, cached, wantReserved)
				}
				s.expectQueued(t, when, wantActive, wantInadmissible)
			}

			s.scheduler.schedule(ctx)
			s.wg.Wait()
			expect("after the attempt with the old version", 1, kueue.CheckStateRetry, false, nil, []workload.Reference{"default/wl"})

			retry.Status.AdmissionChecks[0].State = kueue.CheckStatePending
			if err := s.client.Status().Update(ctx, retry); err != nil {
				t.Fatalf("Failed updating the workload: %v", err)
			}
			if err := s.queues.AddOrUpdateWorkload(log, retry.DeepCopy()); err != nil {
				t.Fatalf("Failed updating the workload in the queues: %v", err)
			}
			expect("after the retry was withdrawn", 1, kueue.CheckStatePending, false, []workload.Reference{"default/wl"}, nil)
			s.scheduler.schedule(ctx)
			s.wg.Wait()
			expect("after the next attempt", 2, kueue.CheckStatePending, true, nil, nil)
		})
	}
}

// TestScheduleOldVersionWithoutQuota verifies that a workload without quota is tried again if
// the note about it conflicts: with the latest version, on which the note is written.
func TestScheduleOldVersionWithoutQuota(t *testing.T) {
	for _, useMergePatch := range []bool{false, true} {
		t.Run(fmt.Sprintf("WorkloadRequestUseMergePatch: %t", useMergePatch), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			features.SetFeatureGateDuringTest(t, features.WorkloadRequestUseMergePatch, useMergePatch)
			ctx, _ := utiltesting.ContextWithLog(t)
			wl := utiltestingapi.MakeWorkload("wl", metav1.NamespaceDefault).Queue("lq").Request(corev1.ResourceCPU, "3").
				AdmissionChecks(pendingCheck()...).
				Obj()
			s := newRetrySchedulerTest(ctx, t, wl, "check")
			s.beforeWrite = func() {
				s.beforeWrite = nil
				newer := &kueue.Workload{}
				if err := s.client.Get(ctx, client.ObjectKeyFromObject(wl), newer); err != nil {
					t.Errorf("Failed getting the workload: %v", err)
				}
				newer.Status.AdmissionChecks[0].Message = "newer"
				if err := s.client.Status().Update(ctx, newer); err != nil {
					t.Errorf("Failed updating the workload: %v", err)
				}
			}

			expect := func(when string, wantWrites int, wantTold bool, wantActive, wantInadmissible []workload.Reference) {
				t.Helper()
				if s.writes != wantWrites {
					t.Errorf("Unexpected number of writes, %s: %d, want: %d", when, s.writes, wantWrites)
				}
				got := &kueue.Workload{}
				if err := s.client.Get(ctx, client.ObjectKeyFromObject(wl), got); err != nil {
					t.Fatalf("Failed getting the workload: %v", err)
				}
				if message := got.Status.AdmissionChecks[0].Message; message != "newer" {
					t.Errorf("Unexpected message of the check, %s: %q", when, message)
				}
				if told := apimeta.IsStatusConditionFalse(got.Status.Conditions, kueue.WorkloadQuotaReserved); told != wantTold {
					t.Errorf("Unexpected conditions, %s: %v", when, got.Status.Conditions)
				}
				s.expectQueued(t, when, wantActive, wantInadmissible)
			}
			s.scheduler.schedule(ctx)
			expect("after the attempt with the old version", 1, false, []workload.Reference{"default/wl"}, nil)
			if t.Failed() {
				return // the next attempt would wait for the workload
			}
			s.scheduler.schedule(ctx)
			expect("after the next attempt", 2, true, nil, []workload.Reference{"default/wl"})
		})
	}
}
