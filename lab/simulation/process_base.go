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

package simulation

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/dra"
	"sigs.k8s.io/kueue/pkg/features"
	kueueresources "sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/roletracker"
)

// What differs between the versions of Kueue.

// baseHasFields: v0.19.2 has the fields of a retry, which mean something else there.
const baseHasFields = true

// requestsGate has Kueue delete the requests of a workload that is evicted.
const requestsGate = features.CleanupProvisioningRequestsOnEviction

// podsGate has what was preempted stay out of the queue for good if a plain pod owns it,
// since Kueue deletes that pod. It does not delete one that was not started, which never
// runs then.
const podsGate = features.SkipReassignmentForPodOwnedWorkloads

// priorityClassOf returns the name of the class of a workload's priority.
func priorityClassOf(wl *kueue.Workload) string {
	if wl.Spec.PriorityClassRef == nil {
		return ""
	}
	return wl.Spec.PriorityClassRef.Name
}

// hasLostPods: a pod group that has lost pods is not queued.
func hasLostPods(wl *kueue.Workload) bool {
	return conditionTrue(wl, kueue.WorkloadWaitingForReplacementPods)
}

// jobsAreManagedBy: a Job says that MultiKueue runs it elsewhere.
const jobsAreManagedBy = true

// elasticByDefault: v0.19 has elastic jobs.
const elasticByDefault = true

// keepsOutAlike: what is like one that did not fit is not tried before quota comes free.
const keepsOutAlike = true

type eventRecorder = events.EventRecorder

// setUp does what cmd/kueue does.
func (w *World) setUp(ctx context.Context, p *process) error {
	mgr, cfg := p.mgr, w.configuration()
	var roles *roletracker.RoleTracker
	if cfg.LeaderElection != nil {
		roles = roletracker.NewRoleTracker(mgr.Elected())
		go roles.Start(ctx, logger)
	}
	formatter, expectations := kueueresources.NewResourceFormatter(), preemptexpectations.New()
	devices, extended := dra.NewResourceMapper(), dra.NewExtendedResourceCache()
	p.cache = schdcache.New(mgr.GetClient(),
		schdcache.WithPodsReadyTracking(cfg.WaitForPodsReady != nil && *cfg.WaitForPodsReady.BlockAdmission),
		schdcache.WithFairSharing(cfg.FairSharing != nil),
		schdcache.WithRoleTracker(roles),
		schdcache.WithResourceFormatter(formatter),
	)
	requeuer := qcache.NewRequeuer()
	if err := mgr.Add(requeuer); err != nil {
		return err
	}
	go func() {
		// It is started for a leader only, and nothing else ends its queue.
		<-ctx.Done()
		_ = requeuer.Start(ctx)
	}()
	p.queues = qcache.NewManager(mgr.GetClient(), p.cache, requeuer,
		qcache.WithRoleTracker(roles),
		qcache.WithResourceFormatter(formatter),
		qcache.WithPreemptionExpectations(expectations),
		qcache.WithDRABackedResources(extended),
	)
	if err := indexer.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := provisioning.SetupIndexer(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if name, err := core.SetupControllers(mgr, p.queues, p.cache, cfg, core.SetupControllersOpts{
		RoleTracker:            roles,
		PreemptionExpectations: expectations,
		DRAMapper:              devices,
		DRABackedResources:     extended,
		ResourceFormatter:      formatter,
	}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if w.config.Topology {
		if err := tasindexer.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		if name, err := tas.SetupControllers(mgr, p.queues, p.cache, cfg, roles); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	prov, err := provisioning.NewController(mgr.GetClient(), mgr.GetEventRecorder("kueue-provisioning-request-controller"), roles)
	if err != nil {
		return err
	}
	if err := prov.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := w.setUpMultiKueue(ctx, mgr); err != nil {
		return err
	}
	options := []jobframework.Option{
		jobframework.WithManageJobsWithoutQueueName(false),
		jobframework.WithManagedJobsNamespaceSelector(labels.Everything()),
		jobframework.WithWaitForPodsReady(cfg.WaitForPodsReady),
		jobframework.WithObjectRetentionPolicies(cfg.ObjectRetentionPolicies),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithCache(p.cache),
		jobframework.WithQueues(p.queues),
		jobframework.WithRoleTracker(roles),
	}
	if err := w.setUpJobs(ctx, mgr, mgr.GetEventRecorder("job-kueue-controllers"), append(options, integrationOptions()...)); err != nil {
		return err
	}
	return mgr.Add(scheduler.New(p.queues, p.cache, mgr.GetClient(), mgr.GetEventRecorder(constants.AdmissionName),
		scheduler.WithFairSharing(cfg.FairSharing),
		scheduler.WithRoleTracker(roles),
		scheduler.WithPreemptionExpectations(expectations),
		scheduler.WithResourceFormatter(formatter),
	))
}

func (m manager) GetEventRecorder(string) events.EventRecorder {
	return recorder{judge: m.world.judge}
}

// recorder has the judge hear of all events.
type recorder struct {
	judge *judge
}

func (r recorder) Eventf(obj, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.judge.event(obj, reason)
}

func waitForPodsReady() *configapi.WaitForPodsReady {
	return &configapi.WaitForPodsReady{
		Timeout: metav1.Duration{Duration: podsReadyTimeout},
		RequeuingStrategy: &configapi.RequeuingStrategy{
			Timestamp: ptr.To(configapi.EvictionTimestamp), BackoffBaseSeconds: ptr.To[int32](podsReadyBase), BackoffMaxSeconds: ptr.To[int32](podsReadyMax),
		},
	}
}

func fairSharing() *configapi.FairSharing {
	return &configapi.FairSharing{PreemptionStrategies: []configapi.PreemptionStrategy{configapi.LessThanOrEqualToFinalShare, configapi.LessThanInitialShare}}
}

func joinCohort(cq *kueue.ClusterQueueSpec, name kueue.CohortReference) {
	cq.CohortName = name
}

func clusterSpec(kubeconfig kueue.KubeConfig) kueue.MultiKueueClusterSpec {
	return kueue.MultiKueueClusterSpec{ClusterSource: kueue.ClusterSource{KubeConfig: &kubeconfig}}
}
