package measured

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"probity/bench/baseline"
	"probity/engine"
	"probity/engine/smtp"
)

// conversation is what bench measures next to its bare SMTP client. It does what a ready queue of the prober does
// between a connection and the verdicts of its recipients, with the same packages: smtp.Dialer, smtp.Open,
// Session.Transaction with batches of the same size, Table.Classify for each reply, engine.Evidence with every
// sighting, engine.Next, the decoy of a domain (only after a recipient was accepted there), engine.Judge.
//
// It leaves out parsing, DNS, scheduling (queues, budgets, in-flight probes, admission), storage (cache, metrics,
// results), and TLS, which the bare client does not speak either.
type conversation struct {
	table          *engine.Table
	dial           smtp.Dialer
	cfg            smtp.Config
	senderIdentity engine.SenderIdentity
	onVerdict      func(engine.Address, *engine.Verdict) // called with each verdict, for tests; may be nil
}

// Conversation is a bench.Conversation.
func Conversation(dial baseline.Dial, tasks []baseline.Task) baseline.RunTask {
	return newConversation(dial).tasksFunc(tasks)
}

func newConversation(dial baseline.Dial) *conversation {
	const ehlo, from = "talk.bench.example", "talk@bench.example"
	return &conversation{
		table: engine.DefaultTable(),
		dial: smtp.Dialer{AllowPrivate: true, Dial: func(ctx context.Context, _ netip.Addr, network,
			address string) (net.Conn, error) {
			return dial(ctx, network, address)
		}},
		cfg:            smtp.Config{EHLO: ehlo, MailFrom: from, TLS: engine.TLSNever, MaxBytes: 8 << 20},
		senderIdentity: engine.SenderIdentity{MailFrom: from, EHLO: ehlo, Sources: []string{"127.0.0.2"}},
	}
}

func (c *conversation) tasksFunc(tasks []baseline.Task) baseline.RunTask {
	ready := make([]task, len(tasks))
	for i, e := range tasks {
		ready[i] = c.prepareTask(e)
	}
	return func(ctx context.Context, i int) baseline.Count { return c.runTask(ctx, &ready[i]) }
}

// prepareTask parses a task's addresses. It leaves out those that need no probe: bad syntax, or decided by the
// provider's rules.
func (c *conversation) prepareTask(e baseline.Task) task {
	t := task{host: e.Host, addr: e.At, route: c.table.NewRoute([]engine.MX{{Host: e.Host}})}
	for _, recipients := range e.Transactions {
		var addrs []engine.Address
		for _, r := range recipients {
			a, err := engine.Parse(r)
			ev := engine.Evidence{Address: a, SyntaxBad: err != nil, Route: &t.route}
			if engine.Next(&ev, engine.Policy{}).Kind == engine.StepAsk {
				addrs = append(addrs, a)
			}
		}
		if len(addrs) > 0 {
			t.transactions = append(t.transactions, addrs)
		}
	}
	return t
}

// task is a task in the form that a ready queue has.
type task struct {
	host         string
	addr         netip.AddrPort
	route        engine.Route
	transactions [][]engine.Address
}

