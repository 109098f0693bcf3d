package service_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

// make resumable sets it; without it a small form runs.
const resumableRowsEnv = "PROBITY_RESUMABLE_ROWS"

const (
	resumableCuts     = 10
	resumablePieces   = 40       // of which an upload consists, if nothing is cut
	resumableGrowth   = 24 << 20 // bytes that the server may grow by, from a tenth of the upload to its end
	resumableDeadline = 30 * time.Minute
)

// cutKind is how a connection is lost.
type cutKind int

const (
	cutNone       cutKind = iota
	cutClosed             // the client closes it amid a piece
	cutReset              // it is reset amid a piece
	cutAnswerLost         // the server has taken the piece, and its answer does not arrive
)

// TestResumedUploadIsExact uploads a list of which each piece has a checksum, loses the connection ten times at random
// moments, and goes on where HEAD says. The server has the bytes that were sent, its job has the rows and distinct
// addresses of the list, little is sent twice, and the server's memory does not grow with the upload.
func TestResumedUploadIsExact(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it takes real processes; run without -short")
	}
	rows := numberFrom(t, resumableRowsEnv, 200_000)
	random := rand.New(rand.NewPCG(killSeed(t), 1))
	ctx, cancel := context.WithTimeout(context.Background(), resumableDeadline)
	t.Cleanup(cancel)
	p := &serviceEnv{processCtx: ctx, ctx: ctx, world: world.New(world.Config{Seed: 1}),
		overrides: filepath.Join(t.TempDir(), "providers.toml"), internet: startInternet(ctx, t)}
	harness.WriteOutput(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	data := t.TempDir()
	var c *customer
	withStoppedStore(t, data, func(s *store.Store) {
		c = p.addCustomer(t, s, "far@customer.example", int64(rows), unlimited)
	})
	s := startServer(t, p, data, "127.0.1.7")
	c.base = s.base

	list, distinct := writeCountedList(t, random, rows)
	u := newCutUpload(t, c, list, random)
	var early int64 // resident bytes, at most, until a tenth was sent
	for u.offset < u.size {
		u.sendPiece(t)
		if early == 0 && u.offset >= u.size/10 {
			_, early = s.memoryUse(t)
		}
	}
	_, late := s.memoryUse(t)
	t.Logf("%d bytes in %d requests, %d bytes twice; peak %d MB after a tenth, %d MB at the end", u.size, u.requests,
		u.sent-u.size, early>>20, late>>20)
	require.Empty(t, u.cuts, "each connection was cut")
	require.LessOrEqual(t, u.sent-u.size, resumableCuts*u.pieceBytes, "bytes that were sent twice")
	require.Less(t, (late-early)>>20, int64(resumableGrowth>>20), "megabytes of growth")

	stored, err := os.Open(filepath.Join(data, "uploads", u.id))
	require.NoError(t, err)
	defer stored.Close()
	require.Equal(t, sumOf(t, io.NewSectionReader(list, 0, u.size)), sumOf(t, stored), "the bytes of the upload")
	j := c.upload(t, field("upload_id", u.id), field("start", "false"))
	require.EqualValues(t, rows, j.TotalRows)
	require.EqualValues(t, distinct, j.Unique)
	require.EqualValues(t, rows-distinct, j.Duplicates)
	_, accepted := s.memoryUse(t)
	t.Logf("peak %d MB when the list was counted", accepted>>20)
	require.Less(t, (accepted-early)>>20, int64(uploadGrowth>>20), "megabytes of growth when it was counted")
	s.stop(t)
}

// writeCountedList writes a list of which one row in ten repeats an earlier address, and returns how many are distinct.
func writeCountedList(t *testing.T, random *rand.Rand, rows int) (list *os.File, distinct int) {
	t.Helper()
	list, err := os.Create(filepath.Join(t.TempDir(), "list.csv"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = list.Close() }) // it was written whole
	w := bufio.NewWriterSize(list, 1<<20)
	_, _ = w.WriteString("number,email\n") // Flush returns the error
	for row := range rows {
		n, local := distinct, "ann"
		if distinct > 0 && random.IntN(10) == 0 {
			n, local = random.IntN(distinct), "ANN"
		} else {
			distinct++
		}
		_, _ = fmt.Fprintf(w, "%d,%s.%d@d%d.example\n", row, local, n, n%1000)
	}
	require.NoError(t, w.Flush())
	return list, distinct
}

