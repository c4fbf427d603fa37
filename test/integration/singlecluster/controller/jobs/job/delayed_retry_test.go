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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/test/util"
)

// checkWriter writes the state of an admission check, as its controller would.
type checkWriter func(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState)

func applyCheck(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState) {
	patch := &kueue.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{check}},
	}
	g.Expect(k8sClient.Status().Patch(ctx, patch, client.Apply, client.FieldOwner("ctrl-"+string(check.Name)), client.ForceOwnership)).To(gomega.Succeed())
}

func mergePatchCheck(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState) {
	wl := &kueue.Workload{}
	g.Expect(k8sClient.Get(ctx, key, wl)).To(gomega.Succeed())
	check.RetryCount = admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name).RetryCount
	*admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name) = check
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": wl.ResourceVersion},
		"status":   map[string]any{"admissionChecks": wl.Status.AdmissionChecks},
	})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(k8sClient.Status().Patch(ctx, wl, client.RawPatch(types.MergePatchType, data), client.FieldOwner("ctrl-"+string(check.Name)))).To(gomega.Succeed())
}

func updateCheck(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState) {
	wl := &kueue.Workload{}
	g.Expect(k8sClient.Get(ctx, key, wl)).To(gomega.Succeed())
	workload.SetAdmissionCheckState(&wl.Status.AdmissionChecks, check, clock.RealClock{})
	admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name).LastTransitionTime = check.LastTransitionTime
	g.Expect(k8sClient.Status().Update(ctx, wl, client.FieldOwner("ctrl-"+string(check.Name)))).To(gomega.Succeed())
}

func setCheck(write checkWriter, key client.ObjectKey, name kueue.AdmissionCheckReference, state kueue.CheckState, requeueAfterSeconds *int32) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		write(g, key, kueue.AdmissionCheckState{
			Name:                name,
			State:               state,
			Message:             "by test",
			LastTransitionTime:  metav1.Now(),
			RequeueAfterSeconds: requeueAfterSeconds,
		})
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

// history holds each version of a workload, with the time at which it was seen.
type history struct {
	watch    watch.Interface
	versions []*kueue.Workload
	seen     []time.Time
}

