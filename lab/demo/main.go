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

// Command demo shows a delayed retry of admission checks on a real, embedded
// control plane with the patched Kueue, and checks what it shows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/demo/timeline"
)

// Exit codes, beside 0.
const (
	exitBroken      = 1 // a promise of the feature was broken
	exitFault       = 2 // the demo could not run
	exitInterrupted = 130
)

type options struct {
	binDir, treeDir, out, kueue string
	gate, verbose               bool
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
		return exitFault
	}

	// Stays in force until the end: a second Ctrl-C must not cut the cleaning up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	d := &demo{options: o, began: time.Now(), palette: timeline.NewPalette(colour())}
	history, err := d.play(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "interrupted")
	}
	if err != nil && (ctx.Err() == nil || errors.Is(err, controlplane.ErrUnclean)) {
		fmt.Fprintf(os.Stderr, "\n%s %v\n", d.palette.Bad("demo failed:"), err)
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		return exitFault
	default:
		return d.judge(history)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&o.binDir, "bin-dir", "build/bin", "`directory` of etcd, kube-apiserver and manager")
	flags.StringVar(&o.treeDir, "tree-dir", "build/kueue", "`directory` of the patched tree, with Kueue's CRDs and webhooks")
	flags.StringVar(&o.out, "out", "build/demo", "`directory` for the picture, the logs and the versions of the Workloads")
	flags.BoolVar(&o.gate, "gate", true, "the feature gates ACRequeueAfter and ACRetryStrategy; off, the demo shows that its checks fail, and has no second act")
	flags.StringVar(&o.kueue, "kueue", "", "`version` of Kueue that the patches stand on, for the picture")
	flags.BoolVar(&o.verbose, "verbose", false, "show the manager's log as it runs")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), `Shows a delayed retry of admission checks on a control plane of its own, and
checks what it shows.

Exit code: 0 all promises kept, 1 a promise broken, 2 the demo could not run,
130 interrupted.

Flags:
`)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "unknown argument %q; see --help\n", flags.Arg(0))
		return o, errors.New("unknown argument")
	}
	return o, nil
}

type demo struct {
	options
	began   time.Time
	palette timeline.Palette
	metrics metrics
	// second is the second act, which there is with the gates on.
	second *timeline.Storm
}

// play runs both acts and leaves nothing running.
func (d *demo) play(ctx context.Context) (history *timeline.History, err error) {
	if err := d.prepare(); err != nil {
		return nil, err
	}
	fmt.Println(d.palette.Bold("Starting"))
	plane, err := controlplane.Start(ctx, d.controlPlane())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-plane.Manager.Exited():
			cancel(plane.Died())
		case <-ctx.Done():
		}
	}()
	controllers, err := d.startControllers(ctx, cancel, plane.Config)
	defer controllers.Wait()
	defer cancel(nil)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	if history, err = d.scenario(ctx, plane.Config); err != nil {
		return history, causeOf(ctx, err)
	}
	if d.metrics, err = plane.Scrape(ctx); err == nil && d.gate {
		d.second, err = d.storm(ctx, plane.Config)
	}
	return history, causeOf(ctx, err)
}

// causeOf prefers what ended the context to the error that followed from it.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// prepare says what is missing before anything is started.
func (d *demo) prepare() error {
	if err := d.controlPlane().Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(d.out, 0o755); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(d.out, "controllers.log"))
	if err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(log), zap.UseDevMode(true)))
	return nil
}

func (d *demo) controlPlane() controlplane.Options {
	o := controlplane.Options{BinDir: d.binDir, TreeDir: d.treeDir, Out: d.out, Gate: d.gate, RetryStrategy: d.gate, QPS: 300, Workers: 5, Say: d.say}
	if d.verbose {
		o.ManagerLog = os.Stderr
	}
	return o
}

// judge draws the picture and holds the history against the promises.
func (d *demo) judge(history *timeline.History) int {
	chart := timeline.NewChart(history)
	fmt.Printf("\n%s\n\n", d.palette.Bold("What happened"))
	chart.Terminal(os.Stdout, columns(), d.palette)

	files, err := d.save(history, chart)
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n%s %v\n", d.palette.Bad("demo failed:"), err)
		return exitFault
	}
	fmt.Printf("\n%s\n\n", d.palette.Bold("Promises"))
	promises := append(timeline.Verify(history, script), d.metrics.verify(timeline.Delays(history)))
	for _, promise := range promises {
		d.palette.Promise(os.Stdout, promise)
	}
	if writes := timeline.Writes(history, script); writes > 0 {
		fmt.Printf("  %s\n", d.palette.Dim(fmt.Sprintf("· Kueue wrote the Workload of %s %d times for it: evicted and released, deadline moved, requeued, reserved again make 4", script.Job, writes)))
	}
	fmt.Printf("\n%s\n\n", d.palette.Bold("The manager's metrics"))
	d.metrics.print(os.Stdout)
	fmt.Printf("\n%s\n", files)

	fmt.Printf("\n%s\n\n", d.palette.Bold("Who delayed whom"))
	if err := timeline.DelayTable(os.Stdout, history); err != nil {
		return exitFault
	}
	if d.second != nil {
		more, err := d.judgeStorm(d.second)
		if err != nil {
			fmt.Fprintf(os.Stderr, "\n%s %v\n", d.palette.Bad("demo failed:"), err)
			return exitFault
		}
		promises = append(promises, more...)
	}
	fmt.Println()
	if broken := timeline.Broken(promises); broken > 0 {
		fmt.Println(d.palette.Bad(fmt.Sprintf("%d of %d promises broken", broken, len(promises))))
		return exitBroken
	}
	fmt.Printf("All promises kept, in %.0fs.\n", time.Since(d.began).Seconds())
	return 0
}

// say prints a step with the time since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Printf("  %s %s\n", d.palette.Dim(fmt.Sprintf("%5.1fs", time.Since(d.began).Seconds())), fmt.Sprintf(format, args...))
}

func colour() bool {
	_, no := os.LookupEnv("NO_COLOR")
	return !no && term.IsTerminal(int(os.Stdout.Fd()))
}

func columns() int {
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		return min(width, 140)
	}
	return 110
}
