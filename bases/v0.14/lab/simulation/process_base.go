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
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/ptr"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
)

// What differs between the versions of Kueue.

// baseHasFields: v0.14.8 drops the fields of a retry.
const baseHasFields = false

// requestsGate has Kueue delete the requests of a workload that is evicted. v0.14.8
// keeps them.
const requestsGate featuregate.Feature = ""

// podsGate has what was preempted stay out of the queue for good if a plain pod owns it.
// v0.14.8 does not have it.
const podsGate featuregate.Feature = ""

// priorityClassOf returns the name of the class of a workload's priority.
func priorityClassOf(wl *kueue.Workload) string {
	return wl.Spec.PriorityClassName
}

// hasLostPods: a pod group that has lost pods is not queued. v0.14.8 queues it.
func hasLostPods(*kueue.Workload) bool { return false }

// jobsAreManagedBy: a Job says that MultiKueue runs it elsewhere. v0.14.8 has that behind a
// gate that is off.
const jobsAreManagedBy = false

// elasticByDefault: v0.14.8 has elastic jobs behind a gate that is off.
const elasticByDefault = false

// keepsOutAlike: what is like one that did not fit is not tried before quota comes free.
const keepsOutAlike = false

type eventRecorder = record.EventRecorder

// setUp does what cmd/kueue does.
func (w *World) setUp(ctx context.Context, p *process) error {
	mgr, cfg := p.mgr, w.configuration()
	p.cache = schdcache.New(mgr.GetClient(), schdcache.WithPodsReadyTracking(cfg.WaitForPodsReady != nil && *cfg.WaitForPodsReady.BlockAdmission), schdcache.WithFairSharing(cfg.FairSharing != nil))
	p.queues = qcache.NewManager(mgr.GetClient(), p.cache)
	if err := indexer.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := provisioning.SetupIndexer(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if name, err := core.SetupControllers(mgr, p.queues, p.cache, cfg); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if w.config.Topology {
		if err := tasindexer.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		if name, err := tas.SetupControllers(mgr, p.queues, p.cache, cfg); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	prov, err := provisioning.NewController(mgr.GetClient(), mgr.GetEventRecorderFor("kueue-provisioning-request-controller"))
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
	}
	if err := w.setUpJobs(ctx, mgr, mgr.GetEventRecorderFor("job-kueue-controllers"), append(options, integrationOptions()...)); err != nil {
		return err
	}
	return mgr.Add(scheduler.New(p.queues, p.cache, mgr.GetClient(), mgr.GetEventRecorderFor(constants.AdmissionName), scheduler.WithFairSharing(cfg.FairSharing)))
}

func (m manager) GetEventRecorderFor(string) record.EventRecorder {
	return recorder{judge: m.world.judge}
}

// recorder has the judge hear of all events.
type recorder struct {
	judge *judge
}

func (r recorder) Event(obj runtime.Object, _, reason, _ string) {
	r.judge.event(obj, reason)
}

func (r recorder) Eventf(obj runtime.Object, _, reason, _ string, _ ...any) {
	r.judge.event(obj, reason)
}

func (r recorder) AnnotatedEventf(obj runtime.Object, _ map[string]string, _, reason, _ string, _ ...any) {
	r.judge.event(obj, reason)
}

func waitForPodsReady() *configapi.WaitForPodsReady {
	return &configapi.WaitForPodsReady{
		Enable: true, Timeout: &metav1.Duration{Duration: podsReadyTimeout},
		RequeuingStrategy: &configapi.RequeuingStrategy{
			Timestamp: ptr.To(configapi.EvictionTimestamp), BackoffBaseSeconds: ptr.To[int32](podsReadyBase), BackoffMaxSeconds: ptr.To[int32](podsReadyMax),
		},
	}
}

func fairSharing() *configapi.FairSharing {
	return &configapi.FairSharing{Enable: true, PreemptionStrategies: []configapi.PreemptionStrategy{configapi.LessThanOrEqualToFinalShare, configapi.LessThanInitialShare}}
}

func joinCohort(cq *kueue.ClusterQueueSpec, name kueue.CohortReference) {
	cq.Cohort = name
}

func clusterSpec(kubeconfig kueue.KubeConfig) kueue.MultiKueueClusterSpec {
	return kueue.MultiKueueClusterSpec{KubeConfig: kubeconfig}
}
