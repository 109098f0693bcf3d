package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// At most maxLines warnings and errors of one message are logged in period. The rest is counted, and the count is
// logged at the end of the period: what a client, a peer or a disk causes again and again must neither fill the log nor
// hide other messages.
const (
	period   = time.Second
	maxLines = 5
	// maxMessages is how many messages are counted separately; the rest is counted together.
	maxMessages = 256
)

// limiter limits repeated messages to a handler. Messages are constants; what varies is in their attributes.
type limiter struct {
	slog.Handler
	counters *messageCounters
}

type messageCounters struct {
	mu        sync.Mutex // guards what follows
	byMessage map[string]*messageCounter
}

type messageCounter struct {
	periodStart     time.Time
	logged, dropped int
}

// New limits repeated warnings and errors to h.
func New(h slog.Handler) slog.Handler {
	return limiter{h, &messageCounters{byMessage: map[string]*messageCounter{}}}
}

// WithAttrs counts with f: a message is the same whatever its attributes are.
func (l limiter) WithAttrs(a []slog.Attr) slog.Handler {
	return limiter{l.Handler.WithAttrs(a), l.counters}
}

// WithGroup counts with f too.
func (l limiter) WithGroup(name string) slog.Handler {
	return limiter{l.Handler.WithGroup(name), l.counters}
}

// Handle logs a record, or counts it.
func (l limiter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || l.allows(r) {
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

func (l limiter) allows(r slog.Record) bool {
	l.counters.mu.Lock()
	defer l.counters.mu.Unlock()
	now, message := time.Now(), r.Message
	k := l.counters.byMessage[message]
	if k == nil && len(l.counters.byMessage) >= maxMessages {
		message = "other messages"
		k = l.counters.byMessage[message]
	}
	if k == nil {
		k = new(messageCounter)
		l.counters.byMessage[message] = k
	}
	if k.dropped == 0 && now.Sub(k.periodStart) >= period {
		k.periodStart, k.logged = now, 0
	}
	if k.logged < maxLines {
		k.logged++
		return true
	}
	k.dropped++
	if k.dropped == 1 {
		time.AfterFunc(k.periodStart.Add(period).Sub(now), func() { l.logDropped(k, r.Level, message) })
	}
	return false
}

// logDropped logs how many lines of a message were left out.
func (l limiter) logDropped(k *messageCounter, level slog.Level, message string) {
	l.counters.mu.Lock()
	left := k.dropped
	k.dropped = 0
	l.counters.mu.Unlock()
	r := slog.NewRecord(time.Now(), level, "more lines of the same message were left out", 0)
	r.Add("message", message, "lines", left)
	_ = l.Handler.Handle(context.Background(), r) // as in slog itself, a failing log cannot be reported
}
