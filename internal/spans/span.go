package spans

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// Kind is the kind of a span, as OTLP numbers them.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1 + iota
	Server
	Client
)

// Span is a part of the work on a request, a job or a callback. It belongs to one goroutine at a time, until its end.
type Span struct {
	tracer *Tracer
	place  Place
	parent [8]byte // zero: none
	name   string
	kind   Kind
	start  time.Time
	end    time.Time
	failed bool
	attrs  []attribute
	events []event
}

// attribute has a text, a number or a boolean.
type attribute struct {
	key   string
	value any
}

type event struct {
	name string
	at   time.Time
}

func newSpan(t *Tracer, place Place, name string, kind Kind, start time.Time) *Span {
	s := &Span{tracer: t, place: place, name: name, kind: kind, start: start}
	s.parent = place.span
	for s.place.span == place.span || s.place.span == [8]byte{} {
		binary.BigEndian.PutUint64(s.place.span[:], rand.Uint64())
	}
	s.place.flags |= sampledFlag
	return s
}

// Rename gives the span another name.
func (s *Span) Rename(name string) {
	if s != nil {
		s.name = name
	}
}

// Child begins a span within s.
func (s *Span) Child(name string, kind Kind, start time.Time) *Span {
	if s == nil {
		return nil
	}
	return newSpan(s.tracer, s.place, name, kind, start)
}

// Place returns the place that spans elsewhere name as their parent; none if s is not recorded.
func (s *Span) Place() Place {
	if s == nil {
		return Place{}
	}
	return s.place
}

// Text adds an attribute, unless the text is empty.
func (s *Span) Text(key, value string) {
	if s != nil && value != "" {
		s.attrs = append(s.attrs, attribute{key, value})
	}
}

// Number adds an attribute.
func (s *Span) Number(key string, value int) {
	if s != nil {
		s.attrs = append(s.attrs, attribute{key, value})
	}
}

// Bool adds an attribute.
func (s *Span) Bool(key string, value bool) {
	if s != nil {
		s.attrs = append(s.attrs, attribute{key, value})
	}
}

// Event adds what happened at a time, unless that is zero.
func (s *Span) Event(name string, at time.Time) {
	if s != nil && !at.IsZero() {
		s.events = append(s.events, event{name, at})
	}
}

// Fail marks the span as failed: by an error of ours, not by what a server answered.
func (s *Span) Fail() {
	if s != nil {
		s.failed = true
	}
}

// End ends the span and has it sent. It is not used any more.
func (s *Span) End(at time.Time) {
	if s == nil {
		return
	}
	s.end = at
	if at.Before(s.start) {
		s.end = s.start
	}
	s.tracer.enqueue(s)
}
