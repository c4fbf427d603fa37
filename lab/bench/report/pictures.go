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
	"os"
	"path/filepath"

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
	result.GateOn:  {Color: color.RGBA{0x00, 0x72, 0xb2, 0xff}, Width: vg.Points(2.2)},
	result.GateOff: {Color: color.RGBA{0xe6, 0x9f, 0x00, 0xff}, Width: vg.Points(1.8), Dashes: dashes(7, 3)},
	result.Base:    {Color: color.RGBA{0x00, 0x9e, 0x73, 0xff}, Width: vg.Points(1.8), Dashes: dashes(7, 2, 2, 2)},
	result.Later:   {Color: color.RGBA{0xd5, 0x5e, 0x00, 0xff}, Width: vg.Points(1.8), Dashes: dashes(3, 2)},
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
	p, err := bars(run, "Writes by Kueue while a check is busy for two minutes", "writes per workload", result.Busy, forEach(writes))
	if err == nil {
		err = save("busy", p)
	}
	if err != nil {
		return nil, fmt.Errorf("picture busy: %w", err)
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
	for _, build := range builds {
		if err := add(build.Label, styles[build.Name], pick(run, build.Name, c.scenario, n), c.times); err != nil {
			return nil, err
		}
	}
	if empty {
		return nil, nil
	}
	if c.idle != nil {
		style := plotdraw.LineStyle{Color: color.Gray{0x66}, Width: vg.Points(1.5), Dashes: dashes(1.5, 2.5)}
		if err := add(c.idleLabel, style, pick(run, result.GateOn, c.idleScenario, n), c.idle); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// bars draws a value for each build and number of workloads, nil if there is none.
func bars(run *result.Run, title, label, scenario string, v value) (*plot.Plot, error) {
	all := sizes(run, scenario)
	if len(all) == 0 {
		return nil, nil
	}
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = "workloads", label
	p.Legend.Top = true
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = thousands(n)
	}
	p.NominalX(names...)
	const width = 34
	empty := true
	for i, build := range builds {
		heights := make(plotter.Values, len(all))
		measured := false
		labels := plotter.XYLabels{}
		for j, n := range all {
			if found := each(pick(run, build.Name, scenario, n), v); len(found) > 0 {
				heights[j], measured = median(found), true
				labels.XYs = append(labels.XYs, plotter.XY{X: float64(j), Y: heights[j]})
				labels.Labels = append(labels.Labels, number(heights[j]))
			}
		}
		if !measured {
			continue
		}
		chart, err := plotter.NewBarChart(heights, vg.Points(width))
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width = styles[build.Name].Color, 0
		chart.Offset = vg.Points(width) * vg.Length(float64(i)-float64(len(builds)-1)/2)
		numbers, err := plotter.NewLabels(labels)
		if err != nil {
			return nil, err
		}
		for k := range numbers.TextStyle {
			numbers.TextStyle[k].XAlign = -0.5
			numbers.TextStyle[k].Font.Size = vg.Points(9)
		}
		numbers.Offset = vg.Point{X: chart.Offset, Y: vg.Points(2)}
		p.Add(chart, numbers)
		p.Legend.Add(build.Label, chart)
		empty = false
	}
	if empty {
		return nil, nil
	}
	p.Y.Min = 0
	p.Y.Max *= 1.35 // room for the legend
	p.X.Min, p.X.Max = -0.6, float64(len(all))-0.4
	return p, nil
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
