package service_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/store"
)

// badUpload is a list that is refused.
type badUpload struct {
	name    string
	content io.Reader
	status  int
	detail  string // a part of it: what is wrong, or what to do
}

func badUploads() []badUpload {
	const mega = 1 << 20
	spill := func(head, with string, times int) io.Reader {
		return io.MultiReader(strings.NewReader(head), &repeatedText{text: with, left: times})
	}
	pack := func(r io.Reader) io.Reader {
		out, in := io.Pipe()
		go func() { // ends with its source, or with its reader
			z, _ := gzip.NewWriterLevel(in, gzip.BestSpeed)
			_, err := io.Copy(z, r)
			if err == nil {
				err = z.Close()
			}
			in.CloseWithError(err)
		}()
		return out
	}
	// one raw block, in a frame with a window of 64 MB (RFC 8878, section 3.1.1)
	const wide = "\x28\xb5\x2f\xfd\x00\x80\x31\x00\x00email\n"
	return []badUpload{
		{"a packed line of 64 MB", pack(spill("email\n", strings.Repeat("a", mega), 64)), 422, "line 2"},
		{"a packed header of 64 MB", pack(spill("", strings.Repeat("email,", mega/6), 64)), 422, "longer than"},
		{"a quote that is never closed", spill("email,n\na@x.example,\"", strings.Repeat("b@x.example\n", mega/12), 8),
			422, "close it"},
		{"a window larger than ours", strings.NewReader(wide), 422, "without --long"},
		{"zeros", &repeatedText{text: strings.Repeat("\x00", mega), left: 8}, 422, "UTF-8"},
		{"UTF-16 without a mark", strings.NewReader("e\x00m\x00a\x00i\x00l\x00\n\x00"), 422, "byte order mark"},
		{"rows without end of a column too many", spill("email\n", "a@x.example"+strings.Repeat(",", 70)+"\n", 100_000),
			422, "line 2"},
	}
}

// repeatedText is a text, so many times.
type repeatedText struct {
	text string
	at   int
	left int
}

func (r *repeatedText) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.text[r.at:])
	r.at += n
	if r.at == len(r.text) {
		r.at, r.left = 0, r.left-1
	}
	return n, nil
}

// testBadInput sends invalid requests. Each is refused with an error, and leaves nothing behind: no file, no charge, no
// memory.
func testBadInput(t *testing.T, p *serviceEnv) {
	const granted = 1000
	data := t.TempDir()
	var c *customer
	withStoppedStore(t, data, func(s *store.Store) {
		c = p.addCustomer(t, s, "bad@customer.example", granted,
			unlimited)
	})
	s := startServer(t, p, data, "127.0.1.9")
	c.base = s.base
	c.warmUp(t, p)
	spent, _ := c.credits(t)
	files := filesIn(t, data)
	before, _ := s.memoryUse(t)

	for _, bad := range badUploads() {
		contentType, body := multipartOf("b", formPart{"file", "bad.csv", bad.content})
		r, err := c.request(http.MethodPost, "/v1/verify/bulk", contentType, body)
		require.NoError(t, err, bad.name)
		require.Equal(t, bad.status, r.status, "%s: %s", bad.name, r.body)
		require.Contains(t, detailOf(t, r), bad.detail, bad.name)
	}
	c.abortUploads(t, 20)
	// Files of the job before, which it needs no longer, may go meanwhile.
	p.eventually(t, "nothing is left", func() bool {
		added := func(file string) bool { return !slices.Contains(files, file) }
		return !slices.ContainsFunc(filesIn(t, data), added)
	})
	c.requireCredits(t, spent, 0)

	most := int64(uploadGrowth)
	if detector.On {
		most *= raceMemoryFactor
	}
	_, peak := s.memoryUse(t)
	t.Logf("%d MB before, peak %d MB", before>>20, peak>>20)
	require.Less(t, (peak-before)>>20, most>>20, "megabytes of growth")
	s.stop(t)
	withStoppedStore(t, data, func(s *store.Store) { require.NoError(t, s.CheckLedger(c.account)) })
}

// abortUploads starts concurrent uploads, and resets their connections in the middle.
func (c *customer) abortUploads(t *testing.T, n int) {
	host := strings.TrimPrefix(c.base, "http://")
	for i := range n {
		conn, err := net.Dial("tcp", host)
		require.NoError(t, err)
		fmt.Fprintf(conn, "POST /v1/verify/bulk HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; boundary=b\r\n"+
			"Content-Length: 10000000\r\n\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.csv\"\r\n\r\nemail\n", host, c.key)
		for row := range 1000 * i {
			fmt.Fprintf(conn, "u%d@x.example\n", row)
		}
		defer func() {
			require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
			_ = conn.Close()
		}()
	}
}

// filesIn are the files of jobs, and of uploads that are not jobs yet.
func filesIn(t *testing.T, data string) (files []string) {
	for _, folder := range []string{"jobs", "scratch"} {
		err := filepath.WalkDir(filepath.Join(data, folder), func(path string, _ os.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil // removed meanwhile
			}
			files = append(files, path)
			return err
		})
		require.NoError(t, err)
	}
	return files
}
