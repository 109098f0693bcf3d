package frames

import (
	"math"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// NewAskFrame makes the message of a single call. budget is how long an answer is of use; 0 is without limit.
func NewAskFrame(sr *wire.SingleRequest, budget time.Duration) *AskFrame {
	return &AskFrame{Mailbox: sr.Address.Mailbox(), Flags: uint32(sr.Flags), Route: newRouteFrame(sr.Route, sr.UsedByOthers), MaxAgeNs: int64(sr.MaxAge),
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
	return wire.SingleRequest{Address: address, Flags: engine.Flags(f.GetFlags()), Route: route, MaxAge: time.Duration(f.GetMaxAgeNs()),
		NoSMTP: f.GetNoSmtp(), Low: f.GetLow(), Batch: f.GetBatch(), Egress: f.GetEgress(), UsedByOthers: f.GetRoute().usedByOthers()}, nil
}

// NewVerdictFrame makes the message of a verdict.
func NewVerdictFrame(v *engine.Verdict) *VerdictFrame {
	d := &v.Details
	f := &VerdictFrame{Core: engine.AppendCore(make([]byte, 0, engine.CoreSize), v), Provider: v.ProviderID, ProviderName: v.ProviderName,
		Rule: v.Rule, Mx: v.MX, Host: d.Host, Code: int32(d.Code), Message: d.Message, Stage: uint32(d.Stage), Attempts: int32(d.Attempts),
		NextRetryNs: unixNano(d.NextRetry)}
	if d.Enhanced != (engine.Enhanced{}) {
		f.Enhanced = []uint32{uint32(d.Enhanced.Class), uint32(d.Enhanced.Subject), uint32(d.Enhanced.Detail)}
	}
	return f
}

// Read reads the message of a verdict. All of it is sent; times of evidence to the millisecond, as the core keeps them.
func (f *VerdictFrame) Read() (engine.Verdict, error) {
	v, err := engine.ReadCore(f.GetCore())
	if err != nil || len(f.GetCore()) != engine.CoreSize {
		return engine.Verdict{}, Malformed("an answer without a verdict")
	}
	enhanced := f.GetEnhanced()
	if len(enhanced) == 0 {
		enhanced = []uint32{0, 0, 0}
	}
	if len(enhanced) != 3 || max(enhanced[0], enhanced[1], enhanced[2]) > math.MaxUint16 || f.GetStage() > uint32(engine.StageSession) {
		return engine.Verdict{}, Malformed("an answer whose details make no sense")
	}
	v.ProviderID, v.ProviderName, v.Rule, v.MX = f.GetProvider(), f.GetProviderName(), f.GetRule(), f.GetMx()
	d := &v.Details
	d.Host, d.Code, d.Message = f.GetHost(), int(f.GetCode()), f.GetMessage()
	d.Enhanced = engine.Enhanced{Class: uint16(enhanced[0]), Subject: uint16(enhanced[1]), Detail: uint16(enhanced[2])}
	d.Stage, d.Attempts, d.NextRetry = engine.Stage(f.GetStage()), int(f.GetAttempts()), fromUnixNano(f.GetNextRetryNs())
	return v, nil
}
