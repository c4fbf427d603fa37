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
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// story is what happens to a workload, version by version.
type story struct {
	judge *judge
	wl    *kueue.Workload
	now   time.Duration
}

func newStory() *story {
	s := &story{judge: newJudge(&tally{counts: map[string]int{}}), wl: &kueue.Workload{}}
	s.wl.Name = "wl"
	s.wl.Status.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "alpha", State: kueue.CheckStatePending}, {Name: "beta", State: kueue.CheckStatePending}}
	return s.version(0, func(*kueue.Workload) {})
}

// version is the next one, seen so many seconds after noon.
func (s *story) version(second int, change func(wl *kueue.Workload)) *story {
	s.now = time.Duration(second) * time.Second
	s.wl = s.wl.DeepCopy()
	change(s.wl)
	s.judge.see("wl", s.wl, noon.Add(s.now+100*time.Millisecond))
	return s
}

func (s *story) condition(wl *kueue.Workload, name, reason string, status metav1.ConditionStatus) {
	at := metav1.NewTime(noon.Add(s.now))
	apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: reason, LastTransitionTime: at})
}

// says has a check answer.
func (s *story) says(second int, check string, state kueue.AdmissionCheckState) *story {
	state.Name, state.LastTransitionTime = kueue.AdmissionCheckReference(check), metav1.NewTime(noon.Add(time.Duration(second)*time.Second))
	a := s.judge.expect(check, state)
	s.judge.answers(a)
	return s.version(second, func(wl *kueue.Workload) {
		count := find(wl, check).RetryCount
		*find(wl, check) = a.state
		find(wl, check).RetryCount = count
	})
}

func (s *story) reserved(second int) *story {
	return s.version(second, func(wl *kueue.Workload) {
		s.condition(wl, kueue.WorkloadQuotaReserved, "QuotaReserved", metav1.ConditionTrue)
		s.condition(wl, kueue.WorkloadEvicted, "QuotaReserved", metav1.ConditionFalse)
	})
}

func (s *story) evicted(second, until int) *story {
	return s.version(second, func(wl *kueue.Workload) {
		s.condition(wl, kueue.WorkloadQuotaReserved, "Pending", metav1.ConditionFalse)
		s.condition(wl, kueue.WorkloadEvicted, kueue.WorkloadEvictedByAdmissionCheck, metav1.ConditionTrue)
		s.condition(wl, kueue.WorkloadRequeued, kueue.WorkloadEvictedByAdmissionCheck, metav1.ConditionFalse)
		wl.Status.RequeueState = &kueue.RequeueState{RequeueAt: ptr.To(metav1.NewTime(noon.Add(time.Duration(until) * time.Second)))}
		for i := range wl.Status.Conditions {
			wl.Status.Conditions[i].Message = "Waiting until " + wl.Status.RequeueState.RequeueAt.UTC().Format(time.RFC3339)
		}
	})
}

func (s *story) requeued(second int, counts ...int32) *story {
	return s.version(second, func(wl *kueue.Workload) {
		s.condition(wl, kueue.WorkloadRequeued, kueue.WorkloadBackoffFinished, metav1.ConditionTrue)
		s.condition(wl, kueue.WorkloadQuotaReserved, "Pending", metav1.ConditionFalse)
		wl.Status.RequeueState = nil
		for i := range wl.Status.Conditions {
			wl.Status.Conditions[i].Message = "The workload backoff was finished"
		}
		for i := range wl.Status.AdmissionChecks {
			check := &wl.Status.AdmissionChecks[i]
			*check = kueue.AdmissionCheckState{Name: check.Name, State: kueue.CheckStatePending, RetryCount: &counts[i]}
		}
	})
}

