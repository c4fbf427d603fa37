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
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// maxMessageBytes is the API server's limit for messages of checks and conditions.
const maxMessageBytes = 32 * 1024

// maxLateness is how much later than RetryAt the deadline may be: the delay counts
// from the eviction, which follows the Retry.
const maxLateness = 5 * time.Second

// Verdict is what the controller of an admission check says about a workload.
// Pending, Ready, Retry and Rejected make one. The zero Verdict says nothing:
// the check stays as it is.
type Verdict struct {
	// State is the state of the check. If it is empty, the check stays as it is.
	State kueue.CheckState
	// Message tells people why. What is longer than 32 KiB is cut off.
	Message string
	// PodSetUpdates are the changes to the pods of the workload, with Ready only.
	PodSetUpdates []kueue.PodSetUpdate
	// RetryAfter is the time that must pass before the workload is considered for
	// quota again, with Retry only. It is written in seconds, rounded up; negative
	// means none, and what is longer than 2147483647 s is cut.
	RetryAfter time.Duration
	// RetryAt is the time before which the workload is not considered for quota,
	// instead of RetryAfter. Saying it again writes nothing while the workload
	// waits for about that time.
	RetryAt time.Time
	// Renew has RetryAfter count from now also when the check asks for the same
	// delay already.
	Renew bool
	// AskAgain is the time after which the workload is looked at again, and the
	// function called if it still asks or waits. Zero or negative: Options.Poll if
	// the check is left Pending, else only when something changes.
	AskAgain time.Duration
}

// Pending says that the check cannot tell yet. The workload keeps its quota.
func Pending(message string) Verdict {
	return Verdict{State: kueue.CheckStatePending, Message: message}
}

// Ready says that the workload may start as far as the check is concerned, with
// the given changes to its pods.
func Ready(message string, podSetUpdates ...kueue.PodSetUpdate) Verdict {
	return Verdict{State: kueue.CheckStateReady, Message: message, PodSetUpdates: podSetUpdates}
}

// Retry says that the workload cannot start now. It loses its quota at once, and
// is not considered for quota again before the time is over.
func Retry(after time.Duration, message string) Verdict {
	return Verdict{State: kueue.CheckStateRetry, Message: message, RetryAfter: after}
}

// RetryAt says that the workload cannot start now, and not before the given time.
func RetryAt(at time.Time, message string) Verdict {
	return Verdict{State: kueue.CheckStateRetry, Message: message, RetryAt: at}
}

// Rejected says that the workload will not start. It is deactivated.
func Rejected(message string) Verdict {
	return Verdict{State: kueue.CheckStateRejected, Message: message}
}

// StateOf returns the state of the check in the workload, or nil if Kueue does
// not ask for the check.
func StateOf(wl *kueue.Workload, check kueue.AdmissionCheckReference) *kueue.AdmissionCheckState {
	states := wl.Status.AdmissionChecks
	i := slices.IndexFunc(states, func(state kueue.AdmissionCheckState) bool { return state.Name == check })
	if i < 0 {
		return nil
	}
	return &states[i]
}

// Asks returns true if the workload waits for the answer of the check: it holds
// quota, is not evicted, and the check is Pending.
func Asks(wl *kueue.Workload, check kueue.AdmissionCheckReference) bool {
	return holdsQuota(wl) && isInState(wl, check, kueue.CheckStatePending)
}

// WaitsFor returns true if the workload is evicted and waits for the retry that
// the check has asked for.
func WaitsFor(wl *kueue.Workload, check kueue.AdmissionCheckReference) bool {
	return isEvicted(wl) && isInState(wl, check, kueue.CheckStateRetry)
}

