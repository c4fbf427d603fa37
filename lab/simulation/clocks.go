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

package simulation

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// There is one clock in a bubble. A manager whose own is some seconds ahead of the API
// server's cannot be told from one with the right time that is given every time in the
// API so much earlier, and all whose times arrive so much later.

// ahead returns how far the clock of a process is ahead of the API server's.
func (w *World) ahead(process string) time.Duration {
	n, err := strconv.Atoi(strings.TrimPrefix(process, "kueue-"))
	if err != nil {
		return 0
	}
	return time.Duration(w.config.Clocks[(n-1)%len(w.config.Clocks)]) * time.Second
}

// clock returns the time that a process has.
func (w *World) clock(process string) time.Time {
	return time.Now().Add(w.ahead(process))
}

// apart returns how far apart two clocks can be.
func (w *World) apart() time.Duration {
	all := append(w.config.Clocks[:], 0)
	return time.Duration(slices.Max(all)-slices.Min(all)) * time.Second
}

// withClock has a client read and write the times of the process's clock.
func (w *World) withClock(process string, config *rest.Config) *rest.Config {
	if ahead := w.ahead(process); ahead != 0 {
		config.Transport = &clockTransport{config.Transport, ahead}
	}
	return config
}

type clockTransport struct {
	http.RoundTripper
	ahead time.Duration
}

func (t *clockTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(shift(body, t.ahead)))
	}
	res, err := t.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Body = &clockReader{body: res.Body, lines: bufio.NewReader(res.Body), ahead: t.ahead}
	}
	return res, err
}

// clockReader reads line by line: each event of a watch is one.
type clockReader struct {
	body  io.Closer
	lines *bufio.Reader
	rest  []byte
	ahead time.Duration
}

func (r *clockReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		line, err := r.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		r.rest = shift(line, -r.ahead)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *clockReader) Close() error {
	return r.body.Close()
}

var secondsOfTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)

// shift changes every time in a text, in fields and in messages. The first and the last
// that there are stand for no time that a clock has shown.
func shift(text []byte, by time.Duration) []byte {
	const layout = "2006-01-02T15:04:05"
	return secondsOfTime.ReplaceAllFunc(text, func(old []byte) []byte {
		t, err := time.Parse(layout, string(old))
		if err != nil || t.Year() < 1900 || t.Year() > 9000 {
			return old
		}
		return t.Add(by).AppendFormat(nil, layout)
	})
}

// clocks counts the waits that end by another clock than they began.
func (j *judge) clocks(process string, wl *kueue.Workload, dated, requeued bool) {
	if requeued && j.world.ahead(j.dates[wl.Name]) != j.world.ahead(process) {
		j.seenEvents["requeues by another clock"]++
	}
	if dated {
		j.dates[wl.Name] = process
	}
}
