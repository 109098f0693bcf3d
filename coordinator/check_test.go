package coordinator

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
)

func parse(t testing.TB, s string) engine.Address {
	t.Helper()
	a, err := engine.ParseTrimmed(s)
	require.NoError(t, err)
	return a
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func inflate(t testing.TB, how results.Compress, s string) string {
	t.Helper()
	var r io.Reader
	var err error
	if how == results.Gzip {
		r, err = gzip.NewReader(strings.NewReader(s))
	} else {
		r, err = zstd.NewReader(strings.NewReader(s))
	}
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// checkResults checks that every row of in is in out, in order, with unchanged cells and its fake verdict.
func checkResults(t testing.TB, in, out string) {
	t.Helper()
	theirs, err := csv.NewReader(strings.NewReader(in)).ReadAll()
	require.NoError(t, err)
	ours, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, ours, len(theirs))
	for i, row := range theirs {
		got := ours[i]
		require.Equal(t, row, got[:len(row)])
		if i == 0 || row[1] == "" {
			continue
		}
		a, err := engine.ParseTrimmed(row[1])
		want := engine.ReasonInvalidSyntax
		switch {
		case err != nil:
		case strings.HasPrefix(a.Domain(), "nx"):
			want = engine.ReasonDomainNotFound
		case strings.HasPrefix(a.Domain(), "null"):
			want = engine.ReasonNullMX
		case len(a.Local()) > 0 && a.Domain() == "gmail.com" && got[5] == "provider_syntax":
			want = engine.ReasonProviderSyntax
		default:
			want = fakeVerdict(a).Reason
		}
		require.Equal(t, want.String(), got[5], row[1])
		require.Equal(t, want.Bucket().String(), got[3], row[1])
	}
}
