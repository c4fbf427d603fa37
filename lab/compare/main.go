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

// Command compare shows what becomes of a delayed retry with plain releases of
// Kueue and with the patched one, and whether README says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"kueue-acrequeueafter/lab/bench/result"
	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

// Exit codes, beside 0.
const (
	exitDiffers     = 1 // from what README says
	exitFault       = 2 // it could not run
	exitInterrupted = 130
)

// manager is one of those that are compared: a column of README's table.
type manager struct {
	name, title string
	plain       bool
}

const here = "here"

var managers = []manager{
	{name: result.Guest, title: "plain " + result.Guest, plain: true},
	{name: result.Base, title: "plain " + result.Base, plain: true},
	{name: here, title: here},
}

func main() {
	os.Exit(run())
}

func run() int {
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitFault
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	// Stays in force until the end: a second Ctrl-C must not cut the cleaning up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err = c.compare(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "interrupted")
	}
	if err != nil && (ctx.Err() == nil || errors.Is(err, controlplane.ErrUnclean)) {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		return exitFault
	default:
		return c.report()
	}
}

// comparison is the probes with the managers, and what they found.
type comparison struct {
	binDir, treeDir, versionsDir, out string
	gate                              bool
	managers                          []manager
	probes                            []probe
	began                             time.Time

	mutex    sync.Mutex
	findings map[string]map[string]finding // by probe, then manager
}

func parse(args []string) (*comparison, error) {
	c := &comparison{began: time.Now(), findings: map[string]map[string]finding{}}
	var managerNames, probeNames []string
	for _, m := range managers {
		managerNames = append(managerNames, m.name)
	}
	for _, p := range probes {
		probeNames = append(probeNames, p.name)
		c.findings[p.name] = map[string]finding{}
	}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&c.binDir, "bin-dir", "build/bin", "`directory` of etcd, kube-apiserver and manager")
	flags.StringVar(&c.treeDir, "tree-dir", "build/kueue", "`directory` of the patched tree")
	flags.StringVar(&c.versionsDir, "versions-dir", "build/bench/versions", "`directory` with the plain releases, each with manager and a link to its source")
	flags.StringVar(&c.out, "out", "build/compare", "`directory` for logs, and for every version of the Workloads")
	flags.BoolVar(&c.gate, "gate", true, "the feature gate ACRequeueAfter; off, the comparison shows that it can fail")
	wantManagers := flags.String("managers", strings.Join(managerNames, ","), "which to compare")
	wantProbes := flags.String("probes", strings.Join(probeNames, ","), "which to run; of a single one each step is shown")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), `Shows what becomes of a delayed retry with plain releases of Kueue and with the
patched one, each on a control plane of its own, and whether README says so.

Probes:
`)
		for _, p := range probes {
			fmt.Fprintf(flags.Output(), "  %-14s %s\n", p.name, p.about)
		}
		fmt.Fprint(flags.Output(), `
Exit code: 0 all is as README says, 1 something is not, 2 it could not run,
130 interrupted.

Flags:
`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q; see --help", flags.Arg(0))
	}
	var err error
	if c.managers, err = among("manager", *wantManagers, managers, func(m manager) string { return m.name }); err != nil {
		return nil, err
	}
	c.probes, err = among("probe", *wantProbes, probes, func(p probe) string { return p.name })
	return c, err
}

