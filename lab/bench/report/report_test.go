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
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kueue-acrequeueafter/lab/bench/result"
)

func calls(verb, resource string, count int) result.Call {
	return result.Call{Verb: verb, Resource: resource, Count: count}
}

func distribution(seconds ...float64) *result.Distribution { return result.NewDistribution(seconds) }

// small is a run that reaches some of the figures, and misses others.
func small() *result.Run {
	herd := func(build string, round int, times float64) result.Result {
		return result.Result{
			Build: build, Scenario: result.Herd, Workloads: 1000, Round: round,
			Calls: []result.Call{calls("patch", "workloads/status", int(4000*times)),
				calls("create", "events", 1000), calls("get", "workloads", 3)},
			Reconciles: map[string]int{"workload": 5000}, CPUSeconds: 10 * times, PeakMemory: 100 << 20, Evictions: 1000,
			Requeued: distribution(0.1*times, 3*times, 6*times), Reserved: distribution(0.5*times, 5*times, 11*times),
			Held: distribution(0.1, 2*times), Unrelated: distribution(0.1, times), UnrelatedIdle: distribution(0.1),
			BareClient: 4,
		}
	}
	restart := func(n int, known float64) result.Result {
		return result.Result{Build: result.GateOn, Scenario: result.Restart, Workloads: n, Heap: int64(10_000_000 + 3_500*n), HeapPending: int64(10_000_000 + 3_000*n), Known: known, KnownPending: 21}
	}
	apart := result.Result{Build: result.GateOn, Scenario: result.Spread, Workloads: 100, Round: 1,
		Calls: []result.Call{calls("patch", "workloads/status", 410)}, Requeued: distribution(0.2, 0.6), Held: distribution(0.1), Early: 1}
	run := &result.Run{
		Machine: result.Machine{CPU: "A processor", Cores: 2, MemoryMiB: 8192, Kernel: "6.1", Go: "go1.26"},
		Results: []result.Result{
			{Build: result.GateOn, Scenario: result.Fresh, Workloads: 1000, Round: 1, Reserved: distribution(5, 10)},
			{Build: result.GateOn, Scenario: result.Created, Workloads: 1000, Round: 1, Reserved: distribution(5, 20)},
			herd(result.GateOn, 1, 1), herd(result.GateOn, 2, 1.1), herd(result.Base, 1, 2), herd(result.GuestGateOn, 1, 1),
			apart,
			{Build: result.GateOn, Scenario: result.Waiting, Workloads: 1000, Round: 1},
			restart(100, 0.5), restart(1000, 2), restart(1000, 3), restart(10000, 20), restart(10000, 22),
			{Build: result.GateOn, Scenario: result.Bare, Workloads: 1000, Calls: []result.Call{calls("patch", "workloads/status", 40000)}, Evictions: 4000, CPUSeconds: 40, PeakMemory: 200 << 20, Heap: 60 << 20, HeapAtRest: 50 << 20},
			{Build: result.Base, Scenario: result.Bare, Workloads: 1000, Calls: []result.Call{calls("patch", "workloads/status", 30000)}, Evictions: 3000, CPUSeconds: 45, PeakMemory: 100 << 20, Heap: 50 << 20, HeapAtRest: 50 << 20},
			{Build: result.GateOn, Scenario: result.Policy, Workloads: 1000, Calls: []result.Call{calls("patch", "workloads/status", 10000)}},
		},
		Throughput: []result.Throughput{
			{Base: "v0.19", Round: 1, Workloads: 500, Seconds: 40, CPU: 5}, {Base: "v0.19", Gate: true, Round: 1, Workloads: 500, Seconds: 41, CPU: 6.5}, {Base: "v0.19", Round: 2, Workloads: 500, Seconds: 42, CPU: 7},
			{Base: "v0.14", Round: 1, Workloads: 500, Seconds: 80, CPU: 5},
		},
	}
	for i := range run.Results {
		run.Results[i].Date = time.Date(2026, time.February, 6, 10, i, 0, 0, time.UTC)
		run.Results[i].Commit = "0123456789abcdef"
	}
	return run
}

