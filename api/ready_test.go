package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

const readyList = "name;email\nAnn;a@shop.test\nBo;b@shop.test\n;\nAnn again;A@shop.test\nCid;c@gmail.com\n"

func TestReadyJobShowsItsListAndReservesNothing(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.upload(w.key, nil, part{"file", "l.csv", readyList + strings.Repeat("Dan;d@shop.test\n", 20)},
		part{"start", "", "false"})
	require.Equal(t, 202, r.status, "%s", r.body)
	job := r.json(t)
	path := r.header.Get("Location")
	require.Equal(t, job, w.get(path, w.key).json(t))
	require.Equal(t, "ready", job["status"])
	require.EqualValues(t, 4, job["credits_needed"])
	require.EqualValues(t, 0, job["credits_reserved"])
	require.NotNil(t, job["eta_seconds"])
	preview := job["preview"].(map[string]any)
	require.Len(t, preview["rows"], 10)
	require.Equal(t, []any{"Ann", "a@shop.test"}, preview["rows"].([]any)[0])
	require.Equal(t, []any{"name", "email"}, preview["columns"])
	for name, want := range map[string]any{"delimiter": ";", "encoding": "utf-8", "total_rows": 25.0,
		"unique_addresses": 4.0,
		"duplicate_rows":   20.0, "blank_rows": 1.0, "credits_needed": 4.0, "eta_seconds": job["eta_seconds"]} {
		require.Equal(t, want, preview[name], name)
	}
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
	listed := w.get("/v1/verify/bulk?status=ready", w.key).json(t)["jobs"].([]any)
	require.Len(t, listed, 1)
	require.NotContains(t, listed[0], "preview", "lists of jobs read no files")
	require.Equal(t, 200, w.get(path+"/plan", w.key).status)
	require.Equal(t, 409, w.post(path+"/pause", w.key, "").status)
	require.Equal(t, 409, w.post(path+"/resume", w.key, "").status)

	release := w.prober.holdAnswers()
	defer release()
	started := w.post(path+"/start", w.key, "")
	require.Equal(t, 200, started.status, "%s", started.body)
	require.NotContains(t, started.json(t), "preview")
	require.Equal(t, 200, w.post(path+"/start", w.key, "").status, "a repeat is no error")
	release()
	done := w.waitForJob(w.key, job["job_id"].(string))
	require.Equal(t, "completed", done["status"])
	require.EqualValues(t, 4, done["credits_used"].(float64)+done["credits_refunded"].(float64))
	require.Equal(t, 409, w.post(path+"/start", w.key, "").status)
}

func TestReadyJobStaysReadyWithoutCredits(t *testing.T) {
	w := newTestServer(t, nil)
	u, poor := w.addCustomer("poor@probity.test", 2)
	path := w.upload(poor, nil, part{"start", "", "false"}, part{"file", "l.csv", readyList}).header.Get("Location")
	require.Equal(t, 402, w.post(path+"/start", poor, "").status)
	require.Equal(t, "ready", w.get(path, poor).json(t)["status"])
	require.Equal(t, 200, w.post("/v1/admin/credits", w.adminKey, `{"user":"`+u.ID+`","amount":2}`).status)
	require.Equal(t, 200, w.post(path+"/start", poor, "").status)
}

func TestReadyJobIsCancelledOrDeletedFreeOfCharge(t *testing.T) {
	w := newTestServer(t, nil)
	hold := func() string {
		return w.upload(w.key, nil, part{"start", "", "false"}, part{"file", "l.csv", readyList}).header.Get("Location")
	}
	cancelled, deleted := hold(), hold()
	require.Equal(t, 200, w.post(cancelled+"/cancel", w.key, "").status)
	done := w.waitForJob(w.key, cancelled[strings.LastIndexByte(cancelled, '/')+1:])
	require.Equal(t, "cancelled", done["status"])
	for _, name := range []string{"credits_reserved", "credits_used", "credits_refunded"} {
		require.EqualValues(t, 0, done[name], name)
	}
	require.EqualValues(t, 4, done["reasons"].(map[string]any)["cancelled"])
	require.Equal(t, 204, w.do(request{method: "DELETE", path: deleted, key: w.key}).status)
	require.Equal(t, 404, w.get(deleted, w.key).status)
	require.Equal(t, 1, w.jobFolderCount())
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
}

// A repeat under one Idempotency-Key has the same answer, and no cell of the list is kept for it.
func TestReadyAnswerIsRepeatedWithoutKeepingCells(t *testing.T) {
	w := newTestServer(t, nil)
	once := map[string]string{"Idempotency-Key": "k"}
	parts := []part{{"file", "l.csv", readyList}, {"start", "", "false"}}
	first := w.upload(w.key, once, parts...)
	require.Equal(t, first.body, w.upload(w.key, once, parts...).body)
	require.Contains(t, string(first.body), "a@shop.test")
	require.Equal(t, 422, w.upload(w.key, once, parts[0]).status)
	kept, err := w.store.EraseAnswers(func(body []byte) bool {
		require.NotContains(t, string(body), "a@shop.test")
		return json.Valid(body)
	})
	require.NoError(t, err)
	require.Equal(t, 1, kept)
}

func TestTestKeyStartsNoLiveJob(t *testing.T) {
	w := newTestServer(t, nil)
	path := w.upload(w.key, nil, part{"start", "", "false"}, part{"file", "l.csv", readyList}).header.Get("Location")
	testKey := w.newKey(w.user.ID, store.NewKey{Test: true})
	require.Equal(t, 403, w.post(path+"/start", testKey, "").status)
	require.Equal(t, "ready", w.get(path, w.key).json(t)["status"])
}