// among returns those whose names are in a list with commas, and refuses a name
// that none of them has.
func among[T any](what, list string, all []T, name func(T) string) ([]T, error) {
	var names []string
	for _, one := range all {
		names = append(names, name(one))
	}
	wanted := strings.Split(list, ",")
	for _, w := range wanted {
		if !slices.Contains(names, w) {
			return nil, fmt.Errorf("there is no %s %q; there are %s", what, w, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !slices.Contains(wanted, name(one)) }), nil
}

func (c *comparison) say(who, format string, args ...any) {
	fmt.Printf("%5.1f s  %-8s %s\n", time.Since(c.began).Seconds(), who, fmt.Sprintf(format, args...))
}

// options say how to start a manager.
func (c *comparison) options(m manager) controlplane.Options {
	o := controlplane.Options{
		BinDir: c.binDir, TreeDir: c.treeDir, Out: filepath.Join(c.out, m.name), Gate: c.gate,
		Say: func(format string, args ...any) { c.say(m.name, format, args...) },
	}
	if m.plain {
		o = o.WithPlain(filepath.Join(c.versionsDir, m.name))
	}
	return o
}

// compare starts the managers one after the other, runs all probes on them side by
// side, and leaves nothing running.
func (c *comparison) compare(ctx context.Context) (fault error) {
	for _, m := range c.managers {
		if err := c.options(m).Check(); err != nil {
			return fmt.Errorf("%w (`make compare` makes all that it needs)", err)
		}
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var trials []func()
	for _, m := range c.managers {
		plane, err := controlplane.Start(ctx, c.options(m))
		if err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("%s: %w", m.title, err))
		}
		defer func() { fault = errors.Join(fault, plane.Stop()) }()
		go func() {
			select {
			case <-plane.Manager.Exited():
				fail(fmt.Errorf("%s: %w", m.title, plane.Died()))
			case <-ctx.Done():
			}
		}()
		kube, err := objects.NewClient(plane.Config)
		if err != nil {
			return err
		}
		for _, p := range c.probes {
			trials = append(trials, func() {
				if err := c.try(ctx, m, kube, p); err != nil {
					fail(fmt.Errorf("%s with %s: %w", p.name, m.title, err))
				}
			})
		}
	}
	c.say("", "the probes run ...")
	var group sync.WaitGroup
	for _, trial := range trials {
		group.Go(trial)
		// All at once would slow each other down.
		_ = pause(ctx, 300*time.Millisecond)
	}
	group.Wait()
	return context.Cause(ctx)
}

// try runs one probe with one manager.
func (c *comparison) try(ctx context.Context, m manager, kube *objects.Client, p probe) error {
	t := newTrial(kube, p.name, func(string, ...any) {})
	if len(c.probes) == 1 {
		t.say = func(format string, args ...any) { c.say(m.name, format, args...) }
	}
	found, err := p.run(ctx, t)
	if late := (never{}); errors.As(err, &late) {
		found, err = finding{words: late.Error(), figures: late.Error()}, nil
	}
	if err := errors.Join(err, t.save(filepath.Join(c.out, m.name, p.name+".yaml"))); err != nil {
		return err
	}
	c.say(m.name, "%s: %s", p.name, found.figures)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.findings[p.name][m.name] = found
	return nil
}

// report prints the table, and what is not as README says.
func (c *comparison) report() int {
	text, differences := table(c.managers, c.probes, c.findings)
	fmt.Printf("\n%s\nEvery version of the Workloads, and the logs: %s\n", text, c.out)
	if len(differences) > 0 {
		fmt.Printf("\nNot as README says (✗):\n%s\n", strings.Join(differences, "\n"))
		return exitDiffers
	}
	fmt.Printf("All is as README says (✓), in %.0f s.\n", time.Since(c.began).Seconds())
	return 0
}

// table has a line for each probe and a column for each manager. The differences
// are from README.
func table(managers []manager, probes []probe, findings map[string]map[string]finding) (text string, differences []string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, m := range managers {
		fmt.Fprintf(w, "\t%s", m.title)
	}
	fmt.Fprintln(w)
	for _, p := range probes {
		fmt.Fprint(w, p.name)
		for _, m := range managers {
			found, sign := findings[p.name][m.name], "✓"
			if found.words != p.readme[m.name] {
				sign = "✗"
				differences = append(differences, fmt.Sprintf("  %s, %s: README says %q, and it is %q", p.name, m.title, p.readme[m.name], found.words))
			}
			fmt.Fprintf(w, "\t%s %s", sign, found.figures)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String(), differences
}
