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
	"testing"

	"k8s.io/component-base/featuregate"
)

func TestACRequeueAfter(t *testing.T) {
	specs := defaultVersionedFeatureGates[ACRequeueAfter]
	if len(specs) != 1 {
		t.Fatalf("Unexpected stages %v, want one", specs)
	}
	spec := specs[0]
	t.Run("is off by default", func(t *testing.T) {
		if spec.Default || Enabled(ACRequeueAfter) {
			t.Errorf("Unexpected default %t, enabled %t", spec.Default, Enabled(ACRequeueAfter))
		}
	})
	t.Run("is alpha", func(t *testing.T) {
		if spec.PreRelease != featuregate.Alpha {
			t.Errorf("Unexpected stage %q", spec.PreRelease)
		}
	})
	t.Run("can be switched", func(t *testing.T) {
		if spec.LockToDefault {
			t.Error("It is locked to its default")
		}
		for _, value := range []bool{true, false} {
			SetFeatureGateDuringTest(t, ACRequeueAfter, value)
			if got := Enabled(ACRequeueAfter); got != value {
				t.Errorf("Unexpected value %t, want %t", got, value)
			}
		}
	})
}
