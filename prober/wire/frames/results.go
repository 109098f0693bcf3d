package frames

import (
	"probity/engine"
	"probity/engine/detail"
	"probity/prober/wire"
)

// NewResultsFrame makes the message of a part of the answer to a batch, without its number. It copies what it takes. MX
// is not sent: the coordinator has that of each row. Details are sent if there are any.
func NewResultsFrame(batch uint64, r wire.Results) *ResultsFrame {
	n := len(r.Rows)
	f := &ResultsFrame{Batch: batch, Done: r.Done, Row: make([]uint32, n), Outcome: make([]byte, n),
		Attempt: make([]byte, n),
		Core:    make([]byte, 0, n*engine.CoreSize), Egress: make([]uint32, n), Provider: make([]uint32, n),
		ProviderName: make([]uint32, n), Rule: make([]uint32, n), BudgetWait: Count(r.BudgetWait.Rows),
		BudgetWaitUntilNs: unixNano(r.BudgetWait.Until)}
	names := nameTable{at: map[string]uint32{"": 0}, list: []string{""}}
	for i := range r.Rows {
		row := &r.Rows[i]
		v := &row.Verdict
		f.Row[i], f.Outcome[i], f.Attempt[i] = row.Row, byte(row.Outcome), row.Attempt
		if v.Status == engine.Unknown && v.Reason == engine.ReasonNone {
			f.Core = append(f.Core, noVerdict[:]...)
		} else {
			f.Core = engine.AppendCore(f.Core, v)
		}
		f.Egress[i], f.Rule[i] = names.index(row.Egress), names.index(v.Rule)
		f.Provider[i], f.ProviderName[i] = names.index(v.ProviderID), names.index(v.ProviderName)
		if r.Details {
			f.Details = append(f.Details, detail.Append(nil, v))
		}
		if !row.Due.IsZero() {
			if f.DueNs == nil {
				f.DueNs = make([]int64, n)
			}
			f.DueNs[i] = row.Due.UnixNano()
		}
	}
	f.Names = names.list
	return f
}

// noVerdict stands for a verdict that was not made, as rows that are returned unasked have. No verdict has this core,
// since only VALID has no reason.
var noVerdict [engine.CoreSize]byte

// nameTable numbers strings that repeat.
type nameTable struct {
	at   map[string]uint32
	list []string
}

func (t *nameTable) index(s string) uint32 {
	i, ok := t.at[s]
	if !ok {
		i = uint32(len(t.list))
		t.at[s], t.list = i, append(t.list, s)
	}
	return i
}

// Read reads the message. Each row has a verdict if it is settled.
func (f *ResultsFrame) Read() (wire.Results, error) {
	n := len(f.GetRow())
	if n > wire.MaxRows || len(f.Outcome) != n || len(f.Attempt) != n || len(f.Core) != n*engine.CoreSize ||
		len(f.DueNs) != 0 && len(f.DueNs) != n ||
		len(f.Details) != 0 && len(f.Details) != n {
		return wire.Results{}, Malformed("results whose columns differ in length")
	}
	for _, column := range [...][]uint32{f.Egress, f.Provider, f.ProviderName, f.Rule} {
		if len(column) != n {
			return wire.Results{}, Malformed("results whose columns differ in length")
		}
		for _, i := range column {
			if int64(i) >= int64(len(f.Names)) {
				return wire.Results{}, Malformed("a result names string %d of %d", i, len(f.Names))
			}
		}
	}
	r := wire.Results{Rows: make([]wire.Result, n), Details: f.Details != nil, Done: f.GetDone(),
		BudgetWait: wire.BudgetWait{Rows: int(min(f.GetBudgetWait(), wire.MaxRows)),
			Until: fromUnixNano(f.GetBudgetWaitUntilNs())}}
	for i := range r.Rows {
		row := &r.Rows[i]
		*row = wire.Result{Row: f.Row[i], Outcome: wire.Outcome(f.Outcome[i]), Attempt: f.Attempt[i],
			Egress: f.Names[f.Egress[i]]}
		v, core := &row.Verdict, f.Core[i*engine.CoreSize:(i+1)*engine.CoreSize]
		if row.Outcome == wire.Settled || [engine.CoreSize]byte(core) != noVerdict {
			var err error
			if *v, err = engine.ReadCore(core); err != nil {
				return wire.Results{}, Malformed("result %d has no verdict", i)
			}
		}
		if row.Outcome > wire.Deferred || f.Details != nil && detail.Read(f.Details[i], v) != nil {
			return wire.Results{}, Malformed("result %d has no verdict", i)
		}
		v.Rule, v.ProviderID, v.ProviderName = f.Names[f.Rule[i]], f.Names[f.Provider[i]], f.Names[f.ProviderName[i]]
		if f.DueNs != nil {
			row.Due = fromUnixNano(f.DueNs[i])
		}
	}
	return r, nil
}
