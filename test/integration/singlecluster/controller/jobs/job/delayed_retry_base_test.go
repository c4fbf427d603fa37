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
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	"sigs.k8s.io/kueue/test/util"
)

// setUpControllers sets up caches, queues and core controllers with the manager, and
// returns the scheduler, which has yet to be added.
func setUpControllers(ctx context.Context, mgr manager.Manager, configuration *configapi.Configuration) *scheduler.Scheduler {
	cCache := schdcache.New(mgr.GetClient())
	expectations := preemptexpectations.New()
	queues := util.NewManagerForIntegrationTests(ctx, mgr.GetClient(), cCache, qcache.WithPreemptionExpectations(expectations))
	go queues.CleanUpOnContext(ctx)
	go cCache.CleanUpOnContext(ctx)
	failedCtrl, err := core.SetupControllers(mgr, queues, cCache, configuration, core.SetupControllersOpts{PreemptionExpectations: expectations})
	gomega.Expect(err).ToNot(gomega.HaveOccurred(), "controller", failedCtrl)
	return scheduler.New(queues, cCache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithPreemptionExpectations(expectations))
}

// enablePodsReady returns WaitForPodsReady, enabled with the timeout.
func enablePodsReady(timeout time.Duration) *configapi.WaitForPodsReady {
	return &configapi.WaitForPodsReady{Timeout: metav1.Duration{Duration: timeout}}
}

// expectRetryWithGateOff retries a check that holds quota, with the gate off. Kueue's
// own implementation keeps the quota for the delay, counts at the eviction that comes
// after it, and leaves the delay on the check.
func (t *delayedRetryTest) expectRetryWithGateOff() {
	ginkgo.GinkgoHelper()
	t.setCheck(updateCheck, t.checkA, kueue.CheckStateRetry, ptr.To[int32](3))
	recorded := t.wl.until("waiting", util.Timeout, func(wl *kueue.Workload) bool { return !requeueAtOf(wl).IsZero() })
	gomega.Expect(workload.HasQuotaReservation(t.wl.versions[recorded])).To(gomega.BeTrue())
	requeueAt := requeueAtOf(t.wl.versions[recorded])
	evicted := t.wl.until("evicted", util.Timeout, workloadevict.IsEvicted)
	gomega.Expect(t.wl.seen[evicted]).To(gomega.BeTemporally(">=", requeueAt))
	check := t.wl.versions[evicted].Status.AdmissionChecks[0]
	gomega.Expect(check.State).To(gomega.Equal(kueue.CheckStatePending))
	gomega.Expect(check.RetryCount).To(gomega.Equal(ptr.To[int32](1)))
	t.wl.until("reserved again", util.Timeout, workload.HasQuotaReservation)
}
