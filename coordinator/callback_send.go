package coordinator

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	answerTimeout = 15 * time.Second // from the last byte of the body to the headers of the answer
	stallTimeout  = 60 * time.Second // for a piece of the body
	lateReplyWait = time.Second      // after the body could not be sent: a refusal may be on its way
	drainTimeout  = 5 * time.Second  // for the body of an answer, which is not used

	sendBuffer = 32 << 10 // bytes of body made before they are written, and as much again once they are framed
	sendPiece  = 16 << 10 // bytes that must be taken within stallTimeout
	maxAnswer  = 64 << 10 // bytes read of an answer
	maxInterim = 5        // answers 1xx before the real one
)

// timedConn writes in pieces that must each be taken in time, until it is told to write no more.
type timedConn struct {
	net.Conn
	mu             sync.Mutex // guards quiet and the setting of write deadlines
	writingStopped bool
	stalled        bool // guarded by mu
}

func (s *timedConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if !s.begin() {
			return n, net.ErrClosed
		}
		m, err := s.Conn.Write(p[n:min(len(p), n+sendPiece)])
		if n += m; err != nil {
			s.failed(err)
			return n, err
		}
	}
	return n, nil
}

func (s *timedConn) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writingStopped && s.Conn.SetWriteDeadline(time.Now().Add(stallTimeout)) == nil
}

func (s *timedConn) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = !s.writingStopped && errors.Is(err, os.ErrDeadlineExceeded)
}

// stopWriting ends a write under way, and all that would come.
func (s *timedConn) stopWriting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writingStopped = true
	s.Conn.SetWriteDeadline(time.Unix(1, 0))
}

func (s *timedConn) hasStalled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled
}

// post sends the event and reads the answer, which may come while the body is still on its way. It speaks HTTP/1.1 by
// itself (RFC 9112), on a connection of its own: so it knows which byte was the last, and hears a refusal that is
// followed by a reset.
func (e *event) post(ctx context.Context, conn *callbackConn, t *callbackTarget) callbackReply {
	defer conn.raw.Close()
	defer context.AfterFunc(ctx, func() { conn.raw.Close() })()
	answered := make(chan rawReply, 1)
	go func() {
		answered <- readReply(conn, conn.raw.stopWriting)
	}()
	sent, whole := e.send(ctx, conn, t)
	conn.SetReadDeadline(time.Now().Add(answerWait(conn.raw, whole)))
	a := <-answered
	r := callbackReply{status: a.status, bytes: sent}
	if e.failure != nil {
		r.status = 0 // what it says of half a body says nothing of the event
	}
	if r.status == 0 {
		r.err = e.failureCause(conn.raw, a, sent, whole)
	}
	return r
}

// answerWait is how long to listen once nothing more is sent.
func answerWait(raw *timedConn, whole bool) time.Duration {
	switch {
	case whole:
		return answerTimeout
	case raw.hasStalled():
		return 0
	}
	return lateReplyWait
}

// failureCause says why there is no answer.
func (e *event) failureCause(raw *timedConn, a rawReply, sent int64, whole bool) error {
	switch {
	case e.failure != nil:
		return errInternal
	case raw.hasStalled():
		return errStalled
	case a.malformed:
		return errNotHTTP
	case e.results != nil && sent > 0 && (!whole || errors.Is(a.err, syscall.ECONNRESET)):
		return errCut // a reset: the system had the last byte already, but the receiver left before it
	case whole && errors.Is(a.err, os.ErrDeadlineExceeded):
		return errNoAnswer
	}
	return errLost
}

// send writes the request; it gives the bytes of the body that went, and whether all did.
func (e *event) send(ctx context.Context, conn net.Conn, t *callbackTarget) (sent int64, whole bool) {
	wire := &countingWriter{w: conn}
	out := bufio.NewWriterSize(wire, sendBuffer)
	var small bytes.Buffer
	if e.results == nil {
		e.failure = e.writeChecked(ctx, &small)
		e.header.Set("Content-Length", strconv.Itoa(small.Len()))
	} else {
		e.header.Set("Transfer-Encoding", "chunked")
	}
	e.writeHead(out, t)
	out.Flush() // an error of it is met again below
	wire.n = 0
	if e.results == nil {
		out.Write(small.Bytes())
	} else if err := e.sendChunks(ctx, out); err != nil {
		if wire.err == nil && ctx.Err() == nil {
			e.failure = err
		}
		return wire.n, false
	}
	err := out.Flush()
	return wire.n, err == nil && e.failure == nil
}

// sendChunks writes the body in chunks, and the last, empty one only if all of it was there (RFC 9112 section 8): half
// a body cannot be taken for a whole.
func (e *event) sendChunks(ctx context.Context, out io.Writer) error {
	rows := bufio.NewWriterSize(httputil.NewChunkedWriter(out), sendBuffer)
	if err := e.writeChecked(ctx, rows); err != nil {
		return err
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, "0\r\n\r\n")
	return err
}

// writeHead writes the request's head; an error is met again by the body.
func (e *event) writeHead(w io.Writer, t *callbackTarget) {
	fmt.Fprintf(w, "POST %s HTTP/1.1\r\nHost: %s\r\n", requestTarget(t.url), t.hostHeader())
	e.header.Write(w)
	io.WriteString(w, "\r\n")
}

// requestTarget is the path and query with everything escaped that cannot stand in a request line: a query is kept as
// it was typed, and may have been typed with spaces or letters beyond ASCII.
func requestTarget(u *url.URL) string {
	typed := u.RequestURI()
	out := make([]byte, 0, len(typed))
	for _, c := range []byte(typed) {
		if c <= ' ' || c >= 0x7f {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

// hostHeader is the host and, unless it is the scheme's own, the port (RFC 9110 section 7.2).
func (t *callbackTarget) hostHeader() string {
	host := t.host
	if t.addr.Is6() {
		host = "[" + host + "]"
	}
	if t.url.Port() == "" {
		return host
	}
	return host + ":" + t.url.Port()
}

// countingWriter counts what was written and remembers that it failed.
type countingWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (k *countingWriter) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	k.n += int64(n)
	if err != nil {
		k.err = err
	}
	return n, err
}

// rawReply is what came back.
type rawReply struct {
	status    int
	err       error // when there is no status
	malformed bool  // what came is not HTTP
}

// readReply reads the head of the answer, calls hush, and drains what follows as far as that costs little: to close before
// the peer has been heard out is to reset what it says.
func readReply(conn net.Conn, stopWriting func()) rawReply {
	defer stopWriting()
	in := &countingReader{r: io.LimitReader(conn, maxAnswer)}
	br := bufio.NewReader(in)
	for range maxInterim {
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
		if err != nil {
			return rawReply{err: cmp.Or(in.err, err), malformed: in.n > 0 && (in.err == nil || in.err == io.EOF)}
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		stopWriting()
		conn.SetReadDeadline(time.Now().Add(drainTimeout))
		io.Copy(io.Discard, resp.Body)
		return rawReply{status: resp.StatusCode}
	}
	return rawReply{malformed: true}
}

// countingReader counts what was read and remembers how it ended.
type countingReader struct {
	r   io.Reader
	n   int64
	err error
}

func (k *countingReader) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	k.n += int64(n)
	if err != nil {
		k.err = err
	}
	return n, err
}
