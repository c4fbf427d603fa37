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
	"context"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/util/admissioncheck"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

const (
	controllerName = "example.com/e2e"
	namePrefix     = "delayed-retry-"
	// jobCPU is what a job asks for, and the quota of a queue.
	jobCPU = "100m"
	// unchanged is for how long something is looked at that must not happen.
	unchanged = time.Second
)

// createCheck creates an active check, which says what the spec says with say.
func createCheck() kueue.AdmissionCheckReference {
	ginkgo.GinkgoHelper()
	check := utiltestingapi.MakeAdmissionCheck("").ControllerName(controllerName).Obj()
	check.GenerateName = namePrefix
	util.MustCreate(ctx, k8sClient, check)
	ginkgo.DeferCleanup(func() { util.ExpectObjectToBeDeleted(ctx, k8sClient, check, true) })
	util.SetAdmissionCheckActive(ctx, k8sClient, check, metav1.ConditionTrue)
	return kueue.AdmissionCheckReference(check.Name)
}

// fixture is a namespace with a queue, which has quota for one job.
type fixture struct {
	namespace    *corev1.Namespace
	flavor       *kueue.ResourceFlavor
	clusterQueue *kueue.ClusterQueue
	localQueue   *kueue.LocalQueue
}

// newFixture creates a fixture whose queue asks for the checks. All that is in
// its namespace is deleted with it after the spec.
func newFixture(checks ...kueue.AdmissionCheckReference) *fixture {
	ginkgo.GinkgoHelper()
	f := &fixture{namespace: util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, namePrefix)}
	ginkgo.DeferCleanup(f.delete)
	// The names are those of the namespace: specs run at the same time.
	f.flavor = utiltestingapi.MakeResourceFlavor(f.namespace.Name).Obj()
	util.MustCreate(ctx, k8sClient, f.flavor)
	f.clusterQueue = utiltestingapi.MakeClusterQueue(f.namespace.Name).
		ResourceGroup(*utiltestingapi.MakeFlavorQuotas(f.flavor.Name).Resource(corev1.ResourceCPU, jobCPU).Obj()).
		AdmissionChecks(checks...).
		Obj()
	util.CreateClusterQueuesAndWaitForActive(ctx, k8sClient, f.clusterQueue)
	f.localQueue = utiltestingapi.MakeLocalQueue("lq", f.namespace.Name).ClusterQueue(f.clusterQueue.Name).Obj()
	util.CreateLocalQueuesAndWaitForActive(ctx, k8sClient, f.localQueue)
	return f
}

func (f *fixture) delete() {
	gomega.Expect(util.DeleteNamespace(ctx, k8sClient, f.namespace)).To(gomega.Succeed())
	util.ExpectObjectToBeDeletedWithTimeout(ctx, k8sClient, f.clusterQueue, true, util.LongTimeout)
	util.ExpectObjectToBeDeleted(ctx, k8sClient, f.flavor, true)
	util.ExpectAllPodsInNamespaceDeleted(ctx, k8sClient, f.namespace)
}

// queuedJob is a job of a fixture, with one pod that runs until finish ends it.
type queuedJob struct {
	*batchv1.Job
	wlKey client.ObjectKey
}

func (f *fixture) createJob(name string) *queuedJob {
	ginkgo.GinkgoHelper()
	job := testingjob.MakeJob(name, f.namespace.Name).
		Queue(kueue.LocalQueueName(f.localQueue.Name)).
		Image(util.GetAgnHostImage(), util.BehaviorWaitForDeletion).
		RequestAndLimit(corev1.ResourceCPU, jobCPU).
		TerminationGracePeriod(1).
		Obj()
	util.MustCreate(ctx, k8sClient, job)
	return &queuedJob{
		Job:   job,
		wlKey: client.ObjectKey{Namespace: job.Namespace, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)},
	}
}

func (j *queuedJob) workload(g gomega.Gomega) *kueue.Workload {
	ginkgo.GinkgoHelper()
	wl := &kueue.Workload{}
	g.Expect(k8sClient.Get(ctx, j.wlKey, wl)).To(gomega.Succeed())
	return wl
}

