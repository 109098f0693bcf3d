package record

import (
	"probity/coordinator"
	"probity/coordinator/why"
	"probity/store"
)

// Why is what the open rows of a job wait for, as the API shows it.
type Why struct {
	ID        string         `json:"job_id"`
	Status    store.JobState `json:"status"`
	At        Time           `json:"at"`
	Open      int64          `json:"open_rows"`
	Receivers []receiver     `json:"receivers"`
	Unreached []string       `json:"unreached_nodes"`
}

type receiver struct {
	Receiver string `json:"receiver"`
	Rows     int64  `json:"rows"`
	Asking   int64  `json:"asking"`
	Queued   int64  `json:"queued"`
	Opens    *Time  `json:"opens_at"`
	DoneBy   *Time  `json:"done_by"`
	Waits    []wait `json:"waits"`
}

type wait struct {
	For    string  `json:"for"`
	Rows   int64   `json:"rows"`
	Opens  *Time   `json:"opens_at"`
	Limit  *string `json:"limit"`
	Source *string `json:"source"`
	Node   *string `json:"node"`
	Reply  *string `json:"reply"`
	Rule   *string `json:"rule"`
}

// Words says what the rows wait for.
func (w *wait) Words() string {
	words := w.For
	for _, more := range []struct {
		before string
		text   *string
	}{{" ", w.Limit}, {" of source ", w.Source}, {" at node ", w.Node}, {": ", w.Reply}} {
		if more.text != nil {
			words += more.before + *more.text
		}
	}
	return words
}

// maxReceivers bounds the receivers of one answer.
const maxReceivers = 200

// NewWhy makes the record of an explanation.
func NewWhy(id string, w *coordinator.Why) *Why {
	r := &Why{
		ID: id, Status: w.State, At: Time(w.At), Open: w.Open, Receivers: []receiver{},
		Unreached: append([]string{}, w.Unreached...),
	}
	for i := range w.Receivers[:min(len(w.Receivers), maxReceivers)] {
		r.Receivers = append(r.Receivers, newReceiver(&w.Receivers[i]))
	}
	return r
}

func newReceiver(r *why.Receiver) receiver {
	shown := receiver{
		Receiver: r.Name, Rows: r.Rows, Asking: r.Asking, Queued: r.Queued, Opens: TimeOrNil(r.Opens),
		DoneBy: TimeOrNil(r.DoneBy), Waits: []wait{},
	}
	for _, w := range r.Waits {
		shown.Waits = append(shown.Waits, wait{
			For: w.For, Rows: w.Rows, Opens: TimeOrNil(w.Opens), Limit: TextOrNil(w.Limit), Source: TextOrNil(w.Source),
			Node: TextOrNil(w.Node), Reply: TextOrNil(w.Reply), Rule: TextOrNil(w.Rule),
		})
	}
	return shown
}
