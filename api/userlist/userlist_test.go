package userlist

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func account(id, email string, second int64) store.User {
	return store.User{ID: id, Email: email, Created: time.Unix(second, 0)}
}

var four = []store.User{account("u1", "cleo@shop.test", 1), account("u2", "Ann@shop.test", 3),
	account("u3", "bo@shop.test", 3), account("u4", "dora@mail.test", 2)}

// read pages through a list, and calls between after the first page.
func read(t *testing.T, users []store.User, q query, between func([]store.User) []store.User) string {
	t.Helper()
	var ids []string
	for {
		p, err := page(users, q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Users), q.limit)
		for _, u := range p.Users {
			ids = append(ids, u.ID)
		}
		if p.Next == "" {
			return strings.Join(ids, " ")
		}
		if q.cursor == "" {
			users = between(users)
		}
		q.cursor = p.Next
	}
}

func same(users []store.User) []store.User { return users }

func TestAccountsAreSortedAndPaged(t *testing.T) {
	for sort, want := range map[string]string{"email": "u2 u3 u1 u4", "-email": "u4 u1 u3 u2",
		"created_at": "u1 u4 u2 u3", "-created_at": "u3 u2 u4 u1"} {
		for limit := 1; limit <= 5; limit++ {
			require.Equal(t, want, read(t, four, query{sort: sort, limit: limit}, same), "%s by %d", sort, limit)
		}
	}
}

func TestAccountsAreFoundByAddressOrID(t *testing.T) {
	for find, want := range map[string]string{"SHOP": "u2 u3 u1", " ann@ ": "u2", "u4": "u4", "u": "",
		"": "u2 u3 u1 u4"} {
		require.Equal(t, want, read(t, four, query{find: find, sort: byEmail, limit: 2}, same), find)
		p, err := page(four, query{find: find, sort: byEmail, limit: 1})
		require.NoError(t, err)
		require.Equal(t, len(strings.Fields(want)), p.Total, find)
	}
}

// An account that is added before the cursor is not shown, and moves no other; one that is added behind it is shown.
func TestPagesAreExactWhileAccountsAreAdded(t *testing.T) {
	add := func(users []store.User) []store.User {
		return append([]store.User{account("u5", "aa@shop.test", 0), account("u6", "zoe@shop.test", 9)}, users...)
	}
	require.Equal(t, "u2 u3 u1 u4 u6", read(t, four, query{sort: byEmail, limit: 2}, add))
	require.Equal(t, "u3 u2 u4 u1 u5", read(t, four, query{sort: "-" + byCreated, limit: 2}, add))
}

func TestCursorsOfAccountsAreChecked(t *testing.T) {
	first, err := page(four, query{sort: byEmail, limit: 1})
	require.NoError(t, err)
	require.NotContains(t, first.Next, "ann", "no address is in a URL")
	_, err = page(four, query{sort: "-" + byEmail, limit: 1, cursor: first.Next})
	require.ErrorIs(t, err, store.ErrCursorSort)
	for _, bad := range []string{"email", "email u9", "x", " "} {
		_, err = page(four, query{sort: byEmail, limit: 1, cursor: bad})
		require.ErrorIs(t, err, store.ErrBadCursor, bad)
	}
}

// FuzzCursor: a cursor is refused, or begins a page behind an account that there is.
func FuzzCursor(f *testing.F) {
	f.Add("email u1")
	f.Add("email ")
	f.Add("-email u1 ")
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := page(four, query{sort: byEmail, limit: 9, cursor: cursor})
		if err != nil {
			require.True(t, errors.Is(err, store.ErrBadCursor) || errors.Is(err, store.ErrCursorSort), err)
			return
		}
		require.True(t, cursor == "" || len(p.Users) < len(four), "%q", cursor)
	})
}

// BenchmarkPage reads a page in the middle of 10,000 accounts.
func BenchmarkPage(b *testing.B) {
	var users []store.User
	for i := range 10_000 {
		email := fmt.Sprintf("customer%05d@shop.test", i)
		users = append(users, account(fmt.Sprint("u", i), email, int64(i*7919%10_007)))
	}
	for _, sort := range []string{byEmail, "-" + byEmail, byCreated} {
		b.Run(sort, func(b *testing.B) {
			for b.Loop() {
				_, err := page(users, query{find: "shop", sort: sort, limit: 50, cursor: sort + " u5000"})
				require.NoError(b, err)
			}
		})
	}
}
