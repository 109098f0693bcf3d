package wire

import (
	"context"
	"errors"
	"time"

	"probity/engine"
)

// MaxRows bounds the rows of one Batch that goes to another process.
const MaxRows = 4096

// Row is one address to verify. Number identifies it within the batch's job.
type Row struct {
	Number  uint32
	Attempt uint8 // deferred attempts so far
	Flags   engine.Flags
	Egress  uint16 // index into Batch.Egress, unless that is empty
	Address engine.Address
	Route   *engine.Route // shared by the rows of a domain; always routable
}

// Batch is a chunk of rows of one job. The prober reads it and does not change it.
type Batch struct {
	Job    string
	Chunk  uint64
	Epoch  uint32
	Class  string        // provider that many sources ask, route key, or "tail"
	Egress []string      // the identities that must ask, as each row says; none: any may
	MaxAge time.Duration // the oldest cached answer that will do; 0 forces a fresh probe
	NoSMTP bool
	Short  bool // its job has few rows left compared with others: they get the greater part of the turns
	// its class has rows for many hours: they use each hour's budget evenly, so that short jobs find some of it
	LongBacklog bool
	Details     bool      // its results have details: Verdict.Details
	Started     time.Time // evidence older than this is "from cache"
	Rows        []Row
	// UsedByOthers is what other sources have used of narrow routes among the rows, by route key.
	UsedByOthers map[string]UsedByOthers
}

// EgressOf is the identity that must ask a row of the batch; "" for any.
func (b *Batch) EgressOf(r *Row) string {
	if len(b.Egress) == 0 {
		return ""
	}
	return b.Egress[r.Egress]
}

// RowsPerMinute returns how many rows the budgets of some sources allow in about a minute if half of the rows are
// refused, at most most. An hourly budget may be used in a burst.
func RowsPerMinute(l engine.Limits, sources, most int) int {
	if n := l.RecipientsPerMinute; n > 0 {
		most = min(most, n*sources)
	}
	if n := l.RefusalsPerHour; n > 0 {
		most = min(most, 2*n*sources)
	}
	return most
}

// UsedByOthers is what other sources have used of the refusals of an hour at a narrow route. A source that takes it
// over has so much less.
type UsedByOthers struct {
	Used int
	Left time.Duration // until all of it is over an hour old
}

// Outcome says what became of a row.
type Outcome uint8

// The outcomes; the zero value is Settled.
const (
	Settled  Outcome = iota
	Returned         // not begun or not finished: no attempt counted. Due says when its budget allows more
	Deferred         // attempted and to be tried again at Due from Egress
)

// Result is what became of one row. Verdict.MX may be empty in a batch, and so may Verdict.Details unless it asks for
// details.
type Result struct {
	Row     uint32
	Outcome Outcome
	Attempt uint8
	Egress  string // the identity that asked a row that is deferred
	Due     time.Time
	Verdict engine.Verdict
}

// Results is a part of the answer to a batch. Rows is valid until the callee returns; a part without rows only reports
// BudgetWait. Done is set on the last part, when each row has had exactly one Result.
type Results struct {
	Job        string
	Chunk      uint64
	Epoch      uint32
	Rows       []Result
	BudgetWait BudgetWait
	Done       bool
	// Details says that the verdicts have details. Node is the one that probed; empty for several or none.
	Details bool
	Node    string
}

// BudgetWait says how many rows without a result waited lately because no budget allowed them, and when the first may
// be asked.
type BudgetWait struct {
	Rows  int
	Until time.Time
}

// SingleRequest is a single verification.
type SingleRequest struct {
	Address engine.Address
	Flags   engine.Flags
	Route   *engine.Route // routable; kept after Single has returned, and so never changed
	MaxAge  time.Duration
	NoSMTP  bool
	Low     bool   // lowest priority (public endpoint)
	Batch   bool   // one of many addresses of a call: after single calls
	Egress  string // the identity that owns the address; "" for any

	UsedByOthers UsedByOthers // what other sources have used of a narrow route
}

// Answer is the outcome of a single verification. A greylisted answer carries Verdict.Details.NextRetry.
type Answer struct {
	Verdict engine.Verdict
	Node    string
}

// Prober is one node as a coordinator sees it.
type Prober interface {
	// Verify takes a batch and calls emit, from one goroutine at a time, until a Results with Done. It returns when the
	// batch is finished, held back for at most hold, or ctx ends (every row still gets its Result: Returned).
	Verify(ctx context.Context, b *Batch, hold time.Duration, emit func(Results)) error
	// Single answers one address before ctx ends; at the deadline it answers UNKNOWN/timeout
	// and goes on in the background.
	Single(ctx context.Context, sr SingleRequest) (Answer, error)
}

// ErrGone is returned for a node that cannot be used: it is not attached, it is stopping, or it was silent for
// NodeTimeout. Its work may be given to another node.
var ErrGone = errors.New("the node is gone")

// ErrOtherTable is returned for a single call whose route is not of the current provider table: find its route again,
// and repeat the call.
var ErrOtherTable = errors.New("the provider table has changed")

// Lost is a batch that a node failed to end. Rows says of each row of the batch whether it has no result.
type Lost struct {
	Err  error
	Rows []bool
}

func (l *Lost) Error() string { return l.Err.Error() }
func (l *Lost) Unwrap() error { return l.Err }
