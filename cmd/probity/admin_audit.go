package main

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// auditCmd reads the audit log.
type auditCmd struct {
	listFlags
	Limit int `help:"How many, from the newest." default:"50"`
}

// actView is a line of the audit log, as the server's JSON has it.
type actView struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	From   string    `json:"from"`
	Act    string    `json:"act"`
	Target string    `json:"target"`
	Note   string    `json:"note"`
}

// auditPage is how many acts are asked for at one time.
const auditPage = 100

// Run prints the acts, newest first.
func (c *auditCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		var acts []actView
		cursor := ""
		for len(acts) < c.Limit {
			page, next, err := o.Acts(ctx, cursor, min(auditPage, c.Limit-len(acts)))
			if err != nil {
				return err
			}
			acts = append(acts, page...)
			if cursor = next; next == "" {
				break
			}
		}
		return printRows(con, c.JSON, "WHEN\tWHO\tFROM\tACT\tTARGET\tNOTE", acts, func(a actView) []string {
			return []string{moment(a.At), a.By, a.From, a.Act, a.Target, a.Note}
		})
	})
}

// Acts is the log of the store at hand.
func (r *localOffice) Acts(_ context.Context, cursor string, limit int) (views []actView, next string, err error) {
	acts, err := r.store.Acts(cursor, limit)
	for _, a := range acts {
		by := a.By
		if u, err := r.store.User(by); err == nil {
			by = u.Email
		}
		views = append(views, actView{At: second(a.At), By: by, From: a.From, Act: a.Act, Target: a.Target, Note: a.Note})
		next = a.Cursor
	}
	if len(acts) < limit {
		next = ""
	}
	return views, next, err
}

// Acts is the server's log.
func (r *remoteOffice) Acts(ctx context.Context, cursor string, limit int) ([]actView, string, error) {
	var v struct {
		Acts []actView
		Next string `json:"next_cursor"`
	}
	err := r.ask(ctx, http.MethodGet, withQuery("audit", "limit", strconv.Itoa(limit), "cursor", cursor), nil, &v)
	return v.Acts, v.Next, err
}
