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

package result

import (
	"reflect"
	"testing"
	"time"
)

func TestReplace(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, time.February, 6, 10, minute, 0, 0, time.UTC) }
	run := &Run{Results: []Result{
		{Date: at(1), Build: GateOn, Scenario: Herd, Workloads: 100},
		{Date: at(2), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 1},
		{Date: at(3), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 2},
		{Date: at(4), Build: Base, Scenario: Herd, Workloads: 1000},
		{Date: at(5), Build: Base, Scenario: Fresh, Workloads: 1000},
	}}
	run.Replace(Result{Date: at(10), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 1}, at(10), true)
	run.Replace(Result{Date: at(12), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 2}, at(10), true)
	run.Replace(Result{Date: at(13), Build: GateOn, Scenario: Fresh, Workloads: 1000}, at(10), false)
	run.Replace(Result{Date: at(14), Build: Base, Scenario: Fresh, Workloads: 1000}, at(10), false)
	run.Replace(Result{Date: at(15), Build: Base, Scenario: Created, Workloads: 1000}, at(10), false)
	run.Replace(Result{Date: at(20), Build: GateOn, Scenario: Fresh, Workloads: 1000}, at(20), true)
	want := []Result{
		{Date: at(1), Build: GateOn, Scenario: Herd, Workloads: 100},
		{Date: at(4), Build: Base, Scenario: Herd, Workloads: 1000},
		{Date: at(5), Build: Base, Scenario: Fresh, Workloads: 1000},
		{Date: at(10), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 1},
		{Date: at(12), Build: GateOn, Scenario: Herd, Workloads: 1000, Round: 2},
		{Date: at(15), Build: Base, Scenario: Created, Workloads: 1000},
		{Date: at(20), Build: GateOn, Scenario: Fresh, Workloads: 1000},
	}
	if !reflect.DeepEqual(run.Results, want) {
		t.Errorf("Unexpected results %+v, want %+v", run.Results, want)
	}
}

func TestIsLike(t *testing.T) {
	machine := Machine{CPU: "A processor", Cores: 2, MemoryMiB: 8192, Kernel: "6.1", Go: "go1.26"}
	rebuilt, smaller := machine, machine
	rebuilt.CPU, rebuilt.Kernel, smaller.MemoryMiB = "Another one", "6.2", 4096
	if !machine.IsLike(rebuilt) {
		t.Error("Results of a machine with another processor and kernel cannot be added")
	}
	if machine.IsLike(smaller) {
		t.Error("Results of a smaller machine can be added")
	}
}