// waits is a workload that waits from second 2 to second 12.
func waits() *story {
	return newStory().reserved(0).says(1, "alpha", retry(10)).evicted(2, 12)
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		story *story
		want  string
	}{
		"all is well":               {story: waits().requeued(12, 1, 0).reserved(13)},
		"requeued early":            {story: waits().requeued(11, 1, 0), want: "rule 7, requeued early"},
		"reserved early":            {story: waits().reserved(5), want: "rule 7, reserved early"},
		"a longer delay came":       {story: waits().says(11, "beta", retry(5)).requeued(12, 1, 1), want: "rule 7, requeued early"},
		"the longer one is kept":    {story: waits().says(11, "beta", retry(5)).requeued(16, 1, 1)},
		"it was withdrawn":          {story: waits().says(5, "alpha", kueue.AdmissionCheckState{State: kueue.CheckStateReady}).requeued(6, 0, 0)},
		"another time is recorded":  {story: newStory().reserved(0).says(1, "alpha", retry(10)).evicted(2, 11), want: "rule 3"},
		"not counted":               {story: waits().requeued(12, 0, 0), want: "rules 6 and 10"},
		"counted twice":             {story: waits().requeued(12, 2, 0), want: "rules 6 and 10"},
		"the wrong one counted":     {story: waits().requeued(12, 1, 1), want: "rules 6 and 10"},
		"forgotten at the eviction": {story: newStory().reserved(0).says(1, "alpha", retry(10)).version(2, func(wl *kueue.Workload) { find(wl, "alpha").State = kueue.CheckStatePending }), want: "rule 3"},
		"a rejection undone":        {story: waits().says(3, "beta", kueue.AdmissionCheckState{State: kueue.CheckStateRejected}).requeued(12, 1, 0), want: "rule 8"},
		"an answer undone": {story: waits().says(3, "alpha", retry(20)).version(4, func(wl *kueue.Workload) {
			*find(wl, "alpha") = kueue.AdmissionCheckState{Name: "alpha", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](10), Message: "ask 1"}
		}), want: "rule 9"},
		"an answer is back after the requeue": {story: waits().requeued(12, 1, 0).version(13, func(wl *kueue.Workload) {
			*find(wl, "alpha") = kueue.AdmissionCheckState{Name: "alpha", State: kueue.CheckStateRetry, RequeueAfterSeconds: ptr.To[int32](10), Message: "ask 1"}
		}), want: "rule 9"},
		"the eviction is moved back": {story: waits().version(3, func(wl *kueue.Workload) {
			apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadEvicted).LastTransitionTime = metav1.NewTime(noon)
		}), want: "rule 1"},
		"an entry is gone": {story: waits().version(3, func(wl *kueue.Workload) { wl.Status.AdmissionChecks = wl.Status.AdmissionChecks[:1] }), want: "nothing is lost"},
		"requeueAt stays": {story: waits().version(12, func(wl *kueue.Workload) {
			apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: kueue.WorkloadBackoffFinished, LastTransitionTime: metav1.NewTime(noon.Add(12 * time.Second))})
		}), want: "rule 6"},
		"WaitForPodsReady's counter": {story: waits().version(3, func(wl *kueue.Workload) { wl.Status.RequeueState.Count = ptr.To[int32](1) }), want: "rule 13"},
		"released before the job is stopped": {story: newStory().version(0, func(wl *kueue.Workload) {
			apimeta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue})
		}).reserved(0).says(1, "alpha", retry(10)).evicted(2, 12), want: "rule 3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.story.judge, tc.want)
		})
	}
	t.Run("deleted", func(t *testing.T) {
		s := waits()
		s.judge.see("wl", nil, noon.Add(3*time.Second))
		expect(t, s.judge, "nothing is lost")
	})
	t.Run("a delay that outlives its removal", func(t *testing.T) {
		s := waits()
		a := s.judge.expect("alpha", kueue.AdmissionCheckState{Name: "alpha", State: kueue.CheckStateRetry})
		s.version(5, func(wl *kueue.Workload) { find(wl, "alpha").Message = a.state.Message })
		expect(t, s.judge, "a delay is its controller's")
	})
}

func expect(t *testing.T, j *judge, want string) {
	t.Helper()
	got := ""
	if v := j.violation(); v != nil {
		got = v.rule
	}
	if got != want {
		t.Errorf("got %q, want %q: %+v", got, want, j.violation())
	}
}

