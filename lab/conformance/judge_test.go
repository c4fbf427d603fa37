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
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

var start = time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC)

// at returns the time so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// change makes the next version of a workload.
type change func(*kueue.Workload)

func own(state kueue.CheckState, seconds int, more ...func(*kueue.AdmissionCheckState)) change {
	return check("own", state, seconds, more...)
}

func check(name kueue.AdmissionCheckReference, state kueue.CheckState, seconds int, more ...func(*kueue.AdmissionCheckState)) change {
	return func(wl *kueue.Workload) {
		s := kueue.AdmissionCheckState{Name: name, State: state, LastTransitionTime: metav1.NewTime(at(seconds))}
		for _, f := range more {
			f(&s)
		}
		if old := entry(wl, string(name)); old != nil {
			*old = s
			return
		}
		wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, s)
	}
}

func delay(seconds int32) func(*kueue.AdmissionCheckState) {
	return func(s *kueue.AdmissionCheckState) { s.RequeueAfterSeconds = &seconds }
}

func count(n int32) func(*kueue.AdmissionCheckState) {
	return func(s *kueue.AdmissionCheckState) { s.RetryCount = &n }
}

func policyDelay(seconds int32) func(*kueue.AdmissionCheckState) {
	return func(s *kueue.AdmissionCheckState) { s.PolicyDelaySeconds = &seconds }
}

func without(name string) change {
	return func(wl *kueue.Workload) {
		var checks []kueue.AdmissionCheckState
		for _, s := range wl.Status.AdmissionChecks {
			if string(s.Name) != name {
				checks = append(checks, s)
			}
		}
		wl.Status.AdmissionChecks = checks
	}
}

func condition(name string, status bool, seconds int) change {
	return func(wl *kueue.Workload) {
		c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(at(seconds))}
		if status {
			c.Status = metav1.ConditionTrue
		}
		for i := range wl.Status.Conditions {
			if wl.Status.Conditions[i].Type == name {
				wl.Status.Conditions[i] = c
				return
			}
		}
		wl.Status.Conditions = append(wl.Status.Conditions, c)
	}
}

// deadline is the one that Kueue has recorded. Writes come at 20.
func deadline(seconds int) change {
	return func(wl *kueue.Workload) {
		wl.Status.RequeueState = &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(at(seconds)))}
	}
}

func all(changes ...change) change {
	return func(wl *kueue.Workload) {
		for _, change := range changes {
			change(wl)
		}
	}
}

var (
	created  = all(own(kueue.CheckStatePending, 0), check("other", kueue.CheckStatePending, 0))
	reserved = func(seconds int) change {
		return all(condition(kueue.WorkloadQuotaReserved, true, seconds), condition(kueue.WorkloadEvicted, false, seconds))
	}
	evicted = func(seconds int) change {
		return all(deadline(25), condition(kueue.WorkloadEvicted, true, seconds), condition(kueue.WorkloadQuotaReserved, false, seconds), condition(kueue.WorkloadRequeued, false, seconds))
	}
	requeued = func(seconds int, retries int32) change {
		return all(condition(kueue.WorkloadRequeued, true, seconds), own(kueue.CheckStatePending, seconds, count(retries)), check("other", kueue.CheckStatePending, seconds))
	}
	finished    change = condition(kueue.WorkloadFinished, true, 9)
	deactivated change = func(wl *kueue.Workload) { wl.Spec.Active = ptr.To(false) }
	deleting    change = func(wl *kueue.Workload) { wl.DeletionTimestamp = ptr.To(metav1.NewTime(at(9))) }
	touched     change = func(wl *kueue.Workload) { wl.Annotations = map[string]string{"a": "b"} }
)

// story is a series of changes to a workload. Those of the controller come with
// the number of versions that were added while they were under way.
type story struct {
	record Record
	wl     *kueue.Workload
}

func newStory() *story {
	return &story{record: Record{Check: "own", Versions: map[string][]Version{}}, wl: &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: "wl"}}}
}

func (s *story) happens(changes ...change) *story {
	for _, change := range changes {
		s.wl = s.wl.DeepCopy()
		change(s.wl)
		s.wl.ResourceVersion = strconv.Itoa(len(s.record.Versions["wl"]) + 1)
		s.record.Versions["wl"] = append(s.record.Versions["wl"], Version{At: at(len(s.record.Versions["wl"])), Workload: s.wl})
	}
	return s
}

