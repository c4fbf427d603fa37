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

	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
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
	// postponed has the end of the pause of what is being reconciled, if it is untidy.
	postponed sync.Map
}

func (t *tidiedWorkloads) cache(clk clock.PassiveClock) *utilcache.LRUExpireCache {
	t.once.Do(func() { t.until = utilcache.NewLRUExpireCacheWithClock(mostTidied, clk) })
	return t.until
}

// tidy removes what means nothing any more, in a write of its own, and returns whether
// it did. A delay that came back waits for the end of the pause; nothing else does.
func (r *WorkloadReconciler) tidy(ctx context.Context, wl *kueue.Workload, plan workload.RetryPlan) (bool, error) {
	tidied, key, now := r.tidied.cache(r.clock), client.ObjectKeyFromObject(wl), r.clock.Now()
	if until, found := tidied.Get(key); found && now.Before(until.(time.Time)) && !plan.ResetsCounts {
		r.tidied.postponed.Store(key, until)
		return false, nil
	}
	if err := r.mergeStatus(ctx, wl, func() { workload.Tidy(wl) }); err != nil {
		return true, client.IgnoreNotFound(fmt.Errorf("delayed retry, tidying: %w", err))
	}
	tidied.Add(key, now.Add(tidyPause), tidyPause)
	return true, nil
}

// tidyingReconciler reconciles a workload again when its pause is over, whatever else
// there was to do for it.
type tidyingReconciler struct{ *WorkloadReconciler }

func (r tidyingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.WorkloadReconciler.Reconcile(ctx, req)
	if until, found := r.tidied.postponed.LoadAndDelete(req.NamespacedName); found && err == nil {
		// It may be over by now.
		pause := max(until.(time.Time).Sub(r.clock.Now()), time.Millisecond)
		if result.RequeueAfter == 0 || pause < result.RequeueAfter {
			result.RequeueAfter = pause
		}
	}
	return result, err
}
