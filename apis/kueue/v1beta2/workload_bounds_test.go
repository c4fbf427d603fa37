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
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// The smallest number that an int32 does not hold hides all workloads, once it is
// stored: a list is decoded as a whole. The schema of each version must refuse it.
func TestNumbersOfChecksFitTheTypes(t *testing.T) {
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
	const poison = "2147483648"
	for _, field := range []string{"requeueAfterSeconds", "retryCount"} {
		t.Run(field, func(t *testing.T) {
			check := `{"name": "a", "state": "Retry", "message": "", "lastTransitionTime": "2026-02-06T10:00:00Z", "` + field + `": ` + poison + `}`
			list := `{"items": [{"metadata": {"name": "innocent"}}, {"metadata": {"name": "poisoned"}, "status": {"admissionChecks": [` + check + `]}}]}`
			if err := json.Unmarshal([]byte(list), &WorkloadList{}); err == nil || !strings.Contains(err.Error(), poison) {
				t.Fatalf("The list is decoded, and the maximum of no use any more: %v", err)
			}
			var value any
			if err := json.Unmarshal([]byte(check), &value); err != nil {
				t.Fatalf("Parsing the check: %v", err)
			}
			for _, version := range crd.Spec.Versions {
				status := version.Schema.OpenAPIV3Schema.Properties["status"]
				schema := *status.Properties["admissionChecks"].Items.Schema
				if errs := validate.NewSchemaValidator(&schema, nil, "check", strfmt.Default).Validate(value).Errors; len(errs) == 0 {
					t.Errorf("Version %s accepts %s", version.Name, poison)
				}
				unbounded := schema.Properties[field]
				unbounded.Maximum = nil
				unbounded.Format = "" // the API server ignores int32
				schema.Properties[field] = unbounded
				if errs := validate.NewSchemaValidator(&schema, nil, "check", strfmt.Default).Validate(value).Errors; len(errs) > 0 {
					t.Errorf("Version %s refuses %s without a maximum: %v", version.Name, poison, errs)
				}
			}
		})
	}
}
