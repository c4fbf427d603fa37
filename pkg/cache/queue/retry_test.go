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

package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
)

var retryTestNow = time.Date(2026, 2, 6, 10, 0, 0, 0, time.UTC)

// The workloads of these tests request 1 CPU each.
func retryTestWorkload(name, version string) *utiltestingapi.WorkloadWrapper {
	return utiltestingapi.MakeWorkload(name, "ns").Queue("lq").Request(corev1.ResourceCPU, "1").ResourceVersion(version)
}

func checkInState(state kueue.CheckState) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{Name: "check", State: state, LastTransitionTime: metav1.NewTime(retryTestNow), RequeueAfterSeconds: new(int32(60))}
}

// requeuedCondition does not depend on the time, in order to see what else matters.
func requeuedCondition(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kueue.WorkloadRequeued, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(retryTestNow)}
}

// recordedWait returns a workload that waits, and whose wait was recorded.
func recordedWait(name, version string, requeueAt time.Time) *utiltestingapi.WorkloadWrapper {
	return retryTestWorkload(name, version).
		AdmissionChecks(checkInState(kueue.CheckStateRetry)).
		RequeueState(nil, new(metav1.NewTime(requeueAt))).
		Condition(requeuedCondition(metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck))
}

type retryTestQueues struct {
	t        *testing.T
	ctx      context.Context
	log      logr.Logger
	client   client.Client
	manager  *Manager
	requeuer *testInadmissibleWorkloadRequeuer
	cq       *kueue.ClusterQueue
	lq       *kueue.LocalQueue
}

func newRetryTestQueues(t *testing.T, objs ...client.Object) *retryTestQueues {
	t.Helper()
	ctx, log := utiltesting.ContextWithLog(t)
	q := &retryTestQueues{
		t: t, ctx: ctx, log: log,
		cq: utiltestingapi.MakeClusterQueue("cq").QueueingStrategy(kueue.BestEffortFIFO).Obj(),
		lq: utiltestingapi.MakeLocalQueue("lq", "ns").ClusterQueue("cq").Obj(),
	}
	q.client = utiltesting.NewFakeClient(append([]client.Object{utiltesting.MakeNamespace("ns"), q.lq}, objs...)...)
	q.manager, q.requeuer = NewManagerForUnitTestsWithRequeuer(q.client, nil, WithPreemptionExpectations(preemptexpectations.New()))
	return q
}

func (q *retryTestQueues) addClusterQueue() {
	q.t.Helper()
	if err := q.manager.AddClusterQueue(q.ctx, q.cq); err != nil {
		q.t.Fatalf("Failed adding the ClusterQueue: %v", err)
	}
}

func (q *retryTestQueues) addLocalQueue() {
	q.t.Helper()
	if err := q.manager.AddLocalQueue(q.ctx, q.lq); err != nil {
		q.t.Fatalf("Failed adding the LocalQueue: %v", err)
	}
}

func (q *retryTestQueues) addOrUpdate(wl *kueue.Workload) {
	q.t.Helper()
	if err := q.manager.AddOrUpdateWorkload(q.log, wl); err != nil {
		q.t.Fatalf("Failed adding the workload: %v", err)
	}
}

// queuedWorkloads are the workloads of a ClusterQueue by place, each as name@resourceVersion.
type queuedWorkloads struct {
	Heap         []string
	Inadmissible []string
	Inflight     []string
}