func watchWorkload(key client.ObjectKey) *history {
	ginkgo.GinkgoHelper()
	w, err := k8sClient.(client.WithWatch).Watch(ctx, &kueue.WorkloadList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return &history{watch: w}
}

// until reads on until a version satisfies the condition, and returns its index.
// The condition gets all versions, the newest last.
func (h *history) until(what string, timeout time.Duration, condition func(wl *kueue.Workload) bool) int {
	ginkgo.GinkgoHelper()
	deadline := time.After(timeout)
	for {
		select {
		case event := <-h.watch.ResultChan():
			wl, isWorkload := event.Object.(*kueue.Workload)
			gomega.Expect(isWorkload).To(gomega.BeTrue(), "unexpected event %v", event)
			h.versions = append(h.versions, wl)
			h.seen = append(h.seen, time.Now())
			if condition(wl) {
				return len(h.versions) - 1
			}
		case <-deadline:
			ginkgo.Fail(fmt.Sprintf("timed out waiting for the workload to be %s; last seen:\n%v", what, h.versions[len(h.versions)-1].Status))
		}
	}
}

func isRequeued(wl *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
}

func isReleased(wl *kueue.Workload) bool {
	return workload.IsEvicted(wl) && !workload.HasQuotaReservation(wl)
}

// isAsNew returns true if retries have left nothing on the workload.
func isAsNew(wl *kueue.Workload) bool {
	for _, check := range wl.Status.AdmissionChecks {
		if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || check.RetryCount != nil {
			return false
		}
	}
	return wl.Status.RequeueState == nil
}

func setActive(key client.ObjectKey, active bool) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		wl := &kueue.Workload{}
		g.Expect(k8sClient.Get(ctx, key, wl)).To(gomega.Succeed())
		wl.Spec.Active = ptr.To(active)
		g.Expect(k8sClient.Update(ctx, wl)).To(gomega.Succeed())
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

func requeueAtOf(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

var _ = ginkgo.Describe("Delayed retry of admission checks", ginkgo.Label("feature:acrequeueafter"), ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
	var (
		ns             *corev1.Namespace
		resourceFlavor *kueue.ResourceFlavor
		checkA, checkB *kueue.AdmissionCheck
		clusterQueue   *kueue.ClusterQueue
		localQueue     *kueue.LocalQueue
		key            client.ObjectKey
		wl             *history
	)

	startManager := func() {
		fwk.StartManager(ctx, cfg, managerAndControllersSetup(false, true, nil))
	}

	createJob := func(name string) client.ObjectKey {
		ginkgo.GinkgoHelper()
		job := testingjob.MakeJob(name, ns.Name).Queue(kueue.LocalQueueName(localQueue.Name)).Request(corev1.ResourceCPU, "1").Obj()
		util.MustCreate(ctx, k8sClient, job)
		return client.ObjectKey{Namespace: ns.Name, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)}
	}

	ruleFor := func(check *kueue.AdmissionCheck, onFlavors ...kueue.ResourceFlavorReference) kueue.AdmissionCheckStrategyRule {
		return *utiltestingapi.MakeAdmissionCheckStrategyRule(kueue.AdmissionCheckReference(check.Name), onFlavors...).Obj()
	}

	// createQueues makes room for one job at a time.
	createQueues := func(checks ...kueue.AdmissionCheckStrategyRule) {
		ginkgo.GinkgoHelper()
		clusterQueue = utiltestingapi.MakeClusterQueue("retry-cq-" + ns.Name).
			ResourceGroup(*utiltestingapi.MakeFlavorQuotas(resourceFlavor.Name).Resource(corev1.ResourceCPU, "1").Obj()).
			AdmissionCheckStrategy(checks...).
			Obj()
		util.MustCreate(ctx, k8sClient, clusterQueue)
		localQueue = utiltestingapi.MakeLocalQueue("lq", ns.Name).ClusterQueue(clusterQueue.Name).Obj()
		util.MustCreate(ctx, k8sClient, localQueue)
		util.ExpectClusterQueuesToBeActive(ctx, k8sClient, clusterQueue)
	}

	reserve := func() {
		ginkgo.GinkgoHelper()
		wl.until("reserved with its checks", util.Timeout, func(wl *kueue.Workload) bool {
			return workload.HasQuotaReservation(wl) && len(wl.Status.AdmissionChecks) == len(clusterQueue.Spec.AdmissionChecksStrategy.AdmissionChecks)
		})
	}

	ginkgo.BeforeEach(func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, true)
		startManager()

		ns = util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, "retry-")
		resourceFlavor = utiltestingapi.MakeResourceFlavor("flavor-" + ns.Name).Obj()
		util.MustCreate(ctx, k8sClient, resourceFlavor)
		checkA = utiltestingapi.MakeAdmissionCheck("a-" + ns.Name).ControllerName("ctrl").Obj()
		checkB = utiltestingapi.MakeAdmissionCheck("b-" + ns.Name).ControllerName("ctrl").Obj()
		for _, check := range []*kueue.AdmissionCheck{checkA, checkB} {
			util.MustCreate(ctx, k8sClient, check)
			util.SetAdmissionCheckActive(ctx, k8sClient, check, metav1.ConditionTrue)
		}
	})

	ginkgo.AfterEach(func() {
		wl.watch.Stop()
		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, clusterQueue, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, checkA, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, checkB, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, resourceFlavor, true)
		fwk.StopManager(ctx)
	})

	// expectRetryCycle follows the workload from the Retry to the next
	// reservation, and returns the index of the version that was requeued.
	expectRetryCycle := func(from int, wantCounts map[string]int32) int {
		ginkgo.GinkgoHelper()
		requeued := wl.until("requeued", util.Timeout+util.LongTimeout, func(wl *kueue.Workload) bool {
			return isReleased(wl) && isRequeued(wl)
		})
		reserved := wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

		ginkgo.By("checking that it was not early at any time")
		deadline := requeueAtOf(wl.versions[requeued-1])
		gomega.Expect(deadline).NotTo(gomega.BeZero())
		gomega.Expect(wl.seen[requeued]).To(gomega.BeTemporally(">=", deadline))
		gomega.Expect(wl.seen[reserved]).To(gomega.BeTemporally(">=", deadline))

		ginkgo.By("checking that the single write which requeued it reset the checks")
		got := wl.versions[requeued]
		gomega.Expect(requeueAtOf(got)).To(gomega.BeZero())
		for _, check := range got.Status.AdmissionChecks {
			gomega.Expect(check.State).To(gomega.Equal(kueue.CheckStatePending), "state of %s", check.Name)
			gomega.Expect(check.RequeueAfterSeconds).To(gomega.BeNil(), "requeueAfterSeconds of %s", check.Name)
			gomega.Expect(check.LastTransitionTime.Time).To(gomega.BeTemporally(">=", deadline), "transition of %s", check.Name)
			gomega.Expect(ptr.Deref(check.RetryCount, 0)).To(gomega.Equal(wantCounts[string(check.Name)]), "retryCount of %s", check.Name)
		}
		for _, version := range wl.versions[from:requeued] {
			gomega.Expect(isReleased(version) && isRequeued(version)).To(gomega.BeFalse())
		}
		return requeued
	}

	for name, write := range map[string]checkWriter{"server-side apply": applyCheck, "merge patch": mergePatchCheck, "update": updateCheck} {
		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should release the quota at once and wait, the check written by %s, with WorkloadRequestUseMergePatch=%v", name, mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				createQueues(ruleFor(checkA), ruleFor(checkB))
				key = createJob("first")
				wl = watchWorkload(key)
				reserve()
				otherKey := createJob("other")

				start := time.Now()
				setCheck(write, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](3))
				retry := wl.until("in Retry", util.Timeout, workload.HasRetryChecks)

				ginkgo.By("checking that the quota is used by the other job while this one waits")
				util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, clusterQueue.Name, otherKey)
				evicted := wl.until("evicted", util.Timeout, workload.IsEvicted)
				released := wl.until("released", util.Timeout, isReleased)
				gomega.Expect(wl.versions[evicted].Status.AdmissionChecks[0].State).To(gomega.Equal(kueue.CheckStateRetry))
				gomega.Expect(requeueAtOf(wl.versions[evicted])).To(gomega.BeTemporally(">=", start.Add(3*time.Second)))
				for _, condition := range []string{kueue.WorkloadEvicted, kueue.WorkloadQuotaReserved, kueue.WorkloadRequeued} {
					message := apimeta.FindStatusCondition(wl.versions[released].Status.Conditions, condition).Message
					gomega.Expect(message).To(gomega.And(gomega.ContainSubstring(checkA.Name), gomega.ContainSubstring(requeueAtOf(wl.versions[released]).UTC().Format(time.RFC3339))), condition)
				}

				ginkgo.By("releasing the other job's quota, to see that this one does not take it before its time")
				gomega.Expect(k8sClient.Delete(ctx, testingjob.MakeJob("other", ns.Name).Obj(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
				gomega.Eventually(func(g gomega.Gomega) {
					other := &kueue.Workload{}
					g.Expect(client.IgnoreNotFound(k8sClient.Get(ctx, otherKey, other))).To(gomega.Succeed())
					g.Expect(client.IgnoreNotFound(k8sClient.Delete(ctx, other))).To(gomega.Succeed())
				}, util.Timeout, util.Interval).Should(gomega.Succeed())

				requeued := expectRetryCycle(retry, map[string]int32{checkA.Name: 1})
				gomega.Expect(wl.seen[requeued]).To(gomega.BeTemporally(">=", start.Add(3*time.Second)))

				ginkgo.By("checking that the retry took four writes: evicted, released, requeued, reserved")
				gomega.Expect([]int{evicted, released, requeued, len(wl.versions) - 1}).To(gomega.Equal([]int{retry + 1, retry + 2, retry + 3, retry + 4}))
			})
		}
	}

	ginkgo.It("Should follow the longest delay, whoever speaks last, and count each check", func() {
		createQueues(ruleFor(checkA), ruleFor(checkB))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](2))
		released := wl.until("released", util.Timeout, isReleased)

		ginkgo.By("asking for a longer delay while the workload waits")
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkB.Name), kueue.CheckStateRetry, ptr.To[int32](600))
		wl.until("waiting longer", util.Timeout, func(wl *kueue.Workload) bool { return time.Until(requeueAtOf(wl)) > 500*time.Second })

		ginkgo.By("shortening it again")
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkB.Name), kueue.CheckStateRetry, ptr.To[int32](4))
		moved := wl.until("waiting shorter", util.Timeout, func(wl *kueue.Workload) bool { return time.Until(requeueAtOf(wl)) < 10*time.Second })
		gomega.Expect(requeueAtOf(wl.versions[moved])).To(gomega.BeTemporally(">", requeueAtOf(wl.versions[released])))

		expectRetryCycle(released, map[string]int32{checkA.Name: 1, checkB.Name: 1})

		ginkgo.By("retrying one check once more")
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](1))
		released = wl.until("released", util.Timeout, isReleased)
		expectRetryCycle(released, map[string]int32{checkA.Name: 2, checkB.Name: 1})

		ginkgo.By("retrying it once more, the apply leaving the delay out")
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, nil)
		released = wl.until("released", util.Timeout, isReleased)
		expectRetryCycle(released, map[string]int32{checkA.Name: 3, checkB.Name: 1})
	})

	ginkgo.It("Should requeue at once when the Retry is withdrawn or the check not required any more", func() {
		createQueues(ruleFor(checkA), ruleFor(checkB))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
		wl.until("released", util.Timeout, isReleased)
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStatePending, nil)
		wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)

		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
		wl.until("released", util.Timeout, isReleased)
		gomega.Eventually(func(g gomega.Gomega) {
			cq := &kueue.ClusterQueue{}
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(clusterQueue), cq)).To(gomega.Succeed())
			cq.Spec.AdmissionChecksStrategy.AdmissionChecks = cq.Spec.AdmissionChecksStrategy.AdmissionChecks[1:]
			g.Expect(k8sClient.Update(ctx, cq)).To(gomega.Succeed())
		}, util.Timeout, util.Interval).Should(gomega.Succeed())
		wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	})

	ginkgo.It("Should keep the state, the delay and the count of a check that is bound to a flavor", func() {
		createQueues(ruleFor(checkA, kueue.ResourceFlavorReference(resourceFlavor.Name)))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		for retries := int32(1); retries <= 2; retries++ {
			setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](2))
			released := wl.until("released", util.Timeout, isReleased)
			expectRetryCycle(released, map[string]int32{checkA.Name: retries})
			for _, version := range wl.versions[released:] {
				gomega.Expect(version.Status.AdmissionChecks).To(gomega.HaveLen(1))
			}
		}
	})

	ginkgo.It("Should wait as long when the manager restarts in the middle of the delay", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](4))
		released := wl.until("released", util.Timeout, isReleased)
		fwk.StopManager(ctx)
		startManager()
		expectRetryCycle(released, map[string]int32{checkA.Name: 1})
	})

	ginkgo.It("Should requeue at the time recorded when the gate is switched off", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](4))
		released := wl.until("released", util.Timeout, isReleased)
		fwk.StopManager(ctx)
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		startManager()
		expectRetryCycle(released, map[string]int32{checkA.Name: 1})
	})

	ginkgo.It("Should deactivate a waiting workload that a check rejects, and queue it as new when it is activated again", func() {
		createQueues(ruleFor(checkA), ruleFor(checkB))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		for _, held := range []bool{true, false} {
			setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
			wl.until("released", util.Timeout, isReleased)
			setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStatePending, nil)
			wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
			if held {
				ginkgo.By("rejecting it while it holds quota")
			} else {
				ginkgo.By("rejecting it while it waits")
				setCheck(updateCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
				wl.until("released", util.Timeout, isReleased)
			}
			setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkB.Name), kueue.CheckStateRejected, nil)
			wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl)
			})

			ginkgo.By("activating it again")
			setActive(key, true)
			wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		}
	})

	ginkgo.It("Should forget the delay of a workload that is deactivated", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](1))
		expectRetryCycle(wl.until("released", util.Timeout, isReleased), map[string]int32{checkA.Name: 1})
		for _, write := range []checkWriter{applyCheck, updateCheck} {
			setCheck(write, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
			wl.until("released", util.Timeout, isReleased)
			setActive(key, false)
			wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.IsActive(wl) && isAsNew(wl)
			})
			setActive(key, true)
			wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		}
	})

	ginkgo.It("Should count from zero after success, without a write of its own", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](1))
		expectRetryCycle(wl.until("released", util.Timeout, isReleased), map[string]int32{checkA.Name: 1})
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateReady, nil)
		ready := wl.until("ready", util.Timeout, workload.HasAllChecksReady)
		admitted := wl.until("admitted", util.Timeout, workload.IsAdmitted)
		gomega.Expect(admitted).To(gomega.Equal(ready + 1))
		gomega.Expect(ptr.Deref(wl.versions[admitted].Status.AdmissionChecks[0].RetryCount, 0)).To(gomega.BeZero())

		ginkgo.By("retrying the admitted workload")
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](1))
		expectRetryCycle(wl.until("released", util.Timeout, isReleased), map[string]int32{checkA.Name: 1})
	})

	ginkgo.It("Should take a queued workload with a late Retry out of the queue", func() {
		createQueues(ruleFor(checkA))
		holder := createJob("holder")
		util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, clusterQueue.Name, holder)
		key = createJob("first")
		wl = watchWorkload(key)
		wl.until("queued, with its check", util.Timeout, func(wl *kueue.Workload) bool { return len(wl.Status.AdmissionChecks) == 1 })
		setCheck(applyCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](3))
		held := wl.until("held", util.Timeout, func(wl *kueue.Workload) bool { return !requeueAtOf(wl).IsZero() })
		gomega.Expect(k8sClient.Delete(ctx, testingjob.MakeJob("holder", ns.Name).Obj(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
		gomega.Expect(client.IgnoreNotFound(k8sClient.Delete(ctx, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: holder.Name, Namespace: holder.Namespace}}))).To(gomega.Succeed())
		expectRetryCycle(held, map[string]int32{checkA.Name: 1})
	})

	ginkgo.It("Should hold to the delay of a preempted workload", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		start := time.Now()
		gomega.Eventually(func(g gomega.Gomega) {
			current := &kueue.Workload{}
			g.Expect(k8sClient.Get(ctx, key, current)).To(gomega.Succeed())
			workload.SetEvictedCondition(current, time.Now(), kueue.WorkloadEvictedByPreemption, "by test")
			current.Status.AdmissionChecks[0].State = kueue.CheckStateRetry
			current.Status.AdmissionChecks[0].LastTransitionTime = metav1.Now()
			current.Status.AdmissionChecks[0].RequeueAfterSeconds = ptr.To[int32](3)
			g.Expect(k8sClient.Status().Update(ctx, current)).To(gomega.Succeed())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
		wl.until("released", util.Timeout, isReleased)
		wl.until("waiting", util.Timeout, func(wl *kueue.Workload) bool { return !isRequeued(wl) && !requeueAtOf(wl).IsZero() })
		requeued := wl.until("requeued", util.Timeout, isRequeued)
		gomega.Expect(wl.seen[requeued]).To(gomega.BeTemporally(">=", start.Truncate(time.Second).Add(3*time.Second)))
		wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	})

	ginkgo.It("Should ignore the fields with the gate off", func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		setCheck(updateCheck, key, kueue.AdmissionCheckReference(checkA.Name), kueue.CheckStateRetry, ptr.To[int32](600))
		evicted := wl.until("evicted", util.Timeout, workload.IsEvicted)
		gomega.Expect(wl.versions[evicted].Status.AdmissionChecks[0].State).To(gomega.Equal(kueue.CheckStatePending))
		wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
		for _, version := range wl.versions {
			gomega.Expect(requeueAtOf(version)).To(gomega.BeZero())
			for _, check := range version.Status.AdmissionChecks {
				gomega.Expect(check.RetryCount).To(gomega.BeNil())
			}
		}
	})

	ginkgo.It("Should refuse bad values, naming the field", func() {
		createQueues(ruleFor(checkA))
		key = createJob("first")
		wl = watchWorkload(key)
		reserve()
		before := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, key, before)).To(gomega.Succeed())
		for _, field := range []string{"requeueAfterSeconds", "retryCount"} {
			for _, value := range []any{-1, "soon", 1.5, int64(1) << 31} {
				data, err := json.Marshal(map[string]any{"status": map[string]any{"admissionChecks": []map[string]any{{
					"name": checkA.Name, "state": "Retry", "message": "", "lastTransitionTime": metav1.Now(), field: value,
				}}}})
				gomega.Expect(err).NotTo(gomega.HaveOccurred())
				err = k8sClient.Status().Patch(ctx, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}, client.RawPatch(types.MergePatchType, data))
				gomega.Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(gomega.BeTrue(), "%s=%v: %v", field, value, err)
				gomega.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(field)))
			}
		}
		after := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, key, after)).To(gomega.Succeed())
		gomega.Expect(after.ResourceVersion).To(gomega.Equal(before.ResourceVersion))
	})
})
