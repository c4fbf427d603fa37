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
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry of admission checks", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	var (
		check kueue.AdmissionCheckReference
		queue *fixture
		job   *queuedJob
	)

	ginkgo.BeforeEach(func() {
		check = createCheck()
		queue = newFixture(check)
		job = queue.createJob("job")
		job.expectAsked(check, 0)
	})

	ginkgo.It("Should stop the pods of a job for the delay, and then run them to the end", func() {
		const delay = 10 * time.Second

		ginkgo.By("admitting the job")
		job.say(check, ready("at first"))
		first := job.expectRunningPod()

		ginkgo.By("asking for a retry after the delay")
		asked := time.Now()
		job.say(check, retry(delay, "not yet"))
		deadline := job.expectWaiting(asked.Add(delay))
		// The delay begins with the eviction: that did not wait for it.
		gomega.Expect(deadline).To(gomega.BeTemporally("<", asked.Add(2*delay)))

		ginkgo.By("waiting for the delay, without quota and without pods")
		job.expectWaitsUntil(deadline)

		ginkgo.By("retrying the check")
		job.expectAskedAfter(deadline, check, 1)
		job.say(check, ready("now"))

		ginkgo.By("ending the pod")
		second := job.expectRunningPod()
		gomega.Expect(second.UID).NotTo(gomega.Equal(first.UID))
		job.finish(second)
	})

	ginkgo.It("Should leave the quota to another job during the delay, and for as long as that runs", ginkgo.Label("smoke"), func() {
		const delay = 10 * time.Second

		other := queue.createJob("other")
		asked := time.Now()
		job.say(check, retry(delay, "not yet"))

		ginkgo.By("running the other job during the delay")
		deadline := job.expectWaiting(asked.Add(delay))
		// The delay begins with the eviction: that did not wait for it.
		gomega.Expect(deadline).To(gomega.BeTemporally("<", asked.Add(2*delay)))
		other.expectAsked(check, 0)
		other.say(check, ready("at once"))
		running := other.expectRunningPod()
		gomega.Expect(running.Status.StartTime.Time).To(gomega.BeTemporally("<", deadline))
		job.expectWaitsUntil(deadline)

		ginkgo.By("requeueing the job after the delay, while there is no quota for it")
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(apimeta.IsStatusConditionTrue(job.workload(g).Status.Conditions, kueue.WorkloadRequeued)).To(gomega.BeTrue())
		}, util.Timeout, util.Interval).Should(gomega.Succeed())
		gomega.Consistently(func(g gomega.Gomega) {
			g.Expect(workload.HasQuotaReservation(job.workload(g))).To(gomega.BeFalse())
			g.Expect(other.pods(g)).To(gomega.ConsistOf(gomega.And(
				gomega.HaveField("UID", running.UID),
				gomega.HaveField("DeletionTimestamp", gomega.BeNil()),
			)))
		}, unchanged, util.Interval).Should(gomega.Succeed())

		ginkgo.By("ending the other job")
		other.finish(running)
		job.expectAskedAfter(deadline, check, 1)
		job.say(check, ready("now"))
		job.finish(job.expectRunningPod())
	})

	ginkgo.It("Should reject a job while it waits", func() {
		const delay = 5 * time.Second

		asked := time.Now()
		job.say(check, retry(delay, "not yet"))
		deadline := job.expectWaiting(asked.Add(delay))
		job.say(check, rejected("never"))
		job.expectDeactivated()

		ginkgo.By("not retrying it at the deadline that it had")
		job.expectStaysDeactivated(time.Until(deadline) + unchanged)
	})

	ginkgo.It("Should stop the pods of a job that is rejected, and not retry it", func() {
		job.say(check, ready("at first"))
		job.expectRunningPod()
		job.say(check, rejected("no more"))
		job.expectDeactivated()
		job.expectNoPods()
		job.expectStaysDeactivated(unchanged)
	})

	ginkgo.It("Should forget the delay of a job that is deactivated, and queue it as new when it is reactivated", func() {
		job.say(check, retry(time.Second, "not yet"))
		job.expectAsked(check, 1)
		asked := time.Now()
		job.say(check, retry(time.Hour, "not for long"))
		job.expectWaiting(asked.Add(time.Hour))

		ginkgo.By("deactivating it")
		job.setActive(false)
		gomega.Eventually(func(g gomega.Gomega) {
			wl := job.workload(g)
			g.Expect(wl.Status.RequeueState).To(gomega.BeNil())
			state := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check)
			g.Expect(state).NotTo(gomega.BeNil())
			g.Expect(state.State).To(gomega.Equal(kueue.CheckStatePending))
			g.Expect(state.RequeueAfterSeconds).To(gomega.BeNil())
			g.Expect(ptr.Deref(state.RetryCount, 0)).To(gomega.BeZero())
		}, util.Timeout, util.Interval).Should(gomega.Succeed())
		job.expectStaysDeactivated(unchanged)

		ginkgo.By("reactivating it")
		job.setActive(true)
		job.expectAsked(check, 0)
		job.say(check, ready("now"))
		job.expectRunningPod()
	})
})

var _ = ginkgo.Describe("Delayed retry of two admission checks", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	ginkgo.It("Should wait longer when the second check asks late, and retry both once", ginkgo.Label("smoke"), func() {
		early, late := createCheck(), createCheck()
		job := newFixture(early, late).createJob("job")
		job.expectAsked(early, 0)

		ginkgo.By("waiting for the first check")
		asked := time.Now()
		job.say(early, retry(4*time.Second, "not yet"))
		job.expectWaiting(asked.Add(4 * time.Second))

		ginkgo.By("waiting longer for the second check")
		asked = time.Now()
		job.say(late, retry(9*time.Second, "not so soon"))
		deadline := job.expectWaiting(asked.Add(9 * time.Second))
		job.expectWaitsUntil(deadline)

		ginkgo.By("retrying both")
		job.expectAskedAfter(deadline, early, 1)
		job.expectAskedAfter(deadline, late, 1)
		job.say(early, ready("now"))
		job.say(late, ready("now"))
		job.finish(job.expectRunningPod())
	})
})
