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

package controlplane

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// patience is how long a process may take to end when it is asked to.
const patience = 10 * time.Second

// ProcessOptions are the options of StartProcess. Log is required.
type ProcessOptions struct {
	// Log is the file to which the output is appended.
	Log string
	// Copy, if set, gets the output too.
	Copy io.Writer
	// Env is added to the environment of this process.
	Env []string
}

// Process is a program that was started, with whatever it starts itself.
type Process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error
}

// StartProcess runs a program in a group of its own, out of reach of the
// terminal's Ctrl-C, and on Linux bound to die with this process.
func StartProcess(options ProcessOptions, program string, args ...string) (*Process, error) {
	file, err := os.OpenFile(options.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	var out io.Writer = file
	if options.Copy != nil {
		out = io.MultiWriter(file, options.Copy)
	}
	p := &Process{cmd: exec.Command(program, args...), log: options.Log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), options.Env...)
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// A child bound to its parent dies with the thread that started it.
		runtime.LockOSThread()
		defer file.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int {
	return p.cmd.Process.Pid
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} {
	return p.exited
}

// Outcome says how the process, which has ended, did so: "exit status 1", for example.
func (p *Process) Outcome() string {
	return p.cmd.ProcessState.String()
}

// Signal sends a signal to the process and whatever it started.
func (p *Process) Signal(signal syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, signal)
}

// Stop ends the process and whatever it started.
func (p *Process) Stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.exited
}

// Tail returns the last n lines of the log, and where they are from.
func (p *Process) Tail(n int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return fmt.Sprintf("the end of %s:\n%s", p.log, strings.Join(lines[max(0, len(lines)-n):], "\n"))
}
