package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/api/record"
	"probity/coordinator/results"
	"probity/store"
)

const smallList = "id,email\n1,ann@shop.test\n2,nobody@shop.test\n3,ANN@shop.test\n4,\n5,block@shop.test\n"

func TestJobRecord(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	r := w.upload(w.key, nil, part{"name", "", "spring"}, part{"file", `C:\lists\small list.csv`, smallList})
	require.Equal(t, 202, r.status, "%s", r.body)
	job := r.json(t)
	id := job["job_id"].(string)
	require.Len(t, id, 32, "128 random bits")
	require.Equal(t, "/v1/verify/bulk/"+id, r.header.Get("Location"))
	for k, v := range map[string]any{"name": "spring", "status": "queued", "filename": "small list.csv",
		"email_column": "email", "delimiter": ",",
		"encoding": "utf-8", "has_header": true, "total_rows": 5.0, "unique_addresses": 3.0, "duplicate_rows": 1.0,
		"blank_rows":       1.0,
		"credits_reserved": 3.0, "credits_used": 0.0, "results_url": nil, "finished_at": nil} {
		require.Equal(t, v, job[k], k)
	}
	require.Equal(t, store.Credits{Balance: initialCredits - 3, Reserved: 3}, w.credits())
	early := w.get("/v1/verify/bulk/"+id+"/results", w.key)
	require.Equal(t, 409, early.status)
	require.NotEmpty(t, early.header.Get("Retry-After"))
	require.Equal(t, 409, w.do(request{method: "DELETE", path: "/v1/verify/bulk/" + id, key: w.key}).status)
	release()
	job = w.waitForJob(w.key, id)
	for k, v := range map[string]any{"status": "completed", "processed": 5.0, "percent": 100.0, "credits_reserved": 0.0,
		"credits_used":     2.0,
		"credits_refunded": 1.0, "counts": map[string]any{"VALID": 2.0, "RISKY": 0.0, "INVALID": 1.0, "UNKNOWN": 1.0},
		"reasons": map[string]any{"mailbox_not_found": 1.0, "blocked": 1.0}, "callback_status": nil,
		"results_url": "/v1/verify/bulk/" + id + "/results"} {
		require.Equal(t, v, job[k], k)
	}
	require.Equal(t, store.Credits{Balance: initialCredits - 2}, w.credits())
}

// TestJobOfATestKeyIsMarked: its record says so, and no other record has the field.
func TestJobOfATestKeyIsMarked(t *testing.T) {
	w := newTestServer(t, nil)
	list := part{"file", "l.csv", "email\nvalid@example.com\n"}
	require.Equal(t, true, w.uploadAndWait(w.testKey, list)["test"])
	require.NotContains(t, w.uploadAndWait(w.key, list), "test")
}

func TestRefusedDeletionSaysWhatToDoFirst(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	path := w.upload(w.key, nil, part{"file", "l.csv", smallList}).header.Get("Location")
	for state, advice := range map[store.JobState]string{store.JobPaused: "cancel it first, and delete it once it is cancelled.",
		store.JobCancelling: "wait until it is cancelled.", store.JobFinalizing: "wait until it has finished."} {
		_, err := w.store.UpdateJob(path[len(record.BulkPath)+1:],
			func(j *store.Job) error { j.State = state; return nil })
		require.NoError(t, err)
		r := w.do(request{method: "DELETE", path: path, key: w.key})
		require.Equal(t, 409, r.status)
		require.Equal(t, "The job is "+string(state)+": "+advice, r.detail(t))
	}
}

