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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

// setPolicy writes spec.retry of the check, in JSON, as an operator would.
func setPolicy(check *kueue.AdmissionCheck, policy string) error {
	return k8sClient.Patch(ctx, &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: check.Name}},
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec": {"retry": %s}}`, policy)))
}

// expectDelay returns the index of the version in which the check has the delay.
func (t *delayedRetryTest) expectDelay(check *kueue.AdmissionCheck, want int32) int {
	ginkgo.GinkgoHelper()
	return t.wl.until(fmt.Sprintf("with a delay of %d s", want), util.Timeout, func(wl *kueue.Workload) bool {
		state := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, kueue.AdmissionCheckReference(check.Name))
		return state != nil && ptr.Equal(state.PolicyDelaySeconds, &want)
	})
}

var _ = ginkgo.Describe("Delayed retry of admission checks, by a policy", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	ginkgo.BeforeEach(func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRetryStrategy, true)
	})

	for name, write := range map[string]checkWriter{"server-side apply": applyCheck, "merge patch": mergePatchCheck, "update": updateCheck} {
		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should delay a bare Retry, without a write more, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				gomega.Expect(setPolicy(t.checkA, `{"strategy": "Backoff", "baseDelaySeconds": 1, "factor": "3"}`)).To(gomega.Succeed())
				t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
				for retries, delay := range []int32{1, 3} {
					t.setCheck(write, t.checkA, kueue.CheckStateRetry, nil)
					retry := t.wl.until("in Retry", util.Timeout, workload.HasRetryChecks)
					released := t.expectDelay(t.checkA, delay)
					gomega.Expect(released).To(gomega.Equal(retry + 1))
					wl := t.wl.versions[released]
					gomega.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
					gomega.Expect(wl.Status.AdmissionChecks[0].RequeueAfterSeconds).To(gomega.BeNil(), "it is the controller's")
					evicted := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
					gomega.Expect(requeueAtOf(wl)).To(gomega.BeTemporally("==", evicted.LastTransitionTime.Add(time.Duration(delay)*time.Second)))
					requeued := t.expectRetryCycle(retry, map[string]int32{t.checkA.Name: int32(retries) + 1})
					gomega.Expect([]int{requeued, len(t.wl.versions) - 1}).To(gomega.Equal([]int{retry + 2, retry + 3}))
				}
			})
		}
	}

	ginkgo.It("Should give way to a delay of the controller's own, 0 included, and come back after it", func() {
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 600}`)).To(gomega.Succeed())
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
		t.expectDelay(t.checkA, 600)
		t.retry(t.checkA, 1200)
		t.wl.until("waiting longer", util.Timeout, waitsFor(900*time.Second))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
		t.wl.until("waiting for the policy's delay", util.Timeout, func(wl *kueue.Workload) bool {
			return waitsFor(time.Second)(wl) && !waitsFor(900*time.Second)(wl)
		})
		waiting := len(t.wl.versions) - 1
		t.retry(t.checkA, 0)
		requeued := t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
		gomega.Expect(requeued).To(gomega.BeNumerically("<=", waiting+3))
		check := t.wl.versions[requeued].Status.AdmissionChecks[0]
		gomega.Expect([]*int32{check.RequeueAfterSeconds, check.PolicyDelaySeconds}).To(gomega.HaveEach(gomega.BeNil()))
	})

	ginkgo.It("Should keep the delay of those that wait when the policy changes or goes, and the manager restarts", func() {
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 600}`)).To(gomega.Succeed())
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
		want := t.wl.versions[t.expectDelay(t.checkA, 600)]
		for i, policy := range []string{`{"strategy": "Static", "baseDelaySeconds": 1}`, "null"} {
			gomega.Expect(setPolicy(t.checkA, policy)).To(gomega.Succeed())
			fwk.StopManager(ctx)
			t.startManager()
			t.expectPassedBy(fmt.Sprintf("passing-%d", i))
			got := &kueue.Workload{}
			gomega.Expect(k8sClient.Get(ctx, t.key, got)).To(gomega.Succeed())
			gomega.Expect(got.ResourceVersion).To(gomega.Equal(want.ResourceVersion))
		}
	})

	ginkgo.It("Should give up at the limit, and count from zero after a reactivation", func() {
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 1, "limitCount": 1}`)).To(gomega.Succeed())
		t.reserveFirst(t.ruleFor(t.checkA))
		for range 2 {
			t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
			t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
			t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

			t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
			evicted := t.wl.until("deactivated and as new", util.Timeout, func(wl *kueue.Workload) bool { return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl) })
			condition := apimeta.FindStatusCondition(t.wl.versions[evicted].Status.Conditions, kueue.WorkloadEvicted)
			gomega.Expect(condition.Reason).To(gomega.Equal("DeactivatedDueToAdmissionCheckRetryLimitExceeded"))
			gomega.Expect(condition.Message).To(gomega.ContainSubstring(t.checkA.Name))
			t.setActive(true)
			t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		}
	})

	ginkgo.It("Should not retry what waits when the limit is lowered", func() {
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 5}`)).To(gomega.Succeed())
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
		t.expectDelay(t.checkA, 5)
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 5, "limitCount": 0}`)).To(gomega.Succeed())
		t.expectDeactivated()
	})

	ginkgo.It("Should ignore it with the gate off", func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRetryStrategy, false)
		gomega.Expect(setPolicy(t.checkA, `{"strategy": "Static", "baseDelaySeconds": 600, "limitCount": 0}`)).To(gomega.Succeed())
		t.reserveFirst(t.ruleFor(t.checkA))
		t.setCheck(applyCheck, t.checkA, kueue.CheckStateRetry, nil)
		t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		for _, wl := range t.wl.versions {
			gomega.Expect(requeueAtOf(wl)).To(gomega.BeZero())
		}
	})

	ginkgo.It("Should refuse bad policies, naming the field", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		for policy, field := range map[string]string{
			`{"baseDelaySeconds": 30}`:                                               "strategy",
			`{"strategy": "Sometimes", "baseDelaySeconds": 30}`:                      "strategy",
			`{"strategy": "Static"}`:                                                 "baseDelaySeconds",
			`{"strategy": "Static", "baseDelaySeconds": -1}`:                         "baseDelaySeconds",
			`{"strategy": "Static", "baseDelaySeconds": 2147483648}`:                 "baseDelaySeconds",
			`{"strategy": "Static", "baseDelaySeconds": 30, "factor": "2"}`:          "factor",
			`{"strategy": "Static", "baseDelaySeconds": 30, "maxDelaySeconds": 60}`:  "maxDelaySeconds",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "maxDelaySeconds": 29}`: "maxDelaySeconds",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "maxDelaySeconds": -1}`: "maxDelaySeconds",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "factor": "0.9"}`:       "factor",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "factor": 0}`:           "factor",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "factor": "fast"}`:      "factor",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "jitter": "1.1"}`:       "jitter",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "jitter": "-0.1"}`:      "jitter",
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "limitCount": -1}`:      "limitCount",
		} {
			err := setPolicy(t.checkA, policy)
			gomega.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%s: %v", policy, err)
			gomega.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.retry."+field)), policy)
		}
		for _, policy := range []string{
			`{"strategy": "Static", "baseDelaySeconds": 0, "jitter": 1, "limitCount": 0}`,
			`{"strategy": "Backoff", "baseDelaySeconds": 30, "maxDelaySeconds": 30, "factor": 1, "jitter": 0}`,
			`{"strategy": "Backoff", "baseDelaySeconds": 2147483647, "maxDelaySeconds": 2147483647, "factor": "1e3", "jitter": "100m", "limitCount": 2147483647}`,
		} {
			gomega.Expect(setPolicy(t.checkA, policy)).To(gomega.Succeed(), policy)
		}
	})
})
