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

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// What queues ask for, and whether they are there.

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

// keepsRemovedCheck: in a LocalQueue that is stopped, or was made again, nobody may remove a check
// that the ClusterQueue has ceased to ask for, and its delay holds. Known limits has it.
func (j *judge) keepsRemovedCheck(wl *kueue.Workload) bool {
	isMadeAgain := j.queuesThere[string(wl.Spec.QueueName)].After(evictedAt(wl).Add(-time.Second - j.world.apart()))
	return (!j.isInOpenQueue(wl) || isMadeAgain) && slices.ContainsFunc(wl.Status.AdmissionChecks, func(check kueue.AdmissionCheckState) bool {
		return check.State == kueue.CheckStateRetry && !j.isAskedFor(wl, check.Name)
	})
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
