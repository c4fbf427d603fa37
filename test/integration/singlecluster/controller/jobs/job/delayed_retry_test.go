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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
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
				for _, condition := range []string{kueue.WorkloadEvicted, kueue.WorkloadQuotaReserved, kueue.WorkloadRequeued} {
					message := apimeta.FindStatusCondition(t.wl.versions[released].Status.Conditions, condition).Message
					gomega.Expect(message).To(gomega.And(gomega.ContainSubstring(t.checkA.Name), gomega.ContainSubstring(requeueAtOf(t.wl.versions[released]).UTC().Format(time.RFC3339))), condition)
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

	ginkgo.It("Should requeue at once when the Retry is withdrawn or the check not required any more", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](600))
		t.expectReleased()
		t.setCheck(applyCheck, t.checkA, kueue.CheckStatePending, nil)
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](600))
		t.expectReleased()
		t.updateClusterQueue(func(spec *kueue.ClusterQueueSpec) {
			spec.AdmissionChecksStrategy.AdmissionChecks = spec.AdmissionChecksStrategy.AdmissionChecks[1:]
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

	ginkgo.It("Should requeue at the time recorded when the gate is switched off", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](4))
		released := t.expectReleased()
		fwk.StopManager(ctx)
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		t.startManager()
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should deactivate a waiting workload that a check rejects, and queue it as new when it is activated again", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		for _, held := range []bool{true, false} {
			t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](600))
			t.expectReleased()
			t.setCheck(applyCheck, t.checkA, kueue.CheckStatePending, nil)
			t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
			if held {
				ginkgo.By("rejecting it while it holds quota")
			} else {
				ginkgo.By("rejecting it while it waits")
				t.setCheck(updateCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](600))
				t.expectReleased()
			}
			t.setCheck(applyCheck, t.checkB, kueue.CheckStateRejected, nil)
			t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl)
			})

			ginkgo.By("activating it again")
			t.setActive(true)
			t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		}
	})

	ginkgo.It("Should forget the delay of a workload that is deactivated", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](1))
		t.expectRetryCycle(t.expectReleased(), map[string]int32{t.checkA.Name: 1})
		for _, write := range []checkWriter{applyCheck, updateCheck} {
			t.setCheck(write, t.checkA, kueue.CheckStateRetry, ptr.To[int32](600))
			t.expectReleased()
			t.setActive(false)
			t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.IsActive(wl) && isAsNew(wl)
			})
			t.setActive(true)
			t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		}
	})

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
