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
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kueue-acrequeueafter/lab/bench/result"
)

func TestFinding(t *testing.T) {
	const delay = 10 * time.Second
	began := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	once, twice := count{retries: 1, counted: true}, count{retries: 2, counted: true}

	for name, tc := range map[string]struct {
		seen interface{ finding() finding }
		want finding
	}{
		"quota: taken at once": {
			seen: quotaSeen{delay: delay, freed: 80 * time.Millisecond, again: 180 * time.Millisecond},
			want: finding{"there is no delay: taken again at once", "taken again after 0.2 s"},
		},
		"quota: kept": {
			seen: quotaSeen{delay: delay, freed: 9800 * time.Millisecond, again: 9900 * time.Millisecond},
			want: finding{"kept until the delay is over", "kept for 9.8 s"},
		},
		"quota: free for the delay": {
			seen: quotaSeen{delay: delay, freed: 100 * time.Millisecond, again: 10900 * time.Millisecond},
			want: finding{"free at once", "free after 0.1 s, for 10.8 s"},
		},
		"quota: a moment too early": {
			seen: quotaSeen{delay: delay, freed: 100 * time.Millisecond, again: 9990 * time.Millisecond},
			want: finding{"free at once, and back too early", "free after 0.1 s, for 9.9 s"},
		},
		"quota: back late": {
			seen: quotaSeen{delay: delay, freed: 100 * time.Millisecond, again: 20 * time.Second},
			want: finding{"free at once, and back late", "free after 0.1 s, for 19.9 s"},
		},
		"quota: free late": {
			seen: quotaSeen{delay: delay, freed: 5 * time.Second, again: 11 * time.Second},
			want: finding{"free late", "free after 5.0 s, for 6.0 s"},
		},

		"late Retry: not back": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), observed: 30 * time.Second, withdrawn: true},
			want: finding{"stuck for good", "not back after 30 s"},
		},
		"late Retry: back after the withdrawal": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), back: at(17.5), observed: 30 * time.Second, withdrawn: true},
			want: finding{"stuck until the check takes it back", "back after 15.5 s"},
		},
		"late Retry: back after the delay": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), back: at(2.5), counts: []count{once, once}},
			want: finding{"waits, and comes back", "back after 0.5 s"},
		},
		"late Retry: back when there is quota": {
			seen: lateRetrySeen{deadline: at(2), free: at(7), back: at(7.1), counts: []count{once, once}},
			want: finding{"waits, and comes back", "back after 0.1 s"},
		},
		"late Retry: early": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), back: at(1.2), counts: []count{once, once}},
			want: finding{"back too early", "0.8 s before the delay was over"},
		},
		"late Retry: late": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), back: at(9), counts: []count{once, once}},
			want: finding{"waits, and comes back late", "back after 7.0 s"},
		},
		"late Retry: not counted": {
			seen: lateRetrySeen{deadline: at(2), free: at(1), back: at(2.5), counts: []count{once, {}}},
			want: finding{"waits, and comes back with wrong counts", "back after 0.5 s, counts [1 0]"},
		},

		"late Rejected: active": {
			seen: lateRejectedSeen{observed: delay},
			want: finding{"ignored", "active after 10 s"},
		},
		"late Rejected: deactivated": {
			seen: lateRejectedSeen{off: true, after: 200 * time.Millisecond},
			want: finding{"deactivated", "deactivated after 0.2 s"},
		},
		"late Rejected: deactivated late": {
			seen: lateRejectedSeen{off: true, after: 8 * time.Second},
			want: finding{"deactivated late", "deactivated after 8.0 s"},
		},

		"writes: with a delay": {
			seen: writesSeen{writes: 3, delay: delay, again: 11 * time.Second},
			want: finding{"3", "3, back after 11.0 s"},
		},
		"writes: a second less than the delay": {
			seen: writesSeen{writes: 6, delay: 5 * time.Second, again: 4050 * time.Millisecond},
			want: finding{"6", "6, back after 4.0 s"},
		},
		"writes: without": {
			seen: writesSeen{writes: 4, delay: delay, again: 200 * time.Millisecond},
			want: finding{"4, without a delay", "4, back after 0.2 s"},
		},

		"counts: none": {
			seen: countsSeen{},
			want: finding{"none", "none"},
		},
		"counts: reset": {
			seen: countsSeen{retried: twice},
			want: finding{"reset by a success", "2, then 0"},
		},
		"counts: a delay is left": {
			seen: countsSeen{retried: twice, succeeded: count{delay: 2}},
			want: finding{"reset by a success, with a delay left", "2, then 0 (and a delay of 2 s)"},
		},
		"counts: kept": {
			seen: countsSeen{retried: count{retries: 2, delay: 2, counted: true}, succeeded: twice},
			want: finding{"not reset by a success", "2 (and a delay of 2 s), then 2"},
		},
		"counts: one is missing": {
			seen: countsSeen{retried: once},
			want: finding{"wrong", "1, then 0"},
		},
		"counts: not from 0": {
			seen: countsSeen{retried: twice, succeeded: once},
			want: finding{"wrong after a success", "2, then 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.seen.finding(), cmp.AllowUnexported(finding{})); diff != "" {
				t.Errorf("Unexpected finding (-want/+got):\n%s", diff)
			}
		})
	}
}

