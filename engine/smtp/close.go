package smtp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"probity/engine"
)

// maxDrainBytes is how much a server may still send after we have closed.
const maxDrainBytes = 64 << 10

// SayQuit sends QUIT and reports whether that confirms the dialogue (see Confirmed): its 221 came first, or the server
// closed without any reply. One reply too many before would have been read in place of it. The session is not usable
// afterwards; Quit closes it.
func (s *Session) SayQuit(ctx context.Context) (confirmed bool) {
	defer s.begin(ctx, 0)()
	if s.unusable || ctx.Err() != nil {
		return false
	}
	defer func() { s.unusable = true }()
	s.out = append(s.out[:0], "QUIT\r\n"...)
	if f := s.inStep(engine.StageQuit); !f.None() {
		return false
	}
	if f := s.write(engine.StageQuit, s.cfg.Timeouts.Quit); !f.None() {
		return false
	}
	r, detail, err := s.in.reply(engine.StageQuit, s.cfg.Timeouts.Quit)
	s.quitReplied = err == nil && detail == ""
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the latter is TLS without a close_notify
		return true
	}
	return s.quitReplied && r.Code == 221 && !s.in.holdsReply()
}

// Quit ends the session: SayQuit, if that has not been said, then a bounded wait for the server's close. An unusable
// session is closed without QUIT. Once ctx has ended, the connection is reset without any wait. When Quit returns, it
// is closed.
func (s *Session) Quit(ctx context.Context) {
	s.SayQuit(ctx)
	defer s.begin(ctx, 0)()
	s.closeGracefully()
}

// Close closes our side, waits a bounded time for the server to close its own, and then closes the connection.
// A server that counts our connections then no longer counts this one.
func (s *Session) Close() {
	defer s.begin(context.Background(), 0)()
	s.closeGracefully()
}

// closeGracefully closes the connection. It waits for the server's close if that can be expected: the server said 221,
// or can see our half-close. If the context has ended, it resets the connection, so that nothing unsent arrives later.
func (s *Session) closeGracefully() {
	s.unusable = true
	_ = s.raw.SetDeadline(time.Now().Add(s.cfg.Timeouts.Linger))
	if s.ctx.Err() == nil {
		c, ok := s.raw.(interface{ CloseWrite() error })
		if halfClosed := ok && c.CloseWrite() == nil; halfClosed || s.quitReplied {
			_, _ = io.Copy(io.Discard, io.LimitReader(s.raw, maxDrainBytes))
		}
	}
	if c, ok := s.raw.(interface{ SetLinger(int) error }); ok && s.ctx.Err() != nil {
		_ = c.SetLinger(0)
	}
	_ = s.raw.Close()
	s.in.release()
}

// isTimeout reports whether a deadline passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}
