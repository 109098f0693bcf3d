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

// proberTalk is what bench measures next to its bare SMTP client. It does what a ready queue of the prober does between a connection
// and the verdicts of its recipients, with the same packages: smtp.Dialer, smtp.Open, Session.Transaction with batches of the same
// size, Table.Classify for each reply, engine.Evidence with every sighting, engine.Next, the decoy of a domain (only after a
// recipient was accepted there), engine.Judge.
//
// It leaves out parsing, DNS, scheduling (queues, budgets, in-flight probes, admission), storage (cache, metrics, results), and
// TLS, which the bare client does not speak either.
type proberTalk struct {
	table          *engine.Table
	dial           smtp.Dialer
	cfg            smtp.Config
	senderIdentity engine.SenderIdentity
	onVerdict      func(engine.Address, *engine.Verdict) // called with each verdict, for tests; may be nil
}

// benchTalk is a bench.Conversation.
func benchTalk(dial bench.Dial, tasks []bench.Task) func(context.Context, int) bench.TaskResult {
	return newProberTalk(dial).tasksFunc(tasks)
}

func newProberTalk(dial bench.Dial) *proberTalk {
	const ehlo, from = "talk.bench.example", "talk@bench.example"
	return &proberTalk{
		table: engine.DefaultTable(),
		dial: smtp.Dialer{AllowPrivate: true, Dial: func(ctx context.Context, _ netip.Addr, network, address string) (net.Conn, error) {
			return dial(ctx, network, address)
		}},
		cfg:            smtp.Config{EHLO: ehlo, MailFrom: from, TLS: engine.TLSNever, MaxBytes: 8 << 20},
		senderIdentity: engine.SenderIdentity{MailFrom: from, EHLO: ehlo, Sources: []string{"127.0.0.2"}},
	}
}

func (c *proberTalk) tasksFunc(tasks []bench.Task) func(context.Context, int) bench.TaskResult {
	ready := make([]talkTask, len(tasks))
	for i, e := range tasks {
		ready[i] = c.prepareTask(e)
	}
	return func(ctx context.Context, i int) bench.TaskResult { return c.runTask(ctx, &ready[i]) }
}

