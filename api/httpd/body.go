package httpd

import (
	"errors"
	"io"
	"net"
	"time"
)

// MaxJSON bounds a JSON body, in bytes, of a route without a limit of its own.
const MaxJSON = 64 << 10

// stallBytes must arrive within each stall timeout.
const stallBytes = 16 << 10

// body reads the body of one request under a limit of bytes and of time. fasthttp enforces neither for a stream:
// its own limit is off then, and its read timeout covers the whole body, however long that is.
type body struct {
	r             io.Reader // nil: the request has no body
	conn          net.Conn
	contentLength int64 // Content-Length, negative when chunked
	limit         int64
	stallTimeout  time.Duration // 0: the deadline of the header stays
	bytesRead     int64
	sinceDeadline int64 // bytes since the deadline was moved
	err           error // why it ended, once it has
}

// Read is a Reader whose errors are refusals.
func (b *body) Read(p []byte) (int, error) {
	if b.r == nil {
		return 0, io.EOF
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.bytesRead >= b.limit {
		p = p[:min(1, len(p))] // one more byte distinguishes a body of exactly that size from a longer one
	}
	if b.stallTimeout != 0 && (b.bytesRead == 0 || b.sinceDeadline >= stallBytes) {
		b.sinceDeadline = 0
		if err := b.conn.SetReadDeadline(time.Now().Add(b.stallTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p)
	b.bytesRead += int64(n)
	b.sinceDeadline += int64(n)
	switch {
	case b.bytesRead > b.limit:
		b.err = Refuse(TooLarge, "The body is over %d bytes: send less.", b.limit)
		return 0, b.err
	case err == io.EOF && (b.contentLength >= 0 && b.bytesRead < b.contentLength ||
		b.contentLength < 0 && isClientClosed(b.conn)):
		err = io.ErrUnexpectedEOF // the stream itself ends without an error when the client closes
	}
	b.err = bodyError(err)
	return n, b.err
}

// bodyError is the answer to the error that ended a body.
func bodyError(err error) error {
	switch {
	case err == nil, err == io.EOF:
		return err
	case isTimeout(err):
		return &Refusal{Kind: Malformed, Detail: "The body timed out: send it without long pauses.", closeConn: true,
			Cause: err}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Refusal{Kind: Malformed, Detail: "The body ended early: send all of it.", closeConn: true, Cause: err}
	}
	return &Refusal{Kind: Malformed, Detail: "The body could not be read: check Content-Length, or the chunks of Transfer-Encoding.", closeConn: true, Cause: err}
}
