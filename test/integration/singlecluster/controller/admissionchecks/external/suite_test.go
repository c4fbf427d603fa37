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
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	config "sigs.k8s.io/kueue/apis/config/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/external"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/test/integration/framework"
)

var (
	cfg       *rest.Config
	k8sClient client.WithWatch
	ctx       context.Context
	fwk       *framework.Framework
)

func TestExternal(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)

	ginkgo.RunSpecs(t,
		"External admission check suite",
	)
}

var _ = ginkgo.BeforeSuite(func() {
	fwk = &framework.Framework{}
	cfg = fwk.Init()
	ctx, k8sClient = fwk.SetupClient(cfg)
})

var _ = ginkgo.AfterSuite(func() {
	fwk.Teardown()
})

// managerSetup sets up Kueue, and an external controller beside it.
func managerSetup(opts external.Options) framework.ManagerSetup {
	return func(ctx context.Context, mgr manager.Manager) {
		gomega.Expect(indexer.Setup(ctx, mgr.GetFieldIndexer())).To(gomega.Succeed())

		jobReconciler, err := job.NewReconciler(ctx, mgr.GetClient(), mgr.GetFieldIndexer(), mgr.GetEventRecorderFor(constants.JobControllerName))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(job.SetupIndexes(ctx, mgr.GetFieldIndexer())).To(gomega.Succeed())
		gomega.Expect(jobReconciler.SetupWithManager(mgr)).To(gomega.Succeed())
		jobframework.EnableIntegration(job.FrameworkName)

		configuration := &config.Configuration{}
		mgr.GetScheme().Default(configuration)
		cCache := schdcache.New(mgr.GetClient())
		queues := qcache.NewManager(mgr.GetClient(), cCache)
		failedCtrl, err := core.SetupControllers(mgr, queues, cCache, configuration)
		gomega.Expect(err).ToNot(gomega.HaveOccurred(), "controller", failedCtrl)

		sched := scheduler.New(queues, cCache, mgr.GetClient(), mgr.GetEventRecorderFor(constants.AdmissionName))
		gomega.Expect(sched.Start(ctx)).To(gomega.Succeed())

		gomega.Expect(external.Setup(mgr, opts)).To(gomega.Succeed())
	}
}
