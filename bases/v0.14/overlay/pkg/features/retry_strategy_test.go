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

package features

import (
	"strings"
	"testing"
)

func TestValidateACRetryStrategy(t *testing.T) {
	cases := map[string]struct {
		strategy, requeueAfter, wantErr bool
	}{
		"both off":                {},
		"both on":                 {strategy: true, requeueAfter: true},
		"delays alone":            {requeueAfter: true},
		"policies without delays": {strategy: true, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			SetFeatureGateDuringTest(t, ACRetryStrategy, tc.strategy)
			SetFeatureGateDuringTest(t, ACRequeueAfter, tc.requeueAfter)
			err := ValidateACRetryStrategy()
			if (err != nil) != tc.wantErr {
				t.Fatalf("Unexpected error: %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "ACRetryStrategy") || !strings.Contains(err.Error(), "ACRequeueAfter")) {
				t.Errorf("The error does not name both gates: %v", err)
			}
		})
	}
}

func TestACRetryStrategyIsOffByDefault(t *testing.T) {
	for _, spec := range defaultVersionedFeatureGates[ACRetryStrategy] {
		if spec.Default || spec.PreRelease != "ALPHA" || spec.LockToDefault {
			t.Errorf("Unexpected stage: %v", spec)
		}
	}
}
