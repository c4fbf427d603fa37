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

	ginkgo.It("Should not start early what waits", func() {
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

	ginkgo.It("Should deactivate what a check rejected while no manager ran", func() {
		t.reserveFirst(t.ruleFor(t.checkA), t.ruleFor(t.checkB))
		t.retry(t.checkA, longDelay)
		t.expectWaiting()
		restart(func() { t.setCheck(applyCheck, t.checkB, kueue.CheckStateRejected, nil) })
		t.expectDeactivated()
	})

	ginkgo.It("Should evict what asked for a retry while no manager ran", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		restart(func() { t.retry(t.checkA, 2) })
		evicted := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
		t.expectRetryCycle(evicted, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should wait while the gate is off, and follow the check when it is on again", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, longDelay)
		waiting := t.expectWaiting()
		restart(setGate(false))
		t.expectPassedBy("passing-off")
		restart(setGate(true))
		t.expectPassedBy("passing-on")
		t.retry(t.checkA, 1)
		t.expectRetryCycle(waiting, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should requeue at the recorded time with the gate off", func() {
		t.reserveFirst(t.ruleFor(t.checkA))
		t.retry(t.checkA, 4)
		released := t.expectReleased()
		restart(setGate(false))
		t.expectRetryCycle(released, map[string]int32{t.checkA.Name: 1})
	})

	ginkgo.It("Should wait with the gate on for what a check asked for in the queue with the gate off", func() {
		features.SetFeatureGateDuringTest(ginkgo.GinkgoTB(), features.ACRequeueAfter, false)
		t.createQueues(t.ruleFor(t.checkA))
		holder := t.createJob("holder")
		util.ExpectWorkloadsToHaveQuotaReservationByKey(ctx, k8sClient, t.clusterQueue.Name, holder)
		t.follow(t.createJob("first"))
		t.wl.until("queued, with its check", util.Timeout, func(wl *kueue.Workload) bool { return len(wl.Status.AdmissionChecks) == 1 })
		t.retry(t.checkA, longDelay)
		t.finish(holder)
		t.expectPassedBy("passing")

		restart(setGate(true))
		t.wl.until("waiting", util.Timeout, waitsFor(longDelay/2*time.Second))
		t.retry(t.checkA, 1)
		requeued := t.wl.until("requeued", util.Timeout, isRequeued)
		gomega.Expect(t.wl.versions[requeued].Status.AdmissionChecks[0].RetryCount).To(gomega.Equal(ptr.To[int32](1)))
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

	// A leader that stops leaves its lease to run out, as one that is killed does.
	startReplica := func(isSecond bool, leaseID string) replica {
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

	ginkgo.BeforeEach(func() {
		t.startManager = func() {
			leaseID := fmt.Sprintf("retry-%d", time.Now().UnixNano())
			first = startReplica(false, leaseID)
			gomega.Eventually(first.manager.Elected(), util.Timeout).Should(gomega.BeClosed())
			second = startReplica(true, leaseID)
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
