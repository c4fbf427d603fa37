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

package pages

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kueue-acrequeueafter/lab/controlplane"
)

const operatorsPage = "../../../docs/operators.md"

var (
	// What the program says, and what the table explains.
	whereSays = regexp.MustCompile(`(?:then|else) "([^"]+)"`)
	whereRow  = regexp.MustCompile("(?m)^\\| `([a-z ]+)` \\|")
)

// whereBlock returns the program of operators.md that says where a workload stands,
// and the rows of the table that explains what it says.
func whereBlock(t *testing.T) (block, []string) {
	t.Helper()
	content, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	found, err := blocks(content)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(b block) bool { return b.file() == "where.jq" })
	if i < 0 {
		t.Fatal("operators.md has no where.jq")
	}
	_, after, _ := strings.Cut(string(content), "| It says |")
	table, _, _ := strings.Cut(after, "\n\n")
	var rows []string
	for _, match := range whereRow.FindAllStringSubmatch(table, -1) {
		rows = append(rows, match[1])
	}
	return found[i], rows
}

// The program says one thing of each workload, so no two rows of the table fit.
func TestWhereHasTheRowsOfItsTable(t *testing.T) {
	program, rows := whereBlock(t)
	var says []string
	for _, match := range whereSays.FindAllStringSubmatch(program.content, -1) {
		says = append(says, match[1])
	}
	if diff := cmp.Diff(says, rows); diff != "" {
		t.Errorf("what where.jq says, and the rows of the table (-says,+rows):\n%s", diff)
	}
	if len(rows) == 0 {
		t.Error("the table has no rows")
	}
	reached := map[string]bool{}
	for _, s := range append(slices.Clone(gateOnStates), gateOffStates...) {
		reached[s.row] = true
	}
	for _, row := range rows {
		if !reached[row] {
			t.Errorf("no state reaches %q", row)
		}
	}
}

// What the scripts of the states use. The jobs of all states stay, so that each is
// looked at among others.
const whereSetup = `
queue() { # name, cpu, checks
  kubectl apply -f - <<END
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: $1}
spec:
  namespaceSelector: {}
${3:+  admissionChecksStrategy:
    admissionChecks: [name: $3]}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: default-flavor, resources: [{name: cpu, nominalQuota: $2}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: $1}
spec: {clusterQueue: $1}
END
  kubectl wait --for=condition=Active clusterqueue/$1
}
job() { # name, queue
  kubectl create -f - <<END
apiVersion: batch/v1
kind: Job
metadata:
  name: $1
  labels: {kueue.x-k8s.io/queue-name: $2}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: 1}}}
END
  until [ "$(workload $1)" ]; do sleep 0.1; done
}
workload() { kubectl get workloads -l kueue.x-k8s.io/job-uid=$(kubectl get job $1 -o jsonpath='{.metadata.uid}') -o jsonpath='{.items[*].metadata.name}'; }
status() { kubectl get workload $(workload $1) -o json | jq -r ".status | $2"; }
where() { kubectl get workload $(workload $1) -o json | jq -r -f where.jq; }
reserved() { job $1 $2; until [ "$(where $1)" = "default/$(workload $1): reserved" ]; do sleep 0.1; done; }
says() { # job, state, seconds
  kubectl apply --server-side --force-conflicts --subresource=status --field-manager=budget -f - <<END
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: $(workload $1)}
status:
  admissionChecks:
  - {name: budget, state: $2, message: By hand., lastTransitionTime: "$(date -u +%FT%TZ)"${3:+, requeueAfterSeconds: $3}}
END
}
kubectl apply -f - <<END
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: budget}
spec: {controllerName: example.com/by-hand}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-flavor}
END
kubectl patch admissioncheck budget --subresource=status --type=merge -p "
status:
  conditions:
  - {type: Active, status: 'True', reason: ByHand, message: '', lastTransitionTime: '$(date -u +%FT%TZ)'}"
queue wide 20 budget
queue plain 20
queue full 1
job runs plain
job fills full
`

// A state of a workload, how its job gets there, and the row of the table that fits.
type whereState struct{ job, row, script string }

