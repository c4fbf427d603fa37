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

// Package examples tries the examples on a real API server, with Kueue's manager,
// as the ServiceAccounts of their manifests.
package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/objects"
)

const timeout = time.Minute

// cluster is a control plane with Kueue.
type cluster struct {
	*objects.Client
	cfg *rest.Config
	bin string
}

func TestExamples(t *testing.T) {
	bin := os.Getenv("EXAMPLES_BIN")
	if bin == "" || os.Getenv("EXAMPLES_TREE") == "" {
		t.Skip("EXAMPLES_BIN and EXAMPLES_TREE, the directories of the programs and of the patched tree, are not set: run make test-examples")
	}
	c := startCluster(t, bin)
	t.Run("budget", c.testBudget)
	t.Run("capacity", c.testCapacity)
	t.Run("health", c.testHealth)
}

func (c *cluster) testBudget(t *testing.T) {
	c.apply(t, "budget")
	c.start(t, "budget")
	namespace := c.createQueue(t, "budget", "2")

	first := c.createJob(t, namespace, "first")
	c.await(t, first, "admitted: its namespace has no budget", isAdmitted)

	resets := time.Now().Add(time.Hour).Truncate(time.Second)
	budget := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "budget"},
		Data:       map[string]string{"limit": "1", "period": "24h", "resets": resets.Format(time.RFC3339)},
	}
	c.create(t, budget)
	second := c.createJob(t, namespace, "second")
	waiting := c.await(t, second, "waiting for the next budget", isWaiting)
	if at := waiting.Status.RequeueState.RequeueAt.Time; at.Before(resets) || at.After(resets.Add(timeout)) {
		t.Errorf("Waits until %v, and the budget is reset at %v", at, resets)
	}

	budget.Data["limit"] = "2"
	if err := c.Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	c.await(t, second, "admitted: the budget was raised", isAdmitted)

	third := c.createJob(t, namespace, "third")
	c.finish(t, namespace, "first")
	c.await(t, third, "waiting: what was paid is not given back", isWaiting)
}

func (c *cluster) testCapacity(t *testing.T) {
	c.apply(t, "capacity")
	slots := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "capacity", Name: "slots"}
	set := func(data string) {
		t.Helper()
		c.eventually(t, "set the slots", func(ctx context.Context) error {
			if err := c.Get(ctx, key, slots); err != nil {
				return err
			}
			slots.Data["slots"] = data
			return c.Update(ctx, slots)
		})
	}
	set("one")
	c.start(t, "capacity", "--backoff-base=2s", "--backoff-cap=8s", "--backoff-jitter=0")
	c.eventually(t, "see the check inactive, as slots is not a number", func(ctx context.Context) error {
		check := &kueue.AdmissionCheck{}
		if err := c.Get(ctx, client.ObjectKey{Name: "capacity"}, check); err != nil {
			return err
		}
		if active := apimeta.FindStatusCondition(check.Status.Conditions, kueue.AdmissionCheckActive); active == nil || active.Reason != "BadConfigMap" {
			return fmt.Errorf("its condition: %v", active)
		}
		return nil
	})
	set("1")
	namespace := c.createQueue(t, "capacity", "2")
	first := c.createJob(t, namespace, "first")
	c.await(t, first, "admitted", isAdmitted)

	second := c.createJob(t, namespace, "second")
	for retries, delay := range []int32{2, 4, 8, 8} {
		c.await(t, second, fmt.Sprintf("waiting %d s after %d retries", delay, retries), func(wl *kueue.Workload) bool {
			state := stateOf(wl, "capacity")
			return isWaiting(wl) && ptr.Deref(state.RetryCount, 0) == int32(retries) && ptr.Deref(state.RequeueAfterSeconds, 0) == delay
		})
	}
	c.finish(t, namespace, "first")
	c.await(t, second, "admitted: a slot is free again", isAdmitted)
}

func (c *cluster) testHealth(t *testing.T) {
	c.apply(t, "health")
	namespace := c.createQueue(t, "health", "1")
	impatient := c.start(t, "health", "--slow=1ns", "--delay=1ns", "--max-delay=3s")
	job := c.createJob(t, namespace, "job")
	waiting := c.await(t, job, "waiting for a faster API server", isWaiting)
	if state := stateOf(waiting, "health"); ptr.Deref(state.RequeueAfterSeconds, 0) < 1 || *state.RequeueAfterSeconds > 3 {
		t.Errorf("Asks for a delay out of bounds: %v", state)
	}
	impatient.stop()
	c.start(t, "health", "--slow=1m")
	c.await(t, job, "admitted: the API server is fast enough", isAdmitted)
}

func isAdmitted(wl *kueue.Workload) bool {
	return apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadAdmitted)
}

func stateOf(wl *kueue.Workload, check kueue.AdmissionCheckReference) kueue.AdmissionCheckState {
	for _, state := range wl.Status.AdmissionChecks {
		if state.Name == check {
			return state
		}
	}
	return kueue.AdmissionCheckState{}
}

