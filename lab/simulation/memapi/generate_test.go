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

package memapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"kueue-acrequeueafter/lab/simulation/memapi"
)

// kind is one of those that are tried.
type kind struct {
	*memapi.Resource
	// crd is nil for what is built into the API server.
	crd *apiextensionsv1.CustomResourceDefinition
	// props is what is known of the fields.
	props *apiextensionsv1.JSONSchemaProps
	// minimal is a valid object, without metadata.
	minimal map[string]any
	// changes are what is tried where there is no schema.
	changes []change
	weight  int
}

// kinds are those of the CRDs as the API server has them, and all as the simulation has
// them: plain.
type kinds struct{ whole, plain []*kind }

func (k kinds) of(s schedule) []*kind {
	if s.Plain {
		return k.plain
	}
	return k.whole
}

// What lies too deep for random values, and what they have to fit to, by the end of
// the path.
var values = map[string][]any{
	".template": {
		map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}},
		map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{
			map[string]any{"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "1", "memory": int64(5)}}, "ports": []any{map[string]any{"containerPort": int64(80)}}},
			map[string]any{"name": "d", "env": []any{map[string]any{"name": "x", "value": "y"}}, "nothing": "x"},
		}}},
		map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "nothing": "x"},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c"}}, "tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}}},
		},
		map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": int64(1)}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}}},
		map[string]any{"spec": map[string]any{}},
	},
	".clusterSource": {map[string]any{"kubeConfig": map[string]any{"location": "a", "locationType": "Secret"}}, map[string]any{}},
	".nothing":       {"x", map[string]any{"y": nil}, nil},
}

// words are tried where a string is asked for.
var words = []string{
	"a", "b", "main", "cpu", "example.com/check", "2026-01-02T03:04:05Z", "2026-11-22T03:04:05Z", "500m", "kueue.x-k8s.io", "{}",
	"", "A", "Not a name", "yesterday", strings.Repeat("x", 70), strings.Repeat("long-", 70),
}

const (
	podSpec = `{"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
		"containers": [{"name": "c", "image": "i", "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}]}`
	when = `"2026-01-02T03:04:05Z"`
)

// builtIns are kinds that are built in, with objects in which no default is missing.
var builtIns = []struct {
	gvk       schema.GroupVersionKind
	plural    string
	hasStatus bool
	minimal   string
	// changes are merge patches of one field each.
	changes []string
}{
	{
		gvk: batchv1.SchemeGroupVersion.WithKind("Job"), plural: "jobs", hasStatus: true,
		minimal: `{"spec": {"parallelism": 1, "completions": 1, "completionMode": "NonIndexed", "backoffLimit": 6, "suspend": true, "manualSelector": true,
			"podReplacementPolicy": "TerminatingOrFailed", "selector": {}, "template": {"metadata": {}, "spec": ` + podSpec + `}}}`,
		changes: []string{
			`{"spec": {"suspend": false}}`, `{"spec": {"suspend": true}}`, `{"spec": {"parallelism": 3}}`, `{"spec": {"activeDeadlineSeconds": 5}}`, `{"spec": {"activeDeadlineSeconds": null}}`,
			`{"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}`, `{"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}`, `{"spec": {"template": {"metadata": {"annotations": null}}}}`,
			`{"spec": {"template": {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}}}`, `{"spec": {"completions": 2}}`, `{"spec": {"nothing": "x"}}`,
			`{"status": {"active": 1}}`, `{"status": {"ready": 1}}`, `{"status": {"active": null}}`, `{"status": {"startTime": ` + when + `}}`, `{"status": {"startTime": null}}`, `{"status": {"failed": 2}}`,
			`{"status": {"conditions": [{"type": "Suspended", "status": "True", "reason": "r", "message": "m", "lastProbeTime": ` + when + `, "lastTransitionTime": ` + when + `}]}}`,
			`{"status": {"conditions": null}}`, `{"status": {"nothing": "x"}}`,
		},
	},
	{
		gvk: corev1.SchemeGroupVersion.WithKind("Secret"), plural: "secrets",
		minimal: `{"type": "Opaque", "data": {"a": "Yg=="}}`,
		changes: []string{`{"data": {"a": "YQ=="}}`, `{"data": {"b": "YQ=="}}`, `{"data": {"a": null}}`, `{"data": null}`, `{"immutable": true}`, `{"nothing": "x"}`},
	},
}

