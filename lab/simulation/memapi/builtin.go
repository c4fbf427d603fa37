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

package memapi

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// builtin is the strategy of a kind whose rules are not known: all that is in it is valid.
type builtin struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource *Resource
}

type builtinStatus struct{ builtin }

func newBuiltin(r *Resource) (main, status rest.CreateUpdateResetFieldsStrategy) {
	b := builtin{unstructuredscheme.NewUnstructuredObjectTyper(), names.SimpleNameGenerator, r}
	return b, builtinStatus{b}
}

func (b builtin) NamespaceScoped() bool                                  { return b.resource.Namespaced }
func (builtin) AllowCreateOnUpdate() bool                                { return false }
func (builtin) AllowUnconditionalUpdate() bool                           { return true }
func (builtin) Canonicalize(runtime.Object)                              {}
func (builtin) Validate(context.Context, runtime.Object) field.ErrorList { return nil }
func (builtin) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (builtin) WarningsOnCreate(context.Context, runtime.Object) []string                 { return nil }
func (builtin) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string { return nil }

func (b builtin) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return b.reset(b.resource.HasStatus, "status")
}

func (b builtinStatus) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return b.reset(true, "spec")
}

func (b builtin) reset(it bool, name string) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := fieldpath.NewSet()
	if it {
		fields.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(b.resource.GVK.GroupVersion().String()): fields}
}

// hasGoType returns true if client-go knows the kind, which otherwise has a CRD.
func (b builtin) hasGoType() bool { return scheme.Scheme.Recognizes(b.resource.GVK) }

func (b builtin) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if u := obj.(*unstructured.Unstructured); b.resource.HasStatus {
		delete(u.Object, "status")
		if b.hasGoType() {
			u.Object["status"] = map[string]any{}
		}
		u.SetGeneration(1)
	}
}

// PrepareForUpdate counts the changes of the spec, where there is a status.
func (b builtin) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if !b.resource.HasStatus {
		return
	}
	u, before := obj.(*unstructured.Unstructured), old.(*unstructured.Unstructured)
	setStatus(u, before)
	for _, o := range []*unstructured.Unstructured{before, u} {
		for name := range o.Object {
			if name != "metadata" && !apiequality.Semantic.DeepEqual(before.Object[name], u.Object[name]) {
				u.SetGeneration(before.GetGeneration() + 1)
				return
			}
		}
	}
}

func (b builtinStatus) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	u := obj.(*unstructured.Unstructured)
	kept := old.(*unstructured.Unstructured).DeepCopy()
	kept.SetManagedFields(u.GetManagedFields())
	setStatus(kept, u)
	if b.hasGoType() {
		// With a CRD, the metadata stays.
		kept.Object["metadata"] = u.Object["metadata"]
	}
	u.Object = kept.Object
}

func setStatus(obj, from *unstructured.Unstructured) {
	if status, found := from.Object["status"]; found {
		obj.Object["status"] = runtime.DeepCopyJSONValue(status)
	} else {
		delete(obj.Object, "status")
	}
}
