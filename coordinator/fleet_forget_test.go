package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestWhatIsOwedOutlastsTheProcess: it is there after a start, until it is paid or over.
func TestWhatIsOwedOutlastsTheProcess(t *testing.T) {
	disk, now := vfs.NewMem(), time.Unix(1_800_000_000, 0)
	open := func(now time.Time) *owed {
		o, err := openOwed(disk, "", now)
		require.NoError(t, err)
		return o
	}
	o := open(now)
	require.NoError(t, o.change(func([]debt) []debt { return []debt{{now, "p1", "a@x.example"}, {now, "p2", "\"b c\"@x.example"}} }))
	require.Equal(t, o.list, open(now.Add(time.Hour)).list)
	require.Len(t, open(now).of("p2"), 1)
	require.Empty(t, open(now.Add(owedLife)).list, "no cache holds it any more")
	require.ErrorIs(t, o.change(func([]debt) []debt { return make([]debt, maxOwed+1) }), errOwed)
	require.Len(t, o.list, 2)
	require.NoError(t, o.change(func(l []debt) []debt { return l[:1] }))
	require.Len(t, open(now).list, 1)
}

// FuzzOwed reads any file, and what it read again the same.
func FuzzOwed(f *testing.F) {
	f.Add("1800000000 p1 a@x.example\n")
	f.Add("1 p1\nx y z\n\n1800000000  q\n")
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		list, again := readOwed(text, now), ""
		for _, d := range list {
			again += fmt.Sprintf("%d %s %s\n", d.at.Unix(), d.node, d.folded)
		}
		require.Equal(t, list, readOwed(again, now))
	})
}
