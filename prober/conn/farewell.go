package conn

import (
	"context"
	"time"

	"probity/engine/smtp"
)

// Farewell is the end of a connection: QUIT, its reply, and the server's close. It waits for the close, as an open
// connection would count against us at the peer.
type Farewell struct {
	began         time.Time
	all, reply    context.Context
	cut, cutReply context.CancelFunc
}

const (
	farewellTime = 8 * time.Second
	// A hurried one waits so long for the reply to QUIT, then closes our side, and so long for the server's close. RFC
	// 5321 section 4.1.1.10: a client that has sent QUIT may close.
	hurriedReply, hurriedClose = time.Second, time.Second
)

// BeginFarewell begins one, which ends at once when ctx does. End must be called.
func BeginFarewell(ctx context.Context) *Farewell {
	f := &Farewell{began: time.Now()}
	f.all, f.cut = context.WithTimeout(ctx, farewellTime)
	f.reply, f.cutReply = context.WithCancel(f.all)
	return f
}

// Confirms says QUIT and reports whether that confirms the dialogue: see smtp.Session.SayQuit.
func (f *Farewell) Confirms(s *smtp.Session) bool { return s.Confirmed() || s.SayQuit(f.all) }

// Hurry ends it within two seconds: its place is needed. It may be called from any goroutine, before End or while that
// runs.
func (f *Farewell) Hurry() {
	reply := max(0, time.Until(f.began.Add(hurriedReply)))
	time.AfterFunc(reply, f.cutReply)
	time.AfterFunc(reply+hurriedClose, f.cut)
}

// End closes the connection.
func (f *Farewell) End(s *smtp.Session) {
	defer f.cut()
	defer f.cutReply()
	s.SayQuit(f.reply)
	s.Quit(f.all)
}