var gateOnStates = []whereState{
	{"asked", "reserved", `job asked wide`},
	{"passed", "admitted", `reserved passed wide; says passed Ready`},
	{"unchecked", "admitted", `job unchecked plain`},
	{"ended", "finished", `
		job ended plain
		until [ "$(kubectl get job ended -o jsonpath='{.spec.suspend}')" = false ]; do sleep 0.1; done
		now=$(date -u +%FT%TZ)
		kubectl patch job ended --subresource=status --type=merge -p "{\"status\": {\"startTime\": \"$now\", \"completionTime\": \"$now\", \"succeeded\": 1, \"conditions\": [
		  {\"type\": \"SuccessCriteriaMet\", \"status\": \"True\", \"reason\": \"CompletionsReached\", \"lastTransitionTime\": \"$now\"},
		  {\"type\": \"Complete\", \"status\": \"True\", \"reason\": \"CompletionsReached\", \"lastTransitionTime\": \"$now\"}]}}"`},
	{"waits", "waits", `reserved waits wide; says waits Retry 3600`},
	{"moved", "waits", `reserved moved wide; says moved Retry 3600; sleep 1; says moved Retry 7200`},
	{"crowded", "queued", `job crowded full`},
	// Requeued at the deadline, when another one has the quota.
	{"back", "queued", `
		queue narrow 1 budget
		reserved back narrow; says back Retry 6
		reserved taker narrow; says taker Ready
		until [ "$(status back '.admissionChecks[0].retryCount')" = 1 ]; do sleep 0.2; done`},
	{"withdrawn", "queued", `
		queue narrower 1 budget
		reserved withdrawn narrower; says withdrawn Retry 3600
		reserved other narrower; says other Ready
		says withdrawn Pending`},
	// What waits in a queue on hold, at its deadline and before.
	{"held", "inadmissible", `
		queue held 20 budget
		reserved held held; reserved later held
		says later Retry 3600; says held Retry 10
		until [ "$(where held)" = "default/$(workload held): waits" ]; do sleep 0.1; done
		kubectl patch clusterqueue held --type=merge -p '{"spec": {"stopPolicy": "Hold"}}'`},
	{"later", "waits", `true`},
	{"new", "inadmissible", `job new held`},
	{"nowhere", "inadmissible", `job nowhere not-there`},
	{"dropped", "deactivated", `
		reserved dropped wide; says dropped Retry 3600
		until [ "$(where dropped)" = "default/$(workload dropped): waits" ]; do sleep 0.1; done
		kubectl patch workload $(workload dropped) --type=merge -p '{"spec": {"active": false}}'`},
	{"rejected", "deactivated", `reserved rejected wide; says rejected Rejected`},
	// Its job has a pod that does not go.
	{"stops", "stopping", `
		reserved stops wide; says stops Ready
		until [ "$(kubectl get job stops -o jsonpath='{.spec.suspend}')" = false ]; do sleep 0.1; done
		kubectl patch job stops --subresource=status --type=merge -p "status: {startTime: '$(date -u +%FT%TZ)', active: 1, ready: 0}"
		says stops Retry 1`},
	// What WaitForPodsReady writes when it evicts.
	{"unready", "backoff", `
		reserved unready wide; says unready Ready
		until [ "$(where unready)" = "default/$(workload unready): admitted" ]; do sleep 0.1; done
		until kubectl get workload $(workload unready) -o json | jq --arg now "$(date -u +%FT%TZ)" --arg at "$(date -u -d '+1 hour' +%FT%TZ)" '
		  .status.requeueState = {count: 1, requeueAt: $at} |
		  .status.conditions += [{type: "Evicted", status: "True", reason: "PodsReadyTimeout", message: "By hand.", lastTransitionTime: $now}]' |
		  kubectl replace --subresource=status -f -; do sleep 0.1; done`},
	// A policy refuses the requeue.
	{"refused", "overdue", `
		reserved refused wide
		kubectl apply -f - <<END
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [kueue.x-k8s.io], apiVersions: ["*"], resources: [workloads/status], operations: [UPDATE]}
  matchConditions:
  - {name: one, expression: object.metadata.name == "$(workload refused)"}
  validations:
  - expression: object.status.?requeueState.?requeueAt.hasValue() || !oldObject.status.?requeueState.?requeueAt.hasValue()
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse}
spec: {policyName: refuse, validationActions: [Deny]}
END
		sleep 2
		says refused Retry 2`},
}

var gateOffStates = []whereState{
	// A late Retry, when another one has the quota.
	{"late", "stuck", `
		queue narrow 1 budget
		reserved taker narrow; says taker Ready
		job late narrow; says late Retry`},
	{"asked", "reserved", `job asked wide`},
	{"crowded", "queued", `job crowded full`},
}

// TestWhere has workloads get into each state that the table of operators.md
// explains, and asks where they stand as a reader would.
func TestWhere(t *testing.T) {
	if testing.Short() {
		t.Skip("needs control planes")
	}
	program, _ := whereBlock(t)
	for gate, states := range map[bool][]whereState{true: gateOnStates, false: gateOffStates} {
		t.Run(fmt.Sprintf("gate %t", gate), func(t *testing.T) {
			t.Parallel()
			p := newPage(t)
			p.plane = start(t, controlplane.Options{Gate: gate})
			if err := p.write(program.file(), program); err != nil {
				t.Fatal(err)
			}
			if output, err := p.shell(whereSetup); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			for _, s := range states {
				if output, err := p.shell(s.script); err != nil {
					t.Fatalf("%s: %v\n%s", s.job, err, output)
				}
				p.expectWhere(t, s)
			}
			// Each stays where it is, whatever the others do.
			for _, s := range states {
				p.expectWhere(t, s)
			}
		})
	}
}

// expectWhere waits until the workload of the job is where the state says.
func (p *page) expectWhere(t *testing.T, s whereState) {
	t.Helper()
	deadline := time.Now().Add(outputTimeout)
	for {
		// The list, as it is asked for all.
		output, err := p.shell(`kubectl get workloads -A -o json | jq -r -f where.jq | sed -n "s|^default/$(workload ` + s.job + `): ||p"`)
		if got := strings.TrimSpace(output); err == nil && got == s.row {
			return
		} else if time.Now().After(deadline) {
			conditions, _ := p.shell(`kubectl get workload $(workload ` + s.job + `) -o json | jq '{spec: .spec.active, status}'`)
			t.Fatalf("%s is %q, and not %q (error: %v)\n%s", s.job, got, s.row, err, conditions)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
