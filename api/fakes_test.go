package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// fakeDNS derives its answer from the name of the domain.
type fakeDNS struct{ table *engine.Table }

func (d fakeDNS) CachedRoute(domain string) (engine.Route, bool) {
	return d.Route(context.Background(), domain), true
}

func (d fakeDNS) Route(_ context.Context, domain string) engine.Route {
	switch {
	case strings.HasPrefix(domain, "nx"):
		return d.table.NoRoute(engine.FactNoDomain)
	case strings.HasPrefix(domain, "null"):
		return d.table.NewRoute([]engine.MX{{Host: "."}})
	}
	return d.table.NewRoute([]engine.MX{{Preference: 10, Host: "mx1." + domain},
		{Preference: 20, Host: "mx2." + domain}})
}

type fakeLists struct{}

func (fakeLists) Flags(a engine.Address) (f engine.Flags) {
	if a.Local() == "info" {
		f |= engine.FlagRole
	}
	if a.Domain() == "free.test" {
		f |= engine.FlagFree
	}
	return f
}

func (fakeLists) Suggest(a engine.Address) string {
	if a.Domain() == "nxgmial.com" {
		return a.Local() + "@gmail.com"
	}
	return ""
}

// fakeProber derives the server's reply from the local part of the address.
type fakeProber struct {
	table    *engine.Table
	requests atomic.Int64
	fail     atomic.Bool
	passed   atomic.Bool // greylisting has passed
	mu       sync.Mutex
	hold     chan struct{} // guarded by mu; when set, answers wait until it is closed
}

func (p *fakeProber) wait(ctx context.Context) {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold == nil {
		return
	}
	select {
	case <-hold:
	case <-ctx.Done():
	}
}

// holdAnswers makes all answers wait until the returned function is called.
func (p *fakeProber) holdAnswers() (release func()) {
	hold := make(chan struct{})
	p.mu.Lock()
	p.hold = hold
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.hold = nil
		p.mu.Unlock()
		close(hold)
	})
}

func (p *fakeProber) verdict(a engine.Address, cached bool) engine.Verdict {
	reason := engine.ReasonNone
	switch local := a.Local(); {
	case strings.HasPrefix(local, "nobody"):
		reason = engine.ReasonMailboxNotFound
	case strings.HasPrefix(local, "any"):
		reason = engine.ReasonCatchAll
	case strings.HasPrefix(local, "grey") && !p.passed.Load():
		reason = engine.ReasonGreylisted
	case strings.HasPrefix(local, "block"):
		reason = engine.ReasonBlocked
	}
	v := engine.VerdictFor(reason, "pretend/"+reason.String(), 0, time.Now())
	v.ProviderName, v.SMTPValid, v.FromCache = "other", reason == engine.ReasonNone, cached
	if reason == engine.ReasonMailboxNotFound {
		v.Details = engine.Details{Host: "mx1." + a.Domain(), Code: 550,
			Enhanced: engine.Enhanced{Class: 5, Subject: 1, Detail: 1},
			Message:  "550 5.1.1 <address> unknown", Stage: engine.StageRcpt, Attempts: 1}
	}
	return v
}

func (p *fakeProber) Single(ctx context.Context, a wire.SingleRequest) (wire.Answer, error) {
	p.requests.Add(1)
	if p.fail.Load() {
		return wire.Answer{}, fmt.Errorf("pretend prober of %s failed", a.Address.Mailbox())
	}
	p.wait(ctx)
	if ctx.Err() != nil || strings.HasPrefix(a.Address.Local(), "slow") {
		<-ctx.Done()
		return wire.Answer{Verdict: engine.VerdictFor(engine.ReasonTimeout, "pretend/timeout", 0, time.Now()),
			Node: "node-1"}, nil
	}
	if a.NoSMTP {
		v := engine.VerdictFor(engine.ReasonSMTPNotChecked, "policy/not-probed", 0, time.Now())
		if a.Address.Domain() == "shop.test" { // it was checked before
			v.Details.CatchAll = engine.No
		}
		return wire.Answer{Verdict: v}, nil
	}
	return wire.Answer{Verdict: p.verdict(a.Address, a.MaxAge > 0 && strings.HasPrefix(a.Address.Local(), "cached")),
		Node: "node-1"}, nil
}

func (p *fakeProber) Verify(ctx context.Context, b *wire.Batch, _ time.Duration, emit func(wire.Results)) error {
	p.wait(ctx)
	rows := make([]wire.Result, 0, len(b.Rows))
	for i := range b.Rows {
		r := &b.Rows[i]
		res := wire.Result{Row: r.Number, Attempt: r.Attempt, Verdict: p.verdict(r.Address, false)}
		if ctx.Err() != nil {
			res.Outcome = wire.Returned
		}
		rows = append(rows, res)
	}
	emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Rows: rows, Done: true})
	return ctx.Err()
}
