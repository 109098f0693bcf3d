package service_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

const (
	uploadRowsEnv    = "PROBITY_UPLOAD_ROWS"
	uploadGrowth     = 250 << 20 // bytes that the server may grow by, from the first byte to the last download
	uploadSource     = "127.0.1.5"
	uploadSeed       = 25
	raceMemoryFactor = 2 // factor of memory with the race detector
	uploadReceiver   = "127.0.2.2"
)

// uploadRows returns how many rows are uploaded: by default as many as the race detector leaves time for, and still
// twice the 100,000 rows whose callback must stream. By hand, without cgo, so that the collector sees all memory:
// CGO_ENABLED=0 PROBITY_UPLOAD_ROWS=5000000 go test -timeout 2h -run TestService/^upload
func uploadRows(t *testing.T) (rows int, byHand bool) {
	text := os.Getenv(uploadRowsEnv)
	if text == "" {
		return 200_000, false
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err, uploadRowsEnv)
	return rows, true
}

// testUpload sends a long list in chunks, with the callback's URL after the file, and follows it to the last download.
// The server's memory must not grow with it. By default the key is a test key, which probes no mail server; all else is
// the same.
func testUpload(t *testing.T, p *serviceEnv) {
	rows, byHand := uploadRows(t)
	data := t.TempDir()
	var c *customer
	withStoppedStore(t, data, func(s *store.Store) {
		c = p.addCustomer(t, s, "big@customer.example", int64(rows), unlimited)
		if !byHand {
			key, _, err := s.CreateKey(c.account, store.NewKey{Name: "test", Test: true}, "test", time.Now())
			require.NoError(t, err)
			c.key = key
		}
	})
	s := startServer(t, p, data, uploadSource)
	c.base = s.base
	receiver := newCallbackReceiver(t, uploadReceiver, answerWith(http.StatusOK))
	c.warmUp(t, p)
	before, _ := s.memoryUse(t)
	grown := func(when string) {
		t.Helper()
		now, peak := s.memoryUse(t)
		t.Logf("%s: resident %d MB, peak %d MB, at first %d MB", when, now>>20, peak>>20, before>>20)
		most := int64(uploadGrowth)
		if detector.On {
			most *= raceMemoryFactor
		}
		assert.Less(t, (peak-before)>>20, most>>20, "megabytes of growth when "+when) // assert, to see the rest
	}

	began := time.Now()
	took := func(what string) {
		t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
	}
	list := p.streamList(rows)
	j := c.upload(t, formPart{"file", "big.csv", list}, field("callback_url", receiver.url),
		field("callback_content", "full"))
	took("accepted " + strconv.FormatInt(list.bytesRead>>20, 10) + " MB")
	grown("accepted")
	require.EqualValues(t, rows, j.TotalRows)
	j = c.follow(t, j.ID)
	took("finished")
	grown("finished")
	require.Equal(t, "completed", j.Status, j.Error)
	e := receiver.next(t, p)
	took("called back")
	grown("called back")
	require.EqualValues(t, rows, e.rows)

	found := c.scoreDownload(t, p, j.ID, rows)
	took("downloaded")
	require.EqualValues(t, rows, found.Rows)
	require.Zero(t, found.MissingRows+found.ExtraRows+found.OrderErrors+found.ChangedCells, "%+v", found)
	if byHand {
		harness.RequireScore(t, found)
	}
	require.Equal(t, j.Counts["VALID"]+j.Counts["RISKY"], c.countFiltered(t, j.ID))
	took("downloaded with a filter")
	grown("downloaded")
	s.stop(t)
	withStoppedStore(t, data, func(s *store.Store) { require.NoError(t, s.CheckLedger(c.account)) })
}

// warmUp lets the server do everything once, so that the memory of one-time work is not measured.
func (c *customer) warmUp(t *testing.T, p *serviceEnv) {
	list, _ := p.drawList(t, 100, 26)
	j := c.follow(t, c.upload(t, fileOf(list)).ID)
	require.Equal(t, "completed", j.Status, j.Error)
	c.results(t, j.ID, "")
}

// streamedList is a list that is made while it is read.
type streamedList struct {
	*io.PipeReader
	bytesRead int64
}

func (f *streamedList) Read(b []byte) (int, error) {
	n, err := f.PipeReader.Read(b)
	f.bytesRead += int64(n)
	return n, err
}

func (p *serviceEnv) streamList(rows int) *streamedList {
	out, in := io.Pipe()
	go func() { // ends with the list, or with its reader
		in.CloseWithError(world.WriteList(in, p.world, rows, uploadSeed))
	}()
	return &streamedList{PipeReader: out}
}

// scoreDownload compares the result file with the truth, row by row while both are read.
func (c *customer) scoreDownload(t *testing.T, p *serviceEnv, id string, rows int) score.Scores {
	t.Helper()
	truth, in := io.Pipe()
	list := p.streamList(rows)
	go func() {
		in.CloseWithError(errors.Join(score.WriteTruth(in, p.world, list), list.Close()))
	}()
	defer truth.Close()
	resp, err := c.open(http.MethodGet, "/v1/verify/bulk/"+id+"/results", "", nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	found, err := score.Compare(truth, resp.Body)
	require.NoError(t, err)
	return found
}

// countFiltered downloads the good rows as lines of JSON, compressed.
func (c *customer) countFiltered(t *testing.T, id string) (n int64) {
	t.Helper()
	resp, err := c.open(http.MethodGet, "/v1/verify/bulk/"+id+"/results?status=VALID,RISKY&format=jsonl&compress=gzip",
		"", nil, "Accept-Encoding", "identity")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	packed, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	lines := bufio.NewScanner(packed)
	lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); n++ {
		if n == 0 {
			require.True(t, json.Valid(lines.Bytes()), "%s", lines.Bytes())
		}
		require.False(t, bytes.Contains(lines.Bytes(), []byte(`"INVALID"`)), "%s", lines.Bytes())
	}
	require.NoError(t, lines.Err())
	return n
}
