package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/dispatch"
	"probity/coordinator/fleet"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/prober/wire"
)

// What rows wait for.
const (
	ForBudget     = "budget"     // of a receiver, for one of our sources
	ForPause      = "pause"      // the receiver asked a source to wait
	ForQuarantine = "quarantine" // the receiver refused a source
	ForConnection = "connection" // the last connections failed, and the next is tried later
	ForRetry      = "retry"      // the rows were deferred
	ForNode       = "node"       // the node whose source must ask is away
	ForDNS        = "dns"        // the domains could not be looked up so far
)

// Names of receivers that are none.
const (
	NameDNS    = "DNS"
	NameOthers = "other mail servers" // those beyond the rows that are told apart
)

// Wait is what some rows of a receiver wait for.
type Wait struct {
	For          string
	Rows         int64
	Opens, Last  time.Time // of the first and the last of the rows; zero: not known
	Limit        string    // with ForBudget: the limit that is used up, as in the provider table; empty: not known
	Source, Node string    // that must ask, if it is known
	Reply, Rule  string    // of the receiver, that made us wait
}

// Receiver is the open rows of one receiver.
type Receiver struct {
	Name   string
	Rows   int64
	Asking int64 // being asked now
	Queued int64 // wait for their turn only
	Waits  []Wait
	Opens  time.Time // when the first of the rows may be asked
	DoneBy time.Time // when all are expected to be done; zero: not known
	Tail   bool      // its rows are in the tail

	provider *engine.Provider
	budget   *budget
	refused  int64 // rows whose source the receiver has quarantined
}

// budget is what rows need of one budget: of a receiver, or of all that share an address.
type budget struct {
	due  plan.Load
	used int // refusals of the hour
}

// Facts are what the explanation is made of.
type Facts struct {
	Waits      []dispatch.Wait
	Queues     []fleet.ReadyQueueReport
	Unresolved int64     // rows whose domains could not be looked up so far
	Awaited    time.Time // until when rows may wait for absent nodes
	Table      *engine.Table
	Sources    int       // egress sources
	Deadline   time.Time // when rows without an answer are given up; zero: never
	Now        time.Time
}

// Explain returns the receivers with open rows, those first that are done last.
func Explain(f *Facts) []Receiver {
	byKey := map[string]*Receiver{}
	for i := range f.Waits {
		w := &f.Waits[i]
		key := f.keyOf(w)
		r := byKey[key]
		if r == nil {
			r = f.newReceiver(key, w)
			byKey[key] = r
		}
		r.Rows += w.Rows
		r.budget.due.Recipients += w.Due.Recipients
		r.budget.due.Refused += w.Due.Refused
		f.addTo(r, key, w)
	}
	f.joinBudgets(byKey)
	if f.Unresolved > 0 {
		byKey["\x00dns"] = &Receiver{Name: NameDNS, Rows: f.Unresolved,
			Waits: []Wait{{For: ForDNS, Rows: f.Unresolved}}}
	}
	receivers := make([]Receiver, 0, len(byKey))
	for _, r := range byKey {
		f.setTimes(r)
		receivers = append(receivers, *r)
	}
	slices.SortFunc(receivers, func(a, b Receiver) int {
		return cmp.Or(b.DoneBy.Compare(a.DoneBy), cmp.Compare(b.Rows, a.Rows), strings.Compare(a.Name, b.Name))
	})
	return receivers
}

// joinBudgets finds what is used of the budgets of receivers, and joins those that share an address.
func (f *Facts) joinBudgets(byKey map[string]*Receiver) {
	shared := map[string]*budget{} // by source and address
	for i := range f.Queues {
		q := &f.Queues[i]
		r := byKey[q.Route]
		if r == nil || q.Route == "" {
			continue
		}
		r.budget.used = max(r.budget.used, q.Refusals.Used, q.AddressRefusals.Used)
		if q.Address == "" {
			continue
		}
		at := q.Egress + " " + q.Address
		switch one := shared[at]; one {
		case nil:
			shared[at] = r.budget
		case r.budget:
		default:
			one.due.Recipients += r.budget.due.Recipients
			one.due.Refused += r.budget.due.Refused
			one.used = max(one.used, r.budget.used)
			r.budget = one
		}
	}
}

// keyOf is the key of the route of rows, as ready queues have it; empty for rows of the tail that were not read.
func (f *Facts) keyOf(w *dispatch.Wait) string {
	switch {
	case w.Route != nil:
		return w.Route.Key
	case w.Class == chunks.ClassTail:
		return ""
	}
	return w.Class
}

