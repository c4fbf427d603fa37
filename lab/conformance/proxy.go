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

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/yaml"
)

// proxy stands between the controller under test and the API server. It
// records what the controller writes to the Workloads of a namespace, and can
// hold a write back or refuse it.
type proxy struct {
	namespace string
	recorder  *recorder
	reader    client.Reader
	transport http.RoundTripper
	forward   *httputil.ReverseProxy
	target    *url.URL
	server    *http.Server
	address   string
	log       *log.Logger
	// refusedCheck is the last request to an AdmissionCheck that the API server refused.
	refusedCheck atomic.Pointer[string]

	mu    sync.Mutex
	traps map[string]*trap
}

// trap catches the next status write to the Workload of a Job.
type trap struct {
	// refuse makes the proxy answer itself, with a conflict.
	refuse bool
	caught chan struct{}
	letGo  chan struct{}
	done   chan struct{}
	once   sync.Once
}

func startProxy(cfg *rest.Config, namespace string, recorder *recorder, reader client.Reader, requests io.Writer) (*proxy, error) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	target, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{
		namespace: namespace,
		recorder:  recorder,
		reader:    reader,
		transport: transport,
		target:    target,
		address:   "http://" + listener.Addr().String(),
		log:       log.New(requests, "", log.Ltime|log.Lmicroseconds),
		traps:     map[string]*trap{},
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = target.Host },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(requests, "proxy: ", log.Ltime|log.Lmicroseconds),
		ModifyResponse: func(response *http.Response) error {
			seen := fmt.Sprintf("%d %s %s", response.StatusCode, response.Request.Method, response.Request.URL.RequestURI())
			p.log.Print(seen)
			if checkPath.MatchString(response.Request.URL.Path) && response.StatusCode >= 400 && response.StatusCode != http.StatusConflict {
				p.refusedCheck.Store(&seen)
			}
			return nil
		},
	}
	p.server = &http.Server{Handler: p}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// stop also ends the requests that are under way.
func (p *proxy) stop() { _ = p.server.Close() }

// kubeconfig returns one that leads to the proxy, which adds the credentials.
func (p *proxy) kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["conformance"] = &clientcmdapi.Cluster{Server: p.address}
	config.Contexts["conformance"] = &clientcmdapi.Context{Cluster: "conformance", Namespace: p.namespace}
	config.CurrentContext = "conformance"
	return clientcmd.Write(*config)
}

// set arranges for the next status write to the Workload of the Job to be
// caught: held back, or refused.
func (p *proxy) set(job string, refuse bool) *trap {
	t := &trap{refuse: refuse, caught: make(chan struct{}), letGo: make(chan struct{}), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps[job] = t
	return t
}

// release lets the write that was caught go, or removes the trap.
func (p *proxy) release(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for job, other := range p.traps {
		if other == t {
			delete(p.traps, job)
		}
	}
	t.once.Do(func() { close(t.letGo) })
}

func (p *proxy) catch(workload string) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	for job, t := range p.traps {
		if strings.HasPrefix(workload, workloadPrefix(job)) {
			delete(p.traps, job)
			return t
		}
	}
	return nil
}

// workloadPrefix returns what the name of the Job's Workload starts with.
func workloadPrefix(job string) string { return "job-" + job + "-" }

