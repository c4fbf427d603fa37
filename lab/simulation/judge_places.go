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
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/util/priority"
	"sigs.k8s.io/kueue/pkg/workload"
)

// Places in the queues, and all counts of those that wait: rule 16.

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
		// Upstream leaves one that loses its pods where it is, in the queue or not, until it has others.
		isLost := hasLostPods(wl)
		isOptional := !wl.DeletionTimestamp.IsZero() || isLost
		queue := queues[queueOf(wl)]
		queue.pending[wl.Name] = isOptional
		queue.isTried = queue.isTried || isForScheduler(wl, latest)
		if isLost {
			queue.waiting++ // as it was then: Known limits has it
		} else if at := requeueAt(wl); earliest.Before(at) {
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
	extra, local := 0, 0 // in the queues of any of them
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
		extra = max(extra, others)
		for name, isOptional := range pending {
			if !queued[name] && !isOptional {
				j.fail("sight, counts", "%s does not have %s in its queue", p.name, name)
			}
		}
		n, _ := p.queues.Pending(cq)
		j.count("pending in the ClusterQueue "+queue+" of "+p.name, n, all-optional, all+others, pending)
		m, _ := p.queues.PendingWorkloads(lq)
		stray := others
		if j.world.config.Late {
			// A copy that was listed may be added after the workload was moved, as in the base.
			for _, left := range j.left {
				if left == queue {
					stray++
				}
			}
		}
		local = max(local, stray)
		j.count("pending in the LocalQueue "+localName+" of "+p.name, int(m), all-optional-tried, all+stray, pending)
	}
	j.count("status of the ClusterQueue "+queue, int(cq.Status.PendingWorkloads), least, all+max(tried, extra), pending)
	if isTried {
		// The status may be of a moment at which the scheduler tried one, which wrote nothing.
		tried = 1
	}
	j.count("status of the LocalQueue "+localName, int(lq.Status.PendingWorkloads), all-optional-tried, all+local, pending)
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
