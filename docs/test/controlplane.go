package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	binDir  = "../../build/bin"
	treeDir = "../../build/kueue"
)

// The manager finds the certificates of envtest, and leaves them alone.
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
integrations:
  frameworks:
  - batch/job
`

// startControlPlane starts etcd, kube-apiserver and the patched manager with the
// gate on, and returns the path of a kubeconfig. All ends with the test.
func startControlPlane(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"etcd", "kube-apiserver", "kubectl", "manager"} {
		if _, err := os.Stat(filepath.Join(binDir, program)); err != nil {
			t.Fatalf("%v: run `make build envtest kubectl`", err)
		}
	}
	log.SetLogger(logr.Discard())
	plane := &envtest.Environment{
		UseExistingCluster:    ptr.To(false),
		BinaryAssetsDirectory: binDir,
		CRDDirectoryPaths:     []string{treeDir + "/config/components/crd/bases"},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{treeDir + "/config/components/webhook"}},
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("the control plane did not stop: %v", err)
		}
	})
	if _, err := plane.Start(); err != nil {
		t.Fatalf("the control plane did not start: %v", err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, plane.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	startManager(t, plane, kubeconfig)
	return kubeconfig
}

func startManager(t *testing.T, plane *envtest.Environment, kubeconfig string) {
	t.Helper()
	// The Secret and its namespace come with Kueue's manifests.
	c, err := client.New(plane.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kueue-system"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "kueue-webhook-server-cert"}},
	} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}

	health := freeAddress(t)
	dir := t.TempDir()
	hooks := plane.WebhookInstallOptions
	config := filepath.Join(dir, "manager.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, managerConfig, health, hooks.LocalServingHost, hooks.LocalServingPort, hooks.LocalServingCertDir), 0o600); err != nil {
		t.Fatal(err)
	}
	logFile, err := os.Create(filepath.Join(dir, "manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()

	manager := exec.Command(filepath.Join(binDir, "manager"), "--config="+config, "--kubeconfig="+kubeconfig,
		"--feature-gates=ACRequeueAfter=true,VisibilityOnDemand=false")
	manager.Stdout, manager.Stderr = logFile, logFile
	if err := manager.Start(); err != nil {
		t.Fatalf("the manager did not start: %v", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- manager.Wait() }()
	t.Cleanup(func() {
		_ = manager.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = manager.Process.Kill()
			<-exited
		}
		if t.Failed() {
			content, _ := os.ReadFile(logFile.Name())
			for line := range strings.Lines(string(content)) {
				if strings.Contains(line, `"level":"error"`) {
					t.Logf("the manager's log: %s", line)
				}
			}
		}
	})
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		select {
		case err := <-exited:
			exited <- err
			return false, errors.Join(errors.New("the manager ended"), err)
		default:
		}
		response, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return false, nil
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		t.Fatalf("the manager did not get ready: %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
