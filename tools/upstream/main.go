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

// Command upstream runs upstream's own tests, unit tests and envtest suites, on a
// patched tree with the feature gate off and on, and writes a page of the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"
)

// base is what of a base.yaml is used here.
type base struct {
	Module, Version string
	SkipWithGateOn  struct{ Tests, Specs []skip } `yaml:"skipWithGateOn"`
	WithoutSuites   []withoutSuite                `yaml:"withoutSuites"`
}

type skip struct{ Skip, Reason string }

// withoutSuite is a suite that cannot run here.
type withoutSuite struct{ Suite, Reason string }

// pattern is one for all that is left out, empty if nothing is.
func pattern(skips []skip) string {
	var parts []string
	for _, s := range skips {
		parts = append(parts, s.Skip)
	}
	return strings.Join(parts, "|")
}

type options struct {
	name, tree, bin, kueuectl, overlay, out, page string
	suites, gates, kubernetes, ginkgoArgs         string
	procs                                         int
	again, report, list                           bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "base", "v0.14", "the `name` of a folder in bases/")
	flag.StringVar(&o.tree, "tree", "build/kueue", "`directory` of the patched tree")
	flag.StringVar(&o.bin, "bin", "build/bin", "`directory` of etcd, kube-apiserver and kubectl")
	flag.StringVar(&o.kueuectl, "kueuectl", "build/bin", "`directory` of kubectl-kueue")
	flag.StringVar(&o.overlay, "overlay", "build/gate-on/overlay.json", "`file` that has the gate on by default (tools/gate-on.sh)")
	flag.StringVar(&o.out, "out", "build/upstream", "`directory` for the logs and the results")
	flag.StringVar(&o.page, "page", "docs/upstream-tests.md", "the page of the results")
	flag.StringVar(&o.suites, "suites", ".", "regular `expression` of the suites to run")
	flag.StringVar(&o.gates, "gates", "off,on", "with the gate off, on, or both in turn")
	flag.StringVar(&o.kubernetes, "kubernetes", "", "`version` of Kubernetes that the suites are told")
	flag.StringVar(&o.ginkgoArgs, "ginkgo-args", "", "more `arguments` for ginkgo")
	flag.IntVar(&o.procs, "procs", 3, "how many processes a suite runs in, each with a control plane of its own")
	flag.BoolVar(&o.again, "again", false, "run again what has a result for this tree")
	flag.BoolVar(&o.report, "report", false, "write the page from the results, and run nothing")
	flag.BoolVar(&o.list, "list", false, "list the suites, and run nothing")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Runs upstream's unit tests and envtest suites with the feature gate off and on. A
suite that has a result for this very tree is not run again, so that a run that was
interrupted goes on where it was. A suite whose control plane does not come up is run
again, up to three times, and not counted.

