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
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/workloadslicing"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// Config is what a schedule runs on.
type Config struct {
	// Replicas is the number of managers, of which one leads.
	Replicas int
	// PodsReady: WaitForPodsReady is on, with a timeout and a backoff.
	PodsReady bool
	// OnFlavors: check b is asked for on the first flavor only.
	OnFlavors bool
	// Provisioning: check p is that of the ProvisioningRequest controller. LongName: its
	// name is so long that the names of its requests are cut.
	Provisioning, LongName bool
	// KeepRequests: the requests of a workload that is evicted stay; where requestsGate
	// is empty, they always do.
	KeepRequests bool
	// SwitchGate: the gate is switched in between. It ends switched on, unless
	// EndsOff.
	SwitchGate, EndsOff bool
	// Late: a manager has an event in its cache some time before it handles it,
	// and its list of the pending workloads may be old when it uses it.
	Late bool
	// Slow: a manager may see what it has written before it is answered.
	Slow bool
	// Retention: jobs are deleted some time after Kueue has deactivated them.
	Retention bool
	// Strict: the ClusterQueue is StrictFIFO.
	Strict bool
	// Policy: policyCheck has a policy.
	Policy bool
	// Cohort: there is another ClusterQueue, which lends and borrows, and jobs are
	// moved to it. FairSharing: what one has borrowed decides who is next.
	Cohort, FairSharing bool
	// Blocking, with PodsReady: nobody is admitted while the pods of others are unready.
	Blocking bool
	// Controllers is how many replicas the controller of a check has, each with a
	// cache of its own; none is one.
	Controllers int
	// Clocks are the seconds by which the clocks of the managers are ahead of the API
	// server's: of the first, the second and the third that is started, and so on.
	Clocks [3]int
	// Topology: jobs ask for a node of their flavor, which they get in a second pass.
	Topology bool
	// Pods: every other job is a plain pod, or a group of one. JobSets: it is a JobSet.
	Pods, JobSets bool
	// MaxExecution: every other job may run for some seconds only.
	MaxExecution bool
	// Elastic: every other job is an elastic one, which is scaled.
	Elastic bool
	// MultiKueue: jobs run in one of two worker clusters, which a check has chosen.
	MultiKueue bool
}

func (c *Config) provisioningCheck() kueue.AdmissionCheckReference {
	if c.LongName {
		return longNameCheck
	}
	return provisioningCheck
}

const (
	namespace    = "default"
	clusterQueue = "cq"
	localQueue   = "lq"

	// Those beside them, if there is a cohort. They have the same name.
	otherQueue = "other"

	podsReadyTimeout = 4 * time.Second
	podsReadyBase    = 6  // seconds
	podsReadyMax     = 20 // seconds

	retention = 5 * time.Second

	// cpus is what the ClusterQueue has, or the cohort, of which a job asks for one.
	cpus = 3

	// The retry strategy of the ProvisioningRequests.
	provisioningLimit = 2
	provisioningBase  = 3  // seconds
	provisioningMax   = 10 // seconds
)

// checkNames are those whose controllers are outside.
var checkNames = []kueue.AdmissionCheckReference{"a", "b"}

// provisioningCheck and longNameCheck are the checks of the ProvisioningRequest controller. The
// names of the requests of the second would be too long, and are cut.
const provisioningCheck kueue.AdmissionCheckReference = "p"

var longNameCheck = provisioningCheck + kueue.AdmissionCheckReference(strings.Repeat("-long", 49))

func isProvisioning(check kueue.AdmissionCheckReference) bool {
	return check == provisioningCheck || check == longNameCheck
}

const policyCheck kueue.AdmissionCheckReference = "b"

const policyLimit = 1

// policyBases are the delays, in seconds, between which OpPolicy changes. The policy
// begins with the first, which is the shortest.
var policyBases = []int32{3, 9}

// retryPolicy is that of policyCheck. The judge knows what follows from it.
func retryPolicy(base int32) *kueue.AdmissionCheckRetryPolicy {
	return &kueue.AdmissionCheckRetryPolicy{
		Strategy:         kueue.AdmissionCheckRetryBackoff,
		BaseDelaySeconds: base,
		Jitter:           ptr.To(resource.MustParse("1")),
		LimitCount:       ptr.To[int32](policyLimit),
	}
}

