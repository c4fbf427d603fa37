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

package flagged

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

const wanted = "wanted"

func compared(cond metav1.Condition, check *kueue.AdmissionCheckState) bool {
	_ = cond.Message < wanted                 // want "it is compared"
	_ = wanted+check.Message != wanted        // want "it is compared"
	_ = cond.Message[0] == 'x'                // want "it is compared"
	_ = (cond.Message)[:3] == "abc"           // want "it is compared"
	_ = cond.Message == check.Message         // want "it is compared" "it is compared"
	_ = strings.ToLower(cond.Message) == "ok" // want "it is compared"
	_ = truncate(cond.Message) == "ok"        // want "it is compared"
	_ = strings.Fields(cond.Message)[0] == "" // want "it is compared"
	return check.Message == wanted            // want "it is compared"
}

func conditions(cond metav1.Condition, check kueue.AdmissionCheckState) {
	if cond.Message == "" { // want "it is compared"
	}
	if codes(cond.Message) > 3 { // want "in the condition of an if"
	}
	if err := parse(cond.Message); err != nil {
	}
	for codes(check.Message) > 3 { // want "in the condition of a for"
	}
	for range cond.Message { // want "in the range of a for"
	}
	switch cond.Message { // want "in the tag of a switch"
	case wanted:
	}
	switch wanted {
	case cond.Message: // want "in a case of a switch"
	}
	switch {
	case codes(cond.Message) > 3: // want "in a case of a switch"
	}
	switch message := cond.Message; message { // want "in the tag of a switch"
	case wanted:
	}
}

var pattern = regexp.MustCompile("^a")

func calls(cond metav1.Condition, conds []metav1.Condition, known map[string]int) (bool, int) {
	_ = strings.HasPrefix(cond.Message, wanted)           // want "HasPrefix judges it"
	_ = strings.Index(cond.Message, wanted)               // want "Index judges it"
	_ = strings.Contains(wanted, cond.Message)            // want "Contains judges it"
	_ = pattern.MatchString(cond.Message)                 // want "MatchString judges it"
	_ = bytes.HasPrefix([]byte(cond.Message), nil)        // want "HasPrefix judges it"
	_ = slices.Contains([]string{wanted}, (cond.Message)) // want "Contains judges it"
	_ = tells(cond.Message)                               // want "tells judges it"
	_ = len(cond.Message)                                 // want "its length is taken"
	_ = known[cond.Message]                               // want "it is the key of a map"
	seconds, _ := strconv.Atoi(cond.Message[1:])          // want "Atoi judges it"
	_ = seconds
	before, _, found := strings.Cut(cond.Message, ",") // want "Cut judges it"
	_, _ = before, found
	_ = slices.ContainsFunc(conds, func(c metav1.Condition) bool {
		return strings.HasSuffix(c.Message, wanted) // want "HasSuffix judges it"
	})
	return tells(wanted + cond.Message), 0 // want "tells judges it"
}

func variables(cond metav1.Condition) bool {
	message := cond.Message
	var head = message[:3]
	trimmed := strings.TrimSpace(message)
	_ = trimmed == wanted                     // want "it is compared"
	_ = head == wanted                        // want "it is compared"
	return strings.HasPrefix(message, wanted) // want "HasPrefix judges it"
}

type embedding struct{ *metav1.Condition }

func embedded(e embedding) bool {
	return e.Message == wanted // want "it is compared"
}

func codes(string) int         { return 0 }
func parse(string) error       { return nil }
func tells(string) bool        { return false }
func truncate(s string) string { return s }
