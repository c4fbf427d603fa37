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
	"fmt"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
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
	patch := &kueue.Workload{
		TypeMeta:   metav1.TypeMeta{APIVersion: kueue.GroupVersion.String(), Kind: "Workload"},
		ObjectMeta: metav1.ObjectMeta{Namespace: wl.Namespace, Name: wl.Name, ResourceVersion: wl.ResourceVersion},
		Status:     kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{*next}},
	}
	owner := client.FieldOwner(fieldManager(w.FieldManager, check))
	if err := w.Client.Status().Patch(ctx, patch, client.Apply, owner, client.ForceOwnership); err != nil {
		return err
	}
	wl.ResourceVersion = patch.ResourceVersion
	return nil
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
