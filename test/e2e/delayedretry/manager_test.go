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

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/test/util"
)

// Serial, because the others need the managers that these specs replace. Each
// installs what was there before.
var _ = ginkgo.Describe("Delayed retry of admission checks, while Kueue is replaced", ginkgo.Serial, ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	// Longer than it takes to replace the managers on a busy machine; otherwise the
	// deadline passes meanwhile, and the specs show less.
	const delay = 30 * time.Second

	var (
		ours  manifests
		check kueue.AdmissionCheckReference
	)

	ginkgo.BeforeEach(func() {
		ours = manifestsOf("E2E_MANIFESTS")
		check = createCheck()
	})

	// run lets an asked job run to its end.
	run := func(job *queuedJob) {
		ginkgo.GinkgoHelper()
		job.say(check, ready("now"))
		job.finish(job.expectRunningPod())
	}

	ginkgo.DescribeTable("Should keep the delay when the manager that leads is killed", func(replicas int64) {
		job := newFixture(check).createJob("job")
		if replicas > 1 {
			ginkgo.DeferCleanup(ours.install)
			ours.withReplicas(replicas).install()
		}
		job.expectAsked(check, 0)
		asked := time.Now()
		job.say(check, retry(delay, "not yet"))
		deadline := job.expectWaiting(asked.Add(delay))

		ginkgo.By("killing the leader")
		killLeader()
		job.expectWaitsUntil(deadline)

		ginkgo.By("retrying the check once")
		job.expectAskedAfter(deadline, check, 1)
		run(job)
	},
		ginkgo.Entry("and is the only one", int64(1)),
		ginkgo.Entry("and another one stands by", int64(2)),
	)

	ginkgo.It("Should strand nothing when the gate is switched off and on again", func() {
		sooner, later := newFixture(check).createJob("sooner"), newFixture(check).createJob("later")
		sooner.expectAsked(check, 0)
		later.expectAsked(check, 0)
		asked := time.Now()
		sooner.say(check, retry(delay, "not yet"))
		later.say(check, retry(3*delay, "not yet"))
		soonerDeadline := sooner.expectWaiting(asked.Add(delay))
		laterDeadline := later.expectWaiting(asked.Add(3 * delay))

		ginkgo.By("switching the gate off")
		ginkgo.DeferCleanup(ours.install)
		ours.withGateOff().install()
		sooner.expectWaitsUntil(soonerDeadline)
		sooner.expectAskedAfter(soonerDeadline, check, 1)

		ginkgo.By("asking for a delay with the gate off")
		sooner.delayWithGateOff(check)
		run(sooner)

		ginkgo.By("switching the gate on")
		ours.install()
		later.expectWaitsUntil(laterDeadline)
		later.expectAskedAfter(laterDeadline, check, 1)
		run(later)
	})

	ginkgo.It("Should strand nothing in an upgrade from plain Kueue, and on the way back", func() {
		plain := manifestsOf("E2E_PLAIN_MANIFESTS")
		ginkgo.DeferCleanup(ours.install)
		plain.install()

		ginkgo.By("running a job, and leaving one stuck whose check says Retry while it has no quota")
		running, stuck, retries := newFixture(check).leaveStuckWithPlain(check)
		pod := running.expectRunningPod()

		ginkgo.By("upgrading the CRDs, then the manager, and then switching the gate on")
		ours.crds().apply()
		ours.withGateOff().install()
		ours.install()

		ginkgo.By("going on with both jobs")
		gomega.Expect(running.expectRunningPod().UID).To(gomega.Equal(pod.UID))
		running.finish(pod)
		stuck.expectAsked(check, retries)
		stuck.say(check, ready("now"))
		pod = stuck.expectRunningPod()

		ginkgo.By("waiting for a short and for a long delay")
		short, long := newFixture(check).createJob("short"), newFixture(check).createJob("long")
		short.expectAsked(check, 0)
		long.expectAsked(check, 0)
		asked := time.Now()
		short.say(check, retry(delay, "not yet"))
		long.say(check, retry(time.Hour, "not yet"))
		deadline := short.expectWaiting(asked.Add(delay))
		long.expectWaiting(asked.Add(time.Hour))

		ginkgo.By("draining with the gate off: what waits comes back, or starts over")
		ours.withGateOff().install()
		long.setActive(false)
		gomega.Eventually(long.workload, util.Timeout, util.Interval).Should(gomega.HaveField("Status.RequeueState", gomega.BeNil()))
		long.setActive(true)
		long.expectAsked(check, 0)
		short.expectWaitsUntil(deadline)
		short.expectAskedAfter(deadline, check, 1)

		ginkgo.By("going back to the plain manager, then to the plain CRDs")
		plain.withoutCRDs().install()
		plain.crds().apply()

		ginkgo.By("going on with all jobs")
		gomega.Expect(stuck.expectRunningPod().UID).To(gomega.Equal(pod.UID))
		stuck.finish(pod)
		run(short)
		run(long)
	})
})