// TestLook: what is not so at once is not broken yet.
func TestLook(t *testing.T) {
	cases := map[string]struct {
		story   *story
		at      int
		pending int
		want    string
	}{
		"it waits":              {story: waits(), at: 11, pending: 1},
		"its deadline is over":  {story: waits(), at: 12, pending: 1, want: "rule 7, never stuck"},
		"a delay not recorded":  {story: waits().says(5, "beta", retry(60)), at: 6, pending: 1, want: "rule 4"},
		"nobody asks":           {story: waits().says(5, "alpha", kueue.AdmissionCheckState{State: kueue.CheckStateReady}), at: 6, pending: 1, want: "rule 4"},
		"the quota is held":     {story: newStory().reserved(0).says(1, "alpha", retry(10)), at: 2, want: "rule 3"},
		"rejected":              {story: newStory().reserved(0).says(1, "alpha", kueue.AdmissionCheckState{State: kueue.CheckStateRejected}), at: 2, want: "rule 8"},
		"quota is free":         {story: waits().requeued(12, 1, 0), at: 13, pending: 1, want: "rule 7, free quota"},
		"missing in a count":    {story: waits(), at: 3, pending: 0, want: "counts"},
		"inactive with a Retry": {story: waits().version(3, func(wl *kueue.Workload) { wl.Spec.Active = ptr.To(false) }), at: 4, want: "rule 11"},
		"a success that counts": {story: waits().requeued(12, 1, 0).reserved(12).says(13, "alpha", kueue.AdmissionCheckState{State: kueue.CheckStateReady}), at: 14, want: "rule 10"},
		"words of another time": {story: waits().version(3, says(noon.Add(13*time.Second))), at: 4, pending: 1, want: "conditions"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now, told := noon.Add(time.Duration(tc.at)*time.Second), counts{queues: map[string]int{"ClusterQueue": tc.pending}}
			texts := tc.story.judge.look(now, 1, told)
			if len(texts) > 0 != (tc.want != "") {
				t.Errorf("complaints: %v", texts)
			}
			expect(t, tc.story.judge, "")
			if tc.want != "" {
				tc.story.judge.look(now.Add(patience+time.Second), 1, told)
				expect(t, tc.story.judge, tc.want)
			}
		})
	}
}

// says has a condition tell of a wait.
func says(until time.Time) func(*kueue.Workload) {
	return func(wl *kueue.Workload) {
		apimeta.FindStatusCondition(wl.Status.Conditions, kueue.WorkloadRequeued).Message = "Waiting until " + until.Format(time.RFC3339)
	}
}

func TestGauges(t *testing.T) {
	again := func() *story {
		return waits().requeued(12, 1, 0).reserved(13).says(14, "alpha", retry(60)).evicted(15, 75)
	}
	right := map[string]int{
		pendingGauge: 1, retryGauge + "waiting_workloads": 1, retryGauge + "earliest_deadline_timestamp_seconds": int(noon.Unix()) + 75,
	}
	look := func(gauges map[string]int) *judge {
		s := again().version(16, func(wl *kueue.Workload) { wl.CreationTimestamp = metav1.NewTime(noon.Add(-time.Minute)) })
		for _, at := range []time.Duration{0, patience + time.Second} {
			s.judge.look(noon.Add(17*time.Second+at), 0, counts{gauges: map[string]map[string]int{"manager-1": gauges}})
		}
		return s.judge
	}
	for name := range right {
		for what, n := range map[string]int{"none": 0, "one more": right[name] + 1} {
			t.Run(name+", "+what, func(t *testing.T) {
				gauges := maps.Clone(right)
				if gauges[name] = n; n == 0 {
					delete(gauges, name)
				}
				expect(t, look(gauges), "counts")
			})
		}
	}
	t.Run("right", func(t *testing.T) { expect(t, look(right), "") })
}

func TestMissing(t *testing.T) {
	all := &tally{counts: map[string]int{}}
	for _, what := range kinds {
		all.add(what)
	}
	if missing := all.missing(); missing != nil {
		t.Errorf("missing: %v", missing)
	}
	for _, what := range kinds {
		all.counts[what] = 0
		if missing := all.missing(); !slices.Equal(missing, []string{what}) {
			t.Errorf("missing: %v, want %s", missing, what)
		}
		all.counts[what] = 1
	}
}

// TestDeck: as many as there are have all of them.
func TestDeck(t *testing.T) {
	d := deck[int]{cards: []int{1, 2, 3, 4, 5}}
	for range 20 {
		seen := map[int]bool{}
		for range d.cards {
			seen[d.deal()] = true
		}
		if len(seen) != len(d.cards) {
			t.Errorf("dealt: %v", seen)
		}
	}
}

// TestElected: a manager that leads is heard of once, and the next one again.
func TestElected(t *testing.T) {
	p := &proxy{tally: &tally{counts: map[string]int{}}, elected: make(chan struct{}, 1)}
	heard := func(want int) {
		t.Helper()
		if len(p.elected) != want {
			t.Errorf("heard %d times, want %d", len(p.elected), want)
		}
	}
	p.lead(true)
	p.lead(true)
	heard(1)
	p.lead(false)
	heard(0)
	p.lead(true)
	heard(1)
	<-p.elected
	p.lead(true)
	heard(0)
}

func TestLagging(t *testing.T) {
	lags := []time.Duration{30 * time.Millisecond, 0, 10 * time.Millisecond}
	next := 0
	body := lagging(io.NopCloser(strings.NewReader(strings.Repeat("event\n", 100))), func() time.Duration {
		next++
		return lags[next%len(lags)]
	})
	content, err := io.ReadAll(body)
	if err != nil || string(content) != strings.Repeat("event\n", 100) {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}
