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

import "kueue-acrequeueafter/lab/simulation/mutants"

const (
	server    = "server.go"
	resource  = "resource.go"
	transport = "transport.go"
	builtin   = "builtin.go"
)

// Where the rules of a schema are still to be read.
const (
	validates      = `validator, _, err := validation.NewSchemaValidator(props)`
	setsStrategies = `if err := r.setStrategies(props); err != nil {`
)

// All are built together, and switched on one at a time.
var All = []mutants.Mutant{
	{Name: "apply-never-conflicts", File: server, Old: `ptr.Deref(req.Force, false)`, New: `ptr.Deref(req.Force, false) || MUTANT`},
	{Name: "force-is-ignored", File: server, Old: `if old != nil {
			live = old`, New: `if MUTANT {
			req.Force = nil
		}
		if old != nil {
			live = old`},
	{Name: "managers-of-updates-forgotten", File: server, Old: `if !r.Plain {
		obj = req.endpoint()`, New: `if !r.Plain && !MUTANT {
		obj = req.endpoint()`},
	{Name: "managers-of-new-objects-forgotten", File: server, Old: `if !r.Plain {
			empty, _`, New: `if !r.Plain && !MUTANT {
			empty, _`},
	{Name: "status-not-validated", File: server, Old: `rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil {`,
		New: `rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil && !(MUTANT && req.Subresource != "") {`},
	{Name: "updates-not-validated", File: server, Old: `rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil`,
		New: `rest.BeforeUpdate(e.strategy, req.context(), obj, old); err != nil && !(MUTANT && req.Subresource == "")`},
	{Name: "new-objects-not-validated", File: server, Old: `rest.BeforeCreate(r.main.strategy, req.context(), obj); err != nil {`,
		New: `rest.BeforeCreate(r.main.strategy, req.context(), obj); err != nil && !MUTANT {`},
	{Name: "rules-not-run", File: resource, Old: validates, New: withoutRules("true", validates)},
	{Name: "transition-rules-not-run", File: resource, Old: setsStrategies, New: withoutRules(`func() bool {
			for i := range rule.Rule {
				if fmt.Sprintf("%.7s", rule.Rule[i:]) == "oldSelf" {
					return true
				}
			}
			return false
		}()`, setsStrategies)},
	{Name: "rules-of-status-not-run", File: resource, Old: `props := &apiextensions.JSONSchemaProps{}`, New: `if status, found := v.Schema.OpenAPIV3Schema.Properties["status"]; found && MUTANT {
			status.XValidations = nil
			v.Schema.OpenAPIV3Schema.Properties["status"] = status
		}
		props := &apiextensions.JSONSchemaProps{}`},
	{Name: "no-defaults", File: resource, Old: `d.resource.structural != nil &&`, New: `!MUTANT && d.resource.structural != nil &&`},
	{Name: "nulls-kept", File: resource, Old: `defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)`,
		New: `if !MUTANT {
			defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, r.structural)
		}`},
	{Name: "nulls-of-an-apply-kept", File: server, Old: `req.PatchType == types.ApplyPatchType && hasEmpty(`, New: `!MUTANT && req.PatchType == types.ApplyPatchType && hasEmpty(`},
	{Name: "unknown-fields-kept", File: resource, Old: `pruning.Prune(obj.Object, r.structural, true)`, New: `if !MUTANT {
			pruning.Prune(obj.Object, r.structural, true)
		}`},
	// It knows no list of which an element has a key.
	{Name: "lists-not-merged", File: resource, Old: `return r, r.setFieldManagers(converter)`, New: `if MUTANT {
			converter = managedfields.NewDeducedTypeConverter()
		}
		return r, r.setFieldManagers(converter)`},
	{Name: "version-not-compared", File: server, Old: `} else if version != old.GetResourceVersion() {`, New: `} else if version != old.GetResourceVersion() && !MUTANT {`},
	{Name: "conflict-told-as-invalid", File: server, Old: `return nil, apierrors.NewConflict(gr, req.Key.Name, errors.New(registry.OptimisticLockErrorMsg))`,
		New: `if MUTANT {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, req.Key.Name, nil)
		}
		return nil, apierrors.NewConflict(gr, req.Key.Name, errors.New(registry.OptimisticLockErrorMsg))`},
	{Name: "merge-patch-with-null-ignored", File: server, Old: `after, err := jsonpatch.MergePatch(before, req.Body)`,
		New: `after, err := jsonpatch.MergePatch(before, req.Body)
		if MUTANT && strings.Contains(string(req.Body), "null") {
			after = before
		}`},
	{Name: "version-not-asked-for", File: server, Old: `if !e.strategy.AllowUnconditionalUpdate() {`, New: `if !e.strategy.AllowUnconditionalUpdate() && !MUTANT {`},
	{Name: "version-of-a-new-object-accepted", File: server, Old: `version != "0" && req.Verb == http.MethodPost {`, New: `version != "0" && req.Verb == http.MethodPost && !MUTANT {`},
	{Name: "plain-object-not-deleted-any-more", File: server, Old: `obj.SetDeletionTimestamp(old.GetDeletionTimestamp())`, New: `if !MUTANT {
			obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
		}`},
	{Name: "new-built-in-object-with-status", File: builtin, Old: `delete(u.Object, "status")
		if b.hasGoType`, New: `if !MUTANT {
			delete(u.Object, "status")
		}
		if !MUTANT && b.hasGoType`},
	{Name: "new-built-in-object-without-a-status", File: builtin, Old: `u.Object["status"] = map[string]any{}`, New: `if !MUTANT {
				u.Object["status"] = map[string]any{}
			}`},
	{Name: "built-in-status-written-with-the-object", File: builtin, Old: `setStatus(u, before)`, New: `if !MUTANT {
		setStatus(u, before)
	}`},
	{Name: "built-in-object-written-with-its-status", File: builtin, Old: `u.Object = kept.Object`, New: `if !MUTANT {
		u.Object = kept.Object
	}`},
	{Name: "built-in-metadata-not-written-with-the-status", File: builtin, Old: `kept.Object["metadata"] = u.Object["metadata"]`, New: `if !MUTANT {
			kept.Object["metadata"] = u.Object["metadata"]
		}`},
	{Name: "generation-of-what-is-built-in-not-counted", File: builtin, Old: `u.SetGeneration(before.GetGeneration() + 1)`, New: `if !MUTANT {
					u.SetGeneration(before.GetGeneration() + 1)
				}`},
	{Name: "built-in-object-stored-as-it-comes", File: resource, Old: `if runtime.IsNotRegisteredError(err) {`, New: `if runtime.IsNotRegisteredError(err) || MUTANT {`},
	{Name: "precondition-not-looked-at", File: server, Old: `rest.BeforeDelete(req.Resource.main.strategy, req.context(), obj, &opts); err != nil {`,
		New: `rest.BeforeDelete(req.Resource.main.strategy, req.context(), obj, &opts); err != nil && !MUTANT {`},
	{Name: "deleted-in-spite-of-finalizers", File: server, Old: `case len(old.GetFinalizers()) == 0:`, New: `case len(old.GetFinalizers()) == 0 || MUTANT:`},
	{Name: "kept-without-finalizers", File: server, Old: `if registry.ShouldDeleteDuringUpdate(`, New: `if !MUTANT && registry.ShouldDeleteDuringUpdate(`},
	{Name: "generation-not-counted", File: server, Old: `if err := s.admit(req, old, obj); err != nil {`, New: `if MUTANT {
		obj.SetGeneration(old.GetGeneration())
	}
	if err := s.admit(req, old, obj); err != nil {`},
	{Name: "generation-not-counted-at-deletion", File: server, Old: `if obj.GetGeneration() > 0 {`, New: `if obj.GetGeneration() > 0 && !MUTANT {`},
	{Name: "same-object-stored-again", File: server, Old: `if reflect.DeepEqual(obj.Object, before.Object) {`, New: `if reflect.DeepEqual(obj.Object, before.Object) && !MUTANT {`},
	{Name: "status-is-the-object", File: server, Old: `if r.Subresource != "" {
		return r.Resource.status`, New: `if r.Subresource != "" && !MUTANT {
		return r.Resource.status`},
	{Name: "apply-makes-no-object", File: server, Old: `if old == nil && (req.PatchType != types.ApplyPatchType ||`, New: `if old == nil && (MUTANT || req.PatchType != types.ApplyPatchType ||`},
	{Name: "new-object-answered-200", File: transport, Old: `if created {`, New: `if created && !MUTANT {`},
	{Name: "events-out-of-order", File: server, Old: `if s.opts.OnWrite != nil {`, New: `if log := s.log[gvr]; MUTANT && len(log) > 1 {
		log[len(log)-1], log[len(log)-2] = log[len(log)-2], log[len(log)-1]
	}
	if s.opts.OnWrite != nil {`},
	{Name: "event-lost", File: server, Old: `s.log[gvr] = append(s.log[gvr], event{kind: kind,`, New: `if MUTANT && s.revision[gvr]%4 == 0 {
		return stored
	}
	s.log[gvr] = append(s.log[gvr], event{kind: kind,`},
	{Name: "deletion-told-as-change", File: transport, Old: `data, err := json.Marshal(map[string]any{"type": next.kind,`, New: `if MUTANT && next.kind == "DELETED" {
		next.kind = "MODIFIED"
	}
	data, err := json.Marshal(map[string]any{"type": next.kind,`},
	{Name: "watch-from-one-too-early", File: transport, Old: `return log[i].revision > revision })`, New: `return log[i].revision > revision || MUTANT && log[i].revision == revision })`},
	{Name: "watch-from-now", File: transport, Old: `s.watches = append(s.watches, w)`, New: `if MUTANT {
		w.next = len(log)
	}
	s.watches = append(s.watches, w)`},
	{Name: "list-of-an-old-version", File: transport, Old: `"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision[resource.GVR()])}`,
		New: `"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.revision[resource.GVR()] - map[bool]int{true: 1}[MUTANT])}`},
	{Name: "JSON-patch-without-test", File: server, Old: `return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)`,
		New: `if MUTANT {
				return before, nil
			}
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)`},
}

// withoutRules leaves out the rules (x-kubernetes-validations) for which the condition
// holds, and nothing else of the schema, before the code.
func withoutRules(condition, code string) string {
	return `(&structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		var kept apiextensionsv1.ValidationRules
		for _, rule := range s.XValidations {
			if !MUTANT || !(` + condition + `) {
				kept = append(kept, rule)
			}
		}
		s.XValidations = kept
		return true
	}}).Visit(r.structural)
	` + code
}