func (j *queuedJob) pods(g gomega.Gomega) []corev1.Pod {
	ginkgo.GinkgoHelper()
	pods := &corev1.PodList{}
	g.Expect(k8sClient.List(ctx, pods, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name})).To(gomega.Succeed())
	return pods.Items
}

func ready(message string) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{State: kueue.CheckStateReady, Message: message}
}

func retry(after time.Duration, message string) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{State: kueue.CheckStateRetry, Message: message, RequeueAfterSeconds: ptr.To(int32(after.Seconds()))}
}

func rejected(message string) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{State: kueue.CheckStateRejected, Message: message}
}

// say writes the answer of a check, as its controller would.
func (j *queuedJob) say(check kueue.AdmissionCheckReference, answer kueue.AdmissionCheckState) {
	ginkgo.GinkgoHelper()
	answer.Name = check
	gomega.Eventually(func(g gomega.Gomega) {
		// The API drops fractions of seconds.
		answer.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Second))
		patch := &kueue.Workload{
			TypeMeta:   metav1.TypeMeta{APIVersion: kueue.SchemeGroupVersion.String(), Kind: "Workload"},
			ObjectMeta: metav1.ObjectMeta{Namespace: j.wlKey.Namespace, Name: j.wlKey.Name, ResourceVersion: j.workload(g).ResourceVersion},
			Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{answer}},
		}
		owner := client.FieldOwner(controllerName + "/" + string(check))
		g.Expect(k8sClient.Status().Patch(ctx, patch, client.Apply, owner, client.ForceOwnership)).To(gomega.Succeed())
	}, util.Timeout, util.Interval).Should(gomega.Succeed())
}

// asks returns true if the workload holds quota and waits for the answer of the check.
func asks(wl *kueue.Workload, check kueue.AdmissionCheckReference) bool {
	state := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check)
	return workload.HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl) && state != nil && state.State == kueue.CheckStatePending
}

// expectAsked waits until the job has quota and the check is asked, after the
// given number of its retries.
func (j *queuedJob) expectAsked(check kueue.AdmissionCheckReference, retries int32) *kueue.Workload {
	ginkgo.GinkgoHelper()
	var wl *kueue.Workload
	gomega.Eventually(func(g gomega.Gomega) {
		wl = j.workload(g)
		g.Expect(asks(wl, check)).To(gomega.BeTrue())
	}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
	state := admissioncheck.FindAdmissionCheck(wl.Status.AdmissionChecks, check)
	gomega.Expect(ptr.Deref(state.RetryCount, 0)).To(gomega.Equal(retries))
	gomega.Expect(state.RequeueAfterSeconds).To(gomega.BeNil())
	gomega.Expect(state.PolicyDelaySeconds).To(gomega.BeNil())
	return wl
}

// expectWaiting waits until the job is evicted and without quota, for a deadline
// that is not before the given time, and returns the deadline.
func (j *queuedJob) expectWaiting(notBefore time.Time) time.Time {
	ginkgo.GinkgoHelper()
	var deadline time.Time
	gomega.Eventually(func(g gomega.Gomega) {
		wl := j.workload(g)
		g.Expect(workloadevict.IsEvicted(wl)).To(gomega.BeTrue())
		g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
		g.Expect(apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)).To(gomega.BeTrue())
		g.Expect(wl.Status.RequeueState).NotTo(gomega.BeNil())
		g.Expect(wl.Status.RequeueState.RequeueAt).NotTo(gomega.BeNil())
		deadline = wl.Status.RequeueState.RequeueAt.Time
		// The API drops fractions of seconds.
		g.Expect(deadline).To(gomega.BeTemporally(">=", notBefore.Truncate(time.Second)))
	}, util.Timeout, util.Interval).Should(gomega.Succeed())
	return deadline
}

