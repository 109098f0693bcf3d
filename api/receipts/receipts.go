package receipts

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/receipt"
	"probity/store"
	"probity/store/history"
)

// sign signs a result that was decided by the provider table with a hash.
func sign(s *store.Store, result []byte, table [8]byte, now time.Time) ([]byte, error) {
	keys, err := keysOf(s, now)
	if err != nil {
		return nil, err
	}
	return receipt.Sign(keys[len(keys)-1].private(), result, hex.EncodeToString(table[:]), now)
}

// Add adds the receipt of a single verification to its answer.
func Add(s *store.Store, answer []byte, a results.Single, now time.Time) ([]byte, error) {
	a.Details = true
	signed, err := sign(s, a.AppendJSON(nil, now), a.Table.Hash(), now)
	if err != nil {
		return nil, err
	}
	answer = append(answer[:len(answer)-1], `,"receipt":`...)
	return append(append(answer, signed...), '}'), nil
}

// Request is what a receipt is asked of: the single call with an id, else a row of the job that is the parameter of the
// call.
type Request struct {
	Single string
	Row    int64
}

// Read reads a request for a receipt. The job that it names becomes the parameter of the call.
func Read(c *httpd.Call) (q Request, err error) {
	d := c.Document()
	if d.Has("request_id") {
		if d.Has("job_id") || d.Has("row") {
			return q, httpd.Refuse(httpd.Unacceptable,
				"request_id is of a single call, job_id and row are of a list: send one or the other.")
		}
		q.Single, err = d.RequiredText("request_id")
		return q, err
	}
	c.Param, err = d.RequiredText("job_id")
	if err != nil {
		return q, err
	}
	if !d.Has("row") {
		return q, httpd.Refuse(httpd.Unacceptable,
			"row is missing: send the number of the row in the results; the first is 1.")
	}
	q.Row, err = d.Number("row", 0, 1, csvfile.MaxRows)
	return q, err
}

// OfSingle is the receipt of an earlier single call of an account, from the history: the verdict as it was answered. If
// the provider table has changed since, where its rules come from is no longer known.
func OfSingle(s *store.Store, h *history.History, account, request string, table *engine.Table,
	now time.Time) ([]byte, error) {
	v, err := h.Single(account, request)
	if errors.Is(err, history.ErrNotFound) {
		return nil, httpd.Refuse(httpd.NotFound, "There is no such single call in the history of this account: "+
			"check the request_id; the newest %d are kept for %d days.", history.Rows, int(history.MaxAge.Hours()/24))
	}
	if err != nil {
		return nil, err
	}
	if v.Test {
		return nil, httpd.Refuse(httpd.Unacceptable,
			"This verdict of a test key is simulated, and no receipt is signed for it: use a live key.")
	}
	a := results.Single{Email: v.Email, Verdict: v.Verdict, Node: v.Node, Credits: v.Credits, Details: true}
	if table.Hash() == v.Table {
		a.Table = table
	}
	address, err := engine.ParseTrimmed(v.Email)
	if err == nil { // else it is a verdict about bad syntax
		a.Normalized = address.Folded()
	}
	return sign(s, a.AppendJSON(nil, v.At), v.Table, now)
}

// OfRow is the receipt of a row of a finished job.
func OfRow(ctx context.Context, s *store.Store, c *coordinator.Coordinator, j *store.Job, row int64,
	now time.Time) ([]byte, error) {
	if !j.Details || j.Test {
		return nil, httpd.Refuse(httpd.Unacceptable,
			"This job has no details, so there is nothing to sign: upload the list with details=true and a live key.")
	}
	var line bytes.Buffer
	f := results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true, Row: uint32(row)}
	if err := c.Results(ctx, j.ID, f, &line); err != nil {
		return nil, err
	}
	if line.Len() == 0 || bytes.Contains(line.Bytes(), []byte(`,"status":null,`)) {
		return nil, httpd.Refuse(httpd.Unacceptable,
			"row %d has no verdict: name a row of the list that has an address.", row)
	}
	return sign(s, line.Bytes(), coordinator.TableOf(c).Hash(), now)
}
