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
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// conflictDelay gives the cache time to catch up after a conflict.
const conflictDelay = 100 * time.Millisecond

const inactiveReason = "Inactive"

// Check is the admission check that a function is asked about.
type Check struct {
	// AdmissionCheck is the object, with the parameters. It must not be changed.
	AdmissionCheck *kueue.AdmissionCheck
	// State is the state of the check in the workload.
	State kueue.AdmissionCheckState
}

// Retries returns how often Kueue has retried the workload for this check since
// it last succeeded.
func (c Check) Retries() int32 {
	return ptr.Deref(c.State.RetryCount, 0)
}

// Func decides on a check of a workload, which must not be changed. It can be
// called again for the same attempt, after a conflict for example. An attempt is
// identified by the UID of the workload, the name of the check, its Retries and
// the transition time of its Pending state.
//
// When it returns an error nothing is written, and it is called again with an
// exponential backoff.
type Func func(ctx context.Context, wl *kueue.Workload, check Check) (Verdict, error)

// Source is a kind of objects on which verdicts depend. After each change of
// such an object, all AdmissionChecks of the controller are validated, and the
// functions called for the workloads that ask or wait.
type Source struct {
	// Object names the kind, for example &corev1.ConfigMap{}. The controller needs
	// the permission to list and watch it. Which objects are watched can be limited
	// in the manager's cache options.
	Object client.Object
	// Concerns returns true if the workload depends on the object. Default: all do.
	Concerns func(obj client.Object, wl *kueue.Workload) bool
}

// Options are the options of Setup. ControllerName and Decide are required.
type Options struct {
	// ControllerName is the spec.controllerName of the AdmissionChecks, for example
	// "example.com/budget". It is also the field manager of the writes, followed
	// by the name of the check.
	ControllerName string
	// Decide is called for each workload that asks for the check (see Asks).
	Decide Func
	// WhileWaiting, if set, is called for each workload that waits for a retry that
	// the check has asked for (see WaitsFor), or is to be evicted for it, when a
	// Source or the AdmissionCheck changes and at the start of the controller.
	// Another delay moves the deadline.
	// Pending and Ready withdraw the request: the workload is requeued, and Decide
	// called when it has quota again. It may be the same function as Decide if that
	// asks for the same delay, or with RetryAt for the same time, when nothing has
	// changed: each other delay begins anew.
	WhileWaiting Func
	// Validate, if set, tells whether an AdmissionCheck can be used. It returns nil,
	// or an error made by Inactive; the check is Active or not accordingly. After
	// any other error it is called again with an exponential backoff.
	Validate func(ctx context.Context, check *kueue.AdmissionCheck) error
	// Sources are other objects on which the verdicts depend.
	Sources []Source
	// Poll is the time after which Decide is called again for a workload that it
	// left Pending. Zero or negative: only when something changes.
	Poll time.Duration
	// Clock gives the transition times. Default: the real one.
	Clock clock.PassiveClock
}

// InactiveError says why an AdmissionCheck cannot be used.
type InactiveError struct {
	// Reason of the condition, in CamelCase.
	Reason string
	// Message of the condition.
	Message string
}

func (e *InactiveError) Error() string {
	return e.Reason + ": " + e.Message
}

// Inactive returns the error with which Options.Validate says that an
// AdmissionCheck cannot be used. The reason is in CamelCase; empty: Inactive.
func Inactive(reason, message string) error {
	if reason == "" {
		reason = inactiveReason
	}
	return &InactiveError{Reason: reason, Message: message}
}

