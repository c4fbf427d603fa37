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

// Command capacity is the controller of an admission check that lets as many
// workloads run as there are slots, and backs off exponentially.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	controllerName = flag.String("controller-name", "example.com/capacity", "`name` of the controller in the AdmissionChecks")
	namespace      = flag.String("namespace", "capacity", "`namespace` of the ConfigMaps")
	base           = flag.Duration("backoff-base", 30*time.Second, "delay of the first retry; it doubles with each")
	longest        = flag.Duration("backoff-cap", 10*time.Minute, "longest delay")
	jitter         = flag.Float64("backoff-jitter", 0.2, "random part that is added to a delay, as a fraction of it")
	maxRetries     = flag.Int("max-retries", 0, "number of retries after which a workload is rejected; 0: no limit")
	leaderElection = flag.String("leader-election-namespace", "", "`namespace` of the lease for leader election; empty: none")
	metrics        = flag.String("metrics-bind-address", "0", "`address` of the metrics endpoint; 0: none")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `The controller of an admission check that counts slots.

The AdmissionCheck names a ConfigMap in spec.parameters, which says how many
workloads may run at a time:

  slots: "3"

A workload that finds no free slot is retried later, with a delay that grows with
each retry.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
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
		LeaderElectionID:              "capacity.example.com",
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{*namespace: {}}},
		}},
	})
	if err != nil {
		return err
	}
	c := &controller{
		client:  mgr.GetClient(),
		reader:  mgr.GetAPIReader(),
		backoff: kit.Backoff{Base: *base, Cap: *longest, Jitter: *jitter},
	}
	if err := kit.Setup(mgr, kit.Options{
		ControllerName: *controllerName,
		Decide:         c.decide,
		Validate:       c.validate,
		Sources:        []kit.Source{{Object: &corev1.ConfigMap{}}},
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type controller struct {
	client  client.Client
	reader  client.Reader
	backoff kit.Backoff
}

// slots reads the number of slots. Its errors made by kit.Inactive are for
// those who set up the AdmissionCheck.
func (c *controller) slots(ctx context.Context, check *kueue.AdmissionCheck) (int, error) {
	if check.Spec.Parameters == nil || check.Spec.Parameters.Kind != "ConfigMap" {
		return 0, kit.Inactive("BadParameters", "spec.parameters must name a ConfigMap")
	}
	key := client.ObjectKey{Namespace: *namespace, Name: check.Spec.Parameters.Name}
	cm := &corev1.ConfigMap{}
	if err := c.client.Get(ctx, key, cm); apierrors.IsNotFound(err) {
		return 0, kit.Inactive("ConfigMapNotFound", fmt.Sprintf("There is no ConfigMap %s", key))
	} else if err != nil {
		return 0, err
	}
	slots, err := strconv.Atoi(cm.Data["slots"])
	if err != nil || slots < 0 {
		return 0, kit.Inactive("BadConfigMap", fmt.Sprintf("slots is not a number, or negative: %q", cm.Data["slots"]))
	}
	return slots, nil
}

func (c *controller) validate(ctx context.Context, check *kueue.AdmissionCheck) error {
	_, err := c.slots(ctx, check)
	return err
}

func (c *controller) decide(ctx context.Context, wl *kueue.Workload, check kit.Check) (kit.Verdict, error) {
	slots, err := c.slots(ctx, check.AdmissionCheck)
	if err != nil {
		return kit.Verdict{}, err
	}
	// Not from the cache: it may not know yet of what was just decided.
	workloads := &kueue.WorkloadList{}
	if err := c.reader.List(ctx, workloads); err != nil {
		return kit.Verdict{}, err
	}
	taken := taken(workloads.Items, check.State.Name)
	return decide(slots-taken, check.Retries(), int32(*maxRetries), c.backoff), nil
}