func (f *Facts) newReceiver(key string, w *dispatch.Wait) *Receiver {
	r := &Receiver{Name: NameOf(f.Table, key), Tail: w.Class == chunks.ClassTail, provider: f.Table.Provider(key),
		budget: &budget{}}
	switch {
	case key == "":
		r.Name = NameOthers
	case r.provider == nil && w.Route != nil && len(w.Route.Hosts) > 0:
		r.Name = w.Route.Hosts[0] // the preferred one
	}
	r.provider = cmp.Or(r.provider, f.Table.Unknown)
	return r
}

// NameOf is the name of a receiver by the key of its route: its provider's, or its first host.
func NameOf(t *engine.Table, key string) string {
	if p := t.Provider(key); p != nil && p.Name != "" {
		return p.Name
	}
	host, _, _ := strings.Cut(key, ",")
	return host
}

// addTo adds rows to what they wait for.
func (f *Facts) addTo(r *Receiver, key string, w *dispatch.Wait) {
	switch w.Kind {
	case dispatch.WaitTurn:
		r.Queued += w.Rows
		r.countRefused(f.heldBack(key, w.Source), w.Rows)
	case dispatch.WaitRetry:
		one, at := f.heldBack(key, w.Source), w.At
		if !r.countRefused(one, w.Rows) {
			at = latest(w.At, one.Opens)
		}
		r.add(Wait{For: ForRetry, Rows: w.Rows, Opens: at, Last: at, Source: w.Source})
	case dispatch.WaitBudget:
		one := f.heldBack(key, w.Source)
		if r.countRefused(one, w.Rows) {
			one.Rows, one.Opens, one.Last = w.Rows, latest(w.At, one.Opens), latest(w.At, f.Now)
			r.add(one)
			break
		}
		if one.For == "" && !w.AtProber && f.Awaited.After(f.Now) {
			one.For, w.At = ForNode, latest(w.At, f.Awaited)
		}
		if one.For == "" {
			one = f.fullest(key, w.Source)
		}
		one.Rows, one.Opens, one.Last = w.Rows, latest(w.At, one.Opens), latest(w.At, one.Opens)
		r.add(one)
	case dispatch.WaitAnswer:
		one := f.heldBack(key, w.Source)
		waiting := w.ForBudget
		// which rows of several routes wait for a budget is not told unless all do, but what they wait for is
		if w.Class == chunks.ClassTail && one.For != "" {
			waiting = w.Rows
		}
		r.Asking += w.Rows - waiting
		if waiting > 0 {
			if one.For == "" {
				one = f.fullest(key, w.Source)
			}
			one.Rows = waiting
			if one.Opens.IsZero() {
				one.Opens = w.At
			}
			one.Last = one.Opens
			if r.countRefused(one, waiting) {
				one.Last = latest(w.At, f.Now)
			}
			r.add(one)
		}
	}
}

// countRefused reports whether rows are held back by a quarantine, and counts them. Such rows do not wait for its end:
// when their turn comes they are answered UNKNOWN without being asked, or by another source of a wide provider.
func (r *Receiver) countRefused(heldBack Wait, rows int64) bool {
	if heldBack.For != ForQuarantine {
		return false
	}
	r.refused += rows
	return true
}

// add adds rows, with those that wait for the same if there are any.
func (r *Receiver) add(w Wait) {
	for i := range r.Waits {
		one := &r.Waits[i]
		if one.For == w.For && one.Limit == w.Limit && one.Source == w.Source && one.Node == w.Node {
			one.Rows += w.Rows
			if one.Opens.IsZero() || w.Opens.Before(one.Opens) {
				one.Opens = w.Opens
			}
			one.Last = latest(one.Last, w.Last)
			return
		}
	}
	r.Waits = append(r.Waits, w)
}

// heldBack says what holds back the sources at a route, of those that may ask: of the queue that opens first. Its For
// is empty if a queue is open, or none is known.
func (f *Facts) heldBack(key, source string) (w Wait) {
	for i := range f.Queues {
		q := &f.Queues[i]
		if q.Route != key && q.Route != "" || source != "" && q.Egress != source {
			continue
		}
		if !q.Until.After(f.Now) {
			if q.Route == key && source == "" && q.State == "busy" {
				return Wait{} // this source asks
			}
			continue
		}
		one := Wait{Opens: q.Until, Source: q.Egress, Node: q.Node, Reply: q.Reply, Rule: q.Rule}
		switch q.State {
		case "quarantined":
			one.For = ForQuarantine
		case "paused":
			one.For = ForPause
		case "waiting":
			one.For = ForConnection
		case "exhausted":
			one.For = ForBudget
			one.Limit, _ = mostUsed(q)
		default:
			continue
		}
		if w.For == "" || one.Opens.Before(w.Opens) {
			w = one
		}
	}
	return w
}

