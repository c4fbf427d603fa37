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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadpatching "sigs.k8s.io/kueue/pkg/workload/patching"
	"sigs.k8s.io/kueue/test/util"
)

// checkWriter writes the state of an admission check, as its controller would.
type checkWriter func(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState)

func applyCheck(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState) {
	patch := &kueue.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{check}},
	}
	g.Expect(k8sClient.Status().Patch(ctx, patch, client.Apply, client.FieldOwner("ctrl-"+string(check.Name)), client.ForceOwnership)).To(gomega.Succeed())
}

func applyCheckWithResourceVersion(g gomega.Gomega, key client.ObjectKey, check kueue.AdmissionCheckState) {
	wl := &kueue.Workload{}
	g.Expect(k8sClient.Get(ctx, key, wl)).To(gomega.Succeed())
	patch := &kueue.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, ResourceVersion: wl.ResourceVersion},
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
	workloadpatching.SetAdmissionCheckState(&wl.Status.AdmissionChecks, check, clock.RealClock{})
	admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check.Name).LastTransitionTime = check.LastTransitionTime
	g.Expect(k8sClient.Status().Update(ctx, wl, client.FieldOwner("ctrl-"+string(check.Name)))).To(gomega.Succeed())
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

func (h *history) last() *kueue.Workload {
	return h.versions[len(h.versions)-1]
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
			ginkgo.Fail(fmt.Sprintf("timed out waiting for the workload to be %s; last seen:\n%v", what, h.last().Status))
		}
	}
}

// deadlineAt returns the deadline that holds with the given version: the recorded
// one, or what the checks ask for when one of them has just spoken, because its
// deadline can be over before it is recorded.
func (h *history) deadlineAt(i int) time.Time {
	checks := h.versions[i].Status.AdmissionChecks
	recorded := requeueAtOf(h.versions[i])
	if i == 0 || equality.Semantic.DeepEqual(checks, h.versions[i-1].Status.AdmissionChecks) {
		return recorded
	}
	asked := time.Time{}
	for _, check := range checks {
		delay := ptr.Deref(check.RequeueAfterSeconds, ptr.Deref(check.PolicyDelaySeconds, 0))
		deadline := check.LastTransitionTime.Add(time.Duration(delay) * time.Second)
		if check.State == kueue.CheckStateRetry && deadline.After(asked) {
			asked = deadline
		}
	}
	if asked.Before(recorded) {
		return asked
	}
	return recorded
}

// expectNeverEarly checks that no version got quota reserved while the one
// before it had a deadline ahead. Both times are as written, in whole seconds.
func (h *history) expectNeverEarly() {
	ginkgo.GinkgoHelper()
	for i := 1; i < len(h.versions); i++ {
		before, after := h.versions[i-1], h.versions[i]
		if workload.HasQuotaReservation(before) || !workload.HasQuotaReservation(after) {
			continue
		}
		gomega.Expect(workload.HasRetryChecks(before)).To(gomega.BeFalse(), "reserved with a check in Retry:\n%v", after.Status)
		reserved := apimeta.FindStatusCondition(after.Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime
		gomega.Expect(reserved.Time).To(gomega.BeTemporally(">=", requeueAtOf(before)), "reserved early:\n%v", after.Status)
	}
}

func isRequeued(wl *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
}

func isReleased(wl *kueue.Workload) bool {
	return workloadevict.IsEvicted(wl) && !workload.HasQuotaReservation(wl)
}

// waitsFor returns a condition that holds while the workload waits, or is about
// to wait, for more than the given time.
func waitsFor(atLeast time.Duration) func(wl *kueue.Workload) bool {
	return func(wl *kueue.Workload) bool { return time.Until(requeueAtOf(wl)) > atLeast }
}

// isAsNew returns true if retries have left nothing on the workload.
func isAsNew(wl *kueue.Workload) bool {
	for _, check := range wl.Status.AdmissionChecks {
		if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || check.PolicyDelaySeconds != nil || check.RetryCount != nil {
			return false
		}
	}
	return wl.Status.RequeueState == nil
}

func requeueAtOf(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

var delayedRetryLabels = ginkgo.Label("controller:job", "area:jobs", "feature:acrequeueafter")

// longDelay is longer than any spec takes. A spec that has something to do while
// the workload waits asks for it, and for a shorter one when that is done.
const longDelay = 600

// delayedRetryTest holds the objects of a spec, and the history of the workload
// that it is about.
type delayedRetryTest struct {
	ns             *corev1.Namespace
	resourceFlavor *kueue.ResourceFlavor
	checkA, checkB *kueue.AdmissionCheck
	clusterQueue   *kueue.ClusterQueue
	// otherQueue is that of the specs with two ClusterQueues.
	otherQueue *kueue.ClusterQueue
	localQueue *kueue.LocalQueue
	key        client.ObjectKey
	wl         *history

	// startManager starts a manager. A spec may replace it in BeforeEach.
	startManager func()
}

// newDelayedRetryTest sets up each spec of the container that calls it: the gate
// on, a manager, a flavor and two admission checks.
func newDelayedRetryTest() *delayedRetryTest {
	t := &delayedRetryTest{}

	ginkgo.BeforeEach(func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, true)
		*t = delayedRetryTest{startManager: func() {
			fwk.StartManager(ctx, cfg, managerAndControllersSetup(false, true, nil))
		}}
	})

	ginkgo.JustBeforeEach(func() {
		t.startManager()

		t.ns = util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, "retry-")
		t.resourceFlavor = utiltestingapi.MakeResourceFlavor("flavor-" + t.ns.Name).Obj()
		util.MustCreate(ctx, k8sClient, t.resourceFlavor)
		t.checkA = utiltestingapi.MakeAdmissionCheck("a-" + t.ns.Name).ControllerName("ctrl").Obj()
		t.checkB = utiltestingapi.MakeAdmissionCheck("b-" + t.ns.Name).ControllerName("ctrl").Obj()
		for _, check := range []*kueue.AdmissionCheck{t.checkA, t.checkB} {
			util.MustCreate(ctx, k8sClient, check)
			util.SetAdmissionCheckActive(ctx, k8sClient, check, metav1.ConditionTrue)
		}
	})

	ginkgo.AfterEach(func() {
		// Also when something here fails: a manager that stays spoils the specs after it.
		defer fwk.StopManager(ctx)
		t.wl.watch.Stop()
		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, t.ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.clusterQueue, true)
		if t.otherQueue != nil {
			util.ExpectObjectToBeDeleted(ctx, k8sClient, t.otherQueue, true)
		}
		// A flavor goes when the manager's cache no longer has the ClusterQueue. Only then
		// the checks: v0.14.8 does not look again at one that was deleted before, when a
		// strategy named it.
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.resourceFlavor, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.checkA, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, t.checkB, true)
		t.wl.expectNeverEarly()
	})
	return t
}

