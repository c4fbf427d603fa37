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

// Command bench measures what a delayed retry costs: with the patched Kueue and with
// the plain one, which has fields of the same names, and the same on an older release
// that has none, on the same work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	ctrl "sigs.k8s.io/controller-runtime"

	"kueue-acrequeueafter/lab/bench/result"
	"kueue-acrequeueafter/lab/controlplane"
)

type options struct {
	binDir, treeDir, guestBinDir, guestTreeDir, versionsDir, out, commit string

	builds, scenarios []string
	sizes             []int
	rounds            int
	profile, add      bool
	settings          result.Settings
}

func main() {
	os.Exit(run())
}

func run() int {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 2
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := o.bench(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// order of the scenarios: after Busy nothing waits any more, and Created makes the
// jobs for Two.
var order = []string{result.Herd, result.Spread, result.Waiting, result.Restart, result.Bare, result.Policy, result.Jitter, result.Busy, result.Created, result.Two}

// For those who do not say which: what half an hour is enough for.
var (
	defaultBuilds    = []string{result.GateOn, result.Base, result.GuestGateOn, result.Guest}
	defaultScenarios = []string{result.Herd, result.Spread, result.Waiting, result.Created, result.Two}
)

func parse(args []string) (o options, err error) {
	var builds, scenarios, sizes string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.binDir, "bin-dir", "build/bin", "`directory` of etcd, kube-apiserver and manager")
	flags.StringVar(&o.treeDir, "tree-dir", "build/kueue", "`directory` of the patched tree")
	flags.StringVar(&o.guestBinDir, "guest-bin-dir", "build/bin/v0.14", "`directory` of the same for v0.14")
	flags.StringVar(&o.guestTreeDir, "guest-tree-dir", "build/kueue-v0.14", "`directory` of the patched tree of v0.14")
	flags.StringVar(&o.versionsDir, "versions-dir", "build/bench/versions", "`directory` with v0.19.2 and v0.14.8, each with manager and a link to its source")
	flags.StringVar(&o.out, "out", "build/bench", "`directory` for run.json, logs and profiles")
	flags.StringVar(&o.commit, "commit", "unknown", "of this repository, for the report")
	flags.StringVar(&builds, "builds", strings.Join(defaultBuilds, ","), "which of "+strings.Join(result.Builds, ",")+" to measure")
	flags.StringVar(&scenarios, "scenarios", strings.Join(defaultScenarios, ","), "which of "+strings.Join(order, ",")+" to run after \"fresh\", in this order; two-checks and spread with the first number of workloads, spread with 10000 and more too; all but herd, restart and created with the last, and bare, policy, jitter and busy with fewer than 10000; waiting with 10000 and more as a part of restart")
	flags.StringVar(&sizes, "sizes", "100,1000", "how many workloads, one number after the other")
	flags.IntVar(&o.rounds, "rounds", 2, "of bare; and of the herd with fewer than 10000 workloads, ours alone, not with the first of several numbers")
	flags.BoolVar(&o.add, "add", false, "add to the run.json of the same kind of machine and settings, or replace what it has of the same scenarios; fresh and created, with which a herd is compared, together with a herd alone")
	flags.BoolVar(&o.profile, "profile", false, "take profiles of the manager and of the API server at the deadlines, and while a check says Retry")
	flags.IntVar(&o.settings.QPS, "qps", 300, "requests in a second that a manager may send; twice that at once")
	flags.IntVar(&o.settings.Workers, "workers", 5, "of the controllers of workloads and jobs")
	flags.Int64Var(&o.settings.Seed, "seed", 1, "of the order in which checks answer")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "Measures delayed retries with several builds of Kueue, and writes run.json.\n\nFlags:\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q; see --help", flags.Arg(0))
	}
	if o.builds, err = among("--builds", builds, result.Builds...); err != nil {
		return o, err
	}
	if o.scenarios, err = among("--scenarios", scenarios, order...); err != nil {
		return o, err
	}
	for _, size := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--sizes: %q is not a number of workloads", size)
		}
		o.sizes = append(o.sizes, n)
	}
	return o, nil
}

// among splits a list, and refuses what is not one of the names.
func among(flag, list string, names ...string) ([]string, error) {
	values := strings.Split(list, ",")
	for _, value := range values {
		if !slices.Contains(names, value) {
			return nil, fmt.Errorf("%s: %q is none of %s", flag, value, strings.Join(names, ", "))
		}
	}
	return values, nil
}

// bench measures one build after the other, and keeps what it has after each
// result.
func (o options) bench(ctx context.Context) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	machine, err := thisMachine()
	if err != nil {
		return err
	}
	all := &result.Run{Machine: machine, Settings: o.settings}
	file, began := filepath.Join(o.out, "run.json"), time.Now().Truncate(time.Second)
	if o.add {
		before, err := result.Read(file)
		if err != nil {
			return fmt.Errorf("--add: %w", err)
		}
		if !before.Machine.IsLike(machine) || before.Settings != all.Settings {
			return fmt.Errorf("--add: %s is of a machine of another size, or was made with other settings: run without --add", file)
		}
		all = before
	}
	say := func(format string, args ...any) {
		fmt.Printf("%5.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	for _, build := range o.builds {
		err := o.measure(ctx, build, say, func(r result.Result) error {
			r.Commit, r.CPU, r.Kernel = o.commit, machine.CPU, machine.Kernel
			all.Replace(r, began, slices.Contains(o.scenarios, result.Herd))
			return all.Write(file)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", build, err)
		}
	}
	say("%s is written", file)
	return nil
}

// measure runs the scenarios with one build, on a control plane of its own.
func (o options) measure(ctx context.Context, build string, say func(string, ...any), done func(result.Result) error) (err error) {
	plane := controlplane.Options{
		BinDir: o.binDir, TreeDir: o.treeDir, Out: filepath.Join(o.out, build), Gate: result.IsOurs(build), RetryStrategy: result.IsOurs(build),
		QPS: o.settings.QPS, Workers: o.settings.Workers, LogLevel: 2, Audit: true, Profile: true, Say: say,
	}
	switch build {
	case result.GuestGateOn:
		plane.BinDir, plane.TreeDir = o.guestBinDir, o.guestTreeDir
	case result.Base, result.Guest:
		plane = plane.WithPlain(filepath.Join(o.versionsDir, build))
	}
	started, err := controlplane.Start(ctx, plane)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, started.Stop()) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	manager := &manager{plane: started, died: cancel}
	manager.watch(ctx)
	w, err := newWorld(ctx, started, result.KnowsDelays(build), o.settings.Seed, cancel)
	if err != nil {
		return err
	}
	if err := w.MakeQueue(ctx, other, 100_000); err != nil {
		return err
	}
	if err := w.Stop(ctx, other, "None"); err != nil {
		return err
	}
	for i, n := range o.sizes {
		s := &series{world: w, meter: newMeter(started, plane.Out), manager: manager, build: build, n: n, settings: o.settings, say: say, done: done}
		if o.profile {
			s.profiles = o.out
		}
		if err := s.run(ctx, o, i == 0, i == len(o.sizes)-1); err != nil {
			return err
		}
	}
	return nil
}

func thisMachine() (m result.Machine, err error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, err
	}
	cpus, err := fs.CPUInfo()
	if err != nil {
		return m, err
	}
	memory, err := fs.Meminfo()
	if err != nil {
		return m, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	return result.Machine{
		CPU: cpus[0].ModelName, Cores: runtime.NumCPU(), MemoryMiB: int(*memory.MemTotal / 1024),
		Kernel: strings.TrimSpace(string(kernel)), Go: runtime.Version(),
	}, nil
}
