package api

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"probity/engine"
	"probity/store"
)

// Receipt is what became of a wish to be forgotten. It names the address by its hash only.
type Receipt struct {
	ID      string        `json:"erasure_id"`
	Hash    string        `json:"address_sha256"` // of the address in normalized form
	Status  string        `json:"status"`         // open or done
	Asked   stamp         `json:"asked_at"`
	Done    *stamp        `json:"done_at"`
	Jobs    int64         `json:"jobs"` // whose list or results named it
	Rows    int64         `json:"rows"` // of these jobs, whose e-mail cell it was
	Cached  int64         `json:"cached"`
	Answers int64         `json:"answers"` // of the cached, those kept for an Idempotency-Key
	Caches  []erasedCache `json:"caches"`
	AgesOut []agesOut     `json:"ages_out"`
	Problem *string       `json:"problem"`
}

// erasedCache is the cache of a node that was reached.
type erasedCache struct {
	Node     string `json:"node"`
	Verdicts int64  `json:"verdicts"`
	Done     stamp  `json:"done_at"`
}

// agesOut is what was not reached, and when it goes by itself.
type agesOut struct {
	What  string `json:"what"`
	Until *stamp `json:"until"` // nil while that cannot be told: a job that is not finished
}

// ShowReceipt makes the receipt of an erasure; expires tells when the files of a job go, zero for a time that is not known.
func ShowReceipt(e store.Erasure, expires func(job string) time.Time) Receipt {
	r := Receipt{ID: e.ID, Hash: e.Hash, Status: "done", Asked: stamp(e.Asked), Done: stampOf(e.Done), Jobs: e.JobCount, Rows: e.Rows,
		Cached: e.Answers, Answers: e.Answers, Caches: []erasedCache{}, AgesOut: []agesOut{}, Problem: textOrNil(e.Fault)}
	if e.Open() {
		r.Status = "open"
	}
	for _, c := range e.Caches {
		if c.Done.IsZero() {
			r.AgesOut = append(r.AgesOut, agesOut{"the cache of " + c.Node, stampOf(c.Until)})
			continue
		}
		r.Cached += c.Verdicts
		r.Caches = append(r.Caches, erasedCache{c.Node, c.Verdicts, stamp(c.Done)})
	}
	for _, job := range e.JobsLeft {
		r.AgesOut = append(r.AgesOut, agesOut{"job " + job, stampOf(expires(job))})
	}
	return r
}

// receipt is ShowReceipt with the jobs of this server.
func (s *Server) receipt(e store.Erasure) Receipt {
	return ShowReceipt(e, s.rooms.Coordinator.ExpiresAt)
}

// erase forgets an address. What cannot be reached now is tried again, and the receipt says so.
func (x *exchange) erase() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	text, err := d.needText("address")
	if err != nil {
		return err
	}
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		return refuse(unacceptable, "address must be an e-mail address.")
	}
	ctx, stop := x.whileConnected() // the wish outlives it
	e, err := x.srv.rooms.Eraser.Erase(ctx, a, x.by(), x.srv.now())
	stop()
	if errors.Is(err, store.ErrErasuresFull) {
		return refuse(unavailable, "Too many erasures wait for nodes that are away: bring the nodes back, and ask again.")
	}
	if err != nil {
		return err
	}
	status := statusOK
	if e.Open() {
		status = statusAccepted
	}
	return x.sendAs(status, x.srv.receipt(e))
}

func (x *exchange) getErasure() error {
	e, err := x.srv.rooms.Store.Erasure(x.param)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(notFound, "There is no erasure of this id: look at the list, GET /v1/admin/erasures.")
	}
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, x.srv.receipt(e))
}

// listErasures serves receipts, newest first.
func (x *exchange) listErasures() error {
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	list, err := x.srv.rooms.Store.Erasures(x.query("cursor"), int(limit))
	if errors.Is(err, store.ErrBadCursor) {
		return refuse(unacceptable, "cursor must be the next_cursor of the page before.")
	}
	if err != nil {
		return err
	}
	receipts := make([]Receipt, len(list))
	for i, e := range list {
		receipts[i] = x.srv.receipt(e)
	}
	next := ""
	if len(list) == int(limit) {
		next = list[limit-1].ID
	}
	return x.sendAs(statusOK, map[string]any{"erasures": receipts, "next_cursor": textOrNil(next)})
}

// IsAbout tells whether a kept answer to a verification is about an address, given in folded form.
func IsAbout(answer []byte, folded string) bool {
	var a struct {
		Email   string `json:"email"`
		Details struct {
			Normalized string `json:"normalized_email"`
			DidYouMean string `json:"did_you_mean"`
		} `json:"details"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return false
	}
	return slices.ContainsFunc([]string{a.Email, a.Details.Normalized, a.Details.DidYouMean}, func(s string) bool {
		parsed, err := engine.ParseTrimmed(s)
		return err == nil && parsed.Folded() == folded
	})
}

func (a agesOut) String() string {
	if a.Until == nil {
		return a.What
	}
	return a.What + " by " + time.Time(*a.Until).UTC().Format(time.RFC3339)
}
