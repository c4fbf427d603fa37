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
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workloadslicing"

	"kueue-acrequeueafter/lab/simulation/memapi"

	workloadevict "sigs.k8s.io/kueue/pkg/workload/evict"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// rules are those that are judged, by the numbers of the KEP's. A finding has the name.
var rules = map[string]string{
	"rule 1":                   "a delay counts from the eviction that a Retry caused, or later, in whole seconds",
	"rule 1, refused":          "the API refuses no write of Kueue as invalid, whatever a check has asked for",
	"rule 3":                   "a Retry frees the quota at once, and not before the job has stopped, and records the deadline",
	"rule 3, pods":             "no job has pods without quota",
	"rule 3, waiting pod":      "a pod that waits is not deleted, it has not run",
	"rule 3, job that may run": "no job is stopped that holds quota",
	"rule 4":                   "what checks say later moves the deadline, until it is over",
	"rule 4, words":            "Requeued tells until when a workload waits, and for which checks",
	"rule 5":                   "no status of a workload that waits is written to say the same",
	"rule 5, no rest":          "Kueue comes to an end",
	"rule 6":                   "a requeue has all checks Pending, without delays",
	"rule 6, answer":           "no answer of a check from before the eviction counts after it",
	"rule 6, owner":            "Kueue does not own a delay that a controller has applied",
	"rule 6 and 10":            "each retry counts once, and a success has its check count from 0",
	"rule 7, never early":      "nothing is requeued or reserved before its deadline",
	"rule 7, never stuck":      "nothing waits for longer than that",
	"rule 7, free quota":       "no quota is free for which somebody waits",
	"rule 7, quota":            "quota is reserved with an admission, for the pods that there are",
	"rule 7, second pass":      "quota is given once, and a node is chosen for those who hold it",
	"rule 8":                   "a Rejected deactivates, and nothing else does without a reason",
	"rule 9":                   "no answer of a check is undone unseen",
	"rule 10":                  "no check that is Ready keeps its count",
	"rule 11":                  "a deactivation leaves nothing, and a drained queue is",
	"rule 11, retention":       "the retention of a job counts from the last deactivation",
	"rule 13":                  "only WaitForPodsReady writes requeueState.count",
	"rule 14":                  "ProvisioningRequests have new numbers, and back off as their strategy says",
	"rule 15, worker":          "MultiKueue runs a workload on one worker",
	"rule 16":                  "all have their places in the queue, and keep them",
	"rule 17, delay":           "a bare Retry gets the delay of its policy",
	"rule 17, limit":           "a policy's limit is neither missed nor exceeded",
	"rule 18":                  "the workload of one that waits is in the queue of its job, with its priority",
	"sight, counts":            "all counts include those that wait",
	"sight, events":            "an event tells of a delay that begins or changes",
	"gate off, never early":    "with the gate off what waits is not requeued before its time",
	"gate off, never stuck":    "nor later",
	endOfBase:                  "no failure: the schedule ends here",
}

