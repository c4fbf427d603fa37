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

package job

import (
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry of admission checks, in the queues", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	for _, strategy := range []kueue.QueueingStrategy{kueue.BestEffortFIFO, kueue.StrictFIFO} {
		ginkgo.It(fmt.Sprintf("Should let other jobs pass by in a %s queue", strategy), func() {
			t.createQueuesWith(t.makeClusterQueue(t.ruleFor(t.checkA)).QueueingStrategy(strategy).Obj())
			t.follow(t.createJob("first"))
			t.expectReserved()
			t.retry(t.checkA, longDelay)
			waiting := t.expectWaiting()
			for i := range 3 {
				t.expectPassedBy(fmt.Sprintf("passing-%d", i))
			}
			t.retry(t.checkA, 3)
			requeued := t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
			gomega.Expect(requeued).To(gomega.Equal(waiting+3), "the wait costs no write but those of the check and of its new deadline")
		})

		ginkgo.It(fmt.Sprintf("Should take a workload with a late Retry out of a %s queue, and not leave one without a delay in it", strategy), func() {
			t.createQueuesWith(t.makeClusterQueue(t.ruleFor(t.checkA)).QueueingStrategy(strategy).Obj())
			holder := t.createJob("holder")
			util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, holder)
			t.follow(t.createJob("first"))
			t.wl.until("queued, with its check", util.Timeout, func(wl *kueue.Workload) bool { return len(wl.Status.AdmissionChecks) == 1 })

			t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
			t.wl.until("back in the queue", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.HasRetryChecks(wl) && ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0) == 1
			})

			start := time.Now().Truncate(time.Second)
			t.retry(t.checkA, longDelay)
			waiting := t.expectWaiting()
			evicted, byCheck := workloadevict.IsEvictedByAdmissionCheck(t.wl.last())
			gomega.Expect(byCheck).To(gomega.BeTrue())
			gomega.Expect(evicted.LastTransitionTime.Time).To(gomega.BeTemporally(">=", start))
			t.finish(holder)
			t.expectPassedBy("passing")
			t.retry(t.checkA, 1)
			t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 2})
		})
	}

	type stopCase struct {
		localQueue bool
		policy     kueue.StopPolicy
	}
	stop := func(tc stopCase) {
		ginkgo.GinkgoHelper()
		if !tc.localQueue {
			t.updateClusterQueue(func(spec *kueue.ClusterQueueSpec) { spec.StopPolicy = ptr.To(tc.policy) })
			gomega.Eventually(func(g gomega.Gomega) {
				cq := &kueue.ClusterQueue{}
				g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(t.clusterQueue), cq)).To(gomega.Succeed())
				g.Expect(apimeta.IsStatusConditionFalse(cq.Status.Conditions, kueue.ClusterQueueActive)).To(gomega.BeTrue())
			}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
			return
		}
		gomega.Eventually(func(g gomega.Gomega) {
			lq := &kueue.LocalQueue{}
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(t.localQueue), lq)).To(gomega.Succeed())
			lq.Spec.StopPolicy = ptr.To(tc.policy)
			g.Expect(k8sClient.Update(ctx, lq)).To(gomega.Succeed())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
		gomega.Eventually(func(g gomega.Gomega) {
			lq := &kueue.LocalQueue{}
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(t.localQueue), lq)).To(gomega.Succeed())
			g.Expect(apimeta.IsStatusConditionFalse(lq.Status.Conditions, kueue.LocalQueueActive)).To(gomega.BeTrue())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
	}
	start := func(tc stopCase) {
		ginkgo.GinkgoHelper()
		if tc.localQueue {
			util.UnholdLocalQueue(ctx, k8sClient, t.localQueue)
		} else {
			util.UnholdClusterQueue(ctx, k8sClient, t.clusterQueue)
		}
	}
	holdClusterQueue := stopCase{policy: kueue.Hold}
	drainClusterQueue := stopCase{policy: kueue.HoldAndDrain}
	holdLocalQueue := stopCase{localQueue: true, policy: kueue.Hold}
	drainLocalQueue := stopCase{localQueue: true, policy: kueue.HoldAndDrain}

	ginkgo.DescribeTable("Should reset the checks in a stopped queue, and leave the workload to the queue", func(tc stopCase) {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		stop(tc)
		t.retry(t.checkA, 1)
		t.expectReset(waiting, map[string]int32{t.checkA.Name: 1})

		started := time.Now().Truncate(time.Second)
		start(tc)
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		gomega.Expect(apimeta.FindStatusCondition(t.wl.last().Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime.Time).
			To(gomega.BeTemporally(">=", started))
	},
		ginkgo.Entry("ClusterQueue, Hold", holdClusterQueue),
		ginkgo.Entry("ClusterQueue, HoldAndDrain", drainClusterQueue),
		ginkgo.Entry("LocalQueue, Hold", holdLocalQueue),
		ginkgo.Entry("LocalQueue, HoldAndDrain", drainLocalQueue),
	)

	ginkgo.DescribeTable("Should wait for the delay when the queue is started again before the deadline", func(tc stopCase) {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		stop(tc)
		start(tc)
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	},
		ginkgo.Entry("ClusterQueue, Hold", holdClusterQueue),
		ginkgo.Entry("ClusterQueue, HoldAndDrain", drainClusterQueue),
		ginkgo.Entry("LocalQueue, Hold", holdLocalQueue),
		ginkgo.Entry("LocalQueue, HoldAndDrain", drainLocalQueue),
	)

	ginkgo.DescribeTable("Should wait for the delay of a workload that a stopped queue evicted", func(tc stopCase) {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.admitFirst(t.checkA)
		stop(tc)
		t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		t.retry(t.checkA, longDelay)
		t.endPods()
		waiting := t.expectWaiting()
		start(tc)
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	},
		ginkgo.Entry("ClusterQueue", drainClusterQueue),
		ginkgo.Entry("LocalQueue", drainLocalQueue),
	)

	ginkgo.It("Should wait for the delay when the LocalQueue is created again", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.localQueue, true)
		t.createLocalQueue()
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	})

	updateJob := func(update func(job *batchv1.Job)) {
		ginkgo.GinkgoHelper()
		gomega.Eventually(func(g gomega.Gomega) {
			job := &batchv1.Job{}
			g.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: t.ns.Name, Name: "first"}, job)).To(gomega.Succeed())
			update(job)
			g.Expect(k8sClient.Update(ctx, job)).To(gomega.Succeed())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
	}

	ginkgo.It("Should follow the checks of the queue that the job is moved to while it waits", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, longDelay)
		t.expectWaiting()
		t.otherQueue = utiltestingapi.MakeClusterQueue("retry-other-" + t.ns.Name).
			ResourceGroup(*utiltestingapi.MakeFlavorQuotas(t.resourceFlavor.Name).Resource(corev1.ResourceCPU, "1").Obj()).
			AdmissionCheckStrategy(t.ruleFor(t.checkB)).
			Obj()
		util.MustCreate(ctx, k8sClient, t.otherQueue)
		util.MustCreate(ctx, k8sClient, utiltestingapi.MakeLocalQueue("other", t.ns.Name).ClusterQueue(t.otherQueue.Name).Obj())
		util.ExpectClusterQueuesToBeActive(ctx, k8sClient, t.otherQueue)
		updateJob(func(job *batchv1.Job) { job.Labels[constants.QueueLabel] = "other" })
		t.wl.until("reserved again, with the check of the other queue", util.Timeout, func(wl *kueue.Workload) bool {
			return workload.HasQuotaReservation(wl) && len(wl.Status.AdmissionChecks) == 1
		})
		gomega.Expect(string(t.wl.last().Status.Admission.ClusterQueue)).To(gomega.Equal(t.otherQueue.Name))
		gomega.Expect(string(t.wl.last().Status.AdmissionChecks[0].Name)).To(gomega.Equal(t.checkB.Name))
	})

	ginkgo.It("Should wait on when the priority of the job changes", func() {
		t.createPriorityClasses(map[string]int32{"low": 10, "high": 100})
		t.createQueues(t.ruleFor(t.checkA))
		t.follow(t.create(t.makeJob("first").WorkloadPriorityClass("low-" + t.ns.Name).Obj()))
		t.expectReserved()
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		updateJob(func(job *batchv1.Job) { job.Labels[constants.WorkloadPriorityClassLabel] = "high-" + t.ns.Name })
		t.wl.until("of another priority", util.Timeout, func(wl *kueue.Workload) bool { return ptr.Deref(wl.Spec.Priority, 0) == 100 })
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.DescribeTable("Should wait for the delay when the scheduler preempts the workload", func(preemptedFirst bool) {
		t.createPriorityClasses(map[string]int32{"low": 10, "high": 100})
		t.createQueuesWith(t.makeClusterQueue(t.ruleFor(t.checkA), t.ruleFor(t.checkB)).
			Preemption(kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}).
			Obj())
		t.follow(t.create(t.makeJob("first").WorkloadPriorityClass("low-" + t.ns.Name).Obj()))
		t.expectReserved()
		t.admitFirst(t.checkA, t.checkB)

		high := client.ObjectKey{}
		steps := []func(){
			func() {
				high = t.create(t.makeJob("high").WorkloadPriorityClass("high-" + t.ns.Name).Obj())
			},
			func() { t.retry(t.checkA, longDelay) },
		}
		wantReason := kueue.WorkloadEvictedByPreemption
		if !preemptedFirst {
			steps[0], steps[1] = steps[1], steps[0]
			wantReason = kueue.WorkloadEvictedByAdmissionCheck
		}
		steps[0]()
		t.wl.until("evicted", util.Timeout, func(wl *kueue.Workload) bool { return workloadevict.IsEvicted(wl) })
		gomega.Expect(apimeta.FindStatusCondition(t.wl.last().Status.Conditions, kueue.WorkloadEvicted).Reason).To(gomega.Equal(wantReason))
		steps[1]()
		t.endPods()

		waiting := t.expectWaiting()
		util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, high)
		t.finish(high)
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	},
		ginkgo.Entry("before the Retry", true),
		ginkgo.Entry("after the Retry", false),
	)

	ginkgo.When("WaitForPodsReady has a backoff", func() {
		ginkgo.BeforeEach(func() {
			t.startManager = func() {
				waitForPodsReady := enablePodsReady(util.ShortTimeout)
				waitForPodsReady.BlockAdmission = ptr.To(false)
				waitForPodsReady.RequeuingStrategy = &configapi.RequeuingStrategy{
					Timestamp:          ptr.To(configapi.EvictionTimestamp),
					BackoffBaseSeconds: ptr.To[int32](4),
				}
				fwk.StartManager(ctx, cfg, managerAndControllersSetup(false, true,
					&configapi.Configuration{WaitForPodsReady: waitForPodsReady},
					jobframework.WithWaitForPodsReady(waitForPodsReady),
				))
			}
		})

		// exceedTimeout returns the index of the version that was evicted.
		exceedTimeout := func() int {
			ginkgo.GinkgoHelper()
			t.setCheck(applyCheck, t.checkA, kueue.CheckStateReady, nil)
			t.setCheck(applyCheck, t.checkB, kueue.CheckStateReady, nil)
			evicted := t.wl.until("evicted by PodsReadyTimeout", util.Timeout, func(wl *kueue.Workload) bool {
				cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
				return cond != nil && cond.Status == metav1.ConditionTrue && cond.Reason == kueue.WorkloadEvictedByPodsReadyTimeout
			})
			gomega.Expect(requeueAtOf(t.wl.last())).NotTo(gomega.BeZero())
			return evicted
		}
		expectCount := func(from int) {
			ginkgo.GinkgoHelper()
			for _, version := range t.wl.versions[from:] {
				gomega.Expect(version.Status.RequeueState).NotTo(gomega.BeNil())
				gomega.Expect(version.Status.RequeueState.Count).To(gomega.Equal(ptr.To[int32](1)))
			}
		}

		ginkgo.It("Should wait for the longer delay of a check, and leave the counter of the backoff alone", func() {
			t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
			evicted := exceedTimeout()
			backoff := requeueAtOf(t.wl.last())
			t.retry(t.checkA, 8)
			waiting := t.wl.until("waiting longer", util.Timeout, func(wl *kueue.Workload) bool { return requeueAtOf(wl).After(backoff) })
			t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
			expectCount(evicted)

			ginkgo.By("retrying without a timeout")
			t.retry(t.checkB, 1)
			t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})
			expectCount(evicted)
		})

		ginkgo.It("Should wait for the end of the backoff when the delay of a check is shorter", func() {
			t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
			evicted := exceedTimeout()
			backoff := requeueAtOf(t.wl.last())
			released := t.expectReleased()
			t.retry(t.checkA, 1)
			requeued := t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
			gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", backoff))
			expectCount(evicted)
		})
	})
})
