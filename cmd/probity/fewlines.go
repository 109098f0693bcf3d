package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Of warnings and errors of one message fewLinesSaid are logged in fewLinesSpan. The others are counted, and the count is logged when the
// span is over: what a stranger, a peer or a disk makes us say again and again must not fill the log, nor hide what else is in it.
const (
	fewLinesSpan = time.Second
	fewLinesSaid = 5
	// fewLinesKinds is how many messages are counted apart; those beyond are counted together.
	fewLinesKinds = 256
)

// fewLines bounds what goes to a handler. Messages are constants of ours, and what varies is in their attributes.
type fewLines struct {
	slog.Handler
	kinds *lineKinds
}

type lineKinds struct {
	mu sync.Mutex // guards what follows
	of map[string]*lineKind
}

type lineKind struct {
	since        time.Time
	said, unsaid int
}

func newFewLines(h slog.Handler) fewLines {
	return fewLines{h, &lineKinds{of: map[string]*lineKind{}}}
}

func (f fewLines) WithAttrs(a []slog.Attr) slog.Handler {
	return fewLines{f.Handler.WithAttrs(a), f.kinds}
}
func (f fewLines) WithGroup(name string) slog.Handler {
	return fewLines{f.Handler.WithGroup(name), f.kinds}
}

// Handle logs a record, or counts it.
func (f fewLines) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || f.says(r) {
		return f.Handler.Handle(ctx, r)
	}
	return nil
}

func (f fewLines) says(r slog.Record) bool {
	f.kinds.mu.Lock()
	defer f.kinds.mu.Unlock()
	now, message := time.Now(), r.Message
	k := f.kinds.of[message]
	if k == nil && len(f.kinds.of) >= fewLinesKinds {
		message = "other messages"
		k = f.kinds.of[message]
	}
	if k == nil {
		k = new(lineKind)
		f.kinds.of[message] = k
	}
	if k.unsaid == 0 && now.Sub(k.since) >= fewLinesSpan {
		k.since, k.said = now, 0
	}
	if k.said < fewLinesSaid {
		k.said++
		return true
	}
	if k.unsaid++; k.unsaid == 1 {
		time.AfterFunc(k.since.Add(fewLinesSpan).Sub(now), func() { f.tell(k, r.Level, message) })
	}
	return false
}

// tell logs how many lines of a kind were left out.
func (f fewLines) tell(k *lineKind, level slog.Level, message string) {
	f.kinds.mu.Lock()
	left := k.unsaid
	k.unsaid = 0
	f.kinds.mu.Unlock()
	r := slog.NewRecord(time.Now(), level, "more lines of the same message were left out", 0)
	r.Add("message", message, "lines", left)
	_ = f.Handler.Handle(context.Background(), r) // as with slog itself, there is no one to tell of a log that fails
}