Exit code: 0 all passed, 1 something failed, 2 it could not run, 130 interrupted.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, o)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "interrupted; the results so far are kept")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "upstream: error:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (failed bool, err error) {
	b, err := readBase(o.name)
	if err != nil {
		return false, err
	}
	wanted, err := regexp.Compile(o.suites)
	if err != nil {
		return false, fmt.Errorf("--suites: %w", err)
	}
	for _, dir := range []*string{&o.tree, &o.bin, &o.kueuectl, &o.overlay, &o.out, &o.page} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return false, err
		}
	}
	results, err := readResults(o.out)
	if err != nil {
		return false, err
	}
	suites, err := findSuites(ctx, o.tree, b.Module)
	if err != nil {
		return false, err
	}
	if o.report {
		var names []string
		for _, s := range suites {
			names = append(names, s.name)
		}
		return false, writePage(o.page, b, results, names)
	}
	suites = slices.DeleteFunc(suites, func(s suite) bool { return !wanted.MatchString(s.name) })
	if len(suites) == 0 {
		return false, fmt.Errorf("no suite is called %q: see --list", o.suites)
	}
	state, err := treeState(ctx, o.tree)
	if err != nil {
		return false, err
	}
	for _, s := range suites {
		if reason := b.without(s.name); reason != "" {
			fmt.Printf("==> LEFT OUT: %s: %s\n", s.name, reason)
			continue
		}
		for gate := range strings.SplitSeq(o.gates, ",") {
			key := s.name + ", gate " + gate
			old, known := results[key]
			switch {
			case o.list:
				fmt.Printf("%-70s %s\n", key, old.summary(known && old.State == state))
				continue
			case known && old.State == state && !o.again:
				fmt.Printf("==> %s: %s, as before\n", key, old.summary(true))
			default:
				fmt.Printf("==> %s ...\n", key)
				r, err := runSuite(ctx, o, b, s, gate)
				if err != nil {
					return false, fmt.Errorf("%s: %w", key, err)
				}
				r.State, r.Date = state, time.Now().UTC().Format(time.DateOnly)
				if !r.counts() {
					r.State = "" // to be run again
				}
				results[key] = r
				if err := results.write(o.out); err != nil {
					return false, err
				}
				fmt.Printf("    %s\n", r.summary(true))
				for _, name := range r.Failures {
					fmt.Printf("    FAILED: %s\n", name)
				}
			}
			failed = failed || len(results[key].Failures) > 0
		}
	}
	if o.list {
		return false, nil
	}
	fmt.Println()
	return failed, results.print(os.Stdout, b, suites)
}

func readBase(name string) (base, error) {
	var b base
	content, err := os.ReadFile(filepath.Join("bases", name, "base.yaml"))
	if err != nil {
		return b, err
	}
	return b, yaml.Unmarshal(content, &b)
}

func (b base) without(suite string) string {
	for _, w := range b.WithoutSuites {
		if w.Suite == suite {
			return w.Reason
		}
	}
	return ""
}

// suite is a group of packages with unit tests, or one package with specs.
type suite struct {
	name     string
	packages []string
	specs    bool
}

// findSuites: the unit tests of a folder of pkg and cmd are one suite; those of other
// folders, too, as in upstream's "make test". Below test/integration each package is
// one, as in its "make test-integration" and "make test-multikueue-integration".
func findSuites(ctx context.Context, tree, module string) ([]suite, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`, "./...")
	cmd.Dir, cmd.Stderr = tree, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return group(strings.Fields(string(out)), module), nil
}

func group(packages []string, module string) []suite {
	var suites []suite
	for _, p := range packages {
		p = strings.TrimPrefix(p, module+"/")
		name, isSpecs := "", strings.HasPrefix(p, "test/integration/")
		switch parts := strings.Split(p, "/"); {
		case isSpecs:
			name = strings.TrimPrefix(p, "test/integration/")
		case slices.Contains(parts, "test"):
			continue // needs a cluster, or measures
		default:
			name = "unit " + path.Join(parts[:min(len(parts), 2)]...)
		}
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			suites, i = append(suites, suite{name: name, specs: isSpecs}), len(suites)
		}
		suites[i].packages = append(suites[i].packages, "./"+p)
	}
	// What is quick comes first.
	slices.SortStableFunc(suites, func(a, b suite) int {
		if a.specs != b.specs {
			return map[bool]int{false: -1, true: 1}[a.specs]
		}
		return strings.Compare(a.name, b.name)
	})
	return suites
}

// treeState is what a result is of: the files of the tree as they are committed.
func treeState(ctx context.Context, tree string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", tree, "rev-parse", "HEAD^{tree}").Output()
	if err != nil {
		return "", fmt.Errorf("%s is no git repository: run make tree: %w", tree, err)
	}
	changes, err := exec.CommandContext(ctx, "git", "-C", tree, "status", "--porcelain").Output()
	if err == nil && len(changes) > 0 {
		err = errors.New("the tree has changes that are not committed: their results would be taken for those of the commit")
	}
	return strings.TrimSpace(string(out)), err
}
