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

// Command budget is the controller of an admission check that lets workloads
// start as long as the budget of their namespace lasts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

var (
	controllerName = flag.String("controller-name", "example.com/budget", "`name` of the controller in the AdmissionChecks")
	configMap      = flag.String("config-map", "budget", "`name` of the ConfigMap with the budget in each namespace")
	leaderElection = flag.String("leader-election-namespace", "", "`namespace` of the lease for leader election; empty: none")
	metrics        = flag.String("metrics-bind-address", "0", "`address` of the metrics endpoint; 0: none")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `The controller of an admission check that spends a budget.

A workload costs the CPUs that it asks for. The ConfigMap in its namespace says
how much may be spent in each period:

  limit: "20"                      # CPUs
  period: 24h
  resets: "2026-12-01T00:00:00Z"   # one of the times at which a period ends

A workload that costs more than is left is retried when the next period begins.
A namespace without the ConfigMap has no limit.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	if err := kit.AddToScheme(ctx, cfg, scheme); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: *metrics},
		LeaderElection:                *leaderElection != "",
		LeaderElectionNamespace:       *leaderElection,
		LeaderElectionID:              "budget.example.com",
		LeaderElectionReleaseOnCancel: true,
		// Of all the ConfigMaps of the cluster, only the budgets are kept in memory.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.name", *configMap)},
		}},
	})
	if err != nil {
		return err
	}
	c := &controller{client: mgr.GetClient(), reader: mgr.GetAPIReader()}
	if err := kit.Setup(mgr, kit.Options{
		ControllerName: *controllerName,
		Decide:         c.decide,
		WhileWaiting:   c.decide, // when the budget changes
		Sources: []kit.Source{{
			Object: &corev1.ConfigMap{},
			Concerns: func(obj client.Object, wl *kueue.Workload) bool {
				return obj.GetNamespace() == wl.Namespace
			},
		}},
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type controller struct {
	client client.Client
	reader client.Reader
}

func (c *controller) decide(ctx context.Context, wl *kueue.Workload, check kit.Check) (kit.Verdict, error) {
	cm := &corev1.ConfigMap{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: wl.Namespace, Name: *configMap}, cm); client.IgnoreNotFound(err) != nil {
		return kit.Verdict{}, err
	} else if err != nil {
		return kit.Ready("The namespace has no budget, and so no limit"), nil
	}
	budget, err := parse(cm.Data)
	if err != nil {
		// Someone has to repair it, and the controller sees when they do.
		return kit.Retry(time.Hour, fmt.Sprintf("The ConfigMap %s is not valid: %v", *configMap, err)), nil
	}
	// What is spent is counted in the workloads, and not from the cache: it may
	// not know yet of what this controller has just allowed.
	workloads := &kueue.WorkloadList{}
	if err := c.reader.List(ctx, workloads, client.InNamespace(wl.Namespace)); err != nil {
		return kit.Verdict{}, err
	}
	return decide(budget, workloads.Items, wl, check.State.Name, time.Now()), nil
}
