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
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	utiltestingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry of admission checks, what the checks say", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	type lateUpdate struct {
		// onFlavors binds the checks to the flavor, so that a workload without
		// quota is known to need none of them.
		onFlavors bool
		// delayA and delayB are asked for first. The workload must wait for the
		// longer one of them.
		delayA, delayB int32
		change         func()
		// wantWrites is the number of writes that the change causes: its own, and
		// that of the new deadline.
		wantWrites int
		wantLonger bool
		wantCountB int32
	}
	longer := lateUpdate{
		delayA: 6, change: func() { t.retry(t.checkB, 10) },
		wantWrites: 2, wantLonger: true, wantCountB: 1,
	}
	shorter := lateUpdate{
		delayA: 4, delayB: longDelay, change: func() { t.retry(t.checkB, 6) },
		wantWrites: 2, wantCountB: 1,
	}
	withdrawn := lateUpdate{
		delayA: 5, delayB: longDelay, change: func() { t.setCheck(applyCheck, t.checkB, kueue.CheckStatePending, nil) },
		wantWrites: 2,
	}
	succeeded := lateUpdate{
		delayA: 5, delayB: longDelay, change: func() { t.setCheck(applyCheck, t.checkB, kueue.CheckStateReady, nil) },
		wantWrites: 2,
	}
	for _, released := range []bool{false, true} {
		when := map[bool]string{false: "before", true: "after"}[released]
		ginkgo.DescribeTable(fmt.Sprintf("Should follow a late update %s the release of the quota", when), func(tc lateUpdate) {
			ruleA, ruleB := t.ruleFor(t.checkA), t.ruleFor(t.checkB)
			if tc.onFlavors {
				flavor := kueue.ResourceFlavorReference(t.resourceFlavor.Name)
				ruleA, ruleB = t.ruleFor(t.checkA, flavor), t.ruleFor(t.checkB, flavor)
			}
			t.reserveFirst(ruleA, ruleB)
			t.admitFirst(t.checkA, t.checkB)
			t.retry(t.checkA, tc.delayA)
			from := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
			if tc.delayB > 0 {
				t.retry(t.checkB, tc.delayB)
				from = t.wl.until("waiting for the longer delay", util.Timeout, waitsFor(time.Duration(tc.delayB)*time.Second/2))
			}
			if released {
				t.endPods()
				from = t.expectReleased()
			}
			deadline := requeueAtOf(t.wl.last())

			ginkgo.By("changing the delay")
			tc.change()
			moved := t.wl.until("waiting for another deadline", util.Timeout, func(wl *kueue.Workload) bool { return !requeueAtOf(wl).Equal(deadline) })
			gomega.Expect(requeueAtOf(t.wl.last()).After(deadline)).To(gomega.Equal(tc.wantLonger))
			gomega.Expect(moved - from).To(gomega.Equal(tc.wantWrites))
			if !released {
				gomega.Expect(workload.HasQuotaReservation(t.wl.last())).To(gomega.BeTrue())
				t.endPods()
				from = t.expectReleased()
			}
			t.expectRetryCycle(from, map[string]int32{t.checkA.Name: 1, t.checkB.Name: tc.wantCountB})
		},
			ginkgo.Entry("a longer delay", longer),
			ginkgo.Entry("a shorter delay", shorter),
			ginkgo.Entry("a delay that is withdrawn", withdrawn),
			ginkgo.Entry("a check that succeeds", succeeded),
			ginkgo.Entry("a check bound to a flavor that asks for a longer delay", func() lateUpdate { tc := longer; tc.onFlavors = true; return tc }()),
			ginkgo.Entry("a check bound to a flavor that withdraws its delay", func() lateUpdate { tc := withdrawn; tc.onFlavors = true; return tc }()),
		)

		ginkgo.It(fmt.Sprintf("Should forget the delay of a check that is not required any more %s the release of the quota", when), func() {
			t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
			t.admitFirst(t.checkA, t.checkB)
			t.retry(t.checkA, 5)
			from := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
			t.retry(t.checkB, longDelay)
			t.wl.until("waiting for the longer delay", util.Timeout, waitsFor(longDelay/2*time.Second))
			if released {
				t.endPods()
				t.expectReleased()
			}
			t.dropCheckB()
			t.wl.until("waiting for the other check", util.Timeout, func(wl *kueue.Workload) bool {
				return !requeueAtOf(wl).IsZero() && !waitsFor(longDelay/2*time.Second)(wl)
			})
			if !released {
				t.endPods()
			}
			requeued := t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
			gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", requeueAtOf(t.wl.versions[requeued-1])))
			gomega.Expect(requeueAtOf(t.wl.versions[requeued-1])).To(gomega.BeTemporally(">", apimeta.FindStatusCondition(t.wl.versions[from].Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time))
			t.wl.until("reserved again, with one check", util.Timeout, func(wl *kueue.Workload) bool {
				return workload.HasQuotaReservation(wl) && len(wl.Status.AdmissionChecks) == 1
			})
			gomega.Expect(t.wl.last().Status.AdmissionChecks[0].RetryCount).To(gomega.Equal(ptr.To[int32](1)))
		})
	}

	ginkgo.DescribeTable("Should deactivate a workload that a check rejects late", func(onFlavors bool, when string) {
		rules := []kueue.AdmissionCheckStrategyRule{t.ruleFor(t.checkA), t.ruleFor(t.checkB)}
		if onFlavors {
			flavor := kueue.ResourceFlavorReference(t.resourceFlavor.Name)
			rules = []kueue.AdmissionCheckStrategyRule{t.ruleFor(t.checkA, flavor), t.ruleFor(t.checkB, flavor)}
		}
		t.reserveFirst(rules...)
		switch when {
		case "evicted":
			t.admitFirst(t.checkA, t.checkB)
			t.retry(t.checkA, longDelay)
			t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		case "waiting":
			t.retry(t.checkA, longDelay)
			t.expectWaiting()
		case "requeued":
			holder := t.createJob("holder")
			t.retry(t.checkA, 1)
			released := t.expectReleased()
			util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, holder)
			t.expectRequeued(released, map[string]int32{t.checkA.Name: 1})
		}
		t.setCheck(applyCheck, t.checkB, kueue.CheckStateRejected, nil)
		t.wl.until("deactivated", util.Timeout, func(wl *kueue.Workload) bool { return !workload.IsActive(wl) })
		if when == "evicted" {
			t.endPods()
		}
		t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
			return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl)
		})
	},
		ginkgo.Entry("when it is evicted and holds quota", false, "evicted"),
		ginkgo.Entry("when it is evicted and holds quota, with checks bound to a flavor", true, "evicted"),
		ginkgo.Entry("when it waits, with checks bound to a flavor", true, "waiting"),
		ginkgo.Entry("when it is requeued and waits for quota", false, "requeued"),
	)

	ginkgo.It("Should count each check until it succeeds", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		for retries := int32(1); retries <= 2; retries++ {
			t.retry(t.checkA, 1)
			t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: retries})
		}

		ginkgo.By("retrying the other check, while the first one succeeds")
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateReady, nil)
		t.wl.until("ready", util.Timeout, func(wl *kueue.Workload) bool { return wl.Status.AdmissionChecks[0].State == kueue.CheckStateReady })
		t.retry(t.checkB, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkB.Name: 1})

		ginkgo.By("retrying both")
		t.retry(t.checkA, 4)
		t.retry(t.checkB, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1, t.checkB.Name: 2})

		ginkgo.By("retrying one of them without a delay")
		t.setCheck(applyCheck, t.checkB, kueue.CheckStateRetry, nil)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1, t.checkB.Name: 3})
	})

	for name, write := range map[string]checkWriter{
		"server-side apply":                         applyCheck,
		"server-side apply with a resource version": applyCheckWithResourceVersion,
		"merge patch":                               mergePatchCheck,
		"update":                                    updateCheck,
	} {
		ginkgo.It("Should count the delay of an old transition time from the eviction, the check written by "+name, func() {
			t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
			start := time.Now()
			old := kueue.AdmissionCheckState{
				Name:                kueue.AdmissionCheckReference(t.checkA.Name),
				State:               kueue.CheckStateRetry,
				LastTransitionTime:  metav1.NewTime(start.Add(-time.Hour)),
				RequeueAfterSeconds: ptr.To[int32](3),
			}
			t.writeCheck(write, old)
			released := t.expectReleased()

			ginkgo.By("sending another one while it waits")
			old.Name = kueue.AdmissionCheckReference(t.checkB.Name)
			old.RequeueAfterSeconds = ptr.To[int32](5)
			t.writeCheck(write, old)

			requeued := t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})
			gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", start.Add(5*time.Second)))
		})

		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should give up a delay that is left out while the workload waits, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, ptr.To[int32](longDelay))
				t.expectWaiting()
				t.setCheck(write, t.checkB, kueue.CheckStateRetry, ptr.To[int32](2*longDelay))
				t.wl.until("waiting longer", util.Timeout, waitsFor(longDelay*3/2*time.Second))
				t.setCheck(write, t.checkB, kueue.CheckStateRetry, nil)
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, nil)
				requeued := t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
				for _, check := range t.wl.versions[requeued].Status.AdmissionChecks {
					gomega.Expect(check.RetryCount).To(gomega.Equal(ptr.To[int32](1)), "retryCount of %s", check.Name)
				}
			})

			ginkgo.It(fmt.Sprintf("Should not remember the delay of an earlier cycle, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, ptr.To[int32](3))
				released := t.expectReleased()
				t.setCheck(write, t.checkB, kueue.CheckStateRetry, ptr.To[int32](1))
				t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})

				t.setCheck(write, t.checkA, kueue.CheckStateRetry, nil)
				evicted := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
				gomega.Expect(t.wl.last().Status.AdmissionChecks[0].RequeueAfterSeconds).To(gomega.BeNil())
				gomega.Expect(requeueAtOf(t.wl.last())).To(gomega.BeTemporally("<=", apimeta.FindStatusCondition(t.wl.last().Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime.Time))
				t.expectRetryCycle(evicted, map[string]int32{t.checkA.Name: 2, t.checkB.Name: 1})
			})
		}
	}

	ginkgo.It("Should take a delay from a transition time that is ahead", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		ahead := metav1.NewTime(time.Now().Add(3 * time.Second))
		t.writeCheck(applyCheck, kueue.AdmissionCheckState{
			Name:                kueue.AdmissionCheckReference(t.checkA.Name),
			State:               kueue.CheckStateRetry,
			LastTransitionTime:  ahead,
			RequeueAfterSeconds: ptr.To[int32](1),
		})
		released := t.expectReleased()
		gomega.Expect(requeueAtOf(t.wl.last())).To(gomega.BeTemporally(">=", ahead.Truncate(time.Second).Add(time.Second)))
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should tell of the delay by events", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, 3)
		released := t.expectReleased()
		t.retry(t.checkB, 5)
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})
		for _, reason := range []string{"EvictedDueToAdmissionCheck", "RequeueDelayed", "Requeued"} {
			gomega.Eventually(func(g gomega.Gomega) {
				events := &corev1.EventList{}
				g.Expect(k8sClient.List(ctx, events, client.InNamespace(t.key.Namespace))).To(gomega.Succeed())
				g.Expect(events.Items).To(gomega.ContainElement(gomega.And(
					gomega.HaveField("InvolvedObject.Name", t.key.Name), gomega.HaveField("Reason", reason))))
			}, util.Timeout, util.Interval).Should(gomega.Succeed())
		}
	})

	ginkgo.It("Should report the delay by metrics, which go with the ClusterQueue", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		points := func(vec prometheus.Collector) []utiltestingmetrics.MetricDataPoint {
			return utiltestingmetrics.CollectFilteredGaugeVec(vec, map[string]string{"cluster_queue": t.clusterQueue.Name})
		}
		inQueue := map[string]string{"cluster_queue": t.clusterQueue.Name}
		ofCheck := func(check *kueue.AdmissionCheck) map[string]string {
			return map[string]string{"cluster_queue": t.clusterQueue.Name, "admission_check": check.Name}
		}

		t.retry(t.checkA, 3)
		released := t.expectReleased()
		gomega.Eventually(func() []utiltestingmetrics.MetricDataPoint {
			return points(metrics.AdmissionCheckRetryWaits)
		}, util.Timeout, util.ShortInterval).Should(gomega.ConsistOf(
			utiltestingmetrics.MetricDataPoint{Labels: inQueue, Value: 1},
			utiltestingmetrics.MetricDataPoint{Labels: inQueue, Value: float64(requeueAtOf(t.wl.last()).Unix())},
		))
		gomega.Expect(points(metrics.AdmissionCheckRetriesTotal)).To(gomega.BeEmpty())

		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
		gomega.Eventually(func() []utiltestingmetrics.MetricDataPoint {
			return points(metrics.AdmissionCheckRetriesTotal)
		}, util.Timeout, util.ShortInterval).Should(gomega.ConsistOf(utiltestingmetrics.MetricDataPoint{Labels: ofCheck(t.checkA), Value: 1}))
		gomega.Expect(points(metrics.AdmissionCheckRetryDelay)).To(gomega.ConsistOf(utiltestingmetrics.MetricDataPoint{Labels: ofCheck(t.checkA)}))
		gomega.Eventually(func() []utiltestingmetrics.MetricDataPoint {
			return points(metrics.AdmissionCheckRetryLateness)
		}, util.Timeout, util.ShortInterval).Should(gomega.HaveLen(1))
		gomega.Eventually(func() []utiltestingmetrics.MetricDataPoint {
			return points(metrics.AdmissionCheckRetryWaits)
		}, util.Timeout, util.ShortInterval).Should(gomega.ConsistOf(utiltestingmetrics.MetricDataPoint{Labels: inQueue}))

		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, t.ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.clusterQueue, true)
		for _, vec := range []prometheus.Collector{
			metrics.AdmissionCheckRetriesTotal, metrics.AdmissionCheckRetryDelay, metrics.AdmissionCheckRetryLateness, metrics.AdmissionCheckRetryWaits,
		} {
			gomega.Eventually(func() []utiltestingmetrics.MetricDataPoint { return points(vec) }, util.Timeout, util.ShortInterval).Should(gomega.BeEmpty())
		}
	})
})
