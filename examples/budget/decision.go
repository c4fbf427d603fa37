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
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

// budget is what may be spent in each period.
type budget struct {
	limit  resource.Quantity
	period time.Duration
	resets time.Time
}

func parse(data map[string]string) (b budget, err error) {
	if b.limit, err = resource.ParseQuantity(data["limit"]); err != nil {
		return b, fmt.Errorf("limit: %w", err)
	}
	if b.period, err = time.ParseDuration(data["period"]); err != nil || b.period < time.Second {
		return b, fmt.Errorf("period: not a duration of at least a second: %q", data["period"])
	}
	if b.resets, err = time.Parse(time.RFC3339, data["resets"]); err != nil {
		return b, fmt.Errorf("resets: %w", err)
	}
	return b, nil
}

// nextReset returns the end of the period that now belongs to, which is later.
func (b budget) nextReset(now time.Time) time.Time {
	past := now.Sub(b.resets)
	periods := past / b.period
	if past >= 0 || past%b.period == 0 {
		periods++
	}
	return b.resets.Add(periods * b.period)
}

// decide tells whether wl can be paid in this period, in which the workloads
// have spent something already.
func decide(b budget, workloads []kueue.Workload, wl *kueue.Workload, check kueue.AdmissionCheckReference, now time.Time) kit.Verdict {
	next := b.nextReset(now)
	left := b.limit.DeepCopy()
	for i := range workloads {
		state := kit.StateOf(&workloads[i], check)
		paid := state != nil && state.State == kueue.CheckStateReady && workloads[i].UID != wl.UID
		if paid && state.LastTransitionTime.After(next.Add(-b.period)) {
			left.Sub(cost(&workloads[i]))
		}
	}
	price := cost(wl)
	switch {
	case price.Cmp(b.limit) > 0:
		return kit.Rejected(fmt.Sprintf("Costs %s CPUs, the whole budget is %s", &price, &b.limit))
	case price.Cmp(left) > 0:
		return kit.RetryAt(next, fmt.Sprintf("Costs %s CPUs, of the budget are %s left until %s", &price, &left, next.UTC().Format(time.RFC3339)))
	default:
		return kit.Ready(fmt.Sprintf("Costs %s of %s CPUs that were left", &price, &left))
	}
}

// cost returns the CPUs that the workload asks for.
func cost(wl *kueue.Workload) resource.Quantity {
	var total resource.Quantity
	for _, podSet := range wl.Spec.PodSets {
		for range podSet.Count {
			for _, container := range podSet.Template.Spec.Containers {
				total.Add(container.Resources.Requests[corev1.ResourceCPU])
			}
		}
	}
	return total
}
