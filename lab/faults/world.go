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

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

const namespace = "faults"

var checks = []string{"alpha", "beta", policyCheck}

// mood is what those around Kueue do.
type mood int32

const (
	// busy: they answer at random.
	busy mood = iota
	// silent: they do nothing, and no job ends; what runs is stopped when it is to be.
	silent
	// friendly: all checks succeed, and no new jobs come.
	friendly
)

// world plays the users, the controllers of the checks, the pods and an operator. It
// speaks to the API server directly.
type world struct {
	*objects.Client
	etcd  *clientv3.Client
	judge *judge
	tally *tally
	jobs  int
	quota int
	mood  atomic.Int32

	// For each part of a workload, when its player acts next.
	mu  sync.Mutex
	due map[string]time.Time
	// sent are the answers that are under way.
	sent map[string]bool
	made int
	// open are the jobs that are not complete.
	open map[string]bool
	runs map[types.UID]*podsRun
}

// podsRun is that of the pods of a job.
type podsRun struct {
	until, stops time.Time
}

func newWorld(plane *controlplane.ControlPlane, jobs, quota int, judge *judge, tally *tally) (*world, error) {
	config := rest.CopyConfig(plane.Config)
	config.Timeout = 10 * time.Second
	c, err := objects.NewClient(config)
	if err != nil {
		return nil, err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{plane.Etcd()}, DialTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	return &world{
		Client: c, etcd: etcd, judge: judge, tally: tally, jobs: jobs, quota: quota,
		due: map[string]time.Time{}, sent: map[string]bool{}, open: map[string]bool{}, runs: map[types.UID]*podsRun{},
	}, nil
}

func (w *world) is(m mood) bool { return mood(w.mood.Load()) == m }

// setUp makes the queue. There have to be webhooks.
func (w *world) setUp(ctx context.Context) error {
	if err := w.MakeQueue(ctx, namespace, w.quota, checks...); err != nil {
		return err
	}
	policy := map[string]any{"spec": map[string]any{"retry": map[string]any{"strategy": "Static", "baseDelaySeconds": int(policyDelay.Seconds())}}}
	if err := w.Patch(ctx, w.Object("AdmissionCheck", "", policyCheck), objects.MergePatch(policy)); err != nil {
		return err
	}
	preemption := map[string]any{"spec": map[string]any{"preemption": map[string]any{"withinClusterQueue": "LowerPriority"}}}
	if err := w.Patch(ctx, w.Object("ClusterQueue", "", namespace), objects.MergePatch(preemption)); err != nil {
		return err
	}
	if err := w.Make(ctx, w.Object("WorkloadPriorityClass", "", "high"), "value: 1000"); err != nil {
		return err
	}
	return w.Stop(ctx, namespace, "None")
}

// watch hands the judge every version of every workload, as etcd has it: no cache, and
// none left out.
func (w *world) watch(ctx context.Context) error {
	prefix := "/registry/" + objects.Group + "/workloads/" + namespace + "/"
	for response := range w.etcd.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		at := time.Now()
		if err := response.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("etcd's watch: %w", err)
		}
		for _, event := range response.Events {
			name := path.Base(string(event.Kv.Key))
			if event.Type == clientv3.EventTypeDelete {
				w.judge.see(name, nil, at)
				continue
			}
			wl := &kueue.Workload{}
			if err := json.Unmarshal(event.Kv.Value, wl); err != nil {
				return fmt.Errorf("workload %s: %w", name, err)
			}
			wl.ResourceVersion = strconv.FormatInt(event.Kv.ModRevision, 10)
			w.judge.see(name, wl, at)
		}
	}
	return ctx.Err()
}

// every calls do until the context ends.
func every(ctx context.Context, period time.Duration, do func(ctx context.Context)) {
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-time.After(period):
		case <-ctx.Done():
		}
	}
}

// isDue tells whether a player is to act, which was first asked of it at most so
// long ago.
func (w *world) isDue(key string, within time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, known := w.due[key]
	if !known {
		due = time.Now().Add(time.Duration(rand.Int63n(int64(within))))
		w.due[key] = due
	}
	if time.Now().Before(due) {
		return false
	}
	delete(w.due, key)
	return true
}

func chance(p float64) bool { return rand.Float64() < p }

