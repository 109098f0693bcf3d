package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestRecheckTakesTheChosenRows: of lists in several dialects, the new job has the rows that were asked for with all
// their columns, and its result has one set of verdicts.
func TestRecheckTakesTheChosenRows(t *testing.T) {
	w := newTestServer(t, nil)
	for name, c := range map[string]struct {
		list string
		more []part
		want []string // the beginnings of the lines of the new result
	}{
		"comma": {"id,email,note\n1,grey1@shop.test,\"a, b\"\n2,ok@shop.test,x\n3,,y\n4,block@shop.test,z\n5,GREY1@shop.test\n", nil,
			[]string{"id,email,note,verify_status", "1,grey1@shop.test,\"a, b\",UNKNOWN", "4,block@shop.test,z,UNKNOWN",
				"5,GREY1@shop.test,,UNKNOWN"}},
		"two columns of one name": {"email;email\nkeep;grey1@shop.test\nkeep;ok@shop.test\n",
			[]part{{"email_column", "", "2"}},
			[]string{"email;email;verify_status", "keep;grey1@shop.test;UNKNOWN"}},
		"no header, Windows": {"1\tgrey1@shop.test\tM\xfcller\r\n2\tok@shop.test\tx\r\n",
			[]part{{"has_header", "", "false"}},
			[]string{"1\tgrey1@shop.test\tM\u00fcller\tUNKNOWN"}},
		"verdicts of before": {"email,verify_status\ngrey1@shop.test,VALID\n", nil,
			[]string{"email,verify_status,verify_status_2", "grey1@shop.test,VALID,UNKNOWN"}},
	} {
		t.Run(name, func(t *testing.T) {
			first := w.uploadAndWait(w.key, append(c.more, part{"name", "", "spring"}, part{"max_age", "", "60"},
				part{"file", "l.csv", c.list})...)
			r := w.post("/v1/verify/bulk/"+first["job_id"].(string)+"/recheck", w.key, `{"status":["UNKNOWN"]}`)
			require.Equal(t, 202, r.status, "%s", r.body)
			made := r.json(t)
			require.NotEqual(t, first["job_id"], made["job_id"])
			require.Equal(t, "spring", made["name"])
			again := w.waitForJob(w.key, made["job_id"].(string))
			require.Equal(t, "completed", again["status"])
			require.Equal(t, first["email_column"], again["email_column"])
			result := string(w.get("/v1/verify/bulk/"+made["job_id"].(string)+"/results", w.key).body)
			lines := strings.Split(strings.TrimSpace(result), "\n")
			require.Len(t, lines, len(c.want), result)
			for i, begin := range c.want {
				require.True(t, strings.HasPrefix(lines[i], begin), "%q begins with %q", lines[i], begin)
			}
		})
	}
}

func TestRecheckNarrowsByReason(t *testing.T) {
	w := newTestServer(t, nil)
	first := w.uploadAndWait(w.key, part{"file", "l.csv",
		"email\ngrey1@shop.test\nblock@shop.test\nok@shop.test\nnobody@shop.test\n"})
	path := "/v1/verify/bulk/" + first["job_id"].(string) + "/recheck"
	for body, want := range map[string]float64{
		`{"reason":["greylisted"]}`: 1, `{"status":["UNKNOWN"],"reason":["blocked","greylisted"]}`: 2,
		`{"status":["VALID","INVALID"]}`:           2,
		`{"status":["VALID","INVALID","UNKNOWN"]}`: 4,
	} {
		r := w.post(path, w.key, body)
		require.Equal(t, 202, r.status, "%s: %s", body, r.body)
		require.Equal(t, want, r.json(t)["total_rows"], body)
	}
	for body, detail := range map[string]string{
		`{}`: "name the rows", `{"status":["NONE"]}`: "NONE", `{"reason":["grey"]}`: "grey",
		`{"status":[]}`: "name the rows", `{"status":"UNKNOWN"}`: "list",
		`{"status":["VALID"],"reason":["greylisted"]}`: "No row", `{"status":["RISKY"]}`: "No row",
		`{"statuses":["UNKNOWN"]}`: "did you mean status",
	} {
		r := w.post(path, w.key, body)
		require.Equal(t, 422, r.status, body)
		require.Contains(t, r.detail(t), detail, body)
	}
}

// A recheck is charged and counted like an upload, and a repeat under one Idempotency-Key makes one job.
func TestRecheckCountsLikeAnUpload(t *testing.T) {
	w := newTestServer(t, nil)
	require.NoError(t, w.store.SetLimits(w.user.ID, store.Limits{BulkPerHour: 2}, "test", w.server.now()))
	list := part{"file", "l.csv", "email\nok@shop.test\nb@shop.test\n"}
	release := w.prober.holdAnswers()
	running := w.upload(w.key, nil, list)
	path := running.header.Get("Location")
	require.Equal(t, 409, w.post(path+"/recheck", w.key, `{"status":["VALID"]}`).status)
	release()
	w.waitForJob(w.key, running.json(t)["job_id"].(string))
	before := w.credits()
	send := func(key string) reply {
		return w.do(request{method: "POST", path: path + "/recheck", key: w.key,
			body:   strings.NewReader(`{"status":["VALID"]}`),
			header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": key}})
	}
	first := send("k")
	require.Equal(t, 202, first.status, "%s", first.body)
	require.Equal(t, "0", first.header.Get("RateLimit-Remaining"))
	require.Equal(t, first.body, send("k").body)
	require.Equal(t, 429, send("other").status)
	done := w.waitForJob(w.key, first.json(t)["job_id"].(string))
	require.EqualValues(t, 2, done["credits_used"])
	require.Equal(t, before.Balance-2, w.credits().Balance)
	require.Len(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"], 2)
	_, other := w.addCustomer("other@probity.test", 10)
	require.Equal(t, 404, w.post(path+"/recheck", other, `{"status":["VALID"]}`).status)
}
