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
// Command faults runs Kueue on a control plane in which everything fails: the managers
// are killed and paused, the API server is restarted, requests are delayed, dropped and
// answered into the void, watches lag behind. A judge reads every version of every
// workload from etcd.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/simulation/mutants"
)

// Exit codes, beside 0.
const (
	exitBroken      = 1 // a rule was broken
	exitFault       = 2 // it could not run, or too little happened
	exitInterrupted = 130
)

var (
	binDir   = flag.String("bin-dir", "build/bin", "`directory` of etcd, kube-apiserver and manager")
	treeDir  = flag.String("tree-dir", "build/kueue", "`directory` of the patched tree, with Kueue's CRDs and webhooks")
	out      = flag.String("out", "build/faults", "`directory` for the logs and the trace of what breaks a rule")
	manager  = flag.String("manager", "", "another manager than that of bin-dir")
	mutant   = flag.String("mutant", "", "the known `mistake` that the manager, built with the mutants, makes")
	minutes  = flag.Float64("minutes", 30, "how long faults happen, without the rests between them")
	jobs     = flag.Int("jobs", 30, "how many jobs there are at a time")
	quota    = flag.Int("quota", 8, "for how many of them there is quota")
	replicas = flag.Int("replicas", 2, "how many managers there are, of which one leads")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Has everything fail around Kueue, on a control plane of its own, and holds every
version of every workload to the rules: nothing requeued or reserved before its
deadline, no answer of a check undone, retries counted once, nothing lost. Every
minute the faults end for a while; then nothing may be stuck, and all counts must be
right. At the end all jobs must finish, and no process may be left. A run of three
minutes or more must have seen every kind of fault, and of what Kueue does about them.

Exit code: 0 all rules held, 1 a rule was broken, 2 it could not run or too little
happened, 130 interrupted.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	if *mutant != "" && !slices.ContainsFunc(mutants.All, func(m mutants.Mutant) bool { return m.Name == *mutant }) {
		fmt.Fprintf(os.Stderr, "no mistake %q: lab/simulation/mutants has them\n", *mutant)
		os.Exit(exitFault)
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "unknown argument %q; see --help\n", flag.Arg(0))
		os.Exit(exitFault)
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	klog.SetLogger(logr.Discard())
	// Stays in force until the end: a second Ctrl-C must not cut the cleaning up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx))
}

// tally counts what happens.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

func (t *tally) get(what string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[what]
}

// kinds are what happens in every run that is long enough: rules that hold while
// nothing happens say nothing.
var kinds = []string{
	managersKilled, killedStarting, killedLeading, managersStopped, managersPaused,
	serverKilled, serverStopped, serverPaused,
	"connections cut", "parts of watches held back", "requests delayed", "requests dropped", "requests refused",
	"answers to writes lost", "conflicts", "touched by others", "elections",
	"answers: Pending", "answers: Ready", "answers: Rejected", "answers: Retry", "delays asked for", "reactivations",
	"reservations", "evictions: AdmissionCheck", "requeues", "retries counted", "jobs finished", "times at rest",
}

// enough is how long a run has to be for all kinds.
const enough = 3 * time.Minute

// missing are the kinds of which there was none.
func (t *tally) missing() []string {
	var none []string
	for _, what := range kinds {
		if t.get(what) == 0 {
			none = append(none, what)
		}
	}
	return none
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		fmt.Fprintf(&text, "  %7d  %s\n", t.counts[what], what)
	}
	return text.String()
}

type game struct {
	began  time.Time
	tally  *tally
	judge  *judge
	world  *world
	faults *faults
}

func (g *game) say(format string, args ...any) {
	fmt.Printf("%5.0fs  %s\n", time.Since(g.began).Seconds(), fmt.Sprintf(format, args...))
}

