package main

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"probity/bench"
	"probity/engine"
	"probity/engine/smtp"
)

// conversation is what bench measures next to its bare SMTP client: what a lane of the prober does between a connection and the
// verdicts of those that were asked over it, with the same rooms: smtp.Dialer, smtp.Open, Session.Transaction with groups of as
// many recipients, Table.Classify for each reply, engine.Evidence with every sighting, engine.Next, the decoy of a domain once
// a recipient was accepted there and only then, engine.Judge.
//
// Not in it is what stands around: parsing, DNS, what is asked when (queues, budgets, flights, the turnstile), what is kept
// (cache, metrics, results), and TLS, which the bare client does not speak either.
type conversation struct {
	table *engine.Table
	dial  smtp.Dialer
	cfg   smtp.Config
	asker engine.Asker
	told  func(engine.Address, *engine.Verdict) // of each verdict, for tests; may be nil
}

// benchTalk is a bench.Talk.
func benchTalk(dial bench.Dial, errands []bench.Errand) func(context.Context, int) bench.Heard {
	return newConversation(dial).about(errands)
}

func newConversation(dial bench.Dial) *conversation {
	const ehlo, from = "talk.bench.example", "talk@bench.example"
	return &conversation{
		table: engine.DefaultTable(),
		dial: smtp.Dialer{AllowPrivate: true, Dial: func(ctx context.Context, _ netip.Addr, network, address string) (net.Conn, error) {
			return dial(ctx, network, address)
		}},
		cfg:   smtp.Config{EHLO: ehlo, MailFrom: from, TLS: engine.TLSNever, MaxBytes: 8 << 20},
		asker: engine.Asker{MailFrom: from, EHLO: ehlo, Sources: []string{"127.0.0.2"}},
	}
}

func (c *conversation) about(errands []bench.Errand) func(context.Context, int) bench.Heard {
	ready := make([]talkErrand, len(errands))
	for i, e := range errands {
		ready[i] = c.prepare(e)
	}
	return func(ctx context.Context, i int) bench.Heard { return c.goOn(ctx, &ready[i]) }
}

// prepare parses an errand's addresses. It leaves out those that need no asking: no address, or settled by what is known of the provider.
func (c *conversation) prepare(e bench.Errand) talkErrand {
	t := talkErrand{host: e.Host, at: e.At, route: c.table.NewRoute([]engine.MX{{Host: e.Host}})}
	for _, recipients := range e.Recipients {
		var addrs []engine.Address
		for _, r := range recipients {
			a, err := engine.Parse(r)
			ev := engine.Evidence{Address: a, SyntaxBad: err != nil, Route: &t.route}
			if engine.Next(&ev, engine.Policy{}, time.Time{}).Kind == engine.StepAsk {
				addrs = append(addrs, a)
			}
		}
		if len(addrs) > 0 {
			t.transactions = append(t.transactions, addrs)
		}
	}
	return t
}

// talkErrand is an errand as a lane has it in hand.
type talkErrand struct {
	host         string
	at           netip.AddrPort
	route        engine.Route
	transactions [][]engine.Address
}

// goOn does an errand over as many connections as its host makes it take; two in a row that bring nothing end it.
func (c *conversation) goOn(ctx context.Context, e *talkErrand) bench.Heard {
	t := &talking{c: c, e: e, domains: map[string]*talkDomain{}}
	for fruitless := 0; t.left() && fruitless < 2 && ctx.Err() == nil; {
		before := t.heard.Recipients
		t.heard.Connections++
		t.converse(ctx)
		if fruitless++; t.heard.Recipients > before {
			fruitless = 0
		}
	}
	for p, ok := t.next(); ok; p, ok = t.next() {
		if !p.decoy {
			t.heard.Lost++
		}
	}
	return t.heard
}

// talkProbe is one recipient: an address on its way to a verdict, or a domain's decoy.
type talkProbe struct {
	ev     engine.Evidence
	domain *talkDomain
	decoy  bool
	begins bool // a transaction
}

// talkDomain is what a domain's decoy has shown, and who waits for it.
type talkDomain struct {
	accepted bool
	waiting  []*talkProbe
	sighting engine.Sighting // of the decoy; its Host is empty before it has answered
}

// talking is one errand under way.
type talking struct {
	c       *conversation
	e       *talkErrand
	first   []*talkProbe // who is asked before the others: decoys, and those that went unanswered
	turn    int          // of the errand's transactions, the one that is asked next
	at      int          // its first recipient that has not been asked
	domain  *talkDomain  // its domain
	fresh   []talkProbe  // not used yet
	domains map[string]*talkDomain
	group   []*talkProbe
	rcpts   []smtp.Rcpt
	now     time.Time
	heard   bench.Heard
}

