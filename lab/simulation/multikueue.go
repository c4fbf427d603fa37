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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/workload"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// With MultiKueue the jobs run in one of two worker clusters, each with an API of its own.
// The Kueue of a worker is outside: it admits what comes, and stops what it is told to.

const multiKueueCheck kueue.AdmissionCheckReference = "m"

// workerLostTimeout is how long a check stays Ready when its worker is lost. As often a
// check that is Ready is written again: there has to be a rest in between.
const workerLostTimeout = 10 * time.Second

// worker is a worker cluster.
type worker struct {
	name  string
	world *World
	api   *memapi.Server
	admin client.Client
	lost  atomic.Bool
}

// workersByHost are those that a kubeconfig can lead to.
var workersByHost sync.Map

func init() {
	// What client-go uses where a kubeconfig asks for nothing.
	http.DefaultTransport = workerTransport{}
}

func (w *World) startWorkers() error {
	if !w.config.MultiKueue {
		return nil
	}
	for _, name := range []string{"w1", "w2"} {
		k := &worker{name: name, world: w, api: memapi.NewServer(scheme, resources, memapi.Options{})}
		var err error
		if k.admin, err = client.New(k.api.Config("kueue of "+name, nil), client.Options{Scheme: scheme, Mapper: mapper}); err != nil {
			return err
		}
		workersByHost.Store(k.host(), k)
		w.workers = append(w.workers, k)
	}
	return nil
}

func (k *worker) host() string { return k.name + ".memory" }

