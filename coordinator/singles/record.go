package singles

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/coordinator/callback"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
)

// Call is a single call that is answered later.
type Call struct {
	ID      string        `json:"id"` // of its request
	Account string        `json:"account"`
	Key     string        `json:"key,omitempty"` // id of its API key
	Charge  string        `json:"charge"`        // names the charge for its verdict
	Email   string        `json:"email"`
	Details bool          `json:"details,omitempty"`
	Test    bool          `json:"test,omitempty"`
	URL     string        `json:"url"`
	Made    time.Time     `json:"made"`
	Reason  engine.Reason `json:"reason"` // of its answer

	Traceparent string `json:"traceparent,omitempty"` // of its request

	Answered time.Time       `json:"answered,omitzero"`
	Event    json.RawMessage `json:"event,omitempty"` // the body of its callback
}

// ErrNotFound means that there is no such call, or none any more.
var ErrNotFound = errors.New("no single call with a callback has this id")

func keyOf(id string) []byte { return append([]byte{store.TableSingle}, id...) }

func (c *Call) write() store.Part {
	return func(b *pebble.Batch) error {
		value, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return b.Set(keyOf(c.ID), value, nil)
	}
}

// isThere is the part of a commit that abandons it if the call was erased.
func (c *Call) isThere(b *pebble.Batch) error {
	_, closer, err := b.Get(keyOf(c.ID))
	if errors.Is(err, pebble.ErrNotFound) {
		return ErrNotFound
	}
	if err != nil {
		return err
	}
	return closer.Close()
}

// Read returns the call with an id.
func Read(s *store.Store, id string) (c Call, err error) {
	value, closer, err := s.Reader().Get(keyOf(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return c, ErrNotFound
	}
	if err != nil {
		return c, fmt.Errorf("single call %s: %w", id, err)
	}
	if err = errors.Join(json.Unmarshal(value, &c), closer.Close()); err != nil {
		return c, fmt.Errorf("single call %s: %w", id, err)
	}
	return c, nil
}

// Event returns the callback of a call; nil if there is none.
func Event(s *store.Store, id string) (*callback.SingleEvent, error) {
	c, err := Read(s, id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &callback.SingleEvent{URL: c.URL, Traceparent: c.Traceparent, Body: c.Event}, err
}

// visit passes each call to do.
func visit(s *store.Store, do func(Call) error) error {
	it, err := s.Reader().NewIter(&pebble.IterOptions{LowerBound: []byte{store.TableSingle},
		UpperBound: []byte{store.TableSingle + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		var c Call
		value, err := it.ValueAndErr()
		if err == nil {
			err = json.Unmarshal(value, &c)
		}
		if err == nil {
			err = do(c)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

// finish fills in the verdict of a call, which was charged with it.
func (c *Call) finish(a *results.Single, now time.Time) error {
	event, err := json.Marshal(struct {
		Event  string          `json:"event"`
		ID     string          `json:"request_id"`
		Result json.RawMessage `json:"result"`
	}{Finished, c.ID, a.AppendJSON(nil, now)})
	c.Answered, c.Event = now.UTC(), event
	return err
}
