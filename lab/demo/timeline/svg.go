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
)

const (
	svgWidth   = 1000
	svgLeft    = 90
	svgRight   = 40
	svgTop     = 110
	svgRow     = 58
	svgBar     = 24
	noteHeight = 20
	noteGap    = 6
)

// The picture carries its own background, and follows the theme of the reader.
const svgStyle = `
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 13px; fill: #1f2328 }
.title { font-size: 18px; font-weight: 600 }
.small { font-size: 12px; fill: #59636e }
.name { font-weight: 600 }
.onbar { font-weight: 600; fill: #ffffff }
.number { font-size: 11px; font-weight: 700; fill: #ffffff }
.paper { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.queued { fill: #c8d1da } .holds { fill: #54aeff } .runs { fill: #2da44e } .waits { fill: #ffe2a8 } .used { fill: #0969da }
.hatch { stroke: #d4a72c; stroke-width: 3 }
.mark { fill: #1f2328 } .deadline { stroke: #bc4c00; stroke-width: 2 } .moved { stroke-dasharray: 4 3 } .flag { font-size: 12px; fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 } .number { fill: #0d1117 }
.paper { fill: #0d1117; stroke: #3d444d } .grid { stroke: #2a313c }
.queued { fill: #4d5661 } .holds { fill: #388bfd } .runs { fill: #238636 } .waits { fill: #5c4813 } .used { fill: #1f6feb }
.hatch { stroke: #9e7a1e } .mark { fill: #f0f6fc } .deadline { stroke: #ffa657 } .flag { fill: #ffa657 }
}
`

var svgClasses = map[State]string{InQueue: "queued", HoldsQuota: "holds", Runs: "runs", Waits: "waits"}

// SVG draws the chart as a picture.
func (c *Chart) SVG(w io.Writer, title string) {
	notes := 0
	for _, note := range c.Notes {
		notes += len(note.Lines)*noteHeight + noteGap
	}
	rows := len(c.Rows) + 1
	bottom := svgTop + rows*svgRow
	height := bottom + 40 + notes + 6

	d := drawing{SVG: svg.New(w), chart: c}
	d.begin(height, title, svgStyle)
	d.legend()
	d.grid(svgTop, bottom)
	for i, row := range c.Rows {
		d.row(row, svgTop+i*svgRow)
	}
	d.quota(svgTop + len(c.Rows)*svgRow)
	d.notes(bottom + 40)
	d.End()
}

type drawing struct {
	*svg.SVG
	chart *Chart
}

func (d drawing) x(at time.Duration) int {
	if d.chart.Length <= 0 {
		return svgLeft
	}
	return svgLeft + int(at.Seconds()/d.chart.Length.Seconds()*(svgWidth-svgLeft-svgRight)+0.5)
}

func (d drawing) legend() {
	x := 24
	for _, s := range stateNames {
		d.Roundrect(x, 54, 22, 14, 3, 3, fill(s.State))
		d.Text(x+28, 66, s.Name, `class="small"`)
		x += 28 + 6*len(s.Name) + 28
	}
	d.Line(x+6, 52, x+6, 70, `class="deadline"`)
	d.Text(x+16, 66, "deadline", `class="small"`)
}

// begin draws the paper, and the title on it.
func (d drawing) begin(height int, title, style string) {
	d.Startview(svgWidth, height, 0, 0, svgWidth, height)
	d.Title(title)
	d.Style("text/css", style)
	d.Def()
	d.Pattern("hatch", 0, 0, 8, 8, "user", `patternTransform="rotate(45)"`)
	d.Rect(0, 0, 8, 8, `class="waits"`)
	d.Line(0, 0, 0, 8, `class="hatch"`)
	d.PatternEnd()
	d.DefEnd()
	d.Roundrect(0, 0, svgWidth, height, 8, 8, `class="paper"`)
	d.Text(24, 34, title, `class="title"`)
}

// grid draws the time axis, and its lines down to the bottom.
func (d drawing) grid(top, bottom int) {
	for at := time.Duration(0); at <= d.chart.Length; at += d.chart.tick() {
		x := d.x(at)
		d.Line(x, top-12, x, bottom, `class="grid"`)
		d.Text(x, top-18, fmt.Sprintf("%ds", int(at.Seconds())), `class="small"`, `text-anchor="middle"`)
	}
}

func (d drawing) row(row Row, y int) {
	bar := y + 20
	d.Text(24, bar+17, row.Name, `class="name"`)
	for _, b := range row.Bars {
		if b.State == Done {
			d.Text(d.x(b.From)+5, bar+17, "✓", `class="name"`)
			break
		}
		d.Rect(d.x(b.From), bar, max(1, d.x(b.To)-d.x(b.From)), svgBar, fill(b.State))
	}
	for _, dl := range row.Deadlines {
		x, class, text := d.x(dl.At), `class="deadline"`, "deadline"
		if dl.Moved {
			class, text = `class="deadline moved"`, "first deadline, moved"
		}
		d.Line(x, bar-5, x, bar+svgBar+5, class)
		d.Text(x, bar+svgBar+17, text, `class="flag"`, `text-anchor="middle"`)
	}
	for _, m := range row.Marks {
		d.Circle(d.x(m.At), bar-9, 8, `class="mark"`)
		d.Text(d.x(m.At), bar-5, fmt.Sprint(m.Number), `class="number"`, `text-anchor="middle"`)
	}
}

func (d drawing) quota(y int) {
	bar := y + 20
	d.Line(24, y+8, svgWidth-svgRight, y+8, `class="grid"`)
	d.Text(24, bar+17, "quota", `class="name"`)
	for _, b := range d.chart.Quota {
		from, to := d.x(b.From), d.x(b.To)
		if b.State == Free {
			if to-from > 40 {
				d.Text((from+to)/2, bar+17, b.Label, `class="small"`, `text-anchor="middle"`)
			}
			continue
		}
		d.Roundrect(from+1, bar, max(1, to-from-2), svgBar, 4, 4, `class="used"`)
		if to-from > 8*len(b.Label)+8 {
			d.Text((from+to)/2, bar+17, b.Label, `class="onbar"`, `text-anchor="middle"`)
		}
	}
}

func (d drawing) notes(y int) {
	for _, note := range d.chart.Notes {
		d.Circle(32, y-4, 8, `class="mark"`)
		d.Text(32, y, fmt.Sprint(note.Number), `class="number"`, `text-anchor="middle"`)
		d.Text(90, y, fmt.Sprintf("%.1fs", note.At.Seconds()), `class="small"`, `text-anchor="end"`)
		d.Text(104, y, note.Job, `class="name"`)
		for _, line := range note.Lines {
			d.Text(160, y, line)
			y += noteHeight
		}
		y += noteGap
	}
}

func fill(s State) string {
	if s == Waits {
		return `fill="url(#hatch)"`
	}
	return fmt.Sprintf("class=%q", svgClasses[s])
}
