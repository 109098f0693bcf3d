package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/tus"
)

// tus sends a request for a resumable upload; headers are names and values.
func (w *testServer) tus(method, path, key, body string, headers ...string) reply {
	w.t.Helper()
	h := map[string]string{"Tus-Resumable": "1.0.0"}
	if method == "PATCH" {
		h["Content-Type"] = "application/offset+octet-stream"
	}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	return w.do(request{method: method, path: path, key: key, header: h, body: strings.NewReader(body)})
}

// offset is how far an upload is, as HEAD has it.
func (w *testServer) offset(path string) int {
	w.t.Helper()
	r := w.tus("HEAD", path, w.key, "")
	require.Equal(w.t, 200, r.status)
	n, err := strconv.Atoi(r.header.Get("Upload-Offset"))
	require.NoError(w.t, err)
	return n
}

// cutPatch sends the beginning of a piece, and then loses the connection.
func (w *testServer) cutPatch(path string, offset, length int, begin []byte) {
	ctx, cancel := context.WithCancel(w.t.Context())
	pipe, piece := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, w.base+path, pipe)
	require.NoError(w.t, err)
	req.ContentLength = int64(length)
	for name, value := range map[string]string{"Authorization": "Bearer " + w.key, "Tus-Resumable": "1.0.0",
		"Upload-Offset": strconv.Itoa(offset), "Content-Type": "application/offset+octet-stream"} {
		req.Header.Set(name, value)
	}
	go func() {
		_, _ = piece.Write(begin) // the server may end first
		cancel()
		_ = piece.CloseWithError(io.ErrClosedPipe)
	}()
	answer, err := client.Do(req)
	if err == nil {
		_ = answer.Body.Close()
	}
}

// TestUploadThatIsCutTenTimesIsExact: what arrived counts, memory is flat, and the job is that of the whole file.
func TestUploadThatIsCutTenTimesIsExact(t *testing.T) {
	w := newTestServer(t, nil)
	var list bytes.Buffer
	list.WriteString("email\n")
	for i := range 200_000 {
		fmt.Fprintf(&list, "row-%d-of-a-long-list@shop.test\n", i)
	}
	content := list.Bytes()
	name := base64.StdEncoding.EncodeToString([]byte("long.csv"))
	at := w.tus("POST", "/v1/uploads", w.key, "", "Upload-Length", strconv.Itoa(len(content)), "Upload-Metadata",
		"filename "+name+",other").header.Get("Location")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	offset := 0
	for cut := range 10 {
		share := len(content) / 11
		w.cutPatch(at, offset, len(content)-offset, content[offset:offset+share-cut])
		require.Eventually(t, func() bool { return w.offset(at) > offset }, 10*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { // the server may not know yet that the connection is lost
			r := w.tus("PATCH", at, w.key, "", "Upload-Offset", "9999999999")
			return r.status == 409 && strings.Contains(r.detail(t), "send what follows")
		}, 10*time.Second, time.Millisecond)
		offset = w.offset(at)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, after.HeapAlloc, before.HeapAlloc+uint64(len(content))*2+8<<20, "the disk of the test is in memory")
	r := w.tus("PATCH", at, w.key, string(content[offset:]), "Upload-Offset", strconv.Itoa(offset))
	require.Equal(t, 204, r.status, "%s", r.body)
	require.Equal(t, strconv.Itoa(len(content)), r.header.Get("Upload-Offset"))

	job := w.upload(w.testKey, map[string]string{"Idempotency-Key": "k"}, part{"upload_id", "", at},
		part{"start", "", "false"}).json(t)
	require.Equal(t, "long.csv", job["filename"])
	require.EqualValues(t, 200_000, job["unique_addresses"])
	again := w.upload(w.testKey, map[string]string{"Idempotency-Key": "k"}, part{"upload_id", "", at},
		part{"start", "", "false"}).json(t)
	require.Equal(t, job["job_id"], again["job_id"], "the upload is kept for a while, so that this can be repeated")
	same := w.upload(w.testKey, map[string]string{"Idempotency-Key": "k"}, part{"file", "long.csv", string(content)},
		part{"start", "", "false"}).json(t)
	require.Equal(t, job["job_id"], same["job_id"], "it has each byte of the file")
}