// Setup adds the controller of the admission checks with the given controller
// name to the manager: a reconciler that keeps their condition Active, and one
// that answers for them in the workloads. The manager's scheme must have Kueue's
// types, from AddToScheme. Setup may be called for several controller names.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.ControllerName == "" || opts.Decide == nil {
		return errors.New("ControllerName and Decide are required")
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	c := &controller{Options: opts, client: mgr.GetClient()}
	c.writer = &Writer{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), FieldManager: opts.ControllerName, Clock: opts.Clock}

	ours := builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
		check, isCheck := obj.(*kueue.AdmissionCheck)
		return isCheck && c.isOurs(check)
	}))
	checks := ctrl.NewControllerManagedBy(mgr).
		Named(opts.ControllerName+"/admissionchecks").
		For(&kueue.AdmissionCheck{}, ours)
	workloads := ctrl.NewControllerManagedBy(mgr).
		Named(opts.ControllerName+"/workloads").
		For(&kueue.Workload{}, builder.WithPredicates(predicate.NewPredicateFuncs(isAsking))).
		Watches(&kueue.AdmissionCheck{}, handler.EnqueueRequestsFromMapFunc(c.workloadsOfCheck), ours)
	for _, source := range opts.Sources {
		checks.Watches(source.Object, handler.EnqueueRequestsFromMapFunc(c.allChecks))
		workloads.Watches(source.Object, handler.EnqueueRequestsFromMapFunc(c.workloadsOfSource(source)))
	}
	if err := checks.Complete(reconcile.Func(c.reconcileCheck)); err != nil {
		return err
	}
	return workloads.Complete(reconcile.Func(c.reconcileWorkload))
}

type controller struct {
	Options
	client client.Client
	writer *Writer
}

// reconcileCheck keeps the condition Active of an AdmissionCheck.
func (c *controller) reconcileCheck(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	check := &kueue.AdmissionCheck{}
	if err := c.client.Get(ctx, req.NamespacedName, check); err != nil || !c.isOurs(check) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var inactive *InactiveError
	if c.Validate != nil {
		if err := c.Validate(ctx, check); err != nil && !errors.As(err, &inactive) {
			return ctrl.Result{}, fmt.Errorf("validating: %w", err)
		}
	}
	if !apimeta.SetStatusCondition(&check.Status.Conditions, activeCondition(check, inactive, c.Clock.Now())) {
		return ctrl.Result{}, nil
	}
	// Without the resource version: the condition is true of any.
	applied, err := statusOf(c.client, check, "", "conditions",
		apimeta.FindStatusCondition(check.Status.Conditions, kueue.AdmissionCheckActive))
	if err != nil {
		return ctrl.Result{}, err
	}
	manager := fieldManager(c.ControllerName, kueue.AdmissionCheckReference(check.Name))
	return ctrl.Result{}, client.IgnoreNotFound(applyStatus(ctx, c.client, applied, manager))
}

func activeCondition(check *kueue.AdmissionCheck, inactive *InactiveError, now time.Time) metav1.Condition {
	condition := metav1.Condition{
		Type:               kueue.AdmissionCheckActive,
		Status:             metav1.ConditionTrue,
		Reason:             "Active",
		Message:            "The admission check is active",
		ObservedGeneration: check.Generation,
		LastTransitionTime: metav1.NewTime(now),
	}
	if inactive != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = inactive.Reason
		condition.Message = truncate(inactive.Message)
	}
	return condition
}

// reconcileWorkload has the functions decide on the checks of a workload.
func (c *controller) reconcileWorkload(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	wl := &kueue.Workload{}
	if err := c.client.Get(ctx, req.NamespacedName, wl); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var result ctrl.Result
	var errs []error
	for _, state := range wl.Status.AdmissionChecks {
		askAgain, err := c.answer(ctx, wl, state)
		if apierrors.IsConflict(err) {
			ctrl.LoggerFrom(ctx).V(3).Info("The workload has changed meanwhile, deciding anew", "admissionCheck", state.Name)
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("admission check %s: %w", state.Name, err))
		}
		result.RequeueAfter = sooner(result.RequeueAfter, askAgain)
	}
	if len(errs) > 0 {
		return ctrl.Result{}, errors.Join(errs...)
	}
	return result, nil
}

