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
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/priority"
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
		leftToBase:     make(map[string]bool),
		deactivated:    make(map[string]time.Time),
		givenUp:        make(map[string]time.Time),
		reactivated:    make(map[string]bool),
		untold:         make(map[string]bool),
		spoken:         make(map[string]map[kueue.AdmissionCheckReference]int),
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
		j.unseenRelease, j.unreported[name] = j.unseenRelease || time.Since(j.released) < known, 0
		for _, versions := range j.versions {
			wl := versions[slices.Max(slices.Collect(maps.Keys(versions)))]
			if isPending(wl) {
				j.unreported[name]++
			}
		}
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

// isOpen returns true for a LocalQueue that is not stopped. The queues forget one that is, as
// if it were deleted.
func isOpen(obj *unstructured.Unstructured) bool {
	if obj == nil || obj.GetKind() != "LocalQueue" {
		return false
	}
	policy, found, _ := unstructured.NestedString(obj.Object, "spec", "stopPolicy")
	return !found || policy == string(kueue.None)
}

// evictedAt is when the workload was evicted last, or zero.
func evictedAt(wl *kueue.Workload) time.Time {
	if cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); cond != nil {
		return cond.LastTransitionTime.Time
	}
	return time.Time{}
}

func (j *judge) releases(wl *kueue.Workload) {
	j.released, j.unseenRelease = time.Now(), j.localQueues[string(wl.Spec.QueueName)].IsZero()
}

// request: a new one has no number of before, and belongs to a workload that was seen to
// hold quota.
func (j *judge) request(write memapi.Write) {
	name, number, _ := strings.Cut(write.New.GetName(), "-"+string(provisioningCheck)+"-")
	attempt, _ := strconv.Atoi(number)
	last := j.requests[name]
	if write.Old != nil {
		conditions, _, _ := unstructured.NestedSlice(write.New.Object, "status", "conditions")
		for _, condition := range conditions {
			if c := condition.(map[string]any); attempt == last.attempt && c["status"] == "True" {
				last.failed = last.failed || c["type"] == autoscaling.Failed
				last.revoked = last.revoked || c["type"] == autoscaling.CapacityRevoked
				last.provisioned = last.provisioned || c["type"] == autoscaling.Provisioned
				j.requests[name] = last
			}
		}
		return
	}
	j.seenEvents["requests"]++
	j.world.note("  %s creates %s", write.Caller, write.New.GetName())
	isAnew := attempt == 1 && last.goneGateOff
	misnumbered := attempt < last.attempt && !isAnew
	if misnumbered && !last.muddled && features.Enabled(features.ACRequeueAfter) {
		j.fail("rule 14", "%s is created after attempt %d, failed: %v", write.New.GetName(), last.attempt, last.failed)
	}
	j.requests[name] = lastRequest{attempt: attempt, muddled: last.muddled || misnumbered}
	wl := j.versions[name][j.decidedOn.cached[name]]
	// A reconciliation that starts an informer waits for it.
	if j.decided.Sub(j.decidedOn.at[name]) < 300*time.Millisecond {
		return
	}
	if wl != nil && features.Enabled(features.ACRequeueAfter) && (!workload.HasQuotaReservation(wl) || workloadevict.IsEvicted(wl) || workloadCheck(wl, provisioningCheck).State == kueue.CheckStateRetry) {
		j.fail("rule 14", "%s is created for a workload that waits: %s", write.New.GetName(), describe(wl))
	}
}

func (j *judge) requestDeleted(write memapi.Write) {
	name, _, _ := strings.Cut(write.Old.GetName(), "-"+string(provisioningCheck)+"-")
	if last := j.requests[name]; !features.Enabled(features.ACRequeueAfter) {
		last.muddled, last.goneGateOff = last.muddled || last.failed, true
		j.requests[name] = last
	}
}

// spoke records what somebody else than Kueue said.
func (j *judge) spoke(write memapi.Write, old, wl *kueue.Workload) {
	for _, check := range wl.Status.AdmissionChecks {
		before := workloadCheck(old, check.Name)
		if before != nil && sameCheck(*before, check) {
			continue
		}
		if j.spoken[wl.Name] == nil {
			j.spoken[wl.Name] = make(map[kueue.AdmissionCheckReference]int)
			j.asked[wl.Name] = make(map[kueue.AdmissionCheckReference]asked)
		}
		j.spoken[wl.Name][check.Name] = j.lastRevision
		delete(j.asked[wl.Name], check.Name)
		if check.State == kueue.CheckStateRetry {
			j.asked[wl.Name][check.Name] = j.asks(old, wl, check)
			if !features.Enabled(features.ACRequeueAfter) {
				j.excuse(wl)
				if baseHasFields && check.RequeueAfterSeconds != nil && requeueAt(old).IsZero() {
					j.leftToBase[wl.Name] = true
				}
			}
		}
		if owner := ownedByKueue(write.New, check.Name); check.RequeueAfterSeconds != nil && owner != "" && features.Enabled(features.ACRequeueAfter) && !j.world.config.SwitchGate {
			j.fail("rule 6, owner", "%s owns the delay of check %s of %s: %s", owner, check.Name, wl.Name, checkText(check))
		}
	}
}

// ownedByKueue returns the field manager of Kueue's that would keep the delay when
// the check's controller does not apply it any more. With the gate off it does.
func ownedByKueue(wl *unstructured.Unstructured, name kueue.AdmissionCheckReference) string {
	for _, owner := range ownersOfDelay(wl, name) {
		if isKueues(owner) {
			return owner.Manager
		}
	}
	return ""
}

func isKueues(owner metav1.ManagedFieldsEntry) bool {
	return owner.Operation == metav1.ManagedFieldsOperationApply && !strings.HasPrefix(owner.Manager, "check-")
}

// ownersOfDelay are the field managers that own the delay of the check.
func ownersOfDelay(wl *unstructured.Unstructured, name kueue.AdmissionCheckReference) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(wl.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		var fields map[string]any
		//lint:ignore SA1019 v0.14's libraries have no other one
		_ = json.Unmarshal(entry.FieldsV1.Raw, &fields)
		_, found, _ := unstructured.NestedMap(fields, "f:status", "f:admissionChecks", fmt.Sprintf(`k:{"name":%q}`, name), "f:requeueAfterSeconds")
		return !found
	})
}

// withdrawnGateOff: a delay that the base's applies own, too, is there after its controller
// has left it out, and goes with the first apply that has the gate on.
func (j *judge) withdrawnGateOff(stored *unstructured.Unstructured, old, wl *kueue.Workload) {
	for _, check := range wl.Status.AdmissionChecks {
		before := workloadCheck(old, check.Name)
		if before == nil || before.RequeueAfterSeconds == nil || check.RequeueAfterSeconds != nil || check.State != kueue.CheckStateRetry {
			continue
		}
		others := slices.DeleteFunc(ownersOfDelay(stored, check.Name), isKueues)
		if _, found := j.asked[wl.Name][check.Name]; found && len(others) == 0 {
			j.asked[wl.Name][check.Name] = j.asks(old, wl, check)
		}
	}
}

// differsFromBase is noted when a workload is to come back, with the gate off, that
// the base leaves stuck. A deactivated one that waits is reset: where the base has the
// fields, it removes requeueAt there and writes it again, without end.
const differsFromBase = "-- from here on the base differs"

