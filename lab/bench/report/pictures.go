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
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	plotdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"kueue-acrequeueafter/lab/bench/result"
)

// styles of the builds: colours of Okabe and Ito, which most colour-blind readers
// tell apart, and dashes.
var styles = map[string]plotdraw.LineStyle{
	result.GuestGateOn: {Color: color.RGBA{0x00, 0x72, 0xb2, 0xff}, Width: vg.Points(2.2)},
	result.GateOff:     {Color: color.RGBA{0xe6, 0x9f, 0x00, 0xff}, Width: vg.Points(1.8), Dashes: dashes(7, 3)},
	result.Guest:       {Color: color.RGBA{0x00, 0x9e, 0x73, 0xff}, Width: vg.Points(1.8), Dashes: dashes(7, 2, 2, 2)},
	result.GateOn:      {Color: color.RGBA{0x56, 0xb4, 0xe9, 0xff}, Width: vg.Points(2.2), Dashes: dashes(10, 2)},
	result.Base:        {Color: color.RGBA{0xd5, 0x5e, 0x00, 0xff}, Width: vg.Points(1.8), Dashes: dashes(3, 2)},
}

func dashes(points ...vg.Length) []vg.Length { return points }

// curve is a distribution that a picture shows.
type curve struct {
	title, of string
	scenario  string
	times     times
	// idle is shown beside that of ours, for comparison.
	idle         times
	idleScenario string
	idleLabel    string
}

var curves = map[string]curve{
	"requeued": {title: "Requeued after one deadline", of: "workloads", scenario: result.Herd, times: requeued},
	"reserved": {title: "Quota reserved again after one deadline", of: "workloads", scenario: result.Herd, times: reserved,
		idle: reserved, idleScenario: result.Fresh, idleLabel: "ours, fresh workloads"},
	"held": {title: "Quota held after a Retry", of: "workloads", scenario: result.Herd, times: held},
	"unrelated": {title: "Admission of an unrelated job during the burst", of: "jobs", scenario: result.Herd, times: unrelated,
		idle: unrelatedIdle, idleScenario: result.Herd, idleLabel: "ours, before the burst"},
}

// draw draws what the run has results for, and returns the names of the pictures.
func draw(run *result.Run, folder string) (map[string]bool, error) {
	drawn := map[string]bool{}
	save := func(name string, panels ...*plot.Plot) error {
		if len(panels) == 0 || panels[0] == nil {
			return nil
		}
		drawn[name] = true
		return os.WriteFile(filepath.Join(folder, name+".svg"), svg(panels...), 0o644)
	}
	for name, c := range curves {
		p, err := c.plot(run)
		if err == nil {
			err = save(name, p)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %s: %w", name, err)
		}
	}
	writes, err := writesOfRetry(run)
	if err == nil {
		err = save("writes", writes)
	}
	if err != nil {
		return nil, fmt.Errorf("picture writes: %w", err)
	}
	for _, build := range ours(run) {
		panels, err := growth(run, build)
		if err == nil {
			err = save("growth", panels...)
		}
		if err != nil {
			return nil, fmt.Errorf("picture growth: %w", err)
		}
		if len(panels) > 0 {
			break // one base is enough to see it; the tables have both
		}
	}
	return drawn, nil
}

func newPlot(title string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(6)
	p.Title.TextStyle.Font.Size = vg.Points(13)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = vg.Points(11)
		axis.Tick.Label.Font.Size = vg.Points(10)
		axis.Tick.Marker = plot.TickerFunc(ticks)
	}
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	p.Legend.ThumbnailWidth = vg.Points(32)
	p.Legend.Padding = vg.Points(2)
	// Texts on the right of their lines: another font may be wider.
	p.Legend.Left = true
	grid := plotter.NewGrid()
	light := plotdraw.LineStyle{Color: color.Gray{0xdd}, Width: vg.Points(0.5)}
	grid.Horizontal, grid.Vertical = light, light
	p.Add(grid)
	return p
}

// ticks are gonum's, without their zeros.
func ticks(from, to float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(from, to)
	for i, tick := range all {
		if tick.Label != "" {
			all[i].Label = fmt.Sprintf("%.4g", tick.Value)
		}
	}
	return all
}

// plot returns nil if nothing was measured.
func (c curve) plot(run *result.Run) (*plot.Plot, error) {
	n := largest(run, c.scenario)
	p := newPlot(fmt.Sprintf("%s, %s workloads", c.title, thousands(n)))
	p.X.Label.Text, p.Y.Label.Text = "seconds", "share of the "+c.of+", %"
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 100
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(270), vg.Points(8)
	empty := true
	add := func(label string, style plotdraw.LineStyle, rounds []result.Result, of times) error {
		for _, r := range rounds {
			d := of(r)
			if d == nil {
				continue
			}
			points := make(plotter.XYs, len(d.Percentiles))
			for percent, seconds := range d.Percentiles {
				points[percent] = plotter.XY{X: seconds, Y: float64(percent)}
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return err
			}
			line.LineStyle = style
			p.Add(line)
			if label != "" {
				p.Legend.Add(label, line)
			}
			label, empty = "", false
		}
		return nil
	}
	for _, build := range result.Builds {
		if err := add(labels[build], styles[build], pick(run, build, c.scenario, n), c.times); err != nil {
			return nil, err
		}
	}
	if empty {
		return nil, nil
	}
	if c.idle != nil {
		style := plotdraw.LineStyle{Color: color.Gray{0x66}, Width: vg.Points(1.5), Dashes: dashes(1.5, 2.5)}
		if err := add(c.idleLabel, style, pick(run, result.GuestGateOn, c.idleScenario, n), c.idle); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// writesOfRetry draws what one delayed retry costs with each build, nil if that was not
// measured.
func writesOfRetry(run *result.Run) (*plot.Plot, error) {
	n := largest(run, result.Herd)
	p := newPlot(fmt.Sprintf("All writes by Kueue, also to jobs and queues, for a retry of %s workloads", thousands(n)))
	p.Y.Label.Text = "writes for each"
	var names []string
	for _, build := range result.Builds {
		found := each(pick(run, build, result.Herd, n), forEach(writes))
		if len(found) == 0 {
			continue
		}
		height, at := median(found), float64(len(names))
		names = append(names, labels[build])
		chart, err := plotter.NewBarChart(plotter.Values{height}, vg.Points(60))
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width, chart.XMin = styles[build].Color, 0, at
		text, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: at, Y: height}}, Labels: []string{number(height)}})
		if err != nil {
			return nil, err
		}
		text.TextStyle[0].XAlign, text.TextStyle[0].Font.Size = -0.5, vg.Points(10)
		text.Offset = vg.Point{Y: vg.Points(2)}
		p.Add(chart, text)
	}
	if len(names) == 0 {
		return nil, nil
	}
	p.NominalX(names...)
	p.Y.Min = 0
	p.Y.Max *= 1.15 // room for the numbers
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return p, nil
}

