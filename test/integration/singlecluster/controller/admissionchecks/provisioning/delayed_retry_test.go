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

package provisioning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

// recording holds each version of a workload, the time at which it was seen, and
// its requests as they were created.
type recording struct {
	lock      sync.Mutex
	workloads []*kueue.Workload
	seen      []time.Time
	requests  []*autoscaling.ProvisioningRequest
	// read is the number of versions that await has looked at.
	read int
	// deadlineMoves is set when a check withdraws its delay, so that expectOrderly
	// does not hold the workload to the deadline that was recorded last.
	deadlineMoves bool
	stop          func()
}

func startRecording(key client.ObjectKey) *recording {
	ginkgo.GinkgoHelper()
	r := &recording{}
	watches := make([]watch.Interface, 0, 2)
	for _, list := range []client.ObjectList{&kueue.WorkloadList{}, &autoscaling.ProvisioningRequestList{}} {
		w, err := k8sClient.(client.WithWatch).Watch(ctx, list, client.InNamespace(key.Namespace))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		watches = append(watches, w)
		go func() {
			for event := range w.ResultChan() {
				r.lock.Lock()
				switch obj := event.Object.(type) {
				case *kueue.Workload:
					if obj.Name == key.Name {
						r.workloads = append(r.workloads, obj)
						r.seen = append(r.seen, time.Now())
					}
				case *autoscaling.ProvisioningRequest:
					if event.Type == watch.Added && strings.HasPrefix(obj.Name, key.Name+"-") {
						r.requests = append(r.requests, obj)
					}
				}
				r.lock.Unlock()
			}
		}()
	}
	r.stop = func() {
		for _, w := range watches {
			w.Stop()
		}
	}
	return r
}

// await waits for a version, later than those it returned before, that satisfies
// the condition.
func (r *recording) await(what string, condition func(*kueue.Workload) bool) *kueue.Workload {
	ginkgo.GinkgoHelper()
	var found *kueue.Workload
	gomega.Eventually(func(g gomega.Gomega) {
		r.lock.Lock()
		defer r.lock.Unlock()
		for found == nil && r.read < len(r.workloads) {
			if wl := r.workloads[r.read]; condition(wl) {
				found = wl
			}
			r.read++
		}
		g.Expect(found).NotTo(gomega.BeNil(), "workload to be %s", what)
	}, util.LongTimeout, util.ShortInterval).Should(gomega.Succeed())
	return found
}

// versions returns all versions that were seen so far.
func (r *recording) versions() []*kueue.Workload {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.workloads)
}

// attempts returns the numbers of the check's requests in the order of their creation.
func (r *recording) attempts(key client.ObjectKey, check kueue.AdmissionCheckReference) []int {
	r.lock.Lock()
	defer r.lock.Unlock()
	var attempts []int
	for _, request := range r.requests {
		if suffix, found := strings.CutPrefix(request.Name, fmt.Sprintf("%s-%s-", key.Name, check)); found {
			attempt, err := strconv.Atoi(suffix)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			attempts = append(attempts, attempt)
		}
	}
	return attempts
}

// expectOrderly checks what must not happen at any time with the gate on: that
// quota is reserved before the deadline, or a request is created for a workload
// that waits or is about to.
func (r *recording) expectOrderly(key client.ObjectKey) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		current := &kueue.Workload{}
		g.Expect(k8sClient.Get(ctx, key, current)).To(gomega.Succeed())
		versions := r.versions()
		g.Expect(versions[len(versions)-1].ResourceVersion).To(gomega.Equal(current.ResourceVersion))
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
	r.lock.Lock()
	defer r.lock.Unlock()
	version := func(obj client.Object) int {
		n, err := strconv.Atoi(obj.GetResourceVersion())
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		return n
	}
	var deadline time.Time
	for i, wl := range r.workloads {
		if holdsQuota(wl) && i > 0 && !workload.HasQuotaReservation(r.workloads[i-1]) && !r.deadlineMoves {
			gomega.Expect(r.seen[i]).To(gomega.BeTemporally(">=", deadline), "quota reserved before the deadline")
		}
		if wl.Status.RequeueState != nil && wl.Status.RequeueState.RequeueAt != nil {
			deadline = wl.Status.RequeueState.RequeueAt.Time
		}
	}
	for _, request := range r.requests {
		before := slices.IndexFunc(r.workloads, func(wl *kueue.Workload) bool { return version(wl) > version(request) }) - 1
		if before == -2 {
			before = len(r.workloads) - 1
		}
		gomega.Expect(before).To(gomega.BeNumerically(">=", 0))
		wl := r.workloads[before]
		gomega.Expect(holdsQuota(wl) && !workload.HasRetryChecks(wl)).To(gomega.BeTrue(), "%s was created while the workload waits:\n%v", request.Name, wl.Status)
	}
}

