package callback

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"probity/coordinator/outward"
	"probity/engine/redact"
)

const (
	answerTimeout = 15 * time.Second // from the last byte of the body to the headers of the answer
	stallTimeout  = 60 * time.Second // for a piece of the body
	lateReplyWait = time.Second      // after the body could not be sent: a refusal may still arrive
	drainTimeout  = 5 * time.Second  // for the body of an answer

	sendBuffer = 32 << 10 // bytes of a request that are written at once
	sendPiece  = 16 << 10 // bytes that must be taken within stallTimeout
	maxAnswer  = 64 << 10 // bytes read of an answer
	maxInterim = 5        // 1xx answers before the final one
	maxShown   = 1000     // bytes of the body of an answer of which the beginning is shown
)

// timedConn writes in pieces, each with a deadline, until stopWriting.
type timedConn struct {
	net.Conn
	mu             sync.Mutex // guards all below and the setting of write deadlines
	writingStopped bool
	stalled        bool // a write deadline has passed
}

func (tc *timedConn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		tc.mu.Lock()
		open := !tc.writingStopped && tc.Conn.SetWriteDeadline(time.Now().Add(stallTimeout)) == nil
		tc.mu.Unlock()
		if !open {
			return n, net.ErrClosed
		}
		m, err := tc.Conn.Write(p[n:min(len(p), n+sendPiece)])
		n += m
		if err != nil {
			tc.mu.Lock()
			tc.stalled = !tc.writingStopped && errors.Is(err, os.ErrDeadlineExceeded)
			tc.mu.Unlock()
			return n, err
		}
	}
	return n, nil
}

// stopWriting ends the current write and refuses later ones.
func (tc *timedConn) stopWriting() {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	tc.writingStopped = true
	tc.Conn.SetWriteDeadline(time.Unix(1, 0))
}

func (tc *timedConn) hasStalled() bool {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	return tc.stalled
}

// post sends the event and reads the answer, which may arrive before the body is sent. It implements HTTP/1.1 itself
// (RFC 9112): so it knows when the last byte was written, and reads a refusal that is followed by a reset.
func (e *event) post(ctx context.Context, conn *receiverConn, t *outward.Target) result {
	defer conn.raw.Close()
	defer context.AfterFunc(ctx, func() { conn.raw.Close() })()
	answered := make(chan rawReply, 1)
	go func() {
		answered <- readReply(conn, conn.raw.stopWriting)
	}()
	sent, whole := e.send(ctx, conn, t)
	wait := lateReplyWait
	switch {
	case whole:
		wait = answerTimeout
	case conn.raw.hasStalled():
		wait = 0
	}
	conn.SetReadDeadline(time.Now().Add(wait))
	a := <-answered
	r := result{status: a.status, bytes: sent, answer: a.shown}
	switch {
	case e.failure != nil:
		r.status, r.err = 0, errInternal // an answer to half a body does not count
	case r.status != 0:
	case conn.raw.hasStalled():
		r.err = errStalled
	case a.malformed:
		r.err = errNotHTTP
	case e.results != nil && sent > 0 && (!whole || errors.Is(a.err, syscall.ECONNRESET)):
		r.err = errCut // a reset: the system took the last byte, but the receiver closed before reading it
	case whole && errors.Is(a.err, os.ErrDeadlineExceeded):
		r.err = errNoAnswer
	default:
		r.err = errLost
	}
	return r
}

// send writes the request. It returns how many bytes of the body were written, and whether all were.
func (e *event) send(ctx context.Context, conn net.Conn, t *outward.Target) (sent int64, whole bool) {
	wire := &counter{w: conn}
	out := bufio.NewWriterSize(wire, sendBuffer)
	e.writeHead(out, t)
	_ = out.Flush() // the writer keeps an error; it shows below
	wire.n = 0
	err := e.writeChecked(ctx, out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil && wire.err == nil && ctx.Err() == nil {
		e.failure = err
	}
	return wire.n, err == nil
}

// writeHead writes the request's head. The writer keeps an error; it shows when the body is written.
func (e *event) writeHead(w io.Writer, t *outward.Target) {
	fmt.Fprint(w, "POST ")
	for _, c := range []byte(t.URL.RequestURI()) {
		if c <= ' ' || c >= 0x7f { // not allowed in a request line; url.Parse keeps those of a query as they were typed
			fmt.Fprintf(w, "%%%02X", c)
		} else {
			fmt.Fprintf(w, "%c", c)
		}
	}
	host := t.Host
	if t.IsIPv6() {
		host = "[" + host + "]"
	}
	if port := t.URL.Port(); port != "" { // as in the URL (RFC 9110 section 7.2)
		host += ":" + port
	}
	fmt.Fprintf(w, " HTTP/1.1\r\nHost: %s\r\n", host)
	_ = e.header.Write(w)
	fmt.Fprint(w, "\r\n")
}

// counter counts the bytes that are read or written through it, and keeps the last error.
type counter struct {
	r   io.Reader
	w   io.Writer
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error)  { return c.count(c.r.Read(p)) }
func (c *counter) Write(p []byte) (int, error) { return c.count(c.w.Write(p)) }

func (c *counter) count(n int, err error) (int, error) {
	c.n += int64(n)
	c.err = cmp.Or(err, c.err)
	return n, err
}

// rawReply is the receiver's answer, or why there is none.
type rawReply struct {
	status    int
	err       error  // when there is no status
	malformed bool   // the answer is not HTTP
	shown     string // the beginning of its body, without addresses
}

// readReply reads the head of the answer, calls stopWriting, and drains the answer's body within limits: closing with
// unread data would reset the connection.
func readReply(conn net.Conn, stopWriting func()) rawReply {
	defer stopWriting()
	in := &counter{r: io.LimitReader(conn, maxAnswer)}
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
		begin, _ := io.ReadAll(io.LimitReader(resp.Body, maxShown)) // a body that breaks off is shown as far as it came
		// what is left unread makes the close a reset, no more
		_, _ = io.Copy(io.Discard, resp.Body)
		return rawReply{status: resp.StatusCode, shown: redact.Text(string(begin), "")}
	}
	return rawReply{malformed: true}
}
