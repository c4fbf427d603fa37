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

package timeline

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Delay is what one check made a Job wait for.
type Delay struct {
	Job, Check string
	// Asked holds the delays that the check asked for, in order.
	Asked []time.Duration
	// Retries is how often Kueue sent the check from Retry back to Pending.
	Retries int
}

// Delays returns the delays of all Jobs, by Job and by check.
func Delays(h *History) []Delay {
	var delays []Delay
	for _, job := range h.Names() {
		byCheck := map[string]*Delay{}
		var old *kueue.Workload
		for _, version := range h.Versions(job) {
			for i := range version.Workload.Status.AdmissionChecks {
				now := &version.Workload.Status.AdmissionChecks[i]
				before := checkOf(old, string(now.Name))
				if !inRetry(before) && !inRetry(now) {
					continue
				}
				delay := byCheck[string(now.Name)]
				if delay == nil {
					delay = &Delay{Job: job, Check: string(now.Name)}
					byCheck[delay.Check] = delay
				}
				switch {
				case inRetry(now) && (!inRetry(before) || !ptr.Equal(before.RequeueAfterSeconds, now.RequeueAfterSeconds)):
					delay.Asked = append(delay.Asked, time.Duration(ptr.Deref(now.RequeueAfterSeconds, 0))*time.Second)
				case inRetry(before) && now.State == kueue.CheckStatePending:
					delay.Retries++
				}
			}
			old = version.Workload
		}
		first := len(delays)
		for _, delay := range byCheck {
			delays = append(delays, *delay)
		}
		slices.SortFunc(delays[first:], func(a, b Delay) int { return strings.Compare(a.Check, b.Check) })
	}
	return delays
}

// Waited returns how long the Job waited, from its evictions to its requeues, and
// before as long as it has a deadline.
func Waited(h *History, job string) time.Duration {
	var total time.Duration
	var since time.Time
	for _, version := range h.Versions(job) {
		waits := requeueAt(version.Workload) != nil || isTrue(version.Workload, kueue.WorkloadEvicted) && !isTrue(version.Workload, kueue.WorkloadRequeued)
		switch {
		case waits && since.IsZero():
			since = version.At
		case !waits && !since.IsZero():
			total += version.At.Sub(since)
			since = time.Time{}
		}
	}
	return total
}

// DelayTable names, for each Job, who delayed it, how long and how often.
func DelayTable(w io.Writer, h *History) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  JOB\tDELAYED BY\tHOW LONG\tHOW OFTEN\tWAITED IN ALL")
	delays := Delays(h)
	for _, job := range h.Names() {
		name, waited := job, fmt.Sprintf("%.1f s", Waited(h, job).Seconds())
		for _, delay := range delays {
			if delay.Job != job {
				continue
			}
			asked := make([]string, len(delay.Asked))
			for i, d := range delay.Asked {
				asked[i] = fmt.Sprintf("%.0f s", d.Seconds())
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\t%d×\t%s\n", name, delay.Check, strings.Join(asked, ", "), delay.Retries, waited)
			name, waited = "", ""
		}
		if name != "" {
			fmt.Fprintf(table, "  %s\tnobody\t\t\t\n", name)
		}
	}
	return table.Flush()
}
