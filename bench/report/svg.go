package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// The drawing area, in SVG units. Text is 11 units high.
const (
	svgWidth   = 480
	svgHeight  = 230
	padLeft    = 58
	padRight   = 12
	padTop     = 24
	padBottom  = 34
	plotWidth  = svgWidth - padLeft - padRight
	plotHeight = svgHeight - padTop - padBottom
	colours    = 5
	maxPoints  = 600 // of one line: more than a screen shows
)

// canvas collects the elements of one picture. Text is escaped where it enters.
type canvas struct{ strings.Builder }

func newCanvas(label string, height int) *canvas {
	c := &canvas{}
	c.add(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, svgWidth, height, escape(label))
	return c
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(c, format, args...) }

func (c *canvas) text(x, y float64, anchor, s string) {
	c.add(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, escape(s))
}

func (c *canvas) done() template.HTML {
	c.WriteString("</svg>")
	return template.HTML(c.String())
}

func escape(s string) string { return template.HTMLEscapeString(s) }

func colour(i int) string { return fmt.Sprintf("var(--c%d)", i%colours) }

// axes is the frame of a picture with a linear scale on both sides, from 0.
type axes struct {
	*canvas
	maxX, maxY float64
}

func (c *canvas) axes(maxX, maxY float64, unitX, unitY string) axes {
	a := axes{canvas: c, maxX: roundUp(maxX), maxY: roundUp(maxY)}
	for i := range 5 {
		share := float64(i) / 4
		y := a.y(a.maxY * share)
		c.add(`<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, padLeft, svgWidth-padRight, y, y)
		c.text(padLeft-6, y+4, "end", shortNumber(a.maxY*share))
		c.text(a.x(a.maxX*share), svgHeight-padBottom+15, "middle", shortNumber(a.maxX*share))
	}
	c.text(padLeft-6, 12, "end", unitY)
	c.text(svgWidth-padRight, svgHeight-4, "end", unitX)
	return a
}

func (a axes) x(v float64) float64 { return padLeft + plotWidth*share(v, a.maxX) }
func (a axes) y(v float64) float64 { return padTop + plotHeight*(1-share(v, a.maxY)) }

// roundUp is the next value that divides well by four.
func roundUp(v float64) float64 {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 6, 8, 10} {
		if v <= step*unit {
			return step * unit
		}
	}
	return 10 * unit
}

// shortNumber writes a value for an axis.
func shortNumber(v float64) string {
	switch {
	case v >= 1e6:
		return trimZero(v/1e6) + "M"
	case v >= 1e4:
		return trimZero(v/1e3) + "k"
	}
	return trimZero(v)
}

func trimZero(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0") }

// legend names the lines or bars of a picture above it.
func (c *canvas) legend(x float64, names []string) {
	for i, name := range names {
		c.add(`<rect x="%.1f" y="5" width="9" height="9" rx="2" fill="%s"/>`, x, colour(i))
		c.text(x+13, 13, "start", name)
		x += 24 + 6.2*float64(len(name))
	}
}

// drawLines draws series over time; nothing without points.
func drawLines(all []Series, label string) template.HTML {
	var maxX, maxY float64
	var names []string
	for _, s := range all {
		for i := range s.Seconds {
			maxX, maxY = max(maxX, s.Seconds[i]), max(maxY, s.Values[i])
		}
		names = append(names, s.Name)
	}
	if maxX == 0 {
		return ""
	}
	c := newCanvas(label, svgHeight)
	a := c.axes(maxX, maxY, "seconds", all[0].Unit)
	c.legend(padLeft, names)
	for i, s := range all {
		c.add(`<polyline fill="none" stroke-width="1.8" stroke-linejoin="round" stroke="%s" points="`, colour(i))
		every := len(s.Seconds)/maxPoints + 1
		for j := 0; j < len(s.Seconds); j += every {
			c.add("%.1f,%.1f ", a.x(s.Seconds[j]), a.y(s.Values[j]))
		}
		c.add(`"/>`)
	}
	return c.done()
}

// share is a/b, and 0 if b is 0.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
