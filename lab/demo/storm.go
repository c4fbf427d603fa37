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
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/lab/demo/timeline"
	"kueue-acrequeueafter/lab/objects"
)

// The second act: jobs that all have quota, and a check that says a bare Retry
// whenever it is asked. In the middle of it the check gets a policy.
const (
	storm      = "storm"
	licence    = "licence"
	stormJobs  = 20
	withoutFor = 8 * time.Second  // at least
	withFor    = 15 * time.Second // at least
	longest    = time.Minute      // each
)

var stormPolicy = kueue.AdmissionCheckRetryPolicy{
	Strategy: kueue.AdmissionCheckRetryStatic, BaseDelaySeconds: 5, Jitter: ptr.To(resource.MustParse("0.5")),
}

// storm plays the second act.
func (d *demo) storm(ctx context.Context, cfg *rest.Config) (*timeline.Storm, error) {
	fmt.Printf("\n%s\n", d.palette.Bold("Second act: a check that says Retry at once, and no delay"))
	c, err := objects.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	if err := d.createQueue(ctx, c, storm, stormJobs, licence); err != nil {
		return nil, err
	}
	workloads, err := c.Watch(ctx, &kueue.WorkloadList{}, client.InNamespace(storm))
	if err != nil {
		return nil, err
	}
	defer workloads.Stop()

	s := &timeline.Storm{
		History: timeline.NewHistory(time.Now()), Check: licence,
		Says: "Static, 5 s, jitter 0.5", Shortest: 5 * time.Second, Longest: 8 * time.Second,
	}
	s.Policy = s.Start.Add(longest)
	s.End = s.Policy.Add(longest)
	for i := range stormJobs {
		name := fmt.Sprintf("job-%d", i+1)
		if err := eventually(ctx, "create "+name, func() error { return c.Create(ctx, newJob(storm, name)) }); err != nil {
			return nil, err
		}
	}
	policy, second := time.After(time.Until(s.Start.Add(withoutFor))), time.NewTicker(time.Second)
	defer second.Stop()
	var end <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-policy:
			if !s.MeasuredWithout(time.Now()) && time.Now().Before(s.Policy) {
				policy = time.After(time.Second)
				continue
			}
			if err := setPolicy(ctx, c); err != nil {
				return nil, err
			}
			s.Policy = time.Now()
			s.End, end = s.Policy.Add(withFor), time.After(withFor)
			fmt.Printf("  %s  %s\n", d.palette.Dim(since(s.Start, s.Policy)), d.palette.Bold("the check gets a policy, spec.retry: "+s.Says))
		case <-end:
			if s.MeasuredWith() || s.End.After(s.Policy.Add(longest)) {
				return s, nil
			}
			s.End, end = s.End.Add(time.Second), time.After(time.Second)
		case now := <-second.C:
			d.tellSecond(s, now)
		case event, open := <-workloads.ResultChan():
			wl, ok := event.Object.(*kueue.Workload)
			if !open || !ok {
				return nil, errors.New("the API server closed a watch")
			}
			s.AddWorkload(time.Now(), wl)
		}
	}
}

// tellSecond prints what happened in the last second.
func (d *demo) tellSecond(s *timeline.Storm, now time.Time) {
	f := s.Count(now.Add(-time.Second), now)
	const one = 6 // writes
	fmt.Printf("  %s  %4d writes, %3d retries  %s\n", d.palette.Dim(since(s.Start, now)), f.Writes, f.Retries, d.palette.Bad(strings.Repeat("▇", (f.Writes+one-1)/one)))
}

func setPolicy(ctx context.Context, c client.Client) error {
	check := &kueue.AdmissionCheck{}
	if err := c.Get(ctx, client.ObjectKey{Name: licence}, check); err != nil {
		return err
	}
	before := check.DeepCopy()
	check.Spec.Retry = stormPolicy.DeepCopy()
	return c.Patch(ctx, check, client.MergeFrom(before))
}

// judgeStorm draws the second act, and returns its promises.
func (d *demo) judgeStorm(s *timeline.Storm) ([]timeline.Promise, error) {
	fmt.Printf("\n%s\n\n", d.palette.Bold("The second act"))
	for _, line := range s.Told() {
		fmt.Printf("  %s\n", line)
	}
	fmt.Printf("  A second had %.0f writes without, and has %.0f with the policy.\n\n", s.Before().PerSecond(), s.After().PerSecond())
	promises := s.Verify()
	for _, promise := range promises {
		d.palette.Promise(os.Stdout, promise)
	}

	picture := filepath.Join(d.out, "policy.svg")
	file, err := os.Create(picture)
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("%d jobs, a check that says Retry at once, and then its policy", stormJobs)
	if d.kueue != "" {
		title += ", Kueue " + d.kueue
	}
	s.SVG(file, title)
	fmt.Printf("\npicture: %s\n", picture)
	return promises, file.Close()
}

func since(start, now time.Time) string {
	return fmt.Sprintf("%5.1fs", now.Sub(start).Seconds())
}
