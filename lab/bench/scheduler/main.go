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

// Command scheduler runs upstream's benchmark of the scheduler on the patched
// tree, with the gate off and on in turn.
package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/bench/result"
)

func main() {
	var b benchmark
	flag.StringVar(&b.binDir, "bin-dir", "", "folder of etcd, kube-apiserver, scheduler-runner, minimalkueue-off and minimalkueue-on")
	flag.StringVar(&b.treeDir, "tree-dir", "", "folder of the patched tree")
	flag.StringVar(&b.out, "out", "", "folder for throughput-BASE.json, and for what each round leaves")
	flag.StringVar(&b.base, "base", "v0.19", "of the patched tree")
	flag.StringVar(&b.commit, "commit", "unknown", "of this repository, for the report")
	rounds := flag.Int("rounds", 5, "runs with the gate off, and as many with it on")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Runs upstream's benchmark of the scheduler with the gate off and on in turn, and writes throughput-BASE.json.\n\nUsage: scheduler --bin-dir FOLDER --tree-dir FOLDER --out FOLDER [--base BASE] [--rounds N]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if b.binDir == "" || b.treeDir == "" || b.out == "" || *rounds < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := b.run(ctx, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type benchmark struct {
	base, commit, binDir, treeDir, out string
}

func (b benchmark) run(ctx context.Context, rounds int) error {
	run := &result.Run{}
	for round := 1; round <= rounds; round++ {
		// The gate that comes first changes, so that neither gains by its place.
		for _, gate := range []bool{round%2 == 0, round%2 != 0} {
			t, err := b.once(ctx, gate, round)
			if err != nil {
				return fmt.Errorf("round %d, gate %s: %w", round, onOff(gate), err)
			}
			fmt.Printf("round %d, gate %s: %d workloads in %.1f s, CPU %.1f s\n", round, onOff(gate), t.Workloads, t.Seconds, t.CPU)
			run.Throughput = append(run.Throughput, t)
		}
	}
	file := filepath.Join(b.out, "throughput-"+b.base+".json")
	fmt.Println(file, "is written")
	return run.Write(file)
}

func onOff(gate bool) string {
	if gate {
		return "on"
	}
	return "off"
}

// once runs the benchmark once.
func (b benchmark) once(ctx context.Context, gate bool, round int) (result.Throughput, error) {
	t := result.Throughput{Date: time.Now().UTC().Truncate(time.Second), Commit: b.commit, Base: b.base, Gate: gate, Round: round}
	dir := filepath.Join(b.out, fmt.Sprintf("scheduler-%s-%d-%s", b.base, round, onOff(gate)))
	if err := os.RemoveAll(dir); err != nil {
		return t, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return t, err
	}
	config := filepath.Join(dir, "generator.yaml")
	if err := writeGenerator(b.treeDir, config); err != nil {
		return t, err
	}
	log, err := os.Create(filepath.Join(dir, "runner.log"))
	if err != nil {
		return t, err
	}
	defer log.Close()

	name := "minimalkueue-" + onOff(gate)
	// As upstream's "make run-performance-scheduler".
	cmd := exec.CommandContext(ctx, filepath.Join(b.binDir, "scheduler-runner"), "--o", dir,
		"--crds", filepath.Join(b.treeDir, "config/components/crd/bases"), "--generatorConfig", config,
		"--minimalKueue", filepath.Join(b.binDir, name), "--withLogs", "--logToFile", "--metricsScrapeInterval", "5s", "--timeout", "5m")
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+b.binDir)
	cmd.Stdout, cmd.Stderr = log, log
	// So that it stops the servers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return t, fmt.Errorf("%w (see %s)", err, log.Name())
	}

	t.Workloads, err = countWorkloads(filepath.Join(dir, "wlStates.csv"))
	if err != nil {
		return t, err
	}
	stats, err := os.ReadFile(filepath.Join(dir, name+".stats.yaml"))
	if err != nil {
		return t, err
	}
	t.Seconds, t.CPU, err = readStats(stats)
	return t, err
}

// fewer is the part of the workloads of upstream's load that is made, one in so
// many.
const fewer = 10

// writeGenerator writes upstream's load, with fewer workloads.
func writeGenerator(treeDir, name string) error {
	dir := filepath.Join(treeDir, "test/performance/scheduler")
	data, err := os.ReadFile(filepath.Join(dir, "configs/baseline/generator.yaml"))
	if errors.Is(err, fs.ErrNotExist) { // v0.14
		data, err = os.ReadFile(filepath.Join(dir, "default_generator_config.yaml"))
	}
	if err != nil {
		return err
	}
	var load any
	if err := yaml.Unmarshal(data, &load); err != nil {
		return err
	}
	thin(load)
	if data, err = yaml.Marshal(load); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// thin divides the count of each set of workloads below the node. The field
// stands in a list of v0.14's and in an object of v0.19's form.
func thin(node any) {
	switch node := node.(type) {
	case []any:
		for _, n := range node {
			thin(n)
		}
	case map[string]any:
		if count, isNumber := node["count"].(float64); isNumber && node["workloads"] != nil {
			node["count"] = count / fewer
		}
		for _, n := range node {
			thin(n)
		}
	}
}

// countWorkloads counts the workloads of the runner's list, all of which must
// have finished.
func countWorkloads(name string) (int, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if len(lines) < 2 {
		return 0, fmt.Errorf("%s: no workloads", name)
	}
	const finished = 5 // "ms to finish"
	for _, line := range lines[1:] {
		if line[finished] == "0" {
			return 0, fmt.Errorf("%s: workload %s has not finished", name, line[0])
		}
	}
	return len(lines) - 1, nil
}

// readStats returns how long minimalkueue ran, and the CPU it took, in seconds.
func readStats(data []byte) (wall, cpu float64, err error) {
	var stats struct {
		WallMs float64 `json:"wallMs"`
		UserMs float64 `json:"userMs"`
		SysMs  float64 `json:"sysMs"`
	}
	if err := yaml.Unmarshal(data, &stats); err != nil {
		return 0, 0, err
	}
	if stats.WallMs == 0 {
		return 0, 0, fmt.Errorf("no wallMs in %q", data)
	}
	return stats.WallMs / 1000, (stats.UserMs + stats.SysMs) / 1000, nil
}
