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
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json" // numbers stay integers, as rules expect
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
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

	// Nil for what is not read from a CRD.
	structural *structuralschema.Structural

	main, status endpoint
}

// endpoint is what the API server has for the objects, and for their status.
type endpoint struct {
	strategy rest.CreateUpdateResetFieldsStrategy
	manager  *managedfields.FieldManager
}

// GVR returns what the paths of the API name the resource by.
func (r *Resource) GVR() schema.GroupVersionResource {
	return r.GVK.GroupVersion().WithResource(r.Plural)
}

// Builtin returns a resource without defaults and validation. If client-go knows its
// kind, lists are merged as it says.
func Builtin(gvk schema.GroupVersionKind, plural string, namespaced, hasStatus bool) (*Resource, error) {
	r := &Resource{GVK: gvk, Plural: plural, Namespaced: namespaced, HasStatus: hasStatus}
	r.main.strategy, r.status.strategy = newBuiltin(r)
	if scheme.Scheme.Recognizes(gvk) {
		return r, r.setFieldManagers(applyconfigurations.NewTypeConverter(scheme.Scheme))
	}
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
		if err := r.setStrategies(props); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
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

// setStrategies takes those of the API server, with the schemas.
func (r *Resource) setStrategies(props *apiextensions.JSONSchemaProps) error {
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return err
	}
	var (
		status          *apiextensions.CustomResourceSubresourceStatus
		statusValidator validation.SchemaValidator
	)
	if r.HasStatus {
		status = &apiextensions.CustomResourceSubresourceStatus{}
		if statusProps, found := props.Properties["status"]; found {
			if statusValidator, _, err = validation.NewSchemaValidator(&statusProps); err != nil {
				return err
			}
		}
	}
	main := customresource.NewStrategy(unstructuredscheme.NewUnstructuredObjectTyper(), r.Namespaced, r.GVK, validator, statusValidator, r.structural, status, nil, nil)
	r.main.strategy, r.status.strategy = main, customresource.NewStatusStrategy(main)
	return nil
}

func (r *Resource) setFieldManagers(converter managedfields.TypeConverter) error {
	var err error
	manager := func(subresource string, s rest.CreateUpdateResetFieldsStrategy) *managedfields.FieldManager {
		var m *managedfields.FieldManager
		if err == nil {
			m, err = managedfields.NewDefaultCRDFieldManager(converter, unstructuredConvertor{}, defaulter{r}, r, r.GVK, r.GVK.GroupVersion(),
				subresource, fieldpath.NewExcludeFilterSetMap(s.GetResetFields()))
		}
		return m
	}
	r.main.manager = manager("", r.main.strategy)
	r.status.manager = manager("status", r.status.strategy)
	return err
}

// decode reads an object as the API server does: without fields that the schema does
// not have, and with its defaults.
func (r *Resource) decode(data []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if r.structural == nil {
		if err := r.decodeBuiltin(data, obj); err != nil {
			return nil, err
		}
		obj.SetGroupVersionKind(r.GVK)
		return obj, nil
	}
	if err := obj.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	if obj.GroupVersionKind() == r.GVK {
		metadata, found, err := objectmeta.GetObjectMeta(obj.Object, false)
		if err != nil {
			return nil, err
		}
		pruning.Prune(obj.Object, r.structural, true)
		defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)
		if err := objectmeta.Coerce(nil, obj.Object, r.structural, false, false); err != nil {
			return nil, err
		}
		obj.SetGroupVersionKind(r.GVK)
		if found {
			if err := objectmeta.SetObjectMeta(obj.Object, metadata); err != nil {
				return nil, err
			}
		}
	}
	defaulter{r}.Default(obj)
	return obj, nil
}

// decodeBuiltin reads an object by way of its Go type, if client-go knows its kind: what
// the type does not have, and what is empty, is left out.
func (r *Resource) decodeBuiltin(data []byte, obj *unstructured.Unstructured) error {
	typed, err := scheme.Scheme.New(r.GVK)
	if runtime.IsNotRegisteredError(err) {
		return utiljson.Unmarshal(data, &obj.Object)
	}
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(data, typed); err != nil {
		return err
	}
	obj.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	return err
}

// defaulter sets the defaults of the schema.
type defaulter struct{ resource *Resource }

func (d defaulter) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && d.resource.structural != nil && u.GroupVersionKind() == d.resource.GVK {
		defaulting.Default(u.Object, d.resource.structural)
	}
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