// expect verifies where the workloads are, that all of them are counted, and that nothing
// brings those into the heap which must wait.
func (q *retryTestQueues) expect(when string, want queuedWorkloads) {
	q.t.Helper()
	cq := q.manager.getClusterQueue("cq")
	place := func(infos ...*workload.Info) []string {
		var names []string
		for _, info := range infos {
			names = append(names, info.Obj.Name+"@"+info.Obj.ResourceVersion)
		}
		slices.Sort(names)
		return names
	}
	look := func() queuedWorkloads {
		heap, inadmissible, inflight := queuedInfos(cq)
		got := queuedWorkloads{Heap: place(heap...), Inadmissible: place(inadmissible...)}
		if inflight != nil {
			got.Inflight = place(inflight)
		}
		return got
	}
	if diff := cmp.Diff(want, look()); diff != "" {
		q.t.Errorf("Unexpected workloads in the ClusterQueue, %s (-want,+got):\n%s", when, diff)
	}
	wantPending := len(want.Heap) + len(want.Inadmissible) + len(want.Inflight)
	if got, err := q.manager.Pending(q.cq); err != nil || got != wantPending {
		q.t.Errorf("Unexpected pending workloads of the ClusterQueue, %s: %d (error: %v), want: %d", when, got, err, wantPending)
	}
	if got := cq.pendingResources()[corev1.ResourceCPU]; got != int64(1000*wantPending) {
		q.t.Errorf("Unexpected pending CPU of the ClusterQueue, %s: %d, want: %d", when, got, 1000*wantPending)
	}
	if got, err := q.manager.PendingWorkloads(q.lq); err == nil && int(got) != wantPending {
		q.t.Errorf("Unexpected pending workloads of the LocalQueue, %s: %d, want: %d", when, got, wantPending)
	}
	if got := len(q.manager.PendingWorkloadsInfo("cq")); got != wantPending {
		q.t.Errorf("Unexpected number of workloads for the visibility API, %s: %d, want: %d", when, got, wantPending)
	}
	// Quota that comes free ends no wait.
	NotifyRetryInadmissible(q.manager, sets.New[kueue.ClusterQueueReference]("cq"))
	q.requeuer.ProcessRequeues(q.ctx)
	if diff := cmp.Diff(want, look()); diff != "" {
		q.t.Errorf("Unexpected workloads in the ClusterQueue, %s, after quota came free (-want,+got):\n%s", when, diff)
	}
}

