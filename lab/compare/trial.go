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
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/objects"
)

// patience is how long what has to happen may take.
const patience = 30 * time.Second

// trial is one probe with one manager. It has a namespace with a queue that has
// quota for one job, plays the controllers of the checks, and sees every version
// of the Workloads.
type trial struct {
	*objects.Client
	namespace string
	say       func(format string, args ...any)
	// at is how far await has come in the versions of a job's Workload.
	at map[string]int

	mutex   sync.Mutex
	seen    map[string][]version // by job
	broken  error                // of the watch
	changed chan struct{}        // closed when there is something new
}

// version of a Workload, and when it was seen.
type version struct {
	*unstructured.Unstructured
	when time.Time
	gone bool // it is the last, the Workload was deleted
}

func newTrial(kube *objects.Client, namespace string, say func(string, ...any)) *trial {
	return &trial{
		Client: kube, namespace: namespace, say: say,
		at: map[string]int{}, seen: map[string][]version{}, changed: make(chan struct{}),
	}
}

// begin makes the queue with these checks, and begins to watch.
func (t *trial) begin(ctx context.Context, checks ...string) error {
	var names []string
	for _, check := range checks {
		names = append(names, t.check(check))
	}
	if err := t.MakeQueue(ctx, t.namespace, 1, names...); err != nil {
		return err
	}
	workloads, err := t.Watch(ctx, t.list("Workload"), client.InNamespace(t.namespace))
	if err != nil {
		return err
	}
	go t.see(workloads)
	if err := t.Stop(ctx, t.namespace, "None"); err != nil {
		return err
	}
	queue := t.Object("ClusterQueue", "", t.namespace)
	for end := time.Now().Add(patience); ; {
		if err := t.Get(ctx, client.ObjectKeyFromObject(queue), queue); err != nil {
			return err
		}
		if active, _ := objects.Condition(queue, "Active"); active {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the ClusterQueue is not active after %s", patience)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// check is the name of the AdmissionCheck, which has no namespace.
func (t *trial) check(name string) string {
	return t.namespace + "-" + name
}

func (t *trial) list(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.Object(kind+"List", "", "").GroupVersionKind())
	return list
}

// see takes in what the watch sends, until it ends.
func (t *trial) see(workloads watch.Interface) {
	defer workloads.Stop()
	for event := range workloads.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error {
			t.note(func() { t.broken = fmt.Errorf("the API server ended the watch: %v", event.Object) })
			return
		}
		for _, owner := range obj.GetOwnerReferences() {
			t.note(func() {
				t.seen[owner.Name] = append(t.seen[owner.Name], version{obj, time.Now(), event.Type == watch.Deleted})
			})
		}
	}
	t.note(func() { t.broken = errors.New("the API server closed the watch") })
}

func (t *trial) note(news func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	news()
	close(t.changed)
	t.changed = make(chan struct{})
}

// versions of a job's Workload that were seen so far.
func (t *trial) versions(job string) []version {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.seen[job]
}

// await returns the first version of a job's Workload that is so, beginning with
// the one that it returned last, and none if there is none in time.
func (t *trial) await(ctx context.Context, job string, timeout time.Duration, is func(version) bool) (*version, error) {
	end := time.After(timeout)
	for {
		t.mutex.Lock()
		versions, broken, changed := t.seen[job], t.broken, t.changed
		t.mutex.Unlock()
		for i := t.at[job]; i < len(versions); i++ {
			t.at[job] = i
			if is(versions[i]) {
				return &versions[i], nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end:
			return nil, nil
		case <-changed:
			if broken != nil {
				return nil, broken
			}
		}
	}
}

// never is the error of what had to happen, and did not.
type never struct{ job, what string }

func (n never) Error() string {
	return fmt.Sprintf("job %s is not %s after %.0f s", n.job, n.what, patience.Seconds())
}

// must is await for what has to happen.
func (t *trial) must(ctx context.Context, job, what string, is func(version) bool) (version, error) {
	v, err := t.await(ctx, job, patience, is)
	if err != nil {
		return version{}, err
	}
	if v == nil {
		return version{}, never{job, what}
	}
	return *v, nil
}

// asks waits until a job has quota and its checks are asked.
func (t *trial) asks(ctx context.Context, job string) (version, error) {
	return t.must(ctx, job, "reserved, with all checks Pending", func(v version) bool {
		checks := objects.Checks(v.Unstructured)
		for _, check := range checks {
			if check["state"] != "Pending" {
				return false
			}
		}
		return reserved(v) && len(checks) > 0
	})
}

// quiet waits until a job's Workload has not been written for a second, and
// returns its version.
func (t *trial) quiet(ctx context.Context, job string) (version, error) {
	for {
		versions := t.versions(job)
		last := versions[len(versions)-1]
		rest := time.Second - time.Since(last.when)
		if rest <= 0 {
			return last, nil
		}
		if err := pause(ctx, rest); err != nil {
			return version{}, err
		}
	}
}

// answer writes the state of a check as its controller would. It returns when it
// did, and the version of the Workload that this made. It waits for a quiet moment:
// a write of plain Kueue's that is under way may undo an answer.
func (t *trial) answer(ctx context.Context, job, check, state string, delay time.Duration) (when time.Time, made string, err error) {
	last, err := t.quiet(ctx, job)
	if err != nil {
		return when, "", err
	}
	obj := t.Object("Workload", t.namespace, last.GetName())
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := t.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		fields := objects.Checks(obj)[t.check(check)]
		if fields == nil {
			return fmt.Errorf("job %s has no check %s", job, check)
		}
		when = time.Now()
		fields["state"], fields["message"] = state, "said by the probe"
		fields["lastTransitionTime"] = when.UTC().Format(time.RFC3339)
		delete(fields, "requeueAfterSeconds")
		if delay > 0 {
			fields["requeueAfterSeconds"] = int64(delay / time.Second)
		}
		return t.Status().Update(ctx, obj)
	})
	if delay > 0 {
		t.say("check %s of job %s says %s, %.0f s", check, job, state, delay.Seconds())
	} else {
		t.say("check %s of job %s says %s", check, job, state)
	}
	return when, obj.GetResourceVersion(), err
}

