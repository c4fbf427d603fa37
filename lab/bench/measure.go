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
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/procfs"

	"kueue-acrequeueafter/lab/bench/result"
	"kueue-acrequeueafter/lab/controlplane"
)

// meter measures the manager and the servers between begin and end.
type meter struct {
	plane *controlplane.ControlPlane
	audit string // the API server's audit log

	began      time.Time
	offset     int64
	manager    float64
	servers    float64
	reconciles map[string]int
}

func newMeter(plane *controlplane.ControlPlane, out string) *meter {
	return &meter{plane: plane, audit: filepath.Join(out, "audit.log")}
}

func (m *meter) begin(ctx context.Context) (err error) {
	if m.reconciles, err = m.readReconciles(ctx); err != nil {
		return err
	}
	if m.manager, m.servers, err = m.cpu(); err != nil {
		return err
	}
	// 5 sets the peak of the resident memory to what it is now.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.plane.Manager.PID()), []byte("5"), 0); err != nil {
		return err
	}
	info, err := os.Stat(m.audit)
	if err != nil {
		return err
	}
	m.offset, m.began = info.Size(), time.Now()
	return nil
}

func (m *meter) end(ctx context.Context, r *result.Result) error {
	r.Seconds = seconds(time.Since(m.began))
	manager, servers, err := m.cpu()
	if err != nil {
		return err
	}
	r.CPUSeconds, r.ServerCPUSeconds = round(manager-m.manager), round(servers-m.servers)
	if r.PeakMemory, err = m.peak(); err != nil {
		return err
	}
	calls, err := m.calls()
	if err != nil {
		return err
	}
	r.Calls, r.Conflicts = calls.count()
	reconciles, err := m.readReconciles(ctx)
	if err != nil {
		return err
	}
	r.Reconciles = map[string]int{}
	for name, n := range reconciles {
		if n -= m.reconciles[name]; n > 0 {
			r.Reconciles[name] = n
		}
	}
	r.Heap, err = m.heap(ctx)
	return err
}

// renewed begins anew what a new process of the manager counts from zero.
func (m *meter) renewed() { m.manager, m.reconciles = 0, map[string]int{} }

// quiet waits until the manager has made no request for two seconds.
func (m *meter) quiet(ctx context.Context) error {
	last, since := -1, time.Now()
	for time.Since(since) < 2*time.Second {
		all, err := m.calls()
		if err != nil {
			return err
		}
		if len(all) != last {
			last, since = len(all), time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// call is what the audit log says of a request.
type call struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string `json:"userAgent"`
	ObjectRef struct {
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

type calls []call

// calls reads the manager's requests since begin.
func (m *meter) calls() (calls, error) {
	file, err := os.Open(m.audit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(m.offset, io.SeekStart); err != nil {
		return nil, err
	}
	return readCalls(file)
}

// readCalls reads the manager's requests from an audit log. Its last line may
// not be whole yet. Left out are those that only a scrape of its metrics causes,
// and those for the unrelated jobs.
func readCalls(log io.Reader) (calls, error) {
	var all calls
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var c call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		server := strings.HasPrefix(c.User.Username, "system:")
		if c.User.Username == user || server || strings.HasSuffix(c.ObjectRef.Resource, "reviews") || c.ObjectRef.Resource == "" {
			continue
		}
		if c.ObjectRef.Namespace == other || c.ObjectRef.Name == other {
			continue
		}
		// A watch is logged when it ends, which says nothing of what goes on.
		if !strings.HasPrefix(c.UserAgent, agent) || c.Verb == "watch" {
			continue
		}
		all = append(all, c)
	}
}

// agent is how the manager calls itself.
const agent = "kueue/"

// count sums up the requests, and counts those that were refused with a conflict.
func (all calls) count() (sums []result.Call, conflicts int) {
	counts := map[result.Call]int{}
	for _, c := range all {
		key := result.Call{Verb: c.Verb, Resource: c.ObjectRef.Resource}
		if c.ObjectRef.Subresource != "" {
			key.Resource += "/" + c.ObjectRef.Subresource
		}
		counts[key]++
		if c.ResponseStatus.Code == http.StatusConflict {
			conflicts++
		}
	}
	for key, n := range counts {
		key.Count = n
		sums = append(sums, key)
	}
	slices.SortFunc(sums, func(a, b result.Call) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return sums, conflicts
}

// cpu returns the seconds of the manager, and of etcd and kube-apiserver.
func (m *meter) cpu() (manager, servers float64, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, 0, err
	}
	for _, process := range all {
		stat, err := process.Stat()
		if err != nil || stat.PPID != os.Getpid() {
			continue
		}
		if process.PID == m.plane.Manager.PID() {
			manager = stat.CPUTime()
		} else {
			servers += stat.CPUTime()
		}
	}
	return manager, servers, nil
}

// peak returns the highest resident memory of the manager since begin, in bytes.
func (m *meter) peak() (int64, error) {
	process, err := procfs.NewProc(m.plane.Manager.PID())
	if err != nil {
		return 0, err
	}
	status, err := process.NewStatus()
	return int64(status.VmHWM), err
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap returns the live heap of the manager, in bytes.
func (m *meter) heap(ctx context.Context) (int64, error) {
	// The first collection lets finalizers run, and empties pools.
	for range 2 {
		if _, err := m.profile(ctx, "heap?gc=1"); err != nil {
			return 0, err
		}
	}
	text, err := m.profile(ctx, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	found := heapAlloc.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("the manager's heap profile does not tell its size")
	}
	return strconv.ParseInt(string(found[1]), 10, 64)
}

// profile reads a profile of net/http/pprof from the manager.
func (m *meter) profile(ctx context.Context, name string) ([]byte, error) {
	return get(ctx, http.DefaultClient, "http://"+m.plane.Profile+"/debug/pprof/"+name)
}

func get(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// readReconciles returns how often each controller of the manager has reconciled.
func (m *meter) readReconciles(ctx context.Context) (map[string]int, error) {
	families, err := m.plane.Scrape(ctx)
	if err != nil {
		return nil, err
	}
	return sumBy(families["controller_runtime_reconcile_total"], "controller"), nil
}

// counted is what a manager tells of the workloads of a ClusterQueue.
type counted struct {
	reconciled       int // of all ClusterQueues
	waiting, pending int // those that wait are pending, too
}

func (m *meter) counted(ctx context.Context, queue string) (c counted, err error) {
	families, err := m.plane.Scrape(ctx)
	if err != nil {
		return c, err
	}
	c.reconciled = sumBy(families["controller_runtime_reconcile_total"], "controller")["workload_controller"]
	c.waiting = sumBy(families["kueue_admission_check_retry_waiting_workloads"], "cluster_queue")[queue]
	c.pending = sumBy(families["kueue_pending_workloads"], "cluster_queue")[queue]
	return c, nil
}

// sumBy adds up the samples of counters and gauges by a label.
func sumBy(family *dto.MetricFamily, name string) map[string]int {
	sums := map[string]int{}
	for _, metric := range family.GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == name {
				sums[label.GetValue()] += int(metric.GetCounter().GetValue() + metric.GetGauge().GetValue())
			}
		}
	}
	return sums
}

func seconds(d time.Duration) float64 { return round(d.Seconds()) }

// round rounds to a thousandth.
func round(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64)
	return rounded
}
