package progress

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"

	"probity/coordinator"
	"probity/internal/console"
	"probity/store"
)

// Display shows the progress of a job: a bar on a terminal, a line every lineInterval in a pipe.
type Display struct {
	con  *console.IO
	bar  *progressbar.ProgressBar
	last time.Time
}

// Interval is how often progress is read, lineInterval how often a pipe gets a line.
const (
	Interval     = 200 * time.Millisecond
	lineInterval = 5 * time.Second
)

// New makes a display on the standard error of a command.
func New(con *console.IO) *Display { return &Display{con: con, last: time.Now()} }

// Follow shows the job until its end, and returns the ended job.
func (d *Display) Follow(ctx context.Context, c *coordinator.Coordinator, id string) (*store.Job, error) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		s, err := c.Snapshot(id)
		if err != nil {
			return nil, err
		}
		d.Show(s)
		if s.State.Finished() {
			d.End()
			return &s.Job, nil
		}
		select {
		case <-ctx.Done():
			d.End()
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Show shows the job as it is now.
func (d *Display) Show(s coordinator.Snapshot) {
	if !d.con.Terminal {
		if time.Since(d.last) >= lineInterval {
			d.last = time.Now()
			var line strings.Builder
			fmt.Fprintf(&line, "%s: %d of %d rows, %.0f/s, %d waiting for a retry or for budget", s.State, s.Processed,
				s.Rows, s.Rate, s.PendingRetry+s.WaitingBudget)
			for _, w := range s.Waiting[:min(3, len(s.Waiting))] { // the classes with the most waiting rows
				fmt.Fprintf(&line, "; %s: %d", w.Class, w.Rows)
				if !w.Until.IsZero() {
					fmt.Fprintf(&line, " until %s", w.Until.Local().Format(time.TimeOnly))
				}
			}
			fmt.Fprintln(d.con.Err, line.String())
		}
		return
	}
	if d.bar == nil {
		d.bar = progressbar.NewOptions64(s.Rows, progressbar.OptionSetWriter(d.con.Err), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("rows"), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth(), progressbar.OptionEnableColorCodes(true))
	}
	d.bar.Describe(string(s.State))
	_ = d.bar.Set64(s.Processed) // a bar that cannot be drawn does not stop the job
}

// End ends the bar.
func (d *Display) End() {
	if d.bar != nil {
		fmt.Fprintln(d.con.Err)
	}
}

// PrintSummary prints the rows by status and by reason, and where the result is. Shares are of the rows that have an
// address.
func PrintSummary(con *console.IO, j *store.Job, output string) error {
	w := tabwriter.NewWriter(con.Err, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "rows\t%d\ndistinct addresses\t%d\n", j.Rows, j.Unique)
	for _, more := range []struct {
		what string
		n    int64
	}{{"duplicate rows", j.Duplicates}, {"blank rows", j.Blank}} {
		if more.n > 0 {
			fmt.Fprintf(w, "%s\t%d\n", more.what, more.n)
		}
	}
	printCounts(w, "status", j.Counts, j.Rows-j.Blank)
	printCounts(w, "reason", j.Reasons, j.Rows-j.Blank)
	if output != "" {
		fmt.Fprintf(w, "\nresult: %s\n", output)
	}
	return w.Flush()
}

// printCounts prints counts under a title, the largest first, with their share of all.
func printCounts(w *tabwriter.Writer, title string, counts map[string]int64, all int64) {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		if i == 0 && counts[name] > 0 {
			fmt.Fprintf(w, "\n%s\trows\tshare\n", title)
		}
		if counts[name] > 0 && name != "" {
			fmt.Fprintf(w, "%s\t%d\t%.1f %%\n", name, counts[name], 100*float64(counts[name])/float64(max(1, all)))
		}
	}
}