// NextState returns what is to be written into the workload so that the check
// says what the verdict says, or nil if there is nothing to write: it says so
// already, or nobody asks. A check is asked while the workload holds quota and
// while it is evicted, and not when it is queued for the first time, deactivated,
// finished, or being deleted, or does not have the check.
//
// The transition time is fresh when the state or the delay changes, or is to be
// renewed, and else remains. RetryCount, which is Kueue's, is left out.
func NextState(wl *kueue.Workload, check kueue.AdmissionCheckReference, verdict Verdict, now time.Time) *kueue.AdmissionCheckState {
	current := StateOf(wl, check)
	if current == nil || verdict.State == "" || (!holdsQuota(wl) && !isEvicted(wl)) {
		return nil
	}
	next := &kueue.AdmissionCheckState{
		Name:               check,
		State:              verdict.State,
		Message:            truncate(verdict.Message),
		LastTransitionTime: current.LastTransitionTime,
	}
	moved := next.State != current.State
	changed := moved || next.Message != current.Message
	switch next.State {
	case kueue.CheckStateReady:
		next.PodSetUpdates = verdict.PodSetUpdates
		changed = changed || !equality.Semantic.DeepEqual(next.PodSetUpdates, current.PodSetUpdates)
	case kueue.CheckStateRetry:
		// Written also when it is zero: a delay that another field manager co-owns
		// would survive if it were left out.
		seconds, same := requeueAfterSeconds(wl, current, verdict, now)
		next.RequeueAfterSeconds = &seconds
		moved = moved || verdict.Renew || !same
	}
	if moved {
		next.LastTransitionTime = transitionTime(now)
	}
	if !moved && !changed {
		return nil
	}
	return next
}

// requeueAfterSeconds returns the delay to write, and whether the check asks for
// it already.
func requeueAfterSeconds(wl *kueue.Workload, current *kueue.AdmissionCheckState, verdict Verdict, now time.Time) (seconds int32, same bool) {
	asked := ptr.Deref(current.RequeueAfterSeconds, 0)
	if verdict.RetryAt.IsZero() {
		seconds = wholeSeconds(verdict.RetryAfter)
		return seconds, seconds == asked
	}
	late := deadline(wl, current).Sub(verdict.RetryAt)
	if current.State == kueue.CheckStateRetry && !verdict.Renew && late >= 0 && late <= maxLateness {
		return asked, true
	}
	seconds = wholeSeconds(verdict.RetryAt.Sub(transitionTime(now).Time))
	return seconds, seconds == 0 && asked == 0
}

// deadline returns the time until which Kueue waits for the check.
func deadline(wl *kueue.Workload, check *kueue.AdmissionCheckState) time.Time {
	start := check.LastTransitionTime.Time
	if evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); evicted != nil && evicted.LastTransitionTime.After(start) {
		start = evicted.LastTransitionTime.Time
	}
	return start.Add(time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0)) * time.Second)
}

// transitionTime rounds up: the API drops fractions of seconds, and the delay
// that counts from the time would be cut short.
func transitionTime(now time.Time) metav1.Time {
	if whole := now.Truncate(time.Second); whole.Before(now) {
		now = whole.Add(time.Second)
	}
	return metav1.NewTime(now)
}

// truncate cuts off what the API server would refuse, and no character in two.
func truncate(message string) string {
	const more = " ..."
	if len(message) <= maxMessageBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageBytes-len(more)], "") + more
}

func wholeSeconds(d time.Duration) int32 {
	seconds := d / time.Second
	if d%time.Second > 0 {
		seconds++
	}
	return int32(min(max(seconds, 0), maxDelay/time.Second))
}

func isInState(wl *kueue.Workload, check kueue.AdmissionCheckReference, state kueue.CheckState) bool {
	current := StateOf(wl, check)
	return current != nil && current.State == state
}

func holdsQuota(wl *kueue.Workload) bool {
	return isLive(wl) && hasCondition(wl, kueue.WorkloadQuotaReserved) && !hasCondition(wl, kueue.WorkloadEvicted)
}

func isEvicted(wl *kueue.Workload) bool {
	return isLive(wl) && hasCondition(wl, kueue.WorkloadEvicted)
}

func isLive(wl *kueue.Workload) bool {
	return ptr.Deref(wl.Spec.Active, true) && wl.DeletionTimestamp.IsZero() && !hasCondition(wl, kueue.WorkloadFinished)
}

func hasCondition(wl *kueue.Workload, conditionType string) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, conditionType)
}