// endOfBase is no failure: the schedule ends, as the base does.
const endOfBase = "gate off, the end of the base"

// excuse: with the gate off Kueue leaves a workload without quota stuck, as it ever
// did, if a check asks for a retry and there is no time to wait for.
func (j *judge) excuse(wl *kueue.Workload) {
	if workload.HasRetryChecks(wl) && requeueAt(wl).IsZero() && (!workload.HasQuotaReservation(wl) || workloadevict.IsEvicted(wl)) {
		j.excused[wl.Name] = true
	}
}

func (j *judge) isExcused(wl *kueue.Workload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.excused[wl.Name]
}

func (j *judge) isLeftToBase(wl *kueue.Workload) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leftToBase[wl.Name]
}

// lastChange is when something was written last.
func (j *judge) lastChange() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// switched: the gate is switched while no manager runs. What a check has said is
// left as it is if no manager has seen it with the gate on.
func (j *judge) switched(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.excused)
	clear(j.silent)
	j.deadTimers = j.deadTimers || slices.ContainsFunc(j.world.workloads(), func(wl *kueue.Workload) bool { return !requeueAt(wl).IsZero() })
	if on {
		clear(j.leftToBase)
		return
	}
	for _, wl := range j.world.workloads() {
		j.excuse(wl)
	}
}

// answered: no value that the API has stored makes a write of Kueue's invalid. A workload
// whose job is moved, or gets another priority, when it has just been given quota stays as it
// is. And upstream prefers the older copy of a worker that is back to the one that was chosen
// since, whose name the API does not let it replace.
func (j *judge) answered(call *memapi.Call, err error) {
	isMove := (j.world.config.Cohort || j.world.config.Pods || j.world.config.JobSets) && call.Verb == "PUT" && call.Subresource == "" && call.GVR.Resource == "workloads" && err != nil && strings.Contains(err.Error(), "immutable")
	isBack := !j.world.lostWorker.IsZero() && err != nil && strings.Contains(err.Error(), "clusterName is immutable")
	if apierrors.IsInvalid(err) && !isMove && !isBack && features.Enabled(features.ACRequeueAfter) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.fail("rule 1, refused", "%s %s: %v", call.Caller, call, err)
	}
	if err == nil && call.GVR.Resource == "workloads" && call.Verb != "POST" && call.Verb != "DELETE" {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.unchanged(call)
	}
}

// jobDeleted: the time after which Kueue deletes it counts from the deactivation.
func (j *judge) jobDeleted(write memapi.Write) {
	if !strings.HasPrefix(write.Caller, "kueue-") || !features.Enabled(features.ACRequeueAfter) {
		return
	}
	j.seenEvents["jobs deleted"]++
	// One of an elastic job's slices is enough, as in the base. Times of conditions have no
	// fractions of seconds. One that was activated meanwhile may be deleted on what was
	// read before, as with the base.
	var of string
	var age time.Duration
	for name, versions := range j.versions {
		wl := versions[slices.Max(slices.Collect(maps.Keys(versions)))]
		if !slices.ContainsFunc(wl.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == write.Old.GetUID() }) {
			continue
		}
		of += describe(wl) + " "
		// Another slice of the job may hold quota, and not have started it.
		if seen := versions[j.decidedOn.cached[name]]; seen != nil && !j.givenUp[name].IsZero() && workload.IsActive(seen) && workload.HasQuotaReservation(seen) && !workloadevict.IsEvicted(seen) {
			j.fail("rule 11, retention", "the job is deleted, which has quota again, of %s", describe(seen))
		}
		if !j.givenUp[name].IsZero() {
			age = max(age, time.Since(j.deactivated[name]))
		}
	}
	switch {
	case of == "":
	case age == 0:
		j.fail("rule 11, retention", "the job is deleted, which Kueue has not given up, of %s", of)
	case age <= retention-time.Second-j.world.apart():
		j.fail("rule 11, retention", "the job is deleted %s after the deactivation, of %s", age, of)
	}
}

// retained: the job of one that Kueue has deactivated is deleted in time, also if Kueue
// acted on the deactivation late. Those of slices and of workers may run as another
// workload.
func (j *judge) retained(wl *kueue.Workload, overdue time.Duration) {
	config := j.world.config
	owner := metav1.GetControllerOf(wl)
	since := min(time.Since(j.deactivated[wl.Name]), time.Since(j.givenUp[wl.Name]))
	if !config.Retention || config.Elastic || config.MultiKueue || owner == nil || !workloadevict.IsEvictedDueToDeactivationByKueue(wl) || since <= retention+overdue {
		return
	}
	job := &unstructured.Unstructured{}
	job.SetAPIVersion(owner.APIVersion)
	job.SetKind(owner.Kind)
	if err := j.world.admin.Get(context.Background(), client.ObjectKey{Namespace: wl.Namespace, Name: owner.Name}, job); err == nil && job.GetDeletionTimestamp() == nil {
		j.fail("rule 11, retention", "the job of %s is still there %s after the deactivation: %s", wl.Name, since, describe(wl))
	}
}

func sameCheck(a, b kueue.AdmissionCheckState) bool {
	return a.State == b.State && a.Message == b.Message && a.LastTransitionTime.Equal(&b.LastTransitionTime) &&
		ptr.Equal(a.RequeueAfterSeconds, b.RequeueAfterSeconds) && equality.Semantic.DeepEqual(a.PodSetUpdates, b.PodSetUpdates)
}

// isOwnCheck returns true if the writer may be the check's controller, which is one of
// Kueue's own. Merge patches have the process for a field manager.
func isOwnCheck(name kueue.AdmissionCheckReference, process, manager string) bool {
	return name == provisioningCheck && (manager == process || manager == kueue.ProvisioningRequestControllerName) ||
		name == multiKueueCheck && (manager == process || manager == kueue.MultiKueueControllerName)
}

// queueOf returns the name of the workload's ClusterQueue.
func queueOf(wl *kueue.Workload) string {
	if wl.Spec.QueueName == otherQueue {
		return otherQueue
	}
	return clusterQueue
}

// known is how long it takes until every process knows of a change, and has acted on what
// it knew before.
const known = 2*time.Second + 100*time.Millisecond

// queueIsKnown: what the workload's queue asks for is so for long enough that every process
// knows.
func (j *judge) queueIsKnown(wl *kueue.Workload) bool {
	return later(j.cqChanged[queueOf(wl)], j.moved[wl.Name]).Before(time.Now().Add(-known))
}

// setsOfChecks are those that a process may still take for what the workload's queue asks
// for.
func (j *judge) setsOfChecks(wl *kueue.Workload) [][]kueue.AdmissionCheckReference {
	queues := []string{queueOf(wl)}
	if time.Since(j.moved[wl.Name]) <= known {
		queues = append(queues, j.left[wl.Name])
	}
	var sets [][]kueue.AdmissionCheckReference
	for _, queue := range queues {
		sets = append(sets, j.required[queue])
		for _, before := range j.superseded[queue] {
			if time.Since(before.until) <= known {
				sets = append(sets, before.checks)
			}
		}
	}
	return sets
}

// isAskedFor: whichever of these sets a process takes, the check is in it.
func (j *judge) isAskedFor(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
	return !slices.ContainsFunc(j.setsOfChecks(wl), func(checks []kueue.AdmissionCheckReference) bool { return !slices.Contains(checks, name) })
}

