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
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kueue-acrequeueafter/demo/timeline"
)

const metricPrefix = "kueue_admission_check_retr"

// metrics are the manager's metrics of the delayed retries.
type metrics map[string]*dto.MetricFamily

// scrape reads the metrics as Prometheus does: with a token that may.
func (d *demo) scrape(ctx context.Context, cfg *rest.Config, address string) (metrics, error) {
	c, err := client.New(cfg, client.Options{Scheme: newScheme()})
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prometheus"}}
	for _, obj := range []client.Object{
		account,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
		},
	} {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, err
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token.Status.Token)
	// The manager signs its certificate itself.
	insecure := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var families metrics
	return families, eventually(ctx, "read the manager's metrics", func() error {
		response, err := insecure.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", request.URL, response.Status)
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err = parser.TextToMetricFamilies(response.Body)
		return err
	})
}

// print prints the metrics of the delayed retries; of the histograms the count
// and the sum.
func (m metrics) print(w io.Writer) {
	for _, name := range m.names() {
		for _, metric := range m[name].Metric {
			labels := make([]string, len(metric.Label))
			for i, label := range metric.Label {
				labels[i] = fmt.Sprintf("%s=%q", label.GetName(), label.GetValue())
			}
			all := "{" + strings.Join(labels, ",") + "}"
			switch m[name].GetType() {
			case dto.MetricType_COUNTER:
				fmt.Fprintf(w, "  %s%s %g\n", name, all, metric.GetCounter().GetValue())
			case dto.MetricType_HISTOGRAM:
				fmt.Fprintf(w, "  %s_count%s %d\n", name, all, metric.GetHistogram().GetSampleCount())
				fmt.Fprintf(w, "  %s_sum%s %.3g\n", name, all, metric.GetHistogram().GetSampleSum())
			default:
				fmt.Fprintf(w, "  %s%s %g\n", name, all, metric.GetGauge().GetValue())
			}
		}
	}
}

func (m metrics) names() []string {
	var names []string
	for name := range m {
		if strings.HasPrefix(name, metricPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// verify holds the counters against what was seen to happen.
func (m metrics) verify(delays []timeline.Delay) timeline.Promise {
	want := map[string]float64{}
	for _, delay := range delays {
		want[delay.Check] += float64(delay.Retries)
	}
	got := map[string]float64{}
	for _, metric := range m["kueue_admission_check_retries_total"].GetMetric() {
		for _, label := range metric.Label {
			if label.GetName() == "admission_check" {
				got[label.GetValue()] += metric.GetCounter().GetValue()
			}
		}
	}
	return timeline.Promise{
		Kept:   maps.Equal(want, got),
		Text:   "the manager's metrics count the same retries",
		Detail: fmt.Sprint(got),
	}
}
