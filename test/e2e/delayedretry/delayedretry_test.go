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

package delayedretrye2e

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
)

var _ = ginkgo.Describe("Delayed retry of admission checks", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	const delay = 10 * time.Second

	var (
		check kueue.AdmissionCheckReference
		job   *queuedJob
	)

	ginkgo.BeforeEach(func() {
		check = createCheck()
		job = newFixture(check).createJob("job")
	})

	ginkgo.It("Should stop the pods of a job for the delay, and then run them to the end", func() {
		ginkgo.By("admitting the job")
		job.expectAsked(check, 0)
		job.say(check, external.Ready("at first"))
		first := job.expectRunningPod()

		ginkgo.By("asking for a retry after the delay")
		asked := time.Now()
		job.say(check, external.Retry(delay, "not yet"))
		deadline := job.expectWaiting(asked.Add(delay))

		ginkgo.By("waiting for the delay, without quota and without pods")
		job.expectWaitsUntil(deadline)

		ginkgo.By("retrying the check")
		job.expectAskedAfter(deadline, check, 1)
		job.say(check, external.Ready("now"))

		ginkgo.By("ending the pod")
		second := job.expectRunningPod()
		gomega.Expect(second.UID).NotTo(gomega.Equal(first.UID))
		job.finish(second)
	})
})
