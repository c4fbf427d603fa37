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
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
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
// has read, which may be old, and writes JSON: what Go's types cannot hold, too.
type checkController struct {
	name   kueue.AdmissionCheckReference
	client client.Client
	world  *World
	seen   map[string]*unstructured.Unstructured
}

// read looks at a workload anew.
func (c *checkController) read(name string) {
	wl := &unstructured.Unstructured{}
	wl.SetGroupVersionKind(kueue.SchemeGroupVersion.WithKind("Workload"))
	if err := c.client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, wl); err != nil {
		delete(c.seen, name)
		return
	}
	c.seen[name] = wl
}

// verdict is what the controller of a check has to say.
type verdict struct {
	state kueue.CheckState
	delay *int32
	// at is the transition time, now if it is empty.
	at string
	// resend: with the transition time that was read.
	resend bool
}

// clock returns the time as a controller has it: few are wrong.
func clock(n int) string {
	now := time.Now().UTC()
	switch n % 32 {
	case 20:
		return now.Format(time.RFC3339Nano)
	case 21:
		return now.Add(2900 * time.Millisecond).Format(time.RFC3339Nano)
	case 22:
		return now.Add(3 * time.Second).Format(time.RFC3339)
	case 23:
		return now.Add(40 * time.Second).Format(time.RFC3339)
	case 24:
		return now.Add(-30 * time.Second).Format(time.RFC3339)
	case 25:
		return "9999-12-31T23:59:59Z"
	}
	return ""
}

// say writes the verdict about a workload. A conflict is an answer too: the
// controller would read again.
func (c *checkController) say(name string, v verdict, how manner) {
	if how == patches {
		// Without a version it replaces the whole list: from an old read, which
		// would take back what others said.
		c.read(name)
	}
	seen := c.seen[name]
	if seen == nil {
		return
	}
	// A controller does not make an entry of its own.
	now := c.world.api.Get(workloads, client.ObjectKey{Namespace: namespace, Name: name})
	if now == nil || !hasEntry(c.world.workload(now), c.name) {
		return
	}
	wl := seen.DeepCopy()
	checks, _, _ := unstructured.NestedSlice(wl.Object, "status", "admissionChecks")
	i := slices.IndexFunc(checks, func(check any) bool { return check.(map[string]any)["name"] == string(c.name) })
	if i < 0 {
		return
	}
	entry := checks[i].(map[string]any)
	entry["state"] = string(v.state)
	entry["message"] = fmt.Sprintf("%s says %s", c.name, v.state)
	delete(entry, "podSetUpdates")
	if v.state == kueue.CheckStateReady && c.name == checkNames[0] {
		entry["podSetUpdates"] = []any{map[string]any{"name": "main", "annotations": map[string]any{"checked": "true"}}}
	}
	delete(entry, "requeueAfterSeconds")
	delay := "no delay"
	if v.delay != nil {
		entry["requeueAfterSeconds"] = int64(*v.delay)
		delay = fmt.Sprintf("%d s", *v.delay)
	}
	if !v.resend {
		entry["lastTransitionTime"] = cmp.Or(v.at, time.Now().UTC().Format(time.RFC3339))
	}
	if how == applies || how == appliesVersion {
		delete(entry, "retryCount")
		checks = []any{entry}
		wl = &unstructured.Unstructured{}
		wl.SetGroupVersionKind(seen.GroupVersionKind())
		wl.SetNamespace(namespace)
		wl.SetName(name)
		if how == appliesVersion {
			wl.SetResourceVersion(seen.GetResourceVersion())
		}
	}
	_ = unstructured.SetNestedSlice(wl.Object, checks, "status", "admissionChecks")
	ctx := context.Background()
	owner := client.FieldOwner("check-" + string(c.name))
	var err error
	switch how {
	case applies, appliesVersion:
		//lint:ignore SA1019 v0.14's libraries have no other one
		err = c.client.Status().Patch(ctx, wl, client.Apply, owner, client.ForceOwnership)
	case patches:
		err = c.client.Status().Patch(ctx, wl, client.MergeFrom(seen), owner)
	case patchesVersion:
		err = c.client.Status().Patch(ctx, wl, client.MergeFromWithOptions(seen, client.MergeFromWithOptimisticLock{}), owner)
	default:
		err = c.client.Status().Update(ctx, wl, owner)
	}
	result := "ok"
	if err != nil {
		result = err.Error()
	}
	c.world.note("check %s: %s, %s, at %s, for %s (%s, read %s): %.60s", c.name, v.state, delay, entry["lastTransitionTime"], name, how, seen.GetResourceVersion(), result)
}

