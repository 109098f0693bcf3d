package cache

import (
	"encoding/binary"
	"errors"
	"time"

	"probity/engine"
	"probity/engine/detail"
)

// The first byte of every result, and of every fact. Facts of version 1 lack what controlled a refusal; older ones than
// these are not read.
const (
	valueVersion = 2
	factVersion  = 3
)

var errValue = errors.New("not a value of this cache")

// The lifetimes of verdicts and facts.
const (
	LifeAccepted    = 31 * 24 * time.Hour
	LifeRefused     = 3 * 24 * time.Hour
	LifeUnconfirmed = 3 * 24 * time.Hour
	LifeFact        = 7 * 24 * time.Hour
)

// verdictLifetime returns how long a verdict may be served.
func verdictLifetime(v *engine.Verdict) time.Duration {
	switch {
	case v.Status == engine.Invalid, v.Details.Full:
		return LifeRefused
	case v.Reason == engine.ReasonAcceptedUnconfirmed:
		return LifeUnconfirmed
	}
	return LifeAccepted
}

// expired reports whether a value is older than its lifetime, which is limited to MaxLife and divided by 2^shrink.
func (c *Config) expired(at time.Time, lifetime time.Duration, shrink int32, now time.Time) bool {
	if c.MaxLife > 0 {
		lifetime = min(lifetime, c.MaxLife)
	}
	return !now.Before(at.Add(lifetime >> shrink))
}

// AppendVerdict appends the stored form of v: version, the engine's core, provider, rule, and the details.
func AppendVerdict(dst []byte, v *engine.Verdict) []byte {
	dst = engine.AppendCore(append(dst, valueVersion), v)
	return detail.Append(detail.AppendString(detail.AppendString(dst, v.ProviderID), v.Rule), v)
}

// ReadVerdict reads what AppendVerdict wrote. The caller fills ProviderName and MX from the route.
func ReadVerdict(src []byte) (engine.Verdict, error) {
	if len(src) < 1+engine.CoreSize || src[0] != valueVersion {
		return engine.Verdict{}, errValue
	}
	v, err := engine.ReadCore(src[1 : 1+engine.CoreSize])
	if err != nil {
		return v, err
	}
	r := detail.Reader{Src: src[1+engine.CoreSize:]}
	v.ProviderID, v.Rule = r.String(), r.String()
	if r.Bad || detail.Read(r.Src, &v) != nil {
		return engine.Verdict{}, errValue
	}
	return v, nil
}

// Fact is what a decoy proved about one domain at one MX host.
type Fact struct {
	At           time.Time // to the millisecond
	Code         int
	Meaning      engine.Meaning
	Blame        engine.Blame
	Controlled   bool // engine.Sighting.Controlled
	NamesUnknown bool // engine.Finding.NamesUnknown
	Rule         string
	Enhanced     engine.Enhanced
	Message      string // the reply as it is shown
	Source       string // egress source that was answered
}

// Sighting returns the fact as evidence about an address of the domain.
func (f *Fact) Sighting(host string) engine.Sighting {
	s := engine.Sighting{
		Subject: engine.SubjectDecoy, Event: engine.EventReply, Host: host, At: f.At, Controlled: f.Controlled,
		Reply:   engine.Reply{Stage: engine.StageRcpt, Code: f.Code, Enhanced: f.Enhanced},
		Finding: engine.Finding{Meaning: f.Meaning, Blame: f.Blame, Rule: f.Rule, NamesUnknown: f.NamesUnknown},
	}
	if f.Message != "" {
		s.Reply.Lines = []string{f.Message}
	}
	return s
}

// FactOf makes a fact of a decoy's sighting; false if its reply proves nothing that may be stored. The first temporary
// reply that names an unknown user proves nothing yet, but the second will, even a later list's. An acceptance that was
// no check replaces an older refusal.
func FactOf(s *engine.Sighting) (Fact, bool) {
	f := s.Finding
	accepted := f.Meaning == engine.Accepted || f.Meaning == engine.RateLimited && s.Reply.Positive()
	if s.Event != engine.EventReply || !accepted && !s.RefusesUnknown() && !s.NamesUnknown() {
		return Fact{}, false
	}
	return Fact{At: s.At, Code: s.Reply.Code, Enhanced: s.Reply.Enhanced, Meaning: f.Meaning, Blame: f.Blame,
		Controlled:   s.Controlled,
		NamesUnknown: f.NamesUnknown, Rule: f.Rule}, true
}

// The flags in the stored form of a fact.
const (
	factControlled = 1 << iota
	factNamesUnknown
	factFlags = factControlled | factNamesUnknown
)

// AppendFact appends the stored form of f.
func AppendFact(dst []byte, f *Fact) []byte {
	dst = append(dst, factVersion, byte(f.Meaning), byte(f.Blame), 0)
	flags := &dst[len(dst)-1]
	if f.Controlled {
		*flags |= factControlled
	}
	if f.NamesUnknown {
		*flags |= factNamesUnknown
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.At.UnixMilli()))
	dst = detail.AppendString(detail.AppendReply(dst, f.Code, f.Enhanced), f.Rule)
	return detail.AppendString(detail.AppendString(dst, f.Message), f.Source)
}

// ReadFact reads what AppendFact wrote.
func ReadFact(src []byte) (Fact, error) {
	r := detail.Reader{Src: src}
	if r.Byte() != factVersion {
		return Fact{}, errValue
	}
	f := Fact{Meaning: engine.Meaning(r.Byte()), Blame: engine.Blame(r.Byte())}
	flags := r.Byte()
	f.Controlled, f.NamesUnknown = flags&factControlled != 0, flags&factNamesUnknown != 0
	f.At = time.UnixMilli(int64(r.Uint64())).UTC()
	f.Code, f.Enhanced = r.Reply()
	f.Rule, f.Message, f.Source = r.String(), r.String(), r.String()
	if r.Bad || len(r.Src) > 0 || flags&^factFlags != 0 || f.Meaning > engine.ProtocolFault ||
		f.Blame > engine.BlameRecipient {
		return Fact{}, errValue
	}
	return f, nil
}
