package cache

import (
	"encoding/binary"
	"errors"
	"time"

	"probity/engine"
)

// The first byte of every result, and of every fact. Facts of version 1 lack what controlled a refusal and are not read.
const (
	valueVersion = 1
	factVersion  = 2
)

// maxString bounds every string inside a value: rules, hosts and messages are far shorter.
const maxString = 1024

var errValue = errors.New("not a value of this cache")

// The lifetimes of verdicts and facts.
const (
	LifeAccepted    = 31 * 24 * time.Hour
	LifeRefused     = 3 * 24 * time.Hour
	LifeUnconfirmed = 3 * 24 * time.Hour
	LifeFact        = 7 * 24 * time.Hour
)

// verdictLifetime is how long a verdict may be served.
func verdictLifetime(v *engine.Verdict) time.Duration {
	switch {
	case v.Status == engine.Invalid, v.Details.Full:
		return LifeRefused
	case v.Reason == engine.ReasonAcceptedUnconfirmed:
		return LifeUnconfirmed
	}
	return LifeAccepted
}

// expired reports that a value is older than its lifetime, which is limited to MaxLife and divided by 2^shrink.
func (c *Config) expired(at time.Time, lifetime time.Duration, shrink int32, now time.Time) bool {
	if c.MaxLife > 0 {
		lifetime = min(lifetime, c.MaxLife)
	}
	return !now.Before(at.Add(lifetime >> shrink))
}

// AppendVerdict appends the stored form of v: version, the engine's core, provider, rule, and the details tail: stage,
// code, enhanced code, host and message.
func AppendVerdict(dst []byte, v *engine.Verdict) []byte {
	dst = engine.AppendCore(append(dst, valueVersion), v)
	dst = appendString(dst, v.ProviderID)
	dst = appendString(dst, v.Rule)
	d := &v.Details
	if d.Code == 0 {
		return dst
	}
	dst = append(dst, byte(d.Stage))
	for _, n := range [...]uint16{uint16(d.Code), d.Enhanced.Class, d.Enhanced.Subject, d.Enhanced.Detail} {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return appendString(appendString(dst, d.Host), d.Message)
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
	r := reader{src: src[1+engine.CoreSize:]}
	v.ProviderID, v.Rule = r.string(), r.string()
	if !r.bad && len(r.src) > 0 {
		d := &v.Details
		d.Stage = engine.Stage(r.byte())
		d.Code = int(r.uint16())
		d.Enhanced = engine.Enhanced{Class: r.uint16(), Subject: r.uint16(), Detail: r.uint16()}
		d.Host, d.Message = r.string(), r.string()
	}
	if r.bad || len(r.src) > 0 {
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
}

// Sighting returns the fact as evidence about an address of the domain.
func (f *Fact) Sighting(host string) engine.Sighting {
	return engine.Sighting{
		Subject: engine.SubjectDecoy, Event: engine.EventReply, Host: host, At: f.At, Controlled: f.Controlled,
		Reply:   engine.Reply{Stage: engine.StageRcpt, Code: f.Code, Enhanced: f.Enhanced},
		Finding: engine.Finding{Meaning: f.Meaning, Blame: f.Blame, Rule: f.Rule, NamesUnknown: f.NamesUnknown},
	}
}

// FactOf makes a fact of a decoy's sighting; false if its reply proves nothing that may be stored. The first temporary reply that names an
// unknown user proves nothing yet, but the second will, even a later list's. An acceptance that was no check replaces an older refusal.
func FactOf(s *engine.Sighting) (Fact, bool) {
	f := s.Finding
	accepted := f.Meaning == engine.Accepted || f.Meaning == engine.RateLimited && s.Reply.Positive()
	if s.Event != engine.EventReply || !accepted && !s.RefusesUnknown() && !s.NamesUnknown() {
		return Fact{}, false
	}
	return Fact{At: s.At, Code: s.Reply.Code, Enhanced: s.Reply.Enhanced, Meaning: f.Meaning, Blame: f.Blame, Controlled: s.Controlled,
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
	for _, n := range [...]uint16{uint16(f.Code), f.Enhanced.Class, f.Enhanced.Subject, f.Enhanced.Detail} {
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	return appendString(dst, f.Rule)
}

// ReadFact reads what AppendFact wrote.
func ReadFact(src []byte) (Fact, error) {
	r := reader{src: src}
	if r.byte() != factVersion {
		return Fact{}, errValue
	}
	f := Fact{Meaning: engine.Meaning(r.byte()), Blame: engine.Blame(r.byte())}
	flags := r.byte()
	f.Controlled, f.NamesUnknown = flags&factControlled != 0, flags&factNamesUnknown != 0
	f.At = time.UnixMilli(int64(r.uint64())).UTC()
	f.Code = int(r.uint16())
	f.Enhanced = engine.Enhanced{Class: r.uint16(), Subject: r.uint16(), Detail: r.uint16()}
	f.Rule = r.string()
	if r.bad || len(r.src) > 0 || flags&^factFlags != 0 || f.Meaning > engine.ProtocolFault || f.Blame > engine.BlameRecipient {
		return Fact{}, errValue
	}
	return f, nil
}

func appendString(dst []byte, s string) []byte {
	s = s[:min(len(s), maxString)]
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// reader reads fields from the front of src; after a missing one it is bad and returns zeros.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) next(n int) []byte {
	if r.bad || len(r.src) < n {
		r.bad = true
		return make([]byte, n)
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) byte() byte     { return r.next(1)[0] }
func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.next(2)) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.next(8)) }

func (r *reader) string() string {
	n, k := binary.Uvarint(r.src)
	if r.bad || k <= 0 || n > maxString {
		r.bad = true
		return ""
	}
	r.src = r.src[k:]
	return string(r.next(int(n)))
}
