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

package main

import (
	"context"
	"errors"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// weather is what becomes of the requests of a manager. The zero value is fair.
type weather struct {
	// lag is how far a watch lags behind at most.
	lag time.Duration
	// delay is how long a request is held back at most, slow how often one is.
	delay time.Duration
	slow  float64
	// dropped is how often a request does not arrive, lost how often its answer does
	// not, refused how often it is answered with an error.
	dropped, lost, refused float64
}

// proxy stands between a manager and the API server. It adds the credentials.
type proxy struct {
	forward *httputil.ReverseProxy
	server  *http.Server
	address string
	tally   *tally

	// elected hears when the manager begins to lead.
	elected chan struct{}

	mu          sync.Mutex
	weather     weather
	connections map[net.Conn]bool
	leads       bool
}

func startProxy(config *rest.Config, tally *tally) (*proxy, error) {
	config = rest.CopyConfig(config)
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{address: "http://" + listener.Addr().String(), tally: tally, elected: make(chan struct{}, 1), connections: map[net.Conn]bool{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = target.Host },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		// What does not arrive at the API server gets no answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(response *http.Response) error {
			if isWatch(response.Request) {
				// Those of different kinds lag differently.
				part := rand.Float64()
				response.Body = lagging(response.Body, func() time.Duration {
					lag := time.Duration(part * float64(p.now().lag))
					if lag > 0 {
						p.tally.add("parts of watches held back")
					}
					return lag
				})
			}
			return nil
		},
	}
	p.server = &http.Server{Handler: p, ConnState: p.connection, ErrorLog: p.forward.ErrorLog}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// stop also ends the requests that are under way.
func (p *proxy) stop() { _ = p.server.Close() }

// kubeconfig returns one that leads to the proxy.
func (p *proxy) kubeconfig() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["faults"] = &clientcmdapi.Cluster{Server: p.address}
	config.Contexts["faults"] = &clientcmdapi.Context{Cluster: "faults"}
	config.CurrentContext = "faults"
	return clientcmd.Write(*config)
}

func (p *proxy) now() weather {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather
}

func (p *proxy) set(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
}

func (p *proxy) connection(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.connections[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.connections, c)
	}
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		_ = c.Close()
	}
}

func isWatch(r *http.Request) bool {
	value := r.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := p.now()
	if now.delay > 0 && rand.Float64() < now.slow {
		p.tally.add("requests delayed")
		select {
		case <-time.After(time.Duration(rand.Int63n(int64(now.delay)))):
		case <-r.Context().Done():
			return
		}
	}
	switch chance := rand.Float64(); {
	case chance < now.dropped:
		p.tally.add("requests dropped")
		panic(http.ErrAbortHandler)
	case chance < now.dropped+now.refused:
		p.tally.add("requests refused")
		codes := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		http.Error(w, "out of order", codes[rand.Intn(len(codes))])
		return
	case chance < now.dropped+now.refused+now.lost && !isWatch(r):
		if isWrite(r) {
			p.tally.add("answers to writes lost")
		}
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	counter := &status{ResponseWriter: w}
	p.forward.ServeHTTP(counter, r)
	isLease := strings.Contains(r.URL.Path, "/leases")
	switch {
	case counter.code == http.StatusConflict && !isLease:
		p.tally.add("conflicts")
	case isLease && isWrite(r) && counter.code < http.StatusMultipleChoices:
		p.lead(true)
	}
}

// lead takes in whether the manager leads: only one that does writes the lease.
func (p *proxy) lead(leads bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !leads:
		select {
		case <-p.elected:
		default:
		}
	case !p.leads:
		p.tally.add("elections")
		p.elected <- struct{}{}
	}
	p.leads = leads
}

// status remembers that of an answer.
type status struct {
	http.ResponseWriter

	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// lagging returns what it reads later, in the same order.
func lagging(body io.ReadCloser, lag func() time.Duration) io.ReadCloser {
	type chunk struct {
		due  time.Time
		data []byte
		err  error
	}
	reader, writer := io.Pipe()
	chunks := make(chan chunk, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := body.Read(buffer)
			select {
			case chunks <- chunk{due: time.Now().Add(lag()), data: append([]byte(nil), buffer[:n]...), err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		for {
			select {
			case next := <-chunks:
				select {
				case <-time.After(time.Until(next.due)):
				case <-ctx.Done():
					return
				}
				_, err := writer.Write(next.data)
				if err := errors.Join(err, next.err); err != nil {
					_ = writer.CloseWithError(next.err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return &lagged{Reader: reader, close: func() error {
		cancel()
		_ = reader.Close()
		return body.Close()
	}}
}

type lagged struct {
	io.Reader

	close func() error
}

func (l *lagged) Close() error { return l.close() }

// switchboard takes what the API server asks the webhooks to one of the replicas.
type switchboard struct {
	listener net.Listener
	replicas []string
}

func startSwitchboard(address string, replicas []string) (*switchboard, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &switchboard{listener: listener, replicas: replicas}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go s.connect(from)
		}
	}()
	return s, nil
}

func (s *switchboard) connect(from net.Conn) {
	defer from.Close()
	for _, i := range rand.Perm(len(s.replicas)) {
		to, err := net.Dial("tcp", s.replicas[i])
		if err != nil {
			continue
		}
		go func() {
			_, _ = io.Copy(to, from)
			to.Close()
		}()
		_, _ = io.Copy(from, to)
		to.Close()
		return
	}
}

func (s *switchboard) stop() { _ = s.listener.Close() }