func (t *delayedRetryTest) makeJob(name string) *testingjob.JobWrapper {
	return testingjob.MakeJob(name, t.ns.Name).Queue(kueue.LocalQueueName(t.localQueue.Name)).Request(corev1.ResourceCPU, "1")
}

func (t *delayedRetryTest) create(job *batchv1.Job) client.ObjectKey {
	ginkgo.GinkgoHelper()
	util.MustCreate(ctx, k8sClient, job)
	return client.ObjectKey{Namespace: t.ns.Name, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)}
}

func (t *delayedRetryTest) createJob(name string) client.ObjectKey {
	ginkgo.GinkgoHelper()
	return t.create(t.makeJob(name).Obj())
}

func (t *delayedRetryTest) ruleFor(check *kueue.AdmissionCheck, onFlavors ...kueue.ResourceFlavorReference) kueue.AdmissionCheckStrategyRule {
	return *utiltestingapi.MakeAdmissionCheckStrategyRule(kueue.AdmissionCheckReference(check.Name), onFlavors...).Obj()
}

// makeClusterQueue makes room for one job at a time.
func (t *delayedRetryTest) makeClusterQueue(checks ...kueue.AdmissionCheckStrategyRule) *utiltestingapi.ClusterQueueWrapper {
	return utiltestingapi.MakeClusterQueue("retry-cq-" + t.ns.Name).
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas(t.resourceFlavor.Name).Resource(corev1.ResourceCPU, "1").Obj()).
		AdmissionCheckStrategy(checks...)
}

func (t *delayedRetryTest) createQueuesWith(clusterQueue *kueue.ClusterQueue) {
	ginkgo.GinkgoHelper()
	t.clusterQueue = clusterQueue
	util.MustCreate(ctx, k8sClient, t.clusterQueue)
	t.createLocalQueue()
	util.ExpectClusterQueuesToBeActive(ctx, k8sClient, t.clusterQueue)
}

func (t *delayedRetryTest) createQueues(checks ...kueue.AdmissionCheckStrategyRule) {
	ginkgo.GinkgoHelper()
	t.createQueuesWith(t.makeClusterQueue(checks...).Obj())
}

func (t *delayedRetryTest) createLocalQueue() {
	ginkgo.GinkgoHelper()
	t.localQueue = utiltestingapi.MakeLocalQueue("lq", t.ns.Name).ClusterQueue(t.clusterQueue.Name).Obj()
	util.MustCreate(ctx, k8sClient, t.localQueue)
}