func TestPartsInAnyOrder(t *testing.T) {
	w := newTestServer(t, nil)
	file := part{"file", "l.csv", "a;b\nann@shop.test;x\nbob@shop.test;y\n"}
	noHeader := part{"file", "l.csv", "x,ann@shop.test\ny,bob@shop.test\n"}
	for name, parts := range map[string][]part{
		"column before":           {{"email_column", "", "a"}, file, {"name", "", "n"}},
		"column behind":           {file, {"name", "", "n"}, {"email_column", "", "a"}},
		"column by number behind": {file, {"email_column", "", "1"}, {"name", "", "n"}},
		"no header behind": {noHeader, {"email_column", "", "2"}, {"has_header", "", "false"},
			{"name", "", "n"}},
		"all before": {{"name", "", "n"}, {"has_header", "", "true"}, {"email_column", "", "a"}, file},
	} {
		r := w.upload(w.key, nil, parts...)
		require.Equal(t, 202, r.status, "%s: %s", name, r.body)
		job := r.json(t)
		require.EqualValues(t, 2, job["unique_addresses"], name)
		require.Equal(t, "n", job["name"], name)
		w.waitForJob(w.key, job["job_id"].(string))
	}
	job := w.uploadAndWait(w.key, part{"file", "l.csv", "email\na@shop.test\n"},
		part{"callback_url", "", "http://127.0.0.1:9/x"},
		part{"max_hours", "", "3"}, part{"callback_content", "", "link"}, part{"callback_input", "", "true"},
		part{"callback_headers", "", `{"x-token":"hunter2"}`})
	require.Equal(t, "http://127.0.0.1:9/x", job["callback_url"])
	kept, err := w.store.Job(job["job_id"].(string))
	require.NoError(t, err)
	require.True(t, kept.CallbackInput)
	require.Equal(t, map[string]string{"X-Token": "hunter2"}, kept.CallbackHeaders)
	require.Equal(t, map[string]any{"X-Token": "********"}, job["callback_headers"])
	for _, shown := range []string{record.BulkPath, record.BulkPath + "/" + kept.ID,
		record.BulkPath + "/" + kept.ID + "/callback"} {
		require.NotContains(t, string(w.get(shown, w.key).body), "hunter2")
	}
	w.requireNoScratch()
}

// requireNoScratch shows that no upload left a scratch copy behind.
func (w *testServer) requireNoScratch() {
	w.t.Helper()
	found, err := w.fs.List("data/scratch")
	if err == nil {
		require.Empty(w.t, found)
	}
}

// jobFolderCount returns how many jobs have files.
func (w *testServer) jobFolderCount() int {
	found, err := w.fs.List("data/jobs")
	require.NoError(w.t, err)
	return len(found)
}

