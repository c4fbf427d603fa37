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

package simulation

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/controller/jobs/jobset"
	"sigs.k8s.io/kueue/pkg/controller/jobs/pod"
)

// integrations are the kinds of jobs. Which they are does not change.
var integrations = func() *jobframework.IntegrationManager {
	m := jobframework.NewIntegrationManager()
	for _, register := range []func(*jobframework.IntegrationManager) error{job.RegisterIntegration, jobset.RegisterIntegration, pod.RegisterIntegration} {
		utilruntime.Must(register(m))
	}
	return m
}()

// integrationOptions are those of the jobs' controllers.
func integrationOptions() []jobframework.Option {
	return []jobframework.Option{jobframework.WithIntegrationManager(integrations)}
}

// multiKueueAdapters are those of the jobs that MultiKueue runs elsewhere.
func multiKueueAdapters() (map[string]jobframework.MultiKueueAdapter, error) {
	return integrations.GetMultiKueueAdapters(sets.New("batch/job"))
}