// loadAll reads the CRDs in these folders, twice, and adds what is built in.
func loadAll(folders ...string) (kinds, error) {
	whole, err := loadKinds(folders...)
	if err != nil {
		return kinds{}, err
	}
	plain, err := loadKinds(folders...)
	if err != nil {
		return kinds{}, err
	}
	// Workloads are never plain.
	plain = slices.DeleteFunc(plain, func(k *kind) bool { return k.GVK.Kind == "Workload" })
	for _, b := range builtIns {
		k := &kind{weight: 3}
		if k.Resource, err = memapi.Builtin(b.gvk, b.plural, true, b.hasStatus); err != nil {
			return kinds{}, err
		}
		if err := json.Unmarshal([]byte(b.minimal), &k.minimal); err != nil {
			return kinds{}, err
		}
		for _, text := range b.changes {
			c := change{}
			if err := json.Unmarshal([]byte(text), &c.Value); err != nil {
				return kinds{}, err
			}
			for object, ok := c.Value.(map[string]any); ok && len(object) == 1; object, ok = c.Value.(map[string]any) {
				for name, value := range object {
					c.Path, c.Value = append(c.Path, name), value
				}
			}
			c.Remove = c.Value == nil
			k.changes = append(k.changes, c)
		}
		plain = append(plain, k)
	}
	for _, k := range plain {
		k.Plain = true
	}
	return kinds{whole, plain}, nil
}

// loadKinds reads the CRDs in these folders.
func loadKinds(folders ...string) ([]*kind, error) {
	var files []string
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "*.x-k8s.io_*.yaml"))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %v: run make tree", folders)
	}
	var kinds []*kind
	for _, file := range files {
		k, err := loadKind(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func loadKind(file string) (*kind, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k := &kind{crd: &apiextensionsv1.CustomResourceDefinition{}, weight: 1}
	if err := yaml.UnmarshalStrict(data, k.crd); err != nil {
		return nil, err
	}
	// It is served in one version, as memapi does: that in which the simulation has it.
	k.crd.Spec.Versions = slices.DeleteFunc(k.crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage })
	k.crd.Spec.Conversion = nil
	version := k.crd.Spec.Versions[0].Name
	k.props = k.crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if k.Resource, err = memapi.FromCRD(file, version); err != nil {
		return nil, err
	}
	k.minimal = map[string]any{}
	for name, props := range k.props.Properties {
		if name != "metadata" && name != "apiVersion" && name != "kind" && name != "status" {
			k.minimal[name] = smallest("."+name, &props)
		}
	}
	if k.GVK.Kind == "Workload" {
		k.weight = 12
	}
	return k, nil
}

// smallest is a valid value, if there are no rules beside the schema.
func smallest(path string, p *apiextensionsv1.JSONSchemaProps) any {
	if fixed := valuesFor(path); fixed != nil {
		return fixed[0]
	}
	switch {
	case p.XIntOrString:
		return int64(1)
	case p.Type == "object":
		object := map[string]any{}
		for _, name := range p.Required {
			props := p.Properties[name]
			object[name] = smallest(path+"."+name, &props)
		}
		if path == ".spec" && len(object) == 0 {
			if _, found := p.Properties["podSets"]; found { // it has a default
				props := p.Properties["podSets"]
				object["podSets"] = []any{smallest(path+".podSets[]", props.Items.Schema)}
			}
		}
		return object
	case p.Type == "array":
		list := []any{}
		if p.MinItems != nil && *p.MinItems > 0 || strings.HasSuffix(path, ".podSets") {
			list = append(list, smallest(path+"[]", p.Items.Schema))
		}
		return list
	case p.Type == "string":
		return fitting(p)[0]
	case p.Type == "integer" || p.Type == "number":
		if p.Minimum != nil {
			return int64(max(*p.Minimum, 1))
		}
		return int64(1)
	case p.Type == "boolean":
		return true
	}
	return map[string]any{}
}

func valuesFor(path string) []any {
	for end, fixed := range values {
		if strings.HasSuffix(path, end) {
			return fixed
		}
	}
	return nil
}

// fitting are the strings that the schema allows.
func fitting(p *apiextensionsv1.JSONSchemaProps) []any {
	var fit []any
	for _, value := range p.Enum {
		fit = append(fit, strings.Trim(string(value.Raw), `"`))
	}
	if fit != nil {
		return fit
	}
	if p.Format == "date-time" {
		// Those of rule 1, too: none, the last, one that is after it in UTC, one of less than a second.
		return []any{
			"2026-01-02T03:04:05Z", "2026-11-22T03:04:05Z", "2026-11-22T03:04:05.5Z",
			"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "2026-11-22T03:04:05.123456789Z",
		}
	}
	var pattern *regexp.Regexp
	if p.Pattern != "" {
		pattern = regexp.MustCompile(p.Pattern)
	}
	for _, word := range words {
		if (pattern == nil || pattern.MatchString(word)) && (p.MinLength == nil || int64(len(word)) >= *p.MinLength) && (p.MaxLength == nil || int64(len(word)) <= *p.MaxLength) {
			fit = append(fit, word)
		}
	}
	if fit == nil {
		fit = []any{"a"}
	}
	return fit
}

// oneIn is true once in n times, and false when a schedule is made smaller.
func oneIn(t *rapid.T, n int) bool {
	return rapid.IntRange(0, n-1).Draw(t, "luck") == n-1
}

func oneOf[T any](t *rapid.T, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, "choice")
}

