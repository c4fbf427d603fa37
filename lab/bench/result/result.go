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

// Package result is what a run of the benchmark leaves behind, as JSON: figures
// as they were counted and measured, nothing derived that a reader could not
// check against them.
package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// Builds.
const (
	GateOn      = "v0.19-gate-on"  // v0.19.2, patched, ACRequeueAfter=true
	GateOff     = "v0.19-gate-off" // the same, ACRequeueAfter=false
	Base        = "v0.19.2"        // plain, with fields of the same names
	GuestGateOn = "v0.14-gate-on"  // v0.14.8, patched, ACRequeueAfter=true
	Guest       = "v0.14.8"        // plain
)

// Builds are all, in the order of the report.
var Builds = []string{GateOn, GateOff, Base, GuestGateOn, Guest}

// IsOurs returns true for the builds whose gate is on.
func IsOurs(build string) bool { return build == GateOn || build == GuestGateOn }

// OursOf returns the build with the gate on that a build is compared with.
func OursOf(build string) string {
	if build == Guest || build == GuestGateOn {
		return GuestGateOn
	}
	return GateOn
}

// KnowsDelays returns true for the builds whose checks can ask for a delay.
func KnowsDelays(build string) bool { return build != Guest }

// Scenarios, in the order of a run.
const (
	Fresh   = "fresh"      // new jobs, created while their ClusterQueue is held, and then let go
	Created = "created"    // new jobs from their creation to their reservation
	Herd    = "herd"       // all ask for a retry with the same deadline
	Spread  = "spread"     // as herd, with deadlines a minute apart
	Two     = "two-checks" // the slower of two checks asks for more while the first delay runs
	Waiting = "waiting"    // nothing happens to workloads that wait
	Restart = "restart"    // a new manager meets workloads that wait, and then the same ones pending
	Bare    = "bare"       // a check says Retry for two minutes, and asks for no delay
	Policy  = "policy"     // the same check, which has a policy with a delay of 30 s
	Jitter  = "jitter"     // one Retry of all, without a delay, and a policy of 30 s and up to so much more
	Busy    = "busy"       // a check stays busy for two minutes, and asks for 10 s each time
)

// Run is one run of the benchmark, or several on machines of the same size.
type Run struct {
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Results  []Result `json:"results"`
	// Throughput of upstream's scheduler benchmark, in pairs of off and on.
	Throughput []Throughput `json:"throughput,omitempty"`
}

// Machine is what the run was made on, the first one.
type Machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryMiB int    `json:"memoryMiB"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

// IsLike returns true if results of the two machines can stand in one run. Each result says
// its own processor and kernel: times of different processors are not compared.
func (m Machine) IsLike(other Machine) bool {
	m.CPU, m.Kernel = other.CPU, other.Kernel
	return m == other
}

// Settings are those of the managers, the same for all builds.
type Settings struct {
	QPS     int   `json:"qps"` // of the client; the burst is twice that
	Workers int   `json:"workers"`
	Seed    int64 `json:"seed"` // of the load
}

// Result is one scenario with one build.
type Result struct {
	Date      time.Time `json:"date"`
	Commit    string    `json:"commit"`           // of this repository
	CPU       string    `json:"cpu,omitempty"`    // that of the run, if it says none
	Kernel    string    `json:"kernel,omitempty"` // the same
	Build     string    `json:"build"`
	Scenario  string    `json:"scenario"`
	Workloads int       `json:"workloads"`
	// Round counts the repetitions of a scenario in a run, from 1.
	Round int `json:"round"`
	// Seconds is how long the scenario took.
	Seconds float64 `json:"seconds"`

	// Calls are the requests of the manager to the API server, from its audit log.
	Calls []Call `json:"calls"`
	// Conflicts are those of the manager's writes that were refused with 409.
	Conflicts int `json:"conflicts"`
	// Reconciles of the manager, by controller.
	Reconciles map[string]int `json:"reconciles"`
	// CPUSeconds of the manager's process.
	CPUSeconds float64 `json:"cpuSeconds"`
	// ServerCPUSeconds of kube-apiserver and etcd.
	ServerCPUSeconds float64 `json:"serverCPUSeconds"`
	// PeakMemory is the manager's resident memory at its highest, in bytes.
	PeakMemory int64 `json:"peakMemory"`
	// Heap is the manager's live heap at the end, after a collection, in bytes.
	Heap int64 `json:"heap"`
	// HeapPending is that of the same workloads when they are pending without a
	// delay, in "restart".
	HeapPending int64 `json:"heapPending,omitempty"`
	// HeapAtRest is that when the check of "bare" or "policy" has fallen silent, and
	// all workloads hold quota again.
	HeapAtRest int64 `json:"heapAtRest,omitempty"`

	// Answers of the checks' controllers: how often the checks had to work.
	Answers int `json:"answers"`
	// Evictions and Reservations that were seen.
	Evictions    int `json:"evictions"`
	Reservations int `json:"reservations"`
	// Stuck workloads had not come back long after their deadline. Nil if that was
	// not waited for.
	Stuck *int `json:"stuck,omitempty"`
	// Early workloads were requeued, or held quota again, before their deadline.
	Early int `json:"early"`

	// Requeued and Reserved: seconds from the deadline to Requeued=True, and to the
	// reservation. In "fresh" Reserved is counted from the release of the queue, in
	// "created" from the creation of the first job.
	Requeued *Distribution `json:"requeued,omitempty"`
	Reserved *Distribution `json:"reserved,omitempty"`
	// Held: seconds from the check's Retry until the quota was free.
	Held *Distribution `json:"held,omitempty"`
	// Unrelated: seconds from the creation of a job in another ClusterQueue to its
	// start, during the burst, and before it, when there was nothing else to do.
	Unrelated     *Distribution `json:"unrelated,omitempty"`
	UnrelatedIdle *Distribution `json:"unrelatedIdle,omitempty"`
	// BareClient: seconds that a client without a queue, with as many workers,
	// needs for as many status writes of the same kind. ServerLimit: with many
	// workers, and no limit of its own.
	BareClient  float64 `json:"bareClient,omitempty"`
	ServerLimit float64 `json:"serverLimit,omitempty"`
	// Known: seconds from the start of a new manager until it has looked at all
	// workloads, and counts all as waiting. KnownPending: as pending.
	Known        float64 `json:"known,omitempty"`
	KnownPending float64 `json:"knownPending,omitempty"`
}

// Call counts requests of one kind.
type Call struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"` // with its subresource: "workloads/status"
	Count    int    `json:"count"`
}

