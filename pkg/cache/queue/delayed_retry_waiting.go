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

package queue

import (
	"maps"
	"slices"

	"sigs.k8s.io/kueue/pkg/util/queue"
	"sigs.k8s.io/kueue/pkg/workload"
)

// waitingWorkloads are those of a ClusterQueue that must wait for their checks, or for a
// backoff that only the clock ends. They are pending, and apart from the inadmissible
// ones: each release of quota goes through those, and does nothing for one that waits.
// The zero value is empty.
type waitingWorkloads struct {
	infos        map[workload.Reference]*workload.Info
	inLocalQueue map[queue.LocalQueueReference]int
}

// insert puts a workload there that is not there yet.
func (w *waitingWorkloads) insert(wInfo *workload.Info) {
	if w.infos == nil {
		w.infos = make(map[workload.Reference]*workload.Info)
		w.inLocalQueue = make(map[queue.LocalQueueReference]int)
	}
	w.infos[workloadKey(wInfo)] = wInfo
	w.inLocalQueue[queue.KeyFromWorkload(wInfo.Obj)]++
}

// delete returns the workload that it took out, if it was there.
func (w *waitingWorkloads) delete(key workload.Reference) *workload.Info {
	wInfo := w.infos[key]
	if wInfo == nil {
		return nil
	}
	delete(w.infos, key)
	localQueue := queue.KeyFromWorkload(wInfo.Obj)
	if w.inLocalQueue[localQueue]--; w.inLocalQueue[localQueue] == 0 {
		delete(w.inLocalQueue, localQueue)
	}
	return wInfo
}

func (w *waitingWorkloads) len() int {
	return len(w.infos)
}

func (w *waitingWorkloads) keys() []workload.Reference {
	return slices.Collect(maps.Keys(w.infos))
}

func (w *waitingWorkloads) list() []*workload.Info {
	return slices.Collect(maps.Values(w.infos))
}
