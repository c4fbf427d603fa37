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

// Package observability has no code; its test holds the rules and the dashboard
// against promtool and against the metrics that Kueue registers.
package observability

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/yaml"
)

const (
	promtool = "../../../build/bin/promtool"
	folder   = "../../../docs/observability/"
)

// ours is the prefix of the metrics that this project adds to Kueue's.
const ours = "kueue_admission_check_retr"

type query struct {
	panel        string
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

type dashboard struct {
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		Title       string  `json:"title"`
		Type        string  `json:"type"`
		Description string  `json:"description"`
		Targets     []query `json:"targets"`
		FieldConfig struct {
			Defaults struct {
				Unit string `json:"unit"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
	} `json:"panels"`
}

func loadDashboard(t *testing.T) (dashboard, []query) {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal(read(t, folder+"dashboard.json"), &d); err != nil {
		t.Fatalf("dashboard.json: %v", err)
	}
	var queries []query
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, query{panel.Title, target.Expr, target.LegendFormat})
		}
	}
	return d, queries
}

func TestDashboardPanels(t *testing.T) {
	d, _ := loadDashboard(t)
	for _, panel := range d.Panels {
		if panel.Type == "row" {
			continue
		}
		if panel.Title == "" || panel.Description == "" || panel.FieldConfig.Defaults.Unit == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %q: a title, a description, a unit and a query are wanted", panel.Title)
		}
	}
	var variables []string
	for _, variable := range d.Templating.List {
		variables = append(variables, variable.Name)
	}
	if got, want := strings.Join(variables, " "), "datasource cluster_queue"; got != want {
		t.Errorf("variables: got %q, want %q", got, want)
	}
}

// Grafana drops what it does not know without a word. Its own schema knows the
// panels, their options and the queries.
func TestDashboardSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	var board grafana.Dashboard
	if err := board.UnmarshalJSONStrict(read(t, folder+"dashboard.json")); err != nil {
		t.Errorf("dashboard.json: %v", err)
	}
	if err := board.Validate(); err != nil {
		t.Errorf("dashboard.json: %v", err)
	}
}

// What Grafana puts in place of its variables.
var variables = strings.NewReplacer(
	"$cluster_queue", ".+",
	"$__rate_interval", "5m",
	"$__range", "6h",
)

// promtool parses the queries as recording rules.
func TestDashboardQueries(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool")
	}
	_, queries := loadDashboard(t)
	var rules []map[string]string
	for i, q := range queries {
		expr := variables.Replace(q.Expr)
		if strings.Contains(expr, "$") {
			t.Errorf("panel %q: unknown variable in %s", q.panel, q.Expr)
		}
		rules = append(rules, map[string]string{"record": fmt.Sprintf("dashboard:query:%d", i), "expr": expr})
	}
	content, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s\n%s", err, out, content)
	}
}

var (
	metricName = regexp.MustCompile(`\bkueue_[a-z0-9_]+`)
	labelNames = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)|\b(\w+)=~?"|{{(?:\s*\$labels\.)?(\w+)`)
	descriptor = regexp.MustCompile(`fqName: "([^"]+)".* variableLabels: {([^}]*)}`)
	suffix     = regexp.MustCompile(`_(bucket|sum|count)$`)
	runbook    = regexp.MustCompile(`runbook_url: RUNBOOKS#(\S+)`)
)

// Names of metrics and labels change unseen, and then an alert never fires again.
func TestMetricsAndLabelsExist(t *testing.T) {
	registered := registeredMetrics(t)
	d, queries := loadDashboard(t)
	for _, variable := range d.Templating.List {
		queries = append(queries, query{panel: "variable " + variable.Name, Expr: variable.Definition})
	}
	for _, file := range []string{"rules.yaml", "rules_test.yaml"} {
		queries = append(queries, query{panel: file, Expr: string(read(t, folder+file))})
	}
	shown := map[string]bool{}
	for _, q := range queries {
		labels := map[string]bool{"le": true, "instance": true, "value": true}
		for _, name := range metricName.FindAllString(q.Expr, -1) {
			family := suffix.ReplaceAllString(name, "")
			if registered[family] == nil {
				t.Errorf("%s: Kueue has no metric %s", q.panel, name)
			}
			maps.Copy(labels, registered[family])
			shown[family] = true
		}
		for _, match := range labelNames.FindAllStringSubmatch(q.Expr+q.LegendFormat, -1) {
			for _, name := range strings.Split(match[1]+match[2]+match[3], ", ") {
				if name != "" && !labels[name] {
					t.Errorf("%s: no metric has a label %s: %s", q.panel, name, q.Expr)
				}
			}
		}
	}
	for name := range registered {
		if strings.HasPrefix(name, ours) && !shown[name] {
			t.Errorf("neither the rules nor the dashboard use %s", name)
		}
	}
}

// registeredMetrics returns the labels of Kueue's metrics.
func registeredMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	metrics.Register()
	registry, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not describe its metrics", ctrlmetrics.Registry)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	found := map[string]map[string]bool{}
	for desc := range descs {
		match := descriptor.FindStringSubmatch(strings.ReplaceAll(desc.String(), "\n", " "))
		if match == nil {
			t.Fatalf("cannot read %s", desc)
		}
		found[match[1]] = map[string]bool{}
		for _, label := range strings.Split(match[2], ",") {
			found[match[1]][label] = true
		}
	}
	return found
}

// An alert without a runbook is of no use at night.
func TestRunbooksExist(t *testing.T) {
	headings := map[string]bool{}
	for line := range strings.Lines(string(read(t, "../../../docs/operators.md"))) {
		if title := strings.TrimLeft(line, "#"); title != line {
			headings[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	rules := string(read(t, folder+"rules.yaml"))
	links := runbook.FindAllStringSubmatch(rules, -1)
	if alerts := strings.Count(rules, "- alert:"); len(links) != alerts {
		t.Errorf("%d alerts have %d links to a runbook", alerts, len(links))
	}
	for _, link := range links {
		if !headings[link[1]] {
			t.Errorf("docs/operators.md has no section %s", link[1])
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
