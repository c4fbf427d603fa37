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

// Command bad is the controller of an admission check, for the conformance
// test to be tested on. It is a good one unless a fault is switched on.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"

	"kueue-acrequeueafter/lab/objects"
)

// faults are what can be switched on.
var faults = map[string]string{
	"never-active":         "does not set the Active condition",
	"invalid":              "asks for a negative delay",
	"answers-once":         "remembers which workloads it has answered, and does not answer them again",
	"answers-early":        "does not look at QuotaReserved",
	"writes-while-evicted": "writes Retry with a fresh time in each reconciliation, evicted or not",
	"takes-back":           "sets its Retry back to Pending while the workload waits",
	"old-time":             "copies the entry that is there, with its lastTransitionTime",
	"loses-retry-count":    "updates the status with an entry that has no retryCount",
	"counts-itself":        "applies retryCount",
	"blind-patch":          "merge patches the whole list as it was read, without the resource version",
	"blind-status":         "merge patches the whole status as it was read, without the resource version",
	"no-version":           "applies without the resource version",
	"same-answer":          "after a conflict reads again, but writes the answer that it had",
	"gives-up":             "does not try again after a conflict",
	"wakes-the-dead":       "does not look at spec.active and Finished",
	"creates-entry":        "answers where its entry is missing",
	"forgets":              "leaves alone the workloads that it finds when it is started",
	"releases-quota":       "releases the quota of an evicted workload, and requeues it, as Kueue",
	"fights":               "answers where its entry is missing, and again when it is removed",
	"loose":                "writes with Kueue's packages, without the resource version, and applies the retryCount that was there",
	"keeps-time":           "writes Ready with the lastTransitionTime that was there",
}

// kinds are the ways in which it may be good.
var kinds = map[string]string{
	"holds":          "keeps a workload Pending, with words of its own, until it may say Ready",
	"accelerators":   "answers workloads alone that ask for example.com/accelerator",
	"kueue-packages": "writes with Kueue's packages",
}

