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

package kit

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// maxFieldManagerLength is the API server's limit.
const maxFieldManagerLength = 128

// Writer writes states of admission checks outside of the function given to
// Setup, for example to prolong, shorten or withdraw the delay of a workload
// that waits. All fields but Clock are required.
type Writer struct {
	// Client writes.
	Client client.Client
	// Reader reads workloads. It should not be a cache, which would give the same
	// old copy again after a conflict: use the manager's GetAPIReader.
	Reader client.Reader
	// FieldManager is the name under which the controller writes. Setup uses its
	// ControllerName.
	FieldManager string
	// Clock gives the transition times. Default: the real one.
	Clock clock.PassiveClock
}

// SetState reads the workload, calls decide with the state of the check, and
// writes its verdict. If someone else writes the workload in between, it does so
// again, a few times, and then returns the conflict.
//
// Nothing is written, and no error returned, if NextState says so. The error is
// NotFound if the workload does not exist.
func (w *Writer) SetState(ctx context.Context, key client.ObjectKey, check kueue.AdmissionCheckReference, decide func(wl *kueue.Workload, state kueue.AdmissionCheckState) Verdict) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		wl := &kueue.Workload{}
		if err := w.Reader.Get(ctx, key, wl); err != nil {
			return err
		}
		state := StateOf(wl, check)
		if state == nil {
			return nil
		}
		return w.write(ctx, wl, check, decide(wl, *state))
	})
}

// write fails with a conflict if wl is not the newest version of the workload,
// and updates its resource version.
func (w *Writer) write(ctx context.Context, wl *kueue.Workload, check kueue.AdmissionCheckReference, verdict Verdict) error {
	next := NextState(wl, check, verdict, w.now())
	if next == nil {
		return nil
	}
	applied, err := statusOf(w.Client, wl, wl.ResourceVersion, "admissionChecks", next)
	if err != nil {
		return err
	}
	if err := applyStatus(ctx, w.Client, applied, fieldManager(w.FieldManager, check)); err != nil {
		return err
	}
	wl.ResourceVersion = applied.GetResourceVersion()
	return nil
}

// statusOf returns what is to be applied so that a list in the status of an object
// has the entry. It says nothing else: a typed object would have its zero values
// as well, which another version of Kueue may not know.
func statusOf(c client.Client, of client.Object, resourceVersion, list string, entry any) (*unstructured.Unstructured, error) {
	gvk, err := c.GroupVersionKindFor(of)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(entry)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{list: []any{content}},
	}}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(of.GetNamespace())
	obj.SetName(of.GetName())
	obj.SetResourceVersion(resourceVersion)
	return obj, nil
}

// applyStatus leaves in obj what the API server has then.
func applyStatus(ctx context.Context, c client.Client, obj *unstructured.Unstructured, manager string) error {
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(manager), client.ForceOwnership)
}

func (w *Writer) now() time.Time {
	if w.Clock == nil {
		return time.Now()
	}
	return w.Clock.Now()
}

// fieldManager returns a manager for each check. An apply removes what the same
// manager has applied before and leaves out now: with one manager for two checks
// of a workload the answer of one would remove that of the other.
func fieldManager(base string, check kueue.AdmissionCheckReference) string {
	name := base + "/" + string(check)
	if len(name) <= maxFieldManagerLength {
		return name
	}
	hash := fnv.New64a()
	hash.Write([]byte(name))
	suffix := fmt.Sprintf("/%016x", hash.Sum64())
	return name[:maxFieldManagerLength-len(suffix)] + suffix
}
