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

// Package mutants has the known mistakes of a delayed retry as changes of the
// code, to show that the simulation finds them.
package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that names the mutant to switch on.
const Variable = "KUEUE_MUTANT"

// Mutant replaces Old, which occurs once in the file, by New. New does as Old
// unless mutant(name) is true.
type Mutant struct {
	Name, File, Old, New string
	// MergePatch: it is one of the other way of writing.
	MergePatch bool
	// Policy: a check has a policy.
	Policy bool
}

const (
	deadline   = "pkg/workload/delayed_retry_deadline.go"
	plan       = "pkg/workload/delayed_retry_plan.go"
	policy     = "pkg/workload/delayed_retry_policy.go"
	write      = "pkg/workload/delayed_retry_write.go"
	times      = "pkg/workload/times/times.go"
	reconciler = "pkg/controller/core/workload_delayed_retry.go"
	queues     = "pkg/cache/queue/delayed_retry.go"
	requests   = "pkg/controller/admissionchecks/provisioning/delayed_retry.go"
)

// All are built together, and switched on one at a time.
var All = append([]Mutant{
	{
		// As upstream resets them, so that a retry is forgotten with its delay.
		Name: "reset-at-eviction", File: write,
		Old: `if !deactivated && (evictedByCheck || isAnswer(check.State)) {`,
		New: `if !mutant("reset-at-eviction") && !deactivated && (evictedByCheck || isAnswer(check.State)) {`,
	},
	{
		// The stuck state of the KEP.
		Name: "lost-late-retry", File: plan,
		Old: "state := StateOf(wl)\n",
		New: "state := StateOf(wl)\nif mutant(\"lost-late-retry\") && state == RetryStateQueued {\nreturn RetryPlan{}\n}\n",
	},
	{
		Name: "limit-off-by-one", File: policy, Policy: true,
		Old: "count < *p.spec.LimitCount",
		New: "(count < *p.spec.LimitCount || mutant(\"limit-off-by-one\") && count == *p.spec.LimitCount)",
	},
	{
		// A controller that asks for 0 wants its workload back at once.
		Name: "zero-taken-for-none", File: plan, Policy: true,
		Old: "asks := check.RequeueAfterSeconds != nil",
		New: "asks := check.RequeueAfterSeconds != nil && !(mutant(\"zero-taken-for-none\") && *check.RequeueAfterSeconds == 0)",
	},
	{
		Name: "policy-over-a-delay-of-its-own", File: plan, Policy: true,
		Old: "asks := check.RequeueAfterSeconds",
		New: "asks := !mutant(\"policy-over-a-delay-of-its-own\") && check.RequeueAfterSeconds",
	},
	{
		Name: "jitter-that-shortens", File: policy, Policy: true,
		Old: "return wholeSeconds(delay.Mul(",
		New: "if mutant(\"jitter-that-shortens\") {\njitter.Neg(jitter)\n}\nreturn wholeSeconds(delay.Mul(",
	},
	{
		Name: "count-of-another-check", File: plan, Policy: true,
		Old: "count := ptr.Deref(check.RetryCount, 0)",
		New: "count := ptr.Deref(check.RetryCount, 0)\nif mutant(\"count-of-another-check\") {\ncount = ptr.Deref(p.Checks[0].RetryCount, 0)\n}",
	},
	{
		// A change of the policy would move those that wait.
		Name: "policy-not-recorded", File: write, Policy: true,
		Old: "stored.RequeueAfterSeconds = check.RequeueAfterSeconds",
		New: "if !mutant(\"policy-not-recorded\") {\nstored.RequeueAfterSeconds = check.RequeueAfterSeconds\n}",
	},
	{
		Name: "double-count", File: write,
		Old: "case kueue.CheckStateRetry:\n\t\t\tretryCount =",
		New: "case kueue.CheckStateRetry:\nif mutant(\"double-count\") {\nretryCount = ptr.To(ptr.Deref(retryCount, 0) + 1)\n}\n\t\t\tretryCount =",
	},
	{
		Name: "apply-over-what-was-not-seen", File: apply,
		Old: "if !canApplyTo(",
		New: "if !mutant(\"apply-over-what-was-not-seen\") && !canApplyTo(",
	},
	{
		// The delay is cut short by the fraction of a second that the API drops.
		Name: "eviction-in-the-past", File: deadline,
		Old: "return times.RoundedUp(now)",
		New: "if mutant(\"eviction-in-the-past\") {\nreturn now\n}\nreturn times.RoundedUp(now)",
	},
	{
		Name: "fraction-of-a-transition-cut", File: times,
		Old: `if check.State == kueue.CheckStateRetry {`,
		New: `if check.State == kueue.CheckStateRetry && !mutant("fraction-of-a-transition-cut") {`,
	},
	{
		// For controllers that send old transition times again.
		Name: "deadline-from-the-transition-alone", File: deadline,
		Old: "start := times.Later(check.LastTransitionTime.Time, evictedAt)",
		New: "start := times.Later(check.LastTransitionTime.Time, evictedAt)\nif mutant(\"deadline-from-the-transition-alone\") {\nstart = check.LastTransitionTime.Time\n}",
	},
	{
		Name: "no-delay-counts-from-the-transition", File: deadline,
		Old: "return ptr.Deref(check.RequeueAfterSeconds, 0) > 0",
		New: `return ptr.Deref(check.RequeueAfterSeconds, 0) > 0 || mutant("no-delay-counts-from-the-transition") && check.RequeueAfterSeconds != nil`,
	},
	{
		Name: "no-latest-time", File: times,
		Old: "if t = RoundedUp(t); t.After(latestTime) {",
		New: `if t = RoundedUp(t); t.After(latestTime) && !mutant("no-latest-time") {`,
	},
	{
		Name: "times-not-repaired", File: times,
		Old: "func repaired(wl *kueue.Workload, t metav1.Time) metav1.Time {\n\tswitch {\n",
		New: "func repaired(wl *kueue.Workload, t metav1.Time) metav1.Time {\n\tswitch {\ncase mutant(\"times-not-repaired\"):\nreturn t\n",
	},
	{
		// As the later releases of upstream do.
		Name: "quota-kept-for-the-delay", File: reconciler,
		Old: "case workload.RetryEvict:\n",
		New: "case workload.RetryEvict:\nif mutant(\"quota-kept-for-the-delay\") && plan.Deadline.After(now) {\nreturn true, ctrl.Result{RequeueAfter: plan.Deadline.Sub(now)}, nil\n}\n",
	},
	{
		Name: "wiped-at-the-release", File: reconciler,
		Old: `if !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil`,
		New: `if mutant("wiped-at-the-release") || !features.Enabled(features.ACRequeueAfter) || wl.Status.Admission != nil`,
	},
	{
		// Before the job is stopped.
		Name: "quota-released-at-the-eviction", File: plan,
		Old: `releasesAtOnce := state == RetryStateReserved && !IsAdmitted(wl)`,
		New: `releasesAtOnce := state == RetryStateReserved && (!IsAdmitted(wl) || mutant("quota-released-at-the-eviction"))`,
	},
	{
		Name: "late-reject-ignored", File: plan,
		Old: "case facts.rejected:\n",
		New: "case facts.rejected && !mutant(\"late-reject-ignored\"):\n",
	},
	{
		Name: "deactivation-leaves-traces", File: plan,
		Old: `!hasRetryTraces(wl) {`,
		New: `!hasRetryTraces(wl) || mutant("deactivation-leaves-traces") {`,
	},
	{
		// What counts from the deactivation would count from the eviction before it.
		Name: "deactivated-at-the-eviction", File: write,
		Old: "apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(now)",
		New: "if !mutant(\"deactivated-at-the-eviction\") {\napimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(now)\n}",
	},
	{
		Name: "delay-kept-at-the-requeue", File: write,
		Old: `Name:               check.Name,`,
		New: `RequeueAfterSeconds: keptDelay(check), Name: check.Name,`,
	},
	{
		Name: "wait-told-after-it", File: write,
		Old: `evictedByCheck || tellsOfWait(wl) {`,
		New: `(evictedByCheck || tellsOfWait(wl)) && !mutant("wait-told-after-it") {`,
	},
	{
		Name: "count-of-pods-ready-cleared", File: write,
		Old: `if wl.Status.RequeueState.Count == nil {`,
		New: `if wl.Status.RequeueState.Count == nil || mutant("count-of-pods-ready-cleared") {`,
	},
	{
		Name: "later-delay-not-recorded", File: plan,
		Old: `p.Deadline.Equal(requeueAt(wl)) && (state`,
		New: `(p.Deadline.Equal(requeueAt(wl)) || mutant("later-delay-not-recorded") && !requeueAt(wl).IsZero()) && (state`,
	},
	{
		Name: "never-looked-at-again", File: reconciler,
		Old: "result.RequeueAfter = requeueAfter(plan, now)\n\tcase workload.RetryReactivate:",
		New: "if !mutant(\"never-looked-at-again\") {\nresult.RequeueAfter = requeueAfter(plan, now)\n}\n\tcase workload.RetryReactivate:",
	},
	{
		Name: "waiting-in-the-heap", File: queues,
		Old: `if !waits(wInfo) ||`,
		New: `if mutant("waiting-in-the-heap") || !waits(wInfo) ||`,
	},
	{
		// As the first release did, after its own write.
		Name: "taken-out-of-the-queue-by-the-reconciler", File: reconciler,
		Old: `r.reportEvent(wl, corev1.EventTypeNormal, "RequeueDelayed", plan.Message)`,
		New: "r.reportEvent(wl, corev1.EventTypeNormal, \"RequeueDelayed\", plan.Message)\nif mutant(\"taken-out-of-the-queue-by-the-reconciler\") {\n" + leaveQueue + "\n}",
	},
	{
		Name: "count-not-reset", File: write,
		Old: "case kueue.CheckStateReady:\n\t\t\tretryCount = nil",
		New: "case kueue.CheckStateReady:\nif !mutant(\"count-not-reset\") {\nretryCount = nil\n}",
	},
	{
		Name: "success-not-written", File: plan,
		Old: `return check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 &&`,
		New: `return !mutant("success-not-written") && check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 &&`,
	},
	{
		Name: "stray-delay-left", File: plan,
		Old: `return check.State != kueue.CheckStateRetry && asksForDelay(check)`,
		New: `return check.State != kueue.CheckStateRetry && asksForDelay(check) && !mutant("stray-delay-left")`,
	},
	{
		// Of the old attempt, which fails again, or is looked at again.
		Name: "counted-request-asks-again", File: requests,
		Old: `attempt <= offset+retries {`,
		New: `!mutant("counted-request-asks-again") && attempt <= offset+retries {`,
	},
	{
		Name: "one-retry-too-many", File: requests,
		Old: `if retries < *strategy.BackoffLimitCount {`,
		New: `if retries < *strategy.BackoffLimitCount || mutant("one-retry-too-many") && retries == *strategy.BackoffLimitCount {`,
	},
}, ofBase...)

