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
	"encoding/json"
	"fmt"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	utiltestingmetrics "sigs.k8s.io/kueue/pkg/util/testing/metrics"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry of admission checks", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	for name, write := range map[string]checkWriter{"server-side apply": applyCheck, "merge patch": mergePatchCheck, "update": updateCheck} {
		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should release the quota at once and wait, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
				otherKey := t.createJob("other")

				start := time.Now()
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, ptr.To[int32](5))
				retry := t.wl.until("in Retry", util.Timeout, workload.HasRetryChecks)

				ginkgo.By("checking that the quota is used by the other job while this one waits")
				util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, otherKey)
				released := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
				gomega.Expect(workload.HasQuotaReservation(t.wl.versions[released])).To(gomega.BeFalse(), "there is no job to stop first")
				gomega.Expect(t.wl.versions[released].Status.AdmissionChecks[0].State).To(gomega.Equal(kueue.CheckStateRetry))
				gomega.Expect(requeueAtOf(t.wl.versions[released])).To(gomega.BeTemporally(">=", start.Add(5*time.Second)))
				for condition, words := range map[string]string{
					kueue.WorkloadEvicted:       "after 5 s",
					kueue.WorkloadQuotaReserved: "after 5 s",
					kueue.WorkloadRequeued:      requeueAtOf(t.wl.versions[released]).UTC().Format(time.RFC3339),
				} {
					message := apimeta.FindStatusCondition(t.wl.versions[released].Status.Conditions, condition).Message
					gomega.Expect(message).To(gomega.And(gomega.ContainSubstring(t.checkA.Name), gomega.ContainSubstring(words)), condition)
				}

				ginkgo.By("releasing the other job's quota, to see that this one does not take it before its time")
				gomega.Expect(k8sClient.Delete(ctx, testingjob.MakeJob("other", t.ns.Name).Obj(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
				gomega.Eventually(func(g gomega.Gomega) {
					other := &kueue.Workload{}
					g.Expect(client.IgnoreNotFound(k8sClient.Get(ctx, otherKey, other))).To(gomega.Succeed())
					g.Expect(client.IgnoreNotFound(k8sClient.Delete(ctx, other))).To(gomega.Succeed())
				}, util.Timeout, util.Interval).Should(gomega.Succeed())

				requeued := t.expectRetryCycle(retry, map[string]int32{t.checkA.Name: 1})
				gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", start.Add(5*time.Second)))

				ginkgo.By("checking that the retry took three writes: evicted and released, requeued, reserved")
				gomega.Expect([]int{released, requeued, len(t.wl.versions) - 1}).To(gomega.Equal([]int{retry + 1, retry + 2, retry + 3}))
			})
		}
	}

	type lateUpdate struct {
		// onFlavors binds the checks to the flavor, so that a workload without
		// quota is known to need none of them.
		onFlavors bool
		// delayA and delayB are asked for first. The workload must wait for the
		// longer one of them.
		delayA, delayB int32
		change         func()
		wantLonger     bool
		wantCountB     int32
	}
	withdrawn := lateUpdate{
		delayA: 5, delayB: longDelay,
		change: func() { t.setCheck(applyCheck, t.checkB, kueue.CheckStatePending, nil) },
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
			gomega.Expect(moved).To(gomega.Equal(from+2), "that of the check, and that of the new deadline: one write each")
			if !released {
				gomega.Expect(workload.HasQuotaReservation(t.wl.last())).To(gomega.BeTrue())
				t.endPods()
				from = t.expectReleased()
			}
			t.expectRetryCycle(from, map[string]int32{t.checkA.Name: 1, t.checkB.Name: tc.wantCountB})
		},
			ginkgo.Entry("a longer delay", lateUpdate{
				delayA: 6, change: func() { t.retry(t.checkB, 10) }, wantLonger: true, wantCountB: 1,
			}),
			ginkgo.Entry("a shorter delay", lateUpdate{
				delayA: 4, delayB: longDelay, change: func() { t.retry(t.checkB, 6) }, wantCountB: 1,
			}),
			ginkgo.Entry("a delay that is withdrawn", withdrawn),
			ginkgo.Entry("a check bound to a flavor that withdraws its delay", func() lateUpdate { tc := withdrawn; tc.onFlavors = true; return tc }()),
		)
	}

	ginkgo.It("Should requeue at once when the Retry is withdrawn or the check not required any more", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, longDelay)
		t.expectReleased()
		t.setCheck(applyCheck, t.checkA, kueue.CheckStatePending, nil)
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

		t.retry(t.checkB, longDelay)
		t.expectReleased()
		t.updateClusterQueue(func(spec *kueue.ClusterQueueSpec) {
			spec.AdmissionChecksStrategy.AdmissionChecks = spec.AdmissionChecksStrategy.AdmissionChecks[:1]
		})
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	})

	ginkgo.It("Should keep the state, the delay and the count of a check that is bound to a flavor", func() {
		t.reserveFirst(t.ruleFor(t.checkA, kueue.ResourceFlavorReference(t.resourceFlavor.Name)))
		for retries := int32(1); retries <= 2; retries++ {
			t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](2))
			released := t.expectReleased()
			t.expectRetryCycle(released, map[string]int32{t.checkA.Name: retries})
			for _, version := range t.wl.versions[released:] {
				gomega.Expect(version.Status.AdmissionChecks).To(gomega.HaveLen(1))
			}
		}
	})

	ginkgo.DescribeTable("Should deactivate a workload that a check rejects, and queue it as new when it is activated again", func(when string) {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
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
		t.expectDeactivated()
		if when != "requeued" {
			t.expectReactivated()
		}
	},
		ginkgo.Entry("while it holds quota", "reserved"),
		ginkgo.Entry("while its job is stopped for a retry", "evicted"),
		ginkgo.Entry("while it waits", "waiting"),
		ginkgo.Entry("while it is queued", "requeued"),
	)

	ginkgo.DescribeTable("Should reset a workload that is deactivated, and queue it as new when it is activated again", func(stopping bool) {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1})
		if stopping {
			t.admitFirst(t.checkA)
		}
		t.retry(t.checkA, longDelay)
		if stopping {
			t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		} else {
			t.expectWaiting()
		}
		t.setActive(false)
		t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
			return !workload.IsActive(wl) && isAsNew(wl)
		})
		if stopping {
			t.endPods()
			t.expectReleased()
		}
		t.expectReactivated()
	},
		ginkgo.Entry("while its job is stopped", true),
		ginkgo.Entry("while it waits", false),
	)

	ginkgo.It("Should count from zero after success, without a write of its own", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](1))
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1})
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateReady, nil)
		ready := t.wl.until("ready", util.Timeout, workload.HasAllChecksReady)
		admitted := t.wl.until("admitted", util.Timeout, workload.IsAdmitted)
		gomega.Expect(admitted).To(gomega.Equal(ready + 1))
		gomega.Expect(ptr.Deref(t.wl.versions[admitted].Status.AdmissionChecks[0].RetryCount, 0)).To(gomega.BeZero())

		ginkgo.By("retrying the admitted workload")
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](1))
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should count each check until it succeeds", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1})

		ginkgo.By("retrying the other check, while the first one succeeds")
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateReady, nil)
		t.wl.until("ready", util.Timeout, func(wl *kueue.Workload) bool { return wl.Status.AdmissionChecks[0].State == kueue.CheckStateReady })
		t.retry(t.checkB, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkB.Name: 1})

		ginkgo.By("retrying both")
		t.retry(t.checkA, 4)
		t.retry(t.checkB, 1)
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1, t.checkB.Name: 2})
	})

	for name, write := range map[string]checkWriter{
		"server-side apply":                         applyCheck,
		"server-side apply with a resource version": applyCheckWithResourceVersion,
		"merge patch":                               mergePatchCheck,
		"update":                                    updateCheck,
	} {
		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should know no delay of before, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))

				ginkgo.By("leaving the delays out while the workload waits")
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, ptr.To[int32](longDelay))
				t.expectWaiting()
				t.setCheck(write, t.checkB, kueue.CheckStateRetry, ptr.To[int32](2*longDelay))
				t.wl.until("waiting longer", util.Timeout, waitsFor(longDelay*3/2*time.Second))
				t.setCheck(write, t.checkB, kueue.CheckStateRetry, nil)
				t.setCheck(write, t.checkA, kueue.CheckStateRetry, nil)
				t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
				t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

				ginkgo.By("asking for none after the requeue, with an old transition time")
				t.writeCheck(write, kueue.AdmissionCheckState{
					Name:               kueue.AdmissionCheckReference(t.checkA.Name),
					State:              kueue.CheckStateRetry,
					LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
				})
				evicted := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
				gomega.Expect(requeueAtOf(t.wl.versions[evicted])).To(gomega.BeZero())
				requeued := t.wl.until("requeued", util.Timeout, isRequeued)
				for _, check := range t.wl.versions[requeued].Status.AdmissionChecks {
					want := map[string]int32{t.checkA.Name: 2, t.checkB.Name: 1}[string(check.Name)]
					gomega.Expect(check.RetryCount).To(gomega.Equal(&want), "retryCount of %s", check.Name)
				}
			})
		}
	}

	ginkgo.It("Should count the delay of an old transition time from the eviction", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		start := time.Now()
		old := kueue.AdmissionCheckState{
			Name:                kueue.AdmissionCheckReference(t.checkA.Name),
			State:               kueue.CheckStateRetry,
			LastTransitionTime:  metav1.NewTime(start.Add(-time.Hour)),
			RequeueAfterSeconds: ptr.To[int32](3),
		}
		t.writeCheck(applyCheck, old)
		released := t.expectReleased()

		ginkgo.By("sending another one while it waits")
		old.Name = kueue.AdmissionCheckReference(t.checkB.Name)
		old.RequeueAfterSeconds = ptr.To[int32](5)
		t.writeCheck(applyCheck, old)

		requeued := t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})
		gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", start.Add(5*time.Second)))
	})

	ginkgo.It("Should tell of the delay by events", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, 3)
		released := t.expectReleased()
		t.retry(t.checkB, 5)
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1, t.checkB.Name: 1})
		for reason, check := range map[string]string{"EvictedDueToAdmissionCheck": t.checkA.Name, "RequeueDelayed": t.checkB.Name} {
			gomega.Eventually(func(g gomega.Gomega) {
				events := &corev1.EventList{}
				g.Expect(k8sClient.List(ctx, events, client.InNamespace(t.key.Namespace))).To(gomega.Succeed())
				g.Expect(events.Items).To(gomega.ContainElement(gomega.And(
					gomega.HaveField("InvolvedObject.Name", t.key.Name),
					gomega.HaveField("Reason", reason),
					gomega.HaveField("Message", gomega.ContainSubstring(check)),
				)))
			}, util.Timeout, util.Interval).Should(gomega.Succeed())
		}
	})

	ginkgo.It("Should report the delay by metrics, which go with the ClusterQueue", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		// values are those for the ClusterQueue, and of the check, if any.
		values := func(collector prometheus.Collector, check string) func() []float64 {
			labels := map[string]string{"cluster_queue": t.clusterQueue.Name}
			if check != "" {
				labels["admission_check"] = check
			}
			return func() []float64 {
				var values []float64
				for _, point := range utiltestingmetrics.CollectFilteredGaugeVec(collector, labels) {
					values = append(values, point.Value)
				}
				return values
			}
		}
		waits := values(metrics.AdmissionCheckRetryWaits, "")
		retries := values(metrics.AdmissionCheckRetriesTotal, t.checkA.Name)
		delays := values(metrics.AdmissionCheckRetryDelay, t.checkA.Name)
		lateness := values(metrics.AdmissionCheckRetryLateness, "")

		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		gomega.Eventually(waits, util.Timeout, util.ShortInterval).Should(gomega.ConsistOf(
			float64(1), float64(requeueAtOf(t.wl.last()).Unix())))
		gomega.Expect(retries()).To(gomega.BeEmpty())

		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
		gomega.Eventually(retries, util.Timeout, util.ShortInterval).Should(gomega.Equal([]float64{1}))
		gomega.Expect(delays()).To(gomega.HaveLen(1))
		gomega.Eventually(lateness, util.Timeout, util.ShortInterval).Should(gomega.HaveLen(1))
		gomega.Eventually(waits, util.Timeout, util.ShortInterval).Should(gomega.Equal([]float64{0}))

		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, t.ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.clusterQueue, true)
		for _, of := range []func() []float64{waits, retries, delays, lateness} {
			gomega.Eventually(of, util.Timeout, util.ShortInterval).Should(gomega.BeEmpty())
		}
	})

	ginkgo.It("Should take the fields as Kueue does, with the gate off", func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		t.reserveFirst(t.ruleFor(t.checkA))
		t.expectRetryWithGateOff()
	})

	ginkgo.It("Should refuse bad values, naming the field", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		before := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, t.key, before)).To(gomega.Succeed())
		for _, field := range []string{"requeueAfterSeconds", "retryCount"} {
			for _, value := range []any{-1, "soon", 1.5, int64(1) << 31} {
				data, err := json.Marshal(map[string]any{"status": map[string]any{"admissionChecks": []map[string]any{{
					"name": t.checkA.Name, "state": "Retry", "message": "", "lastTransitionTime": metav1.Now(), field: value,
				}}}})
				gomega.Expect(err).NotTo(gomega.HaveOccurred())
				err = k8sClient.Status().Patch(ctx, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: t.key.Name, Namespace: t.key.Namespace}}, client.RawPatch(types.MergePatchType, data))
				gomega.Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(gomega.BeTrue(), "%s=%v: %v", field, value, err)
				gomega.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(field)))
			}
		}
		after := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, t.key, after)).To(gomega.Succeed())
		gomega.Expect(after.ResourceVersion).To(gomega.Equal(before.ResourceVersion))
	})
})
