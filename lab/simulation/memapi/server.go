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

// Package memapi is a Kubernetes API in memory, for tests that decide the order
// in which things happen: every request and every event of a watch can be held
// back. It speaks HTTP through an http.RoundTripper, so that clients, informers
// and leader election run as they are, and it uses the API server's own field
// managers, schemas, strategies and validation.
//
// It is held against the real API server by differential_test.go; what it does
// otherwise is listed in known_test.go, with the reasons.
package memapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"
)

// Write is a change of an object, told to Options.OnWrite.
type Write struct {
	// Caller is the name that was given to the transport of the client.
	Caller string
	// FieldManager is as in the managed fields: where the request named none it is the name
	// in the User-Agent.
	FieldManager string
	Verb         string
	Subresource  string
	// Old is nil for a new object, New for one that is gone.
	Old, New *unstructured.Unstructured
}

// Options of a Server. All may be nil.
type Options struct {
	// Admit may change obj or refuse it. Old is nil for a new object.
	Admit func(resource *Resource, subresource string, old, obj *unstructured.Unstructured) error
	// OnWrite is called for each change, in order, before the answer.
	OnWrite func(Write)
	// OnList is called with the resource version of each list.
	OnList func(caller string, gvr schema.GroupVersionResource, revision int)
}

// Server holds the objects.
type Server struct {
	opts      Options
	resources map[schema.GroupVersionResource]*Resource
	// strategic has the Go types that strategic merge patches need.
	strategic *runtime.Scheme

	mu       sync.Mutex
	revision map[schema.GroupVersionResource]int
	uids     int
	objects  map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured
	// encoded has the stored objects as JSON.
	encoded map[*unstructured.Unstructured]json.RawMessage
	// written has those that are written otherwise than they are read: with nulls.
	written map[*unstructured.Unstructured]*unstructured.Unstructured
	log     map[schema.GroupVersionResource][]event
	watches []*Watch
}

type event struct {
	kind     watch.EventType
	revision int
	// statusOnly: the generation is that of the version before.
	statusOnly bool
	object     *unstructured.Unstructured
}

// NewServer returns a server of the resources. The scheme has the Go types of
// those that are written by strategic merge patch.
func NewServer(scheme *runtime.Scheme, resources []*Resource, opts Options) *Server {
	s := &Server{
		opts:      opts,
		strategic: scheme,
		resources: make(map[schema.GroupVersionResource]*Resource, len(resources)),
		objects:   make(map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured),
		encoded:   make(map[*unstructured.Unstructured]json.RawMessage),
		written:   make(map[*unstructured.Unstructured]*unstructured.Unstructured),
		revision:  make(map[schema.GroupVersionResource]int),
		log:       make(map[schema.GroupVersionResource][]event),
	}
	for _, r := range resources {
		s.resources[r.GVR()] = r
		s.objects[r.GVR()] = make(map[types.NamespacedName]*unstructured.Unstructured)
	}
	return s
}

// Get returns an object, which must not be changed, or nil.
func (s *Server) Get(gvr schema.GroupVersionResource, key types.NamespacedName) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[gvr][key]
}

// List returns the objects, which must not be changed, ordered by name.
func (s *Server) List(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(gvr, "")
}

