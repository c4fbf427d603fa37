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
// patched tree with the feature gate off and on, keeps the results with the commit that
// they are of, and writes a page of them.
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
	WithoutSpecs    []skip                        `yaml:"withoutSpecs"`
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
	name, tree, bin, kueuectl, overlay, out, page, record string
	suites, gates, kubernetes, ginkgoArgs                 string
	procs                                                 int
	asIs, again, report, list                             bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "base", "v0.19", "the `name` of a folder in bases/")
	flag.StringVar(&o.tree, "tree", "build/kueue", "`directory` of the patched tree")
	flag.StringVar(&o.bin, "bin", "build/bin", "`directory` of etcd, kube-apiserver and kubectl")
	flag.StringVar(&o.kueuectl, "kueuectl", "build/bin", "`directory` of kubectl-kueue")
	flag.StringVar(&o.overlay, "overlay", "build/gate-on/overlay.json", "`file` that has the gate on by default (tools/gate-on.sh)")
	flag.StringVar(&o.out, "out", "build/upstream", "`directory` for the logs, and for results that are of no commit")
	flag.StringVar(&o.page, "page", "docs/upstream-tests.md", "the page of the results")
	flag.StringVar(&o.record, "record", "", "the `file` that keeps the results (docs/upstream-tests/BASE.json)")
	flag.StringVar(&o.suites, "suites", ".", "regular `expression` of the suites to run")
	flag.StringVar(&o.gates, "gates", "off,on", "with the gate off, on, or both in turn")
	flag.StringVar(&o.kubernetes, "kubernetes", "", "`version` of Kubernetes that the suites are told")
	flag.StringVar(&o.ginkgoArgs, "ginkgo-args", "", "more `arguments` for ginkgo")
	flag.IntVar(&o.procs, "procs", 3, "how many processes a suite runs in, each with a control plane of its own")
	flag.BoolVar(&o.asIs, "as-is", false, "the tree may have commits that are not exported: keep the results in --out alone")
	flag.BoolVar(&o.again, "again", false, "run again what has a result for this tree")
	flag.BoolVar(&o.report, "report", false, "write the page from the record, and run nothing")
	flag.BoolVar(&o.list, "list", false, "list the suites in the order in which they are run, and run nothing")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Runs upstream's unit tests and envtest suites with the feature gate off and on: first
what was never run, then what was run with the oldest tree. A suite that has a result
for this very tree is not run again, so that a run that was interrupted goes on where
it was. A suite whose control plane does not come up is run again, up to three times,
and not counted.

Each result is added to the record and the page, with the commit of the files that the
tree is made of. If these are not committed, the results stay in --out.

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
	if err := adoptOrphans(); err != nil {
		return false, fmt.Errorf("adopting the processes that suites leave behind: %w", err)
	}
	b, err := readBase(o.name)
	if err != nil {
		return false, err
	}
	wanted, err := regexp.Compile(o.suites)
	if err != nil {
		return false, fmt.Errorf("--suites: %w", err)
	}
	if o.record == "" {
		o.record = filepath.Join(strings.TrimSuffix(o.page, ".md"), o.name+".json")
	}
	for _, dir := range []*string{&o.tree, &o.bin, &o.kueuectl, &o.overlay, &o.out, &o.page, &o.record} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return false, err
		}
	}
	suites, err := findSuites(ctx, o.tree, b.Module)
	if err != nil {
		return false, err
	}
	all := namesOf(suites)
	if o.report {
		kept, err := readResults(o.record)
		if err != nil {
			return false, err
		}
		return false, writePage(o.page, b, kept, all)
	}
	suites = slices.DeleteFunc(suites, func(s suite) bool { return !wanted.MatchString(s.name) })
	if len(suites) == 0 {
		return false, fmt.Errorf("no suite is called %q: see --list", o.suites)
	}
	tree, err := treeState(ctx, o.tree)
	if err != nil {
		return false, err
	}
	commit, history, err := madeOf(ctx, ".")
	if err != nil {
		return false, err
	}
	if o.asIs || o.ginkgoArgs != "" || commit == "" {
		commit, o.record = "", filepath.Join(o.out, "results.json")
		fmt.Printf("==> the tree may not be that of a commit, or ginkgo has arguments: results are kept in %s alone\n", o.record)
	}
	kept, err := readResults(o.record)
	if err != nil {
		return false, err
	}
	for _, s := range suites {
		if reason := b.without(s.name); reason != "" {
			fmt.Printf("==> LEFT OUT: %s: %s\n", s.name, reason)
		}
	}
	suites = slices.DeleteFunc(suites, func(s suite) bool { return b.without(s.name) != "" })
	jobs := kept.plan(suites, strings.Split(o.gates, ","), tree, history)
	if o.list {
		for _, j := range jobs {
			fmt.Printf("%-70s %s\n", j.key(), kept.summary(j, tree))
		}
		return false, nil
	}
	failed, err = runAll(jobs, kept, tree, o.again, func(j job) (result, error) {
		r, err := runSuite(ctx, o, b, j.suite, j.gate)
		r.Tree, r.Commit, r.Date = tree, commit, time.Now().UTC().Format(time.DateOnly)
		return r, err
	}, func(key string, r result) error {
		known, err := keep(o.record, key, r)
		if err != nil || commit == "" {
			return err
		}
		return writePage(o.page, b, known, all)
	})
	if err != nil {
		return failed, err
	}
	_, err = fmt.Printf("\n%s", kept.table(b, namesOf(suites)))
	return failed, err
}

// runAll runs the jobs that have no result for this tree, or all, and keeps what counts.
func runAll(jobs []job, kept results, tree string, again bool, try func(job) (result, error), keep func(string, result) error) (failed bool, err error) {
	for _, j := range jobs {
		key := j.key()
		if kept[key].Tree == tree && !again {
			fmt.Printf("==> %s: %s\n", key, kept.summary(j, tree))
			failed = failed || len(kept[key].Failures) > 0
			continue
		}
		fmt.Printf("==> %s ...\n", key)
		r, err := try(j)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", key, err)
		}
		fmt.Printf("    %s\n", r)
		for _, name := range r.Failures {
			fmt.Printf("    FAILED: %s\n", name)
		}
		failed = failed || len(r.Failures) > 0
		if !r.counts() {
			continue
		}
		kept[key] = r
		if err := keep(key, r); err != nil {
			return failed, err
		}
	}
	return failed, nil
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

func namesOf(suites []suite) []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
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
	return strings.TrimSpace(string(out))[:12], err
}

// made is what the trees are made of: patches, overlay, and what is to be left out.
var made = []string{"apis", "bases", "cmd", "keps", "patches", "pkg", "test"}

// madeOf returns the last commit of what the trees are made of, as 12 digits, and all
// commits before it, the newest first. There is none if something is not committed.
func madeOf(ctx context.Context, project string) (commit string, history []string, err error) {
	git := func(arguments ...string) ([]string, error) {
		out, err := exec.CommandContext(ctx, "git", slices.Concat([]string{"-C", project}, arguments, []string{"--"}, made)...).Output()
		if err != nil {
			return nil, fmt.Errorf("git %s: %w", arguments[0], err)
		}
		return strings.Fields(string(out)), nil
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return "", nil, err
	}
	history, err = git("rev-list", "HEAD")
	if err != nil {
		return "", nil, err
	}
	for i := range history {
		history[i] = history[i][:12]
	}
	if len(changes) == 0 && len(history) > 0 {
		commit = history[0]
	}
	return commit, history, nil
}
