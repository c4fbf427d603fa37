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
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// makeChart packages upstream's chart of the tree, with our version, image and
// gate as the values that it has by default, and with CRDs that outlive it.
func (r *release) makeChart() error {
	packaged, err := r.chart()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// chartutil.Save would put the time of day into the archive.
	if err := chartutil.SaveDir(packaged, work); err != nil {
		return err
	}
	if err := r.removeOld(componentName + "-[0-9]*.tgz"); err != nil {
		return err
	}
	if err := writeFile(r.chartPath(), func(w io.Writer) error { return tarGz(w, work, r.created) }); err != nil {
		return err
	}
	return r.wrote(r.chartPath())
}

func (r *release) chart() (*chart.Chart, error) {
	upstream, err := loader.LoadDir(filepath.Join(r.tree, "charts", componentName))
	if err != nil {
		return nil, err
	}
	upstream.Metadata.Version = r.chartVersion()
	upstream.Metadata.AppVersion = r.version
	i := slices.IndexFunc(upstream.Raw, func(f *chart.File) bool { return f.Name == chartutil.ValuesfileName })
	if i < 0 {
		return nil, fmt.Errorf("the chart has no %s", chartutil.ValuesfileName)
	}
	if upstream.Raw[i].Data, err = r.chartValues(upstream.Raw[i].Data); err != nil {
		return nil, err
	}
	if upstream.Schema != nil {
		return nil, fmt.Errorf("the chart has a schema of its own: add to it what values.schema.json says")
	}
	upstream.Schema = valuesSchema
	i = slices.IndexFunc(upstream.Files, func(f *chart.File) bool { return f.Name == "README.md" })
	if i < 0 {
		return nil, fmt.Errorf("the chart has no README.md")
	}
	upstream.Files[i].Data = append([]byte(chartNotice), upstream.Files[i].Data...)
	if err := keepCRDs(upstream); err != nil {
		return nil, err
	}
	return upstream, upstream.Validate()
}

// chartNotice goes before upstream's README of the chart, which installs plain Kueue.
const chartNotice = `> This chart installs a patched Kueue, with delayed retries of admission checks behind the
> gate ACRequeueAfter. What follows is plain Kueue's text: take this chart's file instead of
> the addresses there. A list of values is replaced as a whole: to set another gate, name
> ACRequeueAfter again in controllerManager.featureGates.

`

// valuesSchema has Helm refuse a gate without a name or a value, such as that of
// --set controllerManager.featureGates[0].enabled=false, which replaces the list. The
// templates would make "%!s(<nil>)=false" of it, and the manager would not start.
//
//go:embed values.schema.json
var valuesSchema []byte

// crdTemplates is where the chart has its CRDs.
const crdTemplates = "templates/crd/"

// keepCRDs has Helm leave the CRDs alone when the chart is uninstalled. They are
// templates, so it would delete them, and with them all Workloads and queues.
func keepCRDs(c *chart.Chart) error {
	annotations, policy := []byte("\n  annotations:\n"), fmt.Appendf(nil, "    %s: %s\n", kube.ResourcePolicyAnno, kube.KeepPolicy)
	found := false
	for _, template := range c.Templates {
		if !strings.HasPrefix(template.Name, crdTemplates) {
			continue
		}
		// The first ones are those of the CRD itself; renderChart's callers look.
		before, after, ok := bytes.Cut(template.Data, annotations)
		if !ok {
			return fmt.Errorf("%s of the chart has no annotations", template.Name)
		}
		template.Data = slices.Concat(before, annotations, policy, after)
		found = true
	}
	if !found {
		return fmt.Errorf("the chart has no %s", crdTemplates)
	}
	return nil
}

// checkKept returns an error for each CRD that an uninstall would delete.
func checkKept(objects []*unstructured.Unstructured) error {
	var findings []error
	for _, object := range objects {
		if object.GetKind() == crdKind && object.GetAnnotations()[kube.ResourcePolicyAnno] != kube.KeepPolicy {
			findings = append(findings, fmt.Errorf("helm uninstall would delete %s %s", crdKind, object.GetName()))
		}
	}
	return errors.Join(findings...)
}

// chartValues sets values, and leaves comments and order as they are. The
// dashboard is upstream's, unpatched.
func (r *release) chartValues(content []byte) ([]byte, error) {
	values, err := kyaml.Parse(string(content))
	if err != nil {
		return nil, err
	}
	image := func(repository, tag string) map[string]string {
		return map[string]string{"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}
	}
	for _, set := range []struct {
		path   []string
		values map[string]string
	}{
		{[]string{"controllerManager", "manager", "image"}, image(imageRepository(r.image), r.image.TagStr())},
		{[]string{"kueueViz", "backend", "image"}, image("registry.k8s.io/kueue/kueueviz-backend", r.baseVersion)},
		{[]string{"kueueViz", "frontend", "image"}, image("registry.k8s.io/kueue/kueueviz-frontend", r.baseVersion)},
	} {
		node, err := values.Pipe(kyaml.Lookup(set.path...))
		if err != nil {
			return nil, err
		}
		for name, value := range set.values {
			if node.Field(name) == nil {
				return nil, fmt.Errorf("the chart has no value %v %s", set.path, name)
			}
			if err := node.PipeE(kyaml.SetField(name, kyaml.NewStringRNode(value))); err != nil {
				return nil, err
			}
		}
	}
	if r.gate {
		gates, err := values.Pipe(kyaml.Lookup("controllerManager", "featureGates"))
		if err != nil {
			return nil, err
		}
		if gates == nil {
			return nil, fmt.Errorf("the chart has no value controllerManager.featureGates")
		}
		on, err := kyaml.Parse("name: " + gateName + "\nenabled: true\n")
		if err != nil {
			return nil, err
		}
		gates.YNode().Style = 0
		if err := gates.PipeE(kyaml.Append(on.YNode())); err != nil {
			return nil, err
		}
	}
	changed, err := values.String()
	return []byte(changed), err
}

// renderChart returns what "helm install kueue" installs with the chart's own
// values and these, in that order.
func renderChart(c *chart.Chart, set map[string]any) ([]*unstructured.Unstructured, error) {
	options := chartutil.ReleaseOptions{Name: componentName, Namespace: "kueue-system", Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(c, set, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, values)
	if err != nil {
		return nil, err
	}
	hooks, sorted, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	if len(hooks) > 0 {
		return nil, fmt.Errorf("the chart has %d hooks, which nobody looks at here", len(hooks))
	}
	var objects []*unstructured.Unstructured
	for _, manifest := range sorted {
		decoded, err := decodeObjects([]byte(manifest.Content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", manifest.Name, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}
