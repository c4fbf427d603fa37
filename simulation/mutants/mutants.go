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
}

const (
	decision   = "pkg/workload/delayed_retry.go"
	writes     = "pkg/workload/workload.go"
	reconciler = "pkg/controller/core/workload_delayed_retry.go"
	queues     = "pkg/cache/queue/delayed_retry.go"
	requests   = "pkg/controller/admissionchecks/provisioning/delayed_retry.go"
)

// All are built together, and switched on one at a time.
var All = []Mutant{
	{
		// As upstream resets them, so that a retry is forgotten with its delay.
		Name: "reset-at-eviction", File: decision,
		Old: `case !deactivated && (evictedByCheck || check.State == kueue.CheckStateRetry):`,
		New: `case !mutant("reset-at-eviction") && !deactivated && (evictedByCheck || check.State == kueue.CheckStateRetry):`,
	},
	{
		// The stuck state of the KEP.
		Name: "lost-late-retry", File: decision,
		Old: "if queued && requeueAt(wl).IsZero() {\n",
		New: "if queued && requeueAt(wl).IsZero() {\nif mutant(\"lost-late-retry\") {\nreturn RetryPlan{}\n}\n",
	},
	{
		Name: "double-count", File: decision,
		Old: "case kueue.CheckStateRetry:\n\t\t\tretryCount =",
		New: "case kueue.CheckStateRetry:\nif mutant(\"double-count\") {\nretryCount = ptr.To(ptr.Deref(retryCount, 0) + 1)\n}\n\t\t\tretryCount =",
	},
	{
		Name: "apply-from-an-old-copy", File: writes,
		Old: "if features.Enabled(features.ACRequeueAfter) {\n\t\treturn applyToVersion",
		New: "if !mutant(\"apply-from-an-old-copy\") && features.Enabled(features.ACRequeueAfter) {\n\t\treturn applyToVersion",
	},
	{
		Name: "apply-over-what-was-not-seen", File: decision,
		Old: "if !canApplyTo(",
		New: "if !mutant(\"apply-over-what-was-not-seen\") && !canApplyTo(",
	},
	{
		// The delay is cut short by the fraction of a second that the API drops.
		Name: "eviction-in-the-past", File: decision,
		Old: `if whole := now.Truncate(time.Second); hasDelay(retry)`,
		New: `if whole := now.Truncate(time.Second); !mutant("eviction-in-the-past") && hasDelay(retry)`,
	},
	{
		// For controllers that send old transition times again.
		Name: "deadline-from-the-transition-alone", File: decision,
		Old: `start := later(check.LastTransitionTime.Time, p.EvictedAt)`,
		New: "start := later(check.LastTransitionTime.Time, p.EvictedAt)\nif mutant(\"deadline-from-the-transition-alone\") {\nstart = check.LastTransitionTime.Time\n}",
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
		Name: "quota-released-at-the-eviction", File: decision,
		Old: `plan.ReleasesQuota = !IsAdmitted(wl)`,
		New: `plan.ReleasesQuota = (!IsAdmitted(wl) || mutant("quota-released-at-the-eviction"))`,
	},
	{
		Name: "late-reject-ignored", File: decision,
		Old: "if rejected {\n\t\treturn RetryPlan{Action: RetryReject}",
		New: "if rejected && !mutant(\"late-reject-ignored\") {\n\t\treturn RetryPlan{Action: RetryReject}",
	},
	{
		Name: "deactivation-leaves-traces", File: decision,
		Old: `if IsEvicted(wl) && hasRetryTraces(wl) {`,
		New: `if IsEvicted(wl) && hasRetryTraces(wl) && !mutant("deactivation-leaves-traces") {`,
	},
	{
		Name: "delay-kept-at-the-requeue", File: decision,
		Old: `Name:               check.Name,`,
		New: `RequeueAfterSeconds: keptDelay(check), Name: check.Name,`,
	},
	{
		Name: "count-of-pods-ready-cleared", File: decision,
		Old: `if wl.Status.RequeueState.Count == nil {`,
		New: `if wl.Status.RequeueState.Count == nil || mutant("count-of-pods-ready-cleared") {`,
	},
	{
		Name: "later-delay-not-recorded", File: decision,
		Old: `case queued || !plan.Deadline.Equal(requeueAt(wl)):`,
		New: `case queued || !mutant("later-delay-not-recorded") && !plan.Deadline.Equal(requeueAt(wl)):`,
	},
	{
		Name: "never-looked-at-again", File: reconciler,
		Old: "case workload.RetryWait:\n\t\tresult.RequeueAfter = plan.Deadline.Sub(now)",
		New: "case workload.RetryWait:\nif !mutant(\"never-looked-at-again\") {\nresult.RequeueAfter = plan.Deadline.Sub(now)\n}",
	},
	{
		Name: "waiting-in-the-heap", File: queues,
		Old: `if (!features.Enabled(features.ACRequeueAfter) &&`,
		New: `if mutant("waiting-in-the-heap") || (!features.Enabled(features.ACRequeueAfter) &&`,
	},
	{
		Name: "count-not-reset", File: decision,
		Old: "case kueue.CheckStateReady:\n\t\t\tretryCount = nil",
		New: "case kueue.CheckStateReady:\nif !mutant(\"count-not-reset\") {\nretryCount = nil\n}",
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
}

// helper is what the mutants call.
const helper = "package %s\n\nimport \"os\"\n\nfunc mutant(name string) bool { return os.Getenv(%q) == name }\n"

const keptDelay = `
func keptDelay(check *kueue.AdmissionCheckState) *int32 {
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
			return fmt.Errorf("mutant %s: found %d times in %s, should be once: %q; adapt simulation/mutants", m.Name, n, m.File, m.Old)
		}
		changed[m.File] = bytes.Replace(source, []byte(m.Old), []byte(m.New), 1)
	}
	changed[decision] = append(changed[decision], keptDelay...)
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
