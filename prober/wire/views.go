package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"probity/engine"
)

// ReadyQueue is a ready queue of a node as people see it: what of its budgets is used, and what holds it back.
type ReadyQueue struct {
	Route       string `json:"route"` // "" stands for all routes of the identity
	Egress      string `json:"egress"`
	Provider    string `json:"provider"`
	State       string `json:"state"` // quarantined, paused, slowed, waiting, spent, busy, idle
	Queued      int    `json:"queued"`
	Connections Usage  `json:"connections"`
	PerMinute   Usage  `json:"recipients_per_minute"`
	Refusals    Usage  `json:"refusals_per_hour"`
	// the address that the routes of unknown hosts share their budgets at; empty: none is known
	Address         string    `json:"address,omitempty"`
	AddressRefusals Usage     `json:"address_refusals_per_hour,omitzero"`
	Until           time.Time `json:"until,omitzero"`  // of what holds it back
	Since           time.Time `json:"since,omitzero"`  // of the reply that was last acted on
	Rule            string    `json:"rule,omitempty"`  // that read it
	Reply           string    `json:"reply,omitempty"` // redacted
	Host            string    `json:"host,omitempty"`  // that said it
}

// queueStates are the states, first those that matter most to an operator.
var queueStates = [...]string{"quarantined", "paused", "slowed", "exhausted", "waiting", "busy", "idle"}

func weight(l *ReadyQueue) int {
	return len(queueStates) - max(slices.Index(queueStates[:], l.State), 0)
}

// CompareReadyQueues puts those first that matter most to an operator, then those with the most work.
func CompareReadyQueues(a, b *ReadyQueue) int {
	return cmp.Or(weight(b)-weight(a), cmp.Compare(b.Queued, a.Queued), cmp.Compare(b.Refusals.Used, a.Refusals.Used),
		strings.Compare(a.Route, b.Route), strings.Compare(a.Egress, b.Egress))
}

// Usage is how much of a budget is used now; a limit of 0 is none.
type Usage struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Trace is one recent probe, from its verdict to the reply and the rule. There is no address in it.
type Trace struct {
	At       time.Time `json:"time"`
	Provider string    `json:"provider"` // id
	Host     string    `json:"mx"`
	Stage    string    `json:"stage,omitempty"`
	Event    string    `json:"event"` // of the sighting that decided
	Code     int       `json:"code,omitempty"`
	Enhanced string    `json:"enhanced,omitempty"`
	Meaning  string    `json:"meaning,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Source   string    `json:"source,omitempty"` // of the rule; found when it is shown
	Status   string    `json:"status"`           // DEFERRED for one that will be asked again
	Reason   string    `json:"reason,omitempty"`
	Message  string    `json:"message,omitempty"` // redacted
	Attempts int       `json:"attempts"`          // this one included
	Egress   string    `json:"egress"`
	// what the verdict rests on in addition to the reply; nil where none was asked
	Decoy *Decoy `json:"decoy,omitempty"`
}

// Decoy is what the decoy of a probe's domain has shown at its host, at the time or up to a week before. There is no
// address in it.
type Decoy struct {
	At       time.Time `json:"time"`
	Event    string    `json:"event"`
	Code     int       `json:"code,omitempty"`
	Enhanced string    `json:"enhanced,omitempty"`
	Meaning  string    `json:"meaning,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Source   string    `json:"source,omitempty"`  // of the rule; found when it is shown
	Message  string    `json:"message,omitempty"` // redacted
}

// Query selects traces. Empty fields match all.
type Query struct {
	Email    string // the probes of one address, which the node knows by a keyed hash
	Status   string // VALID, RISKY, INVALID, UNKNOWN or DEFERRED
	Provider string // id
	Limit    int    // at most MaxViewItems
}

// outcomes are the words of Query.Status.
var outcomes = [...]string{"VALID", "RISKY", "INVALID", "UNKNOWN", "DEFERRED"}

// Check says what is wrong with a query.
func (q *Query) Check() error {
	if q.Email != "" {
		if _, err := engine.ParseTrimmed(q.Email); err != nil {
			return errors.New("email is not an address")
		}
	}
	if q.Status != "" && !slices.Contains(outcomes[:], q.Status) {
		return fmt.Errorf("status %.40q is not one of %s", q.Status, strings.Join(outcomes[:], ", "))
	}
	return nil
}

// MaxViewItems bounds the ready queues and the traces of one answer.
const MaxViewItems = 500

// Views is what a node lets people see and do. No probing decision depends on what it shows.
type Views interface {
	// ReadyQueues are those that matter most, the held back before the busy, at most MaxViewItems.
	ReadyQueues() []ReadyQueue
	// Traces are recent probes, the newest first. An error says what is wrong with the query.
	Traces(Query) ([]Trace, error)
	// EndQuarantine ends the quarantine of a route at an identity, of all its routes for "". It reports whether there
	// was one.
	EndQuarantine(egress, route string) bool
}
