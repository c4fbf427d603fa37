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

package simulation

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

// manner is a way in which controllers of admission checks write.
type manner int

const (
	applies manner = iota
	appliesVersion
	patches
	patchesVersion
	updates
	manners
)

func (m manner) String() string {
	return [...]string{"apply", "apply with version", "patch", "patch with version", "update"}[m]
}

// checkController is the controller of one admission check. It acts on what it
// has read, which may be old.
type checkController struct {
	name   kueue.AdmissionCheckReference
	client client.Client
	world  *World
	seen   map[string]*kueue.Workload
}

// read looks at a workload anew.
func (c *checkController) read(name string) *kueue.Workload {
	wl := &kueue.Workload{}
	if err := c.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, wl); err != nil {
		delete(c.seen, name)
		return nil
	}
	c.seen[name] = wl
	return wl
}

// verdict is what the controller of a check has to say.
type verdict struct {
	state kueue.CheckState
	delay *int32
	// resend: with the transition time that was read.
	resend bool
}

// say writes the verdict about a workload. A conflict is an answer too: the
// controller would read again.
func (c *checkController) say(name string, v verdict, how manner) {
	if how == patches {
		// Without a version it replaces the whole list: from an old read, which
		// would take back what others said.
		c.read(name)
	}
	wl := c.seen[name]
	if wl == nil {
		return
	}
	// A controller does not make an entry of its own.
	now := c.world.api.Get(workloads, client.ObjectKey{Namespace: namespace, Name: name})
	if now == nil || !hasEntry(toWorkload(now), c.name) {
		return
	}
	wl = wl.DeepCopy()
	state := workloadCheck(wl, c.name)
	if state == nil {
		return
	}
	state.State = v.state
	state.Message = fmt.Sprintf("%s says %s", c.name, v.state)
	state.RequeueAfterSeconds = v.delay
	state.PodSetUpdates = nil
	if !v.resend {
		state.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	}
	delay := "no delay"
	if v.delay != nil {
		delay = fmt.Sprintf("%d s", *v.delay)
	}
	ctx := context.Background()
	owner := client.FieldOwner("check-" + string(c.name))
	var err error
	switch how {
	case applies, appliesVersion:
		apply := &kueue.Workload{
			TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "Workload"},
			ObjectMeta: metav1.ObjectMeta{Name: wl.Name, Namespace: wl.Namespace},
		}
		if how == appliesVersion {
			apply.ResourceVersion = wl.ResourceVersion
		}
		state.RetryCount = nil
		apply.Status.AdmissionChecks = []kueue.AdmissionCheckState{*state}
		err = c.client.Status().Patch(ctx, apply, client.Apply, owner, client.ForceOwnership)
	case patches:
		err = c.client.Status().Patch(ctx, wl, client.MergeFrom(c.seen[name]), owner)
	case patchesVersion:
		err = c.client.Status().Patch(ctx, wl, client.MergeFromWithOptions(c.seen[name], client.MergeFromWithOptimisticLock{}), owner)
	default:
		err = c.client.Status().Update(ctx, wl, owner)
	}
	result := "ok"
	if err != nil {
		result = err.Error()
	}
	c.world.note("check %s: %s, %s, for %s (%s, resend %v, read %s): %.60s", c.name, v.state, delay, name, how, v.resend, c.seen[name].ResourceVersion, result)
}

func hasEntry(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
	return workloadCheck(wl, name) != nil
}

func workloadCheck(wl *kueue.Workload, name kueue.AdmissionCheckReference) *kueue.AdmissionCheckState {
	for i := range wl.Status.AdmissionChecks {
		if wl.Status.AdmissionChecks[i].Name == name {
			return &wl.Status.AdmissionChecks[i]
		}
	}
	return nil
}

// outcome is what the autoscaler says about a request.
var outcomes = []string{autoscaling.Failed, autoscaling.Provisioned, autoscaling.BookingExpired, autoscaling.Failed, autoscaling.CapacityRevoked}

// provision sets a condition of a request.
func (w *World) provision(name, outcome string) {
	ctx := context.Background()
	pr := &autoscaling.ProvisioningRequest{}
	if err := w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pr); err != nil {
		return
	}
	provisioned := requestHas(pr, autoscaling.Provisioned)
	if requestHas(pr, autoscaling.Failed) || provisioned && outcome == autoscaling.Failed || !provisioned && outcome == autoscaling.CapacityRevoked {
		return
	}
	apimeta.SetStatusCondition(&pr.Status.Conditions, metav1.Condition{Type: outcome, Status: metav1.ConditionTrue, Reason: "Said", Message: "so"})
	if err := w.admin.Status().Update(ctx, pr); err == nil {
		w.note("the autoscaler says %s for %s", outcome, name)
	}
}