// follow makes the workload of the job the one that the spec is about.
func (t *delayedRetryTest) follow(key client.ObjectKey) {
	ginkgo.GinkgoHelper()
	t.key = key
	t.wl = watchWorkload(key)
}

func (t *delayedRetryTest) expectReserved() {
	ginkgo.GinkgoHelper()
	t.wl.until("reserved with its checks", util.Timeout, func(wl *kueue.Workload) bool {
		return workload.HasQuotaReservation(wl) && len(wl.Status.AdmissionChecks) == len(t.clusterQueue.Spec.AdmissionChecksStrategy.AdmissionChecks)
	})
}

// reserveFirst creates the queues, and a job that gets quota reserved.
func (t *delayedRetryTest) reserveFirst(checks ...kueue.AdmissionCheckStrategyRule) {
	ginkgo.GinkgoHelper()
	t.createQueues(checks...)
	t.follow(t.createJob("first"))
	t.expectReserved()
}

// createPriorityClasses creates WorkloadPriorityClasses of these values. Their names end in that of
// the namespace.
func (t *delayedRetryTest) createPriorityClasses(values map[string]int32) {
	ginkgo.GinkgoHelper()
	for name, value := range values {
		priorityClass := utiltestingapi.MakeWorkloadPriorityClass(name + "-" + t.ns.Name).PriorityValue(value).Obj()
		util.MustCreate(ctx, k8sClient, priorityClass)
		ginkgo.DeferCleanup(func() { util.ExpectObjectToBeDeleted(ctx, k8sClient, priorityClass, true) })
	}
}

// admitFirst has the checks succeed, so that the job runs. Its pods keep the
// quota when the workload is evicted, until endPods.
func (t *delayedRetryTest) admitFirst(checks ...*kueue.AdmissionCheck) {
	ginkgo.GinkgoHelper()
	for _, check := range checks {
		t.setCheck(applyCheck, check, kueue.CheckStateReady, nil)
	}
	t.wl.until("admitted", util.Timeout, workload.IsAdmitted)
	util.ExpectJobUnsuspended(ctx, k8sClient, client.ObjectKey{Namespace: t.ns.Name, Name: "first"})
	t.setActivePods(1)
}

func (t *delayedRetryTest) endPods() {
	ginkgo.GinkgoHelper()
	t.setActivePods(0)
}

func (t *delayedRetryTest) setActivePods(active int32) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		job := &batchv1.Job{}
		g.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: t.ns.Name, Name: "first"}, job)).To(gomega.Succeed())
		job.Status.Active = active
		g.Expect(k8sClient.Status().Update(ctx, job)).To(gomega.Succeed())
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

// writeCheck writes until it succeeds: some ways of writing meet conflicts.
func (t *delayedRetryTest) writeCheck(write checkWriter, check kueue.AdmissionCheckState) {
	ginkgo.GinkgoHelper()
	check.Message = "by test"
	gomega.Eventually(func(g gomega.Gomega) {
		write(g, t.key, check)
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

func (t *delayedRetryTest) setCheck(write checkWriter, check *kueue.AdmissionCheck, state kueue.CheckState, requeueAfterSeconds *int32) {
	ginkgo.GinkgoHelper()
	t.writeCheck(write, kueue.AdmissionCheckState{
		Name:                kueue.AdmissionCheckReference(check.Name),
		State:               state,
		LastTransitionTime:  metav1.Now(),
		RequeueAfterSeconds: requeueAfterSeconds,
	})
}

// retry has the check ask for a retry after the delay.
func (t *delayedRetryTest) retry(check *kueue.AdmissionCheck, seconds int32) {
	ginkgo.GinkgoHelper()
	t.setCheck(applyCheck, check, kueue.CheckStateRetry, ptr.To(seconds))
}

// expectReleased returns the index of the version that has lost its quota.
func (t *delayedRetryTest) expectReleased() int {
	ginkgo.GinkgoHelper()
	return t.wl.until("released", util.Timeout, isReleased)
}

// expectWaiting returns the index of a version that waits for a long delay.
func (t *delayedRetryTest) expectWaiting() int {
	ginkgo.GinkgoHelper()
	return t.wl.until("waiting", util.Timeout, func(wl *kueue.Workload) bool {
		return isReleased(wl) && !isRequeued(wl) && waitsFor(longDelay/2*time.Second)(wl)
	})
}

func (t *delayedRetryTest) setActive(active bool) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		wl := &kueue.Workload{}
		g.Expect(k8sClient.Get(ctx, t.key, wl)).To(gomega.Succeed())
		wl.Spec.Active = ptr.To(active)
		g.Expect(k8sClient.Update(ctx, wl)).To(gomega.Succeed())
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

// updateClusterQueue changes the spec of the ClusterQueue.
func (t *delayedRetryTest) updateClusterQueue(update func(spec *kueue.ClusterQueueSpec)) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		cq := &kueue.ClusterQueue{}
		g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(t.clusterQueue), cq)).To(gomega.Succeed())
		update(&cq.Spec)
		g.Expect(k8sClient.Update(ctx, cq)).To(gomega.Succeed())
	}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
}