func TestBetween(t *testing.T) {
	versions := []string{"3", "5", "8", "9", "12", "14"}
	if got := between(versions, "5", "12"); got != 3 {
		t.Errorf("There are 3 versions after 5 up to 12, got %d", got)
	}
}

// README's table is that of the probes.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(string(page)) {
		_, name, found := strings.Cut(line, "`make compare PROBE=")
		cells := strings.Split(line, "|")
		if !found || len(cells) != len(managers)+4 {
			continue
		}
		name, _, _ = strings.Cut(name, "`")
		for _, cell := range cells[2 : 2+len(managers)] {
			got[name] = append(got[name], strings.TrimSpace(cell))
		}
	}
	for _, p := range probes {
		for _, m := range managers {
			want[p.name] = append(want[p.name], p.readme[m.name])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README's table says something else than the probes expect (-want/+got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	some := []manager{{name: result.Guest, title: "plain"}, {name: here, title: here}}
	one := []probe{{name: "quota", readme: map[string]string{result.Guest: "taken", here: "free at once"}}}
	text, differences := table(some, one, map[string]map[string]finding{"quota": {
		result.Guest: {"taken", "taken after 0.1 s"},
		here:         {"free late", "free after 9.0 s"},
	}})
	wantText := "        plain                 here\nquota   ✓ taken after 0.1 s   ✗ free after 9.0 s\n"
	if diff := cmp.Diff(wantText, text); diff != "" {
		t.Errorf("Unexpected table (-want/+got):\n%s", diff)
	}
	wantDifferences := []string{`  quota, here: README says "free at once", and it is "free late"`}
	if diff := cmp.Diff(wantDifferences, differences); diff != "" {
		t.Errorf("Unexpected differences (-want/+got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		args                     []string
		wantManagers, wantProbes int
		wantError                string
	}{
		"all":             {wantManagers: 3, wantProbes: 5},
		"one probe":       {args: []string{"--probes", "quota"}, wantManagers: 3, wantProbes: 1},
		"two of each":     {args: []string{"--probes", "counts,quota", "--managers", here + "," + result.Guest}, wantManagers: 2, wantProbes: 2},
		"unknown probe":   {args: []string{"--probes", "quotas"}, wantError: `there is no probe "quotas"; there are quota, late-retry, late-rejected, writes, counts`},
		"unknown manager": {args: []string{"--managers", "v1"}, wantError: `there is no manager "v1"; there are ` + result.Guest + ", " + result.Base + ", " + here},
		"an argument":     {args: []string{"quota"}, wantError: `unknown argument "quota"; see --help`},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(tc.args)
			if tc.wantError != "" {
				if err == nil || err.Error() != tc.wantError {
					t.Errorf("Want error %q, got %v", tc.wantError, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(c.managers) != tc.wantManagers || len(c.probes) != tc.wantProbes {
				t.Errorf("Want %d managers and %d probes, got %d and %d", tc.wantManagers, tc.wantProbes, len(c.managers), len(c.probes))
			}
		})
	}
}
