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
	"fmt"
	"io"
	"time"

	svg "github.com/ajstarks/svgo"
	"k8s.io/utils/ptr"
)

const (
	stormTop  = 160 // of the histogram
	stormHigh = 110
	laneTop   = stormTop + stormHigh + 26
	laneHigh  = 13
	laneBar   = 9
	// stormBin is the stretch of time of one bar of the histogram.
	stormBin = 500 * time.Millisecond
)

const stormStyle = `
.big { font-size: 17px; font-weight: 600 } .writes { fill: #cf222e } .asked { stroke: #cf222e; stroke-width: 1.5 }
.policy { stroke: #8250df; stroke-width: 2 } .says { font-weight: 600; fill: #8250df }
@media (prefers-color-scheme: dark) {
.writes { fill: #f85149 } .asked { stroke: #f85149 } .policy { stroke: #a371f7 } .says { fill: #a371f7 }
}
`

// SVG draws the storm: the writes over the time, and a line for each job.
func (s *Storm) SVG(w io.Writer, title string) {
	names, told := s.Names(), s.Told()
	bottom := laneTop + len(names)*laneHigh
	height := bottom + 30 + len(told)*noteHeight + 6

	d := stormDrawing{drawing: drawing{SVG: svg.New(w), chart: &Chart{Length: s.End.Sub(s.Start)}}, storm: s}
	d.begin(height, title, svgStyle+stormStyle)
	d.legend()
	d.grid(stormTop, bottom)
	d.histogram()
	for i, name := range names {
		d.lane(name, laneTop+i*laneHigh)
	}
	d.policy(bottom)
	for i, line := range told {
		d.Text(24, bottom+34+i*noteHeight, line)
	}
	d.End()
}

type stormDrawing struct {
	drawing
	storm *Storm
}

func (d stormDrawing) at(t time.Time) int { return d.x(t.Sub(d.storm.Start)) }

func (d stormDrawing) legend() {
	d.Rect(24, 54, 14, 14, `class="writes"`)
	d.Text(44, 66, "Kueue's writes to the Workloads in half a second", `class="small"`)
	d.Line(352, 52, 352, 70, `class="asked"`)
	d.Text(360, 66, "the check says Retry, and no delay", `class="small"`)
	d.Roundrect(590, 54, 22, 14, 3, 3, fill(HoldsQuota))
	d.Text(618, 66, "quota reserved", `class="small"`)
	d.Roundrect(730, 54, 22, 14, 3, 3, fill(Waits))
	d.Text(758, 66, "waits for the delay, no quota", `class="small"`)
}

func (d stormDrawing) histogram() {
	s, base := d.storm, stormTop+stormHigh
	var bins []int
	most := 1
	for from := s.Start; from.Before(s.End); from = from.Add(stormBin) {
		n := s.Count(from, from.Add(stormBin)).Writes
		bins, most = append(bins, n), max(most, n)
	}
	for i, n := range bins {
		from, to := d.x(time.Duration(i)*stormBin), d.x(min(time.Duration(i+1)*stormBin, s.End.Sub(s.Start)))
		high := (n*stormHigh + most - 1) / most
		d.Rect(from+1, base-high, max(1, to-from-2), high, `class="writes"`)
	}
	d.Text(svgLeft-8, stormTop+10, fmt.Sprint(most), `class="small"`, `text-anchor="end"`)
	d.Text(svgLeft-8, base, "0", `class="small"`, `text-anchor="end"`)
	d.Text(24, stormTop+stormHigh/2+4, "writes", `class="name"`)
	d.Line(svgLeft, base, svgWidth-svgRight, base, `class="grid"`)
}

func (d stormDrawing) lane(name string, y int) {
	d.Text(24, y+laneBar, name, `class="small"`)
	bars := d.storm.quotaSpans(name)
	for _, w := range d.storm.waits(name, d.storm.Start) {
		if ptr.Deref(w.delay, 0) > 0 {
			bars = append(bars, w.Span)
		}
	}
	for _, b := range bars {
		d.Rect(d.at(b.From), y, max(1, d.at(b.To)-d.at(b.From)), laneBar, fill(b.State))
	}
	for _, at := range d.storm.retries(name) {
		d.Line(d.at(at), y-1, d.at(at), y+laneBar+1, `class="asked"`)
	}
}

func (d stormDrawing) policy(bottom int) {
	s, x := d.storm, d.at(d.storm.Policy)
	// Not across the times.
	d.Line(x, 84, x, stormTop-32, `class="policy"`)
	d.Line(x, stormTop-12, x, bottom, `class="policy"`)
	d.Text(x-8, 96, "no policy", `text-anchor="end"`)
	d.Text(x+8, 96, "spec.retry: "+s.Says, `class="says"`)
	d.Text(x-8, 118, perSecond(s.Before()), `class="big"`, `text-anchor="end"`)
	d.Text(x+8, 118, perSecond(s.After()), `class="big"`)
}

func perSecond(f Figures) string {
	return fmt.Sprintf("%.0f writes a second", f.PerSecond())
}
