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
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/controlplane"
)

// replica is a manager that is killed and started again, and its proxy.
type replica struct {
	name       string
	kubeconfig string
	webhooks   int
	metrics    string
	health     string
	ailing     time.Time // since when health does not answer, while nothing happens
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
	// fates and serverFates are those of managers and of the API server.
	fates, serverFates deck[string]
	climates           deck[weather]
	// elections are how many managers began to lead while faults happened.
	elections atomic.Int32
}

func newFaults(plane *controlplane.ControlPlane, out string, replicas int, env []string, judge *judge, tally *tally) (*faults, error) {
	f := &faults{
		plane: plane, tally: tally, judge: judge, out: out, env: env,
		fates:       deck[string]{cards: []string{managersKilled, killedStarting, managersStopped, managersPaused, managersPaused}},
		serverFates: deck[string]{cards: []string{serverKilled, serverStopped, serverPaused}},
		climates:    deck[weather]{cards: slices.Clone(climates)},
	}
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
		address, err := controlplane.FreeAddress()
		if err != nil {
			return f, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return f, err
		}
		if r.webhooks, err = strconv.Atoi(port); err != nil {
			return f, err
		}
		addresses = append(addresses, address)
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
	r.proxy.lead(false)
	r.process, err = f.plane.StartReplica(ctx, controlplane.Replica{Name: r.name, Kubeconfig: r.kubeconfig, Webhooks: r.webhooks, Env: f.env})
	if err != nil {
		return err
	}
	r.ailing = time.Time{}
	r.metrics, r.health, err = managerAddresses(filepath.Join(f.out, r.name+".yaml"))
	return err
}

// managerAddresses are those of the metrics and of the health probe in a manager's configuration.
func managerAddresses(file string) (metrics, health string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	var config struct {
		Metrics struct {
			BindAddress string `json:"bindAddress"`
		} `json:"metrics"`
		Health struct {
			BindAddress string `json:"healthProbeBindAddress"`
		} `json:"health"`
	}
	err = yaml.Unmarshal(content, &config)
	return config.Metrics.BindAddress, config.Health.BindAddress, err
}

// gauges are those of each manager that tell of the workloads without quota, with
// all statuses together.
func (f *faults) gauges(ctx context.Context) (map[string]map[string]int, error) {
	all := map[string]map[string]int{}
	for _, r := range f.replicas {
		f.plane.Metrics = r.metrics
		families, err := f.plane.Scrape(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		all[r.name] = map[string]int{}
		for name, family := range families {
			if name != pendingGauge && (!strings.HasPrefix(name, retryGauge) || family.GetType() != dto.MetricType_GAUGE) {
				continue
			}
			for _, series := range family.Metric {
				all[r.name][name] += int(series.Gauge.GetValue())
			}
		}
	}
	return all, nil
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

func between(least, most time.Duration) time.Duration {
	return least + time.Duration(rand.Int63n(int64(most-least)+1))
}

// sleep waits for at least so long and at most so long, and tells whether the
// context goes on.
func sleep(ctx context.Context, least, most time.Duration) bool {
	select {
	case <-time.After(between(least, most)):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// What happens to managers and to the API server, as it is counted.
const (
	managersKilled  = "managers killed"
	killedStarting  = "managers killed as they started"
	killedLeading   = "managers killed as they began to lead"
	managersStopped = "managers stopped"
	managersPaused  = "managers paused"
	gaveUp          = "managers that gave up"
	probeFailed     = "managers restarted by their probe"
	serverKilled    = "API server killed"
	serverStopped   = "API server stopped"
	serverPaused    = "API server paused"
)

// deck deals its cards in any order, but each of them before one comes again: a few
// minutes have all of them.
type deck[T any] struct {
	mu    sync.Mutex
	cards []T
	dealt int
}

func (d *deck[T]) deal() T {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dealt == 0 {
		rand.Shuffle(len(d.cards), func(i, j int) { d.cards[i], d.cards[j] = d.cards[j], d.cards[i] })
	}
	card := d.cards[d.dealt]
	d.dealt = (d.dealt + 1) % len(d.cards)
	return card
}

// young is how old a manager is at most that is killed as it starts, or as it begins
// to lead.
const young = 2 * time.Second

// harass kills, stops and pauses a replica, and starts it again. What it has begun
// when the context ends it brings to its end.
func (f *faults) harass(ctx, after context.Context, r *replica) error {
	select {
	case <-r.proxy.elected: // a while ago
	default:
	}
	next := time.After(between(4*time.Second, 40*time.Second))
	for ctx.Err() == nil {
		select {
		case <-next:
			next = time.After(between(4*time.Second, 40*time.Second))
			switch what := f.fates.deal(); what {
			case managersPaused:
				f.tally.add(what)
				r.process.Signal(syscall.SIGSTOP)
				sleep(ctx, time.Second, 10*time.Second)
				r.process.Signal(syscall.SIGCONT)
				continue
			case killedStarting:
				f.end(r, managersKilled)
				if err := f.start(after, r); err != nil {
					return err
				}
				sleep(after, 0, young)
				f.end(r, what)
			default:
				f.end(r, what)
			}
		case <-r.proxy.elected:
			// Some have to lead for longer.
			if f.elections.Add(1)%2 == 0 {
				continue
			}
			sleep(after, 0, young)
			f.end(r, killedLeading)
		case <-r.process.Exited():
			f.tally.add(gaveUp)
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

// end ends a manager, unless it has given up: it could not reach the API server, or
// renew its lease.
func (f *faults) end(r *replica, what string) {
	select {
	case <-r.process.Exited():
		f.tally.add(gaveUp)
		return
	default:
	}
	f.tally.add(what)
	if what == managersStopped {
		r.process.Stop()
		return
	}
	r.process.Signal(syscall.SIGKILL)
	<-r.process.Exited()
}

// probePatience is how long a manager's health may not answer while nothing happens.
const probePatience = 20 * time.Second

// isAiling returns true if the health of the manager has not answered for so long that a
// kubelet would restart it.
func (r *replica) isAiling(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.health+"/healthz", nil)
	if err != nil {
		return true
	}
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		r.ailing = time.Time{}
		return false
	}
	if r.ailing.IsZero() {
		r.ailing = time.Now()
	}
	return time.Since(r.ailing) > probePatience
}

// revive starts the replicas again that have given up, and restarts those whose probe
// fails: v0.19.2 hangs where its first requests fail, before it serves any webhook.
func (f *faults) revive(ctx context.Context) error {
	for _, r := range f.replicas {
		select {
		case <-r.process.Exited():
			f.tally.add(gaveUp)
			sleep(ctx, time.Second, time.Second)
			if err := f.start(ctx, r); err != nil {
				return err
			}
		default:
			if !r.isAiling(ctx) {
				continue
			}
			f.end(r, probeFailed)
			if err := f.start(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// harassServer kills, stops and pauses the API server.
func (f *faults) harassServer(ctx, after context.Context) error {
	for sleep(ctx, 8*time.Second, 40*time.Second) {
		what := f.serverFates.deal()
		f.tally.add(what)
		signal := syscall.SIGTERM
		switch what {
		case serverPaused:
			if err := f.plane.SignalServer(syscall.SIGSTOP); err != nil {
				return err
			}
			sleep(ctx, time.Second, 6*time.Second)
			if err := f.plane.SignalServer(syscall.SIGCONT); err != nil {
				return err
			}
			continue
		case serverKilled:
			signal = syscall.SIGKILL
		}
		if err := f.plane.RestartServer(after, signal, between(0, 3*time.Second)); err != nil {
			return err
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
		p.set(f.climates.deal())
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
