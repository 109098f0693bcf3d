package coordinator

import (
	"context"
	"errors"
	"time"

	"probity/coordinator/fleet"
	"probity/coordinator/split"
	"probity/engine"
	"probity/internal/spans"
	"probity/prober/wire"
)

// Request is a single verification.
type Request struct {
	Email       string
	NoSMTP      bool          // make no SMTP connection
	MaxAge      time.Duration // age limit of a cached answer; 0 forces a fresh probe
	LowPriority bool          // lowest priority
	Batch       bool          // one of many addresses of a call: after single calls
	Test        bool          // from a test key: contact no server
	Details     bool          // the answer will be shown with details: make a suggestion too
}

// Answer is the outcome of a single verification.
type Answer struct {
	Verdict    engine.Verdict
	Address    engine.Address // zero if it does not parse
	Suggestion string         // did-you-mean, empty if there is none
	Node       string         // that probed; empty if none did
	Table      *engine.Table  // by which it was decided
}

// OwnFacts returns what an answer for the same folded address does not say about an address as it is spelled: the
// flags of its lists, and the suggestion.
func (c *Coordinator) OwnFacts(a engine.Address) (flags engine.Flags, suggestion string) {
	lists := *c.lists.Load()
	return lists.Flags(a), lists.Suggest(a)
}

// RuleDeadline is the rule of a verdict that a call's deadline decided.
const RuleDeadline = "request/deadline"

// tableTries is how often a single call is routed again because the provider table changed meanwhile.
const tableTries = 5

// Single verifies one address before ctx ends. Syntax, lists and DNS are checked here; the rest goes to the prober.
// An error is our own failure, never a fact about the address.
func (c *Coordinator) Single(ctx context.Context, q Request) (out Answer, err error) {
	started := time.Now()
	if !q.LowPriority && !q.Batch {
		c.singleLoad.Called(started)
	}
	defer func() {
		if err == nil {
			c.metrics.singles[out.Verdict.Status].Add(1)
		}
	}()
	out.Table = c.table.Load()
	policy := engine.Policy{Schedule: out.Table.Schedule, Details: true}
	addr, err := engine.ParseTrimmed(q.Email)
	if err != nil {
		guess, _ := engine.Guess(q.Email)
		out.Verdict, out.Suggestion = engine.Judge(&engine.Evidence{SyntaxBad: true}, policy, time.Now()), guess
		return out, nil
	}
	out.Address = addr
	if q.Details {
		out.Suggestion = (*c.lists.Load()).Suggest(addr)
	}
	flags := (*c.lists.Load()).Flags(addr)
	switch {
	case q.Test && c.cfg.TestVerdict != nil:
		out.Verdict = c.cfg.TestVerdict(addr)
		out.Verdict.Flags |= flags
		return out, nil
	case c.cfg.Suppress(addr):
		flags |= split.CachedFlags(c.cfg.Resolver, addr)
		out.Verdict = engine.VerdictFor(engine.ReasonSMTPNotChecked, fleet.RuleSuppressed, flags, time.Now())
		return out, nil
	}
	var route engine.Route
	var ans wire.Answer
	for range tableTries {
		lookup := spans.From(ctx).Child("dns.lookup", spans.Client, time.Now())
		route = c.cfg.Resolver.Route(ctx, addr.Domain())
		endLookup(lookup, &route)
		if route.Fact == engine.FactDNSTimeout && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Verdict = engine.VerdictFor(engine.ReasonTimeout, RuleDeadline, flags, time.Now())
			return out, nil
		}
		ev := engine.Evidence{Address: addr, Flags: flags, Route: &route}
		if engine.Next(&ev, policy).Kind != engine.StepAsk {
			out.Verdict = engine.Judge(&ev, policy, time.Now())
			out.Verdict.FromCache = out.Verdict.VerifiedAt.Before(started)
			return out, nil
		}
		ans, err = c.cfg.Prober.Single(ctx, wire.SingleRequest{
			Address: addr, Flags: flags, Route: &route, MaxAge: q.MaxAge, NoSMTP: q.NoSMTP, Low: q.LowPriority,
			Batch: q.Batch,
		})
		if !errors.Is(err, wire.ErrOtherTable) {
			break
		}
	}
	if err != nil {
		return Answer{}, err
	}
	out.Verdict, out.Node = ans.Verdict, ans.Node
	out.Verdict.Flags = flags
	if len(out.Verdict.MX) == 0 {
		out.Verdict.MX = route.MX
	}
	return out, nil
}

// endLookup ends the span of a domain's lookup. The domain may be a person's, and is left out.
func endLookup(s *spans.Span, r *engine.Route) {
	if s == nil {
		return
	}
	if r.Provider != nil {
		s.Text("probity.provider", r.Provider.ID)
	}
	s.Number("probity.hosts", len(r.Hosts))
	s.End(time.Now())
}
