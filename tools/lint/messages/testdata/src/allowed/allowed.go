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

package allowed

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

func written(cond *metav1.Condition, check *kueue.AdmissionCheckState) {
	cond.Message = "text"
	cond.Message += check.Message
	check.Message = "prefix" + cond.Message
	message := fmt.Sprintf("because of %s", truncate(cond.Message))
	if message != "" {
		cond.Message = message
	}
	if set(func() { check.Message = cond.Message }) {
		check.Message = ""
	}
	setCondition(cond, cond.Message)
	record(cond, "%s", check.Message)
	if cond.Reason == "Wanted" {
		record(cond, cond.Message)
	}
	_ = kueue.AdmissionCheckState{Message: cond.Message}
	_ = errors.New(check.Message)
	_ = cond.Message
	defer record(cond, cond.Message)
	messages := append([]string(nil), cond.Message)
	for i, message := range messages {
		messages[i] = message + cond.Message
	}
}

func text(cond metav1.Condition) string { return cond.Reason + ": " + cond.Message }

// Whether there is something to write.
func changed(next, current *kueue.AdmissionCheckState) bool {
	if next.Message == current.Message {
		return false
	}
	return next.State != current.State || next.Message != current.Message
}

func isNew(cond *metav1.Condition, check *kueue.AdmissionCheckState) bool {
	return SetRetriedCondition(cond, check.Message)
}

// Other types have messages too.
func others(status metav1.Status, plan struct{ Message string }) bool {
	return status.Message == "text" || plan.Message == "text"
}

func truncate(s string) string                           { return s }
func set(func()) bool                                    { return true }
func setCondition(*metav1.Condition, string) bool        { return true }
func SetRetriedCondition(*metav1.Condition, string) bool { return true }
func record(*metav1.Condition, string, ...any)           {}
