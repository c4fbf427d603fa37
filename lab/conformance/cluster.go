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

package conformance

import (
	"context"
	"errors"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

// Cluster is a control plane with Kueue, the gates ACRequeueAfter and ACRetryStrategy
// on, and nothing else: no Job controller, no nodes.
type Cluster struct {
	*controlplane.ControlPlane
	client *objects.Client
}

// StartCluster starts the control plane and the manager. The error says what is
// missing, if something is.
func StartCluster(ctx context.Context, options controlplane.Options) (*Cluster, error) {
	options.Gate, options.RetryStrategy, options.QPS = true, true, 200
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	c, err := objects.NewClient(plane.Config)
	if err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return &Cluster{ControlPlane: plane, client: c}, nil
}