// hasLocalQueue: it is there for long enough that every process knows. Without it all checks
// of a workload count, as nobody can tell which are asked for.
func (j *judge) hasLocalQueue(wl *kueue.Workload) bool {
	return isLong(j.queuesThere, wl)
}

// isInOpenQueue is hasLocalQueue for one that is not stopped. Where it is, all checks count
// for those that hold quota.
func (j *judge) isInOpenQueue(wl *kueue.Workload) bool {
	return isLong(j.localQueues, wl)
}

func isLong(queues map[string]time.Time, wl *kueue.Workload) bool {
	since, found := queues[string(wl.Spec.QueueName)]
	return found && since.Before(time.Now().Add(-2*time.Second))
}

// isRequired: the workload's queue asks for the check, as every process knows.
func (j *judge) isRequired(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
	return j.isAskedFor(wl, name) && j.isOfFlavor(wl, name)
}

// isOfFlavor: the check is not bound to another flavor than the workload's.
func (j *judge) isOfFlavor(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
	if j.world.config.OnFlavors && name == "b" && wl.Status.Admission != nil {
		for _, flavor := range wl.Status.Admission.PodSetAssignments[0].Flavors {
			return flavor == "f1"
		}
	}
	return true
}

// policyChanges: what comes from now on has another delay.
func (j *judge) policyChanges(base int32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.policies = append(j.policies, policy{base: base, from: time.Now()})
}

// asks is what the check, which has just spoken, asks for. The same Retry again has the
// delay that it was given.
func (j *judge) asks(old, wl *kueue.Workload, check kueue.AdmissionCheckState) asked {
	result := asked{delay: j.delayOf(wl, check), at: check.LastTransitionTime.Time}
	if check.RequeueAfterSeconds != nil || !j.world.config.Policy || check.Name != policyCheck {
		return result
	}
	result.bare, result.said = check.PolicyDelaySeconds == nil || !waitsByCheck(old), time.Now()
	return result
}

// given: the delay that Kueue writes is that of a policy which the check had since it
// spoke. From then on no change of the policy moves it.
func (j *judge) given(wl *kueue.Workload) {
	said, found := j.asked[wl.Name][policyCheck]
	check := workloadCheck(wl, policyCheck)
	if !found || !said.bare || check == nil || check.State != kueue.CheckStateRetry || check.PolicyDelaySeconds == nil {
		return
	}
	delay := time.Duration(*check.PolicyDelaySeconds) * time.Second
	for i := len(j.policies) - 1; i >= 0; i-- {
		if delay == policyDelay(wl, j.policies[i].base, ptr.Deref(check.RetryCount, 0)) {
			j.asked[wl.Name][policyCheck] = asked{delay: delay, at: said.at}
			return
		}
		// A process that has read the one before has had time to see this one.
		if j.policies[i].from.Before(said.said.Add(-2 * time.Second)) {
			break
		}
	}
	j.fail("rule 17, delay", "%s gets a delay of %s: %s", wl.Name, delay, describe(wl))
}

// delayOf is what the check asks for, or the shortest that its policy may have for it.
func (j *judge) delayOf(wl *kueue.Workload, check kueue.AdmissionCheckState) time.Duration {
	if check.RequeueAfterSeconds == nil && j.world.config.Policy && check.Name == policyCheck {
		if check.PolicyDelaySeconds != nil && waitsByCheck(wl) {
			return time.Duration(*check.PolicyDelaySeconds) * time.Second
		}
		return policyDelay(wl, policyBases[0], ptr.Deref(check.RetryCount, 0))
	}
	return time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0)) * time.Second
}

// policyDelay computes the delay of retryPolicy, with other means than Kueue does.
func policyDelay(wl *kueue.Workload, base, count int32) time.Duration {
	sum := sha256.Sum256([]byte(string(wl.UID) + "/" + string(policyCheck) + "/" + strconv.Itoa(int(count))))
	fraction := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	return time.Duration(math.Ceil(float64(base)*math.Exp2(float64(count))*(1+fraction))) * time.Second
}

// limit: a check that was retried as often as it may be has the workload
// deactivated with its next Retry, and not before.
func (j *judge) limit(old, wl *kueue.Workload, told bool) {
	check := workloadCheck(old, policyCheck)
	reached := check != nil && check.State == kueue.CheckStateRetry && ptr.Deref(check.RetryCount, 0) >= policyLimit
	target := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadDeactivationTarget)
	gaveUp := target != nil && target.Reason == kueue.WorkloadAdmissionCheckRetryLimitExceeded && !conditionTrue(old, kueue.WorkloadDeactivationTarget)
	switch {
	case gaveUp && !reached:
		j.fail("rule 17, limit", "%s is given up before its limit: %s", wl.Name, describe(old))
	case gaveUp:
		j.seenEvents["limits"]++
	case reached && told && j.isRequired(old, policyCheck):
		j.fail("rule 17, limit", "%s is to be retried beyond its limit: %s", wl.Name, describe(old))
	}
}

// deadline is the time before which the rules forbid to bring the workload back.
func (j *judge) deadline(wl *kueue.Workload) time.Time {
	return j.deadlineOf(wl, j.isRequired)
}

// deadlines are those that a process may take for it, which may know of other checks.
func (j *judge) deadlines(wl *kueue.Workload) []time.Time {
	var all []time.Time
	for _, checks := range j.setsOfChecks(wl) {
		all = append(all, j.deadlineOf(wl, func(wl *kueue.Workload, name kueue.AdmissionCheckReference) bool {
			return slices.Contains(checks, name) && j.isOfFlavor(wl, name)
		}))
	}
	return all
}

// deadlineOf is the deadline if these checks are required.
func (j *judge) deadlineOf(wl *kueue.Workload, isRequired func(*kueue.Workload, kueue.AdmissionCheckReference) bool) time.Time {
	until, evictedAt := j.podsReadyUntil[wl.Name], time.Time{}
	if evicted, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl); byCheck {
		evictedAt = evicted.LastTransitionTime.Time
	}
	for _, check := range wl.Status.AdmissionChecks {
		if check.State != kueue.CheckStateRetry || !isRequired(wl, check.Name) {
			continue
		}
		said, found := j.asked[wl.Name][check.Name]
		if !found {
			said = asked{delay: j.delayOf(wl, check), at: check.LastTransitionTime.Time}
		}
		if said.delay > 0 {
			until = later(until, later(said.at, evictedAt).Add(said.delay))
		}
	}
	if whole := until.Truncate(time.Second); whole.Before(until) {
		until = whole.Add(time.Second)
	}
	if latest := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); until.After(latest) {
		return latest
	}
	return until
}

