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

package external

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
	workloadjob "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/features"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta1"
	testingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/test/util"
)

// longDelay is longer than any spec takes.
const longDelay = 10 * time.Minute

// history holds each version of a workload.
type history struct {
	watch    watch.Interface
	versions []*kueue.Workload
}

func (h *history) last() *kueue.Workload {
	return h.versions[len(h.versions)-1]
}

// await reads on until a version satisfies the condition, and returns it.
func (h *history) await(what string, condition func(wl *kueue.Workload) bool) *kueue.Workload {
	ginkgo.GinkgoHelper()
	deadline := time.After(util.Timeout)
	for {
		select {
		case event := <-h.watch.ResultChan():
			wl, isWorkload := event.Object.(*kueue.Workload)
			gomega.Expect(isWorkload).To(gomega.BeTrue(), "unexpected event %v", event)
			h.versions = append(h.versions, wl)
			if condition(wl) {
				return wl
			}
		case <-deadline:
			ginkgo.Fail(fmt.Sprintf("timed out waiting for the workload to be %s; last seen:\n%v", what, h.last().Status))
		}
	}
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

func isWaiting(wl *kueue.Workload) bool {
	return !workload.HasQuotaReservation(wl) && apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) && !requeueAt(wl).IsZero()
}

func isRequeued(wl *kueue.Workload) bool {
	return workload.IsEvicted(wl) && apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadRequeued)
}

