package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/record"
	"probity/store"
)

func TestWhyIsForTheOwnerAndAdmins(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	path := w.upload(w.key, nil, part{"file", "l.csv",
		"email\na@shop.test\nb@shop.test\nc@gmail.test\n"}).header.Get("Location")
	var got map[string]any
	require.Eventually(t, func() bool {
		got = w.get(path+"/why", w.key).json(t)
		receivers := got["receivers"].([]any)
		return len(receivers) == 2 && receivers[0].(map[string]any)["asking"].(float64) > 0
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, "running", got["status"])
	require.EqualValues(t, 3, got["open_rows"])
	names := map[any]any{}
	for _, r := range got["receivers"].([]any) {
		r := r.(map[string]any)
		names[r["receiver"]] = r["rows"]
		require.Equal(t, r["rows"], r["asking"])
		require.NotNil(t, r["opens_at"])
		require.NotNil(t, r["done_by"])
	}
	require.Equal(t, map[any]any{"mx1.shop.test": 2.0, "mx1.gmail.test": 1.0}, names)

	_, other := w.addCustomer("other@probity.test", 10)
	require.Equal(t, 404, w.get(path+"/why", other).status)
	require.Equal(t, 200, w.get(path+"/why", w.adminKey).status, "an admin sees it of any job")
	jobsOnly := w.newKey(w.admin.ID, store.NewKey{Scopes: store.ScopeJobs})
	require.Equal(t, 404, w.get(path+"/why", jobsOnly).status, "a key without the scope admin does not")
	boss := w.signIn("boss@probity.test", store.Admin)
	require.Equal(t, 200, boss.get(path+"/why").status)
	require.Equal(t, 404, w.get(record.BulkPath+"/none/why", w.adminKey).status)

	release()
	w.waitForJob(w.key, path[len(record.BulkPath)+1:])
	got = w.get(path+"/why", w.key).json(t)
	require.Equal(t, []any{"completed", 0.0, []any{}}, []any{got["status"], got["open_rows"], got["receivers"]})
}