func (j *judge) statusWrite(process, manager string, old, wl *kueue.Workload) {
	evictedNow := !conditionTrue(old, kueue.WorkloadEvicted) && conditionTrue(wl, kueue.WorkloadEvicted)
	if _, timedOut := workloadevict.IsEvictedByPodsReadyTimeout(wl); timedOut && evictedNow {
		j.podsReadyUntil[wl.Name] = requeueAt(wl)
	}
	if !workload.IsActive(wl) && wl.Status.RequeueState == nil {
		delete(j.podsReadyUntil, wl.Name)
	}
	if !features.Enabled(features.ACRequeueAfter) {
		j.statusWriteGateOff(old, wl)
		return
	}
	now := j.world.clock(process)
	j.idle(old, wl)
	j.wait(old, wl)
	j.given(wl)
	deactivated := isDeactivated(old) || isDeactivated(wl)

	if !workload.HasQuotaReservation(old) && workload.HasQuotaReservation(wl) {
		j.seenEvents["reservations"]++
		if workloadslicing.ReplacementForKey(wl) != nil {
			j.seenEvents["slices replaced"]++
		}
		if until := j.deadline(old); j.decided.Before(until) {
			j.fail("rule 7, never early", "quota is reserved for %s although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
		}
		// A write that was decided on other checks, or on another spec, is refused.
		if slices.ContainsFunc(old.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
			return (check.State == kueue.CheckStateRetry || check.State == kueue.CheckStateRejected) && j.isRequired(old, check.Name)
		}) {
			j.fail("rule 7, never early", "quota is reserved for %s, which is not requeued: %s", wl.Name, describe(old))
		}
		if wl.Status.Admission == nil {
			j.fail("rule 7, quota", "quota is reserved for %s without an admission: %s", wl.Name, describe(wl))
			return
		}
		for i, assignment := range wl.Status.Admission.PodSetAssignments {
			if len(wl.Status.ReclaimablePods) == 0 && *assignment.Count != wl.Spec.PodSets[i].Count {
				j.fail("rule 7, quota", "quota for %d of %d pods is reserved for %s", *assignment.Count, wl.Spec.PodSets[i].Count, describe(wl))
			}
		}
	}
	requeued := requeuedAgain(old, wl) && !evictedNow && !deactivated
	if requeued {
		j.seenEvents["requeues"]++
	}
	// After another eviction its reason is another one.
	isBack := requeued || !deactivated && !requeueAt(old).IsZero() && !conditionTrue(old, kueue.WorkloadRequeued) && conditionTrue(wl, kueue.WorkloadRequeued)
	if until := j.deadline(old); isBack && j.decided.Before(until) {
		j.fail("rule 7, never early", "%s is requeued although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
	}
	if evictedNow {
		cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
		j.seenEvents["evictions by "+cond.Reason]++
		if workload.IsAdmitted(old) && !workload.HasQuotaReservation(wl) {
			j.fail("rule 3", "the quota of %s, whose job may run, is released before the job is stopped: %s", wl.Name, describe(wl))
		}
		// The checks that were required are those of the flavors that it had.
		evicted := wl.DeepCopy()
		evicted.Status.Admission = old.Status.Admission
		if cond.Reason == kueue.WorkloadEvictedByAdmissionCheck {
			j.dated(evicted, cond.LastTransitionTime.Time)
			anyCheck := func(*kueue.Workload, kueue.AdmissionCheckReference) bool { return true }
			isOfAll := !j.isInOpenQueue(wl) && j.deadlineOf(evicted, anyCheck).Equal(requeueAt(wl))
			isOfSet := slices.ContainsFunc(j.deadlines(evicted), requeueAt(wl).Equal)
			if until := j.deadline(evicted); until.After(cond.LastTransitionTime.Time) && !isOfSet && !isOfAll {
				j.fail("rule 3", "%s is evicted with requeueAt %s instead of %s: %s", wl.Name, j.at(requeueAt(wl)), j.at(until), describe(wl))
			}
		}
	}
	if at := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted); workloadevict.IsEvictedByDeactivation(wl) && !workloadevict.IsEvictedByDeactivation(old) &&
		at.LastTransitionTime.Time.Before(j.deactivated[wl.Name].Truncate(time.Second).Add(-j.world.apart())) {
		j.fail("rule 11", "the eviction for the deactivation of %s is dated before it: %s", j.deactivated[wl.Name].UTC().Format("4:05.000"), describe(wl))
	}
	if j.world.config.Policy {
		_, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
		j.limit(old, wl, evictedNow && byCheck || takenOut(old, wl))
	}
	j.requeueCount(old, wl, evictedNow, deactivated)
	j.clocks(process, wl, evictedNow || takenOut(old, wl), requeued)
	j.topology(old, wl)
	if takenOut(old, wl) {
		j.seenEvents["taken out of the queue"]++
		j.dated(wl, evictedAt(wl))
	}
	if conditionTrue(old, kueue.WorkloadEvicted) && conditionTrue(wl, kueue.WorkloadEvicted) && !deactivated {
		j.evictionMoved(old, wl, isBack)
	}

	var taken []kueue.AdmissionCheckReference
	admitted := !workload.IsAdmitted(old) && workload.IsAdmitted(wl)
	for _, before := range old.Status.AdmissionChecks {
		after := workloadCheck(wl, before.Name)
		seen := j.seenOf(wl.Name)
		if said := j.spoken[wl.Name][before.Name]; said > seen && (after == nil || !sameCheck(before, *after)) {
			j.fail("rule 9", "%s changes check %s of %s from %s, said at %d, having seen %d only", process, before.Name, wl.Name, checkText(before), said, seen)
		}
		if after == nil {
			if j.isRequired(wl, before.Name) && j.isRequired(old, before.Name) && (before.State == kueue.CheckStateRetry || j.counts[wl.Name][before.Name] > 0) {
				j.fail("rule 4", "the entry of %s is gone: %s", wl.Name, checkText(before))
			}
			delete(j.counts[wl.Name], before.Name)
			taken = append(taken, before.Name)
			continue
		}
		if before.State == kueue.CheckStateRetry && after.State != kueue.CheckStateRetry && !deactivated && !requeued {
			j.fail("rule 3", "the Retry of check %s of %s is taken back before the requeue", before.Name, wl.Name)
		}
		if before.State == kueue.CheckStateReady && after.State == kueue.CheckStatePending && !deactivated && !requeued && !conditionTrue(wl, kueue.WorkloadEvicted) && !isOwnCheck(before.Name, process, manager) {
			j.fail("rule 9", "the success of check %s of %s is taken back: %s", before.Name, wl.Name, describe(wl))
		}
		if before.State == kueue.CheckStateRejected && after.State != kueue.CheckStateRejected && !deactivated && j.isRequired(wl, before.Name) {
			j.fail("rule 8", "the rejection of %s by check %s is taken back", wl.Name, before.Name)
		}
		j.retryCount(wl.Name, before, *after, deactivated, admitted)
		if before.Name == provisioningCheck && before.State != after.State {
			retries := ptr.Deref(before.RetryCount, 0)
			if before.State == kueue.CheckStateReady {
				retries = 0
			}
			if after.State == kueue.CheckStateRejected && retries != provisioningLimit && !j.requests[wl.Name].revoked || after.State == kueue.CheckStateRetry && retries >= provisioningLimit {
				j.fail("rule 14", "check %s of %s becomes %s after %d retries of %d", before.Name, wl.Name, after.State, retries, provisioningLimit)
			}
			if want := min(provisioningBase<<retries, provisioningMax); after.State == kueue.CheckStateRetry && int(ptr.Deref(after.RequeueAfterSeconds, 0)) != want {
				j.fail("rule 14", "check %s of %s backs off for %d s instead of %d s", before.Name, wl.Name, ptr.Deref(after.RequeueAfterSeconds, 0), want)
			}
		}
		if after.State != kueue.CheckStateRetry {
			taken = append(taken, before.Name)
		}
		if before.State == kueue.CheckStateRetry && after.State == kueue.CheckStatePending && !deactivated {
			if after.RequeueAfterSeconds != nil {
				j.fail("rule 6", "check %s of %s keeps its delay after the requeue", before.Name, wl.Name)
			}
		}
	}
	if requeued && resetFromRetry(old, wl) {
		for _, check := range wl.Status.AdmissionChecks {
			if check.State != kueue.CheckStatePending || check.RequeueAfterSeconds != nil || check.LastTransitionTime.After(now) || check.LastTransitionTime.Time.Before(j.deadline(old)) {
				j.fail("rule 6", "check %s of %s after the requeue: %s", check.Name, wl.Name, checkText(check))
			}
		}
		if !requeueAt(wl).IsZero() {
			j.fail("rule 6", "%s is requeued and has requeueAt still", wl.Name)
		}
	}
	for _, name := range taken {
		delete(j.asked[wl.Name], name)
	}
}

