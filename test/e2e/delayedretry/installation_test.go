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
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/test/util"
)

var _ = ginkgo.Describe("Delayed retry as installed", ginkgo.Label("feature:admissionchecks", "feature:acrequeueafter"), func() {
	var (
		check kueue.AdmissionCheckReference
		queue *fixture
		job   *queuedJob
	)

	ginkgo.BeforeEach(func() {
		check = createCheck()
		queue = newFixture(check)
		job = queue.createJob("job")
		job.expectAsked(check, 0)
	})

	ginkgo.It("Should tell in conditions, events and metrics which check it waits for, and until when", ginkgo.Label("smoke"), func() {
		job.say(check, retry(time.Second, "not yet"))
		job.expectAsked(check, 1)
		asked := time.Now()
		job.say(check, retry(time.Hour, "not for long"))
		deadline := job.expectWaiting(asked.Add(time.Hour))

		ginkgo.By("reading the conditions")
		wl := job.workload(gomega.Default)
		for conditionType, words := range map[string]string{
			kueue.WorkloadEvicted:       "after 3600 s",
			kueue.WorkloadQuotaReserved: "after 3600 s",
			kueue.WorkloadRequeued:      deadline.UTC().Format(time.RFC3339),
		} {
			condition := apimeta.FindStatusCondition(wl.Status.Conditions, conditionType)
			gomega.Expect(condition).To(gomega.HaveField("Message", gomega.And(
				gomega.ContainSubstring(string(check)),
				gomega.ContainSubstring("not for long"),
				gomega.ContainSubstring(words),
			)), conditionType)
		}

		ginkgo.By("reading the events")
		gomega.Eventually(func(g gomega.Gomega) {
			events := &corev1.EventList{}
			g.Expect(k8sClient.List(ctx, events, client.InNamespace(job.Namespace))).To(gomega.Succeed())
			g.Expect(events.Items).To(gomega.ContainElement(gomega.And(
				gomega.HaveField("InvolvedObject.Name", wl.Name),
				gomega.HaveField("Reason", "EvictedDueToAdmissionCheck"),
				gomega.HaveField("Message", gomega.And(gomega.ContainSubstring(string(check)), gomega.ContainSubstring("after 3600 s"))),
			)))
		}, util.Timeout, util.Interval).Should(gomega.Succeed())

		ginkgo.By("reading the metrics")
		queueLabel := fmt.Sprintf("cluster_queue=%q", queue.clusterQueue.Name)
		checkLabel := fmt.Sprintf("admission_check=%q", check)
		gomega.Eventually(kueueMetrics(job.Namespace), util.Timeout, util.Interval).Should(utiltesting.ContainMetrics([][]string{
			{"kueue_admission_check_retries_total", checkLabel, queueLabel, " 1"},
			{"kueue_admission_check_retry_delay_seconds_count", checkLabel, queueLabel, " 2"},
			{"kueue_admission_check_retry_waiting_workloads", queueLabel, " 1"},
			{"kueue_admission_check_retry_lateness_seconds_count", queueLabel, " 1"},
			{"kueue_admission_check_retry_earliest_deadline_timestamp_seconds", queueLabel},
		}))
	})
})

// kueueMetrics returns a function that scrapes the metrics of the Kueue that
// leads, as a service account of the namespace that may read them.
func kueueMetrics(namespace string) func(g gomega.Gomega) string {
	ginkgo.GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader", Namespace: namespace}}
	util.MustCreate(ctx, k8sClient, account)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kueue-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	}
	util.MustCreate(ctx, k8sClient, binding)
	ginkgo.DeferCleanup(func() { util.ExpectObjectToBeDeleted(ctx, k8sClient, binding, true) })
	token := &authenticationv1.TokenRequest{}
	gomega.Expect(k8sClient.SubResource("token").Create(ctx, account, token)).To(gomega.Succeed())

	lease := &coordinationv1.Lease{}
	gomega.Expect(k8sClient.Get(ctx, client.ObjectKey{Namespace: util.GetKueueNamespace(), Name: "c1f6bfd2.kueue.x-k8s.io"}, lease)).To(gomega.Succeed())
	leader, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	port := forwardPort(util.GetKueueNamespace(), leader, 8443)

	return func(g gomega.Gomega) string {
		ginkgo.GinkgoHelper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://localhost:%d/metrics", port), nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		req.Header.Set("Authorization", "Bearer "+token.Status.Token)
		// Its certificate is self-signed.
		httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		resp, err := httpClient.Do(req)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(resp).To(gomega.HaveHTTPStatus(http.StatusOK), string(body))
		return string(body)
	}
}

// forwardPort returns a local port that leads to a port of the pod until the
// end of the spec.
func forwardPort(namespace, pod string, port int) uint16 {
	ginkgo.GinkgoHelper()
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	url := restClient.Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	stop, ready := make(chan struct{}), make(chan struct{})
	ginkgo.DeferCleanup(func() { close(stop) })
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, ginkgo.GinkgoWriter)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	go func() {
		defer ginkgo.GinkgoRecover()
		gomega.Expect(forwarder.ForwardPorts()).To(gomega.Succeed())
	}()
	gomega.Eventually(ready, util.Timeout).Should(gomega.BeClosed())
	ports, err := forwarder.GetPorts()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return ports[0].Local
}

// expectNothingForbidden reads in the logs of the pods in the namespace that the
// API server has refused them nothing.
func expectNothingForbidden(namespace string) {
	ginkgo.GinkgoHelper()
	pods := &corev1.PodList{}
	gomega.Expect(k8sClient.List(ctx, pods, client.InNamespace(namespace))).To(gomega.Succeed())
	gomega.Expect(pods.Items).NotTo(gomega.BeEmpty())
	for i := range pods.Items {
		logs, err := podLogs(&pods.Items[i])
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		for line := range strings.Lines(logs) {
			gomega.Expect(line).NotTo(gomega.ContainSubstring("is forbidden: User"), pods.Items[i].Name)
		}
	}
}
