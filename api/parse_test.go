package api

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzForm(f *testing.F) {
	whole, kind := encodeForm(part{"name", "", "x"}, part{"file", "l.csv", "email\na@b.c\n"}, part{"max_age", "", "5"})
	f.Add(whole, kind)
	f.Add(whole[:100], kind)
	f.Add("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--", "multipart/form-data; boundary=b")
	f.Fuzz(func(t *testing.T, body, kind string) {
		form := newForm(strings.NewReader(body), kind)
		for {
			p, err := form.next()
			if err != nil {
				r, ok := errors.AsType[*refusal](err)
				require.True(t, ok, "%v", err)
				require.NotEqual(t, failed, r.kind, "%v", err)
				return
			}
			if p == nil {
				require.Contains(t, body, string(form.lastBoundary), "a form without an end is not whole")
				return
			}
			if _, err := io.Copy(io.Discard, formFile{p}); err != nil {
				return
			}
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-9", "bytes=-5", "bytes=9-", "bytes=", "bytes=1-0", "bytes=99999999999999999999-"} {
		f.Add(s, int64(100))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		from, to, ok := parseRange(header, size)
		if ok && from < to {
			require.True(t, from >= 0 && to <= size, "%q of %d: %d to %d", header, size, from, to)
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("GET", "/v1/verify/bulk/x/results")
	f.Add("POST", "/v1/admin/users/%2e%2e/disable")
	s := &Server{staticRoutes: map[string][]*route{}}
	s.routeTable = s.routes()
	f.Fuzz(func(t *testing.T, method, path string) {
		r, param, err := s.findRoute(method, path)
		if err != nil {
			return
		}
		require.Equal(t, len(r.path), strings.Count(path, "/"), "%q is %s", path, r.name)
		if !strings.Contains(r.name, "{") {
			require.Equal(t, r.name, path)
			require.Empty(t, param)
		}
	})
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer x")
	f.Add("bearer \t")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := bearer([][]byte{[]byte(header)})
		if err == nil {
			require.NotEmpty(t, token)
			require.True(t, strings.EqualFold(header[:7], "bearer "))
		}
	})
}

// A file name is what it looks like: characters that reverse it, are invisible or end its line are dropped.
func TestFilenamesAreSanitized(t *testing.T) {
	for sent, want := range map[string]string{
		"list.csv": "list.csv", "Kunden – März (2).csv": "Kunden – März (2).csv", "名簿.csv": "名簿.csv",
		"list\u202evsc.exe": "listvsc.exe", "a\u200bb\u200e\u2066\ufeff\u00ad.csv": "ab.csv", "a\u2028b\u2029\x00\x1b[2J\r\n.csv": "ab[2J.csv",
		`C:\Users\ann\list.csv`: "list.csv", "../../etc/passwd": "passwd", "\u202e": "",
	} {
		require.Equal(t, want, cleanFilename(sent), "%q", sent)
	}
}
