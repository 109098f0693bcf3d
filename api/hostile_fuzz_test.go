package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/api/httpd"
	"probity/engine"
)

// FuzzOrigin: an accepted origin is one that a browser would send, and is its own origin.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"https://shop.example", "https://Shop.Example:8443/x?y#z", "http://[::1]:80",
		"https://a:b@shop.example", "null", "//x", "https://é.example",
		"https://shop.example\r\nX: y", "javascript://x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		origin, err := originOf(s)
		if err != nil {
			return
		}
		require.False(t, strings.ContainsAny(origin, " \r\n\t\x00"), "%q", origin)
		again, err := originOf(origin)
		require.NoError(t, err)
		require.Equal(t, origin, again)
	})
}

// FuzzStatuses: an accepted filter names statuses that exist.
func FuzzStatuses(f *testing.F) {
	for _, s := range []string{"VALID", "VALID,RISKY", "valid", ",", "VALID,,VALID", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		all, err := readStatuses(s)
		if err != nil {
			_, ok := errors.AsType[*httpd.Refusal](err)
			require.True(t, ok, "%v", err)
			return
		}
		for _, one := range all {
			require.Contains(t, []engine.Status{engine.Valid, engine.Risky, engine.Invalid, engine.Unknown}, one)
		}
	})
}

// FuzzRequests: any document is a request or is refused.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{`{"email":"ann@shop.test","timeout":5,"max_age":0,"details":true}`, `{"email":1}`,
		`{"email":"a","limits":{"single_per_minute":-1}}`,
		`{"email":"root@probity.test","role":"admin","credits":10,"password":"x"}`, `{"limits":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := httpd.ParseDocument(b)
		if err == nil {
			_, err = readSingle(d)
		}
		if err != nil {
			r, ok := errors.AsType[*httpd.Refusal](err)
			require.True(t, ok, "%v", err)
			require.NotEqual(t, httpd.Failed, r.Kind)
		}
		if d == nil {
			return
		}
		for _, read := range []func(*httpd.Document) error{
			func(d *httpd.Document) error { _, err := readUser(d); return err },
			func(d *httpd.Document) error { _, err := readLimits(d); return err },
			func(d *httpd.Document) error { _, err := readTraceQuery(d); return err },
		} {
			if err := read(d); err != nil {
				r, ok := errors.AsType[*httpd.Refusal](err)
				require.True(t, ok, "%v", err)
				require.NotEqual(t, httpd.Failed, r.Kind)
			}
		}
	})
}
