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

package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// guide is where authors find more.
const guide = "docs/authors.md, from \"When it is your turn\" on"

// atMost is how many findings of a rule are shown.
const atMost = 3

// Report is the outcome of a run.
type Report struct {
	Check    string
	Findings []Finding
	// Untried tells, by rule, why it was not tried.
	Untried map[Rule]string
	// Notes say what else was seen.
	Notes []string
}

// Faults returns the rules against which there are faults, in order.
func (r *Report) Faults() []Rule { return r.of(Fault) }

// of returns the rules of which there are findings this bad, in order.
func (r *Report) of(severity Severity) []Rule {
	var rules []Rule
	for _, text := range ruleTexts {
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rule == text.rule && f.Severity == severity }) {
			rules = append(rules, text.rule)
		}
	}
	return rules
}

// Print writes the report in plain words.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "\nThe controller of the check %q ...\n\n", r.Check)
	for number, text := range ruleTexts {
		var found []Finding
		for _, f := range r.Findings {
			if f.Rule == text.rule {
				found = append(found, f)
			}
		}
		worst := worstOf(found)
		why, untried := r.Untried[text.rule]
		mark := "ok"
		switch {
		case worst == Fault, worst == Warning:
			mark = string(worst)
		case untried:
			mark = "-"
		case worst != "":
			mark = string(worst)
		}
		fmt.Fprintf(out, "  %-8s %-14s ... %s\n", mark, text.rule, text.must)
		// What several rules were not tried for is said once, after the last of them.
		if untried && (number+1 == len(ruleTexts) || r.Untried[ruleTexts[number+1].rule] != why) {
			fmt.Fprintf(out, "           Not tried: %s\n", why)
		}
		for i, f := range found {
			if i == atMost {
				fmt.Fprintf(out, "           (and %d more)\n", len(found)-atMost)
				break
			}
			saw := f.Saw
			if f.Workload != "" {
				saw += " (Workload " + f.Workload + ")"
			}
			fmt.Fprintf(out, "           Seen: %s\n", saw)
			if f.Advice != "" && worst == Remark {
				fmt.Fprintf(out, "           Better: %s\n", f.Advice)
			}
		}
		if worst == Fault || worst == Warning {
			fmt.Fprintf(out, "           So: %s\n           Instead: %s\n", text.then, text.instead)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(out, "\n  Note: %s\n", note)
	}
	switch faults := r.Faults(); len(faults) {
	case 0:
		fmt.Fprintf(out, "\nNo faults.\n")
	default:
		names := make([]string, len(faults))
		for i, rule := range faults {
			names[i] = string(rule)
		}
		fmt.Fprintf(out, "\nFaults against these rules: %s. See %s.\n", strings.Join(names, ", "), guide)
	}
}

// worstOf returns the worst severity of the findings, "" if there are none.
func worstOf(findings []Finding) Severity {
	for _, severity := range []Severity{Fault, Warning, Remark} {
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == severity }) {
			return severity
		}
	}
	return ""
}