// IsWrite tells whether the request changes something. Events are not counted as
// writes: they are sent beside the work and may be dropped.
func (c Call) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, c.Verb) && c.Resource != "events"
}

// Writes returns how many writes went to a resource, "" for all of them.
func (r Result) Writes(resource string) int {
	n := 0
	for _, call := range r.Calls {
		if call.IsWrite() && (resource == "" || call.Resource == resource) {
			n += call.Count
		}
	}
	return n
}

// Replace adds a result, in the place of those of the same scenario from before a time.
// What a herd is compared with stays with the herd of its run: it is there already, and
// is replaced in a run that has a herd alone.
func (r *Run) Replace(added Result, before time.Time, herd bool) {
	replaced := func(old Result) bool {
		return old.Build == added.Build && old.Scenario == added.Scenario && old.Workloads == added.Workloads && old.Date.Before(before)
	}
	if compared := added.Scenario == Fresh || added.Scenario == Created; compared && !herd && slices.ContainsFunc(r.Results, replaced) {
		return
	}
	r.Results = append(slices.DeleteFunc(r.Results, replaced), added)
}

// Throughput is one run of upstream's scheduler benchmark.
type Throughput struct {
	Date      time.Time `json:"date"`
	Commit    string    `json:"commit"`
	Base      string    `json:"base"` // such as v0.19
	Gate      bool      `json:"gate"`
	Round     int       `json:"round"`
	Workloads int       `json:"workloads"`
	Seconds   float64   `json:"seconds"` // from the start of the manager until all had finished
	CPU       float64   `json:"cpuSeconds"`
}

// Distribution of some measured times.
type Distribution struct {
	Count int `json:"count"`
	// Percentiles are those from 0, the least, to 100, the greatest, in seconds.
	Percentiles []float64 `json:"percentiles"`
}

// NewDistribution returns that of the samples, nil when there are none.
func NewDistribution(samples []float64) *Distribution {
	if len(samples) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(samples))
	d := &Distribution{Count: len(sorted), Percentiles: make([]float64, 101)}
	for p := range d.Percentiles {
		rank := int(math.Ceil(float64(p) / 100 * float64(len(sorted))))
		d.Percentiles[p] = math.Round(sorted[max(rank-1, 0)]*1000) / 1000
	}
	return d
}

// P returns the percentile p, from 0 to 100.
func (d *Distribution) P(p int) float64 { return d.Percentiles[p] }

// Read reads a run.
func Read(path string) (*Run, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	run := &Run{}
	if err := json.Unmarshal(data, run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range run.Results {
		r := &run.Results[i]
		r.CPU, r.Kernel = cmp.Or(r.CPU, run.Machine.CPU), cmp.Or(r.Kernel, run.Machine.Kernel)
	}
	return run, nil
}

// Write writes the run.
func (r *Run) Write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
