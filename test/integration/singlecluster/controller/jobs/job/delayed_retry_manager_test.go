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
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentconfigv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry of admission checks, when the manager restarts", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	restart := func(whileStopped func()) {
		ginkgo.GinkgoHelper()
		fwk.StopManager(ctx)
		whileStopped()
		t.startManager()
	}
	setGate := func(enabled bool) func() {
		return func() {
			features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, enabled)
		}
	}

	for _, mergePatch := range []bool{false, true} {
		ginkgo.It(fmt.Sprintf("Should not start early what waits, with WorkloadRequestUseMergePatch=%v", mergePatch), func() {
			features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.WorkloadRequestUseMergePatch, mergePatch)
			t.reserveFirst(t.ruleFor(t.checkA))
			t.retry(t.checkA, longDelay)
			waiting := t.expectWaiting()
			restart(func() {})
			t.expectPassedBy("passing")

			current := &kueue.Workload{}
			gomega.Expect(k8sClient.Get(ctx, t.key, current)).To(gomega.Succeed())
			gomega.Expect(current.ResourceVersion).To(gomega.Equal(t.wl.last().ResourceVersion), "a restart costs no write")

			t.retry(t.checkA, 1)
			t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
		})
	}

	ginkgo.It("Should requeue when the deadline is over at the start", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, 5)
		released := t.expectReleased()
		restart(func() {
			gomega.Eventually(time.Now, util.Timeout, util.ShortInterval).Should(gomega.BeTemporally(">", requeueAtOf(t.wl.last())))
			current := &kueue.Workload{}
			gomega.Expect(k8sClient.Get(ctx, t.key, current)).To(gomega.Succeed())
			gomega.Expect(current.ResourceVersion).To(gomega.Equal(t.wl.last().ResourceVersion))
		})
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.DescribeTable("Should follow what a check said while no manager ran", func(check kueue.AdmissionCheckState, wantCount int32) {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		restart(func() {
			t.setCheck(applyCheck, t.checkA, check.State, check.RequeueAfterSeconds)
		})
		if check.State == kueue.CheckStateRejected {
			t.wl.until("deactivated, with nothing left", util.Timeout, func(wl *kueue.Workload) bool {
				return !workload.IsActive(wl) && isReleased(wl) && isAsNew(wl)
			})
			return
		}
		t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
		for _, version := range t.wl.versions[waiting : len(t.wl.versions)-1] {
			gomega.Expect(isRequeued(version)).To(gomega.BeFalse())
		}
		gomega.Expect(ptr.Deref(t.wl.last().Status.AdmissionChecks[0].RetryCount, 0)).To(gomega.Equal(wantCount))
		t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
	},
		ginkgo.Entry("a shorter delay", kueue.AdmissionCheckState{State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](1)}, int32(1)),
		ginkgo.Entry("a delay that is withdrawn", kueue.AdmissionCheckState{State: kueue.CheckStatePending}, int32(0)),
		ginkgo.Entry("a rejection", kueue.AdmissionCheckState{State: kueue.CheckStateRejected}, int32(0)),
	)

	ginkgo.It("Should evict what asked for a retry while no manager ran", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		restart(func() { t.retry(t.checkA, 2) })
		evicted := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		t.expectRetryCycle(evicted, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should release and wait for what was evicted, and whose pods ended while no manager ran", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.admitFirst(t.checkA)
		t.retry(t.checkA, longDelay)
		t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		restart(t.endPods)
		waiting := t.expectWaiting()
		t.expectPassedBy("passing")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should hold to the recorded time while the gate is off, and listen again when it is on", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()

		ginkgo.By("restarting with the gate off")
		restart(setGate(false))
		t.retry(t.checkA, 1)
		t.expectPassedBy("passing-off")

		current := &kueue.Workload{}
		gomega.Expect(k8sClient.Get(ctx, t.key, current)).To(gomega.Succeed())
		gomega.Expect(isReleased(current)).To(gomega.BeTrue())
		gomega.Expect(requeueAtOf(current)).To(gomega.Equal(requeueAtOf(t.wl.versions[waiting])))

		ginkgo.By("restarting with the gate on")
		restart(setGate(true))
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should requeue at the recorded time with the gate off, beside a check that is bound to a flavor", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB, kueue.ResourceFlavorReference(t.resourceFlavor.Name)))
		t.retry(t.checkA, 4)
		t.expectReleased()
		deadline := requeueAtOf(t.wl.last())
		restart(setGate(false))
		requeued := t.wl.until("requeued", util.Timeout, func(wl *kueue.Workload) bool { return isReleased(wl) && isRequeued(wl) })
		gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", deadline))
		t.expectReserved()
		gomega.Expect(requeueAtOf(t.wl.last())).To(gomega.BeZero())
	})

	ginkgo.It("Should evict with the gate off as v0.14.8 what asked for a delay before, and go on with the gate on", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.admitFirst(t.checkA)
		t.retry(t.checkA, longDelay)
		t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		gomega.Expect(requeueAtOf(t.wl.last())).NotTo(gomega.BeZero())
		restart(setGate(false))
		t.retry(t.checkA, 8)
		restart(setGate(true))
		t.endPods()
		released := t.expectReleased()
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should free, with the gate on, a workload that a late Retry left out of the queue with the gate off", func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		t.createQueues(t.ruleFor(t.checkA))
		holder := t.createJob("holder")
		util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, holder)
		t.follow(t.createJob("first"))
		t.wl.until("queued, with its check", util.Timeout, func(wl *kueue.Workload) bool { return len(wl.Status.AdmissionChecks) == 1 })
		t.retry(t.checkA, longDelay)
		t.finish(holder)
		t.expectPassedBy("passing")
		t.wl.until("left out of the queue", util.Timeout, isLeftOutWithGateOff)

		restart(setGate(true))
		t.wl.until("held", util.Timeout, waitsFor(longDelay/2*time.Second))
		t.retry(t.checkA, 1)
		// Where Kueue recorded the time itself, the workload was never evicted.
		requeued := t.wl.until("requeued", util.Timeout, isRequeued)
		deadline := t.wl.deadlineAt(requeued - 1)
		gomega.Expect(deadline).NotTo(gomega.BeZero())
		gomega.Expect(t.wl.seen[requeued]).To(gomega.BeTemporally(">=", deadline))
		check := t.wl.versions[requeued].Status.AdmissionChecks[0]
		gomega.Expect(check.State).To(gomega.Equal(kueue.CheckStatePending))
		gomega.Expect(check.RequeueAfterSeconds).To(gomega.BeNil())
		gomega.Expect(check.RetryCount).To(gomega.Equal(ptr.To[int32](1)))
		t.wl.until("reserved", util.Timeout, workload.HasQuotaReservation)
	})
})

