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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

func workload(uid types.UID, cpus string, pods int32, state kueue.CheckState, since time.Time) kueue.Workload {
	return kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{UID: uid},
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{
			Count: pods,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}},
			}}}},
		}}},
		Status: kueue.WorkloadStatus{AdmissionChecks: []kueue.AdmissionCheckState{
			{Name: "budget", State: state, LastTransitionTime: metav1.NewTime(since)},
		}},
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC)
	ten := budget{limit: resource.MustParse("10"), period: 24 * time.Hour, resets: now.Add(time.Hour)}
	paid := func(uid types.UID, cpus string, since time.Time) kueue.Workload {
		return workload(uid, cpus, 1, kueue.CheckStateReady, since)
	}
	cases := map[string]struct {
		budget budget
		others []kueue.Workload
		wl     kueue.Workload
		want   kit.Verdict
	}{
		"nothing is spent": {
			budget: ten,
			wl:     workload("wl", "2500m", 4, kueue.CheckStatePending, now),
			want:   kit.Ready("Costs 10 of 10 CPUs that were left"),
		},
		"more than is left": {
			budget: ten,
			others: []kueue.Workload{paid("a", "3", now.Add(-time.Hour)), paid("b", "4", now.Add(-22*time.Hour))},
			wl:     workload("wl", "4", 1, kueue.CheckStatePending, now),
			want:   kit.RetryAt(now.Add(time.Hour), "Costs 4 CPUs, of the budget are 3 left until 2026-11-21T11:00:00Z"),
		},
		"spent in the period before": {
			budget: ten,
			others: []kueue.Workload{paid("a", "10", now.Add(-24*time.Hour))},
			wl:     workload("wl", "4", 1, kueue.CheckStatePending, now),
			want:   kit.Ready("Costs 4 of 10 CPUs that were left"),
		},
		"what waits has spent nothing, nor has the workload itself": {
			budget: ten,
			others: []kueue.Workload{
				workload("a", "10", 1, kueue.CheckStateRetry, now),
				workload("b", "10", 1, kueue.CheckStatePending, now),
				paid("wl", "4", now),
			},
			wl:   workload("wl", "4", 1, kueue.CheckStatePending, now),
			want: kit.Ready("Costs 4 of 10 CPUs that were left"),
		},
		"the reset that is written down is over": {
			budget: budget{limit: resource.MustParse("10"), period: 24 * time.Hour, resets: now.Add(-47 * time.Hour)},
			others: []kueue.Workload{paid("a", "10", now.Add(-22*time.Hour))},
			wl:     workload("wl", "4", 1, kueue.CheckStatePending, now),
			want:   kit.RetryAt(now.Add(time.Hour), "Costs 4 CPUs, of the budget are 0 left until 2026-11-21T11:00:00Z"),
		},
		"more than the whole budget": {
			budget: ten,
			wl:     workload("wl", "11", 1, kueue.CheckStatePending, now),
			want:   kit.Rejected("Costs 11 CPUs, the whole budget is 10"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.budget, append(tc.others, tc.wl), &tc.wl, "budget", now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Unexpected verdict (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestNextReset(t *testing.T) {
	resets := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	b := budget{period: time.Hour, resets: resets}
	for after, want := range map[time.Duration]time.Duration{
		-150 * time.Minute: -2 * time.Hour,
		-time.Hour:         0,
		-time.Nanosecond:   0,
		0:                  time.Hour,
		59 * time.Minute:   time.Hour,
		time.Hour:          2 * time.Hour,
		100 * time.Minute:  2 * time.Hour,
	} {
		if got := b.nextReset(resets.Add(after)); !got.Equal(resets.Add(want)) {
			t.Errorf("nextReset(resets + %v) = resets + %v, want %v", after, got.Sub(resets), want)
		}
	}
}

func TestParse(t *testing.T) {
	valid := map[string]string{"limit": "10", "period": "24h", "resets": "2026-12-01T00:00:00Z"}
	if _, err := parse(valid); err != nil {
		t.Errorf("Unexpected error: %v", err)
	}
	for name, change := range map[string][2]string{
		"no limit":         {"limit", ""},
		"no number":        {"limit", "much"},
		"no period":        {"period", ""},
		"a period of zero": {"period", "0s"},
		"a past period":    {"period", "-1h"},
		"no time":          {"resets", "tomorrow"},
	} {
		data := map[string]string{"limit": valid["limit"], "period": valid["period"], "resets": valid["resets"]}
		data[change[0]] = change[1]
		if _, err := parse(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