// expectWaitsUntil watches until the deadline that the job stays without quota
// and pods, and keeps the deadline.
func (j *queuedJob) expectWaitsUntil(deadline time.Time) {
	ginkgo.GinkgoHelper()
	j.expectNoPods()
	gomega.Consistently(func(g gomega.Gomega) {
		wl, pods := j.workload(g), j.pods(g)
		// What was read is older than this.
		if time.Now().Before(deadline) {
			g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
			g.Expect(pods).To(gomega.BeEmpty())
			g.Expect(ptr.Deref(wl.Status.RequeueState, kueue.RequeueState{}).RequeueAt).To(gomega.HaveValue(gomega.HaveField("Time", gomega.BeTemporally("==", deadline))))
		}
	}, time.Until(deadline), util.Interval).Should(gomega.Succeed())
}

// expectAskedAfter waits until the check is asked anew, and that the job got its
// quota not before the deadline.
func (j *queuedJob) expectAskedAfter(deadline time.Time, check kueue.AdmissionCheckReference, retries int32) {
	ginkgo.GinkgoHelper()
	wl := j.expectAsked(check, retries)
	reserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
	gomega.Expect(reserved.LastTransitionTime.Time).To(gomega.BeTemporally(">=", deadline))
}

// expectRunningPod waits until the only pod of the job runs.
func (j *queuedJob) expectRunningPod() *corev1.Pod {
	ginkgo.GinkgoHelper()
	var pods []corev1.Pod
	gomega.Eventually(func(g gomega.Gomega) {
		pods = j.pods(g)
		g.Expect(pods).To(gomega.HaveLen(1))
		g.Expect(pods[0].DeletionTimestamp).To(gomega.BeNil())
		g.Expect(pods[0].Status.Phase).To(gomega.Equal(corev1.PodRunning))
	}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
	return &pods[0]
}

// expectNoPods waits until the pods of the job are gone.
func (j *queuedJob) expectNoPods() {
	ginkgo.GinkgoHelper()
	gomega.Eventually(j.pods, util.LongTimeout, util.Interval).Should(gomega.BeEmpty())
}

// finish lets the pod end, and waits until the job has succeeded.
func (j *queuedJob) finish(pod *corev1.Pod) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		// The program may end before it has answered, and then does not answer again.
		exitCtx, cancel := context.WithTimeout(ctx, util.ShortTimeout)
		defer cancel()
		_ = restClient.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name+":8080").SubResource("proxy").Suffix("exit").
			Param("code", "0").Do(exitCtx).Error()
		g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(j.Job), j.Job)).To(gomega.Succeed())
		g.Expect(j.Status.Succeeded).To(gomega.Equal(int32(1)))
	}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
	util.ExpectWorkloadToFinish(ctx, k8sClient, j.wlKey)
}

func (j *queuedJob) setActive(active bool) {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		wl := j.workload(g)
		wl.Spec.Active = &active
		g.Expect(k8sClient.Update(ctx, wl)).To(gomega.Succeed())
	}, util.Timeout, util.Interval).Should(gomega.Succeed())
}

// expectDeactivated waits until a check's rejection has deactivated the job.
func (j *queuedJob) expectDeactivated() {
	ginkgo.GinkgoHelper()
	gomega.Eventually(func(g gomega.Gomega) {
		wl := j.workload(g)
		g.Expect(workload.IsActive(wl)).To(gomega.BeFalse())
		g.Expect(workloadevict.IsEvictedDueToDeactivationByKueue(wl)).To(gomega.BeTrue())
		g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
		g.Expect(wl.Status.RequeueState).To(gomega.BeNil())
	}, util.Timeout, util.Interval).Should(gomega.Succeed())
}

func (j *queuedJob) expectStaysDeactivated(duration time.Duration) {
	ginkgo.GinkgoHelper()
	gomega.Consistently(func(g gomega.Gomega) {
		wl := j.workload(g)
		g.Expect(workload.IsActive(wl)).To(gomega.BeFalse())
		g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
		g.Expect(j.pods(g)).To(gomega.BeEmpty())
	}, duration, util.Interval).Should(gomega.Succeed())
}