// TestPieceWithAChecksumCountsAsAWhole, and one without an upload of the account does not count at all.
func TestPieceWithAChecksumCountsAsAWhole(t *testing.T) {
	w := newTestServer(t, nil)
	const content = "email\nann@shop.test\n"
	at := w.tus("POST", "/v1/uploads", w.key, "", "Upload-Length", strconv.Itoa(len(content))).header.Get("Location")
	sum := sha256.Sum256([]byte(content))
	right := "sha256 " + base64.StdEncoding.EncodeToString(sum[:])
	require.Equal(t, 460, w.tus("PATCH", at, w.key, "EMAIL\nann@shop.test\n", "Upload-Offset", "0",
		"Upload-Checksum", right).status)
	require.Zero(t, w.offset(at))
	_, other := w.addCustomer("other@probity.test", 10)
	require.Equal(t, 404, w.tus("PATCH", at, other, content, "Upload-Offset", "0").status)
	require.Equal(t, 404, w.tus("GET", at, other, "").status)
	require.Equal(t, 204, w.tus("PATCH", at, w.key, content, "Upload-Offset", "0", "Upload-Checksum", right).status)
	require.Equal(t, 404, w.upload(other, nil, part{"upload_id", "", at}).status)
	r := w.upload(w.key, nil, part{"upload_id", "", at}, part{"email_column", "", "none"})
	require.Equal(t, 422, r.status, "the upload is still there afterwards")
	require.Equal(t, 202, w.upload(w.key, nil, part{"upload_id", "", at}).status)
}

// TestUploadIsDeletedByItsAccount, complete or not, and by no other.
func TestUploadIsDeletedByItsAccount(t *testing.T) {
	w := newTestServer(t, nil)
	_, other := w.addCustomer("other@probity.test", 10)
	extensions := w.do(request{method: "OPTIONS", path: "/v1/uploads"}).header.Get("Tus-Extension")
	require.Contains(t, extensions, "termination")
	for _, content := range []string{"email\n", "email\nann@shop.test\n"} {
		at := w.tus("POST", "/v1/uploads", w.key, "", "Upload-Length", "20").header.Get("Location")
		require.Equal(t, 204, w.tus("PATCH", at, w.key, content, "Upload-Offset", "0").status)
		require.Equal(t, 404, w.tus("DELETE", at, other, "").status)
		require.Equal(t, 412, w.tus("DELETE", at, w.key, "", "Tus-Resumable", "").status)
		require.Equal(t, len(content), w.offset(at))
		require.Equal(t, 204, w.tus("DELETE", at, w.key, "").status)
		require.Equal(t, 404, w.tus("HEAD", at, w.key, "").status)
		require.Equal(t, 404, w.upload(w.key, nil, part{"upload_id", "", at}).status)
	}
	left, err := w.fs.List("data/uploads")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestUploadsSurviveARestartAndExpire: what was durable is there, and what has expired is deleted.
func TestUploadsSurviveARestartAndExpire(t *testing.T) {
	w := newTestServer(t, nil)
	at := w.tus("POST", "/v1/uploads", w.key, "", "Upload-Length", "100").header.Get("Location")
	require.Equal(t, 204, w.tus("PATCH", at, w.key, "email\n", "Upload-Offset", "0").status)
	now := time.Now()
	open := func() *tus.Store {
		s, err := tus.Open(tus.Config{FS: w.fs, Dir: "data/uploads", Now: func() time.Time { return now }})
		require.NoError(t, err)
		return s
	}
	_, err := open().OpenFile(w.user.ID, at)
	require.ErrorContains(t, err, "has 6 of 100 bytes")
	now = now.Add(25 * time.Hour)
	_, err = open().OpenFile(w.user.ID, at)
	require.ErrorContains(t, err, "expired")
	found, err := w.fs.List("data/uploads")
	require.NoError(t, err)
	require.Empty(t, found)
}
