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
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

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
	save := func(name string, p *plot.Plot) error {
		if p == nil {
			return nil
		}
		drawn[name] = true
		return os.WriteFile(filepath.Join(folder, name+".svg"), svg(p), 0o644)
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
	for name, plot := range map[string]func(*result.Run) (*plot.Plot, error){"writes": writesOfRetry, "growth": growth} {
		p, err := plot(run)
		if err == nil {
			err = save(name, p)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %s: %w", name, err)
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

// growing are the costs whose growth is drawn.
var growing = []struct {
	label, scenario string
	value           value
	color           color.Color
}{
	{"one deadline: the last requeued, s", result.Herd, percentile(requeued, 100), styles[result.GuestGateOn].Color},
	{"one deadline: CPU of the manager, s", result.Herd, func(r result.Result) float64 { return r.CPUSeconds }, styles[result.Base].Color},
	{"waiting: new manager until all are known, s", result.Restart, func(r result.Result) float64 { return positive(r.Known) }, styles[result.Guest].Color},
	{"waiting: live heap, MiB", result.Restart, heap, styles[result.GateOff].Color},
}

// growth draws how costs grow with the number of workloads, on logarithmic axes: nil if
// there are less than three numbers. Dashed are those on the later base.
func growth(run *result.Run) (*plot.Plot, error) {
	p := newPlot("Growth with the number of workloads")
	p.X.Label.Text, p.Y.Label.Text = "workloads", "seconds, MiB"
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Legend.Top = true
	empty := true
	for _, cost := range growing {
		for _, build := range ours(run) {
			points, slope := grows(run, build, cost.scenario, cost.value)
			if len(points) < 3 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return nil, err
			}
			line.LineStyle = plotdraw.LineStyle{Color: cost.color, Width: vg.Points(1.8), Dashes: styles[build].Dashes}
			dots.Color, dots.Shape = cost.color, plotdraw.CircleGlyph{}
			p.Add(line, dots)
			p.Legend.Add(fmt.Sprintf("%s: %s, n^%.2f", labels[build], cost.label, slope), line)
			empty = false
		}
	}
	if empty {
		return nil, nil
	}
	p.Y.Max *= 60 // room for the legend
	return p, nil
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

// svg draws on white, so that the picture can be read on a dark page as well.
func svg(p *plot.Plot) []byte {
	canvas := vgsvg.New(17*vg.Centimeter, 10*vg.Centimeter)
	p.BackgroundColor = color.White
	p.Draw(plotdraw.Crop(plotdraw.New(canvas), 0, -vg.Points(10), 0, -vg.Points(6)))
	var b bytes.Buffer
	_, _ = canvas.WriteTo(&b) // a buffer takes everything
	// Other fonts of the same metrics, where this one is not installed.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}