// runTask runs a task over as many connections as its host requires. Two connections in a row without a reply end it.
func (c *conversation) runTask(ctx context.Context, e *task) baseline.Count {
	t := &run{c: c, task: e, domains: map[string]*domainState{}}
	for emptyConnections := 0; t.unfinished() && emptyConnections < 2 && ctx.Err() == nil; {
		before := t.result.Recipients
		t.result.Connections++
		t.runConnection(ctx)
		emptyConnections++
		if t.result.Recipients > before {
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

// probe is one recipient: an address on its way to a verdict, or a domain's decoy.
type probe struct {
	ev                engine.Evidence
	domain            *domainState
	decoy             bool
	startsTransaction bool // is the first recipient of one of the task's transactions
}

// domainState is the result of a domain's decoy, and the probes that wait for it.
type domainState struct {
	accepted bool
	waiting  []*probe
	sighting engine.Sighting // of the decoy; its Host is empty before it has answered
}

// run is one task under way.
type run struct {
	c           *conversation
	task        *task
	askFirst    []*probe     // sent before the others: decoys, and recipients without a reply
	transaction int          // index of the next transaction of the task
	recipient   int          // index of its next recipient
	domain      *domainState // its domain
	unused      []probe      // allocated in advance
	domains     map[string]*domainState
	batch       []*probe
	rcpts       []smtp.Rcpt
	now         time.Time
	result      baseline.Count
}

func (r *run) unfinished() bool {
	return len(r.askFirst) > 0 || r.transaction < len(r.task.transactions)
}

// nextProbe returns the next recipient to send.
func (r *run) nextProbe() (p *probe, ok bool) {
	switch {
	case len(r.askFirst) > 0:
		p, r.askFirst = r.askFirst[0], r.askFirst[1:]
		return p, true
	case r.transaction == len(r.task.transactions):
		return nil, false
	}
	addrs := r.task.transactions[r.transaction]
	if len(r.unused) == 0 {
		r.unused = make([]probe, batchSize)
	}
	p, r.unused = &r.unused[0], r.unused[1:]
	p.startsTransaction = r.recipient == 0
	if p.startsTransaction {
		name := addrs[0].Domain()
		if r.domains[name] == nil {
			r.domains[name] = &domainState{}
		}
		r.domain = r.domains[name]
	}
	p.ev.Address, p.ev.Route, p.domain = addrs[r.recipient], &r.task.route, r.domain
	r.recipient++
	if r.recipient == len(addrs) {
		r.transaction, r.recipient = r.transaction+1, 0
	}
	return p, true
}

// batchSize is how many recipients a batch holds: as many as a ready queue sends on a connection that has answered.
const batchSize = 100

// fillTransaction fills the next batch.
func (r *run) fillTransaction() {
	r.batch, r.rcpts = r.batch[:0], r.rcpts[:0]
	var domain *domainState
	for len(r.batch) < batchSize {
		p, ok := r.nextProbe()
		if !ok {
			return
		}
		r.batch = append(r.batch, p)
		r.rcpts = append(r.rcpts, smtp.Rcpt{Local: p.ev.Address.Local(), Domain: p.ev.Address.Domain(),
			NewTransaction: p.startsTransaction || p.domain != domain})
		domain = p.domain
	}
}

// runConnection sends recipients over one connection until none is left or the connection is unusable.
func (r *run) runConnection(ctx context.Context) {
	conn, f := r.c.dial.DialContext(ctx, r.task.addr)
	if !f.None() {
		return
	}
	s, f := smtp.Open(ctx, conn, r.c.cfg, r.task.host)
	if !f.None() {
		return
	}
	defer s.Quit(ctx)
	for answered := 1; r.unfinished() && answered > 0 && ctx.Err() == nil && !s.Unusable(); {
		r.fillTransaction()
		r.now = time.Now()
		answered = s.Transaction(ctx, r.rcpts, r.handleReply).Answered
		r.askFirst = append(r.askFirst, r.batch[answered:]...)
	}
}

// handleReply records the reply to the i-th recipient of a batch.
func (r *run) handleReply(i int, reply engine.Reply) {
	p, d := r.batch[i], r.batch[i].domain
	seen := engine.Sighting{Subject: engine.SubjectTarget, Host: r.task.host, Reply: reply, At: r.now,
		Finding: r.c.table.Classify(r.task.route.Provider, reply, r.c.senderIdentity)}
	if p.decoy {
		seen.Subject = engine.SubjectDecoy
		d.sighting = seen
		for _, w := range d.waiting {
			w.ev.Append(d.sighting)
			r.advance(w)
		}
		d.waiting = nil
		return
	}
	r.result.Recipients++
	if seen.Finding.Meaning == engine.Accepted {
		r.result.Accepted++
		d.accepted = true
	}
	p.ev.Append(seen)
	r.advance(p)
}

// advance takes a probe as far as possible without another reply.
func (r *run) advance(p *probe) {
	d := p.domain
	step := engine.Next(&p.ev, engine.Policy{})
	if step.Kind == engine.StepDecoy && d.sighting.Host != "" {
		p.ev.Append(d.sighting)
		step = engine.Next(&p.ev, engine.Policy{})
	}
	if step.Kind == engine.StepDecoy {
		d.waiting = append(d.waiting, p)
		if len(d.waiting) == 1 {
			r.askFirst = append(r.askFirst, r.newDecoy(p))
		}
		return
	}
	v := engine.Judge(&p.ev, engine.Policy{}, r.now)
	r.result.Judged++
	if r.c.onVerdict != nil {
		r.c.onVerdict(p.ev.Address, &v)
	}
}

// newDecoy makes the decoy of a probe's domain: a random recipient.
func (r *run) newDecoy(p *probe) *probe {
	local := make([]byte, 16)
	for i := range local {
		local[i] = 'a' + byte(rand.IntN(26))
	}
	a, err := engine.Parse(string(local) + "@" + p.ev.Address.Domain())
	if err != nil {
		panic("BUG: letters make no local part: " + err.Error())
	}
	return &probe{ev: engine.Evidence{Address: a}, domain: p.domain, decoy: true, startsTransaction: true}
}
