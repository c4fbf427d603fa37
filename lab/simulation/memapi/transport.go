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
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sort"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// Call describes a request to a Gate.
type Call struct {
	Caller      string
	Verb        string
	GVR         schema.GroupVersionResource
	Key         types.NamespacedName
	Subresource string
	Body        []byte
	// Answered, if the Gate sets it, is called with the outcome before the caller
	// hears of it, and may block.
	Answered func(error)
}

func (c Call) String() string {
	name := c.GVR.Resource + "/" + c.Key.Name
	if c.Subresource != "" {
		name += "/" + c.Subresource
	}
	return c.Verb + " " + name
}

// Fate is what a Gate decides for a call.
type Fate int

const (
	// Pass: the call is carried out and answered.
	Pass Fate = iota
	// Lost: the call does not reach the API.
	Lost
	// Unanswered: the call is carried out, but the caller is told that it failed.
	Unanswered
)

// Gate is called before a call that writes is carried out, and may block. It may
// change the body.
type Gate func(req *http.Request, call *Call) Fate

// errDisconnected is not one of those after which client-go sends again.
var errDisconnected = errors.New("the connection to the API was lost")

// Config returns the configuration of a client. The gate may be nil.
func (s *Server) Config(caller string, gate Gate) *rest.Config {
	return &rest.Config{
		Host:          "http://memory",
		QPS:           -1,
		UserAgent:     caller,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
		Transport:     &transport{server: s, caller: caller, gate: gate},
	}
}

type transport struct {
	server *Server
	caller string
	gate   Gate
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	call, err := parsePath(req.URL.Path)
	if err != nil {
		return t.answer(req, 0, nil, err)
	}
	call.Caller, call.Verb = t.caller, req.Method
	resource := t.server.resources[call.GVR]
	if resource == nil {
		return t.answer(req, 0, nil, apierrors.NewNotFound(call.GVR.GroupResource(), call.Key.Name))
	}
	query := req.URL.Query()
	if req.Method == http.MethodGet {
		switch {
		case query.Get("labelSelector") != "" || query.Get("fieldSelector") != "":
			err = apierrors.NewBadRequest("selectors are not supported: " + req.URL.String())
		case query.Get("sendInitialEvents") != "":
			err = apierrors.NewBadRequest("sendInitialEvents is not supported")
		case query.Get("watch") != "":
			revision, err := strconv.Atoi(query.Get("resourceVersion"))
			if err != nil || revision < 0 {
				return t.answer(req, 0, nil, apierrors.NewBadRequest("a watch without the version of a list is not supported: "+req.URL.String()))
			}
			return t.server.watch(t.caller, req, call.GVR, call.Key.Namespace, revision), nil
		case call.Key.Name == "":
			return t.answer(req, http.StatusOK, t.server.list(t.caller, resource, call.Key.Namespace), nil)
		default:
			if obj := t.server.Get(call.GVR, call.Key); obj != nil {
				return t.answer(req, http.StatusOK, obj, nil)
			}
			err = apierrors.NewNotFound(call.GVR.GroupResource(), call.Key.Name)
		}
		return t.answer(req, 0, nil, err)
	}

	if req.Body != nil {
		if call.Body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	fate := Pass
	if t.gate != nil {
		fate = t.gate(req, &call)
	}
	if fate == Lost {
		return nil, errDisconnected
	}
	mediaType, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	var force *bool
	if text := query.Get("force"); text != "" {
		force = ptr.To(text == "true")
	}
	obj, created, err := t.server.write(request{
		Caller: t.caller, UserAgent: req.UserAgent(), Verb: req.Method, Resource: resource, Key: call.Key, Subresource: call.Subresource,
		PatchType: types.PatchType(mediaType), FieldManager: query.Get("fieldManager"), Force: force, Body: call.Body,
	})
	if fate == Unanswered {
		return nil, errDisconnected
	}
	if call.Answered != nil {
		call.Answered(err)
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	return t.answer(req, code, obj, err)
}

func (t *transport) answer(req *http.Request, code int, obj any, err error) (*http.Response, error) {
	if err != nil {
		s := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			s = status.Status()
		}
		s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		obj, code = s, int(s.Code)
	}
	var body []byte
	if u, ok := obj.(*unstructured.Unstructured); ok {
		body = t.server.json(u)
	} else if body, err = json.Marshal(obj); err != nil {
		return nil, err
	}
	return response(req, code, io.NopCloser(bytes.NewReader(body))), nil
}

func response(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: body, ContentLength: -1, Request: req,
	}
}

