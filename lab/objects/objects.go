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

// Package objects speaks the version of Kueue's API that a release serves: with the Go
// types of v1beta2, or without types.
package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/yaml"
)

// Group is that of Kueue's API.
const Group = "kueue.x-k8s.io"

// versions of Kueue's API that are known here, the newest first.
var versions = []string{"v1beta2", "v1beta1"}

// Version asks the API server for the newest version of Kueue's API that is known here.
func Version(config *rest.Config) (string, error) {
	c, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	groups, err := c.ServerGroups()
	if err != nil {
		return "", err
	}
	for _, version := range versions {
		for _, group := range groups.Groups {
			if group.Name == Group && slices.ContainsFunc(group.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == version }) {
				return version, nil
			}
		}
	}
	return "", fmt.Errorf("the API server serves none of the versions %v of %s", versions, Group)
}

// Scheme has the types of v1beta2 under this version of Kueue's API. What is used of
// them is the same in v1beta1. A field that only one of the two has is not to be used:
// spec.admissionChecks of a ClusterQueue, for example.
func Scheme(version string) *runtime.Scheme {
	scheme, kueues := runtime.NewScheme(), runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(kueues))
	served := schema.GroupVersion{Group: Group, Version: version}
	for kind, goType := range kueues.KnownTypes(kueue.SchemeGroupVersion) {
		if goType.PkgPath() == reflect.TypeFor[kueue.Workload]().PkgPath() {
			scheme.AddKnownTypeWithName(served.WithKind(kind), reflect.New(goType).Interface().(runtime.Object))
		}
	}
	metav1.AddToGroupVersion(scheme, served)
	return scheme
}

// Client is a client for the version of Kueue's API that the API server serves.
type Client struct {
	client.WithWatch
	// Version of Kueue's API.
	Version string
}

// NewClient connects, without a limit of requests in a second.
func NewClient(config *rest.Config) (*Client, error) {
	version, err := Version(config)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	// Each once, and not for each request.
	config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(version)})
	return &Client{WithWatch: c, Version: version}, err
}

// Speak has an object of Kueue's be one of the version that the API server serves.
func (c *Client) Speak(obj *unstructured.Unstructured) {
	if gvk := obj.GroupVersionKind(); gvk.Group == Group {
		gvk.Version = c.Version
		obj.SetGroupVersionKind(gvk)
	}
}

// ApplyStatus applies the status that the object has, typed or not, by force.
func ApplyStatus(ctx context.Context, c client.Client, obj client.Object, owner client.FieldOwner) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	untyped := &unstructured.Unstructured{Object: content}
	untyped.SetGroupVersionKind(gvk)
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(untyped), owner, client.ForceOwnership)
}

// Object is one of Kueue's of this kind and name, and has nothing else.
func (c *Client) Object(kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: Group, Version: c.Version, Kind: kind})
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// Job is one of this name, and has nothing else.
func (c *Client) Job(namespace, name string) *unstructured.Unstructured {
	job := c.Object("", namespace, name)
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return job
}

// Make creates an object with what the manifest says of it.
func (c *Client) Make(ctx context.Context, obj *unstructured.Unstructured, manifest string) error {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &content); err != nil {
		return err
	}
	maps.Copy(obj.Object, content)
	return c.Create(ctx, obj)
}

const clusterQueueManifest = `
spec:
  namespaceSelector: {}
  stopPolicy: Hold
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources: [{name: cpu, nominalQuota: "%d"}]
`

const jobManifest = `
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: none, resources: {requests: {cpu: 1}}}
`

// MakeQueue makes a namespace, and a ClusterQueue and a LocalQueue for it with
// quota for n jobs. The ClusterQueue is held.
func (c *Client) MakeQueue(ctx context.Context, namespace string, n int, checks ...string) error {
	ns := &corev1.Namespace{}
	ns.Name = namespace
	if err := c.Create(ctx, ns); err != nil {
		return err
	}
	flavor := c.Object("ResourceFlavor", "", "default")
	if err := client.IgnoreAlreadyExists(c.Make(ctx, flavor, "spec: {}")); err != nil {
		return err
	}
	queue := c.Object("ClusterQueue", "", namespace)
	if err := c.Make(ctx, queue, fmt.Sprintf(clusterQueueManifest, n)); err != nil {
		return err
	}
	if len(checks) > 0 {
		var rules []any
		for _, name := range checks {
			check := c.Object("AdmissionCheck", "", name)
			if err := c.Make(ctx, check, "spec: {controllerName: example.com/played}"); err != nil {
				return err
			}
			active := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
				"type": "Active", "status": "True", "reason": "Active", "message": "it is played",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			}}}}
			if err := c.Status().Patch(ctx, check, MergePatch(active)); err != nil {
				return err
			}
			rules = append(rules, map[string]any{"name": name})
		}
		strategy := map[string]any{"spec": map[string]any{"admissionChecksStrategy": map[string]any{"admissionChecks": rules}}}
		if err := c.Patch(ctx, queue, MergePatch(strategy)); err != nil {
			return err
		}
	}
	return c.Make(ctx, c.Object("LocalQueue", namespace, "queue"), "spec: {clusterQueue: "+namespace+"}")
}

// Stop sets the stopPolicy of a ClusterQueue: None or Hold.
func (c *Client) Stop(ctx context.Context, queue, policy string) error {
	return c.Patch(ctx, c.Object("ClusterQueue", "", queue), MergePatch(map[string]any{"spec": map[string]any{"stopPolicy": policy}}))
}

// MakeJob makes a suspended Job for one CPU in the namespace's queue.
func (c *Client) MakeJob(ctx context.Context, namespace, name string) error {
	return c.MakeJobOf(ctx, namespace, name, "")
}

// MakeJobOf is MakeJob with a WorkloadPriorityClass.
func (c *Client) MakeJobOf(ctx context.Context, namespace, name, priorityClass string) error {
	job := c.Job(namespace, name)
	labels := map[string]string{"kueue.x-k8s.io/queue-name": "queue"}
	if priorityClass != "" {
		labels["kueue.x-k8s.io/priority-class"] = priorityClass
	}
	job.SetLabels(labels)
	return c.Make(ctx, job, jobManifest)
}

// MergePatch panics if the patch cannot be written as JSON.
func MergePatch(patch map[string]any) client.Patch {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	return client.RawPatch(types.MergePatchType, data)
}

// Condition tells whether a condition is true, and since when it is as it is.
func Condition(obj *unstructured.Unstructured, name string) (bool, time.Time) {
	conditions, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		if fields, ok := c.(map[string]any); ok && fields["type"] == name {
			since, _ := fields["lastTransitionTime"].(string)
			parsed, _ := time.Parse(time.RFC3339, since)
			return fields["status"] == "True", parsed
		}
	}
	return false, time.Time{}
}

// Checks are the states of a Workload's admission checks, by name. They are the
// object's own, to be read only.
func Checks(obj *unstructured.Unstructured) map[string]map[string]any {
	states, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "admissionChecks")
	list, _ := states.([]any)
	checks := map[string]map[string]any{}
	for _, state := range list {
		if fields, ok := state.(map[string]any); ok {
			name, _ := fields["name"].(string)
			checks[name] = fields
		}
	}
	return checks
}