// makeJobs keeps the number of open jobs.
func (w *world) makeJobs(ctx context.Context) {
	for w.is(busy) && w.countOpen() < w.jobs && ctx.Err() == nil {
		w.mu.Lock()
		w.made++
		name := fmt.Sprintf("job-%05d", w.made)
		w.open[name] = true
		w.mu.Unlock()
		priority := ""
		if chance(0.2) {
			priority = "high"
		}
		for ctx.Err() == nil {
			// Without an answer it may be there.
			if err := w.MakeJobOf(ctx, namespace, name, priority); err == nil || apierrors.IsAlreadyExists(err) {
				w.tally.add("jobs made")
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func (w *world) countOpen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// answer plays the controllers of the checks.
func (w *world) answer(ctx context.Context) {
	for _, wl := range w.judge.workloads() {
		for _, check := range checks {
			state := find(wl, check)
			if state == nil || w.is(silent) {
				continue
			}
			reserved := is(wl, kueue.WorkloadQuotaReserved) && !is(wl, kueue.WorkloadEvicted)
			switch asked := reserved && state.State == kueue.CheckStatePending; {
			case asked && w.isDue(wl.Name+"/"+check+"/"+state.LastTransitionTime.String(), 2500*time.Millisecond):
				// Of the version that is known by now.
				if w.is(friendly) {
					w.say(ctx, wl, check, kueue.AdmissionCheckState{State: kueue.CheckStateReady})
				} else {
					w.say(ctx, wl, check, verdict())
				}
			case w.is(friendly):
			case state.State == kueue.CheckStateRetry && chance(0.006), chance(0.0008):
				w.say(ctx, wl, check, second())
			}
		}
	}
}

func retry(seconds int) kueue.AdmissionCheckState {
	return kueue.AdmissionCheckState{State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To(int32(seconds))}
}

// verdict is what a check that is asked says.
func verdict() kueue.AdmissionCheckState {
	switch n := rand.Intn(100); {
	case n < 58:
		return kueue.AdmissionCheckState{State: kueue.CheckStateReady}
	case n < 75:
		return retry(1 + rand.Intn(9))
	case n < 81: // some wait while all is at rest
		return retry(15 + rand.Intn(60))
	case n < 84:
		return retry(0)
	case n < 96:
		return kueue.AdmissionCheckState{State: kueue.CheckStateRetry}
	default:
		return kueue.AdmissionCheckState{State: kueue.CheckStateRejected}
	}
}

// second is what a check says unasked.
func second() kueue.AdmissionCheckState {
	switch n := rand.Intn(100); {
	case n < 40:
		return retry(1 + rand.Intn(12))
	case n < 55:
		return kueue.AdmissionCheckState{State: kueue.CheckStateRetry}
	case n < 80:
		return kueue.AdmissionCheckState{State: kueue.CheckStatePending}
	case n < 95:
		return kueue.AdmissionCheckState{State: kueue.CheckStateReady}
	default:
		return kueue.AdmissionCheckState{State: kueue.CheckStateRejected}
	}
}

// say writes a verdict in one of the ways in which controllers do, and does not wait:
// what arrives, the judge sees.
func (w *world) say(ctx context.Context, wl *kueue.Workload, check string, state kueue.AdmissionCheckState) {
	key := wl.Name + "/" + check
	if !w.begin(key) {
		return
	}
	state.Name, state.LastTransitionTime = kueue.AdmissionCheckReference(check), metav1.NewTime(time.Now().Truncate(time.Second))
	switch rand.Intn(20) {
	case 0: // sent again, or a clock that is behind
		state.LastTransitionTime.Time = state.LastTransitionTime.Add(-30 * time.Second)
	case 1: // one that is ahead
		state.LastTransitionTime.Time = state.LastTransitionTime.Add(3 * time.Second)
	}
	a := w.judge.expect(check, state)
	entry := map[string]any{
		"name": check, "state": string(state.State), "message": a.state.Message,
		"lastTransitionTime": state.LastTransitionTime.UTC().Format(time.RFC3339),
	}
	if state.RequeueAfterSeconds != nil {
		entry["requeueAfterSeconds"] = int64(*state.RequeueAfterSeconds)
	}
	go func() {
		defer w.end(key)
		obj := w.Object("Workload", namespace, wl.Name)
		var err error
		// A field that was written by an update is not removed by an apply: a controller
		// keeps to one of them.
		switch writer := crc32.ChecksumIEEE([]byte(wl.Name+check)) % 5; writer {
		case 0, 1, 2: // apply
			if chance(0.3) {
				obj.SetResourceVersion(wl.ResourceVersion)
			}
			obj.Object["status"] = map[string]any{"admissionChecks": []any{entry}}
			err = objects.ApplyStatus(ctx, w, obj, client.FieldOwner(check))
		default:
			err = w.replace(ctx, obj, check, entry, writer == 3)
		}
		if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
			w.judge.answers(a)
		}
		switch {
		case err == nil:
		case apierrors.IsConflict(err):
			w.tally.add("conflicts of controllers")
		default:
			w.tally.add("answers refused")
		}
	}()
}

// begin tells whether no answer of that kind is under way.
func (w *world) begin(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	begins := !w.sent[key]
	w.sent[key] = true
	return begins
}

func (w *world) end(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, key)
}

// replace reads the workload, and writes the entry by a merge patch or an update,
// with the version that was read.
func (w *world) replace(ctx context.Context, obj *unstructured.Unstructured, check string, entry map[string]any, patch bool) error {
	if err := w.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	before := obj.DeepCopy()
	entries, _, _ := unstructured.NestedSlice(obj.Object, "status", "admissionChecks")
	for i := range entries {
		if stored := entries[i].(map[string]any); stored["name"] == check {
			if count, found := stored["retryCount"]; found {
				entry["retryCount"] = count
			}
			entries[i] = entry
		}
	}
	if err := unstructured.SetNestedSlice(obj.Object, entries, "status", "admissionChecks"); err != nil {
		return err
	}
	if patch {
		return w.Status().Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(check))
	}
	return w.Status().Update(ctx, obj, client.FieldOwner(check))
}

// operate lets those start over that were deactivated.
func (w *world) operate(ctx context.Context) {
	for _, wl := range w.judge.workloads() {
		if ptr.Deref(wl.Spec.Active, true) || w.is(silent) || !w.isDue(wl.Name+"/active", 5*time.Second) {
			continue
		}
		if err := w.Patch(ctx, w.Object("Workload", namespace, wl.Name), objects.MergePatch(map[string]any{"spec": map[string]any{"active": true}})); err == nil {
			w.tally.add("reactivations")
		}
	}
}

// touch is another writer, who makes all others conflict.
func (w *world) touch(ctx context.Context) {
	all := w.judge.workloads()
	if w.is(silent) || len(all) == 0 {
		return
	}
	note := objects.MergePatch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/touched": strconv.Itoa(rand.Int())}}})
	if err := w.Patch(ctx, w.Object("Workload", namespace, all[rand.Intn(len(all))].Name), note); err == nil {
		w.tally.add("touched by others")
	}
}

// play is the Job controller and the pods: a Job that is not suspended runs for a
// while and is complete; one that is suspended takes a moment to stop.
func (w *world) play(ctx context.Context) {
	var list batchv1.JobList
	if err := w.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return
	}
	for i := range list.Items {
		job := &list.Items[i]
		if job.Status.CompletionTime != nil {
			w.cleanUp(ctx, job)
			continue
		}
		if w.step(job) {
			_ = w.Status().Update(ctx, job)
		}
	}
}