func (t *talking) left() bool { return len(t.first) > 0 || t.turn < len(t.e.transactions) }

// next takes who is to be asked next.
func (t *talking) next() (p *talkProbe, ok bool) {
	switch {
	case len(t.first) > 0:
		p, t.first = t.first[0], t.first[1:]
		return p, true
	case t.turn == len(t.e.transactions):
		return nil, false
	}
	addrs := t.e.transactions[t.turn]
	if len(t.fresh) == 0 {
		t.fresh = make([]talkProbe, talkGroup)
	}
	p, t.fresh = &t.fresh[0], t.fresh[1:]
	if p.begins = t.at == 0; p.begins {
		t.domain = t.domainOf(addrs[0].Domain())
	}
	p.ev.Address, p.ev.Route, p.domain = addrs[t.at], &t.e.route, t.domain
	if t.at++; t.at == len(addrs) {
		t.turn, t.at = t.turn+1, 0
	}
	return p, true
}

func (t *talking) domainOf(name string) *talkDomain {
	d := t.domains[name]
	if d == nil {
		d = &talkDomain{}
		t.domains[name] = d
	}
	return d
}

// talkGroup is how many recipients a group holds: as many as a lane's on a connection that has answered.
const talkGroup = 100

// take fills the next group.
func (t *talking) take() {
	t.group, t.rcpts = t.group[:0], t.rcpts[:0]
	var domain *talkDomain
	for len(t.group) < talkGroup {
		p, ok := t.next()
		if !ok {
			return
		}
		t.group = append(t.group, p)
		t.rcpts = append(t.rcpts, smtp.Rcpt{Local: p.ev.Address.Local(), Domain: p.ev.Address.Domain(), Anew: p.begins || p.domain != domain})
		domain = p.domain
	}
}

// converse asks over one connection until no recipient is left or it is of no more use.
func (t *talking) converse(ctx context.Context) {
	conn, f := t.c.dial.DialContext(ctx, t.e.at)
	if !f.None() {
		return
	}
	s, f := smtp.Open(ctx, conn, t.c.cfg, t.e.host)
	if !f.None() {
		return
	}
	defer s.Quit(ctx)
	for answered := 1; t.left() && answered > 0 && ctx.Err() == nil && !s.Botched(); {
		t.take()
		t.now = time.Now()
		answered = s.Transaction(ctx, t.rcpts, t.hear).Answered
		t.first = append(t.first, t.group[answered:]...)
	}
}

// hear is told each reply of a group.
func (t *talking) hear(i int, r engine.Reply) {
	p, d := t.group[i], t.group[i].domain
	seen := engine.Sighting{Subject: engine.SubjectTarget, Host: t.e.host, Reply: r, At: t.now,
		Finding: t.c.table.Classify(t.e.route.Provider, r, t.c.asker)}
	if p.decoy {
		seen.Subject = engine.SubjectDecoy
		d.sighting = seen
		for _, w := range d.waiting {
			w.ev.Append(d.sighting)
			t.move(w)
		}
		d.waiting = nil
		return
	}
	t.heard.Recipients++
	if seen.Finding.Meaning == engine.Accepted {
		t.heard.Accepted++
		d.accepted = true
	}
	p.ev.Append(seen)
	t.move(p)
}

// move takes a probe as far as it goes without asking anyone.
func (t *talking) move(p *talkProbe) {
	d := p.domain
	step := engine.Next(&p.ev, engine.Policy{}, t.now)
	if step.Kind == engine.StepDecoy && d.sighting.Host != "" {
		p.ev.Append(d.sighting)
		step = engine.Next(&p.ev, engine.Policy{}, t.now)
	}
	if step.Kind == engine.StepDecoy {
		if d.waiting = append(d.waiting, p); len(d.waiting) == 1 {
			t.first = append(t.first, t.decoyOf(p))
		}
		return
	}
	v := engine.Judge(&p.ev, engine.Policy{}, t.now)
	t.heard.Judged++
	if t.c.told != nil {
		t.c.told(p.ev.Address, &v)
	}
}

// decoyOf makes the decoy of a probe's domain: a made-up local part.
func (t *talking) decoyOf(p *talkProbe) *talkProbe {
	local := make([]byte, 16)
	for i := range local {
		local[i] = 'a' + byte(rand.IntN(26))
	}
	a, err := engine.Parse(string(local) + "@" + p.ev.Address.Domain())
	if err != nil {
		panic("BUG: letters make no local part: " + err.Error())
	}
	return &talkProbe{ev: engine.Evidence{Address: a}, domain: p.domain, decoy: true, begins: true}
}