// isWaiting returns true if the workload waits, and its quota is free.
func isWaiting(wl *kueue.Workload) bool {
	return wl.Status.Admission == nil && wl.Status.RequeueState != nil && wl.Status.RequeueState.RequeueAt != nil
}

// apply creates what is in the manifests of the example.
func (c *cluster) apply(t *testing.T, example string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", example, "manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		c.Speak(obj)
		c.create(t, obj)
	}
}

// start runs the example as the ServiceAccount of its manifests, with leader
// election.
func (c *cluster) start(t *testing.T, example string, args ...string) *process {
	t.Helper()
	args = append(args, "--kubeconfig="+c.kubeconfig(t, "system:serviceaccount:"+example+":"+example), "--leader-election-namespace="+example)
	return startProcess(t, filepath.Join(c.bin, example), args...)
}

func (c *cluster) kubeconfig(t *testing.T, as string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: c.cfg.Host, CertificateAuthorityData: c.cfg.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: c.cfg.CertData, ClientKeyData: c.cfg.KeyData, Impersonate: as}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// createQueue creates a namespace with a queue that asks for the check.
func (c *cluster) createQueue(t *testing.T, check, cpus string) (namespace string) {
	t.Helper()
	namespace = "jobs-" + check
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	c.create(t, &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: check}})
	c.create(t, &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: check},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{
				AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: kueue.AdmissionCheckReference(check)}},
			},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors: []kueue.FlavorQuotas{{
					Name:      kueue.ResourceFlavorReference(check),
					Resources: []kueue.ResourceQuota{{Name: corev1.ResourceCPU, NominalQuota: resource.MustParse(cpus)}},
				}},
			}},
		},
	})
	c.create(t, &kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "queue"},
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(check)},
	})
	return namespace
}

// createJob creates a Job of one CPU, and returns the key of its Workload.
func (c *cluster) createJob(t *testing.T, namespace, name string) client.ObjectKey {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": "queue"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		}}},
	}
	c.create(t, job)
	workloads := &kueue.WorkloadList{}
	c.eventually(t, "find the Workload of "+name, func(ctx context.Context) error {
		if err := c.List(ctx, workloads, client.InNamespace(namespace), client.MatchingLabels{"kueue.x-k8s.io/job-uid": string(job.UID)}); err != nil {
			return err
		}
		if len(workloads.Items) != 1 {
			return fmt.Errorf("%d Workloads", len(workloads.Items))
		}
		return nil
	})
	return client.ObjectKeyFromObject(&workloads.Items[0])
}

// finish has the pods of the Job succeed.
func (c *cluster) finish(t *testing.T, namespace, name string) {
	t.Helper()
	c.eventually(t, "finish "+name, func(ctx context.Context) error {
		job := &batchv1.Job{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
			return err
		}
		now := metav1.Now()
		job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
		for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonCompletionsReached, LastProbeTime: now, LastTransitionTime: now,
			})
		}
		return c.Status().Update(ctx, job)
	})
}

func (c *cluster) create(t *testing.T, obj client.Object) {
	t.Helper()
	// The manager may need a moment to serve its webhooks.
	c.eventually(t, fmt.Sprintf("create %T %s", obj, obj.GetName()), func(ctx context.Context) error { return c.Create(ctx, obj) })
}

func (c *cluster) await(t *testing.T, key client.ObjectKey, what string, condition func(*kueue.Workload) bool) *kueue.Workload {
	t.Helper()
	wl := &kueue.Workload{}
	c.eventually(t, fmt.Sprintf("see %s %s", key, what), func(ctx context.Context) error {
		if err := c.Get(ctx, key, wl); err != nil {
			return err
		}
		if !condition(wl) {
			return fmt.Errorf("its status: %+v", wl.Status)
		}
		return nil
	})
	return wl
}

func (c *cluster) eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	}); err != nil {
		t.Fatalf("Could not %s: %v", what, errors.Join(last, err))
	}
}

// startCluster starts the program cluster, and waits until it is ready.
func startCluster(t *testing.T, bin string) *cluster {
	t.Helper()
	out := t.TempDir()
	started := startProcess(t, filepath.Join(bin, "cluster"), "--bin-dir="+bin, "--out="+out, "--tree-dir="+os.Getenv("EXAMPLES_TREE"))
	started.await(t, "The cluster is ready")
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(out, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := objects.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Client: c, cfg: cfg, bin: bin}
}

// process is a program that is stopped at the end of the test, at the latest.
type process struct {
	cmd  *exec.Cmd
	out  string
	once sync.Once
}

// startProcess starts a program. Its output is shown if the test fails.
func startProcess(t *testing.T, path string, args ...string) *process {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{cmd: exec.Command(path, args...), out: out.Name()}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			output, _ := os.ReadFile(p.out)
			t.Logf("output of %s:\n%s", path, output)
		}
	})
	return p
}

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		defer kill.Stop()
		_ = p.cmd.Wait()
	})
}

// await waits until the program has printed the text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		output, err := os.ReadFile(p.out)
		return strings.Contains(string(output), text), err
	}); err != nil {
		t.Fatalf("%s did not print %q: %v", p.cmd.Path, text, err)
	}
}
