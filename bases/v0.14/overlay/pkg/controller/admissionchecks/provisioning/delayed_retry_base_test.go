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

package provisioning

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
)

func newTestController(c client.Client) (*Controller, error) {
	return NewController(c, &utiltesting.EventRecorder{})
}

// keepRequests has the requests of a workload that is evicted stay, as they do.
func keepRequests(testing.TB) {}

// keptWhenFinished returns the requests, of those given, that a finished workload keeps.
func keptWhenFinished(names ...string) []string {
	return names
}
