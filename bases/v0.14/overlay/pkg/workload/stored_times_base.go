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

package workload

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload/times"
)

// repairing returns update, with the times of what it returns repaired, in a copy
// if that is necessary: others may hold the object.
func repairing(update func() (*kueue.Workload, bool, error)) func() (*kueue.Workload, bool, error) {
	if !features.Enabled(features.ACRequeueAfter) {
		return update
	}
	return func() (*kueue.Workload, bool, error) {
		wl, updated, err := update()
		if wl == nil || !updated {
			return wl, updated, err
		}
		repaired := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: wl.CreationTimestamp}, Status: *wl.Status.DeepCopy()}
		if times.Repair(repaired); equality.Semantic.DeepEqual(repaired.Status, wl.Status) {
			return wl, updated, err
		}
		wl = wl.DeepCopy()
		wl.Status = repaired.Status
		return wl, updated, err
	}
}
