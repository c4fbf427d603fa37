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
	"fmt"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"
)

// Resource is a kind of objects that the API serves.
type Resource struct {
	GVK        schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// HasStatus: status is a subresource, and the generation counts changes of
	// the spec.
	HasStatus bool
	// Plain: field managers and validation are left out, which is faster.
	Plain bool
	// Forget: new objects are accepted, but not stored.
	Forget bool

	// Nil for what is not read from a CRD: such objects are stored as they come.
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *cel.Validator

	manager, statusManager *managedfields.FieldManager
}

// GVR returns what the paths of the API name the resource by.
func (r *Resource) GVR() schema.GroupVersionResource {
	return r.GVK.GroupVersion().WithResource(r.Plural)
}

// Builtin returns a resource without a schema.
func Builtin(gvk schema.GroupVersionKind, plural string, namespaced, hasStatus bool) (*Resource, error) {
	r := &Resource{GVK: gvk, Plural: plural, Namespaced: namespaced, HasStatus: hasStatus}
	return r, r.setFieldManagers(managedfields.NewDeducedTypeConverter())
}

// FromCRD returns the resource that a CustomResourceDefinition in a YAML file
// defines in the given version, with its schema, defaults, list types and rules.
func FromCRD(file, version string) (*Resource, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name != version {
			continue
		}
		r := &Resource{
			GVK:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
			Plural:     crd.Spec.Names.Plural,
			Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
			HasStatus:  v.Subresources != nil && v.Subresources.Status != nil,
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, props, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if r.structural, err = structuralschema.NewStructural(props); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if r.validator, _, err = validation.NewSchemaValidator(props); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r.cel = cel.NewValidator(r.structural, true, celconfig.PerCallLimit)
		openAPI, err := builder.BuildOpenAPIV3(crd, version, builder.Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		converter, err := managedfields.NewTypeConverter(openAPI.Components.Schemas, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return r, r.setFieldManagers(converter)
	}
	return nil, fmt.Errorf("%s: no version %s", file, version)
}

func (r *Resource) setFieldManagers(converter managedfields.TypeConverter) error {
	version := fieldpath.APIVersion(r.GVK.GroupVersion().String())
	manager := func(subresource string, reset ...string) (*managedfields.FieldManager, error) {
		fields := map[fieldpath.APIVersion]*fieldpath.Set{version: fieldpath.NewSet()}
		for _, name := range reset {
			fields[version].Insert(fieldpath.MakePathOrDie(name))
		}
		return managedfields.NewDefaultCRDFieldManager(converter, unstructuredConvertor{}, noDefaults{}, r, r.GVK, r.GVK.GroupVersion(),
			subresource, fieldpath.NewExcludeFilterSetMap(fields))
	}
	var err error
	if !r.HasStatus {
		r.manager, err = manager("")
		return err
	}
	if r.manager, err = manager("", "status"); err != nil {
		return err
	}
	r.statusManager, err = manager("status", "spec")
	return err
}

// New makes an empty object, for the field managers.
func (r *Resource) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.GVK)
	return obj, nil
}

// Resources are served in one version, so that nothing is ever converted.
type unstructuredConvertor struct{}

func (unstructuredConvertor) Convert(in, out, _ any) error {
	from, okIn := in.(*unstructured.Unstructured)
	to, okOut := out.(*unstructured.Unstructured)
	if !okIn || !okOut {
		return fmt.Errorf("cannot convert %T to %T", in, out)
	}
	to.Object = from.Object
	return nil
}

func (unstructuredConvertor) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (unstructuredConvertor) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}
