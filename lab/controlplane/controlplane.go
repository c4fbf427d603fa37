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

// Package controlplane starts a control plane with the patched Kueue, for the
// demo and for tests: etcd, kube-apiserver, and the manager as a process. There
// are no nodes and no Job controller.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// ErrUnclean says that something may have been left running.
var ErrUnclean = errors.New("the control plane did not stop cleanly")

// Options say what to start. All directories are required.
type Options struct {
	// BinDir is the directory of etcd, kube-apiserver and manager.
	BinDir string
	// TreeDir is the directory of the patched tree, or of the sources of a plain Kueue,
	// with its CRDs and webhooks.
	TreeDir string
	// Out is the directory for the kubeconfig, the logs and the manager's
	// configuration.
	Out string
	// Gate is the feature gate ACRequeueAfter.
	Gate bool
	// RetryStrategy is the feature gate ACRetryStrategy, which needs the other one.
	RetryStrategy bool
	// Manager, if set, is the program to start instead of the one in BinDir.
	Manager string
	// Plain says that the manager is one without the patches, and knows no gate.
	Plain bool
	// QPS limits the requests of the manager in a second; the burst is twice that.
	// Zero: 50.
	QPS int
	// Workers of each of the controllers of Jobs and Workloads. Zero: 1.
	Workers int
	// LogLevel of the manager. Zero: 3.
	LogLevel int
	// Audit has the API server log the metadata of all requests to Out/audit.log.
	Audit bool
	// Profile has the manager serve net/http/pprof at the address Profile.
	Profile bool
	// Replicas has no manager started: StartReplica does so.
	Replicas bool
	// Say, if set, is told of each step.
	Say func(format string, args ...any)
	// ManagerLog, if set, gets the manager's log too.
	ManagerLog io.Writer
}

// ControlPlane is a control plane that runs.
type ControlPlane struct {
	// Config is for an administrator.
	Config *rest.Config
	// Kubeconfig is the absolute path of a file for the same, in Out. It goes with
	// the control plane.
	Kubeconfig string
	// Metrics is the address of the manager's metrics, which are served by HTTPS to
	// those who have a token that allows it.
	Metrics string
	// Profile is the address of the manager's profiles, if they were asked for.
	Profile string
	// Manager is Kueue's.
	Manager *Process

	options      Options
	env          *envtest.Environment
	hooks        *envtest.WebhookInstallOptions
	certificates *certificates
	users        sync.Mutex
	// server is the API server that RestartServer has started.
	server *Process
}

// managerConfig is the manager's configuration. Its own handling of certificates
// stays on, since without it the manager asks for a certificate below /etc; it
// finds ours in place and leaves them alone.
const managerConfig = `apiVersion: %s
kind: Configuration
namespace: ` + managerNamespace + `
health:
  healthProbeBindAddress: %s
metrics:
  bindAddress: %s
webhook:
  host: %q
  port: %d
  certDir: %q
leaderElection: %[11]s
internalCertManagement:
  enable: true
clientConnection:
  qps: %[7]d
  burst: %[8]d
controller:
  groupKindConcurrency:
    Job.batch: %[9]d
    Workload.kueue.x-k8s.io: %[9]d
pprofBindAddress: %[10]q
integrations:
  frameworks:
  - batch/job
`

// WithPlain has a plain release be started instead: dir has its manager, and source
// is a link to its sources there.
func (o Options) WithPlain(dir string) Options {
	o.Plain, o.Manager, o.TreeDir = true, filepath.Join(dir, "manager"), filepath.Join(dir, "source")
	return o
}

// Check returns an error that says what to run if something is missing.
func (o Options) Check() error {
	for _, path := range []string{filepath.Join(o.BinDir, "etcd"), filepath.Join(o.BinDir, "kube-apiserver"), o.manager()} {
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not there, or not a program: run `make build envtest`", path)
		}
	}
	for _, path := range []string{o.source().crds(), o.source().webhooks(), o.source().managerConfig()} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is not there: run `make tree`", path)
		}
	}
	return nil
}