// value is a random one, at times none that the schema allows.
func value(t *rapid.T, path string, p *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case oneIn(t, 40):
		return nil
	case oneIn(t, 40):
		return oneOf[any](t, "wrong", int64(7), 1.5, true, map[string]any{"a": "b"}, []any{"a"}, map[string]any{}, []any{})
	}
	if fixed := valuesFor(path); fixed != nil {
		return oneOf(t, fixed...)
	}
	depth := strings.Count(path, ".")
	switch {
	case p.XIntOrString:
		return oneOf[any](t, int64(1), "1", "500m", "2", int64(0), "-1", "x")
	case p.Type == "object" && p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		object := map[string]any{}
		for range rapid.IntRange(0, 2).Draw(t, "n") {
			key := oneOf(t, "cpu", "memory", "a")
			object[key] = value(t, path+"."+key, p.AdditionalProperties.Schema)
		}
		return object
	case p.Type == "object":
		object := map[string]any{}
		names := make([]string, 0, len(p.Properties))
		for name := range p.Properties {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			props := p.Properties[name]
			wanted := !oneIn(t, 40)
			if !slices.Contains(p.Required, name) {
				wanted = oneIn(t, 2+depth)
			}
			if wanted {
				object[name] = value(t, path+"."+name, &props)
			}
		}
		if oneIn(t, 25) {
			object["nothing"] = oneOf(t, values[".nothing"]...)
		}
		return object
	case p.Type == "array":
		list := []any{}
		n := oneOf(t, 1, 2, 2, 3, 0)
		if oneIn(t, 50) {
			n = 20
		}
		for range n {
			list = append(list, value(t, path+"[]", p.Items.Schema))
		}
		return list
	case p.Type == "string":
		if oneIn(t, 12) {
			return oneOf(t, words...)
		}
		return oneOf(t, fitting(p)...)
	case p.Type == "integer" || p.Type == "number":
		numbers := []any{int64(1), int64(2), int64(3), int64(0)}
		if oneIn(t, 10) {
			numbers = []any{int64(-1), int64(1) << 31, int64(1) << 40, 1.5}
			if p.Minimum != nil {
				numbers = append(numbers, int64(*p.Minimum)-1, int64(*p.Minimum))
			}
			if p.Maximum != nil {
				numbers = append(numbers, int64(*p.Maximum)+1, int64(*p.Maximum))
			}
		}
		return oneOf(t, numbers...)
	case p.Type == "boolean":
		return rapid.Bool().Draw(t, "bool")
	}
	return map[string]any{"x": int64(1)}
}

