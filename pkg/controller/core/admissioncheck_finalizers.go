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

package core

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// updateFinalizers writes whether ac has Kueue's finalizer, and the rest as it is
// stored: Go's type would write quantities in spec.retry in another form, "0.1" as
// "100m", which tools that compare take for a change. The manager has no right to patch it.
func (r *AdmissionCheckReconciler) updateFinalizers(ctx context.Context, ac *kueue.AdmissionCheck) error {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kueue.SchemeGroupVersion.WithKind("AdmissionCheck"))
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(ac), stored); err != nil {
		return err
	}
	stored.SetUID(ac.UID) // another one of the same name is a conflict
	if controllerutil.ContainsFinalizer(ac, kueue.ResourceInUseFinalizerName) {
		controllerutil.AddFinalizer(stored, kueue.ResourceInUseFinalizerName)
	} else {
		controllerutil.RemoveFinalizer(stored, kueue.ResourceInUseFinalizerName)
	}
	return r.client.Update(ctx, stored)
}