func TestFigures(t *testing.T) {
	want := []struct {
		what, reached string
		yes           bool
	}{
		{"writes by Kueue to a Workload", "4.40", false},
		{"before their deadline", "1 of 2,100", false},
		{"while workloads wait", "0 and 0 for 1,000 workloads", true},
		{"deadlines apart", "0.60 s", false},
		{"bare client", "1.57 (1.50–1.65) times (6.30 s, 4 s)", false},
		{"fresh ones", "1.16 (1.10–1.21) times (11.6 s, 10 s)", true},
		{"from their creation", "0.58 (0.55–0.60) times (11.6 s, 20 s)", true},
		{"the last one free", "0.53 (0.50–0.55) times (2.10 s)", true},
		{"10,000 waiting, a new manager", "0 writes; 21 (20–22) s, 21 s", true},
		{"live heap for one", "500 bytes; the rounds differ by 0", true},
		{"benchmark of the scheduler", "+0.0% over 1 rounds: on 41, off 41 (40–42); CPU of the manager, s: on 6.50, off 6 (5–7)", false},
		{"CPU of the manager for each retry", "0.67 times (10, 15)", true},
		{"peak memory", "2 times (200, 100)", false},
		{"all hold quota again, MiB", "1 times (50, 50)", true},
		{"writes without a policy", "4 times (40,000, 10,000)", false},
	}
	got := figures(small())
	if len(got) != len(want) {
		t.Fatalf("%d figures, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		reached := got[i].Reached[result.GateOn]
		if !strings.Contains(got[i].What, w.what) || reached.Text != w.reached || reached.Yes != w.yes {
			t.Errorf("figure %d is %+v, want %+v", i, got[i], w)
		}
	}
	if got := figures(&result.Run{}); len(got) > 0 {
		t.Errorf("figures of nothing: %+v", got)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	throughput := small().Throughput
	run := small()
	run.Throughput = nil
	for name, r := range map[string]*result.Run{"run.json": run, "throughput.json": {Throughput: throughput}} {
		if err := r.Write(path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path("notes.md"), []byte("Most of it in the API server.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := report(path("run.json"), []string{path("throughput.json"), path("no.json")}, path("notes.md"), path("page.md"), path("pictures")); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path("page.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 4.40 | **no** | 4 | **no** |",
		"| 0.60 s | **no** | | |",
		"| restart | 100, 1,000, 10,000 | ours on v0.19.2 | 2026-02-06 10:08 UTC | 2026-02-06 10:12 UTC | `0123456789ab` |",
		"## One deadline for all",
		"Up to 2 rounds with each build.",
		"| | ours on v0.19.2 | v0.19.2 | ours on v0.14.8 |\n|---|---:|---:|---:|\n| API writes by Kueue | 4,200 (4,000–4,400) | 8,000 | 4,000 |",
		"| … `patch workloads/status` | 4,200 (4,000–4,400) | 8,000 | 4,000 |",
		"| CPU of the manager, s | 10.5 (10–11) | 20 (×1.90) | 10 |",
		"| … max, s | 6.30 (6–6.60) | 12 (×1.90) | 6 |",
		"| | ours on v0.19.2 | v0.19.2 |",
		"(pictures/requeued.svg)",
		"(pictures/writes.svg)",
		"(pictures/growth.svg)",
		"| v0.19 | 2 | off | 500 | 42 | 7 |",
		"## Where the time goes\n\nMost of it in the API server.\n",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, not := range []string{"NaN", "Inf", "## Two checks", "<no value>", "\n\n\n"} {
		if strings.Contains(string(page), not) {
			t.Errorf("the page has %q:\n%s", not, page)
		}
	}
	for _, name := range []string{"requeued", "reserved", "held", "unrelated", "writes", "growth"} {
		file, err := os.Open(filepath.Join(dir, "pictures", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for decoder := xml.NewDecoder(file); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := report(path("run.json"), nil, "", path("page.md"), path("pictures")); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("without a run: %v", err)
	}
	if err := (&result.Run{}).Write(path("run.json")); err != nil {
		t.Fatal(err)
	}
	if err := report(path("run.json"), []string{path("no.json")}, path("no.md"), path("page.md"), path("pictures")); err != nil {
		t.Error(err)
	}
	if pictures, err := os.ReadDir(path("pictures")); err != nil || len(pictures) > 0 {
		t.Errorf("pictures of nothing: %v, %v", pictures, err)
	}
}