// change is a field that a write is about.
type change struct {
	Path  []string
	Value any
	// Remove: the field is taken away, where a write can say so.
	Remove bool
}

// metadata are fields that clients set, and those that they should not.
var metadata = []change{
	{Path: []string{"labels"}, Value: map[string]any{"a": "b"}},
	{Path: []string{"labels", "a"}, Value: "c"},
	{Path: []string{"labels", "d"}, Value: "e"},
	{Path: []string{"labels", "a"}, Value: nil},
	{Path: []string{"annotations", "a"}, Value: "b"},
	{Path: []string{"annotations"}, Value: nil},
	{Path: []string{"finalizers"}, Value: []any{"example.com/a"}},
	{Path: []string{"finalizers"}, Value: []any{"example.com/a"}},
	{Path: []string{"finalizers"}, Value: []any{"example.com/a"}},
	{Path: []string{"finalizers"}, Value: []any{"example.com/b", "example.com/a"}},
	{Path: []string{"finalizers"}, Value: []any{}},
	{Path: []string{"finalizers"}, Value: []any{}},
	{Path: []string{"finalizers"}, Value: nil},
	{Path: []string{"finalizers"}, Value: []any{"example.com/a", "example.com/a"}},
	{Path: []string{"ownerReferences"}, Value: []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "11111111-0000-4000-8000-000000000000"}}},
	{Path: []string{"ownerReferences"}, Value: []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p"}}},
}