func sumOf(t *testing.T, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	_, err := io.Copy(h, r)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// cutUpload is an upload whose connection is cut.
type cutUpload struct {
	c          *customer
	list       *os.File
	id         string
	size       int64
	pieceBytes int64
	offset     int64   // that the server has confirmed
	cuts       []int64 // bytes of the list at which a connection is still to be cut, ascending
	requests   int     // with a piece
	sent       int64   // bytes of all requests
}

func newCutUpload(t *testing.T, c *customer, list *os.File, random *rand.Rand) *cutUpload {
	t.Helper()
	info, err := list.Stat()
	require.NoError(t, err)
	u := &cutUpload{c: c, list: list, size: info.Size(), pieceBytes: info.Size()/resumablePieces + 1}
	for range resumableCuts {
		u.cuts = append(u.cuts, random.Int64N(u.size))
	}
	slices.Sort(u.cuts)
	r, err := c.request(http.MethodPost, "/v1/uploads", "", nil, "Tus-Resumable", "1.0.0", "Upload-Length",
		strconv.FormatInt(u.size, 10))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, r.status, "%s", r.body)
	u.id = path.Base(r.header.Get("Location"))
	return u
}

// sendPiece sends the next piece, and cuts its connection if one of the moments is in it. Then it asks for the offset.
func (u *cutUpload) sendPiece(t *testing.T) {
	t.Helper()
	n := min(u.pieceBytes, u.size-u.offset)
	kind, cutAfter := cutNone, int64(0)
	if len(u.cuts) > 0 && u.cuts[0] < u.offset+n {
		kind = cutKind(len(u.cuts)%3) + cutClosed
		cutAfter = max(u.cuts[0]-u.offset, 0)
		u.cuts = u.cuts[1:]
	}
	status, err := u.patch(t, n, kind, cutAfter)
	u.requests++
	if kind == cutNone && err == nil && status == http.StatusNoContent {
		u.offset += n
		return
	}
	if kind == cutNone {
		require.NoError(t, err)
		require.Equal(t, http.StatusConflict, status, "the server may still read the piece that was cut")
	} else {
		require.Error(t, err, "the connection was cut")
	}
	r, err := u.c.request(http.MethodHead, "/v1/uploads/"+u.id, "", nil, "Tus-Resumable", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status)
	offset, err := strconv.ParseInt(r.header.Get("Upload-Offset"), 10, 64)
	require.NoError(t, err)
	require.Contains(t, []int64{u.offset, u.offset + n}, offset, "a piece counts as a whole or not at all")
	if kind == cutAnswerLost {
		require.Equal(t, u.offset+n, offset, "the server had answered")
	}
	u.offset = offset
}

// patch sends n bytes of the list with their checksum.
func (u *cutUpload) patch(t *testing.T, n int64, kind cutKind, cutAfter int64) (status int, err error) {
	t.Helper()
	var conn *cutConn
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		plain, err := d.DialContext(ctx, network, address)
		conn = &cutConn{Conn: plain, kind: kind}
		return conn, err
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	piece := &countedPiece{from: io.NewSectionReader(u.list, u.offset, n)}
	if kind == cutClosed || kind == cutReset {
		piece.from = io.MultiReader(io.NewSectionReader(u.list, u.offset, cutAfter), cutHere(func() { conn.cut() }))
	}
	r, err := http.NewRequestWithContext(u.c.ctx, http.MethodPatch, u.c.base+"/v1/uploads/"+u.id, piece)
	require.NoError(t, err)
	r.ContentLength = n
	for name, value := range map[string]string{"Authorization": "Bearer " + u.c.key, "Tus-Resumable": "1.0.0",
		"Content-Type": "application/offset+octet-stream", "Upload-Offset": strconv.FormatInt(u.offset, 10),
		"Upload-Checksum": "sha256 " + sumOf(t, io.NewSectionReader(u.list, u.offset, n))} {
		r.Header.Set(name, value)
	}
	answer, err := transport.RoundTrip(r)
	u.sent += piece.bytesRead.Load()
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusConflict {
		u.sent -= piece.bytesRead.Load() // it was refused at once, and is not of the upload
	}
	return answer.StatusCode, nil
}

// countedPiece counts what is read of a piece.
type countedPiece struct {
	from      io.Reader
	bytesRead atomic.Int64
}

func (p *countedPiece) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.bytesRead.Add(int64(n))
	return n, err
}

var errCut = errors.New("the connection was cut")

// cutHere is the place in a body at which its connection is cut.
type cutHere func()

func (c cutHere) Read([]byte) (int, error) {
	c()
	return 0, errCut
}

// cutConn is a connection that gets lost.
type cutConn struct {
	net.Conn
	kind cutKind
}

// cut closes the connection, or resets it.
func (c *cutConn) cut() {
	if c.kind == cutReset {
		_ = c.Conn.(*net.TCPConn).SetLinger(0) // without it, it is closed
	}
	_ = c.Close()
}

// Read implements net.Conn. The answer that gets lost was sent.
func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.kind == cutAnswerLost && strings.HasPrefix(string(b[:n]), "HTTP/1.1 204") {
		c.cut()
		return 0, errCut
	}
	return n, err
}
