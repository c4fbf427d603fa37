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

	"kueue-acrequeueafter/lab/bench/result"
)

// says returns what the run means to a user, in a few sentences.
func says(run *result.Run) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }

	n := largest(run, result.Herd)
	mine, plain := pick(run, result.GateOn, result.Herd, n), pick(run, result.Base, result.Herd, n)
	if len(mine) > 0 && len(plain) > 0 {
		say("A delayed retry costs %s writes to the workload. When a check says Retry for %s workloads at the same time, half of them have given their quota back after %s s on v0.19.2. With plain v0.19.2 it takes %s writes and %s s, the delay among them.",
			number(highest(mine, workloadWritesEach)), thousands(n), number(median(each(mine, percentile(held, 50)))), number(highest(plain, workloadWritesEach)), number(median(each(plain, percentile(held, 50)))))
	}
	if waiting := pick(run, result.GateOn, result.Waiting, most(run, result.GateOn, result.Waiting)); len(waiting) > 0 {
		say("Who waits is left alone: %s writes and %s reconciles in half a minute, for %s workloads.",
			number(total(waiting, workloadWrites)), number(total(waiting, reconciles)), number(workloads(waiting[0])))
	}
	if spread := pick(run, result.GateOn, result.Spread, 100); len(spread) > 0 {
		text := fmt.Sprintf("On v0.19.2 a workload is back within %s s of its deadline (p99)", number(highest(spread, percentile(requeued, 99))))
		if herd := pick(run, result.GateOn, result.Herd, n); len(herd) > 0 {
			text += fmt.Sprintf("; if %s have the same one, the last is after %s s, where a client that does nothing else takes %s s for one write each",
				thousands(n), number(median(each(herd, percentile(requeued, 100)))), number(median(each(herd, bareClient))))
		}
		say("%s.", text)
	}
	return all
}