// World is the API, the managers that run on it, and what is outside of them.
type World struct {
	config Config
	api    *memapi.Server
	admin  client.Client
	checks map[kueue.AdmissionCheckReference][]*checkController
	judge  *judge
	start  time.Time

	// broken is the time at which a watch was broken last.
	broken time.Time

	procs   []*process
	newest  *process
	workers []*worker
	// lostWorker is when one was lost last, which may come back with an older copy, or
	// zero. Kueue does not see at once that it is back.
	lostWorker time.Time
	// restored: Kueue sees all of them again, to the end.
	restored bool
	started  int
	jobs     int
	replaced int // pods of groups
	limits   int
	// busy is how often checks still answer with a Retry at once.
	busy       int
	busyManner manner

	// converted has the Go types of the workloads' versions.
	converted sync.Map

	mu      sync.Mutex
	pending []*held
	// lastWrites are the last ones that passed, by manager and object.
	lastWrites map[string]*held
	trace      []string
}

// held is what waits for its turn in a manager: a write, and with other fates than
// Pass no more than that, the answer to one, or an event that is to be handled.
type held struct {
	process *process
	what    string
	isWrite bool
	since   time.Time
	passed  time.Time
	seen    seen
	fate    chan memapi.Fate
}

func newWorld(config Config) (*World, error) {
	metrics.PendingWorkloads.Reset() // all runs of this process share it
	w := &World{config: config, start: time.Now(), checks: make(map[kueue.AdmissionCheckReference][]*checkController), lastWrites: make(map[string]*held)}
	w.judge = newJudge(w)
	if err := errors.Join(setFeature(requestsGate, !config.KeepRequests), setFeature(podsGate, false), setFeature(features.ACRetryStrategy, config.Policy), setElastic(config.Elastic)); err != nil {
		return nil, err
	}
	w.api = memapi.NewServer(scheme, resources, memapi.Options{OnWrite: w.judge.onWrite, OnList: w.judge.listed})
	var err error
	if w.admin, err = w.client("admin"); err != nil {
		return nil, err
	}
	for _, name := range checkNames {
		c, err := w.client("check-" + string(name))
		if err != nil {
			return nil, err
		}
		for range max(config.Controllers, 1) {
			w.checks[name] = append(w.checks[name], &checkController{name: name, client: c, world: w, seen: make(map[string]*unstructured.Unstructured)})
		}
	}
	if err := w.startWorkers(); err != nil {
		return nil, err
	}
	if err := w.populate(); err != nil {
		return nil, err
	}
	for range config.Replicas {
		if err := w.startNext(); err != nil {
			return nil, err
		}
		// The first one leads.
		if err := w.settle(rand.New(rand.NewPCG(0, 0))); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *World) client(caller string) (client.Client, error) {
	return client.New(w.api.Config(caller, nil), client.Options{Scheme: scheme, Mapper: mapper})
}

func (w *World) populate() error {
	ctx := context.Background()
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
		&kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -100},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: localQueue, Namespace: namespace}, Spec: kueue.LocalQueueSpec{ClusterQueue: clusterQueue}},
	}
	objects = append(objects, w.flavors()...)
	objects = append(objects, w.multiKueue()...)
	for _, name := range checkNames {
		ac := &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: string(name)}, Spec: kueue.AdmissionCheckSpec{ControllerName: "example.com/check"}}
		if w.config.Policy && name == policyCheck {
			ac.Spec.Retry = retryPolicy(policyBases[0])
		}
		objects = append(objects, ac)
	}
	if w.config.Provisioning {
		objects = append(objects, &kueue.ProvisioningRequestConfig{
			ObjectMeta: metav1.ObjectMeta{Name: "config"},
			Spec: kueue.ProvisioningRequestConfigSpec{
				ProvisioningClassName: "class",
				RetryStrategy: &kueue.ProvisioningRequestRetryStrategy{
					BackoffLimitCount: ptr.To[int32](provisioningLimit), BackoffBaseSeconds: ptr.To[int32](provisioningBase), BackoffMaxSeconds: ptr.To[int32](provisioningMax),
				},
			},
		}, &kueue.AdmissionCheck{ObjectMeta: metav1.ObjectMeta{Name: string(w.config.provisioningCheck())}, Spec: kueue.AdmissionCheckSpec{
			ControllerName: kueue.ProvisioningRequestControllerName,
			Parameters:     &kueue.AdmissionCheckParametersReference{APIGroup: kueue.SchemeGroupVersion.Group, Kind: "ProvisioningRequestConfig", Name: "config"},
		}})
	}
	if w.config.Cohort {
		objects = append(objects,
			&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: otherQueue, Namespace: namespace}, Spec: kueue.LocalQueueSpec{ClusterQueue: otherQueue}},
			w.queue(clusterQueue, 1, 1, checkNames...), w.queue(otherQueue, cpus-2, 0, "b"))
	} else {
		objects = append(objects, w.queue(clusterQueue, cpus-1, 1, checkNames...))
	}
	for _, obj := range objects {
		if err := w.admin.Create(ctx, obj); err != nil {
			return err
		}
	}
	w.restoreNodes()
	for _, name := range checkNames {
		ac := &kueue.AdmissionCheck{}
		if err := w.admin.Get(ctx, client.ObjectKey{Name: string(name)}, ac); err != nil {
			return err
		}
		ac.Status.Conditions = []metav1.Condition{{Type: kueue.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active", LastTransitionTime: metav1.Now()}}
		if err := w.admin.Status().Update(ctx, ac); err != nil {
			return err
		}
	}
	return nil
}

// queue returns a ClusterQueue with so much of each flavor.
func (w *World) queue(name string, f1, f2 int64, checks ...kueue.AdmissionCheckReference) *kueue.ClusterQueue {
	quota := func(flavor kueue.ResourceFlavorReference, cpu int64) kueue.FlavorQuotas {
		return kueue.FlavorQuotas{Name: flavor, Resources: []kueue.ResourceQuota{{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(cpu, resource.DecimalSI)}}}
	}
	cq := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			QueueingStrategy:  kueue.BestEffortFIFO,
			Preemption:        &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors:          []kueue.FlavorQuotas{quota("f1", f1), quota("f2", f2)},
			}},
			AdmissionChecksStrategy: w.strategy(checks...),
		},
	}
	if w.config.Strict {
		cq.Spec.QueueingStrategy = kueue.StrictFIFO
	}
	if w.config.Cohort {
		joinCohort(&cq.Spec, "team")
		cq.Spec.Preemption.ReclaimWithinCohort = kueue.PreemptionPolicyAny
	}
	return cq
}