func TestRetryInQueues(t *testing.T) {
	plain := func(version string) *kueue.Workload {
		return retryTestWorkload("wl", version).AdmissionChecks(checkInState(kueue.CheckStatePending)).Obj()
	}
	inState := func(version string, state kueue.CheckState) *kueue.Workload {
		return retryTestWorkload("wl", version).AdmissionChecks(checkInState(state)).Obj()
	}
	requeued := func(version string) *kueue.Workload {
		return retryTestWorkload("wl", version).AdmissionChecks(checkInState(kueue.CheckStatePending)).
			Condition(requeuedCondition(metav1.ConditionTrue, kueue.WorkloadBackoffFinished)).Obj()
	}
	heap := func(version string) queuedWorkloads { return queuedWorkloads{Heap: []string{"wl@" + version}} }
	waits := func(version string) queuedWorkloads { return queuedWorkloads{Inadmissible: []string{"wl@" + version}} }
	type event struct {
		wl   *kueue.Workload
		want queuedWorkloads
	}
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)

	cases := map[string]struct {
		gateOff bool
		events  []event
	}{
		"a retry of a workload in the heap, withdrawn before anybody has acted": {
			events: []event{
				{wl: plain("1"), want: heap("1")},
				{wl: inState("2", kueue.CheckStateRetry), want: waits("2")},
				{wl: inState("3", kueue.CheckStateRetry), want: waits("3")},
				{wl: plain("4"), want: heap("4")},
			},
		},
		"a retry that becomes Ready": {
			events: []event{
				{wl: inState("1", kueue.CheckStateRetry), want: waits("1")},
				{wl: inState("2", kueue.CheckStateReady), want: heap("2")},
			},
		},
		"a retry, a recorded wait, the requeue": {
			events: []event{
				{wl: plain("1"), want: heap("1")},
				{wl: inState("2", kueue.CheckStateRetry), want: waits("2")},
				{wl: recordedWait("wl", "3", future).Obj(), want: waits("3")},
				{wl: recordedWait("wl", "4", future.Add(time.Hour)).Obj(), want: waits("4")},
				{wl: requeued("5"), want: heap("5")},
			},
		},
		"a deadline that is over: the reconciler requeues, not the queue": {
			events: []event{
				{wl: recordedWait("wl", "1", past).Obj(), want: waits("1")},
				{wl: requeued("2"), want: heap("2")},
			},
		},
		"withdrawn from a recorded wait: the reconciler requeues, not the queue": {
			events: []event{
				{wl: recordedWait("wl", "1", future).Obj(), want: waits("1")},
				{
					wl: retryTestWorkload("wl", "2").AdmissionChecks(checkInState(kueue.CheckStateReady)).
						RequeueState(nil, new(metav1.NewTime(past))).
						Condition(requeuedCondition(metav1.ConditionFalse, kueue.WorkloadEvictedByAdmissionCheck)).Obj(),
					want: waits("2"),
				},
				{wl: requeued("3"), want: heap("3")},
			},
		},
		"rejected": {
			events: []event{
				{wl: plain("1"), want: heap("1")},
				{wl: inState("2", kueue.CheckStateRejected), want: waits("2")},
			},
		},
		"Requeued turns False for another reason": {
			events: []event{
				{wl: requeued("1"), want: heap("1")},
				{
					wl:   retryTestWorkload("wl", "2").Condition(requeuedCondition(metav1.ConditionFalse, kueue.WorkloadEvictedByLocalQueueStopped)).Obj(),
					want: waits("2"),
				},
				{wl: requeued("3"), want: heap("3")},
			},
		},
		"an older copy is dropped: the workload must wait": {
			events: []event{
				{wl: plain("9"), want: heap("9")},
				{wl: inState("10", kueue.CheckStateRetry), want: waits("10")},
				{wl: plain("9"), want: waits("10")},
			},
		},
		"an older copy is dropped: the workload was requeued": {
			events: []event{
				{wl: recordedWait("wl", "9", future).Obj(), want: waits("9")},
				{wl: requeued("10"), want: heap("10")},
				{wl: recordedWait("wl", "9", future).Obj(), want: heap("10")},
			},
		},
		"the same version again is no older copy": {
			events: []event{
				{wl: plain("1"), want: heap("1")},
				{wl: inState("1", kueue.CheckStateRetry), want: waits("1")},
			},
		},
		"gate off: the scheduler looks at the checks": {
			gateOff: true,
			events: []event{
				{wl: plain("1"), want: heap("1")},
				{wl: inState("2", kueue.CheckStateRetry), want: heap("2")},
				{wl: inState("3", kueue.CheckStateRejected), want: heap("3")},
				{wl: recordedWait("wl", "4", future).Obj(), want: heap("4")},
				{wl: plain("3"), want: heap("3")},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			q := newRetryTestQueues(t)
			q.addClusterQueue()
			q.addLocalQueue()
			for _, event := range tc.events {
				q.addOrUpdate(event.wl)
				q.expect("after version "+event.wl.ResourceVersion, event.want)
			}
			q.manager.DeleteAndForgetWorkload(q.log, "ns/wl")
			q.expect("after the deletion", queuedWorkloads{})
		})
	}
}

