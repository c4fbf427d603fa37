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
	"strings"
	"time"
)

// Palette holds ANSI colours; empty without colour.
type Palette struct{ reset, bold, dim, cyan, green, yellow, red string }

// NewPalette returns the colours of the terminal, or none.
func NewPalette(colour bool) Palette {
	if !colour {
		return Palette{}
	}
	return Palette{
		reset: "\x1b[0m", bold: "\x1b[1m", dim: "\x1b[2m",
		cyan: "\x1b[36m", green: "\x1b[32m", yellow: "\x1b[33m", red: "\x1b[31m",
	}
}

func (p Palette) paint(colour, text string) string {
	if text == "" {
		return ""
	}
	return colour + text + p.reset
}

// Bold paints a heading.
func (p Palette) Bold(text string) string { return p.paint(p.bold, text) }

// Dim paints what matters less.
func (p Palette) Dim(text string) string { return p.paint(p.dim, text) }

// Bad paints what went wrong.
func (p Palette) Bad(text string) string { return p.paint(p.red, text) }

// Event paints the text of an event by its kind.
func (p Palette) Event(e Event) string {
	colours := map[Kind]string{
		Queued: p.dim, Running: p.dim, Ready: p.cyan, Reserved: p.cyan, Admitted: p.green, Finished: p.green,
		Retry: p.yellow, Evicted: p.yellow, Moved: p.yellow, Released: p.yellow, Requeued: p.bold,
	}
	return p.paint(colours[e.Kind], e.Text)
}

// Promise prints a promise with ✓ or ✗.
func (p Palette) Promise(w io.Writer, promise Promise) {
	sign := p.paint(p.green, "✓")
	if !promise.Kept {
		sign = p.paint(p.red, "✗")
	}
	fmt.Fprintf(w, "  %s %s", sign, promise.Text)
	if promise.Detail != "" {
		fmt.Fprint(w, p.Dim(": "+promise.Detail))
	}
	fmt.Fprintln(w)
}

// gutter is the width of the names beside the chart.
const gutter = 12

// Terminal draws the chart for a terminal of so many columns.
func (c *Chart) Terminal(w io.Writer, columns int, p Palette) {
	t := terminal{chart: c, palette: p, width: max(20, columns-gutter-3)}
	t.axis(w)
	for _, row := range c.Rows {
		t.row(w, row)
	}
	fmt.Fprintf(w, "%-*s%s\n", gutter, "  quota", t.bars(c.Quota))
	t.legend(w)
	for _, note := range c.Notes {
		head := fmt.Sprintf("%2d %6.1fs  %s  ", note.Number, note.At.Seconds(), note.Job)
		for i, text := range note.Lines {
			if i > 0 {
				head = strings.Repeat(" ", len(head))
			}
			fmt.Fprintf(w, "  %s%s\n", p.Bold(head), text)
		}
	}
}

type terminal struct {
	chart   *Chart
	palette Palette
	width   int
}

func (t terminal) column(d time.Duration) int {
	if t.chart.Length <= 0 {
		return 0
	}
	return min(t.width, int(d.Seconds()/t.chart.Length.Seconds()*float64(t.width)+0.5))
}

func (t terminal) axis(w io.Writer) {
	labels := newLine(t.width + 4)
	ticks := []rune(strings.Repeat("─", t.width+1))
	for d := time.Duration(0); d <= t.chart.Length; d += t.chart.tick() {
		at := t.column(d)
		labels.put(at, fmt.Sprintf("%ds", int(d.Seconds())))
		ticks[at] = '┬'
	}
	fmt.Fprintf(w, "%*s%s\n", gutter, "", t.palette.Dim(labels.String()))
	fmt.Fprintf(w, "%*s%s\n", gutter, "", t.palette.Dim(string(ticks)))
}

func (t terminal) row(w io.Writer, row Row) {
	if len(row.Marks) > 0 {
		marks := newLine(t.width + 4)
		for _, m := range row.Marks {
			marks.put(t.column(m.At), fmt.Sprint(m.Number))
		}
		fmt.Fprintf(w, "%*s%s\n", gutter, "", t.palette.Bold(marks.String()))
	}
	fmt.Fprintf(w, "%-*s%s\n", gutter, "  "+row.Name, t.bars(row.Bars))
	if len(row.Deadlines) > 0 {
		line := newLine(t.width + 30)
		for _, d := range row.Deadlines {
			text := "▲ deadline"
			if d.Moved {
				text = "△ first deadline, moved"
			}
			line.put(t.column(d.At), text)
		}
		fmt.Fprintf(w, "%*s%s\n", gutter, "", t.palette.paint(t.palette.yellow, line.String()))
	}
}

func (t terminal) glyph(s State) (string, string) {
	switch s {
	case HoldsQuota:
		return "▒", t.palette.cyan
	case Runs:
		return "█", t.palette.green
	case Waits:
		return "~", t.palette.yellow
	case Free:
		return " ", t.palette.dim
	default:
		return "·", t.palette.dim
	}
}

func (t terminal) bars(bars []Bar) string {
	var out strings.Builder
	at := 0
	for _, b := range bars {
		from, to := t.column(b.From), t.column(b.To)
		if b.State == Done {
			out.WriteString(strings.Repeat(" ", max(0, from-at)) + t.palette.paint(t.palette.green, "✓"))
			break
		}
		if from > at {
			out.WriteString(strings.Repeat(" ", from-at))
			at = from
		}
		glyph, colour := t.glyph(b.State)
		text := strings.Repeat(glyph, max(0, to-at))
		switch {
		case b.State == Free:
			text = centred(b.Label, to-at, " ", " ", " ")
		case b.Label != "":
			text = centred(b.Label, to-at, "├", "─", "┤")
		}
		out.WriteString(t.palette.paint(colour, text))
		at = max(at, to)
	}
	return out.String()
}

func (t terminal) legend(w io.Writer) {
	parts := make([]string, 0, len(stateNames))
	for _, s := range stateNames {
		glyph, colour := t.glyph(s.State)
		parts = append(parts, t.palette.paint(colour, strings.Repeat(glyph, 2))+" "+s.Name)
	}
	fmt.Fprintf(w, "\n  %s\n\n", strings.Join(parts, "   "))
}

// centred returns a bar of the given width around its label, if that fits.
func centred(label string, width int, left, fill, right string) string {
	if width < 2 {
		return strings.Repeat(left, max(0, width))
	}
	inner := width - 2
	if len(label) > inner {
		label = ""
	}
	before := (inner - len(label)) / 2
	return left + strings.Repeat(fill, before) + label + strings.Repeat(fill, inner-before-len(label)) + right
}

// line takes texts at columns; later ones never overwrite earlier ones.
type line []rune

func newLine(width int) line {
	return line([]rune(strings.Repeat(" ", width)))
}

func (l line) put(at int, text string) {
	runes := []rune(text)
	for at > 0 && at < len(l) && l[at-1] != ' ' {
		at++
	}
	for i := 0; i < len(runes) && at+i < len(l); i++ {
		if l[at+i] != ' ' {
			return
		}
		l[at+i] = runes[i]
	}
}

func (l line) String() string {
	return strings.TrimRight(string(l), " ")
}