// statusWriteGateOff: a workload that was left waiting when the gate was switched
// off is requeued at the time that was recorded.
func (j *judge) statusWriteGateOff(old, wl *kueue.Workload) {
	// The base writes over what it has not seen, its scheduler over what came since its
	// cycle began.
	isNew := j.world.config.Blocking || j.decided.Sub(j.decidedOn.at[wl.Name]) < known
	isScheduled := workload.HasQuotaReservation(wl) && j.leftToBase[wl.Name] && isNew
	isReset := func(check kueue.AdmissionCheckState) bool {
		return isResetFromRetry(check, wl) && j.spoken[wl.Name][check.Name] <= j.seenOf(wl.Name) && !isScheduled
	}
	if until := requeueAt(old); slices.ContainsFunc(old.Status.AdmissionChecks, isReset) && !workload.HasQuotaReservation(old) && !isDeactivation(wl) && !isDeactivation(old) && j.decided.Before(until) {
		j.fail("gate off, never early", "%s is requeued although it has to wait until %s: %s", wl.Name, j.at(until), describe(old))
	}
	if !j.excused[wl.Name] && workload.IsActive(wl) && !isDeactivation(old) && !requeueAt(old).IsZero() && requeueAt(wl).IsZero() && !workload.HasQuotaReservation(old) && workload.HasRetryChecks(wl) {
		j.fail("gate off, never stuck", "its time is taken from %s, and its checks are left: %s", wl.Name, describe(wl))
	}
	for _, check := range old.Status.AdmissionChecks {
		after := workloadCheck(wl, check.Name)
		if after != nil && after.State == kueue.CheckStateRetry && check.State != kueue.CheckStateRetry {
			j.excuse(wl) // a Retry that was withdrawn is back
		}
		if after == nil || after.State != kueue.CheckStateRetry {
			delete(j.asked[wl.Name], check.Name)
		} else if said, found := j.asked[wl.Name][check.Name]; found && !after.LastTransitionTime.Equal(&check.LastTransitionTime) {
			// The base of v0.19 gives a time to a check that has none.
			said.at = after.LastTransitionTime.Time
			j.asked[wl.Name][check.Name] = said
		}
	}
	counts := make(map[kueue.AdmissionCheckReference]int32)
	for _, check := range wl.Status.AdmissionChecks {
		counts[check.Name] = ptr.Deref(check.RetryCount, 0)
	}
	j.counts[wl.Name] = counts
}

// takenOut: a queued workload has to wait for a check. One that was stopped for a check, as
// by the gate off, is not queued, and its delays count from that eviction.
func takenOut(old, wl *kueue.Workload) bool {
	after := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	_, byCheck := workloadevict.IsEvictedByAdmissionCheck(wl)
	return byCheck && !waitsByCheck(old) && requeueAt(old).IsZero() && !requeueAt(wl).IsZero() && !workload.HasQuotaReservation(old) &&
		after != nil && after.Status == metav1.ConditionFalse
}

// evictionMoved: a workload that stays evicted has the eviction moved by the start of a wait
// alone, and never back. Its place in the queue is by that time. One that is preempted before
// its reservation is written does not stay evicted.
func (j *judge) evictionMoved(old, wl *kueue.Workload, isBack bool) {
	before, after := evictedAt(old), evictedAt(wl)
	switch {
	case after.Equal(before):
	case !workload.HasQuotaReservation(old) && workload.HasQuotaReservation(wl):
	case isBack:
		j.fail("rule 16", "%s is requeued, and its eviction is moved from %s to %s: %s", wl.Name, j.at(before), j.at(after), describe(wl))
	case after.Before(before) && !takenOut(old, wl): // by a clock that is behind the one before
		j.fail("rule 1", "the eviction of %s is moved back from %s to %s: %s", wl.Name, j.at(before), j.at(after), describe(wl))
	default:
		j.dated(wl, after)
	}
}

// dated: delays count from the eviction, which must not lie before it happened.
func (j *judge) dated(wl *kueue.Workload, at time.Time) {
	asked := slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateRetry && j.delayOf(wl, check) > 0 && j.isRequired(wl, check.Name)
	})
	if ahead := at.Sub(j.decided); ahead > time.Second || asked && ahead < 0 {
		j.fail("rule 1", "the eviction of %s, of %s, is dated %s", wl.Name, j.decided.UTC().Format("4:05.000"), at.UTC().Format("4:05"))
	}
}

// retryCount: each retry is counted once, in the write that ends it.
func (j *judge) retryCount(name string, before, after kueue.AdmissionCheckState, deactivated, admitted bool) {
	counts := j.counts[name]
	if counts == nil {
		counts = make(map[kueue.AdmissionCheckReference]int32)
		j.counts[name] = counts
	}
	want := []int32{counts[before.Name]}
	switch {
	case deactivated:
		want = append(want, 0)
		if before.State == kueue.CheckStateRetry {
			// Said when the workload was active again.
			want = append(want, counts[before.Name]+1)
		}
	case before.State == kueue.CheckStateRetry && after.State == kueue.CheckStatePending:
		want = []int32{counts[before.Name] + 1}
		j.seenEvents["retries"]++
	case admitted, before.State == kueue.CheckStateReady && after.State == kueue.CheckStatePending,
		before.State == kueue.CheckStateReady && after.State == kueue.CheckStateRetry:
		want = []int32{0}
	case before.State == kueue.CheckStateReady, after.State == kueue.CheckStateReady:
		want = append(want, 0)
	case before.Name == provisioningCheck && j.requests[name].provisioned:
		// Its check was not ready, as the workload waited.
		want = append(want, 0)
	}
	got := ptr.Deref(after.RetryCount, 0)
	if j.world.config.SwitchGate && before.Name == provisioningCheck && before.State == after.State && got <= provisioningLimit {
		// Retries with the gate off are carried over.
		want = append(want, max(got, counts[before.Name]))
	}
	if !slices.Contains(want, got) {
		j.fail("rule 6 and 10", "check %s of %s has retryCount %d instead of %v (from %s to %s)", before.Name, name, got, want, checkText(before), checkText(after))
	}
	counts[before.Name] = got
}

