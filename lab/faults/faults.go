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
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"kueue-acrequeueafter/lab/controlplane"
)

// replica is a manager that is killed and started again, and its proxy.
type replica struct {
	name       string
	kubeconfig string
	webhooks   int
	proxy      *proxy
	process    *controlplane.Process
}

// faults are all that is done to Kueue.
type faults struct {
	plane    *controlplane.ControlPlane
	tally    *tally
	judge    *judge
	out      string
	env      []string
	replicas []*replica
	webhooks *switchboard
}

func newFaults(plane *controlplane.ControlPlane, out string, replicas int, env []string, judge *judge, tally *tally) (*faults, error) {
	f := &faults{plane: plane, tally: tally, judge: judge, out: out, env: env}
	var addresses []string
	for i := range replicas {
		p, err := startProxy(plane.Config, tally)
		if err != nil {
			return f, err
		}
		r := &replica{name: fmt.Sprintf("manager-%d", i+1), proxy: p}
		f.replicas = append(f.replicas, r)
		content, err := p.kubeconfig()
		if err != nil {
			return f, err
		}
		if r.kubeconfig, err = filepath.Abs(filepath.Join(out, r.name+".kubeconfig")); err != nil {
			return f, err
		}
		if err := os.WriteFile(r.kubeconfig, content, 0o600); err != nil {
			return f, err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return f, err
		}
		address := listener.Addr().(*net.TCPAddr)
		listener.Close()
		r.webhooks = address.Port
		addresses = append(addresses, address.String())
	}
	var err error
	f.webhooks, err = startSwitchboard(plane.Webhooks(), addresses)
	return f, err
}

// start starts a replica, and keeps the log of the one before.
func (f *faults) start(ctx context.Context, r *replica) (err error) {
	log := filepath.Join(f.out, r.name+".log")
	if content, err := os.ReadFile(log); err == nil {
		f.panics(r.name, content)
		_ = os.Rename(log, filepath.Join(f.out, r.name+".before.log"))
	}
	r.process, err = f.plane.StartReplica(ctx, controlplane.Replica{Name: r.name, Kubeconfig: r.kubeconfig, Webhooks: r.webhooks, Env: f.env})
	return err
}

// panics: whatever the API server does, the manager is not to panic.
func (f *faults) panics(name string, log []byte) {
	for _, text := range []string{"Observed a panic", "\npanic: ", "\nfatal error: "} {
		if i := bytes.Index(log, []byte(text)); i >= 0 {
			f.judge.mu.Lock()
			f.judge.fail("no panic", "", "%s: %.3000s", name, log[i:])
			f.judge.mu.Unlock()
		}
	}
}

func (f *faults) startAll(ctx context.Context) error {
	for _, r := range f.replicas {
		if err := f.start(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all that newFaults and start have begun.
func (f *faults) stop() {
	for _, r := range f.replicas {
		if r.process != nil {
			// A process that is paused does not hear that it should end.
			r.process.Signal(syscall.SIGCONT)
			r.process.Stop()
			if content, err := os.ReadFile(filepath.Join(f.out, r.name+".log")); err == nil {
				f.panics(r.name, content)
			}
		}
		r.proxy.stop()
		_ = os.Remove(r.kubeconfig)
	}
	if f.webhooks != nil {
		f.webhooks.stop()
	}
}

// rage does what may happen until the context ends. Then all is well again: the
// replicas run, and nothing is in their way.
func (f *faults) rage(ctx, after context.Context) error {
	var group sync.WaitGroup
	errs := make(chan error, len(f.replicas)+1)
	for _, r := range f.replicas {
		group.Go(func() { errs <- f.harass(ctx, after, r) })
		group.Go(func() { f.change(ctx, r.proxy) })
	}
	group.Go(func() { errs <- f.harassServer(ctx, after) })
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for at least so long and at most so long, and tells whether the
// context goes on.
func sleep(ctx context.Context, least, most time.Duration) bool {
	select {
	case <-time.After(least + time.Duration(rand.Int63n(int64(most-least)+1))):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// harass kills, stops and pauses a replica, and starts it again.
func (f *faults) harass(ctx, after context.Context, r *replica) error {
	for ctx.Err() == nil {
		least, most := 4*time.Second, 40*time.Second
		select {
		case <-time.After(least + time.Duration(rand.Int63n(int64(most-least)))):
			switch n := rand.Intn(10); {
			case n < 6:
				f.tally.add("managers killed")
				r.process.Signal(syscall.SIGKILL)
			case n < 7:
				f.tally.add("managers stopped")
				r.process.Stop()
			default:
				f.tally.add("managers paused")
				r.process.Signal(syscall.SIGSTOP)
				sleep(ctx, time.Second, 10*time.Second)
				r.process.Signal(syscall.SIGCONT)
				continue
			}
			<-r.process.Exited()
		case <-r.process.Exited():
			// It could not reach the API server, or renew its lease.
			f.tally.add("managers that gave up")
		case <-ctx.Done():
			continue
		}
		sleep(ctx, 0, 3*time.Second)
		if err := f.start(after, r); err != nil {
			return err
		}
	}
	return nil
}

// revive starts the replicas again that have given up.
func (f *faults) revive(ctx context.Context) error {
	for _, r := range f.replicas {
		select {
		case <-r.process.Exited():
			f.tally.add("managers that gave up")
			sleep(ctx, time.Second, time.Second)
			if err := f.start(ctx, r); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// harassServer restarts and pauses the API server.
func (f *faults) harassServer(ctx, after context.Context) error {
	for sleep(ctx, 8*time.Second, 40*time.Second) {
		switch rand.Intn(3) {
		case 0:
			f.tally.add("API server paused")
			if err := f.plane.SignalServer(syscall.SIGSTOP); err != nil {
				return err
			}
			sleep(ctx, time.Second, 6*time.Second)
			if err := f.plane.SignalServer(syscall.SIGCONT); err != nil {
				return err
			}
		default:
			signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[rand.Intn(2)]
			f.tally.add("API server restarted")
			if err := f.plane.RestartServer(after, signal, time.Duration(rand.Int63n(int64(3*time.Second)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// climates are those between a manager and the API server.
var climates = []weather{
	{},
	{lag: 4 * time.Second},
	{lag: 10 * time.Second},
	{delay: 2 * time.Second, slow: 0.3},
	{dropped: 0.05, refused: 0.05},
	{lost: 0.2},
	{lag: 3 * time.Second, delay: time.Second, slow: 0.2, dropped: 0.03, lost: 0.05, refused: 0.03},
}

// change changes the weather, and cuts the connections now and then.
func (f *faults) change(ctx context.Context, p *proxy) {
	defer p.set(weather{})
	for ctx.Err() == nil {
		p.set(climates[rand.Intn(len(climates))])
		if sleep(ctx, 3*time.Second, 12*time.Second) && rand.Intn(2) == 0 {
			f.tally.add("connections cut")
			p.cut()
		}
	}
}

// serving returns an error while a replica does not serve its webhooks.
func (f *faults) serving() error {
	for _, r := range f.replicas {
		dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
		connection, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.webhooks))
		if err != nil {
			return err
		}
		connection.Close()
	}
	return nil
}
