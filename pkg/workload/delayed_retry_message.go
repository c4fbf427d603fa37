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

package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/api"
	stringsutils "sigs.k8s.io/kueue/pkg/util/strings"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// Messages are for people. Nothing is decided from them.

const (
	// maxCheckMessage is how much of a check's own message is repeated, in characters.
	maxCheckMessage = 200

	noRetryMessage         = "No admission check asks for a retry any more"
	backoffFinishedMessage = "The workload backoff was finished"
)

// waitMessage says which checks have asked for a retry, until when the workload
// waits, and what the checks say themselves.
func waitMessage(retry []kueue.AdmissionCheckState, evictedAt, deadline, backoffUntil time.Time) string {
	until := deadline.UTC().Format(time.RFC3339)
	asked := fmt.Sprintf("Admission check(s) %s asked for a retry", checkNames(retry))
	backoff := backoffUntil.After(times.Later(evictedAt, latestDeadline(retry, evictedAt, time.Time{})))
	switch {
	case backoff && len(retry) == 0:
		return "Backoff of the workload, waiting until " + until
	case backoff:
		return fmt.Sprintf("Backoff of the workload, waiting until %s. %s%s", until, asked, ownWords(retry))
	case len(retry) == 0:
		return noRetryMessage
	case deadline.After(evictedAt):
		return fmt.Sprintf("%s, waiting until %s%s", asked, until, ownWords(retry))
	default:
		return asked + ownWords(retry)
	}
}

// waitOverMessage is what remains to be said of the eviction once the wait is over.
func waitOverMessage(retry []kueue.AdmissionCheckState) string {
	if len(retry) == 0 {
		return noRetryMessage
	}
	return fmt.Sprintf("Admission check(s) %s asked for a retry, which is due%s", checkNames(retry), ownWords(retry))
}

// finishedMessage is what remains to be said of the eviction of a workload that finished
// before it was requeued.
func finishedMessage(retry []kueue.AdmissionCheckState) string {
	if len(retry) == 0 {
		return noRetryMessage
	}
	return fmt.Sprintf("Admission check(s) %s asked for a retry, but the workload has finished%s", checkNames(retry), ownWords(retry))
}

// exhaustedMessage says which checks have asked for a retry too often, how often
// each was retried, and what they say themselves.
func exhaustedMessage(exhausted []kueue.AdmissionCheckState) string {
	reached := make([]string, len(exhausted))
	for i, check := range exhausted {
		reached[i] = fmt.Sprintf("%s after %d retries", check.Name, ptr.Deref(check.RetryCount, 0))
	}
	slices.Sort(reached)
	return fmt.Sprintf("exceeding the limit of retries of admission check(s): %s%s", strings.Join(reached, ", "), ownWords(exhausted))
}

func checkNames(checks []kueue.AdmissionCheckState) string {
	names := make([]kueue.AdmissionCheckReference, len(checks))
	for i := range checks {
		names[i] = checks[i].Name
	}
	slices.Sort(names)
	return stringsutils.Join(names, ",")
}

// ownWords returns what the checks say themselves, to be added to a message.
func ownWords(checks []kueue.AdmissionCheckState) string {
	var words []string
	for _, check := range checks {
		if message := shortened(check.Message); message != "" {
			words = append(words, fmt.Sprintf("%s: %s", check.Name, message))
		}
	}
	if len(words) == 0 {
		return ""
	}
	slices.Sort(words)
	return ". " + strings.Join(words, "; ")
}

func shortened(message string) string {
	if characters := []rune(message); len(characters) > maxCheckMessage {
		return string(characters[:maxCheckMessage]) + " ..."
	}
	return message
}

// resetMessage is that of a check which is set back to Pending, on some occasion.
// One that is Pending, because its controller withdrew a Retry for example, keeps
// its words.
func resetMessage(check kueue.AdmissionCheckState, occasion string) string {
	if check.State == kueue.CheckStatePending {
		return check.Message
	}
	message := fmt.Sprintf("Reset to Pending on %s. Previously: %s", occasion, check.State)
	if words := shortened(ofResets.ReplaceAllString(check.Message, "")); words != "" {
		message += ". " + words
	}
	return message
}

// ofResets is what Kueue put before the words of a controller that has left them as they
// were.
var ofResets = regexp.MustCompile(`^(Reset to Pending on [a-z]+\. Previously: [A-Za-z]+(\. |$))+`)

// tell sets the message of a condition that wl has.
func tell(wl *kueue.Workload, conditionType, message string) {
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, conditionType); cond != nil {
		cond.Message = api.TruncateConditionMessage(message)
		cond.ObservedGeneration = wl.Generation
	}
}

// tellOfEviction sets the message of the Evicted condition, if it is true, and of
// Requeued, where the release of the quota has put a copy that a stopped queue keeps.
// An eviction for another reason stays one.
func tellOfEviction(wl *kueue.Workload, message string) {
	evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	if !workloadevict.IsEvicted(wl) {
		return
	}
	if evicted.Reason != kueue.WorkloadEvictedByAdmissionCheck {
		message = fmt.Sprintf("Evicted with reason %s. %s", evicted.Reason, message)
	}
	tell(wl, kueue.WorkloadEvicted, message)
	if requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued); isKeptOut(wl) && requeued.Reason == evicted.Reason {
		tell(wl, kueue.WorkloadRequeued, message)
	}
}