func (s *Server) sorted(gvr schema.GroupVersionResource, namespace string) []*unstructured.Unstructured {
	keys := make([]types.NamespacedName, 0, len(s.objects[gvr]))
	for key := range s.objects[gvr] {
		if namespace == "" || key.Namespace == namespace {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	objects := make([]*unstructured.Unstructured, 0, len(keys))
	for _, key := range keys {
		objects = append(objects, s.objects[gvr][key])
	}
	return objects
}

// json returns an object as JSON.
func (s *Server) json(obj *unstructured.Unstructured) json.RawMessage {
	s.mu.Lock()
	data, found := s.encoded[obj]
	s.mu.Unlock()
	if found {
		return data
	}
	return encode(obj)
}

// request is one that changes something.
type request struct {
	Caller       string
	Verb         string
	Resource     *Resource
	Key          types.NamespacedName
	Subresource  string
	PatchType    types.PatchType
	FieldManager string
	Force        *bool
	UserAgent    string
	Body         []byte
}

// manager is who owns what the request writes.
func (r *request) manager() string {
	if r.FieldManager != "" {
		return r.FieldManager
	}
	name, _, _ := strings.Cut(r.UserAgent, "/")
	return name
}

func (r *request) endpoint() endpoint {
	if r.Subresource != "" {
		return r.Resource.status
	}
	return r.Resource.main
}

func (r *request) context() context.Context {
	return genericapirequest.WithNamespace(context.Background(), r.Key.Namespace)
}

// write returns the object as it is then, or a status, and if it is a new one.
func (s *Server) write(req request) (any, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gr := req.Resource.GVR().GroupResource()
	if req.Subresource != "" && (req.Subresource != "status" || !req.Resource.HasStatus) {
		return nil, false, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Verb, gr, req.Key.Name, "", 0, false)
	}
	old := s.objects[req.Resource.GVR()][req.Key]
	switch req.Verb {
	case http.MethodPost:
		obj, err := req.Resource.decode(req.Body)
		if err != nil {
			return nil, false, apierrors.NewBadRequest(err.Error())
		}
		obj, err = s.create(req, obj)
		return obj, true, err
	case http.MethodDelete:
		obj, err := s.delete(req, old)
		return obj, false, err
	case http.MethodPatch:
		if errs := metav1validation.ValidatePatchOptions(&metav1.PatchOptions{FieldManager: req.FieldManager, Force: req.Force}, req.PatchType); len(errs) > 0 {
			return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
		}
		if req.PatchType == types.StrategicMergePatchType && req.Resource.structural != nil {
			return nil, false, negotiation.NewUnsupportedMediaTypeError([]string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)})
		}
	}
	obj, err := s.changed(req, old)
	if err != nil {
		return nil, false, err
	}
	if old == nil {
		obj, err = s.create(req, obj)
	} else {
		obj, err = s.update(req, old, obj)
	}
	return obj, old == nil, err
}

// changed returns old with what the request asks for, field managers included. Old is
// nil when there is no such object yet.
func (s *Server) changed(req request, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, gr := req.Resource, req.Resource.GVR().GroupResource()
	var obj *unstructured.Unstructured
	var err error
	if req.Verb == http.MethodPut {
		if obj, err = r.decode(req.Body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err := accepts(req, obj); err != nil {
			return nil, err
		}
	}
	if old == nil && (req.PatchType != types.ApplyPatchType || req.Subresource != "") {
		return nil, apierrors.NewNotFound(gr, req.Key.Name)
	}
	switch {
	case req.Verb == http.MethodPut:
		if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
			return nil, apierrors.NewConflict(gr, req.Key.Name, fmt.Errorf("precondition failed: the UID is %s", old.GetUID()))
		}
	case req.PatchType == types.ApplyPatchType:
		patch := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(req.Body, &patch.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		live, _ := r.New(r.GVK)
		if old != nil {
			live = old
		}
		applied, err := req.endpoint().manager.Apply(live, patch, req.FieldManager, ptr.Deref(req.Force, false))
		if err != nil {
			return nil, err
		}
		obj = applied.(*unstructured.Unstructured)
		if old == nil && obj.GetUID() != "" {
			return nil, apierrors.NewConflict(gr, req.Key.Name, fmt.Errorf("uid mismatch: there is no such object"))
		}
		return obj, named(req, obj)
	default:
		after, err := s.patched(req, old)
		if err != nil {
			return nil, err
		}
		if obj, err = r.decode(after); err != nil {
			return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(after), err.Error())})
		}
	}
	if !r.Plain {
		obj = req.endpoint().manager.UpdateNoErrors(old, obj, req.manager()).(*unstructured.Unstructured)
	}
	return obj, named(req, obj)
}

