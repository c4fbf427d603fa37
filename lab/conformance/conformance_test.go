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

package conformance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"kueue-acrequeueafter/lab/controlplane"
)

// The flags of TestController.
var (
	options = Options{Progress: os.Stdout}
	files   controlplane.Options
)

func init() {
	flag.StringVar(&options.Check, "check", "", "`name` of the AdmissionCheck")
	flag.StringVar(&options.ControllerName, "controller-name", "", "spec.controllerName of the AdmissionCheck, unless the manifests have it")
	flag.StringVar(&options.Command, "command", "", "shell `command` that starts the controller; KUBECONFIG is set, and {kubeconfig}, {server}, {check} and {namespace} are filled in")
	flag.StringVar(&options.As, "as", "", "`user` that the controller acts as, for example system:serviceaccount:NAMESPACE:NAME of the manifests; default: an administrator")
	flag.StringVar(&options.Setup.Manifests, "manifests", "", "`file` to apply before the controller is started")
	flag.StringVar(&options.Retry.Manifests, "retry-manifest", "", "`file` to apply that makes the controller answer Retry; {now+5s} is filled in")
	flag.StringVar(&options.Ready.Manifests, "ready-manifest", "", "`file` to apply that makes it answer Ready")
	flag.StringVar(&options.Retry.Command, "retry", "", "shell `command` that makes it answer Retry")
	flag.StringVar(&options.Ready.Command, "ready", "", "shell `command` that makes it answer Ready")
	flag.StringVar(&options.Job, "job", "", "`file` with the Job to ask the controller about, for one that answers certain jobs only; the resources that it asks for are in the queue")
	flag.DurationVar(&options.AnswerWithin, "answer-within", 15*time.Second, "how long an answer may take")
	flag.DurationVar(&options.LongestDelay, "longest-delay", 30*time.Second, "how long to wait for the end of a delay")
	flag.DurationVar(&options.Settle, "settle", 500*time.Millisecond, "how long the controller has to notice what a hook changed")
	flag.StringVar(&files.Out, "out", "../../build/conformance", "`directory` for the logs")
	flag.StringVar(&files.BinDir, "bin-dir", "../../build/bin", "`directory` of etcd, kube-apiserver and manager")
	flag.StringVar(&files.TreeDir, "tree-dir", "../../build/kueue", "`directory` of the patched tree, with Kueue's CRDs and webhooks")
}