func main() {
	var check, namespace, fault, kind string
	flag.StringVar(&check, "check", "", "`name` of the AdmissionCheck")
	flag.StringVar(&namespace, "namespace", "", "`namespace` of the workloads, and of the ConfigMap with the check's name that says what to answer")
	flag.StringVar(&fault, "fault", "", "what it is to do wrong: "+strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	flag.StringVar(&kind, "kind", "", "what kind of controller it is to be: "+strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	flag.Parse()
	if _, known := kinds[kind]; kind != "" && !known {
		fmt.Fprintf(os.Stderr, "unknown kind %q\n", kind)
		os.Exit(2)
	}
	if _, known := faults[fault]; fault != "" && !known {
		fmt.Fprintf(os.Stderr, "unknown fault %q\n", fault)
		os.Exit(2)
	}
	ctrl.SetLogger(zap.New())
	if err := run(check, namespace, fault, kind); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(check, namespace, fault, kind string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	version, err := objects.Version(config)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  objects.Scheme(version),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&kueue.Workload{}: {Namespaces: map[string]cache.Config{namespace: {}}}}},
		// The ConfigMap is read as it is.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
	})
	if err != nil {
		return err
	}
	r := &reconciler{
		Client: mgr.GetClient(), direct: mgr.GetAPIReader(),
		check: check, namespace: namespace, fault: fault, kind: kind,
		answered: map[string]bool{},
	}
	if err := ctrl.NewControllerManagedBy(mgr).Named("workload").
		For(&kueue.Workload{}, builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return !r.has("forgets") }})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 2}).Complete(r); err != nil {
		return err
	}
	if err := mgr.Add(activator(r.activate)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

type activator func(context.Context) error

func (a activator) Start(ctx context.Context) error { return a(ctx) }

type reconciler struct {
	client.Client
	direct                  client.Reader
	check, namespace, fault string
	kind                    string
	answered                map[string]bool
}

// is returns true for a controller of this kind.
func (r *reconciler) is(kind string) bool {
	if _, known := kinds[kind]; !known {
		panic(kind)
	}
	return r.kind == kind
}

// has returns true if the fault is switched on.
func (r *reconciler) has(fault string) bool {
	if _, known := faults[fault]; !known {
		panic(fault)
	}
	return r.fault == fault
}

func (r *reconciler) owner() client.FieldOwner { return client.FieldOwner("bad-" + r.check) }

func (r *reconciler) activate(ctx context.Context) error {
	if r.has("never-active") {
		return nil
	}
	return objects.ApplyStatus(ctx, r, &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: r.check},
		Status: kueue.AdmissionCheckStatus{Conditions: []metav1.Condition{{
			Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active", Message: "At work", LastTransitionTime: metav1.Now(),
		}}},
	}, r.owner())
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wl := &kueue.Workload{}
	if err := r.Get(ctx, req.NamespacedName, wl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.has("releases-quota") && workload.HasQuotaReservation(wl) && workloadevict.IsEvicted(wl) {
		return ctrl.Result{}, r.releaseQuota(ctx, wl)
	}
	if !r.isAsked(wl) {
		return ctrl.Result{}, nil
	}
	answer, err := r.decide(ctx, wl)
	if err != nil {
		return ctrl.Result{}, err
	}
	if own := r.entry(wl); r.is("holds") && answer.State == kueue.CheckStatePending && own.Message == answer.Message {
		return ctrl.Result{RequeueAfter: 200 * time.Millisecond}, nil
	}
	err = r.write(ctx, wl, answer)
	// Not at once: right after a reservation Kueue writes, too, and the test would not get to
	// the conflict that it makes.
	if r.has("gives-up") && apierrors.IsConflict(err) && r.answered[string(kueue.CheckStateReady)] {
		r.answered[string(wl.UID)] = true
		return ctrl.Result{}, nil
	}
	if r.has("gives-up") && err == nil && answer.State == kueue.CheckStateReady {
		r.answered[string(kueue.CheckStateReady)] = true
	}
	if r.has("answers-once") && err == nil {
		r.answered[string(wl.UID)] = true
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// isAsked returns true if it is the turn of the check.
func (r *reconciler) isAsked(wl *kueue.Workload) bool {
	is := func(condition string) bool { return apimeta.IsStatusConditionTrue(wl.Status.Conditions, condition) }
	own := r.entry(wl)
	switch {
	case r.has("answers-once") && r.answered[string(wl.UID)], r.has("gives-up") && r.answered[string(wl.UID)]:
		return false
	case r.is("accelerators") && !asksForAccelerator(wl):
		return false
	case own == nil:
		return (r.has("creates-entry") || r.has("fights")) && is(kueue.WorkloadQuotaReserved)
	case r.has("wakes-the-dead"):
		if !ptr.Deref(wl.Spec.Active, true) {
			return own.State == kueue.CheckStatePending
		}
	case !ptr.Deref(wl.Spec.Active, true) || is(kueue.WorkloadFinished):
		return false
	}
	if own.State == kueue.CheckStateRetry && (r.has("writes-while-evicted") || r.has("takes-back") && is(kueue.WorkloadEvicted)) {
		return true
	}
	if r.has("answers-early") {
		return own.State == kueue.CheckStatePending
	}
	return own.State == kueue.CheckStatePending && is(kueue.WorkloadQuotaReserved) && !is(kueue.WorkloadEvicted)
}

// decide returns the answer that the ConfigMap has.
func (r *reconciler) decide(ctx context.Context, wl *kueue.Workload) (kueue.AdmissionCheckState, error) {
	config := &corev1.ConfigMap{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.check}, config); err != nil {
		return kueue.AdmissionCheckState{}, err
	}
	answer := kueue.AdmissionCheckState{
		Name:               kueue.AdmissionCheckReference(r.check),
		State:              kueue.CheckState(config.Data["answer"]),
		LastTransitionTime: metav1.Now(),
		Message:            "as the ConfigMap says",
	}
	// Without a delay a policy is to give it one.
	if text, found := config.Data["delay"]; found && answer.State == kueue.CheckStateRetry {
		delay, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return answer, err
		}
		answer.RequeueAfterSeconds = ptr.To(int32(delay))
	}
	if own := r.entry(wl); own != nil {
		if r.has("keeps-time") {
			time.Sleep(3 * time.Second) // else it is the same second
		}
		if r.has("old-time") || r.has("keeps-time") && answer.State == kueue.CheckStateReady {
			answer.LastTransitionTime = own.LastTransitionTime
		}
		if r.has("counts-itself") {
			answer.RetryCount = ptr.To(ptr.Deref(own.RetryCount, 0) + 1)
		}
	}
	if r.has("takes-back") && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadEvicted) {
		answer.State, answer.RequeueAfterSeconds = kueue.CheckStatePending, nil
	}
	if r.is("holds") && answer.State != kueue.CheckStateReady {
		answer.State, answer.RequeueAfterSeconds, answer.Message = kueue.CheckStatePending, nil, "waits for the end of an alert"
	}
	if r.has("invalid") {
		answer.RequeueAfterSeconds = ptr.To[int32](-1)
	}
	return answer, nil
}

