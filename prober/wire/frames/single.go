package frames

import (
	"math"
	"time"

	"probity/engine"
	"probity/engine/detail"
	"probity/prober/wire"
)

// NewAskFrame makes the message of a single call. budget is how long an answer is of use; 0 is without limit.
func NewAskFrame(sr *wire.SingleRequest, budget time.Duration) *AskFrame {
	return &AskFrame{Mailbox: sr.Address.Mailbox(), Flags: uint32(sr.Flags),
		Route: newRouteFrame(sr.Route, sr.UsedByOthers), MaxAgeNs: int64(sr.MaxAge),
		NoSmtp: sr.NoSMTP, Low: sr.Low, Batch: sr.Batch, BudgetNs: int64(budget), Egress: sr.Egress}
}

// Read reads the message of a single call. Its route is routable.
func (f *AskFrame) Read(table *engine.Table) (wire.SingleRequest, error) {
	address, err := engine.Parse(f.GetMailbox())
	if err != nil {
		return wire.SingleRequest{}, Malformed("a question about no address")
	}
	if f.GetFlags() > math.MaxUint8 {
		return wire.SingleRequest{}, Malformed("unknown flags %x", f.GetFlags())
	}
	if f.GetRoute() == nil {
		return wire.SingleRequest{}, Malformed("a question without a route")
	}
	route, err := f.GetRoute().read(table)
	if err != nil {
		return wire.SingleRequest{}, err
	}
	return wire.SingleRequest{Address: address, Flags: engine.Flags(f.GetFlags()), Route: route,
		MaxAge: time.Duration(f.GetMaxAgeNs()),
		NoSMTP: f.GetNoSmtp(), Low: f.GetLow(), Batch: f.GetBatch(), Egress: f.GetEgress(),
		UsedByOthers: f.GetRoute().readUse()}, nil
}

// NewVerdictFrame makes the message of a verdict.
func NewVerdictFrame(v *engine.Verdict) *VerdictFrame {
	return &VerdictFrame{Core: engine.AppendCore(make([]byte, 0, engine.CoreSize), v), Provider: v.ProviderID,
		ProviderName: v.ProviderName,
		Rule:         v.Rule, Mx: v.MX, Details: detail.Append(nil, v), NextRetryNs: unixNano(v.Details.NextRetry)}
}

// Read reads the message of a verdict. All of it is sent; times of evidence to the millisecond, as the core keeps them.
func (f *VerdictFrame) Read() (engine.Verdict, error) {
	v, err := engine.ReadCore(f.GetCore())
	if err != nil || len(f.GetCore()) != engine.CoreSize {
		return engine.Verdict{}, Malformed("an answer without a verdict")
	}
	if detail.Read(f.GetDetails(), &v) != nil {
		return engine.Verdict{}, Malformed("an answer whose details make no sense")
	}
	v.ProviderID = f.GetProvider()
	v.ProviderName = f.GetProviderName()
	v.Rule = f.GetRule()
	v.MX = f.GetMx()
	v.Details.NextRetry = fromUnixNano(f.GetNextRetryNs())
	return v, nil
}
