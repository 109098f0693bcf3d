package receipts

import (
	"bytes"
	"context"
	"encoding/hex"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/receipt"
	"probity/store"
)

func sign(s *store.Store, result []byte, table *engine.Table, now time.Time) ([]byte, error) {
	keys, err := keysOf(s, now)
	if err != nil {
		return nil, err
	}
	hash := table.Hash()
	return receipt.Sign(keys[len(keys)-1].private(), result, hex.EncodeToString(hash[:]), now)
}

// Add adds the receipt of a single verification to its answer.
func Add(s *store.Store, answer []byte, a results.Single, now time.Time) ([]byte, error) {
	a.Details = true
	signed, err := sign(s, a.AppendJSON(nil, now), a.Table, now)
	if err != nil {
		return nil, err
	}
	answer = append(answer[:len(answer)-1], `,"receipt":`...)
	return append(append(answer, signed...), '}'), nil
}

// Read reads a request for a receipt of a row. The job that it names becomes the parameter of the call.
func Read(c *httpd.Call) (row int64, err error) {
	d := c.Document()
	c.Param, err = d.RequiredText("job_id")
	if err != nil {
		return 0, err
	}
	if !d.Has("row") {
		return 0, httpd.Refuse(httpd.Unacceptable, "row is missing: send the number of the row in the results; the first is 1.")
	}
	return d.Number("row", 0, 1, csvfile.MaxRows)
}

// OfRow is the receipt of a row of a finished job.
func OfRow(ctx context.Context, s *store.Store, c *coordinator.Coordinator, j *store.Job, row int64, now time.Time) ([]byte, error) {
	if !j.Details || j.Test {
		return nil, httpd.Refuse(httpd.Unacceptable, "This job has no details, so there is nothing to sign: upload the list with details=true and a live key.")
	}
	var line bytes.Buffer
	f := results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true, Row: uint32(row)}
	if err := c.Results(ctx, j.ID, f, &line); err != nil {
		return nil, err
	}
	if line.Len() == 0 || bytes.Contains(line.Bytes(), []byte(`,"status":null,`)) {
		return nil, httpd.Refuse(httpd.Unacceptable, "row %d has no verdict: name a row of the list that has an address.", row)
	}
	return sign(s, line.Bytes(), coordinator.TableOf(c), now)
}
