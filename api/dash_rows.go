package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"probity/coordinator"
	"probity/store"
)

// The bounds of looking through results: so many rows an answer, so long a look, so many looks at one time.
const (
	maxFound   = 100
	searchTime = 8 * time.Second
	searchers  = 2
	maxLine    = 1 << 20
	keptTables = 64 // provider tables of finished jobs, which never change
)

var errEnough = errors.New("enough was found")

// search is one look through the results of a job, line by line.
type search struct {
	words []byte // in lower case; empty matches all
	after int64  // rows up to this one were looked at before
	limit int
	found []json.RawMessage
	last  int64 // the row that was looked at last
}

// findRows serves the rows of a job whose address has some letters in it.
func (x *exchange) findRows() error {
	j, err := x.job()
	if err != nil {
		return err
	}
	f := coordinator.Filter{Form: coordinator.Form{Format: coordinator.JSONL, Compress: coordinator.None}, Partial: true}
	if x.ctx.QueryArgs().Has("status") {
		if f.Status, err = readStatuses(x.query("status")); err != nil {
			return err
		}
	}
	limit, err := x.queryNumber("limit", 50, 1, maxFound)
	if err != nil {
		return err
	}
	after, err := x.queryNumber("after", 0, 0, 1<<40)
	if err != nil {
		return err
	}
	if err := readable(j, f); err != nil {
		return err
	}
	s := &search{words: []byte(strings.ToLower(x.query("q"))), after: after, limit: int(limit), found: []json.RawMessage{}}
	whole, err := x.look(j, f, s.line)
	if err != nil {
		return err
	}
	var next *int64
	if !whole {
		next = &s.last
	}
	return x.sendAs(statusOK, map[string]any{"rows": s.found, "next_after": next})
}

// look gives the lines of a job's results to visit, until it has enough, or for searchTime. whole tells that it saw all.
func (x *exchange) look(j *store.Job, f coordinator.Filter, visit func([]byte) error) (whole bool, err error) {
	ctx, cancel := context.WithTimeout(x.srv.ending, searchTime)
	defer cancel()
	select {
	case x.srv.dash.searching <- struct{}{}:
		defer func() { <-x.srv.dash.searching }()
	case <-ctx.Done():
		return false, busy("The server is busy with other searches")
	}
	r, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(x.srv.rooms.Coordinator.Results(ctx, j.ID, f, w)) })
	err = eachLine(r, visit)
	cancel()
	err = errors.Join(err, r.CloseWithError(errEnough))
	writer.Wait()
	if errors.Is(err, errEnough) || errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

func eachLine(r io.Reader, visit func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if err := visit(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// line looks at a row.
func (s *search) line(b []byte) error {
	if s.last = rowOf(b); s.last <= s.after || (len(s.words) > 0 && !bytes.Contains(bytes.ToLower(b), s.words)) {
		return nil
	}
	var row struct {
		Email string `json:"email"`
	}
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	if row.Email == "" || !strings.Contains(strings.ToLower(row.Email), string(s.words)) {
		return nil
	}
	s.found = append(s.found, append(json.RawMessage(nil), b...))
	if len(s.found) >= s.limit {
		return errEnough
	}
	return nil
}

// rowOf is the number that each line begins with.
func rowOf(b []byte) (n int64) {
	digits, _ := bytes.CutPrefix(b, []byte(`{"row":`))
	for _, c := range digits {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// providerTable counts the rows of a job by provider and status.
type providerTable map[string]map[string]int64

// kept remembers the tables of finished jobs, the newest keptTables of them.
type kept struct {
	mu     sync.Mutex // guards both
	tables map[string]providerTable
	order  []string
}

func (k *kept) get(id string) (providerTable, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.tables[id]
	return t, ok
}

func (k *kept) put(id string, t providerTable) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tables == nil {
		k.tables = make(map[string]providerTable)
	}
	if _, is := k.tables[id]; !is {
		k.order = append(k.order, id)
	}
	k.tables[id] = t
	if len(k.order) > keptTables {
		delete(k.tables, k.order[0])
		k.order = k.order[1:]
	}
}

// countProviders serves the rows of a finished job by provider and status. Of a very long list it counts the rows that
// it can in searchTime, and tells so.
func (x *exchange) countProviders() error {
	j, err := x.job()
	if err != nil {
		return err
	}
	f := coordinator.Filter{Form: coordinator.Form{Format: coordinator.JSONL, Compress: coordinator.None}}
	if err := readable(j, f); err != nil {
		return err
	}
	if t, ok := x.srv.dash.kept.get(j.ID); ok {
		return x.sendAs(statusOK, map[string]any{"providers": t, "complete": true})
	}
	t := providerTable{}
	whole, err := x.look(j, f, t.line)
	if err != nil {
		return err
	}
	if whole {
		x.srv.dash.kept.put(j.ID, t)
	}
	return x.sendAs(statusOK, map[string]any{"providers": t, "complete": whole})
}

// line counts a row.
func (t providerTable) line(b []byte) error {
	status, provider := textBehind(b, `,"status":"`), textBehind(b, `,"smtp_provider":"`)
	if status == "" {
		return nil
	}
	if t[provider] == nil {
		t[provider] = make(map[string]int64, 4)
	}
	t[provider][status]++
	return nil
}

// textBehind is the string that stands behind a key of our own making, as it is written: names of statuses and providers
// have no character that JSON escapes. An address before it cannot be taken for the key, since its quotes are escaped.
func textBehind(b []byte, key string) string {
	_, rest, ok := bytes.Cut(b, []byte(key))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}
