package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A step of the picture is several buckets wide: single buckets are too narrow to see.
const (
	bucketsPerStep = bucketsPerDoubling / 4
	latencySteps   = latencyBuckets / bucketsPerStep
)

// drawHistograms draws each histogram as steps over a logarithmic axis of time, each step as a share of the histogram's
// own calls; nothing without counts.
func drawHistograms(all []Histogram) template.HTML {
	low, high, most := latencySteps, -1, 0.0
	var names []string
	for _, h := range all {
		for i := range latencySteps {
			if share := h.share(i); share > 0 {
				low, high, most = min(low, i), max(high, i), max(most, share)
			}
		}
		names = append(names, fmt.Sprintf("%s: %s calls, p50 %s, p99 %s", h.Name, groupDigits(strconv.Itoa(h.Total)),
			shortTime(h.Quantile(0.5)), shortTime(h.Quantile(0.99))))
	}
	if high < 0 {
		return ""
	}
	low, high = max(0, low-1), min(latencySteps-1, high+1)
	c := newCanvas("Latency: "+strings.Join(names, "; "), svgHeight+14*len(all))
	axes := stepAxes{low: low, high: high, top: roundUp(most)}
	for i := range 5 {
		y := padTop + plotHeight*(1-float64(i)/4)
		c.add(`<line class="axis" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, padLeft, svgWidth-padRight, y, y)
		c.text(padLeft-6, y+4, "end", shortNumber(axes.top*float64(i)/4)+" %")
	}
	c.text(padLeft-6, 12, "end", "of calls")
	for s := low; s <= high; s++ {
		if every := (high-low)/6 + 1; (s-low)%every == 0 {
			c.text(axes.x(s), svgHeight-padBottom+15, "start", shortTime(bucketEnd(s*bucketsPerStep-1)))
		}
	}
	for i, h := range all {
		c.drawSteps(h, colour(i), axes)
		c.add(`<rect x="%d" y="%d" width="9" height="9" rx="2" fill="%s"/>`, padLeft, svgHeight+14*i-8, colour(i))
		c.text(padLeft+14, float64(svgHeight+14*i), "start", names[i])
	}
	return c.done()
}

// share is a step's part of all calls, in per cent.
func (h *Histogram) share(step int) float64 {
	calls := 0
	for _, n := range h.Counts[step*bucketsPerStep : (step+1)*bucketsPerStep] {
		calls += n
	}
	return 100 * share(float64(calls), float64(h.Total))
}

// stepAxes places the steps from low to high, and shares of up to top per cent.
type stepAxes struct {
	low, high int
	top       float64
}

func (a stepAxes) x(step int) float64 {
	return padLeft + plotWidth*float64(step-a.low)/float64(a.high-a.low+1)
}

func (a stepAxes) y(share float64) float64 { return padTop + plotHeight*(1-share/a.top) }

func (c *canvas) drawSteps(h Histogram, colour string, a stepAxes) {
	c.add(`<polyline fill="%s" fill-opacity="0.18" stroke="%s" stroke-width="1.5" points="%.1f,%.1f `, colour, colour,
		a.x(a.low), a.y(0))
	for s := a.low; s <= a.high; s++ {
		c.add("%.1f,%.1f %.1f,%.1f ", a.x(s), a.y(h.share(s)), a.x(s+1), a.y(h.share(s)))
	}
	c.add(`%.1f,%.1f"/>`, a.x(a.high+1), a.y(0))
}

func shortTime(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.3gus", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}

// The picture of horizontal bars: one a line.
const (
	barLeft        = 150
	barRight       = 170
	barHeight      = 20
	barWidth       = svgWidth - barLeft - barRight
	maxBars        = 24
	overLimitWidth = 1.1 // how far a bar over its limit goes
)

// drawBudgets draws the highest use of a limit for each receiver; nothing without limits.
func drawBudgets(all []Budget) template.HTML {
	fullest := map[string]Budget{}
	for _, b := range all {
		if f, known := fullest[b.Persona]; b.Limit > 0 && (!known || b.use() > f.use()) {
			fullest[b.Persona] = b
		}
	}
	var bars []Budget
	for _, b := range fullest {
		bars = append(bars, b)
	}
	if len(bars) == 0 {
		return ""
	}
	slices.SortFunc(bars, func(a, b Budget) int {
		return cmp.Or(cmp.Compare(b.use(), a.use()), cmp.Compare(a.Persona, b.Persona))
	})
	bars = bars[:min(len(bars), maxBars)]
	c := newCanvas("Use of each receiver's fullest limit", barHeight*len(bars)+24)
	for i, b := range bars {
		y := float64(i * barHeight)
		fill := "var(--c0)"
		if b.use() > 1 {
			fill = "var(--bad)"
		}
		c.text(barLeft-8, y+14, "end", b.Persona)
		c.add(`<rect x="%d" y="%.1f" width="%.1f" height="12" rx="2" fill="%s"/>`, barLeft, y+4,
			barWidth*min(b.use(), overLimitWidth), fill)
		c.add(`<title>%s %s</title>`, escape(b.Persona), escape(b.Kind))
		c.text(barLeft+barWidth*overLimitWidth+6, y+14, "start",
			fmt.Sprintf("%d of %d %s", b.Seen, b.Limit, shortKind(b.Kind)))
	}
	c.add(`<line x1="%d" x2="%d" y1="0" y2="%d" stroke="var(--bad)" stroke-dasharray="3 3"/>`, barLeft+barWidth,
		barLeft+barWidth, barHeight*len(bars))
	c.text(barLeft+barWidth, float64(barHeight*len(bars)+14), "middle", "the limit")
	return c.done()
}

func (b Budget) use() float64 { return share(float64(b.Seen), float64(b.Limit)) }

// shortKind shortens the referee's name of a limit to fit next to a bar.
func shortKind(kind string) string {
	short := map[string]string{
		"connections": "conn", "connections_per_minute": "conn/min", "rcpts_per_minute": "rcpt/min",
		"rcpts_per_transaction": "rcpt/trans",
		"rcpts_per_connection":  "rcpt/conn", "transactions_per_connection": "trans/conn",
		"refusals_per_connection": "ref/conn", "refusals_per_hour": "ref/h",
	}
	if s, ok := short[kind]; ok {
		return s
	}
	return kind
}

// drawStages draws the CPU time of each stage, split by process; nothing without CPU.
func drawStages(all []Stage) template.HTML {
	var most time.Duration
	var processes []string
	for _, s := range all {
		most = max(most, s.total())
		for _, p := range s.Parts {
			if !slices.Contains(processes, p.Process) {
				processes = append(processes, p.Process)
			}
		}
	}
	if most == 0 {
		return ""
	}
	c := newCanvas("CPU time by stage and process", padTop+38*len(all))
	c.legend(0, processes)
	for i, s := range all {
		y := float64(padTop + 38*i)
		c.text(0, y+10, "start", s.Name)
		x := 0.0
		for _, p := range s.Parts {
			width := (svgWidth - barRight) * float64(p.CPU) / float64(most)
			c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="13" fill="%s"/>`, x, y+15, width,
				colour(slices.Index(processes, p.Process)))
			x += width
		}
		c.text(x+6, y+26, "start", fmt.Sprintf("%.2f s", s.total().Seconds()))
	}
	return c.done()
}

func (s Stage) total() (sum time.Duration) {
	for _, p := range s.Parts {
		sum += p.CPU
	}
	return sum
}