// remove deletes a job and its Workload: nothing here collects garbage.
func (t *trial) remove(ctx context.Context, job string) (version, error) {
	if err := t.Delete(ctx, t.Job(t.namespace, job), client.PropagationPolicy("Background")); err != nil {
		return version{}, err
	}
	versions := t.versions(job)
	workload := t.Object("Workload", t.namespace, versions[len(versions)-1].GetName())
	if err := client.IgnoreNotFound(t.Delete(ctx, workload)); err != nil {
		return version{}, err
	}
	return t.must(ctx, job, "gone", func(v version) bool { return v.gone })
}

// save writes all versions of the Workloads.
func (t *trial) save(file string) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var all []byte
	for _, job := range slices.Sorted(maps.Keys(t.seen)) {
		for _, v := range t.seen[job] {
			obj := v.DeepCopy()
			obj.SetManagedFields(nil)
			text, err := yaml.Marshal(obj)
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("---\n# job %s, seen %s\n%s", job, v.when.Format(time.RFC3339Nano), text)...)
		}
	}
	return os.WriteFile(file, all, 0o644)
}

func reserved(v version) bool {
	is, _ := objects.Condition(v.Unstructured, "QuotaReserved")
	return is
}

func free(v version) bool { return !reserved(v) }

func admitted(v version) bool {
	is, _ := objects.Condition(v.Unstructured, "Admitted")
	return is
}

func inactive(v version) bool {
	active, found, _ := unstructured.NestedBool(v.Object, "spec", "active")
	return found && !active
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