func TestBadUploads(t *testing.T) {
	w := newTestServer(t, nil)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(z, "email\n"+strings.Repeat("a@shop.test,", 1<<20))
	_ = z.Close()
	for _, c := range []struct {
		name   string
		parts  []part
		status int
		detail string
	}{
		{"no file", []part{{"name", "", "x"}}, 422, "file is missing"},
		{"two files", []part{{"file", "a.csv", "email\na@b.c\n"}, {"file", "b.csv", "email\na@b.c\n"}}, 422, "twice"},
		{"an option twice", []part{{"name", "", "a"}, {"name", "", "b"}, {"file", "a.csv", "email\na@b.c\n"}}, 422,
			"twice"},
		{"empty file", []part{{"file", "a.csv", ""}}, 422, "file"},
		{"no e-mail column", []part{{"file", "a.csv", "name,phone\nAnn,1\n"}}, 422, "phone"},
		{"no rows", []part{{"file", "a.csv", "email\n"}}, 422, ""},
		{"an address as header", []part{{"file", "a.csv", "ann@shop.test\nbob@shop.test\n"}}, 422, ""},
		{"unclosed quote", []part{{"file", "a.csv", "email\n\"ann@shop.test\nbob@shop.test\n"}}, 422, "line 2"},
		{"a field too long", []part{{"file", "a.csv", "email,x\nann@shop.test," + strings.Repeat("x", 70<<10) + "\n"}},
			422, "line 2"},
		{"too many columns", []part{{"file", "a.csv", "email" + strings.Repeat(",x", 1001) + "\na@b.c\n"}}, 413, ""},
		{"gzip bomb", []part{{"file", "a.csv.gz", bomb.String()}}, 422, ""},
		{"broken gzip", []part{{"file", "a.csv.gz", bomb.String()[:500]}}, 422, ""},
		{"column that is not there", []part{{"file", "a.csv", "email\na@b.c\n"}, {"email_column", "", "mail"}}, 422,
			""},
		{"has_header", []part{{"has_header", "", "perhaps"}, {"file", "a.csv", "email\na@b.c\n"}}, 422, "has_header"},
		{"max_age", []part{{"max_age", "", "-1"}, {"file", "a.csv", "email\na@b.c\n"}}, 422, "max_age"},
		{"max_hours behind", []part{{"file", "a.csv", "email\na@b.c\n"}, {"max_hours", "", "721"}}, 422,
			"max_hours must be auto, or a whole number from 1 to 720."},
		{"callback_content", []part{{"file", "a.csv", "email\na@b.c\n"}, {"callback_content", "", "some"}}, 422,
			"callback_content"},
		{"callback_input", []part{{"file", "a.csv", "email\na@b.c\n"}, {"callback_input", "", "some"}}, 422,
			"callback_input"},
		{"a header of the connection", []part{{"file", "a.csv", "email\na@b.c\n"},
			{"callback_url", "", "http://127.0.0.1:9/"}, {"callback_headers", "", `{"connection":"hunter2"}`}}, 422,
			"Connection"},
		{"a header of ours", []part{{"callback_headers", "", `{"Content-Length":"hunter2"}`},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "Content-Length"},
		{"headers without a callback", []part{{"callback_headers", "", `{"X-A":"hunter2"}`},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "callback_url"},
		{"callback that is none", []part{{"file", "a.csv", "email\na@b.c\n"},
			{"callback_url", "", "ftp://example.com/"}}, 422, "callback_url"},
		{"callback to a private address", []part{{"callback_url", "", "http://10.0.0.1/"},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "callback_url"},
		{"callback with a password", []part{{"callback_url", "", "http://a:hunter2@example.com/"},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "callback_url"},
		{"callback to metadata", []part{{"callback_url", "", "http://169.254.169.254/"},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "callback_url"},
		{"name too long", []part{{"name", "", strings.Repeat("x", 201)}, {"file", "a.csv", "email\na@b.c\n"}}, 422,
			"name"},
		{"an option too long", []part{{"email_column", "", strings.Repeat("x", 5000)},
			{"file", "a.csv", "email\na@b.c\n"}}, 422, "email_column"},
		{"an option not in UTF-8", []part{{"name", "", "\xff"}, {"file", "a.csv", "email\na@b.c\n"}}, 422, "name"},
		{"an unknown part", []part{{"list", "", strings.Repeat("x", 100_000)}, {"file", "a.csv", "email\na@b.c\n"}},
			422, "list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.upload(w.key, nil, c.parts...)
			require.Equal(t, c.status, r.status, "%s", r.body)
			detail := r.detail(t)
			require.Contains(t, detail, c.detail)
			require.NotContains(t, detail, "hunter2")
		})
	}
	require.Zero(t, w.jobFolderCount(), "a refused upload leaves nothing")
	w.requireNoScratch()
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
}

// lowDisk is a disk with little room left.
type lowDisk struct{ vfs.FS }

func (lowDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 999}, nil
}

// Below DiskFloor uploads are refused; requests that need no disk space go on.
func TestDiskFloor(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.DiskFloor = 1000 })
	file := part{"file", "l.csv", "email\na@shop.test\n"}
	job := w.uploadAndWait(w.key, file)
	w.server.deps.FS = lowDisk{w.fs}
	for _, parts := range [][]part{{file}, {{"email_column", "", "email"}, {"has_header", "", "true"}, file}} {
		r := w.upload(w.key, nil, parts...)
		require.Equal(t, 503, r.status)
		require.NotEmpty(t, r.header.Get("Retry-After"))
	}
	require.Equal(t, 200, w.get(job["results_url"].(string), w.key).status)
	require.Equal(t, 200, w.single(`{"email":"ann@shop.test"}`).status)
	w.server.cfg.DiskFloor = 999
	require.Equal(t, 202, w.upload(w.key, nil, file).status, "just enough")
}

func TestTruncatedUploads(t *testing.T) {
	w := newTestServer(t, nil)
	whole, kind := encodeForm(part{"file", "l.csv", "email\na@shop.test\nb@shop.test\n"}, part{"name", "", "x"})
	for cut := 0; cut < len(whole); cut += 7 {
		r := w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key, body: strings.NewReader(whole[:cut]),
			header: map[string]string{"Content-Type": kind}})
		require.Contains(t, []int{400, 422}, r.status, "%d of %d: %s", cut, len(whole), r.body)
	}
	require.Zero(t, w.jobFolderCount())
	w.requireNoScratch()
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
}

