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
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/test/util"
)

const controllerName = "example.com/e2e"

var _ = ginkgo.Describe("Delayed retry of admission checks", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	var (
		ns             *corev1.Namespace
		check          *kueue.AdmissionCheck
		resourceFlavor *kueue.ResourceFlavor
		clusterQueue   *kueue.ClusterQueue
		localQueue     *kueue.LocalQueue
		job            *batchv1.Job
		wlKey          client.ObjectKey
	)

	say := func(verdict external.Verdict) {
		ginkgo.GinkgoHelper()
		writer := &external.Writer{Client: k8sClient, Reader: k8sClient, FieldManager: controllerName}
		gomega.Eventually(func() error {
			return writer.SetState(ctx, wlKey, kueue.AdmissionCheckReference(check.Name), func(*kueue.Workload, kueue.AdmissionCheckState) external.Verdict { return verdict })
		}, util.Timeout, util.Interval).Should(gomega.Succeed())
	}

	// expectAsked waits until the check is asked, after the given number of retries.
	expectAsked := func(retries int32) *kueue.Workload {
		ginkgo.GinkgoHelper()
		wl := &kueue.Workload{}
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(k8sClient.Get(ctx, wlKey, wl)).To(gomega.Succeed())
			g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeTrue())
			g.Expect(external.Asks(wl, kueue.AdmissionCheckReference(check.Name))).To(gomega.BeTrue())
		}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
		state := external.StateOf(wl, kueue.AdmissionCheckReference(check.Name))
		gomega.Expect(ptr.Deref(state.RetryCount, 0)).To(gomega.Equal(retries))
		return wl
	}

	expectRunningPod := func() *corev1.Pod {
		ginkgo.GinkgoHelper()
		pods := &corev1.PodList{}
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(k8sClient.List(ctx, pods, client.InNamespace(ns.Name))).To(gomega.Succeed())
			g.Expect(pods.Items).To(gomega.HaveLen(1))
			g.Expect(pods.Items[0].DeletionTimestamp).To(gomega.BeNil())
			g.Expect(pods.Items[0].Status.Phase).To(gomega.Equal(corev1.PodRunning))
		}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
		return &pods.Items[0]
	}

	ginkgo.BeforeEach(func() {
		ns = util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, "delayed-retry-")
		resourceFlavor = utiltestingapi.MakeResourceFlavor("flavor-" + ns.Name).Obj()
		util.MustCreate(ctx, k8sClient, resourceFlavor)
		check = utiltestingapi.MakeAdmissionCheck("check-" + ns.Name).ControllerName(controllerName).Obj()
		util.MustCreate(ctx, k8sClient, check)
		util.SetAdmissionCheckActive(ctx, k8sClient, check, metav1.ConditionTrue)
		clusterQueue = utiltestingapi.MakeClusterQueue("cq-" + ns.Name).
			ResourceGroup(*utiltestingapi.MakeFlavorQuotas(resourceFlavor.Name).Resource(corev1.ResourceCPU, "100m").Obj()).
			AdmissionChecks(kueue.AdmissionCheckReference(check.Name)).
			Obj()
		util.CreateClusterQueuesAndWaitForActive(ctx, k8sClient, clusterQueue)
		localQueue = utiltestingapi.MakeLocalQueue("lq", ns.Name).ClusterQueue(clusterQueue.Name).Obj()
		util.CreateLocalQueuesAndWaitForActive(ctx, k8sClient, localQueue)

		job = testingjob.MakeJob("job", ns.Name).
			Queue(kueue.LocalQueueName(localQueue.Name)).
			Image(util.GetAgnHostImage(), util.BehaviorWaitForDeletion).
			RequestAndLimit(corev1.ResourceCPU, "100m").
			TerminationGracePeriod(1).
			Obj()
		util.MustCreate(ctx, k8sClient, job)
		wlKey = client.ObjectKey{Namespace: ns.Name, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)}
	})

	ginkgo.AfterEach(func() {
		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeletedWithTimeout(ctx, k8sClient, clusterQueue, true, util.LongTimeout)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, check, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, resourceFlavor, true)
		util.ExpectAllPodsInNamespaceDeleted(ctx, k8sClient, ns)
	})

	ginkgo.It("Should stop the pods of a job for the delay, and then run them to the end", func() {
		const delay = 10 * time.Second

		ginkgo.By("admitting the job")
		expectAsked(0)
		say(external.Ready("at first"))
		first := expectRunningPod()

		ginkgo.By("asking for a retry after the delay")
		asked := metav1.Now().Rfc3339Copy()
		say(external.Retry(delay, "not yet"))
		wl := &kueue.Workload{}
		gomega.Eventually(func(g gomega.Gomega) {
			g.Expect(k8sClient.Get(ctx, wlKey, wl)).To(gomega.Succeed())
			g.Expect(workload.IsEvicted(wl)).To(gomega.BeTrue())
			g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
			g.Expect(wl.Status.RequeueState).NotTo(gomega.BeNil())
			g.Expect(wl.Status.RequeueState.RequeueAt).NotTo(gomega.BeNil())
		}, util.Timeout, util.Interval).Should(gomega.Succeed())
		requeueAt := wl.Status.RequeueState.RequeueAt.Time
		gomega.Expect(requeueAt).To(gomega.BeTemporally(">=", asked.Add(delay)))
		util.ExpectAllPodsInNamespaceDeleted(ctx, k8sClient, ns)

		ginkgo.By("waiting for the delay, without quota and without pods")
		gomega.Consistently(func(g gomega.Gomega) {
			g.Expect(k8sClient.Get(ctx, wlKey, wl)).To(gomega.Succeed())
			g.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeFalse())
			pods := &corev1.PodList{}
			g.Expect(k8sClient.List(ctx, pods, client.InNamespace(ns.Name))).To(gomega.Succeed())
			g.Expect(pods.Items).To(gomega.BeEmpty())
		}, util.ConsistentDuration, util.Interval).Should(gomega.Succeed())

		ginkgo.By("retrying the check")
		wl = expectAsked(1)
		reserved := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadQuotaReserved)
		gomega.Expect(reserved.LastTransitionTime.Time).To(gomega.BeTemporally(">=", requeueAt))
		say(external.Ready("now"))

		ginkgo.By("ending the pod")
		second := expectRunningPod()
		gomega.Expect(second.UID).NotTo(gomega.Equal(first.UID))
		gomega.Eventually(func(g gomega.Gomega) {
			// The program may end before it has answered, and then does not answer again.
			_ = restClient.Get().Namespace(ns.Name).Resource("pods").Name(second.Name+":8080").SubResource("proxy").Suffix("exit").
				Param("code", "0").Do(ctx).Error()
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(job), job)).To(gomega.Succeed())
			g.Expect(job.Status.Succeeded).To(gomega.Equal(int32(1)))
		}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
		util.ExpectWorkloadToFinish(ctx, k8sClient, wlKey)
	})
})
