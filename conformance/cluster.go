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
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
)

// ClusterOptions say where the programs and files are.
type ClusterOptions struct {
	// BinDir holds etcd, kube-apiserver and manager.
	BinDir string
	// CRDs and Webhooks are the directories of Kueue's.
	CRDs, Webhooks string
	// Out is the directory for the logs.
	Out string
}

// Cluster is a control plane with Kueue, the gate ACRequeueAfter on, and
// nothing else: no Job controller, no nodes.
type Cluster struct {
	options    ClusterOptions
	plane      *envtest.Environment
	manager    *process
	client     client.WithWatch
	kubeconfig string
	users      sync.Mutex
}

// managerConfig is the manager's configuration file. Its own handling of
// certificates stays on, since without it the manager asks for a certificate
// below /etc; it finds those of envtest in place and leaves them alone.
const managerConfig = `apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
namespace: kueue-system
health:
  healthProbeBindAddress: %s
metrics:
  bindAddress: "0"
webhook:
  host: %q
  port: %d
  certDir: %q
leaderElection:
  leaderElect: false
internalCertManagement:
  enable: true
clientConnection:
  qps: 200
  burst: 400
integrations:
  frameworks:
  - batch/job
`

func newScheme() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(scheme))
	return scheme
}

// StartCluster starts the control plane and the manager. The error says what is
// missing, if something is.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	for _, name := range []string{"etcd", "kube-apiserver", "manager"} {
		if _, err := os.Stat(filepath.Join(options.BinDir, name)); err != nil {
			return nil, fmt.Errorf("%w: run `make build envtest`", err)
		}
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil {
		return nil, err
	}
	// Logs are appended to.
	if err := os.Remove(filepath.Join(options.Out, "manager.log")); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	c := &Cluster{options: options}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	// The options decide, whatever the surroundings say.
	for _, name := range []string{"KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"} {
		os.Unsetenv(name)
	}
	c.plane = &envtest.Environment{
		UseExistingCluster:    ptr.To(false),
		BinaryAssetsDirectory: c.options.BinDir,
		CRDDirectoryPaths:     []string{c.options.CRDs},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{c.options.Webhooks}},
	}
	if _, err := c.plane.Start(); err != nil {
		return fmt.Errorf("the control plane did not start: %w", err)
	}
	c.plane.Config.QPS, c.plane.Config.Burst = -1, -1
	var err error
	if c.client, err = client.NewWithWatch(c.plane.Config, client.Options{Scheme: newScheme()}); err != nil {
		return err
	}
	// The Secret and its namespace come with Kueue's manifests.
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kueue-system"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "kueue-webhook-server-cert"}},
	} {
		if err := c.client.Create(ctx, obj); err != nil {
			return err
		}
	}
	c.kubeconfig = filepath.Join(c.plane.WebhookInstallOptions.LocalServingCertDir, "kubeconfig") // goes with the control plane
	if err := os.WriteFile(c.kubeconfig, c.plane.KubeConfig, 0o600); err != nil {
		return err
	}
	return c.startManager(ctx)
}

func (c *Cluster) startManager(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	health := listener.Addr().String()
	listener.Close()
	hooks := c.plane.WebhookInstallOptions
	config := filepath.Join(c.options.Out, "manager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, managerConfig, health, hooks.LocalServingHost, hooks.LocalServingPort, hooks.LocalServingCertDir), 0o644); err != nil {
		return err
	}
	p, err := startProcess(filepath.Join(c.options.Out, "manager.log"), nil, filepath.Join(c.options.BinDir, "manager"),
		"--config="+config, "--kubeconfig="+c.kubeconfig, "--zap-log-level=3",
		"--feature-gates=ACRequeueAfter=true,VisibilityOnDemand=false")
	if err != nil {
		return fmt.Errorf("the manager did not start: %w", err)
	}
	c.manager = p
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if response, err := http.Get("http://" + health + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.manager.exited:
			return fmt.Errorf("the manager ended: %s", c.manager.tail(15))
		case <-ctx.Done():
			return fmt.Errorf("the manager did not get ready: %w\n%s", ctx.Err(), c.manager.tail(15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// addUser is AddUser, which several must not call at a time.
func (c *Cluster) addUser(user envtest.User) (*envtest.AuthenticatedUser, error) {
	c.users.Lock()
	defer c.users.Unlock()
	return c.plane.AddUser(user, nil)
}

// Stop stops what was started.
func (c *Cluster) Stop() error {
	if c.manager != nil {
		c.manager.stop()
	}
	return c.plane.Stop()
}

// process is a program that was started, with whatever it starts itself.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// startProcess runs the program in a group of its own, out of reach of the
// terminal's Ctrl-C, and bound to die with this process. It appends to the log.
func startProcess(log string, env []string, program string, args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// A child bound to its parent dies with the thread that started it.
		runtime.LockOSThread()
		defer file.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return p, <-started
}

// stop ends the process and whatever it started.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.exited
}

// tail returns the end of the log.
func (p *process) tail(n int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return fmt.Sprintf("the end of %s:\n%s", p.log, strings.Join(lines[max(0, len(lines)-n):], "\n"))
}
