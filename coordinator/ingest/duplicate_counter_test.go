package ingest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/addresses"
	"probity/coordinator/csvfile"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
)

// TestListWithTooManyMentionsHasNoSet: not all of its addresses would be in it. Its rows are counted as ever.
func TestListWithTooManyMentionsHasNoSet(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, disk.MkdirAll("jobs/j", 0o700))
	r := New(Config{Files: jobdir.New(nil, disk, "", 1), Table: engine.DefaultTable})
	d := csvfile.Dialect{Delimiter: ',', Encoding: csvfile.UTF8, Header: 2}
	for _, mentions := range []int64{0, maxMentions} {
		c, err := r.newCounter("j", 7)
		require.NoError(t, err)
		c.mentions.Store(mentions)
		for _, text := range []string{"ann@x.example,<bo@x.example>\nno address,cy@x.example\n,ann@x.example\n",
			"Bo@x.example,dee@x.example\nann@x.example,-\n"} {
			b := csvfile.Block{Buf: []byte(text), First: uint32(c.rows)}
			require.NoError(t, d.Parse(&b))
			recs, domains := c.appendHashes(nil, nil, &b)
			require.NoError(t, c.add(recs, domains, len(b.Rows)))
		}
		var file bytes.Buffer
		w := jobfiles.NewUploadWriter(&file)
		require.NoError(t, w.AddFrame(nil, jobfiles.Frame{Rows: 5}))
		require.NoError(t, c.finish(w))
		require.Equal(t, []int64{5, 1, 3, 1}, []int64{c.rows, c.blank, c.unique, c.duplicates})
		require.NoError(t, c.remove())
		set := addresses.OpenSet(bytes.NewReader(file.Bytes()), 0, int64(file.Len()))
		require.Equal(t, mentions > 0, set == nil)
		require.Equal(t, mentions > 0, set.MayContain("no address"))
		for _, folded := range []string{"ann@x.example", "bo@x.example", "cy@x.example", "dee@x.example"} {
			require.True(t, set.MayContain(folded))
		}
	}
}

// TestMentionsOfABlockAreBounded: the memory of a block whose text is all addresses is that of its rows, and its list
// gets no set.
func TestMentionsOfABlockAreBounded(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, disk.MkdirAll("jobs/j", 0o700))
	r := New(Config{Files: jobdir.New(nil, disk, "", 1), Table: engine.DefaultTable})
	d := csvfile.Dialect{Delimiter: ',', Encoding: csvfile.UTF8, Header: 2}
	c, err := r.newCounter("j", 7)
	require.NoError(t, err)
	cell := strings.Repeat("a=b@c.de ", 60<<10/9)
	b := csvfile.Block{Buf: []byte("ann@x.example" + strings.Repeat(","+cell, 60) + "\n")}
	require.NoError(t, d.Parse(&b))
	recs, _ := c.appendHashes(nil, nil, &b)
	require.Len(t, recs, (1+maxBlockMentions)*countRecord)
	require.Greater(t, c.mentions.Load(), int64(maxMentions))
	require.NoError(t, c.remove())
}