var metadataOfServer = []change{
	{Path: []string{"labels", "a"}, Value: "Not a label"},
	{Path: []string{"labels", "a"}, Value: int64(1)},
	{Path: []string{"labels"}, Value: "x"},
	{Path: []string{"annotations", "not a key"}, Value: "x"},
	{Path: []string{"finalizers"}, Value: []any{"not a finalizer"}},
	{Path: []string{"generation"}, Value: int64(7)},
	{Path: []string{"uid"}, Value: "22222222-0000-4000-8000-000000000000"},
	{Path: []string{"creationTimestamp"}, Value: "2020-01-01T00:00:00Z"},
	{Path: []string{"creationTimestamp"}, Value: nil},
	{Path: []string{"creationTimestamp"}, Value: "yesterday"},
	{Path: []string{"deletionTimestamp"}, Value: "2020-01-01T00:00:00Z"},
	{Path: []string{"deletionTimestamp"}, Value: nil},
	{Path: []string{"name"}, Value: "another"},
	{Path: []string{"name"}, Value: nil},
	{Path: []string{"namespace"}, Value: "another"},
	{Path: []string{"namespace"}, Value: nil},
	{Path: []string{"resourceVersion"}, Value: nil},
	{Path: []string{"resourceVersion"}, Value: "0"},
	{Path: []string{"resourceVersion"}, Value: "1000000000"},
	{Path: []string{"managedFields"}, Value: []any{}},
	{Path: []string{"managedFields"}, Value: []any{map[string]any{}}},
	{Path: []string{"managedFields"}, Value: nil},
	{Path: []string{"managedFields"}, Value: []any{map[string]any{"manager": "m1", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}},
	{Path: []string{"nothing"}, Value: "x"},
}

// broken are values that the schema allows, and a rule does not, or not after another.
var broken = map[string][]change{
	"Workload/status": {
		{Path: []string{"status", "clusterName"}, Value: "a"},
		{Path: []string{"status", "clusterName"}, Value: "b"},
		{Path: []string{"status"}, Value: map[string]any{"clusterName": "a", "nominatedClusterNames": []any{"a"}}},
	},
}

// changeOf draws a change of the object: below the top-level field, if one is given.
func changeOf(t *rapid.T, k *kind, top string) change {
	if k.changes != nil && !oneIn(t, 4) {
		return oneOf(t, k.changes...)
	}
	if rules := broken[k.GVK.Kind+"/"+top]; rules != nil && oneIn(t, 12) {
		return oneOf(t, rules...)
	}
	if k.changes == nil && oneIn(t, 30) {
		if oneIn(t, 4) {
			return oneOf(t, change{Path: []string{"kind"}, Value: "Another"}, change{Path: []string{"apiVersion"}, Value: "v7"}, change{Path: []string{"kind"}, Value: nil},
				change{Path: []string{"nothing"}, Value: "x"}, change{Path: []string{"metadata"}, Value: nil}, change{Path: []string{"spec"}, Value: nil}, change{Path: []string{"status"}, Value: nil})
		}
		c := oneOf(t, metadataOfServer...)
		c.Path = append([]string{"metadata"}, c.Path...)
		return c
	}
	if k.changes != nil || oneIn(t, 4) {
		c := oneOf(t, metadata...)
		c.Path = append([]string{"metadata"}, c.Path...)
		return c
	}
	p, path := k.props, []string{}
	if _, found := p.Properties[top]; found && !oneIn(t, 8) {
		props := p.Properties[top]
		p, path = &props, []string{top}
	}
	if oneIn(t, 25) {
		return change{Path: append(path, "nothing"), Value: "x"}
	}
	for len(p.Properties) > 0 && (len(path) == 0 || !oneIn(t, 4+4*len(path))) {
		names := make([]string, 0, len(p.Properties))
		for name := range p.Properties {
			if len(path) > 0 || name != "metadata" && name != "apiVersion" && name != "kind" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			break
		}
		slices.Sort(names)
		name := oneOf(t, names...)
		props := p.Properties[name]
		p, path = &props, append(path, name)
	}
	c := change{Path: path, Remove: oneIn(t, 6)}
	if !c.Remove {
		c.Value = value(t, "."+strings.Join(path, "."), p)
	}
	return c
}

// op is what a step does.
type op string

const (
	opCreate     op = "create"
	opApply      op = "apply"
	opMerge      op = "merge patch"
	opJSON       op = "JSON patch"
	opStrategic  op = "strategic merge patch"
	opUpdate     op = "update"
	opDelete     op = "delete"
	opGet        op = "get"
	opList       op = "list"
	opWatch      op = "watch"
	opFinalize   op = "add a finalizer"
	opUnfinalize op = "remove finalizers"
)

var ops = map[op]int{
	opCreate: 4, opApply: 8, opMerge: 5, opJSON: 5, opStrategic: 1, opUpdate: 5, opDelete: 3, opGet: 1, opList: 1, opWatch: 1, opFinalize: 2, opUnfinalize: 2,
}

// step is a request. What it says of versions is looked up when it is made.
type step struct {
	Op          op
	Kind, Name  string
	Subresource string
	Manager     string
	Force       bool
	// Version is what the body or the precondition has for a resource version.
	Version versionMode
	// Back says which version of the object an update or a watch starts from.
	Back int
	// Whole: an apply has all that the object needs.
	Whole   bool
	Changes []change
	// JSON are the operations on the changes.
	JSON []string
}

type versionMode string

const (
	versionNone    versionMode = ""
	versionCurrent versionMode = "current"
	versionOld     versionMode = "old"
	uidCurrent     versionMode = "uid"
	uidWrong       versionMode = "wrong uid"
)

func (s step) String() string {
	text := fmt.Sprintf("%s %s/%s", s.Op, s.Kind, s.Name)
	if s.Subresource != "" {
		text += "/" + s.Subresource
	}
	if s.Manager != "" {
		text += " by " + s.Manager
	}
	if s.Force {
		text += " with force"
	}
	if s.Version != versionNone {
		text += ", version: " + string(s.Version)
	}
	return text
}

// schedule is what is tried.
type schedule struct {
	// Plain: the kinds are as the simulation has them.
	Plain bool
	Steps []step
}

// schedules are drawn for these kinds.
func schedules(all kinds) *rapid.Generator[schedule] {
	whole, plain := stepsOf(all.whole), stepsOf(all.plain)
	return rapid.Custom(func(t *rapid.T) schedule {
		if oneIn(t, 4) {
			return schedule{true, plain.Draw(t, "plain")}
		}
		return schedule{false, whole.Draw(t, "whole")}
	})
}

func stepsOf(kinds []*kind) *rapid.Generator[[]step] {
	var table []op
	for _, o := range []op{opCreate, opApply, opMerge, opJSON, opStrategic, opUpdate, opDelete, opGet, opList, opWatch, opFinalize, opUnfinalize} {
		// An apply asks who owns what, which is not kept of what is plain.
		if o != opApply || !kinds[0].Plain {
			table = append(table, slices.Repeat([]op{o}, ops[o])...)
		}
	}
	var weighted []*kind
	for _, k := range kinds {
		weighted = append(weighted, slices.Repeat([]*kind{k}, k.weight)...)
	}
	return rapid.Custom(func(t *rapid.T) []step {
		// A schedule is about one or two kinds.
		chosen := []*kind{oneOf(t, weighted...)}
		if oneIn(t, 4) {
			chosen = append(chosen, oneOf(t, weighted...))
		}
		one := rapid.Custom(func(t *rapid.T) step {
			k := oneOf(t, chosen...)
			s := step{Op: oneOf(t, table...), Kind: k.GVK.Kind, Name: oneOf(t, "a", "a", "a", "b")}
			switch s.Op {
			case opGet, opList:
				return s
			case opWatch:
				s.Back = rapid.IntRange(0, 5).Draw(t, "back")
				return s
			case opDelete:
				s.Version = oneOf(t, versionNone, versionNone, versionNone, versionCurrent, versionOld, uidCurrent, uidWrong)
				return s
			}
			s.Manager = oneOf(t, "m1", "m2", "m3", "")
			if s.Op == opFinalize || s.Op == opUnfinalize {
				return s
			}
			top := "spec"
			if s.Op != opCreate && (k.HasStatus && rapid.Bool().Draw(t, "status") || k.crd != nil && oneIn(t, 40)) {
				s.Subresource, top = "status", "status"
			}
			if s.Op == opApply {
				s.Force = oneIn(t, 3)
				s.Whole = s.Subresource == "" && !oneIn(t, 3)
				if s.Manager == "" && !oneIn(t, 10) {
					s.Manager = "m1"
				}
			}
			s.Version = oneOf(t, versionNone, versionNone, versionCurrent, versionOld)
			if s.Op == opUpdate {
				s.Version = oneOf(t, versionCurrent, versionCurrent, versionCurrent, versionOld, versionNone)
				s.Back = oneOf(t, 0, 0, 0, 1, 2)
			}
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				c := changeOf(t, k, top)
				s.Changes = append(s.Changes, c)
				if s.Op == opJSON {
					operation := oneOf(t, "add", "add", "add", "replace", "replace", "remove", "test", "add to list", "replace in list", "remove from list", "copy", "move")
					if c.Value == nil {
						// The API server panics when something is added to a null.
						operation = "remove"
					}
					s.JSON = append(s.JSON, operation)
				}
			}
			return s
		})
		// There is something to work on from the beginning, and often somebody who looks on.
		steps := []step{{Op: opCreate, Kind: chosen[0].GVK.Kind, Name: "a", Manager: "m1"}}
		if !oneIn(t, 3) {
			steps = append(steps, step{Op: opWatch, Kind: chosen[0].GVK.Kind, Name: "a"})
		}
		steps = append(steps, rapid.SliceOfN(one, 4, 25).Draw(t, "steps")...)
		if oneIn(t, 3) {
			// An end that takes its time, and a new beginning.
			end := func(o op) step { return step{Op: o, Kind: chosen[0].GVK.Kind, Name: "a"} }
			steps = append(steps, end(opFinalize), end(opDelete))
			if oneIn(t, 2) {
				// Somebody writes what was read before.
				late := end(opUpdate)
				late.Version, late.Back = versionCurrent, 1
				steps = append(steps, late)
			}
			steps = append(steps, rapid.SliceOfN(one, 0, 3).Draw(t, "between")...)
			steps = append(steps, end(opUnfinalize), end(opCreate))
		}
		return steps
	})
}