// requeueCount: only WaitForPodsReady counts there.
func (j *judge) requeueCount(old, wl *kueue.Workload, evictedNow, deactivated bool) {
	was, is := requeueStateCount(old), requeueStateCount(wl)
	if was == is {
		return
	}
	cond := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted)
	switch {
	case deactivated && is == 0:
	case !j.world.config.PodsReady:
		j.fail("rule 13", "requeueState.count of %s goes from %d to %d without WaitForPodsReady", wl.Name, was, is)
	case evictedNow && cond.Reason == kueue.WorkloadEvictedByPodsReadyTimeout && is == was+1:
	case is == 0 && conditionTrue(wl, kueue.WorkloadPodsReady):
	default:
		j.fail("rule 13", "requeueState.count of %s goes from %d to %d: %s", wl.Name, was, is, describe(wl))
	}
}

// waitsByCheck returns true for one that is recorded to wait for its checks.
func waitsByCheck(wl *kueue.Workload) bool {
	requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return requeued != nil && requeued.Status == metav1.ConditionFalse && requeued.Reason == kueue.WorkloadEvictedByAdmissionCheck
}

func requeueStateCount(wl *kueue.Workload) int32 {
	if wl.Status.RequeueState == nil {
		return 0
	}
	return ptr.Deref(wl.Status.RequeueState.Count, 0)
}

func requeueAt(wl *kueue.Workload) time.Time {
	if wl.Status.RequeueState == nil || wl.Status.RequeueState.RequeueAt == nil {
		return time.Time{}
	}
	return wl.Status.RequeueState.RequeueAt.Time
}

func isDeactivation(wl *kueue.Workload) bool {
	return !workload.IsActive(wl) || workloadevict.IsEvictedByDeactivation(wl) || conditionTrue(wl, kueue.WorkloadDeactivationTarget)
}

// isDeactivated leaves out one that is activated again, and is queued.
func isDeactivated(wl *kueue.Workload) bool {
	return isDeactivation(wl) && !(workload.IsActive(wl) && !conditionTrue(wl, kueue.WorkloadDeactivationTarget) && conditionTrue(wl, kueue.WorkloadRequeued))
}

func requeuedAgain(old, wl *kueue.Workload) bool {
	before := apimeta.FindStatusCondition(old.Status.Conditions, kueue.WorkloadRequeued)
	after := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
	return after != nil && after.Status == metav1.ConditionTrue && after.Reason == kueue.WorkloadBackoffFinished &&
		(before == nil || before.Status != metav1.ConditionTrue || resetFromRetry(old, wl))
}

func resetFromRetry(old, wl *kueue.Workload) bool {
	return slices.ContainsFunc(old.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool { return isResetFromRetry(check, wl) })
}

func isResetFromRetry(before kueue.AdmissionCheckState, wl *kueue.Workload) bool {
	after := workloadCheck(wl, before.Name)
	return before.State == kueue.CheckStateRetry && after != nil && after.State == kueue.CheckStatePending
}

// quiet checks what has to hold when there is nothing left to do.
func (j *judge) quiet() error {
	if !j.world.isLed() {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	stopped := j.queueIsStopped()
	canStop := j.world.hasWorkers()
	now := time.Now()
	// The one who leads may have another clock.
	overdue := 2*time.Second + j.world.apart()
	for _, wl := range j.world.workloads() {
		if workloadfinish.IsFinished(wl) {
			continue
		}
		if !features.Enabled(features.ACRequeueAfter) {
			// Where nothing was left waiting, it is as stuck as it ever was.
			if at := requeueAt(wl); workload.IsActive(wl) && !stopped && !workload.HasQuotaReservation(wl) && now.Sub(at) > overdue && !j.excused[wl.Name] && !isTooLateForBase(wl) &&
				(workload.HasRetryChecks(wl) || !at.IsZero() && apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)) {
				j.fail("gate off, never stuck", "requeueAt is over: %s", describe(wl))
			}
			continue
		}
		j.worker(wl)
		retry, rejected := 0, 0
		for _, check := range wl.Status.AdmissionChecks {
			if check.State == kueue.CheckStateReady && ptr.Deref(check.RetryCount, 0) > 0 {
				j.fail("rule 10", "a success is not counted from: %s: %s", wl.Name, checkText(check))
			}
			if j.isRequired(wl, check.Name) {
				switch check.State {
				case kueue.CheckStateRetry:
					retry++
				case kueue.CheckStateRejected:
					rejected++
				}
			}
		}
		if !workload.IsActive(wl) {
			j.retained(wl, overdue)
			if wl.Status.RequeueState != nil || workload.HasQuotaReservation(wl) && canStop && !(j.world.config.MultiKueue && jobsAreManagedBy) {
				j.fail("rule 11", "something is left on a deactivated workload: %s", describe(wl))
			}
			for _, check := range wl.Status.AdmissionChecks {
				if check.State == kueue.CheckStateRetry || check.RequeueAfterSeconds != nil || ptr.Deref(check.RetryCount, 0) > 0 {
					j.fail("rule 11", "something is left on a deactivated workload: %s", describe(wl))
				}
			}
			continue
		}
		// A check that asked for a retry before that was written has it wait.
		if workloadevict.IsEvictedByDeactivation(wl) && canStop && retry == 0 {
			j.fail("rule 11", "it is active again, and evicted by its deactivation: %s", describe(wl))
		}
		if rejected > 0 {
			j.fail("rule 8", "rejected, and still active: %s", describe(wl))
		}
		if workload.HasQuotaReservation(wl) && canStop && !workload.HasUnhealthyNodes(wl) && wl.Spec.QueueName == localQueue && j.isDrained() {
			j.fail("rule 11", "the queue is drained, and the quota is held: %s", describe(wl))
		}
		if retry > 0 && workload.HasQuotaReservation(wl) && canStop {
			j.fail("rule 3", "a check asks for a retry, and the quota is held: %s", describe(wl))
		}
		until := j.deadline(wl)
		isAnother := func(at time.Time) bool { return !at.Equal(until) }
		switch {
		case retry == 0 || !j.hasLocalQueue(wl) || workload.HasQuotaReservation(wl) || slices.ContainsFunc(j.deadlines(wl), isAnother):
		case now.Before(until):
			requeued := apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued)
			_, afterTimeout := workloadevict.IsEvictedByPodsReadyTimeout(wl)
			// Beside a backoff of WaitForPodsReady the time may stay where it was.
			if late := requeueAt(wl).Sub(until); late < 0 || late > 0 && !afterTimeout || requeued == nil || requeued.Status != metav1.ConditionFalse {
				j.fail("rule 4", "%s should wait until %s: %s", wl.Name, j.at(until), describe(wl))
			} else if !afterTimeout && !j.world.config.SwitchGate {
				j.words(wl, requeued.Message)
			}
		case now.Sub(until) > overdue && !(j.world.config.SwitchGate && requeueStateCount(wl) > 0 && now.Sub(requeueAt(wl)) <= overdue):
			// With the gate off v0.14's provisioning backs off by requeueState.
			j.fail("rule 7, never stuck", "%s should have been requeued at %s: %s", wl.Name, j.at(until), describe(wl))
		}
		// With the gate off v0.14 ends a backoff, and may leave its time; or it records one
		// with no condition for it.
		isEnded := j.world.config.SwitchGate && !apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued)
		if at := requeueAt(wl); !stopped && !at.IsZero() && now.Sub(at) > overdue && !workload.HasQuotaReservation(wl) && !isEnded {
			j.fail("rule 7, never stuck", "requeueAt is over: %s", describe(wl))
		}
		// It is requeued when its job is stopped.
		toStop := workload.HasQuotaReservation(wl) && !canStop
		if !toStop && !requeueAt(wl).IsZero() && retry == 0 && rejected == 0 && j.queueIsKnown(wl) && !stopped && wl.Status.RequeueState.Count == nil && !j.world.config.SwitchGate {
			j.fail("rule 4", "nobody asks for the wait of %s", describe(wl))
		}
	}
	if features.Enabled(features.ACRequeueAfter) {
		j.events()
		j.progress(stopped)
		j.numbers()
		j.batchJobs()
		j.jobSets()
	}
	return j.first
}