var _ = ginkgo.Describe("External admission checks", ginkgo.Label("controller:external", "feature:admissionchecks", "feature:acrequeueafter"), func() {
	var (
		ns             *corev1.Namespace
		check, second  *kueue.AdmissionCheck
		resourceFlavor *kueue.ResourceFlavor
		clusterQueue   *kueue.ClusterQueue
		localQueue     *kueue.LocalQueue
		wl             *history
		key            client.ObjectKey
		controllerName string
		calls          atomic.Int32
		writer         *external.Writer
	)

	// begin starts a manager, and a job in a queue with the given checks.
	begin := func(opts external.Options, checks ...*kueue.AdmissionCheck) {
		ginkgo.GinkgoHelper()
		opts.ControllerName = controllerName
		decide := opts.Decide
		opts.Decide = func(ctx context.Context, wl *kueue.Workload, check external.Check) (external.Verdict, error) {
			defer ginkgo.GinkgoRecover()
			calls.Add(1)
			gomega.Expect(workload.HasQuotaReservation(wl)).To(gomega.BeTrue(), "asked without quota")
			gomega.Expect(workload.IsEvicted(wl)).To(gomega.BeFalse(), "asked while evicted")
			gomega.Expect(check.State.State).To(gomega.Equal(kueue.CheckStatePending))
			return decide(ctx, wl, check)
		}
		fwk.StartManager(ctx, cfg, managerSetup(opts))

		util.MustCreate(ctx, k8sClient, resourceFlavor)
		names := make([]kueue.AdmissionCheckReference, 0, len(checks))
		for _, check := range checks {
			util.MustCreate(ctx, k8sClient, check)
			names = append(names, kueue.AdmissionCheckReference(check.Name))
		}
		clusterQueue = utiltestingapi.MakeClusterQueue("cq-" + ns.Name).
			ResourceGroup(*utiltestingapi.MakeFlavorQuotas(resourceFlavor.Name).Resource(corev1.ResourceCPU, "1").Obj()).
			AdmissionChecks(names...).
			Obj()
		util.MustCreate(ctx, k8sClient, clusterQueue)
		localQueue = utiltestingapi.MakeLocalQueue("lq", ns.Name).ClusterQueue(clusterQueue.Name).Obj()
		util.MustCreate(ctx, k8sClient, localQueue)
		job := testingjob.MakeJob("job", ns.Name).Queue(kueue.LocalQueueName(localQueue.Name)).Request(corev1.ResourceCPU, "1").Obj()
		util.MustCreate(ctx, k8sClient, job)

		key = client.ObjectKey{Namespace: ns.Name, Name: workloadjob.GetWorkloadNameForJob(job.Name, job.UID)}
		w, err := k8sClient.Watch(ctx, &kueue.WorkloadList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		wl = &history{watch: w}
	}

	stateOf := func(wl *kueue.Workload, check *kueue.AdmissionCheck) kueue.AdmissionCheckState {
		return ptr.Deref(external.StateOf(wl, kueue.AdmissionCheckReference(check.Name)), kueue.AdmissionCheckState{})
	}

	say := func(verdict external.Verdict) {
		ginkgo.GinkgoHelper()
		gomega.Expect(writer.SetState(ctx, key, kueue.AdmissionCheckReference(check.Name), func(*kueue.Workload, kueue.AdmissionCheckState) external.Verdict {
			return verdict
		})).To(gomega.Succeed())
	}

	// passAt has the check succeed after the given number of retries, for which it
	// asks with the given delay.
	passAt := func(retries int32, delay time.Duration) external.Func {
		return func(_ context.Context, _ *kueue.Workload, check external.Check) (external.Verdict, error) {
			if check.Retries() < retries {
				return external.Retry(delay, "not yet"), nil
			}
			return external.Ready("now"), nil
		}
	}

	ginkgo.BeforeEach(func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, true)
		ns = util.CreateNamespaceFromPrefixWithLog(ctx, k8sClient, "external-")
		controllerName = "example.com/" + ns.Name
		resourceFlavor = utiltestingapi.MakeResourceFlavor("flavor-" + ns.Name).Obj()
		check = utiltestingapi.MakeAdmissionCheck("a-" + ns.Name).ControllerName(controllerName).Obj()
		second = utiltestingapi.MakeAdmissionCheck("b-" + ns.Name).ControllerName(controllerName).Obj()
		writer = &external.Writer{Client: k8sClient, Reader: k8sClient, FieldManager: controllerName}
		calls.Store(0)
	})

	ginkgo.AfterEach(func() {
		wl.watch.Stop()
		gomega.Expect(util.DeleteNamespace(ctx, k8sClient, ns)).To(gomega.Succeed())
		util.ExpectObjectToBeDeleted(ctx, k8sClient, clusterQueue, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, check, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, second, true)
		util.ExpectObjectToBeDeleted(ctx, k8sClient, resourceFlavor, true)
		fwk.StopManager(ctx)
	})

	for _, mergePatch := range []bool{false, true} {
		ginkgo.It(fmt.Sprintf("Should be admitted after retries with and without a delay, WorkloadRequestUseMergePatch=%v", mergePatch), func() {
			features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
			begin(external.Options{Decide: func(_ context.Context, _ *kueue.Workload, check external.Check) (external.Verdict, error) {
				switch check.Retries() {
				case 0:
					return external.Retry(1500*time.Millisecond, "in two seconds"), nil
				case 1:
					return external.Retry(0, "at once"), nil
				default:
					return external.Ready("now"), nil
				}
			}}, check)

			said := wl.await("to be retried", func(wl *kueue.Workload) bool { return stateOf(wl, check).State == kueue.CheckStateRetry })
			gomega.Expect(stateOf(said, check).RequeueAfterSeconds).To(gomega.Equal(ptr.To[int32](2)))
			gomega.Expect(stateOf(said, check).RetryCount).To(gomega.BeNil())
			from := len(wl.versions)
			waiting := wl.await("waiting", isWaiting)
			requeued := wl.await("requeued", isRequeued)
			for _, version := range wl.versions[from : len(wl.versions)-1] {
				gomega.Expect(stateOf(version, check)).To(gomega.Equal(stateOf(said, check)), "the check was written while the workload waits")
			}
			gomega.Expect(stateOf(requeued, check).RetryCount).To(gomega.Equal(ptr.To[int32](1)))
			reserved := wl.await("reserved again", workload.HasQuotaReservation)
			gomega.Expect(apimeta.FindStatusCondition(reserved.Status.Conditions, kueue.WorkloadQuotaReserved).LastTransitionTime.Time).
				To(gomega.BeTemporally(">=", requeueAt(waiting)))

			again := wl.await("to be retried again", func(wl *kueue.Workload) bool { return stateOf(wl, check).State == kueue.CheckStateRetry })
			gomega.Expect(stateOf(again, check).RetryCount).To(gomega.Equal(ptr.To[int32](1)))
			gomega.Expect(ptr.Deref(stateOf(again, check).RequeueAfterSeconds, 0)).To(gomega.BeZero(), "the delay of the first retry is still there")
			ready := wl.await("ready", func(wl *kueue.Workload) bool { return stateOf(wl, check).State == kueue.CheckStateReady })
			gomega.Expect(stateOf(ready, check).RetryCount).To(gomega.Equal(ptr.To[int32](2)))
			gomega.Expect(stateOf(ready, check).RequeueAfterSeconds).To(gomega.BeNil())
			wl.await("admitted", workload.IsAdmitted)
		})
	}

	ginkgo.It("Should decide anew when the workload changes while it decides", func() {
		begin(external.Options{Decide: func(_ context.Context, decided *kueue.Workload, _ external.Check) (external.Verdict, error) {
			if _, changed := decided.Labels["changed"]; changed {
				return external.Ready("decided on the new version"), nil
			}
			fresh := &kueue.Workload{}
			if err := k8sClient.Get(ctx, client.ObjectKeyFromObject(decided), fresh); err != nil {
				return external.Verdict{}, err
			}
			if fresh.Labels == nil {
				fresh.Labels = map[string]string{}
			}
			fresh.Labels["changed"] = "yes"
			if err := k8sClient.Update(ctx, fresh); err != nil {
				return external.Verdict{}, err
			}
			return external.Rejected("decided on an old version"), nil
		}}, check)

		wl.await("admitted", workload.IsAdmitted)
		for _, version := range wl.versions {
			gomega.Expect(stateOf(version, check).State).NotTo(gomega.Equal(kueue.CheckStateRejected))
		}
		gomega.Expect(calls.Load()).To(gomega.BeNumerically(">=", 2))
	})

	ginkgo.It("Should answer for two checks of a workload, and leave each as the other answers", func() {
		begin(external.Options{Decide: func(_ context.Context, wl *kueue.Workload, asked external.Check) (external.Verdict, error) {
			switch {
			case asked.AdmissionCheck.Name == second.Name || asked.Retries() > 0:
				return external.Ready("now"), nil
			case stateOf(wl, second).State != kueue.CheckStateReady:
				return external.Pending("after the other"), nil
			default:
				return external.Retry(time.Second, "not yet"), nil
			}
		}}, check, second)

		retry := wl.await("to be retried", func(wl *kueue.Workload) bool { return stateOf(wl, check).State == kueue.CheckStateRetry })
		gomega.Expect(stateOf(retry, second).State).To(gomega.Equal(kueue.CheckStateReady))
		admitted := wl.await("admitted", workload.IsAdmitted)
		gomega.Expect(admitted.Status.AdmissionChecks).To(gomega.HaveLen(2))
	})

	ginkgo.It("Should forget the changes to the pods and the delay of an earlier answer", func() {
		updates := kueue.PodSetUpdate{Name: kueue.DefaultPodSetName, NodeSelector: map[string]string{"pool": "a"}}
		begin(external.Options{Decide: func(_ context.Context, _ *kueue.Workload, check external.Check) (external.Verdict, error) {
			if check.Retries() == 0 {
				return external.Ready("in a pool", updates), nil
			}
			return external.Ready("anywhere"), nil
		}}, check)
		admitted := wl.await("admitted", workload.IsAdmitted)
		gomega.Expect(stateOf(admitted, check).PodSetUpdates).To(gomega.Equal([]kueue.PodSetUpdate{updates}))

		ginkgo.By("taking the answer back")
		say(external.Retry(time.Second, "the pool is broken"))
		wl.await("evicted", workload.IsEvicted)
		again := wl.await("admitted again", func(wl *kueue.Workload) bool { return workload.IsAdmitted(wl) && !workload.IsEvicted(wl) })
		gomega.Expect(stateOf(again, check).Message).To(gomega.Equal("anywhere"))
		gomega.Expect(stateOf(again, check).PodSetUpdates).To(gomega.BeEmpty())
		gomega.Expect(stateOf(again, check).RequeueAfterSeconds).To(gomega.BeNil())
	})

	ginkgo.It("Should move the deadline of a workload that waits, and withdraw the request", func() {
		begin(external.Options{Decide: passAt(1, longDelay)}, check)
		first := requeueAt(wl.await("waiting", isWaiting))

		ginkgo.By("asking for the same delay again, which changes nothing")
		version := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, key, version)).To(gomega.Succeed())
		say(external.Retry(longDelay, "not yet"))
		same := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, key, same)).To(gomega.Succeed())
		gomega.Expect(same.ResourceVersion).To(gomega.Equal(version.ResourceVersion))

		ginkgo.By("renewing it")
		renewed := external.Retry(longDelay, "not yet")
		renewed.Renew = true
		gomega.Eventually(func(g gomega.Gomega) {
			say(renewed)
			g.Expect(k8sClient.Get(ctx, key, version)).To(gomega.Succeed())
			g.Expect(requeueAt(version)).To(gomega.BeTemporally(">", first))
		}, util.Timeout, util.Interval).Should(gomega.Succeed())

		ginkgo.By("asking for the time until which it waits, which changes nothing, and for a later one")
		wl.await("waiting for the renewed delay", func(wl *kueue.Workload) bool { return wl.ResourceVersion == version.ResourceVersion })
		at := requeueAt(version)
		say(external.RetryAt(at, "not yet"))
		gomega.Expect(k8sClient.Get(ctx, key, same)).To(gomega.Succeed())
		gomega.Expect(same.ResourceVersion).To(gomega.Equal(version.ResourceVersion))
		at = at.Add(time.Hour)
		say(external.RetryAt(at, "not yet"))
		wl.await("waiting until the time", func(wl *kueue.Workload) bool { return requeueAt(wl).Equal(at) })

		ginkgo.By("prolonging and shortening it")
		asked := calls.Load()
		say(external.Retry(12*longDelay, "even later"))
		wl.await("waiting for longer", func(wl *kueue.Workload) bool { return requeueAt(wl).After(at) })
		say(external.Retry(longDelay/2, "earlier"))
		wl.await("waiting for less", func(wl *kueue.Workload) bool { return isWaiting(wl) && requeueAt(wl).Before(first) })

		ginkgo.By("withdrawing it")
		gomega.Expect(calls.Load()).To(gomega.Equal(asked), "asked while the workload waits")
		say(external.Pending("there is room"))
		requeued := wl.await("requeued", isRequeued)
		gomega.Expect(stateOf(requeued, check).RequeueAfterSeconds).To(gomega.BeNil())
	})

	ginkgo.It("Should end a delay that another field manager owns as well", func() {
		begin(external.Options{Decide: passAt(1, longDelay)}, check)
		waiting := wl.await("waiting", isWaiting)
		patch := &kueue.Workload{
			TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "Workload"},
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{stateOf(waiting, check)}},
		}
		gomega.Expect(k8sClient.Status().Patch(ctx, patch, client.Apply, client.FieldOwner("someone-else"), client.ForceOwnership)).To(gomega.Succeed())
		say(external.Retry(0, "at once"))
		wl.await("admitted", workload.IsAdmitted)
	})

	ginkgo.It("Should let those that wait go on when a source changes", func() {
		var open atomic.Bool
		decide := func(context.Context, *kueue.Workload, external.Check) (external.Verdict, error) {
			if open.Load() {
				return external.Ready("open"), nil
			}
			return external.Retry(longDelay, "closed"), nil
		}
		begin(external.Options{
			Decide:       decide,
			WhileWaiting: decide,
			Sources: []external.Source{{
				Object:   &corev1.ConfigMap{},
				Concerns: func(obj client.Object, wl *kueue.Workload) bool { return obj.GetNamespace() == wl.Namespace },
			}},
		}, check)
		wl.await("waiting", isWaiting)
		open.Store(true)
		util.MustCreate(ctx, k8sClient, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "source"}})
		requeued := wl.await("requeued", isRequeued)
		gomega.Expect(stateOf(requeued, check).State).To(gomega.Equal(kueue.CheckStatePending))
		gomega.Expect(stateOf(requeued, check).RetryCount).To(gomega.BeNil(), "a request that was withdrawn was counted as a retry")
		wl.await("admitted", workload.IsAdmitted)
	})

	ginkgo.It("Should ask again while the check is pending, and after errors", func() {
		begin(external.Options{Poll: 100 * time.Millisecond, Decide: func(context.Context, *kueue.Workload, external.Check) (external.Verdict, error) {
			switch calls.Load() {
			case 1:
				return external.Rejected("must not be written"), fmt.Errorf("by test: %w", context.DeadlineExceeded)
			case 2, 3:
				return external.Pending("working"), nil
			default:
				return external.Ready("done"), nil
			}
		}}, check)
		wl.await("admitted", workload.IsAdmitted)
		gomega.Expect(calls.Load()).To(gomega.BeNumerically(">=", 4))
	})

	ginkgo.It("Should keep the check inactive until it can be used", func() {
		const name = "parameters"
		begin(external.Options{
			Decide: passAt(0, 0),
			Validate: func(ctx context.Context, _ *kueue.AdmissionCheck) error {
				err := k8sClient.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, &corev1.ConfigMap{})
				if apierrors.IsNotFound(err) {
					return external.Inactive("NoParameters", "there is no ConfigMap "+name)
				}
				return err
			},
			Sources: []external.Source{{Object: &corev1.ConfigMap{}}},
		}, check)
		expectActive := func(status metav1.ConditionStatus, reason string) {
			ginkgo.GinkgoHelper()
			gomega.Eventually(func(g gomega.Gomega) {
				g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(check), check)).To(gomega.Succeed())
				condition := apimeta.FindStatusCondition(check.Status.Conditions, kueue.AdmissionCheckActive)
				g.Expect(condition).NotTo(gomega.BeNil())
				g.Expect(condition.Status).To(gomega.Equal(status))
				g.Expect(condition.Reason).To(gomega.Equal(reason))
			}, util.Timeout, util.ShortInterval).Should(gomega.Succeed())
		}
		expectActive(metav1.ConditionFalse, "NoParameters")
		gomega.Expect(calls.Load()).To(gomega.BeZero())

		util.MustCreate(ctx, k8sClient, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}})
		expectActive(metav1.ConditionTrue, "Active")
		wl.await("admitted", workload.IsAdmitted)
	})
})
