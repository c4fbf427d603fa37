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
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/controller/constants"

	"kueue-acrequeueafter/lab/demo/timeline"
	"kueue-acrequeueafter/lab/objects"
)

const (
	namespace = "demo"

	// How long the answers of the checks about the first job, and the pods, take.
	firstThinks  = 3 * time.Second
	secondThinks = 3 * time.Second
	podsRun      = 4 * time.Second

	// limit is how long it all may take; it needs less than 25 s.
	limit = 45 * time.Second
)

// script is what the demo makes happen.
var script = timeline.Script{
	Job:    "job-a",
	Others: []string{"job-b", "job-c"},
	First:  timeline.Ask{Check: "capacity", Delay: 5 * time.Second},
	Second: timeline.Ask{Check: "budget", Delay: 12 * time.Second},
}

// scenario sets up the queue, creates the Jobs and watches until all is done.
func (d *demo) scenario(ctx context.Context, cfg *rest.Config) (*timeline.History, error) {
	c, err := objects.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	if err := d.createQueue(ctx, c, namespace, 1, script.First.Check, script.Second.Check); err != nil {
		return nil, err
	}

	fmt.Printf("\n%s\n", d.palette.Bold("Timeline"))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	observer, err := d.observe(ctx, c)
	if err != nil {
		return nil, err
	}
	created := make(chan error, 1)
	go func() { created <- createJobs(ctx, c) }()
	return observer.run(ctx, created)
}

// createQueue makes a ClusterQueue with the checks and quota for some jobs, and a
// namespace with a LocalQueue, all of one name.
func (d *demo) createQueue(ctx context.Context, c client.Client, name string, jobs int64, checks ...string) error {
	cq := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector:       &metav1.LabelSelector{},
			AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors: []kueue.FlavorQuotas{{
					Name:      kueue.ResourceFlavorReference(name),
					Resources: []kueue.ResourceQuota{{Name: corev1.ResourceCPU, NominalQuota: *resource.NewQuantity(jobs, resource.DecimalSI)}},
				}},
			}},
		},
	}
	made := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}},
	}
	for _, check := range checks {
		made = append(made, admissionCheck(check))
		rules := &cq.Spec.AdmissionChecksStrategy.AdmissionChecks
		*rules = append(*rules, kueue.AdmissionCheckStrategyRule{Name: kueue.AdmissionCheckReference(check)})
	}
	made = append(made, cq, &kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(name)},
	})
	for _, obj := range made {
		// The manager may need a moment to serve its webhooks.
		if err := eventually(ctx, fmt.Sprintf("create %T", obj), func() error { return c.Create(ctx, obj) }); err != nil {
			return err
		}
	}
	if err := eventually(ctx, "see the ClusterQueue active", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cq), cq); err != nil {
			return err
		}
		active := meta.FindStatusCondition(cq.Status.Conditions, kueue.ClusterQueueActive)
		if active == nil || active.Status != metav1.ConditionTrue {
			return fmt.Errorf("its condition: %+v", active)
		}
		return nil
	}); err != nil {
		return err
	}
	d.say("a ClusterQueue is active; checks: %s; its quota fits %d", strings.Join(checks, ", "), jobs)
	return nil
}

func admissionCheck(name string) client.Object {
	return &kueue.AdmissionCheck{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       kueue.AdmissionCheckSpec{ControllerName: controllerName(name)},
	}
}

// createJobs creates the Jobs with a distance that gives them an order.
func createJobs(ctx context.Context, c client.Client) error {
	for i, name := range append([]string{script.Job}, script.Others...) {
		if i > 0 {
			select {
			case <-time.After(1100 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		job := newJob(namespace, name)
		if err := eventually(ctx, "create "+name, func() error { return c.Create(ctx, job) }); err != nil {
			return err
		}
		if !ptr.Deref(job.Spec.Suspend, false) {
			return errors.New("Kueue's webhook did not suspend " + name)
		}
	}
	return nil
}

// newJob returns a Job that would start at once, were it not for Kueue. Its queue has
// the name of its namespace.
func newJob(namespace, name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{constants.QueueLabel: namespace},
		},
		Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: "main", Image: "example.com/none",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
				}},
			}},
		},
	}
}

// eventually tries until it succeeds, and says what it could not do.
func eventually(ctx context.Context, what string, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("could not %s: %w", what, errors.Join(last, err))
	}
	return nil
}
