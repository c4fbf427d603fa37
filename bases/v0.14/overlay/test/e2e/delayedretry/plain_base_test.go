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

package delayedretrye2e

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/test/util"
)

// What plain Kueue does with a Retry, and this one with the gate off.

// delayWithGateOff asks for a delay, which is ignored, and waits until the check is
// asked again.
func (j *queuedJob) delayWithGateOff(check kueue.AdmissionCheckReference) {
	ginkgo.GinkgoHelper()
	j.say(check, retry(time.Hour, "not yet"))
	gomega.Eventually(func(g gomega.Gomega) {
		g.Expect(asks(j.workload(g), check)).To(gomega.BeTrue())
	}, util.LongTimeout, util.Interval).Should(gomega.Succeed())
}

// leaveStuckWithPlain returns a job that runs, one that is stuck without quota, and
// its retries once it is not any more.
func (f *fixture) leaveStuckWithPlain(check kueue.AdmissionCheckReference) (running, stuck *queuedJob, retries int32) {
	ginkgo.GinkgoHelper()
	running = f.createJob("running")
	running.expectAsked(check, 0)
	running.say(check, ready("now"))
	running.expectRunningPod()
	stuck = f.createJob("stuck")
	util.SetWorkloadsAdmissionCheck(ctx, k8sClient, &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: stuck.wlKey.Namespace, Name: stuck.wlKey.Name}}, check, kueue.CheckStateRetry, true)
	return running, stuck, 1
}