// answer has the function decide on the check, if the check is ours and the
// workload waits for it, and returns the time after which to ask again, or zero.
func (c *controller) answer(ctx context.Context, wl *kueue.Workload, state kueue.AdmissionCheckState) (time.Duration, error) {
	decide := c.functionFor(wl, state.Name)
	if decide == nil {
		return 0, nil
	}
	check := &kueue.AdmissionCheck{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: string(state.Name)}, check); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if !c.isOurs(check) || !apimeta.IsStatusConditionTrue(check.Status.Conditions, kueue.AdmissionCheckActive) {
		return 0, nil
	}
	verdict, err := decide(ctx, wl, Check{AdmissionCheck: check, State: state})
	if err != nil {
		return 0, err
	}
	if verdict.State == kueue.CheckStateReady && !Asks(wl, state.Name) {
		// It would be out of date when the workload has quota again.
		verdict = Pending(verdict.Message)
	}
	if err := c.writer.write(ctx, wl, state.Name, verdict); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	switch undecided := verdict.State == "" || verdict.State == kueue.CheckStatePending; {
	case verdict.AskAgain > 0:
		return verdict.AskAgain, nil
	case undecided && Asks(wl, state.Name):
		return max(c.Poll, 0), nil
	default:
		return 0, nil
	}
}

func (c *controller) isOurs(check *kueue.AdmissionCheck) bool {
	return check.Spec.ControllerName == c.ControllerName
}

func (c *controller) functionFor(wl *kueue.Workload, check kueue.AdmissionCheckReference) Func {
	switch {
	case Asks(wl, check):
		return c.Decide
	// Also before its eviction is seen: what changes until then must not be missed.
	case WaitsFor(wl, check) || holdsQuota(wl) && isInState(wl, check, kueue.CheckStateRetry):
		return c.WhileWaiting
	default:
		return nil
	}
}

// sooner returns the shorter of two times, of which zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// isAsking returns true if the workload asks for any check: whose they are is not
// known when the controller starts.
func isAsking(obj client.Object) bool {
	wl, isWorkload := obj.(*kueue.Workload)
	return isWorkload && concerned(wl, func(check kueue.AdmissionCheckReference) bool { return Asks(wl, check) })
}

func concerned(wl *kueue.Workload, by func(kueue.AdmissionCheckReference) bool) bool {
	for _, state := range wl.Status.AdmissionChecks {
		if by(state.Name) {
			return true
		}
	}
	return false
}

func (c *controller) allChecks(ctx context.Context, _ client.Object) []reconcile.Request {
	checks := &kueue.AdmissionCheckList{}
	if err := c.client.List(ctx, checks); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing admission checks")
	}
	var requests []reconcile.Request
	for i := range checks.Items {
		if c.isOurs(&checks.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&checks.Items[i])})
		}
	}
	return requests
}

func (c *controller) workloadsOfCheck(ctx context.Context, check client.Object) []reconcile.Request {
	return c.workloads(ctx, func(wl *kueue.Workload) bool {
		return c.functionFor(wl, kueue.AdmissionCheckReference(check.GetName())) != nil
	})
}

func (c *controller) workloadsOfSource(source Source) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return c.workloads(ctx, func(wl *kueue.Workload) bool {
			return concerned(wl, func(check kueue.AdmissionCheckReference) bool { return c.functionFor(wl, check) != nil }) &&
				(source.Concerns == nil || source.Concerns(obj, wl))
		})
	}
}

func (c *controller) workloads(ctx context.Context, wanted func(*kueue.Workload) bool) []reconcile.Request {
	workloads := &kueue.WorkloadList{}
	if err := c.client.List(ctx, workloads, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing workloads")
	}
	var requests []reconcile.Request
	for i := range workloads.Items {
		if wanted(&workloads.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&workloads.Items[i])})
		}
	}
	return requests
}