func (w *World) requests() []*autoscaling.ProvisioningRequest {
	var all []*autoscaling.ProvisioningRequest
	for _, obj := range w.api.List(requests) {
		pr := &autoscaling.ProvisioningRequest{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pr); err != nil {
			panic(err)
		}
		all = append(all, pr)
	}
	return all
}

func requestHas(pr *autoscaling.ProvisioningRequest, condition string) bool {
	return apimeta.IsStatusConditionTrue(pr.Status.Conditions, condition)
}

// patchSpec changes an object as an operator does.
func patchSpec[T client.Object](w *World, obj T, name client.ObjectKey, change func(T)) {
	ctx := context.Background()
	if err := w.admin.Get(ctx, name, obj); err != nil {
		return
	}
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := w.admin.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		w.note("  refused: %v", err)
	}
}

func (w *World) setActive(name string, active bool) {
	w.note("%s is active: %v", name, active)
	patchSpec(w, &kueue.Workload{}, client.ObjectKey{Namespace: namespace, Name: name}, func(wl *kueue.Workload) { wl.Spec.Active = ptr.To(active) })
}

func (w *World) setStopPolicy(policy kueue.StopPolicy) {
	w.note("the ClusterQueue's stop policy is %s", policy)
	patchSpec(w, &kueue.ClusterQueue{}, client.ObjectKey{Name: clusterQueue}, func(cq *kueue.ClusterQueue) { cq.Spec.StopPolicy = ptr.To(policy) })
}

func (w *World) setChecks(names ...kueue.AdmissionCheckReference) {
	w.note("the ClusterQueue asks for %v", names)
	patchSpec(w, &kueue.ClusterQueue{}, client.ObjectKey{Name: clusterQueue}, func(cq *kueue.ClusterQueue) { cq.Spec.AdmissionChecksStrategy = w.strategy(names...) })
}

func (w *World) recreateLocalQueue() {
	ctx := context.Background()
	lq := &kueue.LocalQueue{}
	if err := w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: localQueue}, lq); err != nil {
		w.note("the LocalQueue is created again")
		lq = &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: localQueue, Namespace: namespace}, Spec: kueue.LocalQueueSpec{ClusterQueue: clusterQueue}}
		if err := w.admin.Create(ctx, lq); err != nil {
			w.note("  refused: %v", err)
		}
		return
	}
	w.note("the LocalQueue is deleted")
	_ = w.admin.Delete(ctx, lq)
}

// conclude makes everybody friendly: checks that are asked become Ready, jobs
// that run complete. Then every workload has to come to its end.
func (w *World) conclude(rng *randSource) error {
	w.note("from here on all is well")
	w.judge.unready = map[string]bool{}
	w.setStopPolicy(kueue.None)
	w.setChecks(checkNames...)
	if err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: localQueue}, &kueue.LocalQueue{}); err != nil {
		w.recreateLocalQueue()
	}
	for !w.isLed() {
		time.Sleep(time.Second)
		if err := w.settle(rng.next()); err != nil {
			return err
		}
	}
	if err := w.settle(rng.next()); err != nil {
		return err
	}
	var open []string
	for range 40 {
		if err := w.settle(rng.next()); err != nil {
			return err
		}
		if err := w.judge.quiet(); err != nil {
			return err
		}
		for _, pr := range w.requests() {
			switch {
			case requestHas(pr, autoscaling.CapacityRevoked):
				// Upstream rejects the workload as long as it exists.
				w.note("%s is deleted", pr.Name)
				_ = w.admin.Delete(context.Background(), pr)
			case !requestHas(pr, autoscaling.Failed):
				w.provision(pr.Name, autoscaling.Provisioned)
			}
		}
		open = open[:0]
		for _, wl := range w.workloads() {
			if workload.IsFinished(wl) {
				continue
			}
			open = append(open, wl.Name)
			if !workload.IsActive(wl) {
				w.setActive(wl.Name, true)
				continue
			}
			if workload.IsAdmitted(wl) {
				for _, owner := range wl.OwnerReferences {
					w.finishJob(owner.Name)
				}
				continue
			}
			if !workload.HasQuotaReservation(wl) || workload.IsEvicted(wl) {
				continue
			}
			for _, check := range wl.Status.AdmissionChecks {
				if check.Name == provisioningCheck {
					continue
				}
				if check.State == kueue.CheckStatePending {
					c := w.checks[check.Name]
					c.read(wl.Name)
					c.say(wl.Name, verdict{state: kueue.CheckStateReady}, applies)
				}
			}
		}
		if len(open) == 0 {
			return nil
		}
		time.Sleep(2 * time.Second)
	}
	for _, wl := range w.workloads() {
		if !workload.IsFinished(wl) {
			return &Violation{Rule: "rule 7, never stuck", Detail: "everything is over, but not " + describe(wl)}
		}
	}
	return nil
}

func conditionTrue(wl *kueue.Workload, name string) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, name)
}
