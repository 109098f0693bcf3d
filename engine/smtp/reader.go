package smtp

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"probity/engine"
)

// replyReader reads replies from one connection.
type replyReader struct {
	src        io.Reader
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

func newReplyReader(src io.Reader, cfg *Config, setDeadline func(time.Duration)) replyReader {
	buf, ok := lineBuffers.Get().(*[]byte)
	if !ok || len(*buf) != cfg.MaxLine {
		fresh := make([]byte, cfg.MaxLine)
		buf = &fresh
	}
	return replyReader{src: src, buf: *buf, left: cfg.MaxBytes, lines: cfg.MaxReplyLines, size: cfg.MaxReplyBytes, setDeadline: setDeadline}
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

// unread reports bytes that were received and not read.
func (r *replyReader) unread() bool { return r.end > r.start }

// reply reads one reply (RFC 5321 section 4.2). The error is that of the connection; the detail says how the peer broke the protocol.
func (r *replyReader) reply(stage engine.Stage, timeout time.Duration) (reply engine.Reply, detail string, err error) {
	armed := false
	line, detail, err := r.line(timeout, &armed)
	if err != nil || detail != "" {
		return engine.Reply{Stage: stage}, detail, err
	}
	if reply, ok := r.findKnown(line); ok {
		reply.Stage = stage
		return reply, "", nil
	}
	code, more, ok := engine.ReplyCode(line)
	if !ok {
		return engine.Reply{Stage: stage}, "a line without a reply code", nil
	}
	reply = engine.Reply{Stage: stage, Code: code, Lines: []string{textOf(line)}}
	if !more {
		reply.Enhanced = engine.EnhancedOf(reply.Lines, code)
		r.remember(line, reply)
		return reply, "", nil
	}
	return r.rest(reply, len(line), timeout, &armed)
}

// rest reads the lines of a reply after the first. All must have the same code (RFC 5321 section 4.2.1).
func (r *replyReader) rest(reply engine.Reply, size int, timeout time.Duration, armed *bool) (engine.Reply, string, error) {
	for {
		line, detail, err := r.line(timeout, armed)
		if err != nil || detail != "" {
			return reply, detail, err
		}
		code, more, ok := engine.ReplyCode(line)
		size += len(line)
		switch {
		case !ok:
			return reply, "a line without a reply code", nil
		case code != reply.Code:
			return reply, "a reply with two codes", nil
		case len(reply.Lines) >= r.lines:
			return reply, "a reply of too many lines", nil
		case size > r.size:
			return reply, "a reply of too many bytes", nil
		}
		reply.Lines = append(reply.Lines, textOf(line))
		if !more {
			reply.Enhanced = engine.EnhancedOf(reply.Lines, code)
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
			return bytes.TrimSuffix(line, []byte{'\r'}), "", nil
		}
		scanned = r.end - r.start
		if scanned == len(r.buf) {
			return nil, "a line of too many bytes", nil
		}
		if !*armed {
			*armed = true
			r.setDeadline(timeout)
		}
		if detail, err = r.fill(); err != nil || detail != "" {
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

// textOf is the text of a line as a string that can be shown: UTF-8, with a space for each control character.
func textOf(line []byte) string {
	if len(line) <= 4 {
		return ""
	}
	text := line[4:]
	for _, c := range text {
		if c < ' ' || c >= 0x7f {
			return strings.Map(printable, strings.ToValidUTF8(string(text), string(utf8.RuneError)))
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
