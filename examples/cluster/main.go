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
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

var (
	binDir   = flag.String("bin-dir", "../build/bin", "`directory` of etcd, kube-apiserver and manager")
	crds     = flag.String("crds", "../build/kueue/config/components/crd/bases", "`directory` of Kueue's CRDs")
	webhooks = flag.String("webhooks", "../build/kueue/config/components/webhook", "`directory` of Kueue's webhook configurations")
	out      = flag.String("out", "../build/cluster", "`directory` for the kubeconfig and the manager's log")
	gate     = flag.Bool("gate", true, "the feature gate ACRequeueAfter")
)

// managerConfig is the manager's configuration. Its own handling of certificates
// stays on, since without it the manager asks for a certificate below /etc; it
// finds those of envtest in place and leaves them alone.
const managerConfig = `apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
namespace: kueue-system
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: %q, port: %d, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true}
integrations: {frameworks: [batch/job]}
`

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
	for _, name := range []string{"etcd", "kube-apiserver", "manager"} {
		if _, err := os.Stat(filepath.Join(*binDir, name)); err != nil {
			return fmt.Errorf("%w: run `make build envtest`", err)
		}
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	plane := &envtest.Environment{
		UseExistingCluster:    ptr.To(false),
		BinaryAssetsDirectory: *binDir,
		CRDDirectoryPaths:     []string{*crds},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{*webhooks}},
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if _, err := plane.Start(); err != nil {
		return err
	}
	kubeconfig, err := filepath.Abs(filepath.Join(*out, "kubeconfig"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(kubeconfig, plane.KubeConfig, 0o600); err != nil {
		return err
	}
	defer os.Remove(kubeconfig)

	manager, err := startManager(ctx, plane, kubeconfig)
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- manager.Wait() }()
	defer func() { _ = manager.Process.Kill() }()

	fmt.Printf("The cluster is ready, with ACRequeueAfter=%t; Ctrl-C stops it. In another terminal:\n\n  export KUBECONFIG=%s\n\n", *gate, kubeconfig)
	select {
	case <-ctx.Done():
		return nil
	case err := <-exited:
		return fmt.Errorf("the manager ended, see %s: %v", filepath.Join(*out, "manager.log"), err)
	}
}

// startManager returns when the manager is ready.
func startManager(ctx context.Context, plane *envtest.Environment, kubeconfig string) (*exec.Cmd, error) {
	c, err := client.New(plane.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	// The Secret and its namespace come with Kueue's manifests.
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kueue-system"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "kueue-webhook-server-cert"}},
	} {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	health := listener.Addr().String()
	listener.Close()
	hooks := plane.WebhookInstallOptions
	config := filepath.Join(*out, "manager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, managerConfig, health, hooks.LocalServingHost, hooks.LocalServingPort, hooks.LocalServingCertDir), 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(*out, "manager.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(*binDir, "manager"), "--config="+config, "--kubeconfig="+kubeconfig, "--zap-log-level=2",
		fmt.Sprintf("--feature-gates=ACRequeueAfter=%t,VisibilityOnDemand=false", *gate))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of the terminal's Ctrl-C
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		resp, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false, nil
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("the manager did not get ready, see %s: %w", log.Name(), err), cmd.Process.Kill())
	}
	return cmd, nil
}
