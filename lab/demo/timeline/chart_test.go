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

package timeline

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestNewChart(t *testing.T) {
	time.Local = time.UTC
	got := NewChart(story(waitingSteps()))
	want := &Chart{
		Length: ms(22400),
		Rows: []Row{
			{
				Name: "job-a",
				Bars: []Bar{
					{From: ms(100), To: ms(200), State: InQueue},
					{From: ms(200), To: ms(3400), State: HoldsQuota},
					{From: ms(3400), To: ms(18020), State: Waits},
					{From: ms(18020), To: ms(18100), State: InQueue},
					{From: ms(18100), To: ms(18200), State: HoldsQuota},
					{From: ms(18200), To: ms(22300), State: Runs},
					{From: ms(22300), To: ms(22400), State: Done},
				},
				Marks:     []Mark{{ms(3200), 1}, {ms(6200), 2}, {ms(18020), 3}},
				Deadlines: []Deadline{{At: ms(8000), Moved: true}, {At: ms(18000)}},
			},
			{
				Name: "job-b",
				Bars: []Bar{
					{From: ms(1000), To: ms(3500), State: InQueue},
					{From: ms(3500), To: ms(3600), State: HoldsQuota},
					{From: ms(3600), To: ms(7500), State: Runs},
					{From: ms(7500), To: ms(22400), State: Done},
				},
			},
			{
				Name: "job-c",
				Bars: []Bar{
					{From: ms(1000), To: ms(7600), State: InQueue},
					{From: ms(7600), To: ms(7700), State: HoldsQuota},
					{From: ms(7700), To: ms(11600), State: Runs},
					{From: ms(11600), To: ms(22400), State: Done},
				},
			},
		},
		Quota: []Bar{
			{From: 0, To: ms(200), State: Free, Label: "free"},
			{From: ms(200), To: ms(3400), State: HoldsQuota, Label: "job-a"},
			{From: ms(3400), To: ms(3500), State: Free, Label: "free"},
			{From: ms(3500), To: ms(7500), State: HoldsQuota, Label: "job-b"},
			{From: ms(7500), To: ms(7600), State: Free, Label: "free"},
			{From: ms(7600), To: ms(11600), State: HoldsQuota, Label: "job-c"},
			{From: ms(11600), To: ms(18100), State: Free, Label: "free"},
			{From: ms(18100), To: ms(22300), State: HoldsQuota, Label: "job-a"},
			{From: ms(22300), To: ms(22400), State: Free, Label: "free"},
		},
		Notes: []Note{
			{Mark: Mark{ms(3200), 1}, Job: "job-a", Lines: []string{
				"check capacity asks to retry after 5s",
				"evicted (AdmissionCheck); waits until 12:00:08 (in 4.7s)",
				"quota free",
			}},
			{Mark: Mark{ms(6200), 2}, Job: "job-a", Lines: []string{
				"check budget asks to retry after 12s",
				"deadline moved from 12:00:08 to 12:00:18 (in 11.7s)",
			}},
			{Mark: Mark{ms(18020), 3}, Job: "job-a", Lines: []string{
				"requeued; Pending again: capacity (retry 1), budget (retry 1)",
				"quota reserved",
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected chart (-want,+got):\n%s", diff)
	}
}

func TestTerminal(t *testing.T) {
	time.Local = time.UTC
	chart := NewChart(story(waitingSteps()))
	chart.Notes = chart.Notes[:1]
	var out strings.Builder
	chart.Terminal(&out, 75, NewPalette(false))
	want := `
            0s   2s    4s   6s   8s    10s  12s   14s  16s  18s   20s  22s
            ┬────┬─────┬────┬────┬─────┬────┬─────┬────┬────┬─────┬────┬─
                     1       2                              3
  job-a     ·▒▒▒▒▒▒▒▒~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~▒███████████✓
                                 △ first deadline, moved    ▲ deadline
  job-b        ······▒██████████✓
  job-c        ·················▒██████████✓
  quota      ├job-a─┤├──job-b──┤├──job-c──┤      free       ├──job-a───┤

  ·· queued   ▒▒ quota reserved   ~~ waits, no quota   ██ runs

   1    3.2s  job-a  check capacity asks to retry after 5s
                     evicted (AdmissionCheck); waits until 12:00:08 (in 4.7s)
                     quota free
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); diff != "" {
		t.Errorf("unexpected picture (-want,+got):\n%s\n%s", diff, out.String())
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colour without asking for it")
	}

	out.Reset()
	chart.Terminal(&out, 75, NewPalette(true))
	if !strings.Contains(out.String(), "\x1b[32m") {
		t.Error("no colour")
	}
}

func TestDrawingsOfLittle(t *testing.T) {
	cases := map[string]*History{
		"nothing":          NewHistory(start),
		"one queued":       story(waitingSteps()[:1]),
		"stuck in waiting": story(waitingSteps()[:7]),
		"whole story":      story(waitingSteps()),
	}
	for name, h := range cases {
		t.Run(name, func(t *testing.T) {
			chart := NewChart(h)
			for _, columns := range []int{0, 20, 80, 200} {
				chart.Terminal(io.Discard, columns, NewPalette(true))
			}
			var out strings.Builder
			chart.SVG(&out, "a < b & c")
			decoder := xml.NewDecoder(strings.NewReader(out.String()))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("not well-formed: %v", err)
				}
			}
		})
	}
}
