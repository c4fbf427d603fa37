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
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

// user is who the load generator is for the API server: all other requests are
// the manager's, or the API server's own.
const user = "bench"

// senders is how many requests of the load generator are under way at most.
const senders = 20

// world is the load generator: it makes the jobs, plays the controllers of the
// admission checks, and sees what becomes of the workloads. It uses no types of
// Kueue's, since the builds speak different versions.
type world struct {
	*objects.Client
	delays  bool // whether the checks can ask for a delay
	config  *rest.Config
	random  *rand.Rand
	answers chan task
	failed  context.CancelCauseFunc

	mutex     sync.Mutex
	workloads map[string]*workload // by namespace/name
	decide    map[string]decision  // of the checks, by namespace
}

// decision is what the controller of a check does when it is asked. Nil: nothing.
type decision func(w *workload, check string, now time.Time) *answer

// answer is a verdict of a check.
type answer struct {
	state string
	// from is the transition time that the answer carries.
	from  time.Time
	delay time.Duration
	// after is how long the check takes to answer.
	after time.Duration
}

type task struct {
	namespace, name, check string
	answer                 answer
}

// newWorld connects to the control plane and begins to watch.
func newWorld(ctx context.Context, plane *controlplane.ControlPlane, delays bool, seed int64, failed context.CancelCauseFunc) (*world, error) {
	account, err := plane.AddUser(envtest.User{Name: user, Groups: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	w := &world{
		delays: delays, config: rest.CopyConfig(account.Config()), failed: failed,
		random: rand.New(rand.NewSource(seed)), answers: make(chan task, 100_000),
		workloads: map[string]*workload{}, decide: map[string]decision{},
	}
	// No limit of its own.
	w.config.QPS = -1
	if w.Client, err = objects.NewClient(w.config); err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return nil, err
	}
	informer := dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0).
		ForResource(schema.GroupVersionResource{Group: objects.Group, Version: w.Version, Resource: "workloads"}).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.see(obj.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, obj any) { w.see(obj.(*unstructured.Unstructured)) },
		DeleteFunc: func(obj any) { w.forget(obj) },
	})
	if err != nil {
		return nil, err
	}
	go informer.Run(ctx.Done())
	for range senders {
		go w.send(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}

// see takes in a new version of a workload, and lets the checks that it asks answer.
func (w *world) see(obj *unstructured.Unstructured) {
	now := time.Now()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	key := obj.GetNamespace() + "/" + obj.GetName()
	seen := w.workloads[key]
	if seen == nil {
		seen = &workload{namespace: obj.GetNamespace(), name: obj.GetName(), answered: map[string]int{}}
		for _, owner := range obj.GetOwnerReferences() {
			seen.job = owner.Name
		}
		w.workloads[key] = seen
	}
	seen.update(obj, now)
	w.ask(seen, now)
}

func (w *world) forget(obj any) {
	if final, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = final.Obj
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	gone := obj.(*unstructured.Unstructured)
	delete(w.workloads, gone.GetNamespace()+"/"+gone.GetName())
}

// ask lets the checks that the workload asks answer, once for each reservation.
func (w *world) ask(seen *workload, now time.Time) {
	decide := w.decide[seen.namespace]
	if decide == nil {
		return
	}
	for check, state := range seen.checks {
		if state != "Pending" || !seen.reserved || seen.evicted || seen.answered[check] == seen.reservations {
			continue
		}
		answer := decide(seen, check, now)
		if answer == nil {
			continue
		}
		seen.answered[check] = seen.reservations
		answer.from = answer.from.Truncate(time.Second)
		if !w.delays {
			answer.delay = 0
		}
		seen.ask(*answer)
		t := task{namespace: seen.namespace, name: seen.name, check: check, answer: *answer}
		if answer.after > 0 {
			time.AfterFunc(answer.after, func() { w.answers <- t })
		} else {
			w.answers <- t
		}
	}
}

// play makes the checks of a namespace decide so from now on, for the workloads
// that ask already in an order of the seed's.
func (w *world) play(namespace string, decide decision) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.decide[namespace] = decide
	all := w.in(namespace)
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	now := time.Now()
	for _, seen := range all {
		w.ask(seen, now)
	}
}

// send sends the answers, by server-side apply with a field manager for each
// check, as the documentation of Kueue advises.
func (w *world) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-w.answers:
			state := map[string]any{
				"name": t.check, "state": t.answer.state, "message": "from the load generator",
				"lastTransitionTime": t.answer.from.UTC().Format(time.RFC3339),
			}
			if t.answer.delay > 0 {
				state["requeueAfterSeconds"] = int64(t.answer.delay / time.Second)
			}
			obj := w.Object("Workload", t.namespace, t.name)
			obj.Object["status"] = map[string]any{"admissionChecks": []any{state}}
			w.sent(t)
			err := objects.ApplyStatus(ctx, w, obj, client.FieldOwner(t.check))
			if err != nil && ctx.Err() == nil {
				w.failed(fmt.Errorf("answer of check %s: %w", t.check, err))
			}
		}
	}
}

func (w *world) sent(t task) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if seen := w.workloads[t.namespace+"/"+t.name]; seen != nil {
		seen.answers++
		if t.answer.state == "Retry" && seen.sent.IsZero() {
			seen.sent = time.Now()
		}
	}
}

// each calls do for 0 to n-1, as many at a time as there are workers, and returns
// the first error.
func each(ctx context.Context, workers, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	next := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	return err
}

func (w *world) makeJobs(ctx context.Context, namespace string, n int) error {
	return each(ctx, senders, n, func(i int) error { return w.MakeJob(ctx, namespace, fmt.Sprintf("job-%05d", i)) })
}

// in returns the workloads of a namespace. The caller holds the mutex.
func (w *world) in(namespace string) []*workload {
	var all []*workload
	for _, key := range slices.Sorted(maps.Keys(w.workloads)) {
		if w.workloads[key].namespace == namespace {
			all = append(all, w.workloads[key])
		}
	}
	return all
}

// count returns how many workloads of a namespace are so.
func (w *world) count(namespace string, is func(*workload) bool) int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	n := 0
	for _, seen := range w.workloads {
		if seen.namespace == namespace && is(seen) {
			n++
		}
	}
	return n
}

// await waits until n workloads of a namespace are so, and returns how many are
// not, when the time is up.
func (w *world) await(ctx context.Context, namespace string, n int, timeout time.Duration, is func(*workload) bool) (missing int, err error) {
	for end := time.Now().Add(timeout); ; {
		missing = n - w.count(namespace, is)
		if missing <= 0 || time.Now().After(end) {
			return max(missing, 0), nil
		}
		select {
		case <-ctx.Done():
			return missing, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