// step tells whether the status of the job changes.
func (w *world) step(job *batchv1.Job) bool {
	now := time.Now()
	current := w.runs[job.UID]
	switch {
	case ptr.Deref(job.Spec.Suspend, false):
		if job.Status.Active == 0 {
			return false
		}
		if current != nil && current.stops.IsZero() {
			current.stops = now.Add(time.Duration(rand.Int63n(int64(1500 * time.Millisecond))))
		}
		if current != nil && now.Before(current.stops) {
			return false
		}
		delete(w.runs, job.UID)
		job.Status.Active, job.Status.Ready = 0, ptr.To[int32](0)
	case current == nil || job.Status.Active == 0:
		if current == nil {
			w.runs[job.UID] = &podsRun{until: now.Add(time.Second + time.Duration(rand.Int63n(int64(4*time.Second))))}
		}
		if job.Status.StartTime == nil {
			job.Status.StartTime = ptr.To(metav1.Now())
		}
		job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
	case w.is(silent) || now.Before(current.until):
		return false
	default:
		at := metav1.NewTime(now)
		job.Status.Active, job.Status.Ready, job.Status.Succeeded, job.Status.CompletionTime = 0, ptr.To[int32](0), 1, &at
		for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached, LastProbeTime: at, LastTransitionTime: at,
			})
		}
	}
	return true
}

// cleanUp removes a job whose workload is finished, which nobody else does here.
func (w *world) cleanUp(ctx context.Context, job *batchv1.Job) {
	name := w.judge.finished(job.UID)
	if name == "" || w.is(silent) {
		return
	}
	w.mu.Lock()
	delete(w.open, job.Name)
	w.mu.Unlock()
	delete(w.runs, job.UID)
	if client.IgnoreNotFound(w.Delete(ctx, w.Object("Workload", namespace, name))) == nil {
		_ = w.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

// pendings are the counts of pending workloads that the queues have in their statuses.
func (w *world) pendings(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	for _, queue := range []*unstructured.Unstructured{w.Object("ClusterQueue", "", namespace), w.Object("LocalQueue", namespace, "queue")} {
		if err := w.Get(ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
			return nil, err
		}
		n, _, _ := unstructured.NestedInt64(queue.Object, "status", "pendingWorkloads")
		counts[queue.GetKind()] = int(n)
	}
	return counts, nil
}