// judge holds every write to these. It computes deadlines on its own, from the objects
// alone.
type judge struct {
	world *World
	// unready are the jobs whose pods do not become ready.
	unready map[string]bool

	mu    sync.Mutex
	first error
	// revision of the last change that somebody else than Kueue made to a check.
	spoken map[string]map[kueue.AdmissionCheckReference]int
	// kept are the checks that were Ready when the workload was evicted, and are so still.
	kept map[string]map[kueue.AdmissionCheckReference]bool
	// known is the newest revision of a workload that a process has seen.
	known map[string]map[string]int
	// cached is the same without what it has written itself.
	cached   map[string]map[string]int
	cachedAt map[string]map[string]time.Time
	// asked is what the controller of a check has said last, until Kueue takes
	// it back.
	asked map[string]map[kueue.AdmissionCheckReference]asked
	// unseenRelease: quota may have come free while there was no LocalQueue, which Kueue does
	// not see with the gate off. unreported is how many were pending, by its name, when one was
	// closed: the gauge has them until another one of it changes, as in the base.
	unseenRelease bool
	unreported    map[string]int
	// released is when quota came free last.
	released time.Time
	// admissionLost is when a reservation was written over an admission that the scheduler had
	// not seen, as the base does while it waits for the pods of others.
	admissionLost map[string]time.Time
	// excused are the workloads that Kueue left stuck before: told to retry while
	// the gate was off, with no time to wait for.
	excused map[string]bool
	// keptWorker are those that lost their quota without an eviction, with which alone the
	// base takes the name of MultiKueue's worker back.
	keptWorker map[string]bool
	// leftToBase are those that were told to wait with the gate off, and waited for nothing
	// before: the base has delays of its own, and loses some.
	leftToBase map[string]bool
	// deadTimers: the base's timers of a backoff go on here in a manager that has ended, and
	// report to the gauge that all have in common.
	deadTimers bool
	// changed is when something was written last.
	changed time.Time
	// differs: the one case was there in which the gate off is not as the base.
	differs bool
	// deactivated is when a workload was so last, givenUp when Kueue last evicted it for a
	// deactivation of its own.
	deactivated map[string]time.Time
	givenUp     map[string]time.Time
	// reactivated are those that hold the quota which they had when they were deactivated,
	// and activated again: others may have been given it, as in the base.
	reactivated map[string]bool
	// untold hold quota by a write that its manager does not know of, of which unanswered is
	// the present one: others may have been given it.
	untold     map[string]bool
	unanswered bool
	// counts is the number of retries by workload and check.
	counts map[string]map[kueue.AdmissionCheckReference]int32
	// podsReadyUntil is the time that an eviction by PodsReadyTimeout has set.
	podsReadyUntil map[string]time.Time
	// required are the checks that each queue asks for since cqChanged, superseded those
	// that it asked for before.
	required   map[string][]kueue.AdmissionCheckReference
	superseded map[string][]superseded
	cqChanged  map[string]time.Time
	// queuesThere are the LocalQueues that are there, localQueues those of them that are not
	// stopped, and since when. Written is when a workload of one was written last.
	queuesThere map[string]time.Time
	localQueues map[string]time.Time
	written     map[string]time.Time
	// workersSeen is when a MultiKueueCluster was written last.
	workersSeen time.Time
	// moved is when a workload came to its queue, and left which one that was before.
	moved map[string]time.Time
	left  map[string]string
	// lastRevision is that of the newest change of a workload.
	lastRevision int
	// seenEvents tells how much a schedule went through, coverage what it came to.
	seenEvents map[string]int
	coverage   *coverage
	// decided is the time, on the clock of its process, at which the write that comes
	// next was sent, and decidedOn what the process had seen then.
	decided   time.Time
	decidedOn seen
	// versions are the workloads by name and revision, requests the newest
	// ProvisioningRequest by workload.
	versions map[string]map[int]*kueue.Workload
	requests map[string]lastRequest
	// named: the message of Requeued had one who asked for the deadline when it was written.
	named map[string]bool
	// silent are the workloads whose wait began, changed or ended, and has no event yet.
	silent map[string]string

	// changes are how many of a process' writes of a workload are not answered yet.
	changes map[string]int

	// policies are those that policyCheck had, the last one is in force.
	policies []policy
	// dates has the process that has dated a workload's eviction.
	dates map[string]string
}

// superseded are checks that a queue asked for, until when.
type superseded struct {
	checks []kueue.AdmissionCheckReference
	until  time.Time
}

// asked is a delay that a controller asked for, and from when.
type asked struct {
	delay time.Duration
	at    time.Time
	// bare: it asked for none. Until Kueue has written that of a policy, which may
	// change before it looks, delay is the shortest that it can be.
	bare bool
	said time.Time
}

// policy is one of policyCheck's, from when it had it.
type policy struct {
	base int32
	from time.Time
}

// lastRequest is what is known of the newest request of a workload.
type lastRequest struct {
	attempt int

	failed, revoked, provisioned bool
	// muddled: with the gate off the base made two, or began anew, or deleted one that
	// had failed before anybody looked at it.
	muddled bool
	// goneGateOff: the base has deleted it. What is left of its number is the count, which
	// a deactivation resets.
	goneGateOff bool
}

// Violation is what breaks a rule.
type Violation struct {
	// Rule is the same for all violations of the kind.
	Rule, Detail string
}