func TestBulkIdempotency(t *testing.T) {
	w := newTestServer(t, nil)
	send := func(boundary string, parts ...part) reply {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		require.NoError(t, m.SetBoundary(boundary))
		for _, p := range parts {
			if p.filename != "" {
				f, _ := m.CreateFormFile(p.name, p.filename)
				_, _ = io.WriteString(f, p.content)
			} else {
				_ = m.WriteField(p.name, p.content)
			}
		}
		_ = m.Close()
		return w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key, body: &b,
			header: map[string]string{"Content-Type": m.FormDataContentType(), "Idempotency-Key": "k"}})
	}
	first := send("one", part{"name", "", "n"}, part{"file", "l.csv", smallList})
	require.Equal(t, 202, first.status)
	again := send("two", part{"file", "l.csv", smallList}, part{"name", "", "n"})
	require.Equal(t, 202, again.status)
	require.Equal(t, string(first.body), string(again.body), "the same job, whatever boundary and order")
	require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
	refused := send("three", part{"file", "l.csv", smallList + "6,x@shop.test\n"}, part{"name", "", "n"})
	require.Equal(t, 422, refused.status)
	require.Equal(t, 422, send("four", part{"file", "l.csv", smallList}).status)
	require.Equal(t, 1, w.jobFolderCount())
	w.waitForJob(w.key, first.json(t)["job_id"].(string))
	require.Equal(t, store.Credits{Balance: initialCredits - 2}, w.credits(), "one charge")
}

func TestJobLifecycle(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	id := w.upload(w.key, nil, part{"file", "l.csv", smallList}).json(t)["job_id"].(string)
	path := "/v1/verify/bulk/" + id
	action := func(what string) reply { return w.do(request{method: "POST", path: path + "/" + what, key: w.key}) }
	require.Equal(t, "paused", action("pause").json(t)["status"])
	require.Equal(t, 200, action("pause").status)
	require.Contains(t, []any{"queued", "running"}, action("resume").json(t)["status"])
	require.Equal(t, "paused", action("pause").json(t)["status"])
	partial := w.get(path+"/results?partial=true", w.key)
	require.Equal(t, 200, partial.status, "%s", partial.body)
	require.Contains(t, string(partial.body), "1,ann@shop.test")
	require.Equal(t, strings.Count(smallList, "\n"), strings.Count(string(partial.body), "\n"),
		"all rows, with or without a verdict")
	require.Equal(t, 200, action("cancel").status)
	release()
	job := w.waitForJob(w.key, id)
	require.Equal(t, "cancelled", job["status"])
	require.EqualValues(t, 0, job["credits_used"])
	r := action("resume")
	require.Equal(t, 409, r.status)
	require.Contains(t, r.detail(t), "cancelled")
	require.Contains(t, string(w.get(path+"/results", w.key).body), "cancelled", "the file is still made")
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())

	_, otherKey := w.addCustomer("stranger@probity.test", 10)
	for _, r := range []reply{w.get(path, otherKey), w.get(path+"/results", otherKey),
		w.get(path+"/callback", otherKey),
		w.do(request{method: "POST", path: path + "/cancel", key: otherKey}),
		w.do(request{method: "DELETE", path: path, key: otherKey})} {
		require.Equal(t, 404, r.status, "another account's job")
	}
	require.Empty(t, w.get("/v1/verify/bulk", otherKey).json(t)["jobs"])
	require.Equal(t, 404, w.get(path+"/callback", w.key).status)
	require.Equal(t, 404, w.do(request{method: "POST", path: path + "/callback", key: w.key}).status)

	require.NoError(t, w.coord.Expire(id))
	require.Equal(t, 410, w.get(path+"/results", w.key).status)
	require.Equal(t, "expired", w.get(path, w.key).json(t)["status"])
	require.Equal(t, 204, w.do(request{method: "DELETE", path: path, key: w.key}).status)
	require.Equal(t, 404, w.get(path, w.key).status)
}