func holdsQuota(wl *kueue.Workload) bool {
	return workload.HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl)
}

func isWaiting(wl *kueue.Workload) bool {
	return workload.HasRetryChecks(wl) && workloadevict.IsEvicted(wl) && !workload.HasQuotaReservation(wl) &&
		apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)
}

func isRequeued(wl *kueue.Workload) bool {
	return !workload.HasQuotaReservation(wl) && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
}

var _ = ginkgo.Describe("Delayed retry of provisioning requests", ginkgo.Label("feature:acrequeueafter"), ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
	var (
		ns           *corev1.Namespace
		flavor       *kueue.ResourceFlavor
		lowPriority  *kueue.WorkloadPriorityClass
		highPriority *kueue.WorkloadPriorityClass
		clusterQueue *kueue.ClusterQueue
		localQueue   *kueue.LocalQueue
		configs      map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig
		key          client.ObjectKey
		wl           *recording
	)

	const (
		checkA = kueue.AdmissionCheckReference("retry-a")
		checkB = kueue.AdmissionCheckReference("retry-b")
		// external has no config, and no controller but the tests.
		external = kueue.AdmissionCheckReference("retry-external")
	)

	setGate := func(enabled bool) {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, enabled)
	}

	restart := func() {
		fwk.StopManager(ctx)
		fwk.StartManager(ctx, cfg, managerSetup(runScheduler, runJobController))
	}

	// createCheck makes a check whose first backoff takes base seconds.
	createCheck := func(name kueue.AdmissionCheckReference, base, limit int32) {
		ginkgo.GinkgoHelper()
		prc := utiltestingapi.MakeProvisioningRequestConfig(string(name)).ProvisioningClass("provisioning-class").
			RetryStrategy(&kueue.ProvisioningRequestRetryStrategy{
				BackoffLimitCount:  ptr.To(limit),
				BackoffBaseSeconds: ptr.To(base),
				BackoffMaxSeconds:  ptr.To[int32](1800),
			}).Obj()
		util.MustCreate(ctx, k8sClient, prc)
		configs[name] = prc
		util.MustCreate(ctx, k8sClient, utiltestingapi.MakeAdmissionCheck(string(name)).
			ControllerName(kueue.ProvisioningRequestControllerName).
			Parameters(kueue.SchemeGroupVersion.Group, "ProvisioningRequestConfig", prc.Name).
			Obj())
	}

	createExternalCheck := func() {
		ginkgo.GinkgoHelper()
		ac := utiltestingapi.MakeAdmissionCheck(string(external)).ControllerName("external").Obj()
		util.MustCreate(ctx, k8sClient, ac)
		util.SetAdmissionCheckActive(ctx, k8sClient, ac, metav1.ConditionTrue)
	}

	rule := func(name kueue.AdmissionCheckReference, onFlavors ...kueue.ResourceFlavorReference) kueue.AdmissionCheckStrategyRule {
		return *utiltestingapi.MakeAdmissionCheckStrategyRule(name, onFlavors...).Obj()
	}

	// createQueues makes room for one job.
	createQueues := func(rules ...kueue.AdmissionCheckStrategyRule) {
		ginkgo.GinkgoHelper()
		clusterQueue = utiltestingapi.MakeClusterQueue("retry-cq").
			Preemption(kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}).
			ResourceGroup(*utiltestingapi.MakeFlavorQuotas(flavor.Name).Resource(corev1.ResourceCPU, "1").Obj()).
			AdmissionCheckStrategy(rules...).
			Obj()
		util.MustCreate(ctx, k8sClient, clusterQueue)
		localQueue = utiltestingapi.MakeLocalQueue("lq", ns.Name).ClusterQueue(clusterQueue.Name).Obj()
		util.MustCreate(ctx, k8sClient, localQueue)
		util.ExpectClusterQueuesToBeActive(ctx, k8sClient, clusterQueue)
	}

	updateQueue := func(update func()) {
		ginkgo.GinkgoHelper()
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(clusterQueue), clusterQueue)).To(gomega.Succeed())
			update()
			g.Expect(k8sClient.Update(ctx, clusterQueue)).To(gomega.Succeed())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
	}

	createJob := func(name string, priority *kueue.WorkloadPriorityClass) client.ObjectKey {
		ginkgo.GinkgoHelper()
		job := testingjob.MakeJob(name, ns.Name).Queue(kueue.LocalQueueName(localQueue.Name)).
			WorkloadPriorityClass(priority.Name).Request(corev1.ResourceCPU, "1").Obj()
		util.MustCreate(ctx, k8sClient, job)
		return client.ObjectKey{Namespace: ns.Name, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)}
	}

	// start creates the job that is followed.
	start := func() {
		ginkgo.GinkgoHelper()
		key = createJob("job", lowPriority)
		wl = startRecording(key)
	}

	awaitRequest := func(check kueue.AdmissionCheckReference, attempt int32) *autoscaling.ProvisioningRequest {
		ginkgo.GinkgoHelper()
		request := &autoscaling.ProvisioningRequest{}
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(k8sClient.Get(ctx, client.ObjectKey{
				Namespace: ns.Name,
				Name:      provisioning.ProvisioningRequestName(key.Name, check, attempt),
			}, request)).To(gomega.Succeed())
		}, util.LongTimeout, util.ShortInterval).Should(gomega.Succeed())
		return request
	}

	// flip awaits the request and sets a condition of it to true.
	flip := func(check kueue.AdmissionCheckReference, attempt int32, conditionType string) {
		ginkgo.GinkgoHelper()
		gomega.Eventually(func(g gomega.Gomega) {
			request := awaitRequest(check, attempt)
			apimeta.SetStatusCondition(&request.Status.Conditions, metav1.Condition{
				Type: conditionType, Status: metav1.ConditionTrue, Reason: "ByTest", Message: conditionType + " by test",
			})
			g.Expect(k8sClient.Status().Update(ctx, request)).To(gomega.Succeed())
		}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
	}

	stateOf := func(wl *kueue.Workload, check kueue.AdmissionCheckReference) kueue.AdmissionCheckState {
		return ptr.Deref(admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check), kueue.AdmissionCheckState{})
	}

	inState := func(check kueue.AdmissionCheckReference, state kueue.CheckState) func(*kueue.Workload) bool {
		return func(wl *kueue.Workload) bool { return stateOf(wl, check).State == state }
	}

	// expectRetry expects the check to ask for the delay, after so many retries,
	// and the workload to wait for it.
	expectRetry := func(check kueue.AdmissionCheckReference, requeueAfterSeconds, retries int32) {
		ginkgo.GinkgoHelper()
		asked := stateOf(wl.await("in Retry", inState(check, kueue.CheckStateRetry)), check)
		gomega.Expect(asked.RequeueAfterSeconds).To(gomega.HaveValue(gomega.Equal(requeueAfterSeconds)))
		gomega.Expect(ptr.Deref(asked.RetryCount, 0)).To(gomega.Equal(retries))
		waiting := wl.await("waiting", isWaiting)
		gomega.Expect(stateOf(waiting, check)).To(gomega.BeComparableTo(asked))
		gomega.Expect(waiting.Status.RequeueState.RequeueAt.Time).To(gomega.BeTemporally(">=", asked.LastTransitionTime.Add(time.Duration(requeueAfterSeconds)*time.Second)))
	}

	expectRequeued := func(check kueue.AdmissionCheckReference, retries int32) {
		ginkgo.GinkgoHelper()
		requeued := stateOf(wl.await("requeued", isRequeued), check)
		gomega.Expect(requeued.State).To(gomega.Equal(kueue.CheckStatePending))
		gomega.Expect(requeued.RequeueAfterSeconds).To(gomega.BeNil())
		gomega.Expect(ptr.Deref(requeued.RetryCount, 0)).To(gomega.Equal(retries))
	}

	passExternalCheck := func() {
		ginkgo.GinkgoHelper()
		util.SetWorkloadsAdmissionCheck(ctx, k8sClient, utiltestingapi.MakeWorkload(key.Name, key.Namespace).Obj(), external, kueue.CheckStateReady, true)
	}

	// awaitNextSecond waits until the quota that is reserved from now on is told apart from that
	// of a request which was made before: both times are in whole seconds.
	awaitNextSecond := func() {
		ginkgo.GinkgoHelper()
		next := time.Now().Truncate(time.Second).Add(time.Second)
		gomega.Eventually(time.Now, util.Timeout, util.ShortInterval).Should(gomega.BeTemporally(">=", next))
	}

	// expectAttempts expects the check's requests to be created with these numbers.
	expectAttempts := func(check kueue.AdmissionCheckReference, attempts ...int) {
		ginkgo.GinkgoHelper()
		gomega.Eventually(func() []int { return wl.attempts(key, check) }, util.Timeout, util.ShortInterval).Should(gomega.Equal(attempts))
	}

	expectDeactivated := func() {
		ginkgo.GinkgoHelper()
		wl.await("deactivated", func(wl *kueue.Workload) bool { return !workload.IsActive(wl) && workloadevict.IsEvicted(wl) })
	}

	ginkgo.BeforeEach(func() {
		setGate(true)
		fwk.StartManager(ctx, cfg, managerSetup(runScheduler, runJobController))
		ns = util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, "prov-retry-")
		flavor = utiltestingapi.MakeResourceFlavor("retry-flavor").Obj()
		util.MustCreate(ctx, k8sClient, flavor)
		lowPriority = utiltestingapi.MakeWorkloadPriorityClass("retry-low").PriorityValue(1).Obj()
		util.MustCreate(ctx, k8sClient, lowPriority)
		highPriority = utiltestingapi.MakeWorkloadPriorityClass("retry-high").PriorityValue(2).Obj()
		util.MustCreate(ctx, k8sClient, highPriority)
		configs = make(map[kueue.AdmissionCheckReference]*kueue.ProvisioningRequestConfig)
	})

	ginkgo.AfterEach(func() {
		// Also when something here fails: a manager that stays spoils the specs after it.
		defer fwk.StopManager(ctx)
		wl.stop()
		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, clusterQueue, true)
		// A flavor goes when the manager's cache no longer has the ClusterQueue. Only then
		// the checks: v0.14.8 does not look again at one that was deleted before, when a
		// strategy named it.
		util.ExpectObjectToBeDeleted(ctx, k8sClient, flavor, true)
		for name, prc := range configs {
			util.ExpectObjectToBeDeleted(ctx, k8sClient, utiltestingapi.MakeAdmissionCheck(string(name)).Obj(), true)
			util.ExpectObjectToBeDeleted(ctx, k8sClient, prc, true)
		}
		util.ExpectObjectToBeDeleted(ctx, k8sClient, utiltestingapi.MakeAdmissionCheck(string(external)).Obj(), true)
		for _, obj := range []*kueue.WorkloadPriorityClass{lowPriority, highPriority} {
			util.ExpectObjectToBeDeleted(ctx, k8sClient, obj, true)
		}
	})

	ginkgo.When("the gate is on", func() {
		ginkgo.AfterEach(func() {
			wl.expectOrderly(key)
		})

		for _, mergePatch := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should back off by the count of the check, and keep its limit, with WorkloadRequestUseMergePatch=%v", mergePatch), func() {
				features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
				createCheck(checkA, 1, 2)
				createQueues(rule(checkA))
				start()
				flip(checkA, 1, autoscaling.Failed)
				expectRetry(checkA, 1, 0)
				expectRequeued(checkA, 1)
				flip(checkA, 2, autoscaling.Failed)
				expectRetry(checkA, 2, 1)
				expectRequeued(checkA, 2)
				flip(checkA, 3, autoscaling.Failed)
				wl.await("rejected", inState(checkA, kueue.CheckStateRejected))
				expectDeactivated()
				expectAttempts(checkA, 1, 2, 3)
				for _, version := range wl.versions() {
					gomega.Expect(ptr.Deref(version.Status.RequeueState, kueue.RequeueState{}).Count).To(gomega.BeNil())
				}

				// The counts go with a write of their own, after that of the eviction.
				wl.await("reset", func(wl *kueue.Workload) bool {
					return ptr.Deref(wl.Status.AdmissionChecks[0].RetryCount, 0) == 0
				})
				awaitNextSecond()
				ginkgo.By("activating the workload again")
				gomega.Eventually(func(g gomega.Gomega) {
					updated := &kueue.Workload{}
					g.Expect(k8sClient.Get(ctx, key, updated)).To(gomega.Succeed())
					updated.Spec.Active = ptr.To(true)
					g.Expect(k8sClient.Update(ctx, updated)).To(gomega.Succeed())
				}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
				flip(checkA, 4, autoscaling.Failed)
				expectRetry(checkA, 1, 0)
			})
		}

		ginkgo.It("Should have each check back off by its own count", func() {
			createCheck(checkA, 1, 2)
			createCheck(checkB, 3, 2)
			createQueues(rule(checkA), rule(checkB))
			start()
			awaitRequest(checkB, 1)
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Provisioned)
			flip(checkB, 2, autoscaling.Failed)
			expectRetry(checkB, 3, 0)
			expectRequeued(checkB, 1)
			expectAttempts(checkA, 1, 2, 3)
			expectAttempts(checkB, 1, 2, 3)
		})

		ginkgo.It("Should retry when a booking expires before the admission, but not when it was used", func() {
			createCheck(checkA, 1, 2)
			createExternalCheck()
			createQueues(rule(checkA), rule(external))
			start()
			flip(checkA, 1, autoscaling.Provisioned)
			wl.await("ready by one check", inState(checkA, kueue.CheckStateReady))
			flip(checkA, 1, autoscaling.BookingExpired)
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Provisioned)
			passExternalCheck()
			admitted := wl.await("admitted", workload.IsAdmitted)
			gomega.Expect(ptr.Deref(stateOf(admitted, checkA).RetryCount, 0)).To(gomega.BeZero())

			ginkgo.By("losing the quota after the booking has expired")
			flip(checkA, 2, autoscaling.BookingExpired)
			updateQueue(func() { clusterQueue.Spec.StopPolicy = ptr.To(kueue.HoldAndDrain) })
			wl.await("evicted", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
			awaitNextSecond()
			updateQueue(func() { clusterQueue.Spec.StopPolicy = nil })
			flip(checkA, 3, autoscaling.Provisioned)
			passExternalCheck()
			again := wl.await("admitted again", workload.IsAdmitted)
			gomega.Expect(ptr.Deref(stateOf(again, checkA).RetryCount, 0)).To(gomega.BeZero())
		})

		ginkgo.It("Should deactivate the workload when the capacity is revoked after a retry", func() {
			createCheck(checkA, 1, 2)
			createQueues(rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Provisioned)
			wl.await("admitted", workload.IsAdmitted)
			flip(checkA, 2, autoscaling.CapacityRevoked)
			expectDeactivated()
		})

		ginkgo.It("Should go on with the next attempt when the manager restarts during the delay", func() {
			createCheck(checkA, 2, 2)
			createQueues(rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 2, 0)
			restart()
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 4, 1)
			expectAttempts(checkA, 1, 2)
		})

		ginkgo.It("Should count on for a check that is bound to a flavor", func() {
			createCheck(checkA, 1, 2)
			createQueues(rule(checkA, kueue.ResourceFlavorReference(flavor.Name)))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 2, 1)
			expectRequeued(checkA, 2)
			flip(checkA, 3, autoscaling.Provisioned)
			wl.await("admitted", workload.IsAdmitted)
			expectAttempts(checkA, 1, 2, 3)
		})

		ginkgo.It("Should ask again for a workload that was preempted while its request was in flight", func() {
			createCheck(checkA, 1, 2)
			createQueues(rule(checkA))
			start()
			awaitRequest(checkA, 1)
			high := createJob("high", highPriority)
			wl.await("preempted", func(wl *kueue.Workload) bool { return workloadevict.IsEvicted(wl) && !workload.HasQuotaReservation(wl) })
			preempting := &kueue.Workload{}
			gomega.Expect(k8sClient.Get(ctx, high, preempting)).To(gomega.Succeed())
			awaitNextSecond()
			util.FinishWorkloads(ctx, k8sClient, preempting)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 3, autoscaling.Provisioned)
			wl.await("admitted", workload.IsAdmitted)
			expectAttempts(checkA, 1, 2, 3)
		})

		ginkgo.It("Should admit the workload when the queue asks for the check no longer, in the middle of a delay", func() {
			createCheck(checkA, 600, 2)
			createQueues(rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 600, 0)
			updateQueue(func() { clusterQueue.Spec.AdmissionChecksStrategy = nil })
			wl.await("admitted", workload.IsAdmitted)
			wl.deadlineMoves = true
		})
	})

	ginkgo.When("the gate is switched", func() {
		const base, limit int32 = 2, 2

		ginkgo.BeforeEach(func() {
			setGate(false)
			restart()
			createCheck(checkA, base, limit)
			createQueues(rule(checkA))
			start()
		})

		ginkgo.It("Should carry the count over when it is switched on with a request in flight", func() {
			flip(checkA, 1, autoscaling.Failed)
			wl.await("evicted", workloadevict.IsEvicted)
			// With the gate off some releases count in requeueState alone.
			retries := ptr.Deref(stateOf(wl.await("reserved again", holdsQuota), checkA).RetryCount, 0)
			awaitRequest(checkA, 2)
			setGate(true)
			restart()
			attempts := []int{1}
			for ; retries < limit; retries++ {
				attempts = append(attempts, len(attempts)+1)
				flip(checkA, int32(len(attempts)), autoscaling.Failed)
				expectRetry(checkA, base<<retries, retries)
				expectRequeued(checkA, retries+1)
			}
			attempts = append(attempts, len(attempts)+1)
			flip(checkA, int32(len(attempts)), autoscaling.Failed)
			wl.await("rejected", inState(checkA, kueue.CheckStateRejected))
			expectAttempts(checkA, attempts...)
		})

		ginkgo.It("Should carry the count over when it is switched on during a backoff", func() {
			flip(checkA, 1, autoscaling.Failed)
			wl.await("backing off", func(wl *kueue.Workload) bool { return wl.Status.RequeueState != nil })
			fwk.StopManager(ctx)
			stopped := &kueue.Workload{}
			gomega.Expect(k8sClient.Get(ctx, key, stopped)).To(gomega.Succeed())
			retries := ptr.Deref(stateOf(stopped, checkA).RetryCount, 0)
			if inState(checkA, kueue.CheckStateRetry)(stopped) {
				retries++ // by the requeue
			}
			setGate(true)
			fwk.StartManager(ctx, cfg, managerSetup(runScheduler, runJobController))
			expectRequeued(checkA, retries)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, base<<retries, retries)
			expectRequeued(checkA, retries+1)
			awaitRequest(checkA, 3)
			expectAttempts(checkA, 1, 2, 3)
		})

		ginkgo.It("Should go on with the next attempt, and keep the limit, when it is switched off", func() {
			setGate(true)
			restart()
			flip(checkA, 1, autoscaling.Failed)
			expectRequeued(checkA, 1)
			awaitRequest(checkA, 2)
			setGate(false)
			restart()
			flip(checkA, 2, autoscaling.Failed)
			flip(checkA, 3, autoscaling.Failed)
			expectDeactivated()
			expectAttempts(checkA, 1, 2, 3)
		})

		ginkgo.It("Should go on with the next attempt when it is switched off during a delay", func() {
			setGate(true)
			restart()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 2, 0)
			setGate(false)
			restart()
			awaitRequest(checkA, 2)
			expectAttempts(checkA, 1, 2)
		})
	})
})