func run(ctx context.Context) int {
	t := &tally{counts: map[string]int{}}
	g := &game{began: time.Now(), tally: t, judge: newJudge(t)}
	err := g.play(ctx)
	left, missing := children(), t.missing()
	fmt.Printf("\nIn %s:\n%s\n", time.Since(g.began).Round(time.Second), t)
	if v := g.judge.violation(); v != nil {
		fmt.Printf("BROKEN: %s\n%s %s\n", v.rule, v.workload, v.detail)
		if trace := g.judge.trace(v.workload); len(trace) > 0 {
			file := filepath.Join(*out, "trace.txt")
			_ = os.WriteFile(file, []byte(strings.Join(trace, "\n")+"\n"), 0o644)
			fmt.Printf("\nThe last versions of %s; all are in %s:\n  %s\n", v.workload, file, strings.Join(trace[max(0, len(trace)-12):], "\n  "))
		}
	}
	if len(left) > 0 {
		fmt.Printf("LEFT BEHIND: %s\n", strings.Join(left, ", "))
	}
	switch {
	case g.judge.violation() != nil:
		return exitBroken
	case ctx.Err() != nil && len(left) == 0:
		fmt.Fprintln(os.Stderr, "interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "faults:", err)
		return exitFault
	case len(left) > 0:
		return exitBroken
	case len(missing) > 0 && faultsLast() >= enough:
		fmt.Printf("TOO LITTLE HAPPENED: there was not one of: %s.\n", strings.Join(missing, ", "))
		return exitFault
	}
	ending := "and every kind of fault happened."
	if faultsLast() < enough {
		ending = fmt.Sprintf("but it was too short to ask for every kind of fault. Missing: %s.", cmp.Or(strings.Join(missing, ", "), "none"))
	}
	fmt.Println("All rules held, all jobs finished, no process is left,", ending)
	return 0
}

// faultsLast is how long faults happen.
func faultsLast() time.Duration { return time.Duration(*minutes * float64(time.Minute)) }

// children are the processes that this one has started, and that still run.
func children() []string {
	var left []string
	all, _ := procfs.AllProcs()
	for _, process := range all {
		if stat, err := process.Stat(); err == nil && stat.PPID == os.Getpid() {
			left = append(left, fmt.Sprintf("%s (%d)", stat.Comm, process.PID))
		}
	}
	return left
}

// play runs it all and leaves nothing running.
func (g *game) play(ctx context.Context) (err error) {
	options := controlplane.Options{
		BinDir: *binDir, TreeDir: *treeDir, Out: *out, Manager: *manager, Gate: true, RetryStrategy: true, Replicas: true,
		QPS: 100, Workers: 3, LogLevel: 3, Say: g.say,
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		// A paused one does not hear that it should end.
		_ = plane.SignalServer(syscall.SIGCONT)
		err = errors.Join(err, plane.Stop())
	}()
	var env []string
	if *mutant != "" {
		env = append(env, mutants.Variable+"="+*mutant)
	}
	if g.faults, err = newFaults(plane, *out, *replicas, env, g.judge, g.tally); err != nil {
		return err
	}
	defer g.faults.stop()
	if err := g.faults.startAll(ctx); err != nil {
		return err
	}
	if g.world, err = newWorld(plane, *jobs, *quota, g.judge, g.tally); err != nil {
		return err
	}
	defer g.world.etcd.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	if err := g.await(ctx, time.Minute, "leader", func() []string { return g.leader(ctx) }); err != nil {
		return fmt.Errorf("%w\n%s", err, g.faults.replicas[0].process.Tail(5))
	}
	if err := g.world.setUp(ctx); err != nil {
		return err
	}
	g.say("%d managers run; %d jobs, quota for %d, checks %s", *replicas, *jobs, *quota, strings.Join(checks, ", "))
	group.Go(func() {
		if err := g.world.watch(ctx); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	})
	group.Go(func() {
		select {
		case <-g.judge.failed:
			cancel(errors.New("a rule was broken"))
		case <-ctx.Done():
		}
	})
	for period, do := range map[time.Duration]func(context.Context){
		100 * time.Millisecond: g.world.answer,
		300 * time.Millisecond: g.world.play,
		500 * time.Millisecond: g.world.makeJobs,
		700 * time.Millisecond: g.world.operate,
		50 * time.Millisecond:  g.world.touch,
		15 * time.Second:       func(context.Context) { g.progress() },
	} {
		group.Go(func() { every(ctx, period, do) })
	}
	if err = g.rounds(ctx); context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	return err
}

const round = time.Minute

// rounds has faults happen and end, and at the end all jobs finish.
func (g *game) rounds(ctx context.Context) error {
	for left := faultsLast(); left > 0 && ctx.Err() == nil; left -= round {
		g.judge.forget()
		g.world.mood.Store(int32(busy))
		raging, stop := context.WithTimeout(ctx, min(round, left))
		err := g.faults.rage(raging, ctx)
		stop()
		if err != nil {
			return err
		}
		if err := g.calm(ctx); err != nil {
			return err
		}
	}
	g.say("no more faults: all checks are friendly, and %d jobs have to finish", g.world.countOpen())
	g.world.mood.Store(int32(friendly))
	err := g.await(ctx, 3*time.Minute, "end of all jobs", func() []string {
		if err := g.faults.revive(ctx); err != nil {
			return []string{err.Error()}
		}
		if n := g.world.countOpen(); n > 0 {
			return []string{fmt.Sprintf("%d jobs are not complete", n)}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		g.judge.mu.Lock()
		for _, wl := range g.judge.live() {
			g.judge.fail("rule 7, never stuck", wl.Name, "everything is over, but not %s", describe(wl))
		}
		g.judge.fail("nothing is lost", "", "%v", err)
		g.judge.mu.Unlock()
	}
	return err
}

// calm has nothing happen until Kueue has nothing left to do.
func (g *game) calm(ctx context.Context) error {
	g.world.mood.Store(int32(silent))
	began := time.Now()
	if err := g.await(ctx, 2*time.Minute, "leader", func() []string { return g.leader(ctx) }); err != nil {
		return err
	}
	quiet := 0
	err := g.await(ctx, 2*time.Minute, "rest", func() []string {
		if err := g.faults.revive(ctx); err != nil {
			return []string{err.Error()}
		}
		queues, err := g.world.pendings(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		gauges, err := g.faults.gauges(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		texts := g.judge.look(time.Now(), *quota, counts{queues: queues, gauges: gauges})
		if quiet++; len(texts) > 0 {
			quiet = 0
		} else if quiet < 20 {
			texts = []string{"it has to last"}
		}
		return texts
	})
	if err == nil {
		g.say("at rest after %s without faults: nothing stuck, all counts right", time.Since(began).Round(time.Second))
		g.tally.add("times at rest")
	}
	return err
}

// leader tells what is missing until all replicas run and one leads.
func (g *game) leader(ctx context.Context) []string {
	if err := errors.Join(g.faults.revive(ctx), g.faults.serving()); err != nil {
		return []string{err.Error()}
	}
	lease := &coordinationv1.Lease{}
	if err := g.world.Get(ctx, client.ObjectKey{Namespace: "kueue-system", Name: "c1f6bfd2.kueue.x-k8s.io"}, lease); err != nil {
		return []string{err.Error()}
	}
	if lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 2*time.Second {
		return []string{"nobody leads"}
	}
	return nil
}

// await waits until nothing is missing.
func (g *game) await(ctx context.Context, limit time.Duration, what string, missing func() []string) error {
	for end := time.Now().Add(limit); ; {
		left := missing()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no %s within %s: %s", what, limit, strings.Join(left, "; "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func (g *game) progress() {
	n := g.tally.get
	g.say("jobs %d finished, %d open; evictions %d, retries %d, conflicts %d; managers %d killed, %d paused, %d gave up; API server %d times; cuts %d; requests %d late, %d dropped, %d answers lost",
		n("jobs finished"), g.world.countOpen(), n("evictions: AdmissionCheck"), n("retries counted"), n("conflicts"),
		n(managersKilled)+n(killedStarting)+n(killedLeading)+n(managersStopped), n(managersPaused), n(gaveUp),
		n(serverKilled)+n(serverStopped)+n(serverPaused),
		n("connections cut"), n("requests delayed"), n("requests dropped"), n("answers to writes lost"))
}
