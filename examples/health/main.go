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

// Command health is the controller of an admission check that holds workloads
// back while the API server is slow.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

var (
	controllerName = flag.String("controller-name", "example.com/health", "`name` of the controller in the AdmissionChecks")
	slow           = flag.Duration("slow", 500*time.Millisecond, "latency of the API server's /readyz above which it is too slow")
	base           = flag.Duration("delay", 10*time.Second, "delay at that latency; it grows in proportion")
	longest        = flag.Duration("max-delay", 10*time.Minute, "longest delay, also while the API server is not ready")
	every          = flag.Duration("every", 5*time.Second, "time between two measurements")
	leaderElection = flag.String("leader-election-namespace", "", "`namespace` of the lease for leader election; empty: none")
	metrics        = flag.String("metrics-bind-address", "0", "`address` of the metrics endpoint; 0: none")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `The controller of an admission check that holds workloads back while the API
server is slow.

It measures the latency of the API server's /readyz. The delay that it asks for
grows with the latency.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := kit.AddToScheme(ctx, cfg, scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: *metrics},
		LeaderElection:                *leaderElection != "",
		LeaderElectionNamespace:       *leaderElection,
		LeaderElectionID:              "health.example.com",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	p, err := newProbe(cfg)
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(p.run)); err != nil {
		return err
	}
	limits := limits{slow: *slow, delay: *base, longest: *longest}
	if err := kit.Setup(mgr, kit.Options{
		ControllerName: *controllerName,
		Poll:           time.Second, // until there is a measurement
		Decide: func(context.Context, *kueue.Workload, kit.Check) (kit.Verdict, error) {
			return decide(p.latest(), limits), nil
		},
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// probe measures on its own, and not for each workload: many of them must not
// be a load for an API server that is slow.
type probe struct {
	client rest.Interface
	lock   sync.Mutex
	last   measurement
}

func newProbe(cfg *rest.Config) (*probe, error) {
	own := rest.CopyConfig(cfg)
	own.Timeout = 10 * time.Second
	c, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, err
	}
	return &probe{client: c.RESTClient()}, nil
}

func (p *probe) run(ctx context.Context) error {
	for {
		start := time.Now()
		err := p.client.Get().AbsPath("/readyz").Do(ctx).Error()
		measured := measurement{taken: true, latency: time.Since(start), err: err}
		p.lock.Lock()
		p.last = measured
		p.lock.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*every):
		}
	}
}

func (p *probe) latest() measurement {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.last
}
