package api

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"probity/engine"
	"probity/store"
)

// Receipt is the state of an erasure. It has the address only as a hash.
type Receipt struct {
	ID        string         `json:"erasure_id"`
	Hash      string         `json:"address_sha256"` // of the address in normalized form
	Status    string         `json:"status"`         // open or done
	Requested timestamp      `json:"asked_at"`
	Done      *timestamp     `json:"done_at"`
	Jobs      int64          `json:"jobs"` // whose list or results had it
	Rows      int64          `json:"rows"` // of these jobs, with it as e-mail cell
	Cached    int64          `json:"cached"`
	Answers   int64          `json:"answers"` // of the cached, those kept for an Idempotency-Key
	Caches    []erasedCache  `json:"caches"`
	Expiring  []expiringCopy `json:"ages_out"`
	Problem   *string        `json:"problem"`
}

// erasedCache is a node whose cache was erased.
type erasedCache struct {
	Node     string    `json:"node"`
	Verdicts int64     `json:"verdicts"`
	Done     timestamp `json:"done_at"`
}

// expiringCopy is a copy that was not erased, and when it expires.
type expiringCopy struct {
	What  string     `json:"what"`
	Until *timestamp `json:"until"` // nil while that is not known: for a job that is not finished
}

// NewReceipt makes the receipt of an erasure; expires returns when the files of a job are deleted, zero if that is not known.
func NewReceipt(e store.Erasure, expires func(job string) time.Time) Receipt {
	r := Receipt{ID: e.ID, Hash: e.Hash, Status: "done", Requested: timestamp(e.Requested), Done: timestampOrNil(e.Done), Jobs: e.JobCount, Rows: e.Rows,
		Cached: e.Answers, Answers: e.Answers, Caches: []erasedCache{}, Expiring: []expiringCopy{}, Problem: textOrNil(e.Fault)}
	if e.Open() {
		r.Status = "open"
	}
	for _, c := range e.Caches {
		if c.Done.IsZero() {
			r.Expiring = append(r.Expiring, expiringCopy{"the cache of " + c.Node, timestampOrNil(c.Until)})
			continue
		}
		r.Cached += c.Verdicts
		r.Caches = append(r.Caches, erasedCache{c.Node, c.Verdicts, timestamp(c.Done)})
	}
	for _, job := range e.JobsLeft {
		r.Expiring = append(r.Expiring, expiringCopy{"job " + job, timestampOrNil(expires(job))})
	}
	return r
}

// receipt is NewReceipt with the jobs of this server.
func (s *Server) receipt(e store.Erasure) Receipt { return NewReceipt(e, s.deps.Coordinator.ExpiresAt) }

// erase erases an address. Nodes that cannot be reached now are tried again, and the receipt says so.
func (c *call) erase() error {
	d, err := c.document()
	if err != nil {
		return err
	}
	text, err := d.requiredText("address")
	if err != nil {
		return err
	}
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		return refuse(unacceptable, "address must be an e-mail address.")
	}
	ctx, stop := c.clientContext() // the erasure goes on after it
	e, err := c.srv.deps.Eraser.Erase(ctx, a, c.actor(), c.srv.now())
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
	return c.sendJSON(status, c.srv.receipt(e))
}

func (c *call) getErasure() error {
	e, err := c.srv.deps.Store.Erasure(c.param)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(notFound, "There is no erasure of this id: look at the list, GET /v1/admin/erasures.")
	}
	if err != nil {
		return err
	}
	return c.sendJSON(statusOK, c.srv.receipt(e))
}

// listErasures serves receipts, newest first.
func (c *call) listErasures() error {
	limit, err := c.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	list, err := c.srv.deps.Store.Erasures(c.query("cursor"), int(limit))
	if errors.Is(err, store.ErrBadCursor) {
		return refuse(unacceptable, "cursor must be the next_cursor of the page before.")
	}
	if err != nil {
		return err
	}
	receipts := make([]Receipt, len(list))
	for i, e := range list {
		receipts[i] = c.srv.receipt(e)
	}
	next := ""
	if len(list) == int(limit) {
		next = list[limit-1].ID
	}
	return c.sendJSON(statusOK, map[string]any{"erasures": receipts, "next_cursor": textOrNil(next)})
}

// IsAnswerAbout reports whether a kept answer to a verification is about an address, given in folded form.
func IsAnswerAbout(answer []byte, folded string) bool {
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

func (a expiringCopy) String() string {
	if a.Until == nil {
		return a.What
	}
	return a.What + " by " + time.Time(*a.Until).UTC().Format(time.RFC3339)
}
