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

// maxLeftover is how much a server may still say once we have taken leave.
const maxLeftover = 64 << 10

// Quit takes leave: QUIT, then a bounded wait for 221 and for the server's close. A botched session is closed without a word.
// When it returns, the connection is closed.
func (s *Session) Quit(ctx context.Context) {
	if s.botched {
		s.Close()
		return
	}
	end := s.begin(ctx, 0)
	s.out = append(s.out[:0], "QUIT\r\n"...)
	_, f := s.command(engine.StageQuit, s.cfg.Timeouts.Quit)
	end()
	s.leave(f.None())
}

// Close closes our side, waits boundedly for the server to close its own, and then lets go of the connection.
// A server that counts our connections has then counted this one out.
func (s *Session) Close() {
	s.leave(false)
}

// leave closes. The server's close is waited for where there is a reason to expect it: it said 221, or can see our half-close.
func (s *Session) leave(expected bool) {
	s.botched = true
	_ = s.raw.SetDeadline(time.Now().Add(s.cfg.Timeouts.Linger))
	if c, ok := s.raw.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil || expected {
		_, _ = io.Copy(io.Discard, io.LimitReader(s.raw, maxLeftover))
	}
	_ = s.raw.Close()
}

// isTimeout reports a deadline that passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}
