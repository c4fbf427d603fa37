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

package jobframework

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	utiltestingapi "sigs.k8s.io/kueue/pkg/util/testing/v1beta2"
	utiltestingjob "sigs.k8s.io/kueue/pkg/util/testingjobs/job"
)

// movedByOthers is a job whose own controller gives the workload its queue, as that
// of serving pods does.
type movedByOthers struct {
	fakeJob
}

func (movedByOthers) CustomQueueNameChange(context.Context, client.Client, *kueue.Workload) error {
	return nil
}

func TestMoveWaitingOfJobThatIsMovedByOthers(t *testing.T) {
	features.SetFeatureGateDuringTest(t, features.ACRequeueAfter, true)
	ctx, _ := utiltesting.ContextWithLog(t)
	wl := utiltestingapi.MakeWorkload("wl", "ns").Queue("lq").Obj()
	cl := utiltesting.NewClientBuilder().WithObjects(wl).Build()
	job := movedByOthers{fakeJob{suspended: true, object: utiltestingjob.MakeJob("job", "ns").Queue("other").Obj()}}
	if moved, err := (&JobReconciler{client: cl}).moveWaiting(ctx, job, job.object, wl); moved || err != nil {
		t.Errorf("Unexpected result %t, %v; want nothing to be done", moved, err)
	}
	if err := cl.Get(ctx, client.ObjectKeyFromObject(wl), wl); err != nil {
		t.Fatalf("Reading the workload: %v", err)
	}
	if wl.Spec.QueueName != "lq" {
		t.Errorf("Unexpected queue %q, want that of the job's own controller", wl.Spec.QueueName)
	}
}
