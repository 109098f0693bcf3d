package smtp

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"

	"probity/engine"
	"probity/engine/replyline"
)

// replyReader reads replies from one connection.
type replyReader struct {
	src        io.Reader // TLS over conn, or conn itself
	conn       *pollConn
	buf        []byte // MaxLine bytes
	start, end int    // buf[start:end] is unread
	left       int    // bytes that this session may still receive
	lines      int    // of a reply at most
	size       int    // bytes of a reply at most

	setDeadline func(time.Duration) // sets the deadline of the next wait
	known       [knownTexts]knownText
	oldest      int
}

// knownTexts is how many replies of a session are kept for reuse: a server repeats few replies.
const knownTexts = 4

type knownText struct {
	line  string // as received, with its code
	reply engine.Reply
}

func newReplyReader(conn *pollConn, cfg *Config, setDeadline func(time.Duration)) replyReader {
	buf, ok := lineBuffers.Get().(*[]byte)
	if !ok || len(*buf) != cfg.MaxLine {
		fresh := make([]byte, cfg.MaxLine)
		buf = &fresh
	}
	return replyReader{src: conn, conn: conn, buf: *buf, left: cfg.MaxBytes, lines: cfg.MaxReplyLines,
		size: cfg.MaxReplyBytes, setDeadline: setDeadline}
}

// lineBuffers are the buffers of closed sessions.
var lineBuffers sync.Pool

// release returns the buffer. The reader must not be used afterwards.
func (r *replyReader) release() {
	if buf := r.buf; buf != nil {
		lineBuffers.Put(&buf)
	}
	r.buf, r.start, r.end = nil, 0, 0
}

// switchSource reads from another source. What was received before does not count.
func (r *replyReader) switchSource(src io.Reader) {
	r.src, r.start, r.end = src, 0, 0
	r.known, r.oldest = [knownTexts]knownText{}, 0
}

// holdsAny reports whether anything has arrived and was not read. It does not wait.
func (r *replyReader) holdsAny() bool {
	if r.end == r.start {
		r.conn.polling = true
		_, _ = r.fill() // a failure is met again by the next read
		r.conn.polling = false
	}
	return r.end > r.start
}

// holdsReply reports the same of a reply or its beginning. Whole lines without a reply code are text that the last
// reply was broken into, or empty; they answer no command, and are dropped.
func (r *replyReader) holdsReply() bool {
	for r.holdsAny() {
		i := bytes.IndexByte(r.buf[r.start:r.end], '\n')
		if i < 0 {
			return true
		}
		if _, _, ok := replyline.Code(r.buf[r.start : r.start+i]); ok {
			return true
		}
		r.start += i + 1
	}
	return false
}

// settle waits a while for anything to arrive. It reports whether it has waited in vain.
func (r *replyReader) settle(wait time.Duration) (nothing bool) {
	if r.end > r.start {
		return false
	}
	r.setDeadline(wait)
	_, err := r.fill() // as in holdsAny
	return err != nil && isTimeout(err)
}

// strayTime is how soon after a line without a code a reply must follow.
const strayTime = 300 * time.Millisecond

// reply reads one reply (RFC 5321 section 4.2). The error is that of the connection; the detail says how the peer broke
// the protocol. Empty lines before it are skipped, and after the greeting lines without a code too: see holdsReply.
// Such lines are the rest of the reply before, so what was due follows soon; where it does not, they were no SMTP.
func (r *replyReader) reply(stage engine.Stage, timeout time.Duration) (reply engine.Reply, detail string, err error) {
	reply.Stage = stage
	armed, lines, size := false, 0, 0
	noCode := false // a line without a code came where a reply was due
	var parser replyline.Parser
	for {
		line, detail, err := r.line(timeout, &armed)
		lines, size = lines+1, size+len(line)
		switch {
		case err != nil && noCode:
			return reply, "a line without a reply code", nil
		case err != nil || detail != "":
			return reply, detail, err
		case lines > r.lines:
			return reply, "a reply of too many lines", nil
		case size > r.size:
			return reply, "a reply of too many bytes", nil
		}
		if len(reply.Lines) == 0 {
			if reply, ok := r.findKnown(line); ok {
				reply.Stage = stage
				return reply, "", nil
			}
		}
		text, more, ok := replyline.Parse(&parser, line)
		switch {
		case ok:
			reply.Code, reply.Lines = parser.Code, append(reply.Lines, textOf(text))
		case len(line) > 0 && stage < engine.StageMail:
			return reply, "a line without a reply code", nil
		case len(line) > 0 && len(reply.Lines) == 0 && !noCode:
			noCode, armed = true, true
			r.setDeadline(min(timeout, strayTime))
		}
		if ok && !more {
			reply.Enhanced = engine.EnhancedOf(reply.Lines, reply.Code)
			if len(reply.Lines) == 1 {
				r.remember(line, reply)
			}
			return reply, "", nil
		}
	}
}

// line returns the next line without its end. It is valid until the next call. A bare LF ends a line too.
func (r *replyReader) line(timeout time.Duration, armed *bool) (line []byte, detail string, err error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(r.buf[r.start+scanned:r.end], '\n'); i >= 0 {
			line = r.buf[r.start : r.start+scanned+i]
			r.start += scanned + i + 1
			return bytes.TrimRight(line, " \t\r"), "", nil
		}
		scanned = r.end - r.start
		if scanned == len(r.buf) {
			return nil, "a line of too many bytes", nil
		}
		if !*armed {
			*armed = true
			r.setDeadline(timeout)
		}
		detail, err = r.fill()
		if err != nil || detail != "" {
			return nil, detail, err
		}
	}
}

// fill reads once, after the unread bytes.
func (r *replyReader) fill() (detail string, err error) {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.left <= 0 {
		return "a session of too many bytes", nil
	}
	n, err := r.src.Read(r.buf[r.end:min(len(r.buf), r.end+r.left)])
	r.end += n
	r.left -= n
	if n > 0 {
		return "", nil // the next read returns the error again
	}
	if err == nil {
		return "", io.ErrNoProgress
	}
	return "", err
}

// findKnown finds a line that was received before. It does not allocate.
func (r *replyReader) findKnown(line []byte) (engine.Reply, bool) {
	for i := range r.known {
		if k := &r.known[i]; k.reply.Code != 0 && k.line == string(line) {
			return k.reply, true
		}
	}
	return engine.Reply{}, false
}

// remember keeps a line in place of the oldest. Lines with an address are not kept: they seldom repeat.
func (r *replyReader) remember(line []byte, reply engine.Reply) {
	if bytes.IndexByte(line, '@') >= 0 {
		return
	}
	r.known[r.oldest] = knownText{string(line), reply}
	r.oldest = (r.oldest + 1) % knownTexts
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// textOf is text as a string that can be shown: UTF-8, with a space for each control character. Bytes of another
// charset are kept as replyline.Escape keeps them.
func textOf(text []byte) string {
	for _, c := range text {
		if c < ' ' || c >= 0x7f {
			return strings.Map(printable, replyline.Escape(string(text)))
		}
	}
	return string(text)
}

func printable(c rune) rune {
	if c < ' ' || 0x7f <= c && c < 0xa0 {
		return ' '
	}
	return c
}