// helper is what the mutants call.
const helper = "package %s\n\nimport \"os\"\n\nfunc mutant(name string) bool { return os.Getenv(%q) == name }\n"

// helpers belong to mutants of the file write.
const helpers = `
func keptDelay(check kueue.AdmissionCheckState) *int32 {
	if mutant("delay-kept-at-the-requeue") {
		return check.RequeueAfterSeconds
	}
	return nil
}

`

// WriteOverlay writes the changed files of the tree, and overlay.json for the
// -overlay flag of the go command, to dir.
func WriteOverlay(tree, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	changed := make(map[string][]byte)
	for _, m := range All {
		source, found := changed[m.File]
		if !found {
			var err error
			if source, err = os.ReadFile(filepath.Join(tree, m.File)); err != nil {
				return err
			}
		}
		if n := bytes.Count(source, []byte(m.Old)); n != 1 {
			return fmt.Errorf("mutant %s: found %d times in %s, should be once: %q; adapt lab/simulation/mutants", m.Name, n, m.File, m.Old)
		}
		changed[m.File] = bytes.Replace(source, []byte(m.Old), []byte(m.New), 1)
	}
	changed[write] = append(changed[write], helpers...)
	replace := make(map[string]string)
	for file, source := range changed {
		packageDir := filepath.Dir(file)
		name, _, _ := bytes.Cut(source[bytes.Index(source, []byte("\npackage "))+len("\npackage "):], []byte("\n"))
		changed[filepath.Join(packageDir, "zz_mutant.go")] = fmt.Appendf(nil, helper, name, Variable)
	}
	for file, source := range changed {
		absolute, err := filepath.Abs(filepath.Join(tree, file))
		if err != nil {
			return err
		}
		target, err := filepath.Abs(filepath.Join(dir, filepath.Base(filepath.Dir(file))+"_"+filepath.Base(file)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, source, 0o644); err != nil {
			return err
		}
		replace[absolute] = target
	}
	data, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
}
