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
	"math"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// A number that an int32 does not hold hides all workloads, once it is stored: a list is
// decoded as a whole. The API server ignores the format int32, so each version of the schema
// must have a maximum.
func TestNumbersOfChecksFitTheTypes(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "components", "crd", "bases", "kueue.x-k8s.io_workloads.yaml"))
	if err != nil {
		t.Fatalf("Reading the CRD: %v", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, crd); err != nil {
		t.Fatalf("Parsing the CRD: %v", err)
	}
	for _, version := range crd.Spec.Versions {
		status := version.Schema.OpenAPIV3Schema.Properties["status"]
		check := status.Properties["admissionChecks"].Items.Schema
		for _, field := range []string{"requeueAfterSeconds", "retryCount"} {
			schema, found := check.Properties[field]
			if !found {
				t.Errorf("Version %s has no field %s", version.Name, field)
			}
			if schema.Maximum == nil || *schema.Maximum > math.MaxInt32 {
				t.Errorf("Version %s has no maximum that fits an int32 for %s: %v", version.Name, field, schema.Maximum)
			}
		}
	}
}
