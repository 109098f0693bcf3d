package wire

import (
	"math"
	"time"

	"probity/engine"
)

// newAskFrame makes the message of a single call. budget is how long an answer is of use; 0 is without limit.
func newAskFrame(sr *SingleRequest, budget time.Duration) *AskFrame {
	return &AskFrame{Mailbox: sr.Address.Mailbox(), Flags: uint32(sr.Flags), Route: newRouteFrame(sr.Route, sr.UsedByOthers), MaxAgeNs: int64(sr.MaxAge),
		NoSmtp: sr.NoSMTP, Low: sr.Low, BudgetNs: int64(budget), Egress: sr.Egress}
}

func (f *AskFrame) read(table *engine.Table) (SingleRequest, error) {
	address, err := engine.Parse(f.GetMailbox())
	if err != nil {
		return SingleRequest{}, malformed("a question about no address")
	}
	if f.GetFlags() > math.MaxUint8 {
		return SingleRequest{}, malformed("unknown flags %x", f.GetFlags())
	}
	if f.GetRoute() == nil {
		return SingleRequest{}, malformed("a question without a route")
	}
	route, err := f.GetRoute().read(table)
	if err != nil {
		return SingleRequest{}, err
	}
	return SingleRequest{Address: address, Flags: engine.Flags(f.GetFlags()), Route: route, MaxAge: time.Duration(f.GetMaxAgeNs()),
		NoSMTP: f.GetNoSmtp(), Low: f.GetLow(), Egress: f.GetEgress(), UsedByOthers: f.GetRoute().usedByOthers()}, nil
}

func newVerdictFrame(v *engine.Verdict) *VerdictFrame {
	d := &v.Details
	f := &VerdictFrame{Core: engine.AppendCore(make([]byte, 0, engine.CoreSize), v), Provider: v.ProviderID, ProviderName: v.ProviderName,
		Rule: v.Rule, Mx: v.MX, Host: d.Host, Code: int32(d.Code), Message: d.Message, Stage: uint32(d.Stage), Attempts: int32(d.Attempts),
		NextRetryNs: unixNano(d.NextRetry)}
	if d.Enhanced != (engine.Enhanced{}) {
		f.Enhanced = []uint32{uint32(d.Enhanced.Class), uint32(d.Enhanced.Subject), uint32(d.Enhanced.Detail)}
	}
	return f
}

// read reads the message of a verdict. All of it is sent; times of evidence to the millisecond, as the core keeps them.
func (f *VerdictFrame) read() (engine.Verdict, error) {
	v, err := engine.ReadCore(f.GetCore())
	if err != nil || len(f.GetCore()) != engine.CoreSize {
		return engine.Verdict{}, malformed("an answer without a verdict")
	}
	enhanced := f.GetEnhanced()
	if len(enhanced) == 0 {
		enhanced = []uint32{0, 0, 0}
	}
	if len(enhanced) != 3 || max(enhanced[0], enhanced[1], enhanced[2]) > math.MaxUint16 || f.GetStage() > uint32(engine.StageSession) {
		return engine.Verdict{}, malformed("an answer whose details make no sense")
	}
	v.ProviderID, v.ProviderName, v.Rule, v.MX = f.GetProvider(), f.GetProviderName(), f.GetRule(), f.GetMx()
	d := &v.Details
	d.Host, d.Code, d.Message = f.GetHost(), int(f.GetCode()), f.GetMessage()
	d.Enhanced = engine.Enhanced{Class: uint16(enhanced[0]), Subject: uint16(enhanced[1]), Detail: uint16(enhanced[2])}
	d.Stage, d.Attempts, d.NextRetry = engine.Stage(f.GetStage()), int(f.GetAttempts()), fromUnixNano(f.GetNextRetryNs())
	return v, nil
}
