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

package requeue

import (
	"fmt"
	"slices"
	"strings"
	"time"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// maxMessage is how much of the message of a check is repeated, in characters.
const maxMessage = 200

// EvictionMessage tells why the workload is evicted.
func (s Step) EvictionMessage() string {
	return "Evicted due to " + retriesMessage(s.Retries)
}

// WaitMessage tells until when the workload waits, and for what.
func (s Step) WaitMessage() string {
	message := "Waiting"
	if !s.Until.IsZero() {
		message += " until " + s.Until.UTC().Format(time.RFC3339)
	}
	if len(s.Retries) == 0 {
		return message + " for the end of the backoff"
	}
	return message + " due to " + retriesMessage(s.Retries)
}

func (s Step) requeueMessage() string {
	if len(s.Retries) == 0 {
		return "The workload backoff was finished, no AdmissionCheck asks for a retry"
	}
	return "The workload backoff was finished, it was due to " + retriesMessage(s.Retries)
}

func retriesMessage(retries []Retry) string {
	return checksMessage(retries, func(retry Retry) string {
		return fmt.Sprintf("after %d s", retry.DelaySeconds)
	})
}

// checksMessage has the form of the messages that Kueue has for checks already.
func checksMessage(retries []Retry, describe func(Retry) string) string {
	noun := "AdmissionCheck"
	if len(retries) > 1 {
		noun = "AdmissionChecks"
	}
	parts := make([]string, len(retries))
	for i, retry := range retries {
		parts[i] = fmt.Sprintf("%q %s%s", retry.Name, describe(retry), words(retry.Message))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%s in %s state: %s", noun, kueue.CheckStateRetry, strings.Join(parts, "; "))
}

// words returns the message of a check, shortened.
func words(message string) string {
	if message == "" {
		return ""
	}
	if runes := []rune(message); len(runes) > maxMessage {
		message = string(runes[:maxMessage]) + "..."
	}
	return fmt.Sprintf(" (%s)", message)
}
