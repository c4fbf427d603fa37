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
// managers, schemas and validation.
//
// Differences from a real API server: no watch cache or bookmarks, no selectors,
// no admission chain but one function, and dependents are deleted at once.
package memapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json" // numbers stay integers, as rules expect
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Write is a change of an object, told to Options.OnWrite.
type Write struct {
	// Caller is the name that was given to the transport of the client.
	Caller string
	// FieldManager is empty when the request named none.
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

// encode returns an object as JSON.
func (s *Server) encode(obj *unstructured.Unstructured) (json.RawMessage, error) {
	s.mu.Lock()
	data, found := s.encoded[obj]
	s.mu.Unlock()
	if found {
		return data, nil
	}
	return json.Marshal(obj.Object)
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
	Force        bool
	Body         []byte
}

func (s *Server) write(req request) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Subresource != "" && (req.Subresource != "status" || !req.Resource.HasStatus) {
		return nil, apierrors.NewNotFound(req.Resource.GVR().GroupResource(), req.Key.Name+"/"+req.Subresource)
	}
	old := s.objects[req.Resource.GVR()][req.Key]
	switch req.Verb {
	case http.MethodPost:
		obj := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(req.Body, &obj.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return s.create(req, obj)
	case http.MethodDelete:
		return s.delete(req, old)
	}
	if old == nil && req.PatchType != types.ApplyPatchType {
		return nil, apierrors.NewNotFound(req.Resource.GVR().GroupResource(), req.Key.Name)
	}
	if old == nil {
		return nil, apierrors.NewBadRequest("server-side apply of a new object is not supported")
	}
	obj, err := s.changed(req, old)
	if err != nil {
		return nil, err
	}
	return s.update(req, old, obj)
}

// changed returns old with what the request asks for, field managers included.
func (s *Server) changed(req request, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := req.Resource
	manager := r.manager
	if req.Subresource != "" {
		manager = r.statusManager
	}
	obj := &unstructured.Unstructured{}
	switch {
	case req.Verb == http.MethodPut:
		if err := utiljson.Unmarshal(req.Body, &obj.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if obj.GetResourceVersion() == "" && r.structural != nil {
			return nil, apierrors.NewInvalid(r.GVK.GroupKind(), req.Key.Name, nil)
		}
	case req.PatchType == types.ApplyPatchType:
		patch := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(req.Body, &patch.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err := conflict(r, old, patch); err != nil {
			return nil, err
		}
		applied, err := manager.Apply(old.DeepCopy(), patch, req.FieldManager, req.Force)
		if err != nil {
			return nil, err
		}
		obj = applied.(*unstructured.Unstructured)
		obj.SetResourceVersion(old.GetResourceVersion())
		return s.subresource(req, old, obj), nil
	default:
		before, err := json.Marshal(old.Object)
		if err != nil {
			return nil, err
		}
		var after []byte
		switch req.PatchType {
		case types.MergePatchType:
			after, err = jsonpatch.MergePatch(before, req.Body)
		case types.StrategicMergePatchType:
			var typed runtime.Object
			if typed, err = s.strategic.New(r.GVK); err == nil {
				after, err = strategicpatch.StrategicMergePatch(before, req.Body, typed)
			}
		default:
			err = fmt.Errorf("patch type %q is not supported", req.PatchType)
		}
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if err := utiljson.Unmarshal(after, &obj.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if err := conflict(r, old, obj); err != nil {
		return nil, err
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.SetGroupVersionKind(r.GVK)
	if r.structural != nil {
		pruning.Prune(obj.Object, r.structural, true)
		defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)
		defaulting.Default(obj.Object, r.structural)
	}
	obj.SetManagedFields(old.GetManagedFields())
	if r.Plain {
		return s.subresource(req, old, obj), nil
	}
	managed := manager.UpdateNoErrors(old.DeepCopy(), obj, req.FieldManager).(*unstructured.Unstructured)
	return s.subresource(req, old, managed), nil
}

func conflict(r *Resource, old, obj *unstructured.Unstructured) error {
	if version := obj.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return apierrors.NewConflict(r.GVR().GroupResource(), old.GetName(), fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
		return apierrors.NewConflict(r.GVR().GroupResource(), old.GetName(), fmt.Errorf("uid mismatch"))
	}
	return nil
}

// subresource restores from old what the request must not change.
func (s *Server) subresource(req request, old, obj *unstructured.Unstructured) *unstructured.Unstructured {
	if !req.Resource.HasStatus {
		return obj
	}
	if req.Subresource == "" {
		setStatus(obj, old)
		return obj
	}
	kept := old.DeepCopy()
	kept.SetManagedFields(obj.GetManagedFields())
	setStatus(kept, obj)
	return kept
}

func setStatus(obj, from *unstructured.Unstructured) {
	if status, found := from.Object["status"]; found {
		obj.Object["status"] = runtime.DeepCopyJSONValue(status)
	} else {
		delete(obj.Object, "status")
	}
}

func (s *Server) create(req request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := req.Resource
	obj.SetGroupVersionKind(r.GVK)
	s.uids++
	if obj.GetName() == "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), s.uids))
	}
	key := types.NamespacedName{Namespace: req.Key.Namespace, Name: obj.GetName()}
	if s.objects[r.GVR()][key] != nil {
		return nil, apierrors.NewAlreadyExists(r.GVR().GroupResource(), key.Name)
	}
	if r.HasStatus {
		delete(obj.Object, "status")
		obj.SetGeneration(1)
	}
	obj.SetNamespace(key.Namespace)
	obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)))
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if r.structural != nil {
		pruning.Prune(obj.Object, r.structural, true)
		defaulting.Default(obj.Object, r.structural)
	}
	if err := s.admit(req, nil, obj); err != nil {
		return nil, err
	}
	if r.Forget {
		return obj, nil
	}
	if !r.Plain {
		empty, _ := r.New(r.GVK)
		obj = r.manager.UpdateNoErrors(empty, obj, req.FieldManager).(*unstructured.Unstructured)
	}
	s.store(req, watch.Added, nil, obj)
	return obj, nil
}

func (s *Server) update(req request, old, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetGeneration(old.GetGeneration())
	if req.Resource.HasStatus && specChanged(old, obj) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	if err := s.admit(req, old, obj); err != nil {
		return nil, err
	}
	if sameButForTimes(old, obj) {
		return old, nil
	}
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		s.remove(req, obj)
		return obj.DeepCopy(), nil
	}
	s.store(req, watch.Modified, old, obj)
	return obj, nil
}

