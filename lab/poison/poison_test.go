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

// Package poison shows what one value that no int32 holds does to a Kueue whose
// CRDs let it pass, and that the patched one is safe. docs/poison-value.md is for
// those who have it.
package poison

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/controlplane"
	"kueue-acrequeueafter/lab/objects"
)

const (
	namespace = "team"
	patience  = 30 * time.Second

	// One more than an int32 holds.
	poison = 1 << 31

	// Both bases serve it; v0.19.2 another one, too, in which it stores.
	old = "v1beta1"
)

// cluster is a control plane with a job that has quota, and waits for its check.
type cluster struct {
	*testing.T
	*objects.Client
	plane *controlplane.ControlPlane
	old   client.Client // speaks the old version
	job   string        // the Workload
}

// TestPlain shows it on a plain Kueue.
func TestPlain(t *testing.T) {
	c := newCluster(t, "POISON_PLAIN", func(o controlplane.Options, dir string) controlplane.Options { return o.WithPlain(dir) })

	err := c.write(c.Version, "requeueAfterSeconds", poison)
	if err != nil && strings.Contains(err.Error(), "format int32") {
		t.Skipf("This API server refuses the value by itself, as that of Kubernetes 1.34 does not: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), "vworkload.kb.io") {
		t.Errorf("Want the webhook to refuse the value, got %v", err)
	}
	// Who deletes the webhooks, to be able to work while Kueue is down, is defenceless.
	c.deleteWebhooks()
	if err := c.write(c.Version, "requeueAfterSeconds", poison); err != nil {
		t.Fatalf("The value is not stored: %v", err)
	}

	if err := c.old.List(t.Context(), &kueue.WorkloadList{}); err == nil {
		t.Errorf("Clients of %s can list Workloads", old)
	}
	c.mustMakeJob("later")
	if c.reserved("later", 10*time.Second) {
		t.Error("Kueue works on, with an old cache that has the new job")
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.plane.RestartManager(short); err == nil && c.reserved("later", 10*time.Second) {
		t.Error("The next manager works")
	} else {
		t.Logf("The next manager: %v", firstLine(err))
	}

	// Whoever speaks the stored version, and has no types, can repair it.
	remove := `[{"op": "remove", "path": "/status/admissionChecks/0/requeueAfterSeconds"}]`
	if err := c.Status().Patch(t.Context(), c.Object("Workload", namespace, c.job), client.RawPatch(types.JSONPatchType, []byte(remove))); err != nil {
		t.Fatalf("The value cannot be removed: %v", err)
	}
	if err := c.plane.RestartManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !c.reserved("later", patience) {
		t.Error("Kueue does not work without the value")
	}
}

// TestPatched wants the patched Kueue's API to refuse the value, whatever version of
// it is spoken, and without webhooks, too.
func TestPatched(t *testing.T) {
	c := newCluster(t, "POISON_TREE", func(o controlplane.Options, dir string) controlplane.Options { o.TreeDir = dir; return o })
	for _, webhooks := range []bool{true, false} {
		if !webhooks {
			c.deleteWebhooks()
		}
		for _, version := range c.versions() {
			for _, field := range []string{"requeueAfterSeconds", "retryCount"} {
				t.Run(fmt.Sprintf("%s in %s, webhooks %t", field, version, webhooks), func(t *testing.T) {
					err := c.write(version, field, poison)
					if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.admissionChecks[0]."+field) {
						t.Errorf("Want an error that names the field, got %v", err)
					}
					if err := c.write(version, field, poison-1); err != nil {
						t.Errorf("The largest value is refused: %v", err)
					}
				})
			}
		}
	}
	if err := c.old.List(t.Context(), &kueue.WorkloadList{}); err != nil {
		t.Error(err)
	}
	c.mustMakeJob("later")
	if !c.reserved("later", patience) {
		t.Error("Kueue does not work")
	}
}

func newCluster(t *testing.T, variable string, with func(controlplane.Options, string) controlplane.Options) *cluster {
	t.Helper()
	bin, dir := os.Getenv("POISON_BIN"), os.Getenv(variable)
	if bin == "" || dir == "" {
		t.Skip("POISON_BIN or " + variable + " is not set: run make test-poison")
	}
	log.SetLogger(logr.Discard())
	plane, err := controlplane.Start(t.Context(), with(controlplane.Options{BinDir: bin, Out: t.TempDir(), Gate: true}, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{T: t, plane: plane}
	if c.old, err = client.New(plane.Config, client.Options{Scheme: objects.Scheme(old)}); err != nil {
		t.Fatal(err)
	}
	if c.Client, err = objects.NewClient(plane.Config); err != nil {
		t.Fatal(err)
	}
	c.must("make the queue", c.MakeQueue(t.Context(), namespace, 3, "check"))
	c.must("open the queue", c.Stop(t.Context(), namespace, "None"))
	c.mustMakeJob("first")
	if !c.reserved("first", patience) {
		t.Fatal("The first job has no quota")
	}
	c.job = c.workload("first").GetName()
	return c
}

func (c *cluster) must(what string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("Cannot %s: %v", what, err)
	}
}

func (c *cluster) mustMakeJob(name string) {
	c.Helper()
	c.must("make a job", c.MakeJob(c.Context(), namespace, name))
}

func (c *cluster) versions() []string {
	if c.Version == old {
		return []string{old}
	}
	return []string{c.Version, old}
}

// write has the job's check ask for a Retry, with this value in a field.
func (c *cluster) write(version, field string, value int64) error {
	obj := (&objects.Client{Version: version}).Object("Workload", namespace, c.job)
	patch := fmt.Sprintf(`[{"op": "add", "path": "/status/admissionChecks/0/%s", "value": %d}]`, field, value)
	return c.Status().Patch(c.Context(), obj, client.RawPatch(types.JSONPatchType, []byte(patch)))
}

func (c *cluster) deleteWebhooks() {
	c.Helper()
	c.must("delete the webhooks", c.DeleteAllOf(c.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{}))
	// The API server needs a moment to know of it.
	time.Sleep(2 * time.Second)
}

// workload finds that of a job.
func (c *cluster) workload(job string) *unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(c.Object("WorkloadList", "", "").GroupVersionKind())
	if err := c.List(c.Context(), list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	for i := range list.Items {
		for _, owner := range list.Items[i].GetOwnerReferences() {
			if owner.Name == job {
				return &list.Items[i]
			}
		}
	}
	return nil
}

// reserved tells whether a job gets quota in time.
func (c *cluster) reserved(job string, timeout time.Duration) bool {
	return wait.PollUntilContextTimeout(c.Context(), 100*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		wl := c.workload(job)
		if wl == nil {
			return false, nil
		}
		reserved, _ := objects.Condition(wl, kueue.WorkloadQuotaReserved)
		return reserved, nil
	}) == nil
}

func firstLine(err error) string {
	if err == nil {
		return "is ready, and does nothing"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
