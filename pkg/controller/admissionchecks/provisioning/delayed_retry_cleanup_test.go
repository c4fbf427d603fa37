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

package provisioning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
)

// cleanupFixture plays what happens to a workload with one check and to its
// requests, which the controller deletes when the workload is evicted.
type cleanupFixture struct {
	*testing.T
	ctx        context.Context
	client     client.Client
	controller *Controller
	clock      *testingclock.FakeClock
	key        client.ObjectKey
	created    []string
	// writes counts those of the controller; it stops, and starts again, after stopAfter.
	writes, stopAfter int
}

var errStopped = errors.New("stopped")

func (f *cleanupFixture) write() error {
	f.writes++
	if f.writes == f.stopAfter+1 {
		return errStopped
	}
	return nil
}

func newCleanupFixture(t *testing.T, stopAfter int) *cleanupFixture {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.CleanupProvisioningRequestsOnEviction, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	builder, ctx := getClientBuilder(ctx)
	f := &cleanupFixture{T: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)), stopAfter: stopAfter}
	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).UID("wl").Request(corev1.ResourceCPU, "1").
		AdmissionChecks(testCheckState("check1", kueue.CheckStatePending, nil)).Obj()
	f.ctx, f.key = ctx, client.ObjectKeyFromObject(wl)
	playing := func(ctx context.Context) bool { return ctx.Value(f) == nil }
	f.client = builder.WithStatusSubresource(wl).WithObjects(wl,
		utiltestingapi.MakeAdmissionCheck("check1").ControllerName(kueue.ProvisioningRequestControllerName).Parameters(kueue.SchemeGroupVersion.Group, ConfigKind, "config1").Obj(),
		utiltestingapi.MakeResourceFlavor("flavor").Obj(),
		utiltestingapi.MakeProvisioningRequestConfig("config1").ProvisioningClass("class1").RetryStrategy(&kueue.ProvisioningRequestRetryStrategy{
			BackoffLimitCount:  ptr.To[int32](2),
			BackoffBaseSeconds: ptr.To[int32](60),
			BackoffMaxSeconds:  ptr.To[int32](1800),
		}).Obj(),
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := f.write(); err != nil {
				return err
			}
			if _, isRequest := obj.(*autoscaling.ProvisioningRequest); isRequest {
				f.created = append(f.created, obj.GetName())
			}
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := f.write(); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := f.write(); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := f.write(); err != nil {
				return err
			}
			return c.SubResource(subResource).Patch(ctx, obj, patch, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, subResource string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if playing(ctx) {
				return errors.New("the controller writes by patches")
			}
			return c.SubResource(subResource).Update(ctx, obj, opts...)
		},
	}).Build()
	controller, err := newTestController(f.client)
	if err != nil {
		t.Fatalf("Setting up the controller: %v", err)
	}
	f.controller = controller
	f.controller.clock = f.clock
	return f
}

