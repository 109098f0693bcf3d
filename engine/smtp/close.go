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

// maxDrainBytes is how much a server may still say once we have closed.
const maxDrainBytes = 64 << 10

// Quit ends the session: QUIT, then a bounded wait for 221 and for the server's close. A unusable session is closed without a word.
// Once ctx has ended the connection is reset without any wait. When Quit returns, it is closed.
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

// Close closes our side, waits boundedly for the server to close its own, and then lets go of the connection.
// A server that counts our connections has then counted this one out.
func (s *Session) Close() {
	defer s.begin(context.Background(), 0)()
	s.closeGracefully(false)
}

// closeGracefully closes. The server's close is waited for where there is a reason to expect it: it said 221, or can see our half-close. Where
// the call is over, nothing that was sent is to arrive later either: what a half-open connection still holds is dropped.
func (s *Session) closeGracefully(expected bool) {
	s.unusable = true
	_ = s.raw.SetDeadline(time.Now().Add(s.cfg.Timeouts.Linger))
	if s.ctx.Err() == nil && (s.closeWrite() || expected) {
		_, _ = io.Copy(io.Discard, io.LimitReader(s.raw, maxDrainBytes))
	}
	if c, ok := s.raw.(interface{ SetLinger(int) error }); ok && s.ctx.Err() != nil {
		_ = c.SetLinger(0)
	}
	_ = s.raw.Close()
	s.in.release()
}

// closeWrite ends our half of the stream; false where that cannot be done.
func (s *Session) closeWrite() bool {
	c, ok := s.raw.(interface{ CloseWrite() error })
	return ok && c.CloseWrite() == nil
}

// isTimeout reports a deadline that passed.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}
