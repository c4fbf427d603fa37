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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
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

func requeueCount(wl *kueue.Workload) int32 {
	if wl.Status.RequeueState == nil {
		return 0
	}
	return ptr.Deref(wl.Status.RequeueState.Count, 0)
}

var _ = ginkgo.Describe("Delayed retry of provisioning requests", ginkgo.Label("feature:acrequeueafter"), ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
	var (
		ns           *corev1.Namespace
		flavor       *kueue.ResourceFlavor
		otherFlavor  *kueue.ResourceFlavor
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

	restart := func(options ...managerSetupOption) {
		fwk.StopManager(ctx)
		fwk.StartManager(ctx, cfg, managerSetup(append(options, runScheduler, runJobController)...))
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

	// createQueues makes room for one job, or one on each flavor.
	createQueues := func(flavors []*kueue.ResourceFlavor, rules ...kueue.AdmissionCheckStrategyRule) {
		ginkgo.GinkgoHelper()
		quotas := make([]kueue.FlavorQuotas, 0, len(flavors))
		for _, rf := range flavors {
			quotas = append(quotas, *utiltestingapi.MakeFlavorQuotas(rf.Name).Resource(corev1.ResourceCPU, "1").Obj())
		}
		wrapper := utiltestingapi.MakeClusterQueue("retry-cq").
			Preemption(kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}).
			ResourceGroup(quotas...)
		if len(rules) > 0 {
			wrapper.AdmissionCheckStrategy(rules...)
		}
		clusterQueue = wrapper.Obj()
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

	deleteJob := func(name string, key client.ObjectKey) {
		ginkgo.GinkgoHelper()
		gomega.Expect(k8sClient.Delete(ctx, testingjob.MakeJob(name, ns.Name).Obj(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
		// Nothing else deletes what belongs to the job here.
		wl := &kueue.Workload{}
		gomega.Expect(client.IgnoreNotFound(k8sClient.Get(ctx, key, wl))).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, wl, true)
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

	applyExternal := func(requeueAfterSeconds *int32) {
		ginkgo.GinkgoHelper()
		gomega.Expect(k8sClient.Status().Patch(ctx, &kueue.Workload{
			TypeMeta:   metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "Workload"},
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
			Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{{
				Name: external, State: kueue.CheckStateRetry, LastTransitionTime: metav1.Now(), RequeueAfterSeconds: requeueAfterSeconds,
			}}},
		}, client.Apply, client.FieldOwner("external"), client.ForceOwnership)).To(gomega.Succeed())
	}

	passExternalCheck := func() {
		ginkgo.GinkgoHelper()
		util.SetWorkloadsAdmissionCheck(ctx, k8sClient, utiltestingapi.MakeWorkload(key.Name, key.Namespace).Obj(), external, kueue.CheckStateReady, true)
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
		otherFlavor = utiltestingapi.MakeResourceFlavor("retry-other-flavor").Obj()
		util.MustCreate(ctx, k8sClient, otherFlavor)
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
		for _, obj := range []*kueue.ResourceFlavor{flavor, otherFlavor} {
			util.ExpectObjectToBeDeleted(ctx, k8sClient, obj, true)
		}
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
				createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
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
					gomega.Expect(requeueCount(version)).To(gomega.BeZero())
				}

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

		ginkgo.It("Should let two checks back off apart, the later one deciding", func() {
			keepRequests()
			createCheck(checkA, 5, 2)
			createCheck(checkB, 9, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA), rule(checkB))
			start()
			awaitRequest(checkB, 1)
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 5, 0)

			ginkgo.By("letting the other request fail while the workload waits")
			flip(checkB, 1, autoscaling.Failed)
			both := wl.await("in Retry by both checks", inState(checkB, kueue.CheckStateRetry))
			gomega.Expect(isWaiting(both)).To(gomega.BeTrue())
			moved := wl.await("waiting longer", func(wl *kueue.Workload) bool {
				return wl.Status.RequeueState.RequeueAt.Time.Equal(stateOf(wl, checkB).LastTransitionTime.Add(9 * time.Second))
			})
			gomega.Expect(stateOf(moved, checkA)).To(gomega.BeComparableTo(stateOf(both, checkA)))
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Provisioned)
			flip(checkB, 2, autoscaling.Failed)
			expectRetry(checkB, 18, 1)
			expectAttempts(checkA, 1, 2)
			expectAttempts(checkB, 1, 2)
		})

		ginkgo.It("Should retry when a booking expires before the admission, and count from zero after it", func() {
			keepRequests()
			createCheck(checkA, 1, 2)
			createExternalCheck()
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA), rule(external))
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

			ginkgo.By("expiring the booking of the second request once the workload lost its quota for another reason")
			updateQueue(func() { clusterQueue.Spec.StopPolicy = ptr.To(kueue.HoldAndDrain) })
			wl.await("evicted", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
			flip(checkA, 2, autoscaling.BookingExpired)
			updateQueue(func() { clusterQueue.Spec.StopPolicy = nil })
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 3, autoscaling.Failed)
			expectRetry(checkA, 2, 1)
			expectRequeued(checkA, 2)
			flip(checkA, 4, autoscaling.Provisioned)
			passExternalCheck()
			wl.await("admitted", workload.IsAdmitted)
			expectAttempts(checkA, 1, 2, 3, 4)
		})

		for _, becomesReady := range []bool{true, false} {
			ginkgo.It(fmt.Sprintf("Should count from zero when the booking expires while another check delays, ready before=%v", becomesReady), func() {
				keepRequests()
				createCheck(checkA, 1, 1)
				createExternalCheck()
				createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA), rule(external))
				start()
				attempts := []int{1}
				for attempt := range int32(3) {
					awaitRequest(checkA, attempt+1)
					if becomesReady {
						flip(checkA, attempt+1, autoscaling.Provisioned)
						wl.await("ready by one check", inState(checkA, kueue.CheckStateReady))
					}
					applyExternal(ptr.To[int32](5))
					wl.await("waiting", isWaiting)
					if !becomesReady {
						flip(checkA, attempt+1, autoscaling.Provisioned)
					}
					flip(checkA, attempt+1, autoscaling.BookingExpired)
					asked := stateOf(wl.await("in Retry", inState(checkA, kueue.CheckStateRetry)), checkA)
					gomega.Expect(asked.RequeueAfterSeconds).To(gomega.HaveValue(gomega.Equal(int32(1))))
					gomega.Expect(ptr.Deref(asked.RetryCount, 0)).To(gomega.BeZero())
					expectRequeued(checkA, 1)
					attempts = append(attempts, int(attempt)+2)
				}
				flip(checkA, 4, autoscaling.Provisioned)
				wl.await("ready by one check", inState(checkA, kueue.CheckStateReady))
				passExternalCheck()
				wl.await("admitted", workload.IsAdmitted)
				expectAttempts(checkA, attempts...)
			})
		}

		for _, released := range []bool{false, true} {
			ginkgo.It(fmt.Sprintf("Should not use the number of a provisioned request again when it is deleted by hand, after the release=%v", released), func() {
				keepRequests()
				createCheck(checkA, 1, 2)
				createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
				start()
				flip(checkA, 1, autoscaling.Provisioned)
				wl.await("admitted", workload.IsAdmitted)
				if !released {
					util.ExpectObjectToBeDeleted(ctx, k8sClient, awaitRequest(checkA, 1), true)
				}
				updateQueue(func() { clusterQueue.Spec.StopPolicy = ptr.To(kueue.HoldAndDrain) })
				wl.await("evicted", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
				if released {
					util.ExpectObjectToBeDeleted(ctx, k8sClient, awaitRequest(checkA, 1), true)
				}
				updateQueue(func() { clusterQueue.Spec.StopPolicy = nil })
				flip(checkA, 2, autoscaling.Failed)
				expectRetry(checkA, 1, 0)
				expectRequeued(checkA, 1)
				flip(checkA, 3, autoscaling.Provisioned)
				wl.await("admitted again", workload.IsAdmitted)
				expectAttempts(checkA, 1, 2, 3)
			})
		}

		ginkgo.It("Should write its state although another check has a time that the API does not take back", func() {
			createCheck(checkA, 1, 2)
			createExternalCheck()
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA), rule(external))
			start()
			awaitRequest(checkA, 1)
			gomega.Eventually(func(g gomega.Gomega) {
				updated := &kueue.Workload{}
				g.Expect(k8sClient.Get(ctx, key, updated)).To(gomega.Succeed())
				i := slices.IndexFunc(updated.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool { return check.Name == external })
				g.Expect(i).To(gomega.BeNumerically(">=", 0))
				g.Expect(k8sClient.Status().Patch(ctx, updated, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
					`[{"op": "replace", "path": "/status/admissionChecks/%d/lastTransitionTime", "value": "0001-01-01T00:00:00Z"}]`, i)))).To(gomega.Succeed())
			}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
			wl.await("without a time", func(wl *kueue.Workload) bool {
				check := stateOf(wl, external)
				return check.Name == external && check.LastTransitionTime.IsZero()
			})
			flip(checkA, 1, autoscaling.Provisioned)
			wl.await("ready by one check", inState(checkA, kueue.CheckStateReady))
		})

		ginkgo.It("Should not own the delay of another check", func() {
			keepRequests()
			createCheck(checkA, 1, 2)
			createExternalCheck()
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA), rule(external))
			start()
			awaitRequest(checkA, 1)
			applyExternal(ptr.To[int32](600))
			wl.await("waiting", isWaiting)
			flip(checkA, 1, autoscaling.Failed)
			both := wl.await("in Retry by both checks", inState(checkA, kueue.CheckStateRetry))
			gomega.Expect(stateOf(both, external).RequeueAfterSeconds).To(gomega.HaveValue(gomega.Equal(int32(600))))
			applyExternal(nil)
			without := wl.await("without the other delay", func(wl *kueue.Workload) bool { return stateOf(wl, external).RequeueAfterSeconds == nil })
			gomega.Expect(stateOf(without, external).State).To(gomega.Equal(kueue.CheckStateRetry))
			wl.deadlineMoves = true
			expectRequeued(checkA, 1)
			awaitRequest(checkA, 2)
		})

		ginkgo.It("Should go on with the next attempt when the failed request is deleted and the manager restarted", func() {
			keepRequests()
			createCheck(checkA, 2, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 2, 0)
			util.ExpectObjectToBeDeleted(ctx, k8sClient, awaitRequest(checkA, 1), true)
			restart()
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 4, 1)
			expectAttempts(checkA, 1, 2)
		})

		ginkgo.It("Should not hear the requests of old attempts", func() {
			keepRequests()
			createCheck(checkA, 3, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 3, 0)

			ginkgo.By("changing the failed request while the workload waits, which must not be written")
			waiting := wl.read
			flip(checkA, 1, autoscaling.BookingExpired)
			flip(checkA, 1, autoscaling.CapacityRevoked)
			expectRequeued(checkA, 1)
			gomega.Expect(wl.read).To(gomega.Equal(waiting + 1))
			awaitRequest(checkA, 2)
			flip(checkA, 2, autoscaling.Provisioned)
			wl.await("admitted", workload.IsAdmitted)
			retries := 0
			versions := wl.versions()
			for i, version := range versions[1:] {
				if workload.HasRetryChecks(version) && !workload.HasRetryChecks(versions[i]) {
					retries++
				}
			}
			gomega.Expect(retries).To(gomega.Equal(1))
			expectAttempts(checkA, 1, 2)
		})

		ginkgo.It("Should go on with the next attempt when the config is deleted during the delay, and created again", func() {
			createCheck(checkA, 2, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 2, 0)
			util.ExpectObjectToBeDeleted(ctx, k8sClient, configs[checkA], true)
			expectRequeued(checkA, 1)
			configs[checkA].ResourceVersion = ""
			util.MustCreate(ctx, k8sClient, configs[checkA])
			awaitRequest(checkA, 2)
			expectAttempts(checkA, 1, 2)
		})

		ginkgo.It("Should replace the request in flight by one with the same number when the config changes", func() {
			createCheck(checkA, 1, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRequeued(checkA, 1)
			awaitRequest(checkA, 2)
			configs[checkA].Spec.ProvisioningClassName = "other-class"
			gomega.Expect(k8sClient.Update(ctx, configs[checkA])).To(gomega.Succeed())
			gomega.Eventually(func(g gomega.Gomega) {
				g.Expect(awaitRequest(checkA, 2).Spec.ProvisioningClassName).To(gomega.Equal("other-class"))
			}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 2, 1)
			expectAttempts(checkA, 1, 2, 2)
		})

		ginkgo.It("Should admit the workload when the queue asks for the check no longer, in the middle of a delay", func() {
			keepRequests()
			createCheck(checkA, 600, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 600, 0)
			request := awaitRequest(checkA, 1)
			updateQueue(func() { clusterQueue.Spec.AdmissionChecksStrategy = nil })
			wl.await("admitted", workload.IsAdmitted)
			util.ExpectObjectToBeDeleted(ctx, k8sClient, request, false)
			wl.deadlineMoves = true
		})

		ginkgo.It("Should deactivate the workload when the capacity is revoked after a retry", func() {
			createCheck(checkA, 1, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Provisioned)
			wl.await("admitted", workload.IsAdmitted)
			flip(checkA, 2, autoscaling.CapacityRevoked)
			expectDeactivated()
		})

		ginkgo.It("Should count on for a check that is bound to a flavor, also when another flavor was used in between", func() {
			createCheck(checkA, 2, 2)
			createQueues([]*kueue.ResourceFlavor{flavor, otherFlavor}, rule(checkA, kueue.ResourceFlavorReference(flavor.Name)))
			start()
			flip(checkA, 1, autoscaling.Failed)
			expectRetry(checkA, 2, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 4, 1)

			ginkgo.By("taking the flavor with the check by another job")
			otherKey := createJob("other", lowPriority)
			util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, clusterQueue.Name, otherKey)
			wl.await("admitted without the check", workload.IsAdmitted)
			gomega.Eventually(func(g gomega.Gomega) {
				requests := &autoscaling.ProvisioningRequestList{}
				g.Expect(k8sClient.List(ctx, requests, client.InNamespace(ns.Name))).To(gomega.Succeed())
				for _, request := range requests.Items {
					g.Expect(request.Name).NotTo(gomega.HavePrefix(key.Name))
				}
			}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())

			ginkgo.By("freeing it again")
			updateQueue(func() { clusterQueue.Spec.StopPolicy = ptr.To(kueue.HoldAndDrain) })
			wl.await("evicted", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
			deleteJob("other", otherKey)
			updateQueue(func() { clusterQueue.Spec.StopPolicy = nil })
			awaitRequest(checkA, 3)
			expectAttempts(checkA, 1, 2, 3)
		})

		ginkgo.It("Should leave the counter of WaitForPodsReady alone, and have one of its own", func() {
			keepRequests()
			restart(func(opts *managerSetupOpts) {
				opts.waitForPodsReady = enablePodsReady(time.Second)
				opts.waitForPodsReady.BlockAdmission = ptr.To(false)
				opts.waitForPodsReady.RequeuingStrategy = &config.RequeuingStrategy{
					Timestamp:          ptr.To(config.EvictionTimestamp),
					BackoffBaseSeconds: ptr.To[int32](3),
					BackoffMaxSeconds:  ptr.To[int32](600),
				}
			})
			createCheck(checkA, 1, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
			flip(checkA, 1, autoscaling.Provisioned)
			wl.await("evicted by WaitForPodsReady", func(wl *kueue.Workload) bool { return requeueCount(wl) == 1 && !workload.HasQuotaReservation(wl) })
			flip(checkA, 1, autoscaling.BookingExpired)
			expectRetry(checkA, 1, 0)
			expectRequeued(checkA, 1)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 2, 1)
			expectRequeued(checkA, 2)
			flip(checkA, 3, autoscaling.Provisioned)
			admitted := wl.await("admitted", workload.IsAdmitted)
			gomega.Expect(requeueCount(admitted)).To(gomega.Equal(int32(1)))
			evicted := wl.await("evicted by WaitForPodsReady again", func(wl *kueue.Workload) bool { return requeueCount(wl) != 1 })
			gomega.Expect(requeueCount(evicted)).To(gomega.Equal(int32(2)))
			expectAttempts(checkA, 1, 2, 3)
		})
	})

	ginkgo.When("the gate is switched", func() {
		ginkgo.BeforeEach(func() {
			setGate(false)
			restart()
			createCheck(checkA, 2, 2)
			createQueues([]*kueue.ResourceFlavor{flavor}, rule(checkA))
			start()
		})

		ginkgo.It("Should carry the count over when it is switched on with a request in flight", func() {
			flip(checkA, 1, autoscaling.Failed)
			wl.await("evicted", workloadevict.IsEvicted)
			wl.await("reserved again", holdsQuota)
			awaitRequest(checkA, 2)
			setGate(true)
			restart()
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 4, 1)
			expectRequeued(checkA, 2)
			flip(checkA, 3, autoscaling.Failed)
			wl.await("rejected", inState(checkA, kueue.CheckStateRejected))
			expectAttempts(checkA, 1, 2, 3)
			for _, version := range wl.versions() {
				gomega.Expect(requeueCount(version)).To(gomega.BeNumerically("<=", 1))
			}
		})

		ginkgo.It("Should carry the count over when it is switched on during a backoff", func() {
			flip(checkA, 1, autoscaling.Failed)
			wl.await("backing off", isBackingOffWithGateOff)
			fwk.StopManager(ctx)
			setGate(true)
			fwk.StartManager(ctx, cfg, managerSetup(runScheduler, runJobController))
			wl.await("requeued", isRequeued)
			flip(checkA, 2, autoscaling.Failed)
			expectRetry(checkA, 4, 1)
			expectRequeued(checkA, 2)
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

	// The scenarios of KEP-1136 and KEP-993 that need a scheduler and a job.
	for _, gate := range []bool{false, true} {
		ginkgo.When(fmt.Sprintf("a job asks for provisioning, ACRequeueAfter=%v", gate), func() {
			ginkgo.BeforeEach(func() {
				setGate(gate)
				restart()
				createCheck(checkA, 1, 1)
				createCheck(checkB, 1, 1)
			})

			// begin creates a job in a queue with the checks, and awaits their requests.
			begin := func(checks ...kueue.AdmissionCheckReference) {
				ginkgo.GinkgoHelper()
				rules := make([]kueue.AdmissionCheckStrategyRule, 0, len(checks))
				for _, check := range checks {
					rules = append(rules, rule(check))
				}
				createQueues([]*kueue.ResourceFlavor{flavor}, rules...)
				start()
				for _, check := range checks {
					if check == external {
						continue
					}
					request := awaitRequest(check, 1)
					gomega.Expect(request.Spec.ProvisioningClassName).To(gomega.Equal("provisioning-class"))
				}
			}

			isSuspended := func() bool {
				job := &batchv1.Job{}
				gomega.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "job"}, job)).To(gomega.Succeed())
				return ptr.Deref(job.Spec.Suspend, false)
			}

			ginkgo.It("Should be admitted at once without checks", func() {
				begin()
				wl.await("admitted", workload.IsAdmitted)
				gomega.Expect(wl.attempts(key, checkA)).To(gomega.BeEmpty())
			})

			ginkgo.It("Should run to the end once all checks are ready", func() {
				createExternalCheck()
				begin(checkA, external)
				flip(checkA, 1, autoscaling.Provisioned)
				ready := wl.await("ready by one check", inState(checkA, kueue.CheckStateReady))
				gomega.Expect(workload.IsAdmitted(ready)).To(gomega.BeFalse())
				gomega.Expect(isSuspended()).To(gomega.BeTrue())
				passExternalCheck()
				wl.await("admitted", workload.IsAdmitted)
				gomega.Eventually(isSuspended, util.Timeout, util.ShortInterval).Should(gomega.BeFalse())
				gomega.Eventually(func(g gomega.Gomega) {
					job := &batchv1.Job{}
					g.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "job"}, job)).To(gomega.Succeed())
					job.Status.Conditions = []batchv1.JobCondition{
						{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
						{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
					}
					job.Status.StartTime, job.Status.CompletionTime = ptr.To(metav1.Now()), ptr.To(metav1.Now())
					g.Expect(k8sClient.Status().Update(ctx, job)).To(gomega.Succeed())
				}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
				wl.await("finished", workloadfinish.IsFinished)
			})

			ginkgo.It("Should be suspended again when it is preempted, and reuse its request", func() {
				keepRequests()
				begin(checkA)
				flip(checkA, 1, autoscaling.Provisioned)
				wl.await("admitted", workload.IsAdmitted)
				otherKey := createJob("other", highPriority)
				wl.await("released", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
				gomega.Eventually(isSuspended, util.Timeout, util.ShortInterval).Should(gomega.BeTrue())
				util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, clusterQueue.Name, otherKey)
				deleteJob("other", otherKey)
				wl.await("admitted again", workload.IsAdmitted)
				expectAttempts(checkA, 1)
			})

			ginkgo.It("Should lose its quota to another job while a request is in flight, and keep the request", func() {
				keepRequests()
				begin(checkA)
				otherKey := createJob("other", highPriority)
				wl.await("released", func(wl *kueue.Workload) bool { return workloadevict.IsEvicted(wl) && !workload.HasQuotaReservation(wl) })
				deleteJob("other", otherKey)
				wl.await("reserved again", holdsQuota)
				flip(checkA, 1, autoscaling.Provisioned)
				wl.await("admitted", workload.IsAdmitted)
				expectAttempts(checkA, 1)
			})

			ginkgo.It("Should let others run when its job is deleted", func() {
				begin(checkA)
				flip(checkA, 1, autoscaling.Provisioned)
				wl.await("admitted", workload.IsAdmitted)
				deleteJob("job", key)
				util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, clusterQueue.Name, createJob("other", lowPriority))
			})

			ginkgo.It("Should stop when it is deactivated while a request is in flight", func() {
				begin(checkA)
				gomega.Eventually(func(g gomega.Gomega) {
					updated := &kueue.Workload{}
					g.Expect(k8sClient.Get(ctx, key, updated)).To(gomega.Succeed())
					updated.Spec.Active = ptr.To(false)
					g.Expect(k8sClient.Update(ctx, updated)).To(gomega.Succeed())
				}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
				wl.await("released", func(wl *kueue.Workload) bool { return !workload.HasQuotaReservation(wl) })
			})

			// failUntilTried lets the first request fail until there is a second one: with the gate
			// off the eviction for another check may delete it, and then it is made anew.
			failUntilTried := func(check kueue.AdmissionCheckReference) {
				ginkgo.GinkgoHelper()
				gomega.Eventually(func(g gomega.Gomega) {
					request := &autoscaling.ProvisioningRequest{}
					of := func(attempt int32) client.ObjectKey {
						return client.ObjectKey{Namespace: ns.Name, Name: provisioning.ProvisioningRequestName(key.Name, check, attempt)}
					}
					if k8sClient.Get(ctx, of(1), request) == nil && !apimeta.IsStatusConditionTrue(request.Status.Conditions, autoscaling.Failed) {
						flip(check, 1, autoscaling.Failed)
					}
					g.Expect(k8sClient.Get(ctx, of(2), request)).To(gomega.Succeed())
				}, util.LongTimeout, util.ShortInterval).Should(gomega.Succeed())
			}

			for name, failing := range map[string][]kueue.AdmissionCheckReference{"one check": {checkA}, "both checks": {checkA, checkB}} {
				ginkgo.It(fmt.Sprintf("Should retry, and then be rejected, by %s", name), func() {
					begin(checkA, checkB)
					for _, check := range failing {
						flip(check, 1, autoscaling.Failed)
					}
					wl.await("evicted", workloadevict.IsEvicted)
					if !gate {
						for _, check := range failing {
							failUntilTried(check)
						}
					}
					for _, check := range failing {
						flip(check, 2, autoscaling.Failed)
					}
					expectDeactivated()
					gomega.Eventually(func() []int {
						attempts := wl.attempts(key, checkA)
						if !gate {
							return slices.Compact(attempts) // one may be deleted, and made anew
						}
						return attempts
					}, util.Timeout, util.ShortInterval).Should(gomega.Equal([]int{1, 2}))
				})
			}

			ginkgo.It("Should be admitted when the queue asks for the check no longer", func() {
				begin(checkA)
				request := awaitRequest(checkA, 1)
				updateQueue(func() { clusterQueue.Spec.AdmissionChecksStrategy = nil })
				wl.await("admitted", workload.IsAdmitted)
				util.ExpectObjectToBeDeleted(ctx, k8sClient, request, false)
			})

			ginkgo.It("Should replace the request when the config changes, and when it is removed and created again", func() {
				begin(checkA)
				configs[checkA].Spec.ProvisioningClassName = "other-class"
				gomega.Expect(k8sClient.Update(ctx, configs[checkA])).To(gomega.Succeed())
				gomega.Eventually(func(g gomega.Gomega) {
					g.Expect(awaitRequest(checkA, 1).Spec.ProvisioningClassName).To(gomega.Equal("other-class"))
				}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())

				request := awaitRequest(checkA, 1)
				util.ExpectObjectToBeDeleted(ctx, k8sClient, configs[checkA], true)
				wl.await("without an active check", func(wl *kueue.Workload) bool {
					return stateOf(wl, checkA).Message == provisioning.CheckInactiveMessage
				})
				util.ExpectObjectToBeDeleted(ctx, k8sClient, request, false)
				configs[checkA].ResourceVersion = ""
				util.MustCreate(ctx, k8sClient, configs[checkA])
				flip(checkA, 1, autoscaling.Provisioned)
				wl.await("admitted", workload.IsAdmitted)
			})
		})
	}
})