var (
	checkPath    = regexp.MustCompile(`^/apis/kueue\.x-k8s\.io/[^/]+/admissionchecks/[^/]+(/status)?$`)
	workloadPath = regexp.MustCompile(`^/apis/kueue\.x-k8s\.io/[^/]+/namespaces/([^/]+)/workloads/([^/]+)(/status)?$`)
)

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := workloadPath.FindStringSubmatch(r.URL.Path)
	if match == nil || match[1] != p.namespace || (r.Method != http.MethodPatch && r.Method != http.MethodPut) {
		p.forward.ServeHTTP(w, r)
		return
	}
	write := Write{At: time.Now(), Workload: match[2], How: howOf(r), Manager: r.URL.Query().Get("fieldManager")}
	var err error
	if write.Body, err = io.ReadAll(r.Body); err != nil {
		return // the controller is gone
	}
	write.Seen = p.resourceVersion(r.Context(), write.Workload)
	if match[3] != "" {
		if t := p.catch(write.Workload); t != nil {
			defer close(t.done)
			close(t.caught)
			if t.refuse {
				p.refuse(w, r, write)
				return
			}
			select {
			case <-t.letGo:
			case <-r.Context().Done():
				return
			}
			write.Held = true
		}
	}
	if err := p.pass(w, r, &write); err != nil {
		p.log.Printf("%s %s: %v", r.Method, r.URL.RequestURI(), err)
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (p *proxy) resourceVersion(ctx context.Context, workload string) string {
	wl := &kueue.Workload{}
	if err := p.reader.Get(ctx, types.NamespacedName{Namespace: p.namespace, Name: workload}, wl); err != nil {
		return ""
	}
	return wl.ResourceVersion
}

// pass forwards the write, and records it with its answer. A write without a
// resource version gets one, and is repeated when it is too old: that is what the
// API server does itself, and so it is known what the write took effect on.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request, write *Write) error {
	var response *http.Response
	var answer []byte
	for {
		body, conditional := write.Body, true
		if write.Sent = versionOf(write.How, body); write.Sent == "" {
			write.Sent = p.resourceVersion(r.Context(), write.Workload)
			body = withVersion(write.How, body, write.Sent)
			conditional, write.Unconditional = false, true
		}
		var err error
		if response, answer, err = p.send(r, body); err != nil {
			return err
		}
		if conditional || response.StatusCode != http.StatusConflict || write.Sent == p.resourceVersion(r.Context(), write.Workload) {
			break
		}
	}
	write.Code = response.StatusCode
	if response.StatusCode < 300 {
		write.After = &kueue.Workload{}
		if err := json.Unmarshal(answer, write.After); err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
	} else {
		write.Message = reasonOf(answer)
	}
	p.note(r, *write)
	for _, name := range []string{"Content-Type", "Warning", "Retry-After", "Audit-Id"} {
		for _, value := range response.Header.Values(name) {
			w.Header().Add(name, value)
		}
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
	return nil
}

func (p *proxy) send(r *http.Request, body []byte) (*http.Response, []byte, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.target.Scheme, p.target.Host, p.target.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// What the transport asks for by itself, it also unpacks.
	out.Header.Del("Accept-Encoding")
	out.Header.Del("Connection")
	response, err := p.transport.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response, answer, err
}

// refuse answers as the API server does when somebody was faster.
func (p *proxy) refuse(w http.ResponseWriter, r *http.Request, write Write) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     http.StatusConflict,
		Reason:   metav1.StatusReasonConflict,
		Message:  fmt.Sprintf("Operation cannot be fulfilled on workloads.kueue.x-k8s.io %q: the object has been modified; please apply your changes to the latest version and try again", write.Workload),
	}
	write.Staged, write.Code, write.Message = true, int(status.Code), status.Message
	p.note(r, write)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(write.Code)
	_ = json.NewEncoder(w).Encode(status)
}

func (p *proxy) note(r *http.Request, write Write) {
	write.Answered = time.Now()
	p.log.Printf("%d %s %s (%s, held=%t, staged=%t)\n    %s", write.Code, r.Method, r.URL.RequestURI(), write.How, write.Held, write.Staged, bytes.TrimSpace(write.Body))
	p.recorder.add(func(record *Record) { record.Writes = append(record.Writes, write) })
}

// wait waits until a write is caught.
func (t *trap) wait(ctx context.Context, limit time.Duration) bool {
	select {
	case <-t.caught:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

// versionOf returns the resource version that the write depends on.
func versionOf(how string, body []byte) string {
	if how == jsonPatch {
		var operations []struct {
			Path  string
			Value any
		}
		_ = yaml.Unmarshal(body, &operations)
		for _, operation := range operations {
			if version, ok := operation.Value.(string); ok && operation.Path == "/metadata/resourceVersion" {
				return version
			}
		}
		return ""
	}
	var object metav1.PartialObjectMetadata
	_ = yaml.Unmarshal(body, &object)
	return object.ResourceVersion
}

// withVersion makes the patch depend on the resource version, if it can.
func withVersion(how string, body []byte, version string) []byte {
	var patched any
	switch how {
	case jsonPatch:
		var operations []any
		if yaml.Unmarshal(body, &operations) != nil {
			return body
		}
		patched = append(operations, map[string]any{"op": "replace", "path": "/metadata/resourceVersion", "value": version})
	case apply, mergePatch:
		object := map[string]any{}
		if yaml.Unmarshal(body, &object) != nil {
			return body
		}
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			object["metadata"] = metadata
		}
		metadata["resourceVersion"] = version
		patched = object
	default:
		return body
	}
	data, err := json.Marshal(patched)
	if err != nil || version == "" {
		return body
	}
	return data
}

// The ways of writing.
const (
	apply      = "apply"
	mergePatch = "merge patch"
	jsonPatch  = "JSON patch"
	update     = "update"
)

func howOf(r *http.Request) string {
	if r.Method == http.MethodPut {
		return update
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch types.PatchType(kind) {
	case types.ApplyYAMLPatchType:
		return apply
	case types.MergePatchType:
		return mergePatch
	case types.JSONPatchType:
		return jsonPatch
	default:
		return kind
	}
}

func reasonOf(body []byte) string {
	status := metav1.Status{}
	if err := json.Unmarshal(body, &status); err != nil || status.Message == "" {
		return string(body)
	}
	return status.Message
}