var shared struct {
	sync.Once
	cluster *Cluster
	err     error
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The runs mostly wait.
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "12")
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// cluster starts the control plane that all tests share.
func cluster(t *testing.T) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	shared.Do(func() {
		out, err := filepath.Abs(files.Out)
		if err != nil {
			shared.err = err
			return
		}
		files.Out = out
		shared.cluster, shared.err = StartCluster(context.Background(), files)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// TestController tests the controller that the flags name.
func TestController(t *testing.T) {
	if options.Command == "" && options.Check == "" {
		t.Skip("no -command and -check given: see README.md")
	}
	if err := options.validate(); err != nil {
		t.Fatalf("nothing was started, since the arguments are wrong (see README.md):\n%v", err)
	}
	fmt.Println("etcd, kube-apiserver and Kueue's manager start ...")
	plane := cluster(t)
	options.Out = filepath.Join(files.Out, options.Check)
	report, err := Run(t.Context(), plane, options)
	if err != nil {
		t.Fatal(err)
	}
	report.Print(os.Stdout)
	if len(report.Faults()) > 0 {
		t.Errorf("faults found; what the controller logged, and its requests, is in %s", options.Out)
	}
}

// TestBad holds the test against a controller that is good unless a fault is
// switched on, and wants each fault to be named, and no others.
func TestBad(t *testing.T) {
	t.Parallel()
	plane := cluster(t)
	bad := filepath.Join(t.TempDir(), "bad")
	if out, err := exec.Command("go", "build", "-o", bad, "./bad").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	hook := func(name, answer string) Hook {
		file := filepath.Join(dir, name)
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{check}\"\ndata:\n  delay: \"6\"\n  answer: " + answer + "\n"
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		return Hook{Manifests: file}
	}
	retry, ready := hook("retry.yaml", "Retry"), hook("ready.yaml", "Ready")
	// It says Retry without a delay, which its AdmissionCheck has a policy for.
	policy := Hook{Manifests: "testdata/bad-policy.yaml"}

	cases := map[string]struct {
		fault, kind string
		// job is a file with the Job, and readyOnly leaves out the hook for Retry.
		job       string
		readyOnly bool
		// setup and noHooks leave it to the controller to say what it says.
		setup   Hook
		noHooks bool
		// policy leaves the delay to a policy.
		policy      bool
		want        []Rule
		wantRemarks []Rule
		wantUntried []Rule
	}{
		"good": {},
		"holds": {
			kind: "holds", readyOnly: true, setup: retry,
			wantUntried: []Rule{RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount},
		},
		"accelerators": {kind: "accelerators", job: "testdata/accelerator-job.yaml"},
		"accelerators without a job": {
			kind: "accelerators",
			want: []Rule{RuleAnswers},
			wantUntried: []Rule{
				RuleQuota, RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount, RuleOtherChecks,
				RuleKueueStatus, RuleTriesAgain, RuleStaleAnswer, RuleInactive, RuleRemovedCheck, RuleRestart,
			},
		},
		"kueue-packages": {kind: "kueue-packages"},
		"only Ready": {
			setup: ready, noHooks: true,
			wantUntried: []Rule{RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount},
		},
		"only Retry": {setup: retry, noHooks: true},
		"never-active": {
			fault: "never-active",
			want:  []Rule{RuleActive},
			wantUntried: []Rule{
				RuleAnswers, RuleRefused, RuleQuota, RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount, RuleOtherChecks,
				RuleKueueStatus, RuleTriesAgain, RuleStaleAnswer, RuleInactive, RuleRemovedCheck, RuleRestart,
			},
		},
		"invalid": {
			fault: "invalid",
			want:  []Rule{RuleAnswers, RuleRefused},
			wantUntried: []Rule{
				RuleQuota, RuleEvicted, RuleTakesBack, RuleFreshTime, RuleRetryCount, RuleOtherChecks,
				RuleKueueStatus, RuleTriesAgain, RuleStaleAnswer, RuleInactive, RuleRemovedCheck, RuleRestart,
			},
		},
		"answers-once":         {fault: "answers-once", want: []Rule{RuleAnswers}, wantUntried: []Rule{RuleFreshTime, RuleRetryCount}},
		"answers-early":        {fault: "answers-early", want: []Rule{RuleQuota}},
		"writes-while-evicted": {fault: "writes-while-evicted", want: []Rule{RuleEvicted}, wantUntried: []Rule{RuleFreshTime, RuleRetryCount}},
		"takes-back":           {fault: "takes-back", want: []Rule{RuleTakesBack}, wantUntried: []Rule{RuleEvicted}},
		"old-time":             {fault: "old-time", want: []Rule{RuleFreshTime}},
		"loses-retry-count":    {fault: "loses-retry-count", want: []Rule{RuleRetryCount}},
		"counts-itself":        {fault: "counts-itself", want: []Rule{RuleRetryCount}},
		"blind-patch":          {fault: "blind-patch", want: []Rule{RuleOtherChecks, RuleStaleAnswer, RuleRemovedCheck}},
		"blind-status":         {fault: "blind-status", want: []Rule{RuleOtherChecks, RuleKueueStatus, RuleStaleAnswer, RuleRemovedCheck}},
		"no-version":           {fault: "no-version", want: []Rule{RuleStaleAnswer, RuleRemovedCheck}},
		"same-answer":          {fault: "same-answer", want: []Rule{RuleQuota, RuleInactive, RuleRemovedCheck}},
		"gives-up":             {fault: "gives-up", want: []Rule{RuleAnswers, RuleTriesAgain}},
		"wakes-the-dead":       {fault: "wakes-the-dead", want: []Rule{RuleInactive}},
		"creates-entry":        {fault: "creates-entry", want: []Rule{RuleRemovedCheck}},
		"forgets":              {fault: "forgets", want: []Rule{RuleRestart}},
		"releases-quota":       {fault: "releases-quota", want: []Rule{RuleKueueStatus}},
		"fights":               {fault: "fights", want: []Rule{RuleStaleAnswer, RuleRemovedCheck}, wantRemarks: []Rule{RuleStaleAnswer}},
		"loose":                {fault: "loose", want: []Rule{RuleStaleAnswer, RuleRemovedCheck}, wantRemarks: []Rule{RuleRetryCount, RuleStaleAnswer}},
		"keeps-time":           {fault: "keeps-time", wantRemarks: []Rule{RuleFreshTime}},

		"policy":                      {policy: true},
		"policy only Retry":           {policy: true, noHooks: true},
		"policy writes-while-evicted": {policy: true, fault: "writes-while-evicted", want: []Rule{RuleEvicted}, wantUntried: []Rule{RuleFreshTime, RuleRetryCount}},
		"policy takes-back":           {policy: true, fault: "takes-back", want: []Rule{RuleTakesBack}, wantUntried: []Rule{RuleEvicted}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := "bad-" + strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			var text strings.Builder
			o := Options{
				Check:          check,
				ControllerName: "example.com/bad",
				Command:        "exec " + bad + " -check={check} -namespace={namespace} -fault=" + tc.fault + " -kind=" + tc.kind,
				Job:            tc.job,
				Setup:          tc.setup,
				AnswerWithin:   10 * time.Second,
				LongestDelay:   20 * time.Second,
				Settle:         10 * time.Millisecond, // it reads the ConfigMap each time
				Out:            filepath.Join(files.Out, check),
				Progress:       &text,
			}
			if !tc.noHooks {
				o.Retry, o.Ready = retry, ready
			}
			if tc.readyOnly {
				o.Retry = Hook{}
			}
			if tc.policy {
				o.Setup = policy
			}
			if tc.policy && !tc.noHooks {
				o.Retry = policy
			}
			report, err := Run(t.Context(), plane, o)
			if err != nil {
				t.Fatalf("%v\n%s", err, text.String())
			}
			report.Print(&text)
			defer func() {
				if t.Failed() || testing.Verbose() {
					t.Log("\n" + text.String())
				}
			}()
			// A fault that was seen once, as the test was faster, is a warning. Who sends no
			// resource version may write at any moment, and is seen at it or not.
			var chance []Rule
			if slices.Contains(tc.want, RuleStaleAnswer) {
				chance = []Rule{RuleQuota, RuleEvicted, RuleTakesBack, RuleInactive}
			}
			var found []Rule
			for _, rule := range rules() {
				seen := slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Rule == rule && f.Severity != Remark })
				if seen && !slices.Contains(chance, rule) {
					found = append(found, rule)
				}
			}
			if diff := cmp.Diff(tc.want, found); diff != "" {
				t.Errorf("faults and warnings (-want,+got):\n%s", diff)
			}
			if tc.wantRemarks != nil {
				if diff := cmp.Diff(tc.wantRemarks, report.of(Remark)); diff != "" {
					t.Errorf("remarks (-want,+got):\n%s", diff)
				}
			} else if tc.want == nil && len(report.Findings) > 0 {
				t.Error("findings about a good controller")
			}
			if diff := cmp.Diff(tc.wantUntried, slices.DeleteFunc(rules(), func(rule Rule) bool { return report.Untried[rule] == "" })); diff != "" && !(tc.wantUntried == nil && len(report.Untried) == 0) {
				t.Errorf("not tried (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestNotStarted wants an error, with the program's own words, and no report.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	plane := cluster(t)
	cases := map[string]struct {
		command string
		want    []string
	}{
		"not-there": {command: "exec ./there-is-no-such-program", want: []string{"(exit status 127)", "there-is-no-such-program"}},
		"ends":      {command: "echo the flag --chek is not known; exit 3", want: []string{"(exit status 3)", "\nthe flag --chek is not known"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := "not-started-" + name
			report, err := Run(t.Context(), plane, Options{
				Check: check, ControllerName: "example.com/none", Command: tc.command,
				AnswerWithin: 10 * time.Second, Settle: 10 * time.Millisecond,
				Out: filepath.Join(files.Out, check), Progress: io.Discard,
			})
			if err == nil {
				t.Fatalf("no error, but a report: %+v", report)
			}
			for _, want := range append(tc.want, "the controller could not be started") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

// TestValidate wants wrong arguments to be named, all of them.
func TestValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		options Options
		want    []string
	}{
		"good": {options: Options{Check: "budget-2", Command: "budget", Setup: Hook{Manifests: file}}},
		"nothing": {
			want: []string{"no -check is given", "no -command is given"},
		},
		"no DNS labels": {
			options: Options{Check: "my.Budget", Command: "budget"},
			want:    []string{`-check "my.Budget" is not a DNS label: `},
		},
		"too long": {
			options: Options{Check: strings.Repeat("a", 64), Command: "budget"},
			want:    []string{"is not a DNS label: must be no more than 63"},
		},
		"files that are not there": {
			options: Options{Check: "budget", Command: "budget", Setup: Hook{Manifests: file + "1"}, Retry: Hook{Manifests: file + "2"}, Ready: Hook{Manifests: filepath.Dir(file)}},
			want:    []string{"-manifests: stat " + file + "1: no such file", "-retry-manifest: stat " + file + "2", "-ready-manifest: " + filepath.Dir(file) + " is a directory"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.options.validate()
			if tc.want == nil {
				if err != nil {
					t.Errorf("Unexpected error: %v", err)
				}
				return
			}
			var lines []string
			if err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			if len(lines) != len(tc.want) {
				t.Fatalf("want %d lines, got:\n%v", len(tc.want), err)
			}
			for i, want := range tc.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("no %q in %q", want, lines[i])
				}
			}
		})
	}
}

// TestExamples wants no faults in our own examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	plane := cluster(t)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./budget", "./capacity", "./health")
	build.Dir = "../../examples"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cases := map[string]struct {
		// dir is its folder, and command what starts it, if they are others than for a
		// program in Go.
		dir, command string
		flags        string
		setup        string
		retry, ready string
	}{
		"budget":   {setup: "testdata/budget-payer.yaml", retry: "testdata/budget-retry.yaml", ready: "testdata/budget-ready.yaml"},
		"capacity": {flags: "--backoff-base=6s --backoff-cap=6s --backoff-jitter=0", retry: "testdata/capacity-retry.yaml", ready: "testdata/capacity-ready.yaml"},
		// The API server is always too slow, and no hook makes it faster.
		"health": {flags: "--slow=1ns --delay=1ms --max-delay=6s --every=500ms"},
		"maintenance": {
			dir: "python", command: "python3 ../../examples/python/controller.py {server}",
			retry: "testdata/maintenance-retry.yaml", ready: "testdata/maintenance-ready.yaml",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, command := name, filepath.Join(bin, name)
			if tc.command != "" {
				dir, command = tc.dir, tc.command
				if _, err := exec.LookPath(strings.Fields(command)[0]); err != nil {
					t.Skipf("LEFT OUT: the example in %s: %v", dir, err)
				}
			}
			setup := filepath.Join(t.TempDir(), "setup.yaml")
			var manifests []byte
			for _, file := range []string{"../../examples/" + dir + "/manifests.yaml", tc.setup} {
				if file != "" {
					data, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					manifests = append(append(manifests, data...), "\n---\n"...)
				}
			}
			if err := os.WriteFile(setup, manifests, 0o600); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			report, err := Run(t.Context(), plane, Options{
				Check:        name,
				Command:      "exec " + command + " " + tc.flags,
				As:           "system:serviceaccount:" + name + ":" + name,
				Setup:        Hook{Manifests: setup},
				Retry:        Hook{Manifests: tc.retry},
				Ready:        Hook{Manifests: tc.ready},
				AnswerWithin: 10 * time.Second,
				LongestDelay: 20 * time.Second,
				Settle:       500 * time.Millisecond,
				Out:          filepath.Join(files.Out, name),
				Progress:     &text,
			})
			if err != nil {
				t.Fatalf("%v\n%s", err, text.String())
			}
			report.Print(&text)
			defer func() {
				if t.Failed() || testing.Verbose() {
					t.Log("\n" + text.String())
				}
			}()
			if len(report.Findings) > 0 {
				t.Error("findings about a good controller")
			}
			if len(report.Untried) > 0 {
				t.Error("not everything was tried")
			}
		})
	}
}

// rules returns all rules in order.
func rules() []Rule {
	var all []Rule
	for _, text := range ruleTexts {
		all = append(all, text.rule)
	}
	return all
}
