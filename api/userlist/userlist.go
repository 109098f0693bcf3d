package userlist

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"probity/api/httpd"
	"probity/store"
)

// The orders. A - before one reverses it.
const (
	byEmail   = "email"
	byCreated = "created_at"
)

const maxPage = 100

// Page is a page of accounts.
type Page struct {
	Users []store.User
	Total int    // accounts on all pages
	Next  string // the cursor of the next page; empty on the last
}

// Read returns the page of users that the query names; without a limit it has all that follow the cursor.
func Read(c *httpd.Call, users []store.User) (Page, error) {
	limit, err := c.QueryNumber("limit", int64(max(1, len(users))), 1, maxPage)
	if err != nil {
		return Page{}, err
	}
	sort, err := httpd.QuerySort(c, byEmail, byEmail, byCreated)
	if err != nil {
		return Page{}, err
	}
	cursor, err := base64.RawURLEncoding.DecodeString(c.QueryText("cursor"))
	if err != nil {
		return Page{}, store.ErrBadCursor
	}
	return page(users, query{find: c.QueryText("q"), sort: sort, limit: int(limit), cursor: string(cursor)})
}

// query is a part of a list.
type query struct {
	find   string // a part of the e-mail address, or the id
	sort   string
	limit  int
	cursor string // sort, a space, id of the last account before the page; empty for the first page
}

func page(users []store.User, q query) (Page, error) {
	field, reversed := strings.CutPrefix(q.sort, "-")
	compare := func(a, b store.User) int {
		order := cmp.Or(strings.Compare(store.FoldEmail(a.Email), store.FoldEmail(b.Email)),
			strings.Compare(a.ID, b.ID))
		if field == byCreated {
			order = cmp.Or(a.Created.Compare(b.Created), order)
		}
		if reversed {
			return -order
		}
		return order
	}
	after, err := q.after(users)
	if err != nil {
		return Page{}, err
	}
	find := store.FoldEmail(q.find)
	var p Page
	for _, u := range users {
		if find != "" && !strings.Contains(store.FoldEmail(u.Email), find) && u.ID != q.find {
			continue
		}
		p.Total++
		if after == nil || compare(u, *after) > 0 {
			p.Users = append(p.Users, u)
		}
	}
	slices.SortFunc(p.Users, compare)
	if len(p.Users) > q.limit {
		p.Users = p.Users[:q.limit]
		p.Next = q.sort + " " + p.Users[q.limit-1].ID
	}
	return p, nil
}

// after returns the account of the cursor, nil if there is none.
func (q *query) after(users []store.User) (*store.User, error) {
	if q.cursor == "" {
		return nil, nil
	}
	sort, id, _ := strings.Cut(q.cursor, " ")
	at := slices.IndexFunc(users, func(u store.User) bool { return u.ID == id })
	if at < 0 {
		return nil, store.ErrBadCursor
	}
	if sort != q.sort {
		return nil, store.ErrCursorSort
	}
	return &users[at], nil
}
