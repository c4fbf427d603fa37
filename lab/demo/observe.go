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
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/demo/timeline"
)

// observer watches the objects: every version of them, as the API server sends
// them. It knows nothing of what the controllers intend.
type observer struct {
	*demo
	history         *timeline.History
	workloads, jobs watch.Interface
}

func (d *demo) observe(ctx context.Context, c client.WithWatch) (*observer, error) {
	workloads, err := c.Watch(ctx, &kueue.WorkloadList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	jobs, err := c.Watch(ctx, &batchv1.JobList{}, client.InNamespace(namespace))
	if err != nil {
		workloads.Stop()
		return nil, err
	}
	return &observer{demo: d, history: timeline.NewHistory(time.Now()), workloads: workloads, jobs: jobs}, nil
}

// run prints the timeline until all jobs are done, or the time for it is up.
func (o *observer) run(ctx context.Context, created <-chan error) (*timeline.History, error) {
	defer o.workloads.Stop()
	defer o.jobs.Stop()
	defer func() { o.history.End = time.Now() }()
	late := time.After(limit)
	for !o.history.Finished(append([]string{script.Job}, script.Others...)...) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			fmt.Printf("  not done after %s: enough\n", limit)
			return o.history, nil
		case err := <-created:
			if err != nil {
				return nil, err
			}
			created = nil
		case event, open := <-o.workloads.ResultChan():
			if err := o.take(event, open); err != nil {
				return nil, err
			}
		case event, open := <-o.jobs.ResultChan():
			if err := o.take(event, open); err != nil {
				return nil, err
			}
		}
	}
	return o.history, nil
}

func (o *observer) take(event watch.Event, open bool) error {
	if !open {
		return errors.New("the API server closed a watch")
	}
	now := time.Now()
	var told *timeline.Event
	switch obj := event.Object.(type) {
	case *kueue.Workload:
		told = o.history.AddWorkload(now, obj)
	case *batchv1.Job:
		told = o.history.AddJob(now, obj)
	default:
		return fmt.Errorf("the API server ended a watch: %v", event.Object)
	}
	if told != nil {
		since := fmt.Sprintf("%5.1fs", told.At.Sub(o.history.Start).Seconds())
		fmt.Printf("  %s  %-6s %s\n", o.palette.Dim(since), told.Job, o.palette.Event(*told))
	}
	return nil
}

// save writes the picture and all versions of the Workloads.
func (d *demo) save(history *timeline.History, chart *timeline.Chart) (string, error) {
	picture := filepath.Join(d.out, "timeline.svg")
	file, err := os.Create(picture)
	if err != nil {
		return "", err
	}
	title := fmt.Sprintf("Delayed retry of admission checks, ACRequeueAfter=%t", d.gate)
	if d.kueue != "" {
		title += ", Kueue " + d.kueue
	}
	chart.SVG(file, title)
	if err := file.Close(); err != nil {
		return "", err
	}

	var all []byte
	for _, name := range history.Names() {
		for _, v := range history.Versions(name) {
			wl := v.Workload.DeepCopy()
			wl.ManagedFields = nil
			text, err := yaml.Marshal(wl)
			if err != nil {
				return "", err
			}
			all = append(all, fmt.Sprintf("---\n# %s, seen %s\n%s", name, v.At.Format(time.RFC3339Nano), text)...)
		}
	}
	versions := filepath.Join(d.out, "workloads.yaml")
	if err := os.WriteFile(versions, all, 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("picture: %s\nevery version of the Workloads: %s\nlog: %s", picture, versions, filepath.Join(d.out, "manager.log")), nil
}