// strategy is how a ClusterQueue asks for the checks.
func (w *World) strategy(names ...kueue.AdmissionCheckReference) *kueue.AdmissionChecksStrategy {
	s := &kueue.AdmissionChecksStrategy{}
	for _, name := range names {
		rule := kueue.AdmissionCheckStrategyRule{Name: name}
		if w.config.OnFlavors && name == "b" {
			rule.OnFlavors = []kueue.ResourceFlavorReference{"f1"}
		}
		s.AdmissionChecks = append(s.AdmissionChecks, rule)
	}
	if w.config.Provisioning {
		s.AdmissionChecks = append(s.AdmissionChecks, kueue.AdmissionCheckStrategyRule{Name: w.config.provisioningCheck()})
	}
	if w.config.MultiKueue {
		s.AdmissionChecks = append(s.AdmissionChecks, kueue.AdmissionCheckStrategyRule{Name: multiKueueCheck})
	}
	return s
}

func (w *World) configuration() *configapi.Configuration {
	cfg := &configapi.Configuration{Namespace: ptr.To(systemNamespace)}
	if w.config.PodsReady {
		cfg.WaitForPodsReady = waitForPodsReady()
		cfg.WaitForPodsReady.BlockAdmission = ptr.To(w.config.Blocking)
	}
	if w.config.FairSharing {
		cfg.FairSharing = fairSharing()
	}
	if w.config.Replicas > 1 {
		cfg.LeaderElection = &leaderElection
	}
	if w.config.Retention {
		cfg.ObjectRetentionPolicies = &configapi.ObjectRetentionPolicies{Workloads: &configapi.WorkloadRetentionPolicy{AfterDeactivatedByKueue: &metav1.Duration{Duration: retention}}}
	}
	return cfg
}

// hold makes a write of a manager wait for its turn. Only the objects that the
// rules are about are held.
func (w *World) hold(ctx context.Context, p *process, call *memapi.Call) memapi.Fate {
	select {
	case <-p.dead:
		return memapi.Lost
	default:
	}
	switch call.GVR.Resource {
	case "workloads", "jobs", "pods", "jobsets", "provisioningrequests":
	default:
		return memapi.Pass
	}
	call.Answered = func(err error) {
		w.judge.answered(call, err)
		if w.config.Slow && call.GVR.Resource == "workloads" {
			w.turn(ctx, p, call.String()+" is answered", false)
		}
	}
	return w.turn(ctx, p, call.String(), true)
}