// isPending: it is to be in the queue, whether it waits or not.
func isPending(wl *kueue.Workload) bool {
	return workload.IsActive(wl) && !workloadfinish.IsFinished(wl) && !workload.HasQuotaReservation(wl)
}

// progress: where there is quota, nobody who could use it is left without.
func (j *judge) progress(stopped bool) {
	var held, alone int
	all := j.world.workloads()
	for _, wl := range all {
		if workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) && !isReplaced(wl, all) {
			held += pods(wl)
			// Upstream's cache forgets one that is deactivated, before its quota is released.
			if workload.IsActive(wl) && !j.reactivated[wl.Name] && !j.untold[wl.Name] {
				alone += pods(wl)
			}
		}
	}
	j.overcommitted(alone)
	if slices.ContainsFunc(all, func(wl *kueue.Workload) bool { return isPending(wl) && isScaled(wl) }) {
		return
	}
	if keepsOutAlike && j.unseenRelease && j.world.config.SwitchGate {
		return
	}
	if stopped || held >= cpus || j.isBlocked(all) || j.world.nodeLost() || !j.world.hasWorkers() {
		return
	}
	// All ask for the same: the head of a StrictFIFO fits, too.
	for _, wl := range all {
		if isForScheduler(wl, time.Now().Add(-j.world.apart())) {
			j.fail("rule 7, free quota", "%d of %d are held, and %s has none", held, cpus, describe(wl))
		}
	}
}

// isForScheduler: nothing but quota is missing.
func isForScheduler(wl *kueue.Workload, now time.Time) bool {
	return isPending(wl) && !hasLostPods(wl) && wl.DeletionTimestamp.IsZero() && !now.Before(requeueAt(wl)) && !workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl) &&
		!apimeta.IsStatusConditionFalse(wl.Status.Conditions, kueue.WorkloadRequeued) && !conditionTrue(wl, kueue.WorkloadDeactivationTarget)
}

// isBlocked: quota is reserved for nobody before the pods of those that hold some are ready.
func (j *judge) isBlocked(all []*kueue.Workload) bool {
	return j.world.config.Blocking && slices.ContainsFunc(all, func(wl *kueue.Workload) bool {
		return workload.HasQuotaReservation(wl) && !workloadfinish.IsFinished(wl) && !conditionTrue(wl, kueue.WorkloadPodsReady)
	})
}

// numbers: all counts have every pending workload. Those that wait for
// WaitForPodsReady alone, which upstream leaves out for a while, may be missing.
func (j *judge) numbers() {
	// It is somewhere between these, by the clock of whoever counts.
	earliest, latest := time.Now().Add(-j.world.apart()), time.Now().Add(j.world.apart())
	queues := map[string]*pendingNumbers{clusterQueue: newPendingNumbers()}
	if j.world.config.Cohort {
		queues[otherQueue] = newPendingNumbers()
	}
	for _, wl := range j.world.workloads() {
		if !isPending(wl) {
			continue
		}
		// Upstream leaves one that loses its pods where it is, until it has others.
		isLost := hasLostPods(wl) && !workload.HasRetryChecks(wl) && !workload.HasRejectedChecks(wl)
		isOptional := !wl.DeletionTimestamp.IsZero() || isLost
		queue := queues[queueOf(wl)]
		queue.pending[wl.Name] = isOptional
		queue.isTried = queue.isTried || isForScheduler(wl, latest)
		if at := requeueAt(wl); earliest.Before(at) {
			queue.waiting++
			if queue.next.IsZero() || at.Before(queue.next) {
				queue.next = at
			}
		}
		if latest.Before(requeueAt(wl)) && workload.HasRetryChecks(wl) && !isOptional {
			queue.retrying++
		}
	}
	complete := true
	for name, queue := range queues {
		complete = j.queueNumbers(name, queue.pending, queue.isTried) && complete
	}
	if !complete {
		return
	}
	for name, queue := range queues {
		if j.world.config.Blocking {
			// A head that waits for the pods of others to be ready is not in the queue.
			queue.retrying = max(0, queue.retrying-1)
		}
		j.count("waiting gauge of "+name, gauge(metrics.AdmissionCheckRetryWaits, "kueue_admission_check_retry_waiting_workloads", name), queue.retrying, queue.waiting, queue.pending)
		if next, apart := int(queue.next.Unix()), int(j.world.apart().Seconds()); queue.waiting > 0 && queue.retrying == queue.waiting {
			j.count("earliest deadline of "+name, gauge(metrics.AdmissionCheckRetryWaits, "kueue_admission_check_retry_earliest_deadline_timestamp_seconds", name), next-apart, next+apart, queue.pending)
		}
	}
	if len(j.world.procs) > 1 || j.deadTimers {
		return
	}
	for name, queue := range queues {
		least, most := 0, len(queue.pending)+j.unreported[localQueueOf(name)]
		for _, isOptional := range queue.pending {
			if !isOptional && j.isReported(localQueueOf(name)) {
				least++
			}
		}
		if j.world.config.Blocking {
			most++
		}
		j.count("pending gauge of "+name, gauge(metrics.PendingWorkloads, "kueue_pending_workloads", name), least, most, queue.pending)
	}
}

// pendingNumbers are the pending workloads of a ClusterQueue.
type pendingNumbers struct {
	// pending are the names, and whether they may be missing.
	pending map[string]bool
	// isTried: the scheduler may try one of them.
	isTried bool
	// retrying wait for their checks, waiting for these or something else, the first of
	// them until next.
	retrying, waiting int
	next              time.Time
}

func newPendingNumbers() *pendingNumbers {
	return &pendingNumbers{pending: make(map[string]bool)}
}

func (j *judge) count(what string, n, least, most int, pending any) {
	if n < least || n > most {
		j.fail("sight, counts", "%s: %d, not from %d to %d: %v", what, n, least, most, pending)
	}
}

// localQueueOf returns the name of the only LocalQueue of a ClusterQueue.
func localQueueOf(queue string) string {
	if queue == otherQueue {
		return otherQueue
	}
	return localQueue
}

// isReported: the gauge of a ClusterQueue has what is pending in a LocalQueue that is there
// again when one of its workloads is written that Kueue has in that queue. So it is in the base.
func (j *judge) isReported(localName string) bool {
	return j.written[localName].Sub(j.localQueues[localName]) > known
}

