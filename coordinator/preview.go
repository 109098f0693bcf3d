package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"probity/coordinator/csvfile"
	"probity/coordinator/dispatch"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/store"
)

// The bounds of a preview.
const (
	previewRows   = 10
	previewCell   = 200 // bytes of a cell or name; longer ones are cut
	maxLeastTimes = 256

	// of its plan, and of that its DNS lookups: a client waits for the job's record
	planPatience, lookupPatience = 5 * time.Second, 3 * time.Second
)

// Preview is the beginning of a job's list as it was read, and the least time that it takes.
type Preview struct {
	Columns   []string       // names; those without a header are numbers from 1
	Rows      [][]string     // cells of the first rows
	LeastTime *time.Duration // as Plan computes it; nil if that is not known
}

// Preview reads the list of a job in state ready.
func (c *Coordinator) Preview(ctx context.Context, j *store.Job) (p Preview, err error) {
	if err := p.readBeginning(c.files, j); err != nil {
		return p, err
	}
	p.LeastTime, err = c.leastTimes.read(ctx, c, j)
	return p, err
}

// planned is a job, and what its plan depends on that can change while it is ready.
type planned struct {
	job     string
	sources int
	table   *engine.Table
}

// leastTimes are those of jobs in state ready, as computed last: the dashboard asks for a job every few seconds.
type leastTimes struct {
	*lru.Cache[planned, time.Duration]
}

func newLeastTimes() leastTimes {
	times, err := lru.New[planned, time.Duration](maxLeastTimes)
	if err != nil {
		panic("BUG: a cache of no size: " + err.Error())
	}
	return leastTimes{times}
}

// read returns the least time of a job; nil if that takes too long to compute, or if the domains of more than a
// thousandth of the addresses could not be looked up in time.
func (l leastTimes) read(ctx context.Context, c *Coordinator, j *store.Job) (*time.Duration, error) {
	key := planned{job: j.ID, table: c.table.Load()}
	if c.planner.Sources != nil {
		key.sources = c.planner.Sources()
	}
	if least, known := l.Get(key); known {
		return &least, nil
	}
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	p, err := c.Plan(ctx, j.ID,
		plan.Options{Sources: key.sources, Refused: plan.DefaultRefused, Lookups: lookupPatience})
	switch {
	case errors.Is(err, context.DeadlineExceeded), err == nil && p.Uncounted*dispatch.FewOfAll > p.Addresses:
		return nil, nil
	case err != nil:
		return nil, err
	}
	l.Add(key, p.MinTime)
	return &p.MinTime, nil
}

// readBeginning reads the beginning of a job's list.
func (p *Preview) readBeginning(files *jobdir.Dirs, j *store.Job) (err error) {
	var d csvfile.Dialect
	if err := json.Unmarshal(j.Dialect, &d); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	u, err := files.OpenUpload(j)
	if err != nil {
		return err
	}
	for _, name := range d.ColumnNames(u.Preamble) {
		p.Columns = append(p.Columns, shorten(name))
	}
	var frame jobfiles.FrameReader
	for i := 0; i < len(u.Frames) && len(p.Rows) < previewRows && err == nil; i++ {
		err = frame.Read(u, &d, i)
		for row := 0; err == nil && row < len(frame.Block.Rows) && len(p.Rows) < previewRows; row++ {
			var cells []string
			d.EachCell(&frame.Block, row, func(text []byte) { cells = append(cells, shorten(string(text))) })
			p.Rows = append(p.Rows, cells)
		}
	}
	return errors.Join(err, u.Close())
}

// shorten cuts a text that is too long to be shown, at a character.
func shorten(s string) string {
	if len(s) <= previewCell {
		return s
	}
	return strings.ToValidUTF8(s[:previewCell], "") + "…"
}
