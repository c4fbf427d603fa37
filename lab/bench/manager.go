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

package main

import (
	"context"
	"sync/atomic"
	"time"

	"kueue-acrequeueafter/lab/controlplane"
)

// manager is that of a control plane, which ends everything if it dies.
type manager struct {
	plane   *controlplane.ControlPlane
	died    context.CancelCauseFunc
	leaving atomic.Pointer[controlplane.Process]
}

func (m *manager) watch(ctx context.Context) {
	process := m.plane.Manager
	go func() {
		select {
		case <-process.Exited():
			if m.leaving.Load() != process {
				m.died(m.plane.Died())
			}
		case <-ctx.Done():
		}
	}()
}

// restart stops the manager, and returns when another one was started, which is ready.
func (m *manager) restart(ctx context.Context) (start time.Time, err error) {
	m.leaving.Store(m.plane.Manager)
	m.plane.Manager.Stop()
	start = time.Now()
	if err := m.plane.RestartManager(ctx); err != nil {
		return start, err
	}
	m.watch(ctx)
	return start, nil
}