// TestRetryOfHead verifies what becomes of a workload that turns to Retry while the
// scheduler has it.
func TestRetryOfHead(t *testing.T) {
	cases := map[string]struct {
		gateOff bool
		want    queuedWorkloads
	}{
		"it waits, and does not come back at once": {
			want: queuedWorkloads{Inadmissible: []string{"wl@2"}},
		},
		"gate off: it comes back at once": {
			gateOff: true,
			want:    queuedWorkloads{Heap: []string{"wl@2"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			wl := retryTestWorkload("wl", "1").AdmissionChecks(checkInState(kueue.CheckStatePending)).Obj()
			q := newRetryTestQueues(t, wl)
			q.addClusterQueue()
			q.addLocalQueue()
			heads := q.manager.heads()
			if len(heads) != 1 {
				t.Fatalf("Unexpected number of heads: %d, want: 1", len(heads))
			}
			retry := wl.DeepCopy()
			retry.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
			if err := q.client.Status().Update(q.ctx, retry); err != nil {
				t.Fatalf("Failed updating the workload: %v", err)
			}
			q.addOrUpdate(retry)
			q.expect("while the scheduler has it", queuedWorkloads{Inflight: []string{"wl@1"}})

			q.manager.RequeueWorkload(q.ctx, &heads[0].Info, RequeueReasonFailedAfterNomination, QuotaReservedReasonGeneric)
			q.expect("after the scheduler has requeued it", tc.want)

			withdrawn := retry.DeepCopy()
			withdrawn.ResourceVersion = "3"
			withdrawn.Status.AdmissionChecks[0].State = kueue.CheckStatePending
			q.addOrUpdate(withdrawn)
			q.expect("after the retry was withdrawn", queuedWorkloads{Heap: []string{"wl@3"}})
		})
	}
}

// TestRetryOfWorkloadWithoutQuota verifies that a workload which could not be admitted, and
// sleeps until quota comes free, is tried again after a retry that was withdrawn.
func TestRetryOfWorkloadWithoutQuota(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := retryTestWorkload("wl", "1").AdmissionChecks(checkInState(kueue.CheckStatePending)).Obj()
	q := newRetryTestQueues(t, wl)
	q.addClusterQueue()
	q.addLocalQueue()
	heads := q.manager.heads()
	q.manager.RequeueWorkload(q.ctx, &heads[0].Info, RequeueReasonGeneric, QuotaReservedReasonGeneric)
	if active, inadmissible := q.manager.getClusterQueue("cq").Pending(); active != 0 || inadmissible != 1 {
		t.Fatalf("Unexpected workloads: %d active and %d inadmissible, want: 0 and 1", active, inadmissible)
	}
	retry := wl.DeepCopy()
	retry.ResourceVersion = "2"
	retry.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
	q.addOrUpdate(retry)
	q.expect("with the retry", queuedWorkloads{Inadmissible: []string{"wl@2"}})

	withdrawn := wl.DeepCopy()
	withdrawn.ResourceVersion = "3"
	q.addOrUpdate(withdrawn)
	q.expect("without the retry", queuedWorkloads{Heap: []string{"wl@3"}})
}

// TestBackoffOfRequeuedWorkload verifies that a workload is queued when its backoff is over, with
// Requeued=True before and after. The gate was off when it was preempted during the delay of a check.
func TestBackoffOfRequeuedWorkload(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	wl := retryTestWorkload("wl", "1").AdmissionChecks(checkInState(kueue.CheckStatePending)).
		Condition(metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadEvictedByPreemption}).
		RequeueState(nil, new(metav1.NewTime(time.Now().Add(time.Minute)))).Obj()
	q := newRetryTestQueues(t)
	q.addClusterQueue()
	q.addLocalQueue()
	q.addOrUpdate(wl)
	q.expect("during the backoff", queuedWorkloads{Inadmissible: []string{"wl@1"}})

	isOver := wl.DeepCopy()
	isOver.ResourceVersion = "2"
	isOver.Status.RequeueState = nil
	q.addOrUpdate(isOver)
	q.expect("after the backoff", queuedWorkloads{Heap: []string{"wl@2"}})
}