// prepareTask parses a task's addresses. It leaves out those that need no probe: bad syntax, or decided by the provider's rules.
func (c *proberTalk) prepareTask(e bench.Task) talkTask {
	t := talkTask{host: e.Host, addr: e.At, route: c.table.NewRoute([]engine.MX{{Host: e.Host}})}
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

// talkTask is a task in the form that a ready queue has.
type talkTask struct {
	host         string
	addr         netip.AddrPort
	route        engine.Route
	transactions [][]engine.Address
}

// runTask runs a task over as many connections as its host requires. Two connections in a row without a reply end it.
func (c *proberTalk) runTask(ctx context.Context, e *talkTask) bench.TaskResult {
	t := &talkRun{c: c, task: e, domains: map[string]*talkDomain{}}
	for emptyConnections := 0; t.unfinished() && emptyConnections < 2 && ctx.Err() == nil; {
		before := t.result.Recipients
		t.result.Connections++
		t.runConnection(ctx)
		if emptyConnections++; t.result.Recipients > before {
			emptyConnections = 0
		}
	}
	for p, ok := t.nextProbe(); ok; p, ok = t.nextProbe() {
		if !p.decoy {
			t.result.Lost++
		}
	}
	return t.result
}

// talkProbe is one recipient: an address on its way to a verdict, or a domain's decoy.
type talkProbe struct {
	ev                engine.Evidence
	domain            *talkDomain
	decoy             bool
	startsTransaction bool // is the first recipient of one of the task's transactions
}

// talkDomain is the result of a domain's decoy, and the probes that wait for it.
type talkDomain struct {
	accepted bool
	waiting  []*talkProbe
	sighting engine.Sighting // of the decoy; its Host is empty before it has answered
}

// talkRun is one task under way.
type talkRun struct {
	c           *proberTalk
	task        *talkTask
	askFirst    []*talkProbe // sent before the others: decoys, and recipients without a reply
	transaction int          // index of the next transaction of the task
	recipient   int          // index of its next recipient
	domain      *talkDomain  // its domain
	unused      []talkProbe  // allocated in advance
	domains     map[string]*talkDomain
	batch       []*talkProbe
	rcpts       []smtp.Rcpt
	now         time.Time
	result      bench.TaskResult
}

func (t *talkRun) unfinished() bool {
	return len(t.askFirst) > 0 || t.transaction < len(t.task.transactions)
}

// nextProbe returns the next recipient to send.
func (t *talkRun) nextProbe() (p *talkProbe, ok bool) {
	switch {
	case len(t.askFirst) > 0:
		p, t.askFirst = t.askFirst[0], t.askFirst[1:]
		return p, true
	case t.transaction == len(t.task.transactions):
		return nil, false
	}
	addrs := t.task.transactions[t.transaction]
	if len(t.unused) == 0 {
		t.unused = make([]talkProbe, talkBatchSize)
	}
	p, t.unused = &t.unused[0], t.unused[1:]
	if p.startsTransaction = t.recipient == 0; p.startsTransaction {
		t.domain = t.domainOf(addrs[0].Domain())
	}
	p.ev.Address, p.ev.Route, p.domain = addrs[t.recipient], &t.task.route, t.domain
	if t.recipient++; t.recipient == len(addrs) {
		t.transaction, t.recipient = t.transaction+1, 0
	}
	return p, true
}

func (t *talkRun) domainOf(name string) *talkDomain {
	d := t.domains[name]
	if d == nil {
		d = &talkDomain{}
		t.domains[name] = d
	}
	return d
}

// talkBatchSize is how many recipients a batch holds: as many as a ready queue sends on a connection that has answered.
const talkBatchSize = 100

// fillTransaction fills the next batch.
func (t *talkRun) fillTransaction() {
	t.batch, t.rcpts = t.batch[:0], t.rcpts[:0]
	var domain *talkDomain
	for len(t.batch) < talkBatchSize {
		p, ok := t.nextProbe()
		if !ok {
			return
		}
		t.batch = append(t.batch, p)
		t.rcpts = append(t.rcpts, smtp.Rcpt{Local: p.ev.Address.Local(), Domain: p.ev.Address.Domain(), NewTransaction: p.startsTransaction || p.domain != domain})
		domain = p.domain
	}
}

// runConnection sends recipients over one connection until none is left or the connection is unusable.
func (t *talkRun) runConnection(ctx context.Context) {
	conn, f := t.c.dial.DialContext(ctx, t.task.addr)
	if !f.None() {
		return
	}
	s, f := smtp.Open(ctx, conn, t.c.cfg, t.task.host)
	if !f.None() {
		return
	}
	defer s.Quit(ctx)
	for answered := 1; t.unfinished() && answered > 0 && ctx.Err() == nil && !s.Unusable(); {
		t.fillTransaction()
		t.now = time.Now()
		answered = s.Transaction(ctx, t.rcpts, t.handleReply).Answered
		t.askFirst = append(t.askFirst, t.batch[answered:]...)
	}
}

// handleReply records the reply to the i-th recipient of a batch.
func (t *talkRun) handleReply(i int, r engine.Reply) {
	p, d := t.batch[i], t.batch[i].domain
	seen := engine.Sighting{Subject: engine.SubjectTarget, Host: t.task.host, Reply: r, At: t.now,
		Finding: t.c.table.Classify(t.task.route.Provider, r, t.c.senderIdentity)}
	if p.decoy {
		seen.Subject = engine.SubjectDecoy
		d.sighting = seen
		for _, w := range d.waiting {
			w.ev.Append(d.sighting)
			t.advance(w)
		}
		d.waiting = nil
		return
	}
	t.result.Recipients++
	if seen.Finding.Meaning == engine.Accepted {
		t.result.Accepted++
		d.accepted = true
	}
	p.ev.Append(seen)
	t.advance(p)
}

// advance takes a probe as far as possible without another reply.
func (t *talkRun) advance(p *talkProbe) {
	d := p.domain
	step := engine.Next(&p.ev, engine.Policy{}, t.now)
	if step.Kind == engine.StepDecoy && d.sighting.Host != "" {
		p.ev.Append(d.sighting)
		step = engine.Next(&p.ev, engine.Policy{}, t.now)
	}
	if step.Kind == engine.StepDecoy {
		if d.waiting = append(d.waiting, p); len(d.waiting) == 1 {
			t.askFirst = append(t.askFirst, t.newDecoy(p))
		}
		return
	}
	v := engine.Judge(&p.ev, engine.Policy{}, t.now)
	t.result.Judged++
	if t.c.onVerdict != nil {
		t.c.onVerdict(p.ev.Address, &v)
	}
}

// newDecoy makes the decoy of a probe's domain: a random recipient.
func (t *talkRun) newDecoy(p *talkProbe) *talkProbe {
	local := make([]byte, 16)
	for i := range local {
		local[i] = 'a' + byte(rand.IntN(26))
	}
	a, err := engine.Parse(string(local) + "@" + p.ev.Address.Domain())
	if err != nil {
		panic("BUG: letters make no local part: " + err.Error())
	}
	return &talkProbe{ev: engine.Evidence{Address: a}, domain: p.domain, decoy: true, startsTransaction: true}
}