// turn blocks until it is the turn of a manager's write, answer or event.
func (w *World) turn(ctx context.Context, p *process, what string, isWrite bool) memapi.Fate {
	h := &held{process: p, what: what, isWrite: isWrite, since: time.Now(), seen: w.judge.seenBy(p.name), fate: make(chan memapi.Fate, 1)}
	verb, object, _ := strings.Cut(what, " ")
	w.mu.Lock()
	// A job that is deleted right after it was written is deleted for what was read before that.
	isJob := strings.HasPrefix(object, "jobs/") || strings.HasPrefix(object, "jobsets/")
	object = p.name + " " + object
	if before := w.lastWrites[object]; isJob && verb == "DELETE" && before != nil && before.passed.Equal(h.since) {
		h.seen = before.seen
	}
	w.pending = append(w.pending, h)
	w.mu.Unlock()
	select {
	case fate := <-h.fate:
		if isWrite {
			w.mu.Lock()
			h.passed, w.lastWrites[object] = time.Now(), h
			w.mu.Unlock()
		}
		return fate
	case <-p.dead:
		return memapi.Lost
	case <-ctx.Done():
		return memapi.Lost
	}
}

// quiesce lets everything run until it waits for a move, or for time to pass.
// What nobody cares about the order of is delivered at once.
func (w *World) quiesce() error {
	for {
		time.Sleep(time.Microsecond) // for timers of zero
		synctest.Wait()
		delivered := false
		for _, watch := range w.api.Watches() {
			switch watch.GVR.Resource {
			case "workloads", "jobs", "pods", "jobsets", "provisioningrequests":
				continue
			case "clusterqueues", "localqueues":
				if !watch.NextIsStatus() {
					continue
				}
			}
			if err := watch.Deliver(); err != nil {
				return err
			}
			delivered = true
		}
		if !delivered {
			return nil
		}
	}
}

