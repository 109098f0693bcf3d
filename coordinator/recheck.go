package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

// Recheck makes a new job of the rows of a finished job that have one of some reasons, with all columns of the list.
// Its reading options are those of the first list.
func (c *Coordinator) Recheck(ctx context.Context, j *store.Job, reasons []engine.Reason,
	o ingest.Options) (*store.Job, error) {
	var d csvfile.Dialect
	if err := json.Unmarshal(j.Dialect, &d); err != nil {
		return nil, fmt.Errorf("dialect: %w", err)
	}
	o.Reading = csvfile.Options{Index: d.Column + 1, NoHeader: !d.HasHeader, Delimiter: d.Delimiter, AnyColumn: true}
	ctx, stop := context.WithCancel(ctx)
	rows, w := io.Pipe()
	var writer sync.WaitGroup
	wanted := results.Filter{Reasons: reasons, InputOnly: true}
	writer.Go(func() { w.CloseWithError(c.Results(ctx, j.ID, wanted, w)) })
	made, err := c.Accept(ctx, ingest.Upload{Body: rows, Options: o})
	stop()
	_ = rows.Close() // ends the writer, even if the list was refused
	writer.Wait()
	return made, err
}