// answers returns those who answer a check that was asked with a Retry at once,
// even when the workload has been evicted since they read it.
func (w *World) answers() []func() error {
	var answers []func() error
	for _, wl := range w.workloads() {
		for _, name := range checkNames {
			c, state := w.checks[name][0], workloadCheck(wl, name)
			if state == nil || state.State != kueue.CheckStatePending {
				continue
			}
			if workload.HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl) {
				c.read(wl.Name)
			} else if c.seen[wl.Name] == nil || !workload.HasQuotaReservation(toWorkload(c.seen[wl.Name])) {
				continue
			}
			answers = append(answers, func() error {
				w.busy--
				c.say(wl.Name, verdict{state: kueue.CheckStateRetry}, w.busyManner)
				delete(c.seen, wl.Name)
				return nil
			})
		}
	}
	return answers
}

// corrections returns those who said something at a time that nobody can write, and
// say it anew. With the gate off, the scheduler tries such a workload without a pause.
func (w *World) corrections() []func() error {
	if features.Enabled(features.ACRequeueAfter) {
		return nil
	}
	var corrections []func() error
	for _, wl := range w.workloads() {
		for _, check := range wl.Status.AdmissionChecks {
			year := check.LastTransitionTime.UTC().Year()
			if c := w.checks[check.Name]; len(c) > 0 && (year > 9999 || year <= 1) {
				corrections = append(corrections, func() error {
					c[0].read(wl.Name)
					c[0].say(wl.Name, verdict{state: check.State}, applies)
					return nil
				})
			}
		}
	}
	return corrections
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

// stopLocalQueue does so with a stop policy, as setStopPolicy.
func (w *World) stopLocalQueue(policy kueue.StopPolicy) {
	w.note("the LocalQueue's stop policy is %s", policy)
	patchSpec(w, &kueue.LocalQueue{}, client.ObjectKey{Namespace: namespace, Name: localQueue}, func(lq *kueue.LocalQueue) { lq.Spec.StopPolicy = ptr.To(policy) })
}

func (w *World) setStopPolicy(policy kueue.StopPolicy) {
	w.note("the ClusterQueue's stop policy is %s", policy)
	patchSpec(w, &kueue.ClusterQueue{}, client.ObjectKey{Name: clusterQueue}, func(cq *kueue.ClusterQueue) { cq.Spec.StopPolicy = ptr.To(policy) })
}

func (w *World) setPolicy(base int32) {
	if !w.config.Policy {
		return
	}
	w.note("the policy of check %s begins with %d s", policyCheck, base)
	w.judge.policyChanges(base)
	patchSpec(w, &kueue.AdmissionCheck{}, client.ObjectKey{Name: string(policyCheck)}, func(ac *kueue.AdmissionCheck) { ac.Spec.Retry = retryPolicy(base) })
}

func (w *World) setChecks(names ...kueue.AdmissionCheckReference) {
	w.note("the ClusterQueue asks for %v", names)
	patchSpec(w, &kueue.ClusterQueue{}, client.ObjectKey{Name: clusterQueue}, func(cq *kueue.ClusterQueue) { cq.Spec.AdmissionChecksStrategy = w.strategy(names...) })
}

// moveJob moves the job of a workload to the other queue.
func (w *World) moveJob(wl *kueue.Workload) {
	queue := otherQueue
	if wl.Spec.QueueName == otherQueue {
		queue = localQueue
	}
	for _, owner := range wl.OwnerReferences {
		w.note("job %s is moved to the queue %s", owner.Name, queue)
		w.relabel(owner.Name, func(labels map[string]string) { labels[constants.QueueLabel] = queue })
	}
}

// changePriority gives the job of a workload another priority class, if it has one.
func (w *World) changePriority(wl *kueue.Workload) {
	for _, owner := range wl.OwnerReferences {
		w.relabel(owner.Name, func(labels map[string]string) {
			others := map[string]string{"high": "low", "low": "high"}
			if other, found := others[labels[constants.WorkloadPriorityClassLabel]]; found {
				w.note("the priority of job %s is %s", owner.Name, other)
				labels[constants.WorkloadPriorityClassLabel] = other
			}
		})
	}
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

// changeLimits creates or changes a LimitRange, which nothing here exceeds: Kueue
// looks at all pending workloads anew.
func (w *World) changeLimits() {
	ctx := context.Background()
	w.limits++
	w.note("the LimitRange changes")
	most := corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(100+w.limits), resource.DecimalSI)}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: namespace}}
	if w.limits > 1 {
		patchSpec(w, limits, client.ObjectKeyFromObject(limits), func(lr *corev1.LimitRange) { lr.Spec.Limits[0].Max = most })
		return
	}
	limits.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: most}}
	if err := w.admin.Create(ctx, limits); err != nil {
		panic(err)
	}
}