// queueNumbers judges those of a ClusterQueue and its LocalQueue, if there are such.
func (j *judge) queueNumbers(queue string, pending map[string]bool, isTried bool) bool {
	lq, cq := &kueue.LocalQueue{}, &kueue.ClusterQueue{}
	localName := localQueueOf(queue)
	for key, obj := range map[client.ObjectKey]client.Object{{Namespace: namespace, Name: localName}: lq, {Name: queue}: cq} {
		if err := j.world.admin.Get(context.Background(), key, obj); err != nil {
			return false
		}
	}
	if ptr.Deref(lq.Spec.StopPolicy, kueue.None) != kueue.None {
		return false // as if it were not there
	}
	all, optional := len(pending), 0
	for _, isOptional := range pending {
		if isOptional {
			optional++
		}
	}
	tried, least := 0, all-optional
	// Nobody tells the ClusterQueue of one that is there again, before one of its workloads
	// is written. The scheduler tries the first, unless it is blocked or all are in a backoff.
	if !j.written[localName].After(j.localQueues[localName]) {
		least = 0
	}
	if j.world.config.Blocking {
		// The scheduler may be held up while it tries one, which is in no LocalQueue then.
		// Upstream keeps it in the ClusterQueue when the LocalQueue is deleted, and has it
		// there twice when the LocalQueue is created again. It is there as it was.
		tried = 1
	}
	for _, p := range j.world.procs {
		queued, others, misplaced := make(map[string]bool), 0, 0
		for _, info := range p.queues.PendingWorkloadsInfo(kueue.ClusterQueueReference(queue)) {
			if _, found := pending[info.Obj.Name]; !found || queued[info.Obj.Name] {
				// A copy that was listed may be added after the reservation, as in the base.
				if others++; others > tried && !j.world.config.Late {
					j.fail("sight, counts", "%s has %s twice or without need in its queue", p.name, describe(info.Obj))
				}
			}
			queued[info.Obj.Name] = true
			if now := j.misplaced(p, info.Obj); now != nil {
				if misplaced++; misplaced > tried {
					j.fail("rule 16", "%s has %s in its queue as it was: %s", p.name, describe(now), describe(info.Obj))
				}
			}
		}
		for name, isOptional := range pending {
			if !queued[name] && !isOptional {
				j.fail("sight, counts", "%s does not have %s in its queue", p.name, name)
			}
		}
		n, _ := p.queues.Pending(cq)
		j.count("pending in the ClusterQueue "+queue+" of "+p.name, n, all-optional, all+others, pending)
		m, _ := p.queues.PendingWorkloads(lq)
		j.count("pending in the LocalQueue "+localName+" of "+p.name, int(m), all-optional-tried, all, pending)
	}
	j.count("status of the ClusterQueue "+queue, int(cq.Status.PendingWorkloads), least, all+tried, pending)
	if isTried {
		// The status may be of a moment at which the scheduler tried one, which wrote nothing.
		tried = 1
	}
	j.count("status of the LocalQueue "+localName, int(lq.Status.PendingWorkloads), all-optional-tried, all, pending)
	return true
}

// misplaced returns what the workload is now, if it is not sorted by that. A queue has
// everyone in their place, and so has the visibility API.
func (j *judge) misplaced(p *process, queued *kueue.Workload) *kueue.Workload {
	now := &kueue.Workload{}
	if err := j.world.admin.Get(context.Background(), client.ObjectKeyFromObject(queued), now); err != nil {
		return nil
	}
	if hasLostPods(now) {
		return nil // it is left as it was
	}
	ordering := workload.Ordering{PodsReadyRequeuingTimestamp: configapi.EvictionTimestamp}
	if priority.Priority(queued) == priority.Priority(now) && ordering.GetQueueOrderTimestamp(queued).Add(j.world.ahead(p.name)).Equal(ordering.GetQueueOrderTimestamp(now).Time) {
		return nil
	}
	return now
}

func init() {
	metrics.Register()
}

// gauge returns the sum of a collector's metric of a ClusterQueue, 0 where none is there.
func gauge(collector prometheus.Collector, name, queue string) int {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.Metric {
			isOfQueue := slices.ContainsFunc(metric.Label, func(label *dto.LabelPair) bool {
				return label.GetName() == "cluster_queue" && label.GetValue() == queue
			})
			if family.GetName() == name && isOfQueue {
				sum += metric.GetGauge().GetValue()
			}
		}
	}
	return int(sum)
}

func (j *judge) queueIsStopped() bool {
	policies := j.stopPolicies()
	return len(policies) == 0 || slices.ContainsFunc(policies, func(policy kueue.StopPolicy) bool { return policy != kueue.None })
}

// stopPolicies are those of the ClusterQueue and its LocalQueue, none unless both are there.
func (j *judge) stopPolicies() []kueue.StopPolicy {
	cq := &kueue.ClusterQueue{}
	if err := j.world.admin.Get(context.Background(), client.ObjectKey{Name: clusterQueue}, cq); err != nil {
		return nil
	}
	lq := &kueue.LocalQueue{}
	if err := j.world.admin.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: localQueue}, lq); err != nil {
		return nil
	}
	return []kueue.StopPolicy{ptr.Deref(cq.Spec.StopPolicy, kueue.None), ptr.Deref(lq.Spec.StopPolicy, kueue.None)}
}

// isDrained returns true if nobody may hold quota. The bases do not look at the ClusterQueue
// of a LocalQueue that is stopped, and v0.14.8 not at workloads with nodes to replace.
func (j *judge) isDrained() bool {
	policies := j.stopPolicies()
	return len(policies) > 0 && (policies[1] == kueue.HoldAndDrain || policies[1] == kueue.None && policies[0] == kueue.HoldAndDrain)
}

func (j *judge) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.0fs", t.Sub(j.world.start).Seconds())
}

// hideNewFields: for traces that are compared with those of upstream's code, where
// it has no such fields.
var hideNewFields bool

func checkText(check kueue.AdmissionCheckState) string {
	text := fmt.Sprintf("%s=%s", check.Name, check.State)
	if check.RequeueAfterSeconds != nil && !hideNewFields {
		text += fmt.Sprintf(" after %d s", *check.RequeueAfterSeconds)
	}
	if check.RetryCount != nil && !hideNewFields {
		text += fmt.Sprintf(" count %d", *check.RetryCount)
	}
	return text + " since " + check.LastTransitionTime.UTC().Format("4:05")
}

// parts are what tells one state of a workload from another.
func parts(wl *kueue.Workload) []string {
	var result []string
	if !workload.IsActive(wl) {
		result = append(result, "inactive")
	}
	for _, cond := range wl.Status.Conditions {
		result = append(result, fmt.Sprintf("%s=%s(%s %s)", cond.Type, cond.Status, cond.Reason, cond.LastTransitionTime.UTC().Format("4:05")))
	}
	for _, check := range wl.Status.AdmissionChecks {
		result = append(result, checkText(check))
	}
	if at := requeueAt(wl); !at.IsZero() {
		result = append(result, "requeueAt "+at.UTC().Format("4:05"))
	}
	if count := requeueStateCount(wl); count > 0 {
		result = append(result, fmt.Sprintf("requeueState.count %d", count))
	}
	return result
}

func describe(wl *kueue.Workload) string {
	return wl.Name + " " + strings.Join(parts(wl), ", ")
}

func difference(old, wl *kueue.Workload) string {
	before, after := parts(old), parts(wl)
	var result []string
	for _, part := range after {
		if !slices.Contains(before, part) {
			result = append(result, "+"+part)
		}
	}
	for _, part := range before {
		if !slices.Contains(after, part) {
			result = append(result, "-"+part)
		}
	}
	return strings.Join(result, " ")
}