func specChanged(old, obj *unstructured.Unstructured) bool {
	for _, o := range []*unstructured.Unstructured{old, obj} {
		for field := range o.Object {
			if field != "metadata" && field != "status" && !apiequality.Semantic.DeepEqual(old.Object[field], obj.Object[field]) {
				return true
			}
		}
	}
	return false
}

// sameButForTimes returns true if nothing but the times of field managers differ.
// Such a request is not stored.
func sameButForTimes(old, obj *unstructured.Unstructured) bool {
	for field, value := range obj.Object {
		if field != "metadata" && !apiequality.Semantic.DeepEqual(old.Object[field], value) {
			return false
		}
	}
	if len(old.Object) != len(obj.Object) {
		return false
	}
	timeless := func(o *unstructured.Unstructured) map[string]any {
		metadata := runtime.DeepCopyJSON(o.Object["metadata"].(map[string]any))
		entries, _ := metadata["managedFields"].([]any)
		for _, entry := range entries {
			delete(entry.(map[string]any), "time")
		}
		return metadata
	}
	return apiequality.Semantic.DeepEqual(timeless(old), timeless(obj))
}

func (s *Server) admit(req request, old, obj *unstructured.Unstructured) error {
	if s.opts.Admit != nil {
		if err := s.opts.Admit(req.Resource, req.Subresource, old, obj); err != nil {
			return err
		}
	}
	r := req.Resource
	if r.structural == nil || r.Plain {
		return nil
	}
	errs := validation.ValidateCustomResource(nil, obj.Object, r.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj.Object)...)
	if r.cel != nil && len(errs) == 0 && req.Subresource == "" {
		var oldObject any
		if old != nil {
			oldObject = old.Object
		}
		celErrs, _ := r.cel.Validate(context.Background(), nil, r.structural, obj.Object, oldObject, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.GVK.GroupKind(), obj.GetName(), errs)
	}
	return nil
}

func (s *Server) delete(req request, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, apierrors.NewConflict(gr, req.Key.Name, fmt.Errorf("precondition failed"))
		}
	}
	if len(old.GetFinalizers()) == 0 {
		s.remove(req, old)
		return old.DeepCopy(), nil
	}
	if old.GetDeletionTimestamp() == nil {
		obj := old.DeepCopy()
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		obj.SetDeletionTimestamp(&now)
		s.store(req, watch.Modified, old, obj)
		return obj, nil
	}
	return old.DeepCopy(), nil
}

// remove deletes an object and those that it owns.
func (s *Server) remove(req request, obj *unstructured.Unstructured) {
	s.store(req, watch.Deleted, obj, nil)
	for gvr, objects := range s.objects {
		for key, dependent := range objects {
			for _, owner := range dependent.GetOwnerReferences() {
				if owner.UID == obj.GetUID() {
					_, _ = s.delete(request{Caller: "garbage-collector", Verb: http.MethodDelete, Resource: s.resources[gvr], Key: key}, dependent)
				}
			}
		}
	}
}

func (s *Server) store(req request, kind watch.EventType, old, obj *unstructured.Unstructured) {
	gvr := req.Resource.GVR()
	s.revision[gvr]++
	stored := obj
	if kind == watch.Deleted {
		stored = old.DeepCopy()
		delete(s.objects[gvr], types.NamespacedName{Namespace: old.GetNamespace(), Name: old.GetName()})
	} else {
		s.objects[gvr][types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}] = obj
	}
	stored.SetResourceVersion(strconv.Itoa(s.revision[gvr]))
	data, err := json.Marshal(stored.Object)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	s.encoded[stored] = data
	s.log[gvr] = append(s.log[gvr], event{kind: kind, revision: s.revision[gvr], object: stored,
		statusOnly: req.Resource.HasStatus && old != nil && obj != nil && old.GetGeneration() == obj.GetGeneration()})
	if s.opts.OnWrite != nil {
		s.opts.OnWrite(Write{Caller: req.Caller, FieldManager: req.FieldManager, Verb: req.Verb, Subresource: req.Subresource, Old: old, New: obj})
	}
}