// conclude makes everybody friendly: checks that are asked become Ready, jobs
// that run complete. Then every workload has to come to its end.
func (w *World) conclude(rng *randSource) error {
	w.note("from here on all is well")
	w.judge.unready = map[string]bool{}
	w.busy = 0
	w.restoreNodes()
	w.scaleAll()
	w.setStopPolicy(kueue.None)
	w.setChecks(checkNames...)
	lq := &kueue.LocalQueue{}
	if err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: localQueue}, lq); err != nil {
		w.recreateLocalQueue()
	} else if ptr.Deref(lq.Spec.StopPolicy, kueue.None) != kueue.None {
		w.stopLocalQueue(kueue.None)
	}
	if err := w.restoreWorkers(func() error { return w.settle(rng.next()) }); err != nil {
		return err
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
		w.replacePods()
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
			if workloadfinish.IsFinished(wl) || isLeftByBase(wl) {
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
			if !workload.HasQuotaReservation(wl) || workloadevict.IsEvicted(wl) {
				w.endWait(wl)
				continue
			}
			for _, check := range wl.Status.AdmissionChecks {
				if replicas := w.checks[check.Name]; len(replicas) > 0 && check.State == kueue.CheckStatePending {
					c := replicas[0]
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
		if !workloadfinish.IsFinished(wl) && !isLeftByBase(wl) && !w.judge.isLeftToBase(wl) && !w.judge.keepsWorker(wl) && !w.isActiveElsewhere(wl) && !staysWhereItWas(wl) {
			return &Violation{Rule: "rule 7, never stuck", Detail: "everything is over, but not " + describe(wl)}
		}
	}
	return nil
}

// isLeftByBase: with the gate off, what Kueue itself deactivated does not come back
// when it is activated again. v0.19 deactivates it again, too, if it was evicted before:
// its DeactivationTarget stays.
func isLeftByBase(wl *kueue.Workload) bool {
	if features.Enabled(features.ACRequeueAfter) {
		return false
	}
	if isUnrecordableForBase(wl) {
		return true
	}
	if baseHasFields && workloadevict.IsEvicted(wl) && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadDeactivationTarget) {
		return true
	}
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return requeued != nil && requeued.Status == metav1.ConditionFalse && strings.HasPrefix(requeued.Reason, "DeactivatedDueTo")
}

// endWait: nobody wants to wait for ever, nor where Kueue never promised anything.
func (w *World) endWait(wl *kueue.Workload) {
	on := features.Enabled(features.ACRequeueAfter)
	// With the gate off nobody acts on a rejection that comes without quota.
	isRejected := !on && len(workload.RejectedChecks(wl)) > 0
	if time.Until(requeueAt(wl)) < time.Minute && !isRejected && !w.judge.isExcused(wl) {
		return
	}
	if !on && !requeueAt(wl).IsZero() && !(baseHasFields && asksForTooLate(wl)) {
		// The recorded time holds, whatever the checks say: an operator lets it start over.
		w.setActive(wl.Name, false)
		return
	}
	for _, name := range checkNames {
		if state := workloadCheck(wl, name); state != nil && (state.State == kueue.CheckStateRetry || !on && state.State == kueue.CheckStateRejected) {
			w.checks[name][0].read(wl.Name)
			w.checks[name][0].say(wl.Name, verdict{state: kueue.CheckStatePending}, applies)
		}
	}
	if !on {
		// Nobody looks at it again, either.
		w.setActive(wl.Name, false)
	}
}

// asksForTooLate: a time after the last that the API takes. With the gate off v0.19
// writes it as it is, before all else, and is refused until the check takes it back.
func asksForTooLate(wl *kueue.Workload) bool {
	return slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		delay := time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0)) * time.Second
		return check.State == kueue.CheckStateRetry && check.LastTransitionTime.UTC().Add(delay).Year() > 9999
	})
}

func conditionTrue(wl *kueue.Workload, name string) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, name)
}
