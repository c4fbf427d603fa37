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

package workloadslicing

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
)

// FindReplaced returns the slice that the workload has replaced, or is to replace. It is
// nil if there is none, if it is not of the same job, or if elastic jobs are off.
func FindReplaced(ctx context.Context, clnt client.Client, wl *kueue.Workload) (*kueue.Workload, error) {
	key := ReplacementForKey(wl)
	if key == nil || !features.Enabled(features.ElasticJobsViaWorkloadSlices) {
		return nil, nil
	}
	_, name, err := cache.SplitMetaNamespaceKey(string(*key))
	if err != nil {
		return nil, nil // no workload is called so
	}
	slice := &kueue.Workload{}
	if err := clnt.Get(ctx, client.ObjectKey{Namespace: wl.Namespace, Name: name}, slice); err != nil || !canReplace(wl, slice) {
		return nil, client.IgnoreNotFound(err)
	}
	return slice, nil
}

// canReplace returns true if the workload names the slice as the one that it replaces.
func canReplace(wl, slice *kueue.Workload) bool {
	key := ReplacementForKey(wl)
	return key != nil && *key == workload.Key(slice) && wl.Name != slice.Name && mayBeOfOneJob(wl, slice)
}

// mayBeOfOneJob: anybody can write the name of a slice to be replaced, of another
// namespace, too. A copy of MultiKueue has no owner before its job is there.
func mayBeOfOneJob(wl, slice *kueue.Workload) bool {
	owner, other := metav1.GetControllerOfNoCopy(wl), metav1.GetControllerOfNoCopy(slice)
	return wl.Namespace == slice.Namespace && (owner == nil || other == nil || owner.UID == other.UID)
}
