package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// pagesOf gets all pages of a list, two entries each, and returns a member of each entry.
func pagesOf(t *testing.T, get func(path string) reply, path, list, member string) (found []string) {
	t.Helper()
	cursor := ""
	for {
		r := get(path + "&limit=2&cursor=" + cursor)
		require.Equal(t, 200, r.status, "%s", r.body)
		page := r.json(t)
		for _, entry := range page[list].([]any) {
			found = append(found, fmt.Sprint(entry.(map[string]any)[member]))
		}
		if page["next_cursor"] == nil {
			return found
		}
		cursor = page["next_cursor"].(string)
	}
}

func TestListsAreSortedByTheServer(t *testing.T) {
	w := newTestServer(t, nil)
	boss := w.signIn("boss@probity.test", store.Admin)
	for _, name := range []string{"delta", "Alpha", "charlie", "bravo", "echo"} {
		w.uploadAndWait(w.key, part{"name", "", name}, part{"file", "l.csv", "email\nann@shop.test\n"})
	}
	mine := func(path string) reply { return w.get(path, w.key) }
	for _, one := range []struct {
		get  func(string) reply
		path string
	}{{mine, "/v1/verify/bulk?"}, {mine, "/v1/verify/bulk?status=completed&"}, {boss.get, "/v1/dash/admin/jobs?"},
		{boss.get, "/v1/dash/admin/jobs?user=ann@probity.test&"}} {
		for sort, want := range map[string]string{
			"":                "echo bravo charlie Alpha delta",
			"sort=created_at": "delta Alpha charlie bravo echo",
			"sort=name":       "Alpha bravo charlie delta echo",
			"sort=-name":      "echo delta charlie bravo Alpha",
		} {
			found := pagesOf(t, one.get, one.path+sort, "jobs", "name")
			require.Equal(t, want, strings.Join(found, " "), "%s%s", one.path, sort)
		}
	}
	require.Equal(t, []string{"boss@probity.test", "ann@probity.test"},
		pagesOf(t, boss.get, "/v1/admin/users?sort=-created_at&q=PROBITY", "users", "email")[:2])
	all := boss.get("/v1/admin/users").json(t)
	require.Len(t, all["users"], int(all["total"].(float64)), "all without a limit")
	require.Nil(t, all["next_cursor"])
}

func TestUnknownSortsAndForeignCursorsAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	boss := w.signIn("boss@probity.test", store.Admin)
	for range 2 {
		w.uploadAndWait(w.key, part{"file", "l.csv", "email\nann@shop.test\n"})
	}
	for path, known := range map[string]string{"/v1/verify/bulk": "name", "/v1/dash/admin/jobs": "name",
		"/v1/admin/users": "email"} {
		for sort, meant := range map[string]string{"creatd": "created_at", "-created": "-created_at",
			"-" + known[1:]: "-" + known, strings.ToUpper(known): known} {
			r := boss.get(path + "?sort=" + sort)
			require.Equal(t, 422, r.status, "%s %s", path, sort)
			require.Contains(t, r.detail(t), `sort "`+sort+`" is not known: did you mean `+meant+`? Known are `)
		}
		for _, bad := range []string{"sort=", "sort=created_at,name", "cursor=%25", "cursor=AAAA", "cursor=x"} {
			require.Equal(t, 422, boss.get(path+"?"+bad).status, "%s %s", path, bad)
		}
	}
	for _, get := range []func(string) reply{func(path string) reply { return w.get("/v1/verify/bulk"+path, w.key) },
		func(path string) reply { return boss.get("/v1/dash/admin/jobs" + path) },
		func(path string) reply { return boss.get("/v1/admin/users" + path) }} {
		next := get("?limit=1&sort=created_at").json(t)["next_cursor"].(string)
		require.LessOrEqual(t, len(next), 200, "as described")
		r := get("?limit=1&sort=-created_at&cursor=" + next)
		require.Equal(t, 422, r.status)
		require.Contains(t, r.detail(t), "The cursor is of a page in another order: send cursor with the sort")
	}
}