func (v *Violation) Error() string {
	return v.Rule + ": " + v.Detail
}

func newJudge(w *World) *judge {
	return &judge{
		world: w, changes: make(map[string]int), silent: make(map[string]string), unready: make(map[string]bool), policies: []policy{{base: policyBases[0]}},
		asked:          make(map[string]map[kueue.AdmissionCheckReference]asked),
		excused:        make(map[string]bool),
		keptWorker:     make(map[string]bool),
		leftToBase:     make(map[string]bool),
		deactivated:    make(map[string]time.Time),
		givenUp:        make(map[string]time.Time),
		reactivated:    make(map[string]bool),
		untold:         make(map[string]bool),
		spoken:         make(map[string]map[kueue.AdmissionCheckReference]int),
		kept:           make(map[string]map[kueue.AdmissionCheckReference]bool),
		known:          make(map[string]map[string]int),
		cached:         make(map[string]map[string]int),
		cachedAt:       make(map[string]map[string]time.Time),
		counts:         make(map[string]map[kueue.AdmissionCheckReference]int32),
		podsReadyUntil: make(map[string]time.Time),
		unreported:     make(map[string]int),
		admissionLost:  make(map[string]time.Time),
		seenEvents:     make(map[string]int),
		coverage:       newCoverage(),
		versions:       make(map[string]map[int]*kueue.Workload),
		requests:       make(map[string]lastRequest),
		required:       make(map[string][]kueue.AdmissionCheckReference),
		superseded:     make(map[string][]superseded),
		cqChanged:      make(map[string]time.Time),
		queuesThere:    make(map[string]time.Time),
		localQueues:    make(map[string]time.Time),
		written:        make(map[string]time.Time),
		moved:          make(map[string]time.Time),
		left:           make(map[string]string),
		named:          make(map[string]bool),
		dates:          make(map[string]string),
	}
}

// seenOf is the revision of the workload that the process had seen which writes now.
func (j *judge) seenOf(name string) int {
	if seen := j.decidedOn.known[name]; seen != 0 {
		return seen
	}
	return j.decidedOn.known[""]
}

func (j *judge) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first
}

// seen are the newest revisions of workloads that a process has seen: at all, and
// in its cache, which may lag behind what it has written itself.
type seen struct {
	known, cached map[string]int
	// at is the time of what is in the cache.
	at map[string]time.Time
}

func (j *judge) seenBy(process string) seen {
	j.mu.Lock()
	defer j.mu.Unlock()
	return seen{known: maps.Clone(j.known[process]), cached: maps.Clone(j.cached[process]), at: maps.Clone(j.cachedAt[process])}
}

// decides: the next write of a process was sent at that time, and on that ground. It may
// not be told of it.
func (j *judge) decides(at time.Time, on seen, unanswered bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decided, j.decidedOn, j.unanswered = at, on, unanswered
}

// only and ignored say which rules are judged, to see what else is broken.
var only, ignored = expression("SIMULATION_ONLY", ""), expression("SIMULATION_IGNORE", "^$")

func expression(variable, otherwise string) *regexp.Regexp {
	return regexp.MustCompile(cmp.Or(os.Getenv(variable), otherwise))
}

func (j *judge) fail(rule, format string, args ...any) {
	if rules[rule] == "" {
		panic("there is no " + rule)
	}
	if j.first == nil && only.MatchString(rule) && !ignored.MatchString(rule) {
		j.first = &Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
		j.world.note("!! %v", j.first)
	}
}

// listed: the process has seen everything up to the revision.
func (j *judge) listed(process string, gvr schema.GroupVersionResource, revision int) {
	if gvr.Resource == "workloads" && strings.HasPrefix(process, "kueue-") {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.known[process] = map[string]int{"": revision}
		j.cached[process], j.cachedAt[process] = make(map[string]int), make(map[string]time.Time)
	}
}

// delivered: the process has seen an event, "KIND resource/name@revision".
func (j *judge) delivered(process, event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, object, _ := strings.Cut(event, " ")
	object, revision, _ := strings.Cut(object, "@")
	resource, name, _ := strings.Cut(object, "/")
	if resource == "workloads" {
		n, _ := strconv.Atoi(revision)
		j.known[process][name], j.cached[process][name] = n, n
		j.cachedAt[process][name] = j.world.clock(process)
	}
}

