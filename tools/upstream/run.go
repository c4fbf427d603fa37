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
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// attempts is how often a suite is run whose control plane does not come up.
const attempts = 3

// errNoControlPlane says that no spec was tried.
var errNoControlPlane = errors.New("the control plane did not come up")

func runSuite(ctx context.Context, o options, b base, s suite, gate string) (result, error) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		r, err := runOnce(ctx, o, b, s, gate)
		if errors.Is(err, errNoControlPlane) && attempt < attempts && ctx.Err() == nil {
			fmt.Printf("    %v: once more\n", err)
			continue
		}
		if errors.Is(err, errNoControlPlane) {
			err = nil // the next ones may be luckier
		}
		r.Seconds = int(time.Since(began).Seconds())
		return r, errors.Join(err, ctx.Err())
	}
}

func runOnce(ctx context.Context, o options, b base, s suite, gate string) (result, error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return result{}, err
	}
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(s.name+"-"+gate, "-")
	log, err := os.Create(filepath.Join(o.out, name+".log"))
	if err != nil {
		return result{}, err
	}
	defer log.Close()
	if s.specs {
		return runSpecs(ctx, o, b, s, gate, filepath.Join(o.out, name+".json"), log)
	}
	arguments := []string{"test", "-json", "-timeout", "30m"}
	if gate == "on" {
		arguments = append(arguments, "-overlay", o.overlay)
		if p := pattern(b.SkipWithGateOn.Tests); p != "" {
			arguments = append(arguments, "-skip", p)
		}
	}
	out, err := command(ctx, o, log, append(arguments, s.packages...)...)
	if err != nil {
		return result{}, err
	}
	return readEvents(out, log), nil
}

// command runs go in the tree. That tests fail is no error.
func command(ctx context.Context, o options, log *os.File, arguments ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.tree, &out, log
	// A busy machine takes longer than envtest waits.
	cmd.Env = append(os.Environ(), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT=2m", "KUBEBUILDER_ASSETS="+o.bin, "KUEUE_BIN="+o.kueuectl, "PROJECT_DIR="+o.tree+"/", "ENVTEST_K8S_VERSION="+o.kubernetes)
	// All of the group stop what they have started when they are interrupted.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	killOrphans()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	return out.Bytes(), err
}

// readEvents counts what "go test -json" tells, and writes what it prints to the log.
func readEvents(events []byte, log *os.File) result {
	var r result
	failed := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			fmt.Fprintf(log, "%s\n", lines.Bytes())
			continue
		}
		switch {
		case event.Output != "":
			_, _ = log.WriteString(event.Output)
		case event.Action == "fail" && event.Test == "" && !failed[event.Package]:
			// It does not compile, or panics.
			r.Failures = append(r.Failures, event.Package)
		case event.Action == "fail" && event.Test != "":
			failed[event.Package] = true
			r.Failures = append(r.Failures, event.Package+" "+event.Test)
		case event.Action == "pass" && event.Test != "":
			r.Passed++
		case event.Action == "skip" && event.Test != "":
			r.Skipped++
		}
	}
	return r
}

func runSpecs(ctx context.Context, o options, b base, s suite, gate, report string, log *os.File) (result, error) {
	_ = os.Remove(report)
	arguments := []string{
		"run", "github.com/onsi/ginkgo/v2/ginkgo", "run", "--trimpath", "--output-interceptor-mode=none", "--keep-going", "--timeout=90m",
		fmt.Sprintf("--procs=%d", o.procs), "--output-dir=" + filepath.Dir(report), "--json-report=" + filepath.Base(report),
	}
	skips := b.WithoutSpecs
	if gate == "on" {
		skips = slices.Concat(skips, b.SkipWithGateOn.Specs)
		flags := os.Getenv("GOFLAGS")
		_ = os.Setenv("GOFLAGS", flags+" -overlay="+o.overlay)
		defer os.Setenv("GOFLAGS", flags)
	}
	leftOut := pattern(skips)
	if leftOut != "" {
		arguments = append(arguments, "--skip="+leftOut)
	}
	arguments = append(arguments, strings.Fields(o.ginkgoArgs)...)
	out, err := command(ctx, o, log, append(arguments, s.packages...)...)
	_, _ = log.Write(out)
	if err != nil {
		return result{}, err
	}
	content, err := os.ReadFile(report)
	if errors.Is(err, os.ErrNotExist) {
		// It does not compile.
		return result{Failures: []string{s.packages[0]}}, nil
	}
	if err != nil {
		return result{}, err
	}
	r, err := readReport(content, leftOut)
	if errors.Is(err, errNoControlPlane) && crashed.Match(out) {
		return result{Failures: []string{s.packages[0] + " crashed"}}, nil
	}
	return r, err
}

// crashed is what a process prints that ends before it has reported.
var crashed = regexp.MustCompile(`(?m)^\s*(panic: |fatal error: )`)

// readReport counts what ginkgo reports.
func readReport(content []byte, leftOut string) (result, error) {
	var reports []struct {
		SuiteDescription           string
		SuiteSucceeded             bool
		SpecialSuiteFailureReasons []string
		SpecReports                []struct {
			State, LeafNodeType, LeafNodeText string
			ContainerHierarchyTexts           []string
			Failure                           struct{ Message string }
		}
	}
	var r result
	if err := json.Unmarshal(content, &reports); err != nil {
		return r, fmt.Errorf("ginkgo's report: %w", err)
	}
	if len(reports) == 0 { // a process of ginkgo's has died or hangs, which waits for a control plane
		return result{Failures: []string{errNoControlPlane.Error()}}, errNoControlPlane
	}
	left := regexp.MustCompile(leftOut)
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			isSpec := spec.LeafNodeType == "It"
			switch spec.State {
			case "passed":
				if isSpec {
					r.Passed++
				}
			case "skipped", "pending":
				switch {
				case !isSpec:
				case leftOut != "" && left.MatchString(report.SuiteDescription+" "+name):
					r.LeftOut++
				default:
					r.Skipped++
				}
			default:
				if strings.Contains(spec.Failure.Message, "control plane") {
					return result{Failures: []string{errNoControlPlane.Error()}}, errNoControlPlane
				}
				r.Failures = append(r.Failures, strings.TrimSpace(name+" ("+spec.LeafNodeType+")"))
			}
		}
		if !report.SuiteSucceeded && len(r.Failures) == 0 {
			r.Failures = append(r.Failures, strings.Join(report.SpecialSuiteFailureReasons, "; "))
		}
	}
	return r, nil
}
