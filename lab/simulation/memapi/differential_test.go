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

// The API in memory is held against the real one: the same random writes go to both.
package memapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kueue-acrequeueafter/lab/simulation/memapi"
	"kueue-acrequeueafter/lab/simulation/memapi/faults"
	"kueue-acrequeueafter/lab/simulation/mutants"
)

const namespace = "default"

// side is one of the two APIs.
type side struct {
	name    string
	client  *http.Client
	address string
	// deliver sends the events that wait, where that is the test's to decide.
	deliver func() error

	// What the server makes up is told by the order in which it is seen.
	versions, uids map[string]int
	// latest is the newest version of each resource.
	latest map[string]int
	// known are the versions of each object that were answered, the oldest first.
	known   map[string][]map[string]any
	watches []*watch
}

func (s *side) reset() {
	s.versions, s.uids, s.latest = map[string]int{}, map[string]int{}, map[string]int{}
	s.known, s.watches = map[string][]map[string]any{}, nil
}

// real is the API server, which is started once.
type real struct {
	env    *envtest.Environment
	client *http.Client
	host   string
}

func startReal(kinds []*kind, binDir, logDir string) (*real, error) {
	for _, name := range []string{"KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"} {
		os.Unsetenv(name)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, k := range kinds {
		if k.crd != nil {
			crds = append(crds, k.crd.DeepCopy())
		}
	}
	env := &envtest.Environment{UseExistingCluster: ptr.To(false), BinaryAssetsDirectory: binDir, CRDs: crds,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: time.Minute}}
	log, err := os.Create(filepath.Join(logDir, "kube-apiserver.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	server := env.ControlPlane.GetAPIServer()
	server.Out, server.Err = log, log
	config, err := env.Start()
	if err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	r := &real{env: env, client: client, host: strings.TrimSuffix(config.Host, "/")}
	if err := r.wait(kinds); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return r, nil
}

// wait returns when all kinds are served: a new one is not at once.
func (r *real) wait(kinds []*kind) error {
	deadline := time.Now().Add(time.Minute)
	for _, k := range kinds {
		for {
			response, err := r.client.Get(r.host + k.path("", ""))
			if err == nil {
				response.Body.Close()
				if response.StatusCode == http.StatusOK {
					break
				}
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s is not served: %v", k.Plural, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}

// world has both sides, and what is tried on them.
type world struct {
	kinds map[string]*kind
	sides [2]*side
	trace []string
	// seen counts the answers and events.
	seen map[string]int
}

func newWorld(kinds []*kind, r *real) *world {
	var resources []*memapi.Resource
	w := &world{kinds: map[string]*kind{}, seen: map[string]int{}}
	for _, k := range kinds {
		resources = append(resources, k.Resource)
		w.kinds[k.GVK.Kind] = k
	}
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	server := memapi.NewServer(scheme, resources, memapi.Options{})
	config := server.Config("test", nil)
	w.sides = [2]*side{
		{name: "kube-apiserver", client: r.client, address: r.host, deliver: func() error { return nil }},
		{name: "memapi", client: &http.Client{Transport: config.Transport}, address: config.Host, deliver: func() error {
			for pending := server.Watches(); len(pending) > 0; pending = server.Watches() {
				for _, watch := range pending {
					if err := watch.Deliver(); err != nil {
						return err
					}
				}
			}
			return nil
		}},
	}
	for _, s := range w.sides {
		s.reset()
	}
	return w
}

// request is what goes to both sides; the body may be another one for each.
type request struct {
	method, path, contentType string
	query                     url.Values
	body                      func(*side) any
}

// answer is what comes back.
type answer struct {
	Code int
	Body map[string]any
}

func (s *side) do(r request) (answer, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body(s))
		if err != nil {
			return answer{}, err
		}
		body = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, s.address+r.path+"?"+r.query.Encode(), body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "test/v1")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	response, err := s.client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", s.name, err)
	}
	defer response.Body.Close()
	a := answer{Code: response.StatusCode}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	if json.Unmarshal(data, &a.Body) != nil {
		a.Body = map[string]any{"text": string(data)}
	}
	return a, nil
}

// watch is one that runs.
type watch struct {
	path   string
	cancel context.CancelFunc
	events chan map[string]any
	code   int
}

func (s *side) watch(path, version string) (*watch, error) {
	ctx, cancel := context.WithCancel(context.Background())
	query := url.Values{"watch": {"true"}, "resourceVersion": {version}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+path+"?"+query.Encode(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	response, err := s.client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watch{path: path, cancel: cancel, events: make(chan map[string]any, 1000), code: response.StatusCode}
	go func() {
		defer close(w.events)
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			event := map[string]any{}
			if err := json.Unmarshal(line, &event); err != nil {
				event["text"] = string(line)
			}
			w.events <- event
		}
	}()
	return w, nil
}

// path of the kind's objects, or of one.
func (k *kind) path(name, subresource string) string {
	path := "/apis/" + k.GVK.Group + "/" + k.GVK.Version
	if k.GVK.Group == "" {
		path = "/api/" + k.GVK.Version
	}
	if k.Namespaced {
		path += "/namespaces/" + namespace
	}
	path += "/" + k.Plural
	if name != "" {
		path += "/" + name
	}
	if subresource != "" {
		path += "/" + subresource
	}
	return path
}

// object is a minimal one.
func (k *kind) object(name string) map[string]any {
	obj := runtime.DeepCopyJSON(k.minimal)
	metadata := map[string]any{"name": name}
	if k.Namespaced {
		metadata["namespace"] = namespace
	}
	obj["apiVersion"], obj["kind"], obj["metadata"] = k.GVK.GroupVersion().String(), k.GVK.Kind, metadata
	return obj
}

func set(obj map[string]any, c change) {
	for _, name := range c.Path[:len(c.Path)-1] {
		next, ok := obj[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			obj[name] = next
		}
		obj = next
	}
	last := c.Path[len(c.Path)-1]
	if c.Remove {
		delete(obj, last)
	} else {
		obj[last] = runtime.DeepCopyJSONValue(c.Value)
	}
}

func metadataOf(obj map[string]any) map[string]any {
	metadata, _ := obj["metadata"].(map[string]any)
	return metadata
}

func (s *side) version(key string, back int) map[string]any {
	known := s.known[key]
	if len(known) == 0 {
		return nil
	}
	return known[max(0, len(known)-1-back)]
}

// versionFor is the resource version that a step names, if it does.
func (s *side) versionFor(key string, mode versionMode) any {
	switch mode {
	case versionCurrent:
		return metadataOf(s.version(key, 0))["resourceVersion"]
	case versionOld:
		return metadataOf(s.version(key, 1))["resourceVersion"]
	}
	return nil
}

// request makes the request of a step.
func (w *world) request(st step) request {
	k := w.kinds[st.Kind]
	key := st.Kind + "/" + st.Name
	r := request{method: http.MethodPatch, path: k.path(st.Name, st.Subresource), query: url.Values{}}
	if st.Manager != "" {
		r.query.Set("fieldManager", st.Manager)
	}
	withVersion := func(s *side, obj map[string]any) map[string]any {
		if version := s.versionFor(key, st.Version); version != nil {
			set(obj, change{Path: []string{"metadata", "resourceVersion"}, Value: version})
		}
		return obj
	}
	switch st.Op {
	case opCreate:
		r.method, r.path = http.MethodPost, k.path("", "")
		r.body = func(s *side) any {
			obj := k.object(st.Name)
			for _, c := range st.Changes {
				set(obj, c)
			}
			if st.Version == versionOld {
				return withVersion(s, obj)
			}
			return obj
		}
	case opApply:
		r.contentType = "application/apply-patch+yaml"
		if st.Force {
			r.query.Set("force", "true")
		}
		r.body = func(s *side) any {
			obj := k.object(st.Name)
			if !st.Whole {
				maps.DeleteFunc(obj, func(name string, _ any) bool { return k.minimal[name] != nil })
			}
			for _, c := range st.Changes {
				if !c.Remove {
					set(obj, c)
				}
			}
			return withVersion(s, obj)
		}
	case opMerge, opStrategic:
		r.contentType = "application/merge-patch+json"
		if st.Op == opStrategic {
			r.contentType = "application/strategic-merge-patch+json"
		}
		r.body = func(s *side) any {
			patch := map[string]any{}
			for _, c := range st.Changes {
				c.Remove = false
				set(patch, c)
			}
			return withVersion(s, patch)
		}
	case opJSON:
		r.contentType = "application/json-patch+json"
		r.body = func(s *side) any {
			patch := []any{}
			if version := s.versionFor(key, st.Version); version != nil {
				patch = append(patch, map[string]any{"op": oneOfTwo(st.Force, "test", "replace"), "path": "/metadata/resourceVersion", "value": version})
			}
			for i, c := range st.Changes {
				patch = append(patch, jsonOperation(st.JSON[i], c))
			}
			return patch
		}
	case opFinalize, opUnfinalize:
		finalizers := []string{"example.com/a"}
		if st.Op == opUnfinalize {
			finalizers = nil
		}
		r.contentType = "application/merge-patch+json"
		r.body = func(*side) any { return map[string]any{"metadata": map[string]any{"finalizers": finalizers}} }
	case opUpdate:
		r.method = http.MethodPut
		r.body = func(s *side) any {
			obj := k.object(st.Name)
			if known := s.version(key, st.Back); known != nil {
				obj = runtime.DeepCopyJSON(known)
			}
			for _, c := range st.Changes {
				set(obj, c)
			}
			switch {
			case st.Version == versionNone:
				set(obj, change{Path: []string{"metadata", "resourceVersion"}, Remove: true})
			case st.Back > 0 && st.Version == versionOld: // as it was
			default:
				return withVersion(s, obj)
			}
			return obj
		}
	case opDelete:
		r.method = http.MethodDelete
		r.body = func(s *side) any {
			preconditions := map[string]any{}
			if version := s.versionFor(key, st.Version); version != nil {
				preconditions["resourceVersion"] = version
			}
			switch st.Version {
			case uidCurrent:
				preconditions["uid"] = metadataOf(s.version(key, 0))["uid"]
			case uidWrong:
				preconditions["uid"] = "33333333-0000-4000-8000-000000000000"
			}
			return map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": preconditions}
		}
	case opGet:
		r.method = http.MethodGet
	case opList:
		r.method, r.path = http.MethodGet, k.path("", "")
	}
	return r
}

func oneOfTwo(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func jsonOperation(kind string, c change) map[string]any {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	path := ""
	for _, name := range c.Path {
		path += "/" + escape.Replace(name)
	}
	operation := map[string]any{"op": kind, "path": path, "value": c.Value}
	value := c.Value
	if list, ok := c.Value.([]any); ok && len(list) > 0 {
		value = list[0]
	}
	switch kind {
	case "add to list":
		operation = map[string]any{"op": "add", "path": path + "/-", "value": value}
	case "replace in list":
		operation = map[string]any{"op": "replace", "path": path + "/0", "value": value}
	case "remove from list":
		operation = map[string]any{"op": "remove", "path": path + "/0"}
	case "remove":
		delete(operation, "value")
	case "copy", "move":
		operation = map[string]any{"op": kind, "from": path, "path": "/metadata/annotations"}
	}
	return operation
}

// difference is a step after which the two sides are not alike.
type difference struct {
	step   step
	detail string
	trace  []string
}

func (d *difference) Error() string {
	return fmt.Sprintf("after %s, %s\nthe requests:\n  %s", d.step, d.detail, strings.Join(d.trace, "\n  "))
}

// run makes the requests of the steps, and compares.
func (w *world) run(steps []step) error {
	defer func() {
		for _, s := range w.sides {
			for _, watch := range s.watches {
				watch.cancel()
			}
		}
		w.cleanUp(steps)
	}()
	for _, st := range steps {
		if st.Op == opWatch {
			if err := w.watch(st); err != nil {
				return err
			}
			continue
		}
		if err := w.try(st, w.request(st)); errors.Is(err, errOwners) {
			return nil
		} else if err != nil {
			return err
		}
		// What was answered, or refused, is what there is.
		if st.Op != opGet && st.Op != opList {
			if err := w.try(step{Op: opGet, Kind: st.Kind, Name: st.Name}, w.request(step{Op: opGet, Kind: st.Kind, Name: st.Name})); err != nil {
				return err
			}
		}
	}
	return w.compareEvents()
}

func (w *world) try(st step, r request) error {
	var answers [2]answer
	var told [2]any
	for i, s := range w.sides {
		var err error
		if answers[i], err = s.do(r); err != nil {
			return fmt.Errorf("%s with %s: %w", st, encoded(r.body(s)), err)
		}
		told[i] = s.normalAnswer(w.kinds[st.Kind], answers[i])
		// What is plain is not validated: that is not asked of memapi.
		if i == 0 && w.kinds[st.Kind].Plain && validated(answers[i]) {
			w.seen["refused, and not asked of memapi"]++
			return nil
		}
		if i == 0 && w.kinds[st.Kind].Plain && s.ownersAlone(st, answers[i]) {
			w.seen["only the owners changed"]++
			return errOwners
		}
	}
	line := fmt.Sprintf("%s: %d", st, answers[0].Code)
	if r.body != nil {
		body, _ := json.Marshal(r.body(w.sides[0]))
		line += " " + string(body)
	}
	if message, ok := answers[0].Body["message"]; ok {
		line += fmt.Sprintf("\n    %v", message)
	}
	w.trace = append(w.trace, line)
	w.seen[fmt.Sprintf("%s %d", st.Op, answers[0].Code)]++
	for i, s := range w.sides {
		s.remember(w.kinds[st.Kind], answers[i])
	}
	if st.Op == opList {
		for i, s := range w.sides {
			told[i].(map[string]any)["version covers all that was seen"] = s.covers(w.kinds[st.Kind], answers[i])
		}
	}
	if diff := cmp.Diff(told[0], told[1]); diff != "" {
		messages := ""
		for i, s := range w.sides {
			if answers[i].Code >= 300 {
				messages += fmt.Sprintf("\n%s says %v", s.name, answers[i].Body["message"])
			}
		}
		return &difference{step: st, detail: "- is kube-apiserver's and + memapi's:\n" + diff + messages, trace: w.trace}
	}
	return nil
}

// errOwners ends a schedule: what is plain has no owners that could be a new version.
var errOwners = errors.New("only the owners of fields have changed")

// ownersAlone returns true if the answer is a new version of the object that has other
// field managers, and nothing else.
func (s *side) ownersAlone(st step, a answer) bool {
	before := s.version(st.Kind+"/"+st.Name, 0)
	content := func(obj map[string]any) map[string]any {
		obj = runtime.DeepCopyJSON(obj)
		set(obj, change{Path: []string{"metadata", "resourceVersion"}, Remove: true})
		set(obj, change{Path: []string{"metadata", "managedFields"}, Remove: true})
		return obj
	}
	return before != nil && a.Code < 300 && metadataOf(before)["resourceVersion"] != metadataOf(a.Body)["resourceVersion"] &&
		cmp.Equal(content(before), content(a.Body))
}

// validated returns true if an object was refused for what is in it.
func validated(a answer) bool {
	details, _ := a.Body["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	return a.Body["reason"] == string(metav1.StatusReasonInvalid) && slices.ContainsFunc(causes, func(cause any) bool {
		return cause.(map[string]any)["field"] != "metadata.resourceVersion"
	})
}

func (s *side) covers(k *kind, a answer) bool {
	version, err := strconv.Atoi(fmt.Sprint(metadataOf(a.Body)["resourceVersion"]))
	return err == nil && version >= s.latest[k.Plural]
}

// remember keeps the object of an answer.
func (s *side) remember(k *kind, a answer) {
	if a.Code >= 300 || a.Body["kind"] != k.GVK.Kind {
		return
	}
	metadata := metadataOf(a.Body)
	key := k.GVK.Kind + "/" + fmt.Sprint(metadata["name"])
	if version, err := strconv.Atoi(fmt.Sprint(metadata["resourceVersion"])); err == nil {
		s.latest[k.Plural] = max(s.latest[k.Plural], version)
	}
	if last := s.version(key, 0); last == nil || metadataOf(last)["resourceVersion"] != metadata["resourceVersion"] {
		s.known[key] = append(s.known[key], a.Body)
	}
}

// order names what a server makes up by the order in which it was seen.
func order(seen map[string]int, value any) any {
	text, ok := value.(string)
	if !ok || text == "" {
		return value
	}
	if _, found := seen[text]; !found {
		seen[text] = len(seen)
	}
	return fmt.Sprintf("#%d", seen[text])
}

// normal is an object without what the server makes up.
func (s *side) normal(k *kind, obj map[string]any) map[string]any {
	obj = runtime.DeepCopyJSON(obj)
	metadata := metadataOf(obj)
	if metadata == nil {
		return obj
	}
	if version, ok := metadata["resourceVersion"].(string); ok && version != "" {
		// Those of different resources are not compared by anybody.
		metadata["resourceVersion"] = order(s.versions, k.Plural+" "+version)
	}
	metadata["uid"] = order(s.uids, metadata["uid"])
	for _, name := range []string{"creationTimestamp", "deletionTimestamp"} {
		if text, ok := metadata[name].(string); ok {
			if when, err := time.Parse(time.RFC3339, text); err == nil && time.Since(when).Abs() < 24*time.Hour {
				metadata[name] = "now"
			}
		}
	}
	if k.Plain {
		delete(metadata, "managedFields")
	}
	if k.crd == nil {
		// In a list it may say what it is, or not.
		obj["apiVersion"], obj["kind"] = k.GVK.GroupVersion().String(), k.GVK.Kind
	}
	if entries, ok := metadata["managedFields"].([]any); ok {
		var sorted []any
		for _, entry := range entries {
			entry, ok := entry.(map[string]any)
			if !ok {
				continue
			}
			entry["time"] = entry["time"] != nil
			sorted = append(sorted, entry)
		}
		// The servers sort them by time.
		sort.SliceStable(sorted, func(i, j int) bool { return encoded(sorted[i]) < encoded(sorted[j]) })
		metadata["managedFields"] = sorted
	}
	return obj
}

func encoded(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

func (s *side) normalAnswer(k *kind, a answer) any {
	told := map[string]any{"code": a.Code}
	switch {
	case a.Body["kind"] == "Status":
		for _, name := range []string{"status", "reason"} {
			told[name] = a.Body[name]
		}
		details, _ := a.Body["details"].(map[string]any)
		told["name"], told["kind"], told["uid"] = details["name"], details["kind"], order(s.uids, details["uid"])
		causes, _ := details["causes"].([]any)
		var fields []string
		for _, cause := range causes {
			cause, _ := cause.(map[string]any)
			fields = append(fields, fmt.Sprintf("%v at %v", cause["reason"], cause["field"]))
		}
		slices.Sort(fields)
		told["causes"] = slices.Compact(fields)
	case strings.HasSuffix(fmt.Sprint(a.Body["kind"]), "List"):
		told["kind"], told["apiVersion"] = a.Body["kind"], a.Body["apiVersion"]
		items, _ := a.Body["items"].([]any)
		objects := []any{}
		for _, item := range items {
			objects = append(objects, s.normal(k, item.(map[string]any)))
		}
		told["items"] = objects
	default:
		told["object"] = s.normal(k, a.Body)
	}
	return told
}

// watch starts a watch on both sides from a version that they told.
func (w *world) watch(st step) error {
	k := w.kinds[st.Kind]
	for _, s := range w.sides {
		version, _ := metadataOf(s.version(st.Kind+"/"+st.Name, st.Back))["resourceVersion"].(string)
		if version == "" || st.Back == 0 {
			list, err := s.do(request{method: http.MethodGet, path: k.path("", "")})
			if err != nil {
				return err
			}
			version = fmt.Sprint(metadataOf(list.Body)["resourceVersion"])
		}
		watch, err := s.watch(k.path("", ""), version)
		if err != nil {
			return err
		}
		if watch.code != http.StatusOK {
			return fmt.Errorf("%s: a watch from %s: %d", s.name, version, watch.code)
		}
		s.watches = append(s.watches, watch)
	}
	w.trace = append(w.trace, fmt.Sprintf("watch %s, %d versions back", st.Kind, st.Back))
	return nil
}

const last = "zz-last"

// compareEvents reads the events up to one that is written last.
func (w *world) compareEvents() error {
	paths := map[string]*kind{}
	for _, watch := range w.sides[0].watches {
		for _, k := range w.kinds {
			if k.path("", "") == watch.path {
				paths[watch.path] = k
			}
		}
	}
	for path, k := range paths {
		for _, s := range w.sides {
			a, err := s.do(request{method: http.MethodPost, path: path, body: func(*side) any { return k.object(last) }})
			if err != nil {
				return err
			}
			if a.Code != http.StatusCreated {
				return fmt.Errorf("%s: the last object is refused: %v", s.name, a.Body["message"])
			}
			if err := s.deliver(); err != nil {
				return err
			}
		}
	}
	for i := range w.sides[0].watches {
		path := w.sides[0].watches[i].path
		var told [2][]any
		for j, s := range w.sides {
			events, err := s.watches[i].read()
			if err != nil {
				return &difference{step: step{Op: opWatch, Kind: paths[path].GVK.Kind}, detail: fmt.Sprintf("%s: %v", s.name, err), trace: w.trace}
			}
			before := 0
			for _, event := range events {
				object, _ := event["object"].(map[string]any)
				version, _ := strconv.Atoi(fmt.Sprint(metadataOf(object)["resourceVersion"]))
				if j == 0 {
					w.seen[fmt.Sprintf("event %s", event["type"])]++
				}
				told[j] = append(told[j], map[string]any{"type": event["type"], "object": s.normal(paths[path], object), "newer": version > before})
				before = version
			}
		}
		if diff := cmp.Diff(told[0], told[1]); diff != "" {
			return &difference{step: step{Op: opWatch, Kind: paths[path].GVK.Kind}, detail: "- is kube-apiserver's and + memapi's:\n" + diff, trace: w.trace}
		}
	}
	return nil
}

func (w *watch) read() ([]map[string]any, error) {
	timeout := time.After(10 * time.Second)
	var events []map[string]any
	for {
		select {
		case event, open := <-w.events:
			if !open {
				return nil, fmt.Errorf("the watch has ended after %d events", len(events))
			}
			events = append(events, event)
			object, _ := event["object"].(map[string]any)
			if metadataOf(object)["name"] == last {
				return events, nil
			}
		case <-timeout:
			return nil, fmt.Errorf("no event of the last object after %d others", len(events))
		}
	}
}

// cleanUp removes what the steps have left in the real API.
func (w *world) cleanUp(steps []step) {
	kinds := map[string]bool{}
	for _, st := range steps {
		kinds[st.Kind] = true
	}
	s := w.sides[0]
	for name := range kinds {
		k := w.kinds[name]
		list, err := s.do(request{method: http.MethodGet, path: k.path("", "")})
		if err != nil {
			continue
		}
		items, _ := list.Body["items"].([]any)
		for _, item := range items {
			path := k.path(fmt.Sprint(metadataOf(item.(map[string]any))["name"]), "")
			_, _ = s.do(request{method: http.MethodPatch, path: path, contentType: "application/merge-patch+json", body: func(*side) any {
				return map[string]any{"metadata": map[string]any{"finalizers": nil}}
			}})
			_, _ = s.do(request{method: http.MethodDelete, path: path, query: url.Values{"propagationPolicy": {"Background"}}})
		}
	}
}

// TestAgainstReal compares as many schedules as -rapid.checks says.
func TestAgainstReal(t *testing.T) {
	kinds, r := setUp(t)
	seen := map[string]int{}
	drawn := schedules(kinds)
	if survey, _ := strconv.Atoi(os.Getenv("MEMAPI_SURVEY")); survey > 0 {
		surveyed(t, kinds, r, drawn, survey)
		return
	}
	started, n, requests := time.Now(), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		drawn := drawn.Draw(rt, "schedule")
		w := newWorld(kinds.of(drawn), r)
		err := w.run(drawn.Steps)
		n, requests = n+1, requests+len(w.trace)
		count(seen, w.seen)
		if err != nil {
			rt.Fatal(err)
		}
	})
	for _, k := range known {
		t.Logf("not compared: %s: %s", k.Name, k.Reason)
	}
	t.Logf("%d schedules with %d requests in %v; answers and events: %v", n, requests, time.Since(started).Round(time.Second), seen)
}

func count(total, more map[string]int) {
	for name, n := range more {
		total[name] += n
	}
}

// surveyed shows all that differs, not only the first.
func surveyed(t *testing.T, kinds kinds, r *real, drawn *rapid.Generator[schedule], n int) {
	times, seen, example := map[string]int{}, map[string]int{}, map[string]string{}
	for seed := range n {
		drawn := drawn.Example(seed)
		w := newWorld(kinds.of(drawn), r)
		err := w.run(drawn.Steps)
		count(seen, w.seen)
		if err == nil {
			continue
		}
		name := err.Error()
		if d := (*difference)(nil); errors.As(err, &d) {
			var lines []string
			for line := range strings.Lines(d.detail) {
				if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
					lines = append(lines, strings.TrimSpace(line))
				}
			}
			name = string(d.step.Op) + " " + d.step.Subresource + strings.Join(lines[:min(len(lines), 6)], "\n")
		}
		times[name]++
		if old, found := example[name]; !found || len(err.Error()) < len(old) {
			example[name] = err.Error()
		}
	}
	for name, n := range times {
		t.Logf("%d TIMES: %s", n, example[name])
	}
	t.Logf("%d kinds of differences in %d schedules; answers and events: %v", len(times), n, seen)
}

// TestFaults shows that each fault is found, in as many schedules as MEMAPI_FAULTS
// says, and that without a fault the same schedules find nothing.
func TestFaults(t *testing.T) {
	limit, err := strconv.Atoi(os.Getenv("MEMAPI_FAULTS"))
	if err != nil {
		t.Skip("needs the faults to be built in: make test-memapi")
	}
	_, r := setUp(t)
	needed := 0
	find := func(t *testing.T, n int) (int, error) {
		kinds, err := loadAll(crdFolders()...)
		if err != nil {
			t.Fatal(err)
		}
		drawn := schedules(kinds)
		for seed := range n {
			drawn := drawn.Example(seed)
			err := newWorld(kinds.of(drawn), r).run(drawn.Steps)
			if d := (*difference)(nil); errors.As(err, &d) {
				return seed + 1, d
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return 0, nil
	}
	for _, f := range faults.All {
		t.Run(f.Name, func(t *testing.T) {
			t.Setenv(mutants.Variable, f.Name)
			n, found := find(t, limit)
			if found == nil {
				t.Fatalf("not found in %d schedules", limit)
			}
			needed = max(needed, n)
			text, _, _ := strings.Cut(found.Error(), "the requests:")
			t.Logf("found in schedule %d: %s", n, text)
		})
	}
	t.Run("no fault", func(t *testing.T) {
		if n, found := find(t, needed); found != nil {
			t.Fatalf("schedule %d: %v", n, found)
		}
	})
}

func crdFolders() []string {
	return []string{filepath.Join(os.Getenv("MEMAPI_TREE_DIR"), "config/components/crd/bases")}
}

func setUp(t *testing.T) (kinds, *real) {
	binDir, tree := os.Getenv("MEMAPI_BIN_DIR"), os.Getenv("MEMAPI_TREE_DIR")
	if binDir == "" || tree == "" {
		t.Skip("needs a control plane: make test-memapi")
	}
	kinds, err := loadAll(crdFolders()...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := startReal(kinds.whole, binDir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return kinds, r
}