// growing are the costs whose growth is drawn, a panel for each unit.
var growing = []struct {
	unit  string
	costs []cost
}{
	{"seconds", []cost{
		{"last requeued", result.Herd, percentile(requeued, 100), styles[result.GuestGateOn].Color},
		{"CPU of the manager", result.Herd, func(r result.Result) float64 { return r.CPUSeconds }, styles[result.Base].Color},
		{"new manager knows all", result.Restart, func(r result.Result) float64 { return positive(r.Known) }, styles[result.Guest].Color},
	}},
	{"MiB", []cost{
		{"live heap while they wait", result.Restart, heap, styles[result.GateOff].Color},
	}},
}

type cost struct {
	label, scenario string
	value           value
	color           color.Color
}

// growth draws how the costs of a build grow with the number of workloads, on logarithmic axes:
// nil if there are less than three numbers. Each line has its name at its end, and its slope.
func growth(run *result.Run, build string) ([]*plot.Plot, error) {
	var panels []*plot.Plot
	for _, panel := range growing {
		p := newPlot(fmt.Sprintf("%s, %s", panel.unit, labels[build]))
		p.X.Label.Text = "workloads"
		for _, axis := range []*plot.Axis{&p.X, &p.Y} {
			axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		}
		var names plotter.XYLabels
		var colors []color.Color
		for _, cost := range panel.costs {
			points, slope := grows(run, build, cost.scenario, cost.value)
			if len(points) < 3 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return nil, err
			}
			line.Color, line.Width = cost.color, vg.Points(2.2)
			dots.Color, dots.Shape = cost.color, plotdraw.CircleGlyph{}
			p.Add(line, dots)
			names.XYs = append(names.XYs, points[len(points)-1])
			names.Labels = append(names.Labels, fmt.Sprintf("%s, n^%.2f", cost.label, slope))
			colors = append(colors, cost.color)
		}
		if len(colors) == 0 {
			continue
		}
		apart(names.XYs)
		text, err := plotter.NewLabels(names)
		if err != nil {
			return nil, err
		}
		for i := range text.TextStyle {
			text.TextStyle[i].Color, text.TextStyle[i].Font.Size, text.TextStyle[i].YAlign = colors[i], vg.Points(9), -0.5
		}
		text.Offset = vg.Point{X: vg.Points(6)}
		p.Add(text)
		p.X.Max *= 1.2
		p.X.Tick.Marker = plot.ConstantTicks{{Value: 100, Label: "100"}, {Value: 1000, Label: "1k"}, {Value: 10000, Label: "10k"}}
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
		panels = append(panels, p)
	}
	return panels, nil
}

// apart moves names, on a logarithmic axis, down from those that they would lie over.
func apart(names plotter.XYs) {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(names[b].Y, names[a].Y) })
	for i := 1; i < len(order); i++ {
		names[order[i]].Y = min(names[order[i]].Y, names[order[i-1]].Y/1.5)
	}
}

// grows returns the medians of a cost against the number of workloads, on the processor
// that the most were measured on, and the slope of the line through their logarithms.
func grows(run *result.Run, build, scenario string, v value) (points plotter.XYs, slope float64) {
	var xs, ys []float64
	greatest := pick(run, build, scenario, most(run, build, scenario))
	for _, n := range sizes(run, scenario) {
		if values := each(onSameCPU(greatest, pick(run, build, scenario, n)), v); len(values) > 0 {
			points = append(points, plotter.XY{X: float64(n), Y: median(values)})
			xs, ys = append(xs, math.Log(float64(n))), append(ys, math.Log(median(values)))
		}
	}
	if len(points) > 1 {
		_, slope = stat.LinearRegression(xs, ys, nil, false)
	}
	return points, slope
}

// svg draws the panels side by side on white, so that they can be read on a dark page as well.
func svg(panels ...*plot.Plot) []byte {
	canvas := vgsvg.New(17*vg.Centimeter, 10*vg.Centimeter)
	tiles := plotdraw.Tiles{Rows: 1, Cols: len(panels), PadX: vg.Points(12), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadRight: vg.Points(8)}
	for i, at := range plot.Align([][]*plot.Plot{panels}, tiles, plotdraw.New(canvas))[0] {
		panels[i].BackgroundColor = color.White
		panels[i].Draw(at)
	}
	var b bytes.Buffer
	_, _ = canvas.WriteTo(&b) // a buffer takes everything
	// Other fonts of the same metrics, where this one is not installed.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}