// patched returns the JSON of the object after a patch.
func (s *Server) patched(req request, old *unstructured.Unstructured) ([]byte, error) {
	before := s.encoded[old]
	switch req.PatchType {
	case types.MergePatchType:
		after, err := jsonpatch.MergePatch(before, req.Body)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			err = apierrors.NewBadRequest(err.Error())
		}
		return after, err
	case types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(req.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := patch.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return after, nil
	case types.StrategicMergePatchType:
		typed, err := s.strategic.New(req.Resource.GVK)
		if err != nil {
			return nil, err
		}
		after, err := strategicpatch.StrategicMergePatch(before, req.Body, typed)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	}
	return nil, negotiation.NewUnsupportedMediaTypeError(nil)
}

// accepts looks at what an object says that it is.
func accepts(req request, obj *unstructured.Unstructured) error {
	if gv := obj.GroupVersionKind().GroupVersion(); gv != req.Resource.GVK.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", gv, req.Resource.GVK.GroupVersion()))
	}
	return named(req, obj)
}

// named looks at the name and the namespace of an object, and sets the latter.
func named(req request, obj *unstructured.Unstructured) error {
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForScope(req.Key.Namespace, req.Resource.Namespaced), obj); err != nil {
		return err
	}
	switch name := obj.GetName(); {
	case req.Verb == http.MethodPost:
		return nil
	case name == "":
		return apierrors.NewBadRequest("the name of the object must be provided")
	case name != req.Key.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, req.Key.Name))
	}
	return nil
}

func (s *Server) create(req request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, gr := req.Resource, req.Resource.GVR().GroupResource()
	if req.Verb == http.MethodPost {
		if err := accepts(req, obj); err != nil {
			return nil, err
		}
		rest.WipeObjectMetaSystemFields(obj)
		if !r.Plain {
			empty, _ := r.New(r.GVK)
			obj = r.main.manager.UpdateNoErrors(empty, obj, req.manager()).(*unstructured.Unstructured)
		}
	}
	s.uids++
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), s.uids))
	}
	obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)))
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if r.Plain {
		r.main.strategy.PrepareForCreate(req.context(), obj)
	} else if err := rest.BeforeCreate(r.main.strategy, req.context(), obj); err != nil {
		return nil, err
	}
	if err := s.admit(req, nil, obj); err != nil {
		return nil, err
	}
	if r.Forget {
		return obj, nil
	}
	if version := obj.GetResourceVersion(); version != "" && version != "0" && req.Verb == http.MethodPost {
		return nil, storage.ErrResourceVersionSetOnCreate
	}
	if s.objects[r.GVR()][types.NamespacedName{Namespace: req.Key.Namespace, Name: obj.GetName()}] != nil {
		return nil, apierrors.NewAlreadyExists(gr, obj.GetName())
	}
	return s.store(req, watch.Added, nil, obj), nil
}

func (s *Server) update(req request, old, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r, gr := req.Resource, req.Resource.GVR().GroupResource()
	e := req.endpoint()
	if version := obj.GetResourceVersion(); version == "" || version == "0" {
		if !e.strategy.AllowUnconditionalUpdate() {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, req.Key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		obj.SetResourceVersion(old.GetResourceVersion())
	} else if version != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(gr, req.Key.Name, errors.New(registry.OptimisticLockErrorMsg))
	}
	if r.Plain {
		obj.SetUID(old.GetUID())
		obj.SetCreationTimestamp(old.GetCreationTimestamp())
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
		obj.SetGeneration(old.GetGeneration())
		e.strategy.PrepareForUpdate(req.context(), obj, old)
	} else {
		if err := rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil {
			return nil, err
		}
		if _, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(req.context(), obj, old); err != nil {
			return nil, err
		}
	}
	if err := s.admit(req, old, obj); err != nil {
		return nil, err
	}
	if registry.ShouldDeleteDuringUpdate(req.context(), "", obj, old) {
		s.remove(req, old)
		return obj, nil
	}
	return s.store(req, watch.Modified, old, obj), nil
}

func (s *Server) admit(req request, old, obj *unstructured.Unstructured) error {
	if s.opts.Admit == nil {
		return nil
	}
	return s.opts.Admit(req.Resource, req.Subresource, old, obj)
}