func TestRetryWhenQueuesAreMade(t *testing.T) {
	objs := []client.Object{
		retryTestWorkload("plain", "1").AdmissionChecks(checkInState(kueue.CheckStatePending)).Obj(),
		retryTestWorkload("retry", "1").AdmissionChecks(checkInState(kueue.CheckStateRetry)).Obj(),
		retryTestWorkload("rejected", "1").AdmissionChecks(checkInState(kueue.CheckStateRejected)).Obj(),
		recordedWait("waits", "1", time.Now().Add(time.Hour)).Obj(),
		recordedWait("over", "1", time.Now().Add(-time.Hour)).Obj(),
	}
	want := queuedWorkloads{
		Heap:         []string{"plain@1"},
		Inadmissible: []string{"over@1", "rejected@1", "retry@1", "waits@1"},
	}
	all := queuedWorkloads{Heap: []string{"over@1", "plain@1", "rejected@1", "retry@1", "waits@1"}}

	cases := map[string]struct {
		gateOff bool
		make    func(*retryTestQueues)
		want    queuedWorkloads
	}{
		"the ClusterQueue first": {
			make: func(q *retryTestQueues) {
				q.addClusterQueue()
				q.addLocalQueue()
			},
			want: want,
		},
		"the LocalQueue first": {
			make: func(q *retryTestQueues) {
				q.addLocalQueue()
				q.addClusterQueue()
			},
			want: want,
		},
		"the LocalQueue again": {
			make: func(q *retryTestQueues) {
				q.addClusterQueue()
				q.addLocalQueue()
				q.manager.DeleteLocalQueue(q.log, q.lq)
				q.expect("after the LocalQueue was deleted", queuedWorkloads{})
				q.addLocalQueue()
			},
			want: want,
		},
		"the ClusterQueue again": {
			make: func(q *retryTestQueues) {
				q.addClusterQueue()
				q.addLocalQueue()
				q.manager.DeleteClusterQueue(q.log, q.cq)
				q.addClusterQueue()
			},
			want: want,
		},
		"the LocalQueue leaves, and comes back": {
			make: func(q *retryTestQueues) {
				q.addClusterQueue()
				q.addLocalQueue()
				elsewhere := q.lq.DeepCopy()
				elsewhere.Spec.ClusterQueue = "other"
				for _, lq := range []*kueue.LocalQueue{elsewhere, q.lq} {
					if err := q.manager.UpdateLocalQueue(q.log, lq); err != nil {
						q.t.Fatalf("Failed updating the LocalQueue: %v", err)
					}
				}
			},
			want: want,
		},
		"gate off": {
			gateOff: true,
			make: func(q *retryTestQueues) {
				q.addClusterQueue()
				q.addLocalQueue()
			},
			want: all,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, !tc.gateOff)
			q := newRetryTestQueues(t, objs...)
			tc.make(q)
			q.expect("at first", tc.want)

			// Once more with what is there already.
			cq := q.manager.getClusterQueue("cq")
			if cq.AddFromLocalQueue(q.manager.localQueues["ns/lq"], nil, nil) {
				t.Error("Workloads were added twice")
			}
			q.expect("after they were added again", tc.want)
		})
	}
}