func TestListJobs(t *testing.T) {
	w := newTestServer(t, nil)
	var ids []string
	for range 5 {
		ids = append(ids, w.uploadAndWait(w.key, part{"file", "l.csv", "email\na@shop.test\n"})["job_id"].(string))
	}
	var got []string
	cursor := ""
	for range 4 {
		page := w.get(query("/v1/verify/bulk", "limit", "2", "cursor", cursor, "status", "completed"), w.key).json(t)
		for _, j := range page["jobs"].([]any) {
			got = append([]string{j.(map[string]any)["job_id"].(string)}, got...)
		}
		if page["next_cursor"] == nil {
			break
		}
		cursor = page["next_cursor"].(string)
	}
	require.Equal(t, ids, got, "newest first")
	require.Empty(t, w.get("/v1/verify/bulk?status=running", w.key).json(t)["jobs"])
	for _, bad := range []string{"limit=0", "limit=x", "limit=101", "status=done", "cursor=%25"} {
		require.Equal(t, 422, w.get("/v1/verify/bulk?"+bad, w.key).status, bad)
	}
	for _, bad := range []string{"wait=-1", "wait=61", "wait=x"} {
		require.Equal(t, 422, w.get("/v1/verify/bulk/"+ids[0]+"?"+bad, w.key).status, bad)
	}
}

func TestWaitForJobChange(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	id := w.upload(w.key, nil, part{"file", "l.csv", smallList}).json(t)["job_id"].(string)
	started := time.Now()
	require.Equal(t, 200, w.get("/v1/verify/bulk/"+id+"?wait=1", w.key).status)
	require.Less(t, time.Since(started), 5*time.Second)
	release()
	w.waitForJob(w.key, id)
}

