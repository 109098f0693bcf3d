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

// Quit ends the session: QUIT, then a bounded wait for 221 and for the server's close. An unusable session is closed without QUIT.
// Once ctx has ended, the connection is reset without any wait. When Quit returns, it is closed.
func (s *Session) Quit(ctx context.Context) {
	defer s.begin(ctx, 0)()
	gotReply := false
	if !s.unusable && ctx.Err() == nil {
		s.out = append(s.out[:0], "QUIT\r\n"...)
		_, f := s.command(engine.StageQuit, s.cfg.Timeouts.Quit)
		gotReply = f.None()
	}
	s.closeGracefully(gotReply)
}

// Close closes our side, waits a bounded time for the server to close its own, and then closes the connection.
// A server that counts our connections then no longer counts this one.
func (s *Session) Close() {
	defer s.begin(context.Background(), 0)()
	s.closeGracefully(false)
}

// closeGracefully closes the connection. It waits for the server's close if that can be expected: the server said 221, or can see our
// half-close. If the context has ended, it resets the connection, so that nothing unsent arrives later.
func (s *Session) closeGracefully(expected bool) {
	s.unusable = true
	_ = s.raw.SetDeadline(time.Now().Add(s.cfg.Timeouts.Linger))
	if s.ctx.Err() == nil {
		c, ok := s.raw.(interface{ CloseWrite() error })
		if halfClosed := ok && c.CloseWrite() == nil; halfClosed || expected {
			_, _ = io.Copy(io.Discard, io.LimitReader(s.raw, maxDrainBytes))
		}
	}
	if c, ok := s.raw.(interface{ SetLinger(int) error }); ok && s.ctx.Err() != nil {
		_ = c.SetLinger(0)
	}
	_ = s.raw.Close()
	s.in.release()
}

// isTimeout reports that a deadline passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}
