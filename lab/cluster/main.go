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

// Command cluster starts a control plane with the patched Kueue to try admission
// checks on: etcd, kube-apiserver and the manager, and no nodes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"kueue-acrequeueafter/lab/controlplane"
)

var (
	binDir  = flag.String("bin-dir", "build/bin", "`directory` of etcd, kube-apiserver and manager")
	treeDir = flag.String("tree-dir", "build/kueue", "`directory` of the patched tree, with Kueue's CRDs and webhooks")
	out     = flag.String("out", "build/cluster", "`directory` for the kubeconfig and the logs")
	gate    = flag.Bool("gate", true, "the feature gates ACRequeueAfter and ACRetryStrategy")
	plain   = flag.String("plain", "", "`directory` of a plain Kueue, with its manager and a link source to its sources, to start instead")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), `Starts a control plane with the patched Kueue, and stops it on Ctrl-C.

There are no nodes and no Job controller: an admitted Job is unsuspended, and no
pods run. All objects are gone in the end.

Flags:
`)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	options, with := controlplane.Options{BinDir: *binDir, TreeDir: *treeDir, Out: *out, Gate: *gate, RetryStrategy: *gate}, fmt.Sprintf("ACRequeueAfter=%t", *gate)
	if *plain != "" {
		options, with = options.WithPlain(*plain), "plain Kueue"
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	fmt.Printf("The cluster is ready, with %s; Ctrl-C stops it. In another terminal:\n\n  export KUBECONFIG=%s\n\n", with, plane.Kubeconfig)
	select {
	case <-ctx.Done():
		return nil
	case <-plane.Manager.Exited():
		return plane.Died()
	}
}