func TestAddPending(t *testing.T) {
	waiting := workload.NewInfo(recordedWait("wl", "2", time.Now().Add(time.Hour)).Obj())
	cases := map[string]struct {
		before    func(*ClusterQueue)
		wInfo     *workload.Info
		wantAdded bool
		want      map[string]int
	}{
		"pending": {
			wInfo:     workload.NewInfo(retryTestWorkload("wl", "2").Obj()),
			wantAdded: true,
			want:      map[string]int{"heap": 1, "inadmissible": 0, "CPU": 1000},
		},
		"waits": {
			wInfo: waiting,
			want:  map[string]int{"heap": 0, "inadmissible": 1, "CPU": 1000},
		},
		"waits already": {
			before: func(cq *ClusterQueue) { cq.PushOrUpdate(waiting) },
			wInfo:  waiting,
			want:   map[string]int{"heap": 0, "inadmissible": 1, "CPU": 1000},
		},
		"the scheduler has it": {
			before: func(cq *ClusterQueue) {
				cq.PushOrUpdate(workload.NewInfo(retryTestWorkload("wl", "1").Obj()))
				cq.Pop()
			},
			wInfo: waiting,
			want:  map[string]int{"heap": 0, "inadmissible": 0, "CPU": 1000},
		},
		"the scheduler has another one": {
			before: func(cq *ClusterQueue) {
				cq.PushOrUpdate(workload.NewInfo(retryTestWorkload("other", "1").Obj()))
				cq.Pop()
			},
			wInfo: waiting,
			want:  map[string]int{"heap": 0, "inadmissible": 1, "CPU": 2000},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			ctx, _ := utiltesting.ContextWithLog(t)
			cq := newRetryTestClusterQueue(ctx)
			if tc.before != nil {
				tc.before(cq)
			}
			if added := cq.addPending(tc.wInfo); added != tc.wantAdded {
				t.Errorf("Unexpected result: %t, want: %t", added, tc.wantAdded)
			}
			heap, inadmissible, _ := queuedInfos(cq)
			got := map[string]int{
				"heap":         len(heap),
				"inadmissible": len(inadmissible),
				"CPU":          int(cq.pendingResources()[corev1.ResourceCPU]),
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected workloads in the ClusterQueue (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestRetryWaits(t *testing.T) {
	at := func(minutes int) time.Time { return retryTestNow.Add(time.Duration(minutes) * time.Minute) }
	withoutDeadline := func(name string) *kueue.Workload {
		wl := recordedWait(name, "1", at(0)).Obj()
		wl.Status.RequeueState = nil
		return wl
	}
	backoff := recordedWait("backoff", "1", at(-90)).Obj()
	backoff.Status.Conditions = []metav1.Condition{requeuedCondition(metav1.ConditionFalse, kueue.WorkloadEvictedByPodsReadyTimeout)}

	cases := map[string]struct {
		workloads []*kueue.Workload
		want      metrics.RetryWaits
	}{
		"no workload": {},
		"no workload that waits for a retry": {
			workloads: []*kueue.Workload{
				retryTestWorkload("plain", "1").Obj(),
				// Nobody has acted on this one yet.
				retryTestWorkload("retry", "1").AdmissionChecks(checkInState(kueue.CheckStateRetry)).Obj(),
				backoff,
			},
		},
		"the earliest deadline": {
			workloads: []*kueue.Workload{
				recordedWait("a", "1", at(30)).Obj(),
				recordedWait("b", "1", at(10)).Obj(),
				recordedWait("c", "1", at(20)).Obj(),
				retryTestWorkload("plain", "1").Obj(),
				backoff,
			},
			want: metrics.RetryWaits{Workloads: 3, EarliestDeadline: at(10)},
		},
		"those without a deadline count, and are not the earliest": {
			workloads: []*kueue.Workload{
				withoutDeadline("a"), withoutDeadline("b"), withoutDeadline("c"), withoutDeadline("d"),
				recordedWait("e", "1", at(10)).Obj(),
			},
			want: metrics.RetryWaits{Workloads: 5, EarliestDeadline: at(10)},
		},
		"no deadline at all": {
			workloads: []*kueue.Workload{withoutDeadline("a")},
			want:      metrics.RetryWaits{Workloads: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
			q := newRetryTestQueues(t)
			q.addClusterQueue()
			q.addLocalQueue()
			if err := q.manager.AddClusterQueue(q.ctx, utiltestingapi.MakeClusterQueue("other").Obj()); err != nil {
				t.Fatalf("Failed adding the other ClusterQueue: %v", err)
			}
			for _, wl := range tc.workloads {
				q.addOrUpdate(wl)
			}
			want := map[kueue.ClusterQueueReference]metrics.RetryWaits{"cq": tc.want, "other": {}}
			if diff := cmp.Diff(want, q.manager.RetryWaits()); diff != "" {
				t.Errorf("Unexpected waits (-want,+got):\n%s", diff)
			}
			for _, wl := range tc.workloads {
				q.addOrUpdate(retryTestWorkload(wl.Name, "2").Condition(requeuedCondition(metav1.ConditionTrue, kueue.WorkloadBackoffFinished)).Obj())
			}
			want["cq"] = metrics.RetryWaits{}
			if diff := cmp.Diff(want, q.manager.RetryWaits()); diff != "" {
				t.Errorf("Unexpected waits after the requeue (-want,+got):\n%s", diff)
			}
		})
	}
}

// A write of the second pass that is based on a version from before its delay is refused.
func TestSecondPassOfLatestVersion(t *testing.T) {
	for _, gate := range []bool{true, false} {
		t.Run(fmt.Sprintf("ACRequeueAfter: %t", gate), func(t *testing.T) {
			features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, gate)
			ctx, _ := utiltesting.ContextWithLog(t)
			queued := utiltestingapi.MakeWorkload("wl", "ns").
				Queue("lq").
				PodSets(*utiltestingapi.MakePodSet("one", 1).RequiredTopologyRequest(corev1.LabelHostname).Request(corev1.ResourceCPU, "1").Obj()).
				ReserveQuotaAt(utiltestingapi.MakeAdmission("cq").
					PodSets(utiltestingapi.MakePodSetAssignment("one").
						Assignment(corev1.ResourceCPU, "default", "1").
						DelayedTopologyRequest(kueue.DelayedTopologyRequestStatePending).
						Obj()).
					Obj(), retryTestNow).
				AdmissionCheck(kueue.AdmissionCheckState{Name: "check", State: kueue.CheckStateReady}).
				Obj()
			cl := utiltesting.NewFakeClient(queued)
			fakeClock := testingclock.NewFakeClock(retryTestNow)
			manager := NewManagerForUnitTests(cl, nil, WithClock(fakeClock))
			if !manager.QueueSecondPassIfNeeded(ctx, queued.DeepCopy(), 0) {
				t.Fatal("The workload is not queued for the second pass")
			}
			newer := queued.DeepCopy()
			newer.Labels = map[string]string{"newer": "true"}
			if err := cl.Update(ctx, newer); err != nil {
				t.Fatalf("Failed updating the workload: %v", err)
			}
			fakeClock.Step(time.Second)

			heads := manager.secondPassQueue.takeAllReady()
			if len(heads) != 1 {
				t.Fatalf("Unexpected number of heads: want=1, got=%d", len(heads))
			}
			if isNewer := heads[0].Obj.Labels["newer"] == "true"; isNewer != gate {
				t.Errorf("Unexpected version in the second pass, newer: want=%t, got=%t", gate, isNewer)
			}
		})
	}
}

// What an update of a workload costs, in the heap and waiting, with the gate off and on.
func BenchmarkPushOrUpdateWithRetry(b *testing.B) {
	ctrl.SetLogger(logr.Discard()) // without a logger a warning stands in the figures after 30 s
	for _, place := range []string{"Pending", "Waiting"} {
		for _, gate := range []bool{false, true} {
			for _, checks := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/gate=%t/checks=%d", place, gate, checks), func(b *testing.B) {
					features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, gate)
					wl, state := retryTestWorkload("wl", "1"), kueue.CheckStatePending
					if place == "Waiting" {
						wl, state = recordedWait("wl", "1", time.Now().Add(time.Hour)), kueue.CheckStateRetry
					}
					wInfo := workload.NewInfo(wl.AdmissionChecks(slices.Repeat([]kueue.AdmissionCheckState{checkInState(state)}, checks)...).Obj())
					cq := newRetryTestClusterQueue(b.Context())
					cq.PushOrUpdate(wInfo)
					heap, _, _ := queuedInfos(cq)
					if isPending := len(heap) == 1; isPending != (place == "Pending") {
						b.Fatalf("Unexpected place of the workload, pending: %t", isPending)
					}
					b.ReportAllocs()
					for b.Loop() {
						cq.PushOrUpdate(wInfo)
					}
				})
			}
		}
	}
}

// What a scrape of the metrics costs for a ClusterQueue, whose lock it holds.
func BenchmarkRetryWaits(b *testing.B) {
	features.SetFeatureGateDuringTest(b, features.ACRequeueAfter, true)
	for _, workloads := range []int{100, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", workloads), func(b *testing.B) {
			cq := newRetryTestClusterQueue(b.Context())
			for i := range workloads {
				cq.PushOrUpdate(workload.NewInfo(recordedWait(fmt.Sprintf("wl-%d", i), "1", time.Now().Add(time.Hour)).Obj()))
			}
			if waits := cq.retryWaits(); waits.Workloads != workloads {
				b.Fatalf("Unexpected number of waiting workloads %d, want %d", waits.Workloads, workloads)
			}
			b.ReportAllocs()
			for b.Loop() {
				cq.retryWaits()
			}
		})
	}
}