func (r *reconciler) write(ctx context.Context, wl *kueue.Workload, answer kueue.AdmissionCheckState) error {
	switch {
	case r.is("kueue-packages"), r.has("loose"):
		return r.patchStatus(ctx, wl, answer)
	case r.has("loses-retry-count"):
		wl = wl.DeepCopy()
		*r.entry(wl) = answer
		return r.Status().Update(ctx, wl, r.owner())
	case r.has("blind-patch"), r.has("blind-status"):
		status := wl.Status.DeepCopy()
		if r.has("blind-patch") {
			status = &kueue.WorkloadStatus{AdmissionChecks: status.AdmissionChecks}
		}
		for i := range status.AdmissionChecks {
			if own := &status.AdmissionChecks[i]; own.Name == answer.Name {
				answer.RetryCount = own.RetryCount
				*own = answer
			}
		}
		data, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		return r.Status().Patch(ctx, wl.DeepCopy(), client.RawPatch(client.Merge.Type(), data), r.owner())
	case r.has("no-version"), r.has("fights"):
		return r.apply(ctx, wl, answer, "")
	case r.has("same-answer"):
		version := wl.ResourceVersion
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			err := r.apply(ctx, wl, answer, version)
			if apierrors.IsConflict(err) {
				fresh := &kueue.Workload{}
				if err := r.direct.Get(ctx, client.ObjectKeyFromObject(wl), fresh); err != nil {
					return err
				}
				version = fresh.ResourceVersion
			}
			return err
		})
	default:
		return r.apply(ctx, wl, answer, wl.ResourceVersion)
	}
}

func (r *reconciler) apply(ctx context.Context, wl *kueue.Workload, answer kueue.AdmissionCheckState, version string) error {
	return objects.ApplyStatus(ctx, r, &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: wl.Namespace, Name: wl.Name, ResourceVersion: version},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{answer}},
	}, r.owner())
}

// patchStatus writes as Kueue's own controllers of checks do.
func (r *reconciler) patchStatus(ctx context.Context, wl *kueue.Workload, answer kueue.AdmissionCheckState) error {
	gvk, err := r.GroupVersionKindFor(wl)
	if err != nil {
		return err
	}
	var options []workloadpatching.PatchStatusOption
	if r.has("loose") {
		options = append(options, workloadpatching.WithLooseOnApply())
	}
	wl = wl.DeepCopy()
	wl.SetGroupVersionKind(gvk)
	own := r.entry(wl).DeepCopy()
	return workloadpatching.PatchStatus(ctx, r, wl, r.owner(), func(wl *kueue.Workload) (bool, error) {
		wl.Status.AdmissionChecks = nil
		if r.has("loose") {
			wl.Status.AdmissionChecks = []kueue.AdmissionCheckState{*own}
		}
		return workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, answer, clock.RealClock{}), nil
	}, options...)
}

// releaseQuota does what is Kueue's alone.
func (r *reconciler) releaseQuota(ctx context.Context, wl *kueue.Workload) error {
	gvk, err := r.GroupVersionKindFor(wl)
	if err != nil {
		return err
	}
	wl = wl.DeepCopy()
	wl.SetGroupVersionKind(gvk)
	return client.IgnoreNotFound(workloadpatching.PatchAdmissionStatus(ctx, r, wl, clock.RealClock{}, func(wl *kueue.Workload) (bool, error) {
		workload.UnsetQuotaReservationWithCondition(wl, kueue.WorkloadQuotaReservedReasonPendingEvaluation, "Released by the controller of a check", time.Now())
		workload.SetRequeuedCondition(wl, kueue.WorkloadBackoffFinished, "Requeued by the controller of a check", true)
		return true, nil
	}))
}

func asksForAccelerator(wl *kueue.Workload) bool {
	return slices.ContainsFunc(wl.Spec.PodSets, func(podSet kueue.PodSet) bool {
		return slices.ContainsFunc(podSet.Template.Spec.Containers, func(container corev1.Container) bool {
			_, found := container.Resources.Requests["example.com/accelerator"]
			return found
		})
	})
}

func (r *reconciler) entry(wl *kueue.Workload) *kueue.AdmissionCheckState {
	for i := range wl.Status.AdmissionChecks {
		if string(wl.Status.AdmissionChecks[i].Name) == r.check {
			return &wl.Status.AdmissionChecks[i]
		}
	}
	return nil
}