// parsePath reads /api/v1/... and /apis/group/version/...
func parsePath(path string) (Call, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var call Call
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		call.GVR.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		call.GVR.Group, call.GVR.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return call, apierrors.NewBadRequest("the path is not served: " + path)
	}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		call.Key.Namespace, parts = parts[1], parts[2:]
	}
	call.GVR.Resource = parts[0]
	if len(parts) > 1 {
		call.Key.Name = parts[1]
	}
	if len(parts) > 2 {
		call.Subresource = parts[2]
	}
	return call, nil
}

func (s *Server) list(caller string, resource *Resource, namespace string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.OnList != nil {
		s.opts.OnList(caller, resource.GVR(), s.revision[resource.GVR()])
	}
	var items []json.RawMessage
	for _, obj := range s.sorted(resource.GVR(), namespace) {
		items = append(items, s.encoded[obj])
	}
	return map[string]any{
		"apiVersion": resource.GVK.GroupVersion().String(), "kind": resource.GVK.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision[resource.GVR()])}, "items": items,
	}
}

// Watch is a running watch. Its events wait until Deliver.
type Watch struct {
	Caller string
	GVR    schema.GroupVersionResource

	server    *Server
	namespace string
	next      int
	reader    *stream
}

func (s *Server) watch(caller string, req *http.Request, gvr schema.GroupVersionResource, namespace string, revision int) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log[gvr]
	w := &Watch{
		Caller: caller, GVR: gvr, server: s, namespace: namespace, reader: newStream(req.Context()),
		next: sort.Search(len(log), func(i int) bool { return log[i].revision > revision }),
	}
	s.watches = append(s.watches, w)
	return response(req, http.StatusOK, w.reader)
}

// Watches returns those that have events to deliver, ordered by caller and
// resource.
func (s *Server) Watches() []*Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pending []*Watch
	open := s.watches[:0]
	for _, w := range s.watches {
		if w.reader.closed() {
			continue
		}
		open = append(open, w)
		if w.skip(); w.next < len(s.log[w.GVR]) {
			pending = append(pending, w)
		}
	}
	s.watches = open
	sort.SliceStable(pending, func(i, j int) bool { return pending[i].String() < pending[j].String() })
	return pending
}

// skip passes over the events of other namespaces.
func (w *Watch) skip() {
	for log := w.server.log[w.GVR]; w.namespace != "" && w.next < len(log) && log[w.next].object.GetNamespace() != w.namespace; {
		w.next++
	}
}

func (w *Watch) String() string {
	return w.Caller + " " + w.GVR.Resource
}

// NextIsStatus returns true if the next event is a change of the status alone.
func (w *Watch) NextIsStatus() bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return w.server.log[w.GVR][w.next].statusOnly
}

// Next says what the next event is about.
func (w *Watch) Next() string {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	next := w.server.log[w.GVR][w.next]
	return fmt.Sprintf("%s %s/%s@%d", next.kind, w.GVR.Resource, next.object.GetName(), next.revision)
}

// Deliver sends the next event.
func (w *Watch) Deliver() error {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	next := w.server.log[w.GVR][w.next]
	data, err := json.Marshal(map[string]any{"type": next.kind, "object": w.server.encoded[next.object]})
	if err != nil {
		return err
	}
	w.next++
	w.reader.send(append(data, '\n'))
	return nil
}

// Disconnect ends all watches, as the loss of the network does.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.Break()
	}
}

// Expire ends the watch, as where its events are not kept any more: the client has to list
// again.
func (w *Watch) Expire() error {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	data, err := json.Marshal(map[string]any{"type": watch.Error, "object": status})
	if err != nil {
		return err
	}
	w.reader.send(append(data, '\n'))
	w.Break()
	return nil
}

// Break ends the watch, as a timeout or a restart of the API server does.
func (w *Watch) Break() {
	w.reader.Close()
}
