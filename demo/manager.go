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
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// managerConfig is the manager's configuration file. Its own handling of
// certificates stays on, since without it the manager asks for a certificate
// below /etc; it finds those of envtest in place and leaves them alone.
const managerConfig = `apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
namespace: kueue-system
health:
  healthProbeBindAddress: %s
metrics:
  bindAddress: %s
webhook:
  host: %q
  port: %d
  certDir: %q
leaderElection:
  leaderElect: false
internalCertManagement:
  enable: true
clientConnection:
  qps: 50
  burst: 100
integrations:
  frameworks:
  - batch/job
`

// process is the manager.
type process struct {
	cmd     *exec.Cmd
	log     string
	metrics string // address
	exited  chan struct{}
	err     error
}

// startManager starts the patched manager and waits until it is ready. What it
// returns must be stopped, also beside an error.
func (d *demo) startManager(ctx context.Context, plane *envtest.Environment) (*process, error) {
	d.say("the manager starts, ACRequeueAfter=%t ...", d.gate)
	// The Secret and its namespace come with Kueue's manifests.
	c, err := client.New(plane.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kueue-system"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "kueue-webhook-server-cert"}},
	} {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}

	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	hooks := plane.WebhookInstallOptions
	config := fmt.Sprintf(managerConfig, health, metrics, hooks.LocalServingHost, hooks.LocalServingPort, hooks.LocalServingCertDir)
	configFile := filepath.Join(d.out, "manager.yaml")
	if err := os.WriteFile(configFile, []byte(config), 0o644); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(hooks.LocalServingCertDir, "kubeconfig") // goes with the control plane
	if err := os.WriteFile(kubeconfig, plane.KubeConfig, 0o600); err != nil {
		return nil, err
	}

	p := &process{log: filepath.Join(d.out, "manager.log"), metrics: metrics, exited: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(d.binDir, "manager"),
		"--config="+configFile, "--kubeconfig="+kubeconfig, "--zap-log-level=3",
		fmt.Sprintf("--feature-gates=ACRequeueAfter=%t,VisibilityOnDemand=false", d.gate))
	if err := p.start(d.verbose); err != nil {
		return nil, fmt.Errorf("the manager did not start: %w", err)
	}
	if err := p.waitReady(ctx, "http://"+health+"/readyz"); err != nil {
		return p, err
	}
	d.say("the manager is ready (process %d)", p.cmd.Process.Pid)
	return p, nil
}

// start runs the process in a group of its own, out of reach of the terminal's
// Ctrl-C, and bound to die with this process.
func (p *process) start(verbose bool) error {
	file, err := os.Create(p.log)
	if err != nil {
		return err
	}
	var out io.Writer = file
	if verbose {
		out = io.MultiWriter(file, os.Stderr)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
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
	return <-started
}

func (p *process) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.exited:
			return p.died()
		case <-ctx.Done():
			return fmt.Errorf("the manager did not get ready: %w\n%s", ctx.Err(), tail(p.log, 15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wait returns an error if the manager ends before the context does.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.died()
	case <-ctx.Done():
		return nil
	}
}

func (p *process) died() error {
	return fmt.Errorf("the manager ended: %v\nthe end of %s:\n%s", p.err, p.log, tail(p.log, 15))
}

// stop ends the manager and whatever it started.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	select {
	case <-p.exited:
		return
	default:
	}
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-p.exited
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
