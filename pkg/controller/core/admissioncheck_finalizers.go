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
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// patchFinalizers writes the finalizers of ac, to the version that was seen, and
// nothing else: an update would write quantities in spec.retry in another form, "0.1"
// as "100m", which tools that compare take for a change.
func (r *AdmissionCheckReconciler) patchFinalizers(ctx context.Context, ac *kueue.AdmissionCheck) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers":      ac.Finalizers,
		"resourceVersion": ac.ResourceVersion,
	}})
	if err != nil {
		return err
	}
	return r.client.Patch(ctx, ac, client.RawPatch(types.MergePatchType, patch))
}