var _ = ginkgo.Describe("Delayed retry of admission checks, with two replicas", delayedRetryLabels, func() {
	t := newDelayedRetryTest()

	// replica is a manager as Kueue starts it with leader election: caches and
	// queues of its own, and a scheduler that only the leader runs.
	type replica struct {
		manager manager.Manager
		stop    context.CancelFunc
	}
	var first, second replica

	startReplica := func(releaseLease, isSecond bool, leaseID string) replica {
		ginkgo.GinkgoHelper()
		leaderElection := &componentconfigv1alpha1.LeaderElectionConfiguration{
			LeaderElect:   ptr.To(true),
			LeaseDuration: metav1.Duration{Duration: 6 * time.Second},
		}
		started := replica{}
		var replicaCtx context.Context
		replicaCtx, started.stop = context.WithCancel(ctx)
		setup := func(ctx context.Context, mgr manager.Manager) {
			started.manager = mgr
			configuration := &configapi.Configuration{}
			configuration.LeaderElection = leaderElection
			mgr.GetScheme().Default(configuration)
			managerSetup()(ctx, mgr)

			sched := setUpControllers(ctx, mgr, configuration)
			gomega.Expect(mgr.Add(sched)).To(gomega.Succeed())
		}
		fwk.StartManager(replicaCtx, cfg, setup, func(o *manager.Options) {
			o.LeaderElection = true
			o.LeaderElectionID = leaseID
			o.LeaderElectionNamespace = metav1.NamespaceDefault
			o.LeaderElectionReleaseOnCancel = releaseLease
			o.LeaseDuration = ptr.To(leaderElection.LeaseDuration.Duration)
			o.RenewDeadline = ptr.To(4 * time.Second)
			o.RetryPeriod = ptr.To(500 * time.Millisecond)

			// The replicas share a host, and so cannot share the port. The first one has
			// the framework's, as soon as that of the spec before has let go of it.
			options := o.WebhookServer.(*webhook.DefaultServer).Options
			if isSecond {
				options.Port = 0
			}
			var listener net.Listener
			gomega.Eventually(func() (err error) {
				listener, err = net.Listen("tcp", net.JoinHostPort(options.Host, strconv.Itoa(options.Port)))
				return err
			}, util.Timeout, util.Interval).Should(gomega.Succeed())
			options.Port = listener.Addr().(*net.TCPAddr).Port
			o.WebhookServer = webhook.NewServer(options)
			gomega.Expect(listener.Close()).To(gomega.Succeed())
		})
		return started
	}

	for _, releaseLease := range []bool{true, false} {
		ginkgo.When(fmt.Sprintf("the lease is released by a leader that stops: %v", releaseLease), func() {
			ginkgo.BeforeEach(func() {
				t.startManager = func() {
					leaseID := fmt.Sprintf("retry-%d", time.Now().UnixNano())
					first = startReplica(releaseLease, false, leaseID)
					gomega.Eventually(first.manager.Elected(), util.Timeout).Should(gomega.BeClosed())
					second = startReplica(releaseLease, true, leaseID)
				}
			})

			ginkgo.AfterEach(func() { first.stop() })

			changeLeader := func() {
				ginkgo.GinkgoHelper()
				gomega.Expect(second.manager.Elected()).NotTo(gomega.BeClosed())
				first.stop()
				gomega.Eventually(second.manager.Elected(), util.LongTimeout).Should(gomega.BeClosed())
			}

			ginkgo.It("Should neither start early nor lose a workload when the leader changes during its delay", func() {
				t.reserveFirst(t.ruleFor(t.checkA))
				t.retry(t.checkA, longDelay)
				waiting := t.expectWaiting()
				changeLeader()
				t.expectPassedBy("passing")
				t.retry(t.checkA, 3)
				requeued := t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
				gomega.Expect(requeued).To(gomega.Equal(waiting+3), "the check, the new deadline, the requeue: one write each")
			})

			ginkgo.It("Should requeue in time when the leader changes and no check speaks any more", func() {
				t.reserveFirst(t.ruleFor(t.checkA))
				t.retry(t.checkA, 10)
				released := t.expectReleased()
				changeLeader()
				t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
			})

			ginkgo.It("Should write once for all replicas", func() {
				t.reserveFirst(t.ruleFor(t.checkA))
				retry := len(t.wl.versions)
				t.retry(t.checkA, 2)
				released := t.expectReleased()
				requeued := t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
				gomega.Expect([]int{released, requeued, len(t.wl.versions) - 1}).To(gomega.Equal([]int{retry + 1, retry + 2, retry + 3}))
				gomega.Expect(second.manager.Elected()).NotTo(gomega.BeClosed())
			})
		})
	}
})
