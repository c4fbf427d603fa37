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

package kit_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"kueue-acrequeueafter/kit"
)

// A controller of the AdmissionChecks whose controllerName is
// example.com/licenses: it takes the seats of a license server, and backs off
// while there are none.
func ExampleSetup() {
	seatsLeft := func(context.Context) (int, error) { return 0, nil }
	backoff := kit.Backoff{Base: 30 * time.Second, Cap: 10 * time.Minute, Jitter: 0.2}

	decide := func(ctx context.Context, wl *kueue.Workload, check kit.Check) (kit.Verdict, error) {
		left, err := seatsLeft(ctx)
		if err != nil {
			return kit.Verdict{}, err // asked again later, nothing is written
		}
		if left == 0 {
			return kit.Retry(backoff.Delay(check.Retries()), "All seats are taken"), nil
		}
		return kit.Ready(fmt.Sprintf("%d seats are left", left)), nil
	}

	run := func(ctx context.Context) error {
		cfg, err := ctrl.GetConfig()
		if err != nil {
			return err
		}
		scheme := runtime.NewScheme()
		if err := kit.AddToScheme(ctx, cfg, scheme); err != nil {
			return err
		}
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		if err := kit.Setup(mgr, kit.Options{ControllerName: "example.com/licenses", Decide: decide}); err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
	_ = run // needs a cluster
}

// Verdicts depend on ConfigMaps, one in each namespace. When one of them changes,
// the workloads of its namespace are looked at again, those that wait too.
func ExampleSource() {
	source := kit.Source{
		Object: &corev1.ConfigMap{},
		Concerns: func(obj client.Object, wl *kueue.Workload) bool {
			return obj.GetName() == "budget" && obj.GetNamespace() == wl.Namespace
		},
	}
	budget := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "budget"}}
	for _, namespace := range []string{"team-a", "team-b"} {
		wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"}}
		fmt.Println(namespace, source.Concerns(budget, wl))
	}
	// Output:
	// team-a true
	// team-b false
}

func ExampleBackoff() {
	backoff := kit.Backoff{Base: 10 * time.Second, Factor: 3, Cap: 5 * time.Minute}
	for retries := range int32(5) {
		fmt.Println(retries, backoff.Delay(retries))
	}
	// Output:
	// 0 10s
	// 1 30s
	// 2 1m30s
	// 3 4m30s
	// 4 5m0s
}

// What the kit would write can be computed without a cluster.
func ExampleNextState() {
	now := time.Date(2026, time.November, 21, 10, 0, 0, 500_000_000, time.UTC)
	wl := &kueue.Workload{Status: kueue.WorkloadStatus{
		Conditions: []metav1.Condition{{Type: kueue.WorkloadQuotaReserved, Status: metav1.ConditionTrue}},
		AdmissionChecks: []kueue.AdmissionCheckState{
			{Name: "budget", State: kueue.CheckStatePending},
		},
	}}
	next := kit.NextState(wl, "budget", kit.Retry(1500*time.Millisecond, "The budget is used up"), now)
	fmt.Println(next.State, *next.RequeueAfterSeconds, next.LastTransitionTime.Format(time.RFC3339))

	wl.Status.AdmissionChecks[0] = *next
	fmt.Println(kit.NextState(wl, "budget", kit.Retry(2*time.Second, "The budget is used up"), now.Add(time.Minute)))
	// Output:
	// Retry 2 2026-11-21T10:00:01Z
	// <nil>
}

// The maintenance has ended early: a workload that waits is let go on.
func ExampleWriter_SetState() {
	endMaintenance := func(ctx context.Context, mgr ctrl.Manager, key client.ObjectKey) error {
		writer := &kit.Writer{
			Client:       mgr.GetClient(),
			Reader:       mgr.GetAPIReader(),
			FieldManager: "example.com/maintenance",
		}
		return writer.SetState(ctx, key, "maintenance", func(wl *kueue.Workload, _ kueue.AdmissionCheckState) kit.Verdict {
			if !kit.WaitsFor(wl, "maintenance") {
				return kit.Verdict{} // it has gone on meanwhile
			}
			return kit.Pending("The maintenance has ended early")
		})
	}
	_ = endMaintenance // needs a cluster
}

// Another check is inactive, and so the ClusterQueues that ask for it, until it
// names a ConfigMap.
func ExampleInactive() {
	validate := func(_ context.Context, check *kueue.AdmissionCheck) error {
		if ref := check.Spec.Parameters; ref == nil || ref.Kind != "ConfigMap" {
			return kit.Inactive("NoParameters", "spec.parameters must name a ConfigMap")
		}
		return nil
	}
	fmt.Println(validate(context.Background(), &kueue.AdmissionCheck{}))
	// Output: NoParameters: spec.parameters must name a ConfigMap
}