// fullest names the budget at a route that is used most, for rows that wait for one though no queue says that it is
// used up: some of each budget is kept for single calls and short jobs.
func (f *Facts) fullest(key, source string) Wait {
	w, most := Wait{For: ForBudget}, 0.0
	for i := range f.Queues {
		q := &f.Queues[i]
		if q.Route != key || source != "" && q.Egress != source {
			continue
		}
		limit, used := mostUsed(q)
		if used > most {
			most = used
			w.Limit, w.Source, w.Node = limit, q.Egress, q.Node
		}
	}
	return w
}

// mostUsed returns the limit of a queue that is used most, and how much of it is.
func mostUsed(q *fleet.ReadyQueueReport) (limit string, used float64) {
	for _, one := range [...]struct {
		name string
		wire.Usage
	}{{"refusals_per_hour", q.Refusals}, {"refusals_per_hour", q.AddressRefusals},
		{"recipients_per_minute", q.PerMinute}, {"connections", q.Connections}} {
		if one.Limit > 0 && float64(one.Used)/float64(one.Limit) > used {
			limit, used = one.name, float64(one.Used)/float64(one.Limit)
		}
	}
	return limit, used
}

// controlsOfOwnHosts is how many refusals controls add to those of the rows at a host of an unknown provider, beyond
// one for each domain: an acceptance there counts after a refusal, and where its connection has no target left, that is
// a decoy's. (The simulated internet, 200 and 800 addresses at one host: 5 to 20 %.)
const controlsOfOwnHosts = 0.12

// budgetSlots is how finely a prober counts an hour: what was used is free again up to one slot later.
const budgetSlots = 60

// setTimes sets when the first rows of a receiver may be asked, and when all are expected to be done: budgets are used
// in bursts, so the windows that the rows need after the first are added to that time. A further deferral of deferred
// rows is not foreseen. All are done when the job gives up; those of a receiver that has quarantined their source need
// no window.
func (f *Facts) setTimes(r *Receiver) {
	var closed, last time.Time // until closed no budget allows more
	for _, w := range r.Waits {
		if w.For != ForRetry && w.For != ForQuarantine && (closed.IsZero() || w.Opens.Before(closed)) {
			closed = w.Opens
		}
	}
	for i := range r.Waits {
		w := &r.Waits[i]
		if w.For != ForQuarantine {
			w.Opens, w.Last = latest(w.Opens, closed), latest(w.Last, closed)
		}
		if !w.Opens.IsZero() && (r.Opens.IsZero() || w.Opens.Before(r.Opens)) {
			r.Opens = w.Opens
		}
		last = latest(last, w.Last)
	}
	if r.Asking > 0 || r.Queued > 0 && len(r.Waits) == 0 || !r.Opens.IsZero() && r.Opens.Before(f.Now) {
		r.Opens = f.Now
	}
	if r.Name == NameDNS || r.Opens.IsZero() {
		return
	}
	defer func() {
		if !f.Deadline.IsZero() && f.Deadline.Before(r.DoneBy) {
			r.DoneBy = f.Deadline
		}
	}()
	p, begin := *r.provider, r.Opens
	if r.refused > 0 {
		begin = latest(f.Now, closed)
		if r.refused == r.Rows && p.Kind != engine.KindWide {
			r.DoneBy = latest(f.Now, last)
			return
		}
	}
	if !closed.IsZero() && r.Asking+r.Queued == 0 {
		// Jobs can use what they used before the receiver closed: some of the budget is kept for others.
		if used := r.budget.used; used > 0 {
			p.Limits.RefusalsPerHour = min(p.Limits.RefusalsPerHour, used)
		}
	}
	due := r.budget.due
	if r.provider == f.Table.Unknown || p.BlocksAsUnknown {
		due.Refused *= 1 + controlsOfOwnHosts
	}
	span := plan.LeastTime(&p, due, f.Sources)
	r.DoneBy = latest(begin.Add(span+span/budgetSlots), last)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
