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
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"
)

// Replica is one of several managers, which elect a leader.
type Replica struct {
	// Name is that of its configuration and its log, which are in Out.
	Name string
	// Kubeconfig is the file that leads it to the API server.
	Kubeconfig string
	// Webhooks is the port at which it serves them.
	Webhooks int
	// Env is added to its environment.
	Env []string
}

// election has another leader soon: a replica that is killed does not give up the lease.
const election = `{leaderElect: true, resourceNamespace: ` + managerNamespace + `, resourceName: c1f6bfd2.kueue.x-k8s.io, leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}`

// StartReplica starts a manager beside others. The caller watches and stops it, and
// brings what comes to Webhooks, where the API server asks, to one that runs.
func (c *ControlPlane) StartReplica(ctx context.Context, r Replica) (*Process, error) {
	health, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	configFile := filepath.Join(c.options.Out, r.Name+".yaml")
	if err := c.configure(configFile, health, metrics, r.Webhooks, election); err != nil {
		return nil, err
	}
	return StartProcess(ProcessOptions{Log: filepath.Join(c.options.Out, r.Name+".log"), Copy: c.options.ManagerLog, Env: r.Env},
		c.options.manager(), c.arguments(configFile, r.Kubeconfig)...)
}

// Webhooks is the address at which the API server looks for the manager's webhooks.
func (c *ControlPlane) Webhooks() string {
	return fmt.Sprintf("%s:%d", c.hooks.LocalServingHost, c.hooks.LocalServingPort)
}

// Etcd is the URL of etcd, which asks for no credentials.
func (c *ControlPlane) Etcd() string {
	return c.env.ControlPlane.Etcd.URL.String()
}

// findServer returns the process and the command line of the API server, which
// envtest does not tell.
func findServer() (procfs.Proc, []string, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, nil, err
	}
	for _, process := range all {
		stat, err := process.Stat()
		if err != nil || stat.PPID != os.Getpid() || stat.State == "Z" {
			continue
		}
		if line, err := process.CmdLine(); err == nil && len(line) > 0 && filepath.Base(line[0]) == "kube-apiserver" {
			return process, line, nil
		}
	}
	return procfs.Proc{}, nil, errors.New("no kube-apiserver runs")
}

// SignalServer sends a signal to the API server.
func (c *ControlPlane) SignalServer(signal syscall.Signal) error {
	process, _, err := findServer()
	if err != nil {
		return err
	}
	return syscall.Kill(process.PID, signal)
}

// RestartServer ends the API server with a signal, and starts it again, at the same
// address, after a while. It returns when it is ready, or with an error when it is
// not within a minute.
func (c *ControlPlane) RestartServer(ctx context.Context, signal syscall.Signal, down time.Duration) error {
	process, line, err := findServer()
	if err != nil {
		return err
	}
	if err := syscall.Kill(process.PID, signal); err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if stat, err := process.Stat(); err != nil || stat.State == "Z" {
			break
		}
		if time.Now().After(end) {
			_ = syscall.Kill(process.PID, syscall.SIGKILL)
		}
	}
	select {
	case <-time.After(down):
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.server, err = StartProcess(ProcessOptions{Log: filepath.Join(c.options.Out, "kube-apiserver.log")}, line[0], slices.Clone(line[1:])...); err != nil {
		return err
	}
	return c.waitServer(ctx)
}

func (c *ControlPlane) waitServer(ctx context.Context) error {
	transport, err := rest.TransportFor(c.Config)
	if err != nil {
		return err
	}
	server, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("readyz").String(), nil)
		if err != nil {
			return err
		}
		if response, err := transport.RoundTrip(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.server.Exited():
			return fmt.Errorf("the API server ended: %s\n%s", c.server.Outcome(), c.server.Tail(15))
		case <-ctx.Done():
			return fmt.Errorf("the API server did not get ready: %w\n%s", ctx.Err(), c.server.Tail(15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
