package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/store"
)

// The bounds of a preview.
const (
	previewRows = 10
	previewCell = 200 // bytes of a cell or name; longer ones are cut
)

// Preview is the beginning of a job's list as it was read.
type Preview struct {
	Columns []string   // names; those without a header are numbers from 1
	Rows    [][]string // cells of the first rows
}

// Preview reads the beginning of a job's list.
func (c *Coordinator) Preview(j *store.Job) (p Preview, err error) {
	var d csvfile.Dialect
	if err := json.Unmarshal(j.Dialect, &d); err != nil {
		return p, fmt.Errorf("dialect: %w", err)
	}
	u, err := c.files.OpenUpload(j)
	if err != nil {
		return p, err
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
	return p, errors.Join(err, u.Close())
}

// shorten cuts a text that is too long to be shown, at a character.
func shorten(s string) string {
	if len(s) <= previewCell {
		return s
	}
	return strings.ToValidUTF8(s[:previewCell], "") + "…"
}
