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

// Package faults has mistakes for memapi, to show that holding it against the real
// API server finds them.
package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable that names the fault to switch on.
const Variable = "MEMAPI_FAULT"

// Fault replaces Old, which occurs once in the file, by New. New does as Old unless
// fault(name) is true.
type Fault struct{ Name, File, Old, New string }

const (
	server    = "server.go"
	resource  = "resource.go"
	transport = "transport.go"
)

// All are built together, and switched on one at a time.
var All = []Fault{
	{"apply-never-conflicts", server, `ptr.Deref(req.Force, false)`, `ptr.Deref(req.Force, false) || fault("apply-never-conflicts")`},
	{"force-is-ignored", server, `if old != nil {
			live = old`, `if fault("force-is-ignored") {
			req.Force = nil
		}
		if old != nil {
			live = old`},
	{"managers-of-updates-forgotten", server, `if !r.Plain {
		obj = req.endpoint()`, `if !r.Plain && !fault("managers-of-updates-forgotten") {
		obj = req.endpoint()`},
	{"managers-of-new-objects-forgotten", server, `if !r.Plain {
			empty, _`, `if !r.Plain && !fault("managers-of-new-objects-forgotten") {
			empty, _`},
	{"status-not-validated", server, `rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil {`,
		`rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil && !(fault("status-not-validated") && req.Subresource != "") && !(fault("updates-not-validated") && req.Subresource == "") {`},
	{"updates-not-validated", server, `fault("updates-not-validated")`, `fault("updates-not-validated")`},
	{"new-objects-not-validated", server, `rest.BeforeCreate(r.main.strategy, req.context(), obj); err != nil {`,
		`rest.BeforeCreate(r.main.strategy, req.context(), obj); err != nil && !fault("new-objects-not-validated") {`},
	{"no-defaults", resource, `d.resource.structural != nil &&`, `!fault("no-defaults") && d.resource.structural != nil &&`},
	{"nulls-kept", resource, `defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)`,
		`if !fault("nulls-kept") {
			defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)
		}`},
	{"nulls-of-an-apply-kept", server, `req.PatchType == types.ApplyPatchType && hasEmpty(`, `!fault("nulls-of-an-apply-kept") && req.PatchType == types.ApplyPatchType && hasEmpty(`},
	{"unknown-fields-kept", resource, `pruning.Prune(obj.Object, r.structural, true)`, `if !fault("unknown-fields-kept") {
			pruning.Prune(obj.Object, r.structural, true)
		}`},
	// It knows no list of which an element has a key.
	{"lists-not-merged", resource, `return r, r.setFieldManagers(converter)`, `if fault("lists-not-merged") {
			converter = managedfields.NewDeducedTypeConverter()
		}
		return r, r.setFieldManagers(converter)`},
	{"version-not-compared", server, `} else if version != old.GetResourceVersion() {`, `} else if version != old.GetResourceVersion() && !fault("version-not-compared") {`},
	{"version-not-asked-for", server, `if !e.strategy.AllowUnconditionalUpdate() && !r.Plain {`, `if !e.strategy.AllowUnconditionalUpdate() && !r.Plain && !fault("version-not-asked-for") {`},
	{"version-of-a-new-object-accepted", server, `version != "0" && req.Verb == http.MethodPost {`, `version != "0" && req.Verb == http.MethodPost && !fault("version-of-a-new-object-accepted") {`},
	{"precondition-not-looked-at", server, `rest.BeforeDelete(req.Resource.main.strategy, req.context(), obj, &opts); err != nil {`,
		`rest.BeforeDelete(req.Resource.main.strategy, req.context(), obj, &opts); err != nil && !fault("precondition-not-looked-at") {`},
	{"deleted-in-spite-of-finalizers", server, `case len(old.GetFinalizers()) == 0:`, `case len(old.GetFinalizers()) == 0 || fault("deleted-in-spite-of-finalizers"):`},
	{"kept-without-finalizers", server, `if registry.ShouldDeleteDuringUpdate(`, `if !fault("kept-without-finalizers") && registry.ShouldDeleteDuringUpdate(`},
	{"generation-not-counted", server, `if err := s.admit(req, old, obj); err != nil {`, `if fault("generation-not-counted") {
		obj.SetGeneration(old.GetGeneration())
	}
	if err := s.admit(req, old, obj); err != nil {`},
	{"generation-not-counted-at-deletion", server, `if obj.GetGeneration() > 0 {`, `if obj.GetGeneration() > 0 && !fault("generation-not-counted-at-deletion") {`},
	{"same-object-stored-again", server, `if reflect.DeepEqual(obj.Object, before.Object) {`, `if reflect.DeepEqual(obj.Object, before.Object) && !fault("same-object-stored-again") {`},
	{"status-is-the-object", server, `if r.Subresource != "" {
		return r.Resource.status`, `if r.Subresource != "" && !fault("status-is-the-object") {
		return r.Resource.status`},
	{"apply-makes-no-object", server, `if old == nil && (req.PatchType != types.ApplyPatchType ||`, `if old == nil && (fault("apply-makes-no-object") || req.PatchType != types.ApplyPatchType ||`},
	{"new-object-answered-200", transport, `if created {`, `if created && !fault("new-object-answered-200") {`},
	{"events-out-of-order", server, `if s.opts.OnWrite != nil {`, `if log := s.log[gvr]; fault("events-out-of-order") && len(log) > 1 {
		log[len(log)-1], log[len(log)-2] = log[len(log)-2], log[len(log)-1]
	}
	if s.opts.OnWrite != nil {`},
	{"event-lost", server, `s.log[gvr] = append(s.log[gvr], event{kind: kind,`, `if fault("event-lost") && s.revision[gvr]%4 == 0 {
		return stored
	}
	s.log[gvr] = append(s.log[gvr], event{kind: kind,`},
	{"deletion-told-as-change", transport, `data, err := json.Marshal(map[string]any{"type": next.kind,`, `if fault("deletion-told-as-change") && next.kind == "DELETED" {
		next.kind = "MODIFIED"
	}
	data, err := json.Marshal(map[string]any{"type": next.kind,`},
	{"watch-from-one-too-early", transport, `return log[i].revision > revision })`, `return log[i].revision > revision || fault("watch-from-one-too-early") && log[i].revision == revision })`},
	{"watch-from-now", transport, `s.watches = append(s.watches, w)`, `if fault("watch-from-now") {
		w.next = len(log)
	}
	s.watches = append(s.watches, w)`},
	{"list-of-an-old-version", transport, `"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision[resource.GVR()])}`,
		`"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision[resource.GVR()] - map[bool]int{true: 1}[fault("list-of-an-old-version")])}`},
	{"JSON-patch-without-test", server, `return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)`,
		`if fault("JSON-patch-without-test") {
				return before, nil
			}
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)`},
}

// helper is what the faults call.
const helper = "package memapi\n\nimport \"os\"\n\nfunc fault(name string) bool { return os.Getenv(%q) == name }\n"

// WriteOverlay writes the changed files of memapi, which is in source, and
// overlay.json for the -overlay flag of the go command, to dir.
func WriteOverlay(source, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	changed := map[string][]byte{"zz_fault.go": fmt.Appendf(nil, helper, Variable)}
	for _, f := range All {
		if changed[f.File] == nil {
			data, err := os.ReadFile(filepath.Join(source, f.File))
			if err != nil {
				return err
			}
			changed[f.File] = data
		}
		if n := bytes.Count(changed[f.File], []byte(f.Old)); n != 1 {
			return fmt.Errorf("fault %s: found %d times in %s, should be once: %q; adapt lab/simulation/memapi/faults", f.Name, n, f.File, f.Old)
		}
		changed[f.File] = bytes.Replace(changed[f.File], []byte(f.Old), []byte(f.New), 1)
	}
	replace := map[string]string{}
	for file, data := range changed {
		from, err := filepath.Abs(filepath.Join(source, file))
		if err != nil {
			return err
		}
		to, err := filepath.Abs(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
		replace[from] = to
	}
	data, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
}