// reconcile reconciles until nothing is left to be done, and expects the check and
// the requests.
func (f *cleanupFixture) reconcile(wantState kueue.CheckState, wantCount int32, wantRequests ...string) {
	f.Helper()
	for range 4 {
		f.reconcileOnce()
	}
	check := f.workload().Status.AdmissionChecks[0]
	if check.State != wantState || ptr.Deref(check.RetryCount, 0) != wantCount {
		f.Errorf("Unexpected check %v, want %s and the count %d", check, wantState, wantCount)
	}
	requests := &autoscaling.ProvisioningRequestList{}
	if err := f.client.List(f.ctx, requests); err != nil {
		f.Fatalf("Listing the requests: %v", err)
	}
	names := make([]string, 0, len(requests.Items))
	for i := range requests.Items {
		names = append(names, requests.Items[i].Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(wantRequests, names, cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("Unexpected requests (-want,+got):\n%s", diff)
	}
}

func (f *cleanupFixture) reconcileOnce() {
	f.Helper()
	if _, err := f.controller.Reconcile(f.ctx, reconcile.Request{NamespacedName: f.key}); err != nil && !errors.Is(err, errStopped) {
		f.Fatalf("Unexpected error: %v", err)
	}
}

func (f *cleanupFixture) workload() *kueue.Workload {
	f.Helper()
	wl := &kueue.Workload{}
	if err := f.client.Get(f.ctx, f.key, wl); err != nil {
		f.Fatalf("Getting the workload: %v", err)
	}
	return wl
}

func (f *cleanupFixture) change(update func(wl *kueue.Workload)) {
	f.Helper()
	f.clock.Step(time.Second)
	wl := f.workload()
	update(wl)
	if err := f.client.Status().Update(context.WithValue(f.ctx, f, true), wl); err != nil {
		f.Fatalf("Updating the workload: %v", err)
	}
}

func (f *cleanupFixture) reserve() {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		workload.SetQuotaReservation(wl, utiltestingapi.MakeAdmission("q1").
			PodSets(utiltestingapi.MakePodSetAssignment(kueue.DefaultPodSetName).Assignment(corev1.ResourceCPU, "flavor", "1").Obj()).Obj(), f.clock)
	})
}

// evict evicts the workload as the workload controller or the scheduler does.
func (f *cleanupFixture) evict(reason string) {
	f.Helper()
	f.change(func(wl *kueue.Workload) {
		workloadevict.SetEvictedCondition(wl, f.clock.Now(), reason, "By test")
		workloadevict.ResetChecks(wl, f.clock.Now(), func(wl *kueue.Workload, now time.Time) {
			for i := range wl.Status.AdmissionChecks {
				check := &wl.Status.AdmissionChecks[i]
				check.State, check.LastTransitionTime, check.PodSetUpdates = kueue.CheckStatePending, metav1.NewTime(now), nil
			}
		})
		workload.UnsetQuotaReservationWithCondition(wl, "Pending", "By test", f.clock.Now())
	})
}

func (f *cleanupFixture) requeue() {
	f.Helper()
	f.change(func(wl *kueue.Workload) { workload.RetryPlan{}.Requeue(wl, f.clock.Now()) })
}

// setRequest sets a condition of the request.
func (f *cleanupFixture) setRequest(name, condition string) {
	f.Helper()
	f.clock.Step(time.Second)
	request := &autoscaling.ProvisioningRequest{}
	if err := f.client.Get(f.ctx, client.ObjectKey{Namespace: f.key.Namespace, Name: name}, request); err != nil {
		f.Fatalf("Getting the request: %v", err)
	}
	apimeta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
		Type: condition, Status: metav1.ConditionTrue, Reason: "ByTest", Message: "By test", LastTransitionTime: metav1.NewTime(f.clock.Now()),
	})
	if err := f.client.Update(f.ctx, request); err != nil {
		f.Fatalf("Updating the request: %v", err)
	}
}

