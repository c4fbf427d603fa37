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

package v1beta2

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// statusSchema returns the schema of a Workload's status in its CRD.
func statusSchema(t *testing.T) spec.Schema {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "components", "crd", "bases", "kueue.x-k8s.io_workloads.yaml"))
	if err != nil {
		t.Fatalf("Reading the CRD: %v", err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema spec.Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatalf("Parsing the CRD: %v", err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Name == SchemeGroupVersion.Version {
			return version.Schema.OpenAPIV3Schema.Properties["status"]
		}
	}
	t.Fatalf("The CRD has no version %s", SchemeGroupVersion.Version)
	return spec.Schema{}
}

// parsed returns the value of JSON that is an object.
func parsed(t *testing.T, content string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(content), &value); err != nil {
		t.Fatalf("Parsing %s: %v", content, err)
	}
	return value
}

func TestDelayedRetrySchema(t *testing.T) {
	status := statusSchema(t)
	check := status.Properties["admissionChecks"].Items.Schema
	// There is no default.
	const number = `{"type": "integer", "format": "int32", "minimum": 0, "maximum": 2147483647}`
	cases := map[string]struct {
		parent *spec.Schema
		want   string
	}{
		"requeueAfterSeconds": {parent: check, want: number},
		"retryCount":          {parent: check, want: number},
		"backoffUntil":        {parent: ptr.To(status.Properties["requeueState"]), want: `{"type": "string", "format": "date-time"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, found := tc.parent.Properties[name]
			if !found {
				t.Fatal("The field is not in the CRD")
			}
			if !strings.Contains(got.Description, "alpha") || !strings.Contains(got.Description, "ACRequeueAfter") {
				t.Errorf("The description does not name the gate and its stage: %s", got.Description)
			}
			got.Description = ""
			content, err := json.Marshal(got)
			if err != nil {
				t.Fatalf("Marshalling the schema: %v", err)
			}
			if diff := cmp.Diff(parsed(t, tc.want), parsed(t, string(content))); diff != "" {
				t.Errorf("Unexpected schema (-want,+got):\n%s", diff)
			}
			if slices.Contains(tc.parent.Required, name) {
				t.Error("The field is required")
			}
		})
	}
}

func TestDelayedRetryValidation(t *testing.T) {
	status := statusSchema(t)
	validator := validate.NewSchemaValidator(&status, nil, "status", strfmt.Default)
	check := func(fields string) string {
		return fmt.Sprintf(`{"admissionChecks": [{"name": "a", "state": "Retry", "message": "", "lastTransitionTime": "2026-02-06T10:00:00Z", %s}]}`, fields)
	}
	cases := map[string]struct {
		status string
		// want is the field of all errors, if any.
		want string
	}{
		"zero":                 {status: check(`"requeueAfterSeconds": 0, "retryCount": 0`)},
		"the largest":          {status: check(`"requeueAfterSeconds": 2147483647, "retryCount": 2147483647`)},
		"a negative delay":     {status: check(`"requeueAfterSeconds": -1`), want: "requeueAfterSeconds"},
		"too long a delay":     {status: check(`"requeueAfterSeconds": 2147483648`), want: "requeueAfterSeconds"},
		"half a second":        {status: check(`"requeueAfterSeconds": 0.5`), want: "requeueAfterSeconds"},
		"a duration":           {status: check(`"requeueAfterSeconds": "60s"`), want: "requeueAfterSeconds"},
		"a negative count":     {status: check(`"retryCount": -1`), want: "retryCount"},
		"too large a count":    {status: check(`"retryCount": 2147483648`), want: "retryCount"},
		"a time":               {status: `{"requeueState": {"count": 1, "backoffUntil": "2026-02-06T10:00:00Z"}}`},
		"a time without a day": {status: `{"requeueState": {"count": 1, "backoffUntil": "10:00:00Z"}}`, want: "backoffUntil"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := validator.Validate(parsed(t, tc.status)).Errors
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("Unexpected errors: %v", errs)
			}
			if tc.want != "" && len(errs) == 0 {
				t.Errorf("No error, want one of %s", tc.want)
			}
			for _, err := range errs {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Unexpected error %v, want one of %s", err, tc.want)
				}
			}
		})
	}
}

// Zero is not the same as nothing: it stays in what is written, so that an apply
// of it owns the field.
func TestDelayedRetryRoundTrip(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, time.February, 6, 10, 0, 0, 0, time.UTC))
	cases := map[string]struct {
		status WorkloadStatus
		want   string
	}{
		"nothing": {
			status: WorkloadStatus{RequeueState: &RequeueState{}, AdmissionChecks: []AdmissionCheckState{{Name: "a", State: CheckStatePending, LastTransitionTime: now}}},
			want:   `{"requeueState":{},"admissionChecks":[{"name":"a","state":"Pending","lastTransitionTime":"2026-02-06T10:00:00Z","message":""}]}`,
		},
		"zero": {
			status: WorkloadStatus{AdmissionChecks: []AdmissionCheckState{{Name: "a", State: CheckStatePending, LastTransitionTime: now, RequeueAfterSeconds: ptr.To[int32](0), RetryCount: ptr.To[int32](0)}}},
			want:   `{"admissionChecks":[{"name":"a","state":"Pending","lastTransitionTime":"2026-02-06T10:00:00Z","message":"","requeueAfterSeconds":0,"retryCount":0}]}`,
		},
		"values": {
			status: WorkloadStatus{
				RequeueState:    &RequeueState{BackoffUntil: &now},
				AdmissionChecks: []AdmissionCheckState{{Name: "a", State: CheckStatePending, LastTransitionTime: now, RequeueAfterSeconds: ptr.To[int32](60), RetryCount: ptr.To[int32](3)}},
			},
			want: `{"requeueState":{"backoffUntil":"2026-02-06T10:00:00Z"},"admissionChecks":[{"name":"a","state":"Pending","lastTransitionTime":"2026-02-06T10:00:00Z","message":"","requeueAfterSeconds":60,"retryCount":3}]}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(tc.status)
			if err != nil {
				t.Fatalf("Marshalling the status: %v", err)
			}
			if diff := cmp.Diff(parsed(t, tc.want), parsed(t, string(got))); diff != "" {
				t.Errorf("Unexpected JSON (-want,+got):\n%s", diff)
			}
			var back WorkloadStatus
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatalf("Unmarshalling the status: %v", err)
			}
			if diff := cmp.Diff(tc.status, back); diff != "" {
				t.Errorf("Unexpected status after a round trip (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.status, *tc.status.DeepCopy()); diff != "" {
				t.Errorf("Unexpected copy (-want,+got):\n%s", diff)
			}
		})
	}
}
