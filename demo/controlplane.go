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
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var errUnclean = errors.New("the control plane did not stop cleanly")

// startControlPlane starts etcd and kube-apiserver, and installs Kueue's CRDs
// and webhook configurations. What it returns must be stopped, also beside an
// error.
func (d *demo) startControlPlane(ctx context.Context) (*envtest.Environment, error) {
	d.say("etcd and kube-apiserver start, with Kueue's CRDs and webhooks ...")
	// The flags decide, whatever the surroundings say.
	for _, name := range []string{"KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"} {
		os.Unsetenv(name)
	}
	plane := &envtest.Environment{
		UseExistingCluster:    ptr.To(false),
		BinaryAssetsDirectory: d.binDir,
		CRDDirectoryPaths:     []string{d.crds},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{d.webhooks}},
	}
	etcdLog, err := os.Create(filepath.Join(d.out, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer etcdLog.Close()
	serverLog, err := os.Create(filepath.Join(d.out, "kube-apiserver.log"))
	if err != nil {
		return nil, err
	}
	defer serverLog.Close()
	// The processes get the files themselves, and keep them.
	plane.ControlPlane.Etcd = &envtest.Etcd{Out: etcdLog, Err: etcdLog}
	server := plane.ControlPlane.GetAPIServer()
	server.Out, server.Err = serverLog, serverLog

	// Start knows no context: an interrupt waits until it is through, so that
	// it can be stopped.
	done := make(chan error, 1)
	go func() {
		_, err := plane.Start()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		d.say("interrupted: stopping as soon as the control plane is far enough to be stopped ...")
		<-done
		return plane, ctx.Err()
	}
	if err != nil {
		return plane, fmt.Errorf("the control plane did not start: %w\nsee %s and %s", err, etcdLog.Name(), serverLog.Name())
	}
	d.say("kube-apiserver is up at %s with %d CRDs and %d webhooks", strings.TrimSuffix(plane.Config.Host, "/"), len(plane.CRDs), webhooks(plane))
	return plane, nil
}

func (d *demo) stopControlPlane(plane *envtest.Environment) error {
	d.say("stopping the control plane")
	if err := plane.Stop(); err != nil {
		return fmt.Errorf("%w: %w", errUnclean, err)
	}
	return nil
}

func webhooks(plane *envtest.Environment) int {
	n := 0
	for _, c := range plane.WebhookInstallOptions.MutatingWebhooks {
		n += len(c.Webhooks)
	}
	for _, c := range plane.WebhookInstallOptions.ValidatingWebhooks {
		n += len(c.Webhooks)
	}
	return n
}