func TestCleanupOnEviction(t *testing.T) {
	cases := map[string]struct {
		play        func(f *cleanupFixture)
		wantCreated []string
	}{
		"failed and retried until the limit": {
			play: func(f *cleanupFixture) {
				for count := range int32(3) {
					name := fmt.Sprintf("wl-check1-%d", count+1)
					f.reserve()
					f.reconcile(kueue.CheckStatePending, count, name)
					f.setRequest(name, autoscaling.Failed)
					if count == 2 {
						break
					}
					f.reconcile(kueue.CheckStateRetry, count, name)
					f.evict(kueue.WorkloadEvictedByAdmissionCheck)
					f.reconcile(kueue.CheckStateRetry, count)
					f.requeue()
					f.reconcile(kueue.CheckStatePending, count+1)
				}
				f.reconcile(kueue.CheckStateRejected, 2, "wl-check1-3")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2", "wl-check1-3"},
		},
		"in flight, and preempted": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByPreemption)
				f.reconcile(kueue.CheckStatePending, 0)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"in flight after a retry, and preempted": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.requeue()
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 1, "wl-check1-2")
				f.evict(kueue.WorkloadEvictedByPreemption)
				f.reconcile(kueue.CheckStatePending, 1)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 1, "wl-check1-3")
				// It is the second retry, not the third.
				f.setRequest("wl-check1-3", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 1, "wl-check1-3")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2", "wl-check1-3"},
		},
		"provisioned, and preempted": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Provisioned)
				f.reconcile(kueue.CheckStateReady, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByPreemption)
				f.reconcile(kueue.CheckStatePending, 0)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-2")
				f.setRequest("wl-check1-2", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"provisioned after a retry, and its booking expired": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.reconcile(kueue.CheckStateRetry, 0)
				f.requeue()
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 1, "wl-check1-2")
				f.setRequest("wl-check1-2", autoscaling.Provisioned)
				f.reconcile(kueue.CheckStateReady, 0, "wl-check1-2")
				f.setRequest("wl-check1-2", autoscaling.BookingExpired)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-2")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.reconcile(kueue.CheckStateRetry, 0)
				f.requeue()
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 1, "wl-check1-3")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2", "wl-check1-3"},
		},
		"failed unheard, and preempted": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.evict(kueue.WorkloadEvictedByPreemption)
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.reserve()
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.reconcile(kueue.CheckStateRetry, 0)
				f.requeue()
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 1, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"asked for, and deactivated": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-1")
				f.evict(kueue.WorkloadDeactivated)
				f.reconcile(kueue.CheckStatePending, 0)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"asked for, cleaned up, and deactivated before anybody looks again": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.reconcile(kueue.CheckStateRetry, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.reconcileOnce()
				f.evict(kueue.WorkloadDeactivated)
				f.reconcile(kueue.CheckStatePending, 0)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"heard of after another check's eviction, and deactivated before anybody looks again": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByAdmissionCheck)
				f.change(func(wl *kueue.Workload) {
					wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, testCheckState("other", kueue.CheckStateRetry, nil))
				})
				f.setRequest("wl-check1-1", autoscaling.Failed)
				f.reconcileOnce()
				f.evict(kueue.WorkloadDeactivated)
				f.reconcile(kueue.CheckStatePending, 0)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-2")
			},
			wantCreated: []string{"wl-check1-1", "wl-check1-2"},
		},
		"not reconciled between an eviction and the next reservation": {
			play: func(f *cleanupFixture) {
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
				f.evict(kueue.WorkloadEvictedByPreemption)
				f.reserve()
				f.reconcile(kueue.CheckStatePending, 0, "wl-check1-1")
			},
			wantCreated: []string{"wl-check1-1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for stopAfter, stopped := 0, true; stopped && !t.Failed(); stopAfter++ {
				t.Logf("stopped after %d writes", stopAfter)
				f := newCleanupFixture(t, stopAfter)
				tc.play(f)
				if diff := cmp.Diff(tc.wantCreated, f.created); diff != "" {
					t.Errorf("Unexpected requests that were created (-want,+got):\n%s", diff)
				}
				stopped = f.writes > stopAfter
			}
		})
	}
}

// The number of a request that is about to be deleted is recorded as used, which is no
// success, and the request may fail before it is gone.
func TestRequestThatFailsBeforeItIsDeletedKeepsTheCount(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	features.SetFeatureGateDuringTest(t, features.CleanupProvisioningRequestsOnEviction, true)
	wl := utiltestingapi.MakeWorkload("wl", TestNamespace).AdmissionChecks(testCheckState("check1", kueue.CheckStatePending, ptr.To[int32](1))).Obj()
	workloadevict.SetEvictedCondition(wl, time.Now(), kueue.WorkloadEvictedByAdmissionCheck, "")
	requests := []autoscaling.ProvisioningRequest{testRequest("check1", 2, autoscaling.Failed)}
	_, counts := planAttempts(wl, requests, nil, attemptNumbers{"check1": 2})
	if len(counts) > 0 {
		t.Errorf("Unexpected counts %v, want none to change", counts)
	}
}
