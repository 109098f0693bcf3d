package resultfile

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
)

// TestFilesAreVerifiedAgain after a while, and few are remembered.
func TestFilesAreVerifiedAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var v verifiedFiles
	a := fileVersion{"a", 1, now}
	require.False(t, v.has(a, now))
	v.add(a, now)
	require.True(t, v.has(a, now.Add(verifiedFor-1)))
	for _, other := range []fileVersion{{"b", 1, now}, {"a", 2, now}, {"a", 1, now.Add(1)}} {
		require.False(t, v.has(other, now))
	}
	require.False(t, v.has(a, now.Add(verifiedFor)))
	for i := range 10 * maxVerified {
		v.add(fileVersion{sum: fmt.Sprint(i)}, now)
		require.LessOrEqual(t, len(v.at), maxVerified)
		require.True(t, v.has(fileVersion{sum: fmt.Sprint(i)}, now))
	}
}

// TestDamagedCallbackRowsAreRefused: each cut and changed byte of the kept rows is an error, or harmless.
func TestDamagedCallbackRowsAreRefused(t *testing.T) {
	text := bytes.Repeat([]byte(`{"email":"a@b.example"}`+"\n"), 20)
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	var got bytes.Buffer
	require.NoError(t, decompressTo(&got, bytes.NewReader(packed.Bytes())))
	require.Equal(t, text, got.Bytes())
	for i := range packed.Len() {
		for what, bad := range map[string][]byte{"cut": packed.Bytes()[:i], "changed": bytes.Clone(packed.Bytes())} {
			if what == "changed" {
				bad[i] ^= 0x10
			}
			got.Reset()
			if err := decompressTo(&got, bytes.NewReader(bad)); err != nil {
				require.ErrorIs(t, err, jobfiles.ErrDamaged, "%s at %d", what, i)
			} else if i > 0 {
				require.Equal(t, text, got.Bytes(), "%s at %d", what, i)
			}
		}
	}
}