func TestResultFormats(t *testing.T) {
	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"file", "Übersicht.csv", smallList})
	path := job["results_url"].(string)
	plain := w.get(path, w.key)
	require.Equal(t, 200, plain.status)
	require.Equal(t, "text/csv; charset=utf-8", plain.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="_bersicht.verified.csv"; filename*=UTF-8''%C3%9Cbersicht.verified.csv`,
		plain.header.Get("Content-Disposition"))
	require.Equal(t, 6, strings.Count(string(plain.body), "\n"))
	t.Run("compression", func(t *testing.T) {
		packed := w.get(path+"?compress=gzip", w.key)
		require.Equal(t, "application/gzip", packed.header.Get("Content-Type"))
		z, err := gzip.NewReader(bytes.NewReader(packed.body))
		require.NoError(t, err)
		b, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, string(plain.body), string(b))
		stored := w.get(path+"?compress=zstd", w.key)
		d, err := zstd.NewReader(nil)
		require.NoError(t, err)
		defer d.Close()
		b, err = d.DecodeAll(stored.body, nil)
		require.NoError(t, err)
		require.Equal(t, string(plain.body), string(b))
		require.EqualValues(t, len(stored.body), job["results_bytes"])
	})
	t.Run("byte order mark", func(t *testing.T) {
		const mark = "\ufeff"
		marked := w.get(path+"?bom=true", w.key)
		require.Equal(t, mark+string(plain.body), string(marked.body))
		require.NotEqual(t, plain.header.Get("ETag"), marked.header.Get("ETag"))
		// one is enough
		had := w.uploadAndWait(w.key, part{"file", "excel.csv", mark + smallList})["results_url"].(string)
		require.Equal(t, string(w.get(had, w.key).body), string(w.get(had+"?bom=true", w.key).body))
		require.Equal(t, 1, strings.Count(string(w.get(had+"?bom=true", w.key).body), mark))
	})
	t.Run("filters", func(t *testing.T) {
		valid := w.get(path+"?status=VALID", w.key)
		require.Equal(t, 3, strings.Count(string(valid.body), "\n"), "%s", valid.body)
		require.Contains(t, valid.header.Get("Content-Disposition"), "verified.valid.csv")
		lines := w.get(path+"?format=jsonl&status=INVALID,UNKNOWN", w.key)
		require.Equal(t, "application/x-ndjson", lines.header.Get("Content-Type"))
		require.Equal(t, 2, strings.Count(string(lines.body), "\n"))
		require.Equal(t, 2, strings.Count(string(lines.body), `,"input":{`), "%s", lines.body)
		for _, bad := range []string{"status=valid", "status=", "status=VALID,", "format=xml", "compress=br",
			"partial=maybe", "bom=yes", "format=jsonl&bom=true"} {
			require.Equal(t, 422, w.get(path+"?"+bad, w.key).status, bad)
		}
	})
	t.Run("ranges of the stored form", func(t *testing.T) {
		whole := w.get(path+"?compress=zstd", w.key)
		require.Equal(t, "bytes", whole.header.Get("Accept-Ranges"))
		n := len(whole.body)
		ask := func(header ...string) reply {
			h := map[string]string{}
			for i := 0; i < len(header); i += 2 {
				h[header[i]] = header[i+1]
			}
			return w.do(request{method: "GET", path: path + "?compress=zstd", key: w.key, header: h})
		}
		for spec, want := range map[string][2]int{"bytes=0-9": {0, 10}, "bytes=10-": {10, n}, "bytes=-5": {n - 5, n},
			"bytes=5-999999": {5, n}} {
			r := ask("Range", spec)
			require.Equal(t, 206, r.status, spec)
			require.Equal(t, whole.body[want[0]:want[1]], r.body, spec)
			require.Equal(t, fmt.Sprintf("bytes %d-%d/%d", want[0], want[1]-1, n), r.header.Get("Content-Range"))
		}
		for _, spec := range []string{"bytes=9-5", "lines=1-2", "bytes=a-b", "bytes=0-1,3-4", "bytes="} {
			require.Equal(t, 200, ask("Range", spec).status, spec)
		}
		for _, spec := range []string{"bytes=999999-", "bytes=-0"} {
			r := ask("Range", spec)
			require.Equal(t, 416, r.status, spec)
			require.Equal(t, fmt.Sprintf("bytes */%d", n), r.header.Get("Content-Range"))
		}
		tag := whole.header.Get("ETag")
		require.Equal(t, 206, ask("Range", "bytes=0-1", "If-Range", tag).status)
		require.Equal(t, 200, ask("Range", "bytes=0-1", "If-Range", `"other"`).status)
		require.Equal(t, 304, ask("If-None-Match", `"x", `+tag).status)
		require.Equal(t, 200, w.do(request{method: "GET", path: path, key: w.key,
			header: map[string]string{"If-None-Match": tag}}).status)
		head := w.do(request{method: "HEAD", path: path + "?compress=zstd", key: w.key})
		require.Equal(t, []string{fmt.Sprint(n)}, head.header.Values("Content-Length"))
		require.Empty(t, head.body)
		require.Equal(t, 200, w.do(request{method: "HEAD", path: path, key: w.key}).status)
	})
}

// A download that fails on the way must not look whole.
func TestBrokenDownload(t *testing.T) {
	w := newTestServer(t, nil)
	var list strings.Builder
	list.WriteString("email\n")
	for i := range 60000 {
		fmt.Fprintf(&list, "ann%d@shop%d.test\n", i, i%50)
	}
	_, rich := w.addCustomer("rich@probity.test", 100000)
	job := w.uploadAndWait(rich, part{"file", "l.csv", list.String()})
	id := job["job_id"].(string)
	form := results.Filter{Form: results.Form{Format: results.JSONL}}
	require.NoError(t, w.coord.Results(t.Context(), id, form, io.Discard))
	stored, err := w.coord.Job(id)
	require.NoError(t, err)
	upload, err := w.fs.OpenReadWrite("data/jobs/"+id+"/"+stored.Upload, "")
	require.NoError(t, err)
	info, err := upload.Stat()
	require.NoError(t, err)
	// of its last frame: behind it are four bytes of each address, and indexes
	const setBytes = 4 * 60000
	_, err = upload.WriteAt(bytes.Repeat([]byte{0xff}, 16), (info.Size()-setBytes)*4/5)
	require.NoError(t, err)
	require.NoError(t, upload.Close())
	require.Error(t, w.coord.Results(t.Context(), id, form, io.Discard), "the damage is noticed")
	got := w.raw("GET " + job["results_url"].(string) +
		"?format=jsonl HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + rich + "\r\n\r\n")
	require.False(t, strings.HasSuffix(got, "0\r\n\r\n") && strings.HasPrefix(got, "HTTP/1.1 200"),
		"half a file was passed off as a whole one")
}

// An HTTP/1.0 client cannot read chunks: its download ends with the connection.
func TestDownloadByHTTP10(t *testing.T) {
	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"file", "l.csv", smallList})
	path := job["results_url"].(string)
	whole := w.get(path, w.key)
	got := parseResponses(t, w.raw("GET "+path+" HTTP/1.0\r\nAuthorization: Bearer "+w.key+"\r\n\r\n"))
	require.Len(t, got, 1)
	require.Equal(t, string(whole.body), string(got[0].body))
	require.True(t, got[0].closed)
}