// workload returns the Go type of a version in the API, which must not be changed. Each
// is converted once: that takes as long as a tenth of all else.
func (w *World) workload(u *unstructured.Unstructured) *kueue.Workload {
	if wl, found := w.converted.Load(u); found {
		return wl.(*kueue.Workload)
	}
	wl := toWorkload(u)
	w.converted.Store(u, wl)
	return wl
}

func toWorkload(u *unstructured.Unstructured) *kueue.Workload {
	if u == nil {
		return nil
	}
	wl := &kueue.Workload{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, wl); err != nil {
		panic(err)
	}
	return wl
}

func (j *judge) onWrite(write memapi.Write) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if write.New != nil && write.Old == nil && write.New.GetKind() == "LocalQueue" {
		j.queuesThere[write.New.GetName()] = time.Now()
	} else if write.New == nil && write.Old.GetKind() == "LocalQueue" {
		delete(j.queuesThere, write.Old.GetName())
	}
	if was, is := isOpen(write.Old), isOpen(write.New); is && !was {
		j.localQueues[write.New.GetName()] = time.Now()
	} else if was && !is {
		delete(j.localQueues, write.Old.GetName())
		name := write.Old.GetName()
		j.unseenRelease = j.unseenRelease || time.Since(j.released) < known
		pending := 0
		for _, versions := range j.versions {
			wl := versions[slices.Max(slices.Collect(maps.Keys(versions)))]
			if isPending(wl) {
				pending++
			}
		}
		// It may still be what it was when the queue was deleted before.
		j.unreported[name] = max(j.unreported[name], pending)
	}
	j.changed = time.Now()
	if write.New != nil {
		if write.New.GetKind() == "MultiKueueCluster" {
			j.workersSeen = time.Now()
		}
		if write.New.GetKind() == "ClusterQueue" && (write.Old == nil || write.Old.GetGeneration() != write.New.GetGeneration()) {
			cq := &kueue.ClusterQueue{}
			_ = runtime.DefaultUnstructuredConverter.FromUnstructured(write.New.Object, cq)
			var checks []kueue.AdmissionCheckReference
			for _, rule := range cq.Spec.AdmissionChecksStrategy.AdmissionChecks {
				checks = append(checks, rule.Name)
			}
			if before, found := j.required[cq.Name]; !found || !slices.Equal(before, checks) {
				if found {
					j.superseded[cq.Name] = append(j.superseded[cq.Name], superseded{checks: before, until: time.Now()})
				}
				j.required[cq.Name], j.cqChanged[cq.Name] = checks, time.Now()
			}
		}
		if write.New.GetKind() == "ProvisioningRequest" {
			j.request(write)
		}
		switch write.New.GetKind() {
		case "Pod":
			j.pod(write)
		case "Job", "JobSet":
			j.job(write)
		}
		if write.New.GetKind() != "Workload" {
			return
		}
	} else {
		switch write.Old.GetKind() {
		case "Job", "JobSet":
			j.jobDeleted(write)
		case "ProvisioningRequest":
			j.requestDeleted(write)
		case "Workload":
			delete(j.silent, write.Old.GetName())
			delete(j.requests, write.Old.GetName())
			delete(j.kept, write.Old.GetName())
			if wl := j.world.workload(write.Old); workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) {
				j.releases(wl)
			}
		}
		return
	}
	j.lastRevision, _ = strconv.Atoi(write.New.GetResourceVersion())
	old, wl := j.world.workload(write.Old), j.world.workload(write.New)
	if j.versions[wl.Name] == nil {
		j.versions[wl.Name] = make(map[int]*kueue.Workload)
	}
	j.versions[wl.Name][j.lastRevision] = wl
	ours := strings.HasPrefix(write.Caller, "kueue-")
	j.written[string(wl.Spec.QueueName)] = time.Now()
	if old == nil {
		if known := j.known[write.Caller]; known != nil {
			known[wl.Name] = j.lastRevision
		}
		return
	}
	j.coverage.visit(write, old, wl)
	if workload.HasQuotaReservation(wl) != (wl.Status.Admission != nil) {
		// Upstream's controllers do not survive that. With the gate off, and merge patches, the
		// base writes a reservation over an eviction that it has not seen.
		rule := "rule 7, quota"
		if !features.Enabled(features.ACRequeueAfter) && features.Enabled(features.WorkloadRequestUseMergePatch) {
			rule = endOfBase
		}
		j.fail(rule, "%s: of these is one there only: %s", write.Caller, describe(wl))
	}
	if old.Spec.QueueName != wl.Spec.QueueName {
		j.seenEvents["moved"]++
		j.moved[wl.Name], j.left[wl.Name] = time.Now(), queueOf(old)
	}
	// An activation that was taken back before Kueue acted on it has left no trace.
	isTakenBack := workloadevict.IsEvictedByDeactivation(old) && !conditionTrue(old, kueue.WorkloadRequeued) && !conditionTrue(old, kueue.WorkloadDeactivationTarget)
	if workload.IsActive(old) && !workload.IsActive(wl) && !isTakenBack {
		j.deactivated[wl.Name] = time.Now()
	}
	switch {
	case !workload.HasQuotaReservation(wl):
		delete(j.reactivated, wl.Name)
		delete(j.untold, wl.Name)
	case !workload.IsActive(old) && workload.IsActive(wl):
		j.reactivated[wl.Name] = true
	case !workload.HasQuotaReservation(old):
		// A larger slice takes over what the cache has of the smaller one.
		if key := workloadslicing.ReplacementForKey(wl); key != nil && j.reactivated[strings.TrimPrefix(string(*key), namespace+"/")] {
			j.reactivated[wl.Name] = true
		}
		// With the gate off a merge patch that was decided before a deactivation holds after it,
		// and is sent again if it was refused.
		if !features.Enabled(features.ACRequeueAfter) && features.Enabled(features.WorkloadRequestUseMergePatch) && time.Since(j.deactivated[wl.Name]) < time.Second {
			j.reactivated[wl.Name] = true
		}
	}
	if ours && workloadevict.IsEvictedDueToDeactivationByKueue(wl) && !(workloadevict.IsEvictedDueToDeactivationByKueue(old) && evictedAt(old).Equal(evictedAt(wl))) {
		j.givenUp[wl.Name] = time.Now()
	}
	if !workload.HasRetryChecks(wl) {
		delete(j.excused, wl.Name)
	}
	if workload.HasQuotaReservation(old) && !workloadfinish.IsFinished(old) && (!workload.HasQuotaReservation(wl) || workloadfinish.IsFinished(wl)) {
		j.releases(wl)
	}
	if ours && !features.Enabled(features.ACRequeueAfter) && workload.IsAdmitted(old) && workload.HasQuotaReservation(wl) && !workload.IsAdmitted(wl) {
		j.admissionLost[wl.Name] = time.Now()
	}
	if since, found := j.localQueues[string(wl.Spec.QueueName)]; found && time.Since(since) > known && isPending(wl) {
		delete(j.unreported, string(wl.Spec.QueueName))
	}
	if !features.Enabled(features.ACRequeueAfter) && !j.differs && (workload.IsActive(wl) || baseHasFields) && !workload.HasQuotaReservation(wl) && workload.HasRetryChecks(wl) && (!requeueAt(wl).IsZero() || waitsByCheck(wl)) {
		j.differs = true
		j.world.note(differsFromBase)
	}
	if !ours {
		j.spoke(write, old, wl)
		return
	}
	j.world.note("  %s writes %s: %s", write.Caller, wl.Name, difference(old, wl))
	j.changes[write.Caller+" "+wl.Name+" "+write.Subresource]++
	if features.Enabled(features.ACRequeueAfter) {
		j.deactivation(old, wl)
	}
	if write.Subresource == "status" {
		if j.world.config.SwitchGate && features.Enabled(features.ACRequeueAfter) {
			j.withdrawnGateOff(write.Old, old, wl)
		}
		j.statusWrite(write.Caller, write.FieldManager, old, wl)
	}
	if j.unanswered && workload.HasQuotaReservation(wl) {
		j.untold[wl.Name] = true
	}
	j.known[write.Caller][wl.Name] = j.lastRevision
}
