package httpd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-9", "bytes=-5", "bytes=9-", "bytes=", "bytes=1-0",
		"bytes=99999999999999999999-"} {
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