func (s *Server) delete(req request, old *unstructured.Unstructured) (any, error) {
	gr := req.Resource.GVR().GroupResource()
	if old == nil {
		return nil, apierrors.NewNotFound(gr, req.Key.Name)
	}
	opts := metav1.DeleteOptions{}
	if len(req.Body) > 0 {
		if err := json.Unmarshal(req.Body, &opts); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	obj := old.DeepCopy()
	if _, _, err := rest.BeforeDelete(req.Resource.main.strategy, req.context(), obj, &opts); err != nil {
		return nil, err
	}
	switch {
	case len(old.GetFinalizers()) == 0:
		s.remove(req, old)
		return metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: old.GetName(), Group: gr.Group, Kind: gr.Resource, UID: old.GetUID()},
		}, nil
	case old.GetDeletionTimestamp() != nil:
		return old, nil
	}
	obj.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now().Truncate(time.Second))))
	obj.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	return s.store(req, watch.Modified, old, obj), nil
}

// remove deletes an object, and those that it alone owned. Watches are told of it as it
// was stored last.
func (s *Server) remove(req request, obj *unstructured.Unstructured) {
	s.store(req, watch.Deleted, obj, obj.DeepCopy())
	var dependents []request
	for gvr, objects := range s.objects {
		for key, dependent := range objects {
			owners := dependent.GetOwnerReferences()
			isOwner := func(owner metav1.OwnerReference) bool { return owner.UID == obj.GetUID() }
			if slices.ContainsFunc(owners, isOwner) && !slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return s.exists(owner.UID) }) {
				dependents = append(dependents, request{Caller: "garbage-collector", Verb: http.MethodDelete, Resource: s.resources[gvr], Key: key, UserAgent: "garbage-collector"})
			}
		}
	}
	slices.SortFunc(dependents, func(a, b request) int {
		return strings.Compare(a.Resource.Plural+"/"+a.Key.String(), b.Resource.Plural+"/"+b.Key.String())
	})
	for _, d := range dependents {
		_, _ = s.delete(d, s.objects[d.Resource.GVR()][d.Key])
	}
}

func (s *Server) exists(uid types.UID) bool {
	for _, objects := range s.objects {
		for _, obj := range objects {
			if obj.GetUID() == uid {
				return true
			}
		}
	}
	return false
}

// store returns what is stored: old, if the object is as it was.
func (s *Server) store(req request, kind watch.EventType, old, obj *unstructured.Unstructured) *unstructured.Unstructured {
	gvr := req.Resource.GVR()
	if kind == watch.Modified {
		before := old
		if written, found := s.written[old]; found {
			before = written
		}
		if reflect.DeepEqual(obj.Object, before.Object) {
			return old
		}
	}
	s.revision[gvr]++
	obj.SetResourceVersion(strconv.Itoa(s.revision[gvr]))
	stored := obj
	if kind == watch.Deleted {
		delete(s.objects[gvr], types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	} else {
		// Other requests were decoded when they came.
		if req.PatchType == types.ApplyPatchType && hasEmpty(obj.Object) {
			var err error
			if stored, err = req.Resource.decode(encode(obj)); err != nil {
				panic(err) // it is valid
			}
			s.written[stored] = obj
		}
		s.objects[gvr][types.NamespacedName{Namespace: stored.GetNamespace(), Name: stored.GetName()}] = stored
	}
	s.encoded[stored] = encode(stored)
	s.log[gvr] = append(s.log[gvr], event{kind: kind, revision: s.revision[gvr], object: stored,
		statusOnly: req.Resource.HasStatus && kind == watch.Modified && old.GetGeneration() == stored.GetGeneration()})
	if s.opts.OnWrite != nil {
		write := Write{Caller: req.Caller, FieldManager: req.manager(), Verb: req.Verb, Subresource: req.Subresource, Old: old, New: stored}
		if kind == watch.Deleted {
			write.New = nil
		}
		s.opts.OnWrite(write)
	}
	return stored
}

// hasEmpty returns true if there is something that may not be read as it is written.
func hasEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, v := range value {
			if hasEmpty(v) {
				return true
			}
		}
	case []any:
		return len(value) == 0 || slices.ContainsFunc(value, hasEmpty)
	}
	return false
}

func encode(obj *unstructured.Unstructured) json.RawMessage {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return data
}