func (o Options) manager() string {
	if o.Manager != "" {
		return o.Manager
	}
	return filepath.Join(o.BinDir, "manager")
}

func (o Options) source() source { return source(o.TreeDir) }

// Start returns when the manager is ready, unless there are to be replicas. Beside an error nothing is left running.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if err := options.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(options.Out, 0o755); err != nil {
		return nil, err
	}
	if options.Say == nil {
		options.Say = func(string, ...any) {}
	}
	if options.QPS == 0 {
		options.QPS = 50
	}
	options.Workers = max(options.Workers, 1)
	if options.LogLevel == 0 {
		options.LogLevel = 3
	}
	c := &ControlPlane{options: options}
	if err := c.startServers(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if options.Replicas {
		if _, err := c.installCertificates(ctx); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		return c, nil
	}
	if err := c.startManager(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// startServers starts etcd and kube-apiserver, and installs Kueue's CRDs and
// webhook configurations.
func (c *ControlPlane) startServers(ctx context.Context) error {
	c.options.Say("etcd and kube-apiserver start, with Kueue's CRDs and webhooks ...")
	// The options decide, whatever the surroundings say.
	for _, name := range []string{"KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"} {
		os.Unsetenv(name)
	}
	c.env = &envtest.Environment{
		UseExistingCluster:    ptr.To(false),
		BinaryAssetsDirectory: c.options.BinDir,
		CRDDirectoryPaths:     []string{c.options.source().crds()},
		ErrorIfCRDPathMissing: true,
		// A busy machine takes longer than envtest waits.
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: time.Minute},
	}
	etcdLog, err := os.Create(filepath.Join(c.options.Out, "etcd.log"))
	if err != nil {
		return err
	}
	defer etcdLog.Close()
	serverLog, err := os.Create(filepath.Join(c.options.Out, "kube-apiserver.log"))
	if err != nil {
		return err
	}
	defer serverLog.Close()
	// The processes get the files themselves, and keep them.
	c.env.ControlPlane.Etcd = &envtest.Etcd{Out: etcdLog, Err: etcdLog}
	server := c.env.ControlPlane.GetAPIServer()
	server.Out, server.Err = serverLog, serverLog
	// One that is started again finds its port free: no connection was given it meanwhile.
	address, err := FreeAddress()
	if err != nil {
		return err
	}
	if server.SecureServing.Address, server.SecureServing.Port, err = net.SplitHostPort(address); err != nil {
		return err
	}
	if c.options.Audit {
		if err := c.audit(server.Configure()); err != nil {
			return err
		}
	}

	// envtest knows no context: an interrupt waits until it is through, so that
	// what it started can be stopped.
	done := make(chan error, 1)
	go func() {
		_, err := c.env.Start()
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		c.options.Say("interrupted: stopping as soon as the control plane is far enough to be stopped ...")
		<-done
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the control plane did not start: %w\nsee %s and %s", err, etcdLog.Name(), serverLog.Name())
	}
	c.Config = c.env.Config
	if err := c.installWebhooks(ctx); err != nil {
		return err
	}
	if c.Kubeconfig, err = filepath.Abs(filepath.Join(c.options.Out, "kubeconfig")); err != nil {
		return err
	}
	if err := os.WriteFile(c.Kubeconfig, c.env.KubeConfig, 0o600); err != nil {
		return err
	}
	c.options.Say("kube-apiserver is up at %s with %d CRDs and %d webhooks", strings.TrimSuffix(c.Config.Host, "/"), len(c.env.CRDs), c.countWebhooks())
	return nil
}

// installWebhooks has the manager serve the webhooks of Kueue's manifests.
func (c *ControlPlane) installWebhooks(ctx context.Context) (err error) {
	c.hooks = &envtest.WebhookInstallOptions{
		Paths:                        []string{c.options.source().webhooks()},
		LocalServingHostExternalName: "localhost",
		MaxTime:                      time.Minute,
	}
	if err := c.hooks.PrepWithoutInstalling(); err != nil {
		return err
	}
	prefix, err := c.options.source().namePrefix()
	if err != nil {
		return err
	}
	for _, hook := range c.hooks.MutatingWebhooks {
		hook.Name = prefix + hook.Name
	}
	for _, hook := range c.hooks.ValidatingWebhooks {
		hook.Name = prefix + hook.Name
	}
	if c.certificates, err = newCertificates(c.hooks.LocalServingHostExternalName); err != nil {
		return err
	}
	if err := c.certificates.serve(c.hooks); err != nil {
		return err
	}
	if err := c.hooks.Install(c.Config); err != nil {
		return err
	}
	return c.convert(ctx)
}

// convert has the manager convert what Kueue's manifests have it convert. envtest
// removes that from the CRDs of types that it does not know.
func (c *ControlPlane) convert(ctx context.Context) error {
	conversions, err := c.options.source().conversions()
	if err != nil {
		return err
	}
	kube, err := client.New(c.Config, client.Options{Scheme: c.env.Scheme})
	if err != nil {
		return err
	}
	for _, crd := range c.env.CRDs {
		conversion := conversions[crd.Name]
		if conversion == nil {
			continue
		}
		conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{
			URL:      ptr.To(fmt.Sprintf("https://%s:%d/convert", c.hooks.LocalServingHostExternalName, c.hooks.LocalServingPort)),
			CABundle: c.hooks.LocalServingCAData,
		}
		before := crd.DeepCopy()
		crd.Spec.Conversion = conversion
		if err := kube.Patch(ctx, crd, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

func (c *ControlPlane) audit(arguments *envtest.Arguments) error {
	policy, log := filepath.Join(c.options.Out, "audit.yaml"), filepath.Join(c.options.Out, "audit.log")
	if err := os.Remove(log); err != nil && !os.IsNotExist(err) {
		return err
	}
	// One file, whose end is read: it must not begin anew at its default of 100 MB.
	arguments.Append("audit-policy-file", policy).Append("audit-log-path", log).Append("audit-log-maxsize", "1000000")
	return os.WriteFile(policy, []byte(auditPolicy), 0o644)
}

func (c *ControlPlane) countWebhooks() int {
	n := 0
	for _, configuration := range c.hooks.MutatingWebhooks {
		n += len(configuration.Webhooks)
	}
	for _, configuration := range c.hooks.ValidatingWebhooks {
		n += len(configuration.Webhooks)
	}
	return n
}

func (c *ControlPlane) startManager(ctx context.Context) error {
	if c.options.Plain {
		c.options.Say("the manager starts, without the patches ...")
	} else {
		c.options.Say("the manager starts, ACRequeueAfter=%t ...", c.options.Gate)
	}
	kube, err := c.installCertificates(ctx)
	if err != nil {
		return err
	}
	if c.Metrics, err = FreeAddress(); err != nil {
		return err
	}
	if c.options.Profile {
		if c.Profile, err = FreeAddress(); err != nil {
			return err
		}
	}
	health, err := FreeAddress()
	if err != nil {
		return err
	}
	configFile := filepath.Join(c.options.Out, "manager.yaml")
	if err := c.configure(configFile, health, c.Metrics, c.hooks.LocalServingPort, `{leaderElect: false}`); err != nil {
		return err
	}
	logFile := filepath.Join(c.options.Out, "manager.log")
	if err := os.Remove(logFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	c.Manager, err = StartProcess(ProcessOptions{Log: logFile, Copy: c.options.ManagerLog}, c.options.manager(),
		c.arguments(configFile, c.Kubeconfig)...)
	if err != nil {
		return fmt.Errorf("the manager did not start: %w", err)
	}
	if err := c.waitReady(ctx, "http://"+health+"/readyz"); err != nil {
		return err
	}
	if err := c.certificates.kept(ctx, kube); err != nil {
		return err
	}
	c.options.Say("the manager is ready (process %d)", c.Manager.cmd.Process.Pid)
	return nil
}

// installCertificates creates the Secret and its namespace, which come with Kueue's
// manifests.
func (c *ControlPlane) installCertificates(ctx context.Context) (client.Client, error) {
	kube, err := client.New(c.Config, client.Options{})
	if err != nil {
		return nil, err
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}},
		c.certificates.secret(),
	} {
		if err := client.IgnoreAlreadyExists(kube.Create(ctx, obj)); err != nil {
			return nil, err
		}
	}
	return kube, nil
}

// configure writes the configuration of a manager.
func (c *ControlPlane) configure(file, health, metrics string, webhooks int, election string) error {
	version, err := c.options.source().configVersion()
	if err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Appendf(nil, managerConfig, version, health, metrics,
		c.hooks.LocalServingHost, webhooks, c.hooks.LocalServingCertDir, c.options.QPS, 2*c.options.QPS,
		c.options.Workers, c.Profile, election), 0o644)
}

func (c *ControlPlane) arguments(configFile, kubeconfig string) []string {
	gates := "VisibilityOnDemand=false"
	if !c.options.Plain {
		gates += fmt.Sprintf(",ACRequeueAfter=%t", c.options.Gate)
		if c.options.RetryStrategy {
			gates += ",ACRetryStrategy=true"
		}
	}
	return []string{"--config=" + configFile, "--kubeconfig=" + kubeconfig, fmt.Sprintf("--zap-log-level=%d", c.options.LogLevel), "--feature-gates=" + gates}
}

// RestartManager stops the manager, and starts another one. It returns when that is
// ready, or with an error when the context ends, or after a minute; it may still run
// then.
func (c *ControlPlane) RestartManager(ctx context.Context) error {
	c.Manager.Stop()
	return c.startManager(ctx)
}

func (c *ControlPlane) waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-c.Manager.Exited():
			return c.Died()
		case <-ctx.Done():
			return fmt.Errorf("the manager did not get ready: %w\n%s", ctx.Err(), c.Manager.Tail(15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Died returns the error of a manager that has exited, with the end of its log.
func (c *ControlPlane) Died() error {
	return fmt.Errorf("the manager ended: %v\n%s", c.Manager.err, c.Manager.Tail(15))
}

// AddUser adds a user with a client certificate. It may be called at any time.
func (c *ControlPlane) AddUser(user envtest.User) (*envtest.AuthenticatedUser, error) {
	c.users.Lock()
	defer c.users.Unlock()
	return c.env.AddUser(user, nil)
}

// Stop stops all that was started. The error is ErrUnclean if something may still run.
func (c *ControlPlane) Stop() error {
	if c.Manager != nil {
		c.options.Say("stopping the manager")
		c.Manager.Stop()
	}
	if c.env == nil {
		return nil
	}
	c.options.Say("stopping the control plane")
	if c.server != nil {
		c.server.Stop()
	}
	if c.Kubeconfig != "" {
		_ = os.Remove(c.Kubeconfig)
	}
	if c.hooks != nil {
		_ = c.hooks.Cleanup()
	}
	if err := c.env.Stop(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnclean, err)
	}
	return nil
}

// givenPorts are those that FreeAddress has returned.
var givenPorts sync.Map

// FreeAddress returns an address that nobody listens at. The one who asks does so only
// later: the port is not one of those that the kernel gives away, nor given twice.
func FreeAddress() (string, error) {
	const first, last = 20000, 32767
	for range last - first {
		port := first + rand.IntN(last-first+1)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return "", err
		}
		return listener.Addr().String(), listener.Close()
	}
	return "", fmt.Errorf("no port from %d to %d is free", first, last)
}