// moves returns what can happen next, in an order that does not depend on
// goroutines.
func (w *World) moves() []func() error {
	moves := w.corrections()
	if w.busy > 0 {
		moves = append(moves, w.answers()...)
	}
	for _, k := range w.workers {
		moves = append(moves, k.moves()...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	live := w.pending[:0]
	for _, h := range w.pending {
		select {
		case <-h.process.dead:
		default:
			live = append(live, h)
		}
	}
	w.pending = live
	sort.SliceStable(w.pending, func(i, j int) bool { return w.pending[i].String() < w.pending[j].String() })
	for i := range w.pending {
		moves = append(moves, func() error { return w.release(i, memapi.Pass) })
	}
	for _, watch := range w.api.Watches() {
		moves = append(moves, func() error {
			event := watch.Next()
			// Before it is sent: on other threads its receiver runs at once.
			w.judge.delivered(watch.Caller, event)
			switch watch.GVR.Resource {
			case "clusterqueues", "localqueues":
				// How often their status is written is of no interest.
				event, _, _ = strings.Cut(event, "@")
			}
			w.note("  %s sees %s", watch.Caller, event)
			return watch.Deliver()
		})
	}
	return moves
}

func (h *held) String() string {
	return h.process.name + " " + h.what
}

func (w *World) release(i int, fate memapi.Fate) error {
	w.mu.Lock()
	if i >= len(w.pending) {
		w.mu.Unlock()
		return nil
	}
	h := w.pending[i]
	w.pending = append(w.pending[:i:i], w.pending[i+1:]...)
	w.mu.Unlock()
	if fate != memapi.Pass {
		w.note("  %s is %s", h, map[memapi.Fate]string{memapi.Lost: "lost", memapi.Unanswered: "not answered"}[fate])
	}
	if !h.isWrite {
		w.note("  %s", h)
	} else if fate != memapi.Lost {
		w.judge.decides(h.since.Add(w.ahead(h.process.name)), h.seen, fate == memapi.Unanswered)
	}
	h.fate <- fate
	synctest.Wait()
	return w.judge.failure()
}

// advance makes up to n moves, which rng chooses.
func (w *World) advance(n int, rng *rand.Rand) error {
	for range n {
		if err := w.quiesce(); err != nil {
			return err
		}
		moves := w.moves()
		if len(moves) == 0 {
			return w.judge.failure()
		}
		if err := moves[rng.IntN(len(moves))](); err != nil {
			return err
		}
	}
	return w.judge.failure()
}

// settle makes moves until nothing is left to do at this time.
func (w *World) settle(rng *rand.Rand) error {
	const limit, polls = 3000, 30 * time.Second
	quiet := []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second}
	if time.Since(w.broken) < 5*time.Second {
		// Informers wait before they watch again.
		quiet = append(quiet, 2*time.Second)
	}
	start := time.Now()
	wrote, idle := w.judge.lastChange(), 0
	for n, calm := 0, 0; ; n++ {
		if n > limit {
			rule := "rule 5, no rest"
			if !features.Enabled(features.ACRequeueAfter) {
				rule = endOfBase // it writes requeueAt of what is deactivated, and removes it, without end
			}
			return &Violation{Rule: rule, Detail: fmt.Sprintf("%d moves and still more to come: %v", limit, w.pending)}
		}
		if err := w.quiesce(); err != nil {
			return err
		}
		moves := w.moves()
		switch {
		case len(moves) > 0:
			calm = 0
			if at := w.judge.lastChange(); at.After(wrote) || time.Since(w.broken) > 5*time.Second {
				wrote, idle = at, 0
			} else if idle++; idle%50 == 0 {
				// The base tries a merge patch that is refused again at once, and an informer that
				// has to list again waits.
				time.Sleep(200 * time.Millisecond)
			}
			if err := moves[rng.IntN(len(moves))](); err != nil {
				return err
			}
		case w.runJobs():
			calm = 0
		case time.Since(start) > polls && time.Since(w.judge.lastChange()) > polls:
			// Requests that write nothing: v0.19 looks so for what is to run in a worker.
			return w.judge.failure()
		case calm == len(quiet):
			return w.judge.failure()
		default:
			time.Sleep(quiet[calm])
			calm++
		}
	}
}

func (w *World) startNext() error {
	w.started++
	name := fmt.Sprintf("kueue-%d", w.started)
	p, err := w.startProcess(name)
	if err == nil {
		w.procs = append(w.procs, p)
	}
	return err
}

// crash stops a process without warning and starts another.
func (w *World) crash(i int) error {
	p := w.procs[i]
	w.procs = append(w.procs[:i:i], w.procs[i+1:]...)
	p.kill()
	w.judge.crashed()
	return w.startNext()
}

// setFeature switches a gate, if the base has it, in a test that sets it back.
func setFeature(gate featuregate.Feature, on bool) error {
	if gate == "" {
		return nil
	}
	return utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("%s=%v", gate, on))
}

// setGate starts all processes anew with the gate on or off.
func (w *World) setGate(on bool) error {
	w.note("all managers stop, and start with the gate on: %v", on)
	w.stop()
	w.judge.switched(on)
	// At once, as the second depends on the first.
	gates := map[string]bool{string(features.ACRequeueAfter): on, string(features.ACRetryStrategy): on && w.config.Policy}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	for range w.config.Replicas {
		if err := w.startNext(); err != nil {
			return err
		}
	}
	return nil
}

// isLed returns true if a process leads for long enough to have caught up: what
// it saw before, it looks at again after the duration of a lease.
func (w *World) isLed() bool {
	for _, p := range w.procs {
		since := p.leads.Load()
		if since > 0 && (w.config.Replicas == 1 || time.Since(time.Unix(0, since)) > leaderElection.LeaseDuration.Duration+3*time.Second) {
			return true
		}
	}
	return false
}

func (w *World) stop() {
	for _, p := range w.procs {
		p.kill()
	}
	w.procs = nil
}

func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf("%8.3fs ", time.Since(w.start).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	w.trace = append(w.trace, strings.TrimRight(line, "\n"))
	w.mu.Unlock()
}

// workloads returns the workloads as the API has them, by name.
func (w *World) workloads() []*kueue.Workload {
	var result []*kueue.Workload
	for _, obj := range w.api.List(workloads) {
		result = append(result, w.workload(obj))
	}
	return result
}