// expectDeactivated waits until the workload is deactivated, and retries have left nothing.
func (t *delayedRetryTest) expectDeactivated() {
	ginkgo.GinkgoHelper()
	t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
		return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl)
	})
}

// expectReactivated activates the workload again, which is queued at once, as new.
func (t *delayedRetryTest) expectReactivated() {
	ginkgo.GinkgoHelper()
	t.setActive(true)
	t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	gomega.Expect(workloadevict.IsEvicted(t.wl.last())).To(gomega.BeFalse())
	gomega.Expect(isAsNew(t.wl.last())).To(gomega.BeTrue())
}

func (t *delayedRetryTest) finish(key client.ObjectKey) {
	ginkgo.GinkgoHelper()
	wl := &kueue.Workload{}
	gomega.Expect(k8sClient.Get(ctx, key, wl)).To(gomega.Succeed())
	util.FinishWorkloads(ctx, k8sClient, wl)
}

// expectPassedBy proves that the scheduler does not take the workload: a job
// that came later gets the quota. It is finished, so that the quota is free.
func (t *delayedRetryTest) expectPassedBy(name string) {
	ginkgo.GinkgoHelper()
	passing := t.createJob(name)
	util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, passing)
	t.finish(passing)
}

// expectReset follows the workload from the given version to the write at its
// deadline, and returns the index of the version that this write made.
func (t *delayedRetryTest) expectReset(from int, wantCounts map[string]int32) int {
	ginkgo.GinkgoHelper()
	reset := t.wl.until("reset", util.Timeout+util.LongTimeout, func(wl *kueue.Workload) bool {
		return isReleased(wl) && (requeueAtOf(wl).IsZero() || isRequeued(wl))
	})

	ginkgo.By("checking that it was not early")
	deadline := t.wl.deadlineAt(reset - 1)
	gomega.Expect(deadline).NotTo(gomega.BeZero())
	gomega.Expect(t.wl.seen[reset]).To(gomega.BeTemporally(">=", deadline))
	for _, version := range t.wl.versions[from:reset] {
		gomega.Expect(isReleased(version) && isRequeued(version)).To(gomega.BeFalse())
	}

	ginkgo.By("checking that this single write reset the checks")
	got := t.wl.versions[reset]
	gomega.Expect(requeueAtOf(got)).To(gomega.BeZero())
	for _, check := range got.Status.AdmissionChecks {
		gomega.Expect(check.State).To(gomega.Equal(kueue.CheckStatePending), "state of %s", check.Name)
		gomega.Expect(check.RequeueAfterSeconds).To(gomega.BeNil(), "requeueAfterSeconds of %s", check.Name)
		gomega.Expect(check.PolicyDelaySeconds).To(gomega.BeNil(), "policyDelaySeconds of %s", check.Name)
		gomega.Expect(check.LastTransitionTime.Time).To(gomega.BeTemporally(">=", deadline), "transition of %s", check.Name)
		gomega.Expect(ptr.Deref(check.RetryCount, 0)).To(gomega.Equal(wantCounts[string(check.Name)]), "retryCount of %s", check.Name)
	}
	return reset
}

// expectRequeued is expectReset for a workload that nothing else keeps from the queue.
func (t *delayedRetryTest) expectRequeued(from int, wantCounts map[string]int32) int {
	ginkgo.GinkgoHelper()
	requeued := t.expectReset(from, wantCounts)
	gomega.Expect(isRequeued(t.wl.versions[requeued])).To(gomega.BeTrue())
	return requeued
}

// expectRetryCycle follows the workload on to the next reservation, and returns
// the index of the version that was requeued.
func (t *delayedRetryTest) expectRetryCycle(from int, wantCounts map[string]int32) int {
	ginkgo.GinkgoHelper()
	requeued := t.expectRequeued(from, wantCounts)
	t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	for name, want := range wantCounts {
		check := admissioncheck.FindAdmissionCheck(t.wl.last().Status.AdmissionChecks, kueue.AdmissionCheckReference(name))
		gomega.Expect(check).NotTo(gomega.BeNil(), name)
		gomega.Expect(ptr.Deref(check.RetryCount, 0)).To(gomega.Equal(want), "retryCount of %s", name)
	}
	return requeued
}
