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

package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/pkg/workload"
)

const (
	// tidyPause is the least time between two writes that tidy a workload.
	tidyPause = time.Second
	// mostTidied bounds the memory. With more of them in a second the client's limit of
	// requests is what slows them down.
	mostTidied = 4096
)

// tidiedWorkloads knows which workloads were tidied in the last second. The controller
// of a check that sends a delay with every state sends it again as soon as it is
// removed: without a pause neither would end. That is not kept in the object, since no
// more depends on it than one write after a restart. The zero value is ready for use.
type tidiedWorkloads struct {
	once  sync.Once
	until *utilcache.LRUExpireCache
}

func (t *tidiedWorkloads) cache(clk clock.PassiveClock) *utilcache.LRUExpireCache {
	t.once.Do(func() { t.until = utilcache.NewLRUExpireCacheWithClock(mostTidied, clk) })
	return t.until
}

// tidy removes what means nothing any more, in a write of its own, or returns how long
// that has to wait.
func (r *WorkloadReconciler) tidy(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan) (time.Duration, error) {
	type key struct {
		types.NamespacedName
		types.UID
	}
	tidied, id := r.tidied.cache(r.clock), key{client.ObjectKeyFromObject(wl), wl.UID}
	if until, found := tidied.Get(id); found && r.clock.Now().Before(until.(time.Time)) {
		return until.(time.Time).Sub(r.clock.Now()), nil
	}
	if err := r.mergeStatus(ctx, wl, func() { plan.Tidy(wl) }); err != nil {
		return 0, client.IgnoreNotFound(fmt.Errorf("delayed retry, tidying: %w", err))
	}
	tidied.Add(id, r.clock.Now().Add(tidyPause), tidyPause)
	return 0, nil
}