// writes adds a write of the controller, during which so many versions came.
func (s *story) writes(change change, meanwhile int, more ...func(*Write)) *story {
	n := len(s.record.Versions["wl"])
	w := Write{At: at(20), Workload: "wl", How: apply, Seen: strconv.Itoa(n - meanwhile), Sent: strconv.Itoa(n), Code: http.StatusOK}
	s.happens(change)
	w.After = s.wl
	for _, f := range more {
		f(&w)
	}
	s.record.Writes = append(s.record.Writes, w)
	return s
}

// fails adds a write that was refused.
func (s *story) fails(code int, more ...func(*Write)) *story {
	w := Write{At: at(20), Workload: "wl", How: apply, Code: code}
	for _, f := range more {
		f(&w)
	}
	s.record.Writes = append(s.record.Writes, w)
	return s
}

func (s *story) mood(seconds int) *story {
	s.record.Moods = append(s.record.Moods, at(seconds))
	return s
}

func (s *story) deleted() *story {
	s.record.Versions["wl"] = append(s.record.Versions["wl"], Version{At: at(10), Workload: s.wl, Deleted: true})
	return s
}

func TestJudge(t *testing.T) {
	retry, bare := own(kueue.CheckStateRetry, 1, delay(3)), own(kueue.CheckStateRetry, 1)
	// What Kueue writes down for a bare Retry of this time, and the eviction.
	policy := func(seconds int, delays int32) change {
		return all(evicted(2), own(kueue.CheckStateRetry, seconds, policyDelay(delays)))
	}
	cases := map[string]struct {
		story *story
		// want holds the rules, with an asterisk for a warning, and what is seen.
		want []string
	}{
		"an answer": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0),
		},
		"a second answer, after the retry": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0).happens(evicted(1), requeued(5, 1), reserved(9)).
				writes(own(kueue.CheckStateRetry, 9, delay(3), count(1)), 0),
		},
		"it did not do what it had to": {
			story: func() *story {
				s := newStory()
				s.record.Expectations = []Expectation{{Rule: RuleAnswers, What: "answer", After: time.Second}, {Rule: RuleRestart, What: "wake up", Met: true}}
				return s
			}(),
			want: []string{"answers: The controller did not answer within 1s."},
		},

		"refused because it is invalid": {
			story: newStory().happens(created, reserved(1)).fails(http.StatusUnprocessableEntity),
			want:  []string{"refused: The API server refused its apply with 422"},
		},
		"refused because it is forbidden": {
			story: newStory().happens(created, reserved(1)).fails(http.StatusForbidden),
			want:  []string{"refused: The API server refused its apply with 403"},
		},
		"conflicts and failures happen": {
			story: newStory().happens(created, reserved(1)).fails(http.StatusConflict).fails(http.StatusNotFound).fails(http.StatusInternalServerError),
		},

		"no quota yet": {
			story: newStory().happens(created).writes(retry, 0),
			want:  []string{"quota: It wrote Retry to a workload in the queue"},
		},
		"no quota again": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0).happens(evicted(1), requeued(5, 1)).writes(own(kueue.CheckStateReady, 6, count(1)), 0),
			want:  []string{"quota: It wrote Ready to a workload in the queue"},
		},

		"a slow answer, after the eviction": {
			story: newStory().happens(created, reserved(1), evicted(2)).writes(retry, 0),
		},
		"a slow answer without a delay": {
			story: newStory().happens(created, reserved(1), evicted(2)).writes(own(kueue.CheckStateRetry, 3), 0),
		},
		"a slow answer, Ready": {
			story: newStory().mood(0).happens(created, reserved(1), evicted(2)).writes(own(kueue.CheckStateReady, 3), 0),
		},
		"the same Retry, once more": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStateRetry, 3, delay(3)), 0),
			want:  []string{"*evicted: It wrote the same Retry again, with a later transition time, while the workload waited: once."},
		},
		"the same Retry, again and again": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).
				writes(own(kueue.CheckStateRetry, 3, delay(3)), 0).writes(own(kueue.CheckStateRetry, 4, delay(3)), 0).writes(own(kueue.CheckStateRetry, 5, delay(3)), 0),
			want: []string{"evicted: It wrote the same Retry again and again, with a later transition time, while the workload waited: 3 times."},
		},
		"the same Retry, once in each of two waits": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStateRetry, 3, delay(3)), 0).
				happens(requeued(6, 1), reserved(6), own(kueue.CheckStateRetry, 6, delay(3), count(1)), evicted(7)).writes(own(kueue.CheckStateRetry, 8, delay(3), count(1)), 0),
			want: []string{"*evicted: It wrote", "*evicted: It wrote"},
		},
		"another delay": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).
				writes(own(kueue.CheckStateRetry, 3, delay(5)), 0).writes(own(kueue.CheckStateRetry, 4, delay(1)), 0),
		},
		"Retry taken back": {
			story: newStory().mood(0).happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStatePending, 3), 0),
			want:  []string{"*takes-back: It took its Retry back, to Pending"},
		},
		"Retry taken back again and again": {
			story: newStory().mood(0).happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStatePending, 3), 0).
				happens(requeued(4, 0), reserved(4), own(kueue.CheckStateRetry, 4, delay(3)), evicted(5)).writes(own(kueue.CheckStateReady, 6), 0),
			want: []string{
				"takes-back: It took its Retry back, to Pending, while the workload waited and nothing was changed by this test; it did so 2 times in all.",
				"takes-back: It took its Retry back, to Ready, while",
			},
		},
		"Retry taken back after the surroundings changed": {
			story: newStory().mood(0).mood(10).happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStateReady, 3), 0),
		},
		"Retry taken back when the delay is nearly over": {
			story: newStory().mood(0).happens(created, reserved(1), retry, evicted(2), deadline(22)).writes(own(kueue.CheckStatePending, 3), 0),
		},
		"Retry taken back, the surroundings are not known": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStateReady, 3), 0),
		},

		"a bare Retry with the delay of a policy": {
			story: newStory().mood(0).happens(created, reserved(1)).writes(bare, 0).happens(policy(1, 3), touched, requeued(5, 1), reserved(9)).
				writes(own(kueue.CheckStateRetry, 9, count(1)), 0),
		},
		"the same bare Retry, again and again": {
			story: newStory().happens(created, reserved(1), bare, policy(1, 3)).
				writes(own(kueue.CheckStateRetry, 3, policyDelay(3)), 0).writes(own(kueue.CheckStateRetry, 4, policyDelay(3)), 0),
			want: []string{"evicted: It wrote the same Retry again and again, with a later transition time, while the workload waited: 2 times."},
		},
		"the delay of the policy is lost, and nothing else is changed": {
			story: newStory().happens(created, reserved(1), bare, policy(1, 3)).writes(bare, 0).writes(bare, 0),
		},
		"a bare Retry, again and again, that waits for another check": {
			story: newStory().happens(created, reserved(1), bare, policy(1, 0)).
				writes(own(kueue.CheckStateRetry, 3), 0).writes(own(kueue.CheckStateRetry, 4), 0),
			want: []string{"evicted: It wrote the same Retry again and again"},
		},
		"a delay of its own in place of the policy's, which is as long": {
			story: newStory().happens(created, reserved(1), bare, policy(1, 3)).writes(own(kueue.CheckStateRetry, 3, delay(3)), 0),
		},
		"a delay of its own left out, for that of the policy": {
			story: newStory().happens(created, reserved(1), retry, evicted(2)).writes(own(kueue.CheckStateRetry, 3), 0),
		},
		"a bare Retry taken back": {
			story: newStory().mood(0).happens(created, reserved(1), bare, policy(1, 3)).writes(own(kueue.CheckStatePending, 3), 0),
			want:  []string{"*takes-back: It took its Retry back, to Pending"},
		},

		"an old time": {
			story: newStory().happens(created, reserved(5)).writes(own(kueue.CheckStateRetry, 0, delay(3)), 0),
			want:  []string{"fresh-time: Its Retry has a lastTransitionTime 5s older"},
		},
		"a clock that is a second behind": {
			story: newStory().happens(created, reserved(5)).writes(own(kueue.CheckStateRetry, 4, delay(3)), 0),
		},
		"an old time of Ready does no harm": {
			story: newStory().happens(created, reserved(5)).writes(own(kueue.CheckStateReady, 0), 0),
			want:  []string{"?fresh-time: 1 of its 1 writes changed the state and kept the lastTransitionTime."},
		},

		"the count is lost": {
			story: newStory().happens(created, requeued(4, 2), reserved(5)).writes(own(kueue.CheckStateRetry, 5, delay(3)), 0),
			want:  []string{"retry-count: Its apply, to Retry, turned retryCount from 2 to 0."},
		},
		"the count is raised": {
			story: newStory().happens(created, reserved(5)).writes(own(kueue.CheckStateRetry, 5, delay(3), count(1)), 0),
			want:  []string{"retry-count: Its apply, to Retry, turned retryCount from 0 to 1."},
		},
		"the count is applied as it is": {
			story: newStory().happens(created, requeued(4, 2), reserved(5)).writes(own(kueue.CheckStateRetry, 5, delay(3), count(2)), 0, func(w *Write) {
				w.Body = []byte(`{"status":{"admissionChecks":[{"name":"own","retryCount":2}]}}`)
			}),
			want: []string{"?retry-count: 1 of its 1 writes applied the retryCount that was there"},
		},
		"the count is updated as it is": {
			story: newStory().happens(created, requeued(4, 2), reserved(5)).writes(own(kueue.CheckStateRetry, 5, delay(3), count(2)), 0, func(w *Write) {
				w.How, w.Body = update, []byte(`{"status":{"admissionChecks":[{"name":"own","retryCount":2}]}}`)
			}),
		},
		"its own entry is gone": {
			story: newStory().happens(created, reserved(5)).writes(without("own"), 0),
			want:  []string{"retry-count: Its apply removed the entry of the check."},
		},

		"another check's answer is undone": {
			story: newStory().happens(created, reserved(1), check("other", kueue.CheckStateReady, 2)).writes(all(retry, check("other", kueue.CheckStatePending, 0)), 1),
			want:  []string{`other-checks: Its apply turned the check "other" from Ready to Pending.`},
		},
		"another check's entry is removed": {
			story: newStory().happens(created, reserved(1)).writes(all(retry, without("other")), 0),
			want:  []string{`other-checks: Its apply removed the entry of the check "other", which was Pending.`},
		},
		"another check's delay is changed": {
			story: newStory().happens(created, reserved(1), check("other", kueue.CheckStateRetry, 1, delay(9))).writes(all(retry, check("other", kueue.CheckStateRetry, 1)), 0),
			want:  []string{`other-checks: Its apply changed the entry of the check "other", which is Retry: requeueAfterSeconds (removed).`},
		},
		"a condition of Kueue's is undone": {
			story: newStory().happens(created, reserved(1)).writes(all(retry, condition(kueue.WorkloadQuotaReserved, false, 0)), 0),
			want:  []string{"kueue-status: Its apply changed the condition QuotaReserved."},
		},

		"a stale answer after a requeue": {
			story: newStory().happens(created, reserved(1), evicted(2), requeued(3, 0), reserved(4)).writes(retry, 3),
			want:  []string{"stale-answer: While its apply was under way the workload was evicted and requeued; its Retry"},
		},
		"a stale answer after a deactivation": {
			story: newStory().happens(created, reserved(1), deactivated).writes(own(kueue.CheckStateReady, 4), 1),
			want:  []string{"stale-answer: While its apply was under way the workload was deactivated; its Ready"},
		},
		"an answer after something that does not matter": {
			story: newStory().happens(created, reserved(1), touched, check("other", kueue.CheckStateReady, 2)).writes(retry, 2),
		},
		"an answer after the eviction, which a check may give": {
			story: newStory().happens(created, reserved(1), evicted(2), touched).writes(retry, 2),
		},

		"a deactivated workload": {
			story: newStory().happens(created, deactivated).writes(retry, 0),
			want:  []string{"inactive: It wrote Retry to a workload that is deactivated."},
		},
		"a finished workload": {
			story: newStory().happens(created, reserved(1), finished).writes(retry, 0),
			want:  []string{"inactive: It wrote Retry to a workload that is finished."},
		},
		"a deleted workload, once": {
			story: newStory().happens(created, reserved(1)).deleted().fails(http.StatusNotFound),
		},
		"a deleted workload, again and again": {
			story: newStory().happens(created, reserved(1)).deleted().fails(http.StatusNotFound).fails(http.StatusNotFound),
			want:  []string{"*inactive: The controller went on to write after the Workload was deleted, 2 times."},
		},

		"a workload that is being deleted": {
			story: newStory().happens(created, deactivated, deleting).writes(retry, 0),
		},

		"an entry that Kueue removed": {
			story: newStory().happens(created, reserved(1), without("own")).writes(retry, 1),
			want:  []string{"removed-check: Its apply created the entry of the check, as Retry"},
		},
		"an entry that Kueue removes again and again": {
			story: newStory().happens(created, reserved(1), without("own")).writes(retry, 1).happens(without("own")).writes(retry, 1),
			want:  []string{"removed-check: It created the entry of the check 2 times in "},
		},

		"as Kueue": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0, func(w *Write) { w.Manager = "kueue-admission" }),
			want:  []string{`kueue-status: Its apply was sent as "kueue-admission", a field manager of Kueue's`},
		},
		"as Kueue, which was faster": {
			story: newStory().happens(created, reserved(1)).fails(http.StatusConflict, func(w *Write) { w.Manager = "kueue-admission" }),
			want:  []string{`kueue-status: Its apply was sent as "kueue-admission", a field manager of Kueue's`},
		},
		"other entries are applied as they are": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0, func(w *Write) {
				w.Body = []byte(`{"status":{"admissionChecks":[{"name":"own"},{"name":"other"}]}}`)
			}),
			want: []string{"?other-checks: 1 of its 1 writes applied entries of other checks"},
		},
		"without a version": {
			story: newStory().happens(created, reserved(1)).writes(retry, 0, func(w *Write) { w.Unconditional = true }),
			want:  []string{"?stale-answer: 1 of its 1 writes had no resource version"},
		},

		"a write that changes nothing": {
			story: newStory().happens(created, reserved(1), touched).fails(http.StatusOK, func(w *Write) {
				w.Sent, w.After = "3", &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: "wl", ResourceVersion: "3"}}
			}),
		},
		"a message": {
			story: newStory().happens(created, deactivated).writes(own(kueue.CheckStatePending, 0, func(s *kueue.AdmissionCheckState) { s.Message = "asking" }), 0),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Judge(&tc.story.record) {
				line := string(f.Rule) + ": " + f.Saw
				switch f.Severity {
				case Warning:
					line = "*" + line
				case Remark:
					line = "?" + line
				}
				// What is wanted is the beginning of what is seen.
				if i := len(got); i < len(tc.want) && strings.HasPrefix(line, tc.want[i]) {
					line = tc.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	cases := map[string]struct {
		how, body string
		want      string
		// wantBody is the body that depends on version 7.
		wantBody string
	}{
		"apply, JSON": {
			how: apply, body: `{"metadata":{"name":"a"},"status":{}}`,
			wantBody: `{"metadata":{"name":"a","resourceVersion":"7"},"status":{}}`,
		},
		"apply, YAML": {
			how: apply, body: "metadata:\n  name: a\n",
			wantBody: `{"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		"apply, with a version": {
			how: apply, body: `{"metadata":{"resourceVersion":"5"}}`, want: "5",
			wantBody: `{"metadata":{"resourceVersion":"7"}}`,
		},
		"merge patch without metadata": {
			how: mergePatch, body: `{"status":{}}`,
			wantBody: `{"metadata":{"resourceVersion":"7"},"status":{}}`,
		},
		"JSON patch": {
			how: jsonPatch, body: `[{"op":"remove","path":"/status"}]`,
			wantBody: `[{"op":"remove","path":"/status"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"}]`,
		},
		"JSON patch with a version": {
			how: jsonPatch, body: `[{"op":"test","path":"/metadata/resourceVersion","value":"5"}]`, want: "5",
			wantBody: `[{"op":"test","path":"/metadata/resourceVersion","value":"5"},{"op":"replace","path":"/metadata/resourceVersion","value":"7"}]`,
		},
		"update":  {how: update, body: `{"metadata":{"resourceVersion":"5"}}`, want: "5", wantBody: `{"metadata":{"resourceVersion":"5"}}`},
		"rubbish": {how: apply, body: `}`, wantBody: `}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, versionOf(tc.how, []byte(tc.body))); diff != "" {
				t.Errorf("version (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantBody, string(withVersion(tc.how, []byte(tc.body), "7"))); diff != "" {
				t.Errorf("body (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	report := &Report{
		Check: "own",
		Findings: []Finding{
			{Rule: RuleEvicted, Severity: Warning, Saw: "One."},
			{Rule: RuleQuota, Severity: Fault, Workload: "wl", Saw: "Two."},
			{Rule: RuleRefused, Severity: Remark, Saw: "Three.", Advice: "Four."},
		},
		Untried: map[Rule]string{RuleRestart: "never."},
		Notes:   []string{"Look."},
	}
	if diff := cmp.Diff([]Rule{RuleQuota}, report.Faults()); diff != "" {
		t.Errorf("faults (-want,+got):\n%s", diff)
	}
	var text strings.Builder
	report.Print(&text)
	for _, want := range []string{
		"  ok       active ", "  FAULT    quota ", "Seen: Two. (Workload wl)\n", "  warning  evicted ", "  -        restart ", "Not tried: never.\n",
		"  remark   refused ", "Seen: Three.\n           Better: Four.\n", "Note: Look.\n", "Faults against these rules: quota. See docs/authors.md, from \"When it is your turn\" on.\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
}

func TestAnswers(t *testing.T) {
	held := own(kueue.CheckStatePending, 0, func(s *kueue.AdmissionCheckState) { s.Message = "held" })
	cases := map[string]struct {
		story *story
		want  []bool
	}{
		"Retry":                   {story: newStory().happens(created, reserved(1)).writes(own(kueue.CheckStateRetry, 1), 1), want: []bool{false, false, true}},
		"Pending with words":      {story: newStory().happens(created, reserved(1)).writes(held, 1).happens(touched), want: []bool{false, false, true, false}},
		"Pending, words of Kueue": {story: newStory().happens(created, reserved(1), held), want: []bool{false, false, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []bool
			for i := range tc.story.record.Versions["wl"] {
				got = append(got, tc.story.record.answers("wl", i))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestReadJob(t *testing.T) {
	cases := map[string]struct {
		manifest      string
		want          []corev1.ResourceName
		wantErr       string
		wantContainer string
	}{
		"none": {want: []corev1.ResourceName{"cpu"}, wantContainer: "main"},
		"with an accelerator": {
			manifest: `{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [{name: "{check}", image: a,
				resources: {limits: {example.com/gpu: "1", cpu: "7"}}}]}}}}`,
			want: []corev1.ResourceName{"cpu", "example.com/gpu"}, wantContainer: "own",
		},
		"another kind":    {manifest: `{apiVersion: v1, kind: Pod}`, wantErr: `a Pod of "v1"`},
		"not of batch/v1": {manifest: `{apiVersion: batch/v2, kind: Job}`, wantErr: `a Job of "batch/v2": the test knows a Job of batch/v1 alone`},
		"a wrong field":   {manifest: `{apiVersion: batch/v1, kind: Job, spec: {tempalte: {}}}`, wantErr: `unknown field "tempalte"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &run{Options: Options{Check: "own"}, namespace: "ns", queue: "queue"}
			if tc.manifest != "" {
				r.Job = filepath.Join(t.TempDir(), "job.yaml")
				if err := os.WriteFile(r.Job, []byte(tc.manifest), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if r.job, err = r.readJob(); err != nil || tc.wantErr != "" {
				if err == nil || tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error: %v, want: %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, r.resources()); diff != "" {
				t.Errorf("resources (-want,+got):\n%s", diff)
			}
			job := r.newJob("a", "3")
			container := job.Spec.Template.Spec.Containers[0]
			got := []string{job.Namespace, job.Name, job.Labels["kueue.x-k8s.io/queue-name"], container.Name, container.Resources.Requests.Cpu().String(), container.Resources.Limits.Cpu().String()}
			if diff := cmp.Diff([]string{"ns", "a", "queue", tc.wantContainer, "3", "0"}, got); diff != "" {
				t.Errorf("job (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestFill(t *testing.T) {
	r := &run{Options: Options{Check: "own"}, namespace: "ns", kubeconfig: "/kubeconfig", server: "http://server"}
	before := time.Now()
	got := r.fill("{check} {namespace} {kubeconfig} {server} {now+90s}")
	words := strings.Fields(got)
	if diff := cmp.Diff([]string{"own", "ns", "/kubeconfig", "http://server"}, words[:4]); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	then, err := time.Parse(time.RFC3339, words[4])
	if err != nil || then.Before(before.Add(89*time.Second)) {
		t.Errorf("%q is not 90 s after %s: %v", words[4], before, err)
	}
	if got := r.fill("{now+soon} {other}"); got != "{now+soon} {other}" {
		t.Errorf("what is not known was changed: %q", got)
	}
}