func (w *World) createJob(queue, priority string) {
	w.jobs++
	name := fmt.Sprintf("j%d", w.jobs)
	isOther := w.jobs%2 == 1
	switch {
	case isOther && w.config.Pods:
		labels := map[string]string{constants.QueueLabel: queue, managedPod: "true"}
		if w.jobs%4 == 3 {
			labels[podGroup] = name
		}
		if priority != "" {
			labels[constants.WorkloadPriorityClassLabel] = priority
		}
		w.createPod(name, labels)
		return
	case isOther && w.config.JobSets:
		w.createJobSet(name, queue, priority)
		return
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{constants.QueueLabel: queue},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), Suspend: ptr.To(true),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}}},
			}},
		},
	}
	if w.config.Topology {
		job.Spec.Template.Annotations = map[string]string{kueue.PodSetRequiredTopologyAnnotation: corev1.LabelHostname}
	}
	if isOther && w.config.MaxExecution {
		job.Labels[constants.MaxExecTimeSecondsLabel] = "6"
	}
	if isOther && w.config.Elastic {
		job.Annotations = map[string]string{workloadslicing.EnabledAnnotationKey: workloadslicing.EnabledAnnotationValue}
		job.Spec.Completions = ptr.To[int32](maxPods)
	}
	if w.config.MultiKueue && jobsAreManagedBy {
		job.Spec.ManagedBy = ptr.To(kueue.MultiKueueControllerName)
	}
	if priority != "" {
		job.Labels[constants.WorkloadPriorityClassLabel] = priority
	}
	w.note("job %s is created in %s, priority %q", job.Name, queue, priority)
	if err := w.admin.Create(context.Background(), job); err != nil {
		panic(err)
	}
}

// runJobs does what the Job controller and the kubelet do, and returns whether
// there was anything to do.
func (w *World) runJobs() bool {
	changed := w.collectGarbage()
	changed = w.runPods() || changed
	changed = w.runJobSets() || changed
	changed = w.runWorkers() || changed
	for _, obj := range w.api.List(batchv1.SchemeGroupVersion.WithResource("jobs")) {
		job := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, job); err != nil {
			panic(err)
		}
		if job.Spec.ManagedBy != nil {
			continue
		}
		want := *job.Spec.Parallelism
		if ptr.Deref(job.Spec.Suspend, false) || jobFinished(job) {
			want = 0
		}
		ready := want
		if w.judge.unready[job.Name] {
			ready = 0
		}
		if job.Status.Active == want && ptr.Deref(job.Status.Ready, 0) == ready {
			continue
		}
		job.Status.Active, job.Status.Ready = want, ptr.To(ready)
		if err := w.admin.Status().Update(context.Background(), job); err == nil {
			changed = true
			w.note("job %s has %d pods, %d ready", job.Name, want, ready)
		}
	}
	return changed
}

// collectGarbage deletes the workloads that were made by somebody who did not know yet that
// the job is gone. The API in memory deletes those that are there when it goes.
func (w *World) collectGarbage() bool {
	jobs := sets.New[types.UID]()
	for _, kind := range []schema.GroupVersionResource{
		batchv1.SchemeGroupVersion.WithResource("jobs"), jobsetapi.SchemeGroupVersion.WithResource("jobsets"), corev1.SchemeGroupVersion.WithResource("pods"),
	} {
		for _, job := range w.api.List(kind) {
			jobs.Insert(job.GetUID())
		}
	}
	isOwned := func(owner metav1.OwnerReference) bool { return jobs.Has(owner.UID) }
	changed := false
	for _, wl := range w.api.List(workloads) {
		owners := wl.GetOwnerReferences()
		if wl.GetDeletionTimestamp() == nil && len(owners) > 0 && !slices.ContainsFunc(owners, isOwned) {
			w.note("%s, whose job is gone, is deleted", wl.GetName())
			changed = w.admin.Delete(context.Background(), wl.DeepCopy()) == nil || changed
		}
	}
	if changed {
		// It is not the fastest: an informer that has to list again does so meanwhile.
		time.Sleep(200 * time.Millisecond)
	}
	return changed
}

func jobFinished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func (w *World) finishJob(name string) {
	if w.config.MultiKueue {
		w.finishRemote(name)
		return
	}
	job := &batchv1.Job{}
	if err := w.admin.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, job); err != nil {
		w.finishPod(name)
		w.finishJobSet(name)
		return
	}
	if w.isScaling(job) {
		return
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	job.Status.Active, job.Status.Succeeded, job.Status.Ready = 0, 1, ptr.To[int32](0)
	if err := w.admin.Status().Update(context.Background(), job); err == nil {
		w.note("job %s completes", name)
	}
}
