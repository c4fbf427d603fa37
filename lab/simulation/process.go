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

package simulation

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sort"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/multikueue"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// process is a running manager: the one that cmd/kueue sets up, without
// webhooks and servers.
type process struct {
	started         time.Time
	name            string
	cancel, cleanUp context.CancelFunc
	dead            chan struct{}
	done            chan error
	mgr             ctrl.Manager
	queues          *qcache.Manager
	cache           *schdcache.Cache
	// leads is the time since when the process leads, in nanoseconds.
	leads atomic.Int64
}

func (w *World) startProcess(name string) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, started: time.Now(), cancel: cancel, dead: make(chan struct{}), done: make(chan error, 1)}
	w.newest = p
	gate := func(req *http.Request, call *memapi.Call) memapi.Fate { return w.hold(req.Context(), p, call) }
	workers := 2
	if w.config.Replicas > 1 {
		// Those of upstream's leader-aware reconciler share an object: a data race.
		workers = 1
	}
	mgr, err := ctrl.NewManager(w.withClock(name, w.api.Config(name, gate)), ctrl.Options{
		Scheme:         scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.New(config, options)
			return sortedClient{c, w, p}, err
		},
		Logger:                  logger,
		Metrics:                 server.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		LeaderElection:          w.config.Replicas > 1,
		LeaderElectionID:        configapi.DefaultLeaderElectionID,
		LeaderElectionNamespace: systemNamespace,
		Controller: ctrlconfig.Controller{
			// Controllers of several processes share the names.
			SkipNameValidation:   ptr.To(true),
			GroupKindConcurrency: map[string]int{"Workload.kueue.x-k8s.io": workers, "Job.batch": workers},
		},
	})
	if err != nil {
		return nil, err
	}
	p.mgr = manager{mgr, w, p}
	if err := w.setUp(ctx, p); err != nil {
		return nil, fmt.Errorf("setting up %s: %w", name, err)
	}
	if err := fillCache(ctx, mgr.GetCache()); err != nil {
		return nil, fmt.Errorf("the cache of %s: %w", name, err)
	}
	// They wake up the scheduler, which has to see then that its context is done.
	var cleanUp context.Context
	cleanUp, p.cleanUp = context.WithCancel(context.Background())
	go p.queues.CleanUpOnContext(cleanUp)
	go p.cache.CleanUpOnContext(cleanUp)
	go func() {
		select {
		case <-mgr.Elected():
			p.leads.Store(time.Now().UnixNano())
		case <-ctx.Done():
		}
	}()
	go func() { p.done <- mgr.Start(ctx) }()
	return p, nil
}

// fillCache has the manager start with all kinds in its cache. The first read of
// one that is not there waits by the clock, at times under a lock of the queues;
// and while another goroutine wants that lock, the clock of the bubble stands still.
func fillCache(ctx context.Context, informers cache.Informers) error {
	for _, r := range resources {
		if r.GVK.Kind == "Event" || r.GVK.Kind == "Lease" {
			continue
		}
		obj, err := scheme.New(r.GVK)
		if err != nil {
			return err
		}
		if _, err := informers.GetInformer(ctx, obj.(client.Object)); err != nil {
			return err
		}
	}
	return nil
}

// sortedClient lists in the order of names: that of informers is random.
type sortedClient struct {
	client.Client
	world   *World
	process *process
}

func (c sortedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	sort.SliceStable(items, func(i, j int) bool {
		return items[i].(client.Object).GetName() < items[j].(client.Object).GetName()
	})
	if selector := new(client.ListOptions).ApplyOptions(opts).FieldSelector; c.world.config.Late && selector != nil {
		// Other lists are made with locks held.
		if _, found := selector.RequiresExactMatch(indexer.WorkloadQuotaReservedKey); found {
			c.world.turn(ctx, c.process, "looks at the pending workloads", false)
		}
	}
	return meta.SetList(list, items)
}

func (c sortedClient) Status() client.SubResourceWriter {
	return statusWriter{c.Client.Status(), c.process}
}

// statusWriter does not return to a process that was killed meanwhile. What follows
// a write would otherwise wait for ever: the queues tell a controller of a refused
// reservation, and nobody listens any more.
type statusWriter struct {
	client.SubResourceWriter
	process *process
}

func (w statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	err := w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	select {
	case <-w.process.dead:
		runtime.Goexit()
	default:
	}
	return err
}

// manager records no events, which nobody here looks at, and may be late to
// handle those of workloads.
type manager struct {
	ctrl.Manager
	world   *World
	process *process
}

func (m manager) GetCache() cache.Cache {
	if !m.world.config.Late {
		return m.Manager.GetCache()
	}
	return lateCache{m.Manager.GetCache(), m}
}

// Add adds all but what watches files: a bubble does not wait for those.
func (m manager) Add(runnable ctrlmanager.Runnable) error {
	if _, found := runnable.(*multikueue.KubeConfigFSWatcher); found {
		return nil
	}
	return m.Manager.Add(runnable)
}

type lateCache struct {
	cache.Cache
	manager manager
}

func (c lateCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, opts...)
	return lateInformer{informer, c.manager}, err
}

type lateInformer struct {
	cache.Informer
	manager manager
}

func (i lateInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	// The workload controller, which tells the queues, is the one with this type.
	if strings.Contains(fmt.Sprintf("%T", handler), kueue.SchemeGroupVersion.Version+".Workload,") {
		handler = lateHandler{handler, i.manager}
	}
	return i.Informer.AddEventHandlerWithOptions(handler, options)
}

type lateHandler struct {
	toolscache.ResourceEventHandler
	manager manager
}

func (h lateHandler) OnUpdate(old, obj any) {
	wl := obj.(client.Object)
	h.manager.world.turn(context.Background(), h.manager.process, fmt.Sprintf("handles workloads/%s@%s", wl.GetName(), wl.GetResourceVersion()), false)
	h.ResourceEventHandler.OnUpdate(old, obj)
}

// kill stops the process as a crash does: what it wanted to write is lost.
func (p *process) kill() {
	// While they start, the groups of a manager spin when their context ends.
	for {
		synctest.Wait() // it may be elected at this moment
		young := time.Until(later(p.started, time.Unix(0, p.leads.Load())).Add(time.Second))
		if young <= 0 {
			break
		}
		time.Sleep(young)
	}
	close(p.dead)
	p.cancel()
	<-p.done
	p.cleanUp()
	time.Sleep(time.Second)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
