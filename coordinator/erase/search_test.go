package erase

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/engine"
)

// FuzzMentions: whatever an upload contains, erasing keeps the number of rows and cells.
func FuzzMentions(f *testing.F) {
	f.Add([]byte("id,email,note\n1,u7@shop.example,\"<U7@Shop.Example>, x\"\n2,\" U7@SHOP.example\",mailto:u7@shop.example.\n3,\"\"\"u7\"\"@shop.example\",'u7@shop.example'\n"), "u7@shop.example")
	f.Add([]byte("email\n'a@b.c'@a@b.c,\"a@b.c\"\"\"\n"), "a@b.c")
	jobs := Jobs{Suggest: func(engine.Address) string { return "" }}
	f.Fuzz(func(t *testing.T, text []byte, folded string) {
		e := &erasure{Jobs: &jobs, folded: folded,
			dialect: csvfile.Dialect{Delimiter: ',', Encoding: csvfile.UTF8, Widest: 1 << 10, Header: 1 << 10}}
		b := csvfile.Block{Buf: text}
		if e.dialect.Parse(&b) != nil {
			return
		}
		var m blockMentions
		e.searchBlock(&b, &m)
		after := csvfile.Block{Buf: replaceRanges(nil, text, m.ranges)}
		require.NoError(t, e.dialect.Parse(&after))
		require.Len(t, after.Rows, len(b.Rows))
		for i := range b.Rows {
			require.Equal(t, b.Rows[i].Cells, after.Rows[i].Cells)
		}
	})
}