// multiKueue returns the check, and how it comes to the workers.
func (w *World) multiKueue() []client.Object {
	if !w.config.MultiKueue {
		return nil
	}
	config := &kueue.MultiKueueConfig{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	objects := []client.Object{config, &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: string(multiKueueCheck)}, Spec: kueue.AdmissionCheckSpec{
		ControllerName: kueue.MultiKueueControllerName,
		Parameters:     &kueue.AdmissionCheckParametersReference{APIGroup: kueue.SchemeGroupVersion.Group, Kind: "MultiKueueConfig", Name: config.Name},
	}}}
	for _, k := range w.workers {
		kubeconfig := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"clusters": [{"name": "c", "cluster": {"server": "http://%s"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`, k.host())
		config.Spec.Clusters = append(config.Spec.Clusters, k.name)
		objects = append(objects,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.name, Namespace: systemNamespace}, Data: map[string][]byte{kueue.MultiKueueConfigSecretKey: []byte(kubeconfig)}},
			&kueue.MultiKueueCluster{ObjectMeta: metav1.ObjectMeta{Name: k.name}, Spec: clusterSpec(kueue.KubeConfig{Location: k.name, LocationType: kueue.SecretLocationType})})
	}
	return objects
}

// setUpMultiKueue sets up Kueue's controllers of MultiKueue.
func (w *World) setUpMultiKueue(ctx context.Context, mgr ctrl.Manager) error {
	if !w.config.MultiKueue {
		return nil
	}
	if err := multikueue.SetupIndexer(ctx, mgr.GetFieldIndexer(), systemNamespace); err != nil {
		return err
	}
	adapters, err := multiKueueAdapters()
	if err != nil {
		return err
	}
	return multikueue.SetupControllers(mgr, systemNamespace, multikueue.WithAdapters(adapters), multikueue.WithWorkerLostTimeout(workerLostTimeout))
}

// workerTransport leads to the workers.
type workerTransport struct{}

func (workerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	k, found := workersByHost.Load(req.URL.Host)
	if !found {
		return nil, fmt.Errorf("nobody is at %s", req.URL.Host)
	}
	return k.(*worker).roundTrip(req)
}

var errLost = errors.New("the worker is lost")

// roundTrip answers what a client without a cache asks, too: what there is, in the coding
// that is its own for built-in kinds, and with a selector, which all there fits.
func (k *worker) roundTrip(req *http.Request) (*http.Response, error) {
	if k.lost.Load() {
		return nil, errLost
	}
	if answer := discovery(req.URL.Path); answer != nil {
		body, err := json.Marshal(answer)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, err
	}
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Del("labelSelector")
	if query.Get("watch") != "" && query.Get("resourceVersion") == "" {
		query.Set("resourceVersion", "0")
	}
	req.URL.RawQuery = query.Encode()
	if req.Header.Get("Content-Type") == runtime.ContentTypeProtobuf {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		obj, gvk, err := protobuf.NewSerializer(scheme, scheme).Decode(data, nil, nil)
		if err != nil {
			return nil, err
		}
		obj.GetObjectKind().SetGroupVersionKind(*gvk)
		if data, err = json.Marshal(obj); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(data))
		req.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	p := k.world.newest
	gate := func(req *http.Request, call *memapi.Call) memapi.Fate {
		return k.world.turn(req.Context(), p, k.name+": "+call.String(), true)
	}
	return k.api.Config("multikueue", gate).Transport.RoundTrip(req)
}

// discovery returns what there is at the path of a group or version, or nil.
func discovery(path string) any {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); {
	case path == "/api":
		return metav1.APIVersions{Versions: []string{"v1"}}
	case path == "/apis":
		groups := metav1.APIGroupList{}
		seen := sets.New("")
		for _, r := range resources {
			if gv := r.GVK.GroupVersion(); !seen.Has(gv.Group) {
				seen.Insert(gv.Group)
				version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
				groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
			}
		}
		return groups
	case len(parts) == 2 && parts[0] == "api":
		return resourcesOf(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return resourcesOf(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil
}

func resourcesOf(gv schema.GroupVersion) metav1.APIResourceList {
	all := metav1.APIResourceList{GroupVersion: gv.String()}
	for _, r := range resources {
		if r.GVK.GroupVersion() == gv {
			all.APIResources = append(all.APIResources, metav1.APIResource{Name: r.Plural, Kind: r.GVK.Kind, Namespaced: r.Namespaced})
		}
	}
	return all
}

// moves returns what can happen next in the worker.
func (k *worker) moves() []func() error {
	var moves []func() error
	for _, watch := range k.api.Watches() {
		moves = append(moves, func() error {
			k.world.note("  %s sees %s in %s", watch.Caller, watch.Next(), k.name)
			return watch.Deliver()
		})
	}
	for _, obj := range k.api.List(workloads) {
		wl := k.world.workload(obj)
		switch {
		case workloadfinish.IsFinished(wl) || !wl.DeletionTimestamp.IsZero():
		case workload.IsActive(wl) && conditionTrue(wl, kueue.WorkloadDeactivationTarget), !workload.IsActive(wl) && workload.HasQuotaReservation(wl):
			moves = append(moves, func() error {
				k.evict(wl, kueue.WorkloadDeactivated+"DueTo"+kueue.WorkloadEvictedOnManagerCluster)
				return nil
			})
		case workload.IsActive(wl) && !workload.HasQuotaReservation(wl):
			moves = append(moves, func() error {
				k.admit(wl)
				return nil
			})
		}
	}
	return moves
}

func (k *worker) updateStatus(wl *kueue.Workload, what string) {
	err := k.admin.Status().Update(context.Background(), wl)
	if err != nil {
		what = "not " + what + ": " + err.Error()
	}
	k.world.note("in %s %s is %s", k.name, wl.Name, what)
}

func setCondition(wl *kueue.Workload, name string, status metav1.ConditionStatus, reason string) {
	apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: reason, Message: "so"})
}

// admit gives the workload quota.
func (k *worker) admit(wl *kueue.Workload) {
	wl = wl.DeepCopy()
	wl.Status.Admission = &kueue.Admission{ClusterQueue: clusterQueue}
	for _, podSet := range wl.Spec.PodSets {
		wl.Status.Admission.PodSetAssignments = append(wl.Status.Admission.PodSetAssignments, kueue.PodSetAssignment{
			Name:          podSet.Name,
			Flavors:       map[corev1.ResourceName]kueue.ResourceFlavorReference{corev1.ResourceCPU: "f1"},
			ResourceUsage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			Count:         ptr.To(podSet.Count),
		})
	}
	setCondition(wl, kueue.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved")
	setCondition(wl, kueue.WorkloadAdmitted, metav1.ConditionTrue, "Admitted")
	if workloadevict.IsEvicted(wl) {
		setCondition(wl, kueue.WorkloadEvicted, metav1.ConditionFalse, "QuotaReserved")
	}
	k.updateStatus(wl, "admitted")
}

// evict stops the job of the workload, and takes its quota.
func (k *worker) evict(wl *kueue.Workload, reason string) {
	k.run(wl, false)
	wl = wl.DeepCopy()
	if strings.HasPrefix(reason, kueue.WorkloadDeactivated) && workload.IsActive(wl) {
		wl.Spec.Active = ptr.To(false)
		status := wl.Status.DeepCopy()
		if err := k.admin.Update(context.Background(), wl); err != nil {
			return
		}
		wl.Status = *status
	}
	wl.Status.Admission = nil
	setCondition(wl, kueue.WorkloadEvicted, metav1.ConditionTrue, reason)
	setCondition(wl, kueue.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending")
	setCondition(wl, kueue.WorkloadAdmitted, metav1.ConditionFalse, "NoReservation")
	k.updateStatus(wl, "evicted, "+reason)
}

// job returns the job of the workload, if the worker has it.
func (k *worker) job(wl *kueue.Workload) *batchv1.Job {
	local := k.world.api.Get(workloads, client.ObjectKeyFromObject(wl))
	if local == nil {
		return nil
	}
	job := &batchv1.Job{}
	for _, owner := range k.world.workload(local).OwnerReferences {
		if k.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: owner.Name}, job) == nil {
			return job
		}
	}
	return nil
}

// run does what the worker's Kueue, its Job controller and the kubelet do, and returns
// whether there was anything to do.
func (k *worker) run(wl *kueue.Workload, admitted bool) bool {
	job := k.job(wl)
	if job == nil || jobFinished(job) {
		return false
	}
	active := int32(0)
	if admitted {
		active = 1
	}
	if ptr.Deref(job.Spec.Suspend, false) == !admitted && job.Status.Active == active {
		return false
	}
	job.Spec.Suspend = ptr.To(!admitted)
	if err := k.admin.Update(context.Background(), job); err != nil {
		return false
	}
	job.Status.Active, job.Status.Ready = active, ptr.To(active)
	if err := k.admin.Status().Update(context.Background(), job); err != nil {
		return false
	}
	k.world.note("in %s job %s has %d pods", k.name, job.Name, active)
	return true
}

// isInWorker returns true if a worker has the workload.
func (w *World) isInWorker(wl *kueue.Workload) bool {
	return slices.ContainsFunc(w.workers, func(k *worker) bool {
		return k.api.Get(workloads, client.ObjectKeyFromObject(wl)) != nil
	})
}

// runWorkers runs the jobs in the workers, and returns whether there was anything to do.
func (w *World) runWorkers() bool {
	changed := false
	for _, k := range w.workers {
		for _, obj := range k.api.List(workloads) {
			wl := w.workload(obj)
			changed = k.run(wl, workload.IsAdmitted(wl) && !workloadfinish.IsFinished(wl)) || changed
		}
	}
	return changed
}

// finishRemote has the job complete where it runs.
func (w *World) finishRemote(name string) {
	for _, k := range w.workers {
		for _, obj := range k.api.List(workloads) {
			wl := w.workload(obj).DeepCopy()
			job := k.job(wl)
			if job == nil || job.Name != name || job.Status.Active == 0 {
				continue
			}
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
			job.Status.Active, job.Status.Succeeded, job.Status.Ready = 0, 1, ptr.To[int32](0)
			if err := k.admin.Status().Update(context.Background(), job); err != nil {
				continue
			}
			setCondition(wl, kueue.WorkloadFinished, metav1.ConditionTrue, kueue.WorkloadFinishedReasonSucceeded)
			k.updateStatus(wl, "finished")
		}
	}
}

// disturb has something happen to a worker: it is lost, or back, or takes a workload's
// quota, or somebody deletes its copy there.
func (w *World) disturb(k *worker, what, which int) {
	all := k.api.List(workloads)
	switch {
	case what%4 < 2:
		k.setLost(!k.lost.Load())
	case len(all) == 0:
	case what%4 == 2:
		if wl := w.workload(all[which%len(all)]); workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) {
			k.evict(wl, kueue.WorkloadEvictedByPreemption)
		}
	default:
		wl := w.workload(all[which%len(all)]).DeepCopy()
		w.note("in %s %s is deleted", k.name, wl.Name)
		wl.Finalizers = nil
		_ = k.admin.Update(context.Background(), wl)
		_ = k.admin.Delete(context.Background(), wl)
	}
}

func (k *worker) setLost(lost bool) {
	k.world.note("%s is lost: %v", k.name, lost)
	k.lost.Store(lost)
	if lost {
		k.api.Disconnect()
		k.world.lostWorker = time.Now()
	}
}

// hasWorkers returns true unless Kueue may see none, for a while after they are back, too:
// then the check is not active, its ClusterQueue gives no quota, and nobody knows whether a
// job is stopped.
func (w *World) hasWorkers() bool {
	return w.lostWorker.IsZero() || w.restored || w.seesWorkers() && time.Since(w.judge.workersSeen) > known
}

// seesWorkers returns true if Kueue sees all of them, and says so.
func (w *World) seesWorkers() bool {
	for _, k := range w.workers {
		cluster := &kueue.MultiKueueCluster{}
		if err := w.admin.Get(context.Background(), client.ObjectKey{Name: k.name}, cluster); err != nil || k.lost.Load() ||
			!apimeta.IsStatusConditionTrue(cluster.Status.Conditions, kueue.MultiKueueClusterActive) {
			return false
		}
	}
	return true
}

// touchWorkloads has Kueue look at all workloads: v0.19 forgets those that it looked at
// before it saw a worker, and does not look at them when it does.
func (w *World) touchWorkloads() {
	for _, wl := range w.workloads() {
		patchSpec(w, &kueue.Workload{}, client.ObjectKeyFromObject(wl), func(wl *kueue.Workload) {
			metav1.SetMetaDataLabel(&wl.ObjectMeta, "touched", "true")
		})
	}
}

// restoreWorkers has Kueue see all workers again, whose managers try less and less often.
func (w *World) restoreWorkers(settle func() error) error {
	for _, k := range w.workers {
		if k.lost.Load() {
			k.setLost(false)
		}
	}
	if !w.config.MultiKueue {
		return nil
	}
	for range 40 {
		if err := settle(); err != nil {
			return err
		}
		if w.seesWorkers() {
			w.restored = true
			w.touchWorkloads()
			return nil
		}
		time.Sleep(10 * time.Second)
	}
	return errors.New("the workers are not seen again")
}

// worker: none is nominated for a check that is Ready, and Kueue's webhook, which is not
// here, lets only those be named that are.
func (j *judge) worker(wl *kueue.Workload) {
	check := workloadCheck(wl, multiKueueCheck)
	if check != nil && check.State == kueue.CheckStateReady && workload.HasQuotaReservation(wl) && !workloadevict.IsEvicted(wl) && wl.Status.ClusterName == nil {
		j.fail("rule 15, worker", "%s is Ready, and has no worker: %s", multiKueueCheck, describe(wl))
	}
}
