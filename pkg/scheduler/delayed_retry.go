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

package scheduler

import (
	"context"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/workload"
	workloadfinish "sigs.k8s.io/kueue/pkg/workload/finish"
)

// waitsForRetry returns true if it was said already why the workload is pending.
func waitsForRetry(wl *kueue.Workload) bool {
	_, waits := workload.RetryDeadline(wl)
	return waits
}

// isRefused returns true if a write failed because somebody wrote the workload since it
// was seen: with the gate on it says what was seen then.
func isRefused(err error) bool {
	return features.Enabled(features.ACRequeueAfter) && apierrors.IsConflict(err)
}

// logFailure logs a write that failed. That somebody wrote in between is no error.
func logFailure(log logr.Logger, err error, message string) {
	if isRefused(err) {
		log.V(3).Info(message, "reason", err.Error())
		return
	}
	log.Error(err, message)
}

// tryAnew has a workload tried again at once whose note, why it has no quota, was
// refused: the note is lost, and others wait for what it says.
func (s *Scheduler) tryAnew(ctx context.Context, info workload.Info, err error) {
	if isRefused(err) {
		s.requeueAtOnce(ctx, &info)
	}
}

// retriedAfter returns true if the note that a workload waits for the pods of others
// was refused. The scheduler must not wait with what it has seen, then: the entry is
// left as one whose workload is requeued at once.
func (s *Scheduler) retriedAfter(ctx context.Context, err error, e *entry) bool {
	if !isRefused(err) {
		return false
	}
	e.status = nominated
	e.LastAssignment = nil // nothing was found out about the flavors
	// The rest of the cycle finds the quota taken, and the workload may have to wait now.
	s.queueInadmissible(ctx, e.ClusterQueue)
	return true
}

// afterRefusal has the cache forget a reservation whose write failed, and returns whether
// the cache accounts for the workload all the same. With the gate on a write is refused if
// somebody wrote in between: the workload may hold quota still, as in a second pass, or
// again.
func (s *Scheduler) afterRefusal(ctx context.Context, e *entry, assumed *kueue.Workload) bool {
	log := ctrl.LoggerFrom(ctx)
	if !features.Enabled(features.ACRequeueAfter) {
		s.forget(log, assumed)
		return false
	}
	isAccountedFor := s.cache.ForgetCopy(log, assumed, func() *kueue.Workload { return s.reserved(ctx, e.Obj) })
	// Others found the quota taken, and the workload may have to wait now.
	s.queueInadmissible(ctx, e.ClusterQueue)
	return isAccountedFor
}

// scanningAnew returns the entry of a workload whose reservation was refused, which
// says nothing of the flavors that it was to get: the next cycle begins with the
// first one again, and does not find that the others have no quota.
func scanningAnew(e entry) entry {
	if features.Enabled(features.ACRequeueAfter) {
		e.LastAssignment = nil
	}
	return e
}

// reserved returns the workload as it is now, or nil if it holds no quota.
func (s *Scheduler) reserved(ctx context.Context, wl *kueue.Workload) *kueue.Workload {
	latest := s.latest(ctx, wl)
	if !holdsQuota(latest) {
		return nil
	}
	workload.AdjustResources(ctx, s.client, latest)
	return latest
}

// latest returns nil if the workload is deleted.
func (s *Scheduler) latest(ctx context.Context, wl *kueue.Workload) *kueue.Workload {
	latest := &kueue.Workload{}
	// The client is cached: the only error is NotFound.
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(wl), latest); err != nil {
		return nil
	}
	return latest
}

func holdsQuota(wl *kueue.Workload) bool {
	return wl != nil && workload.HasQuotaReservation(wl) && workload.IsActive(wl) && !workloadfinish.IsFinished(wl)
}
