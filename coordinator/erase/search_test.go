package erase

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/addresses"
	"probity/coordinator/csvfile"
	"probity/engine"
)

// FuzzMentions: whatever an upload contains, erasing keeps the number of rows and cells, and makes no other address,
// except that the erased text can shorten a long quoted local part to that of an address.
func FuzzMentions(f *testing.F) {
	f.Add([]byte("id,email,note\n1,u7@shop.example,\"<U7@Shop.Example>, x\"\n2,\" U7@SHOP.example\",mailto:u7@shop.example.\n3,\"\"\"u7\"\"@shop.example\",'u7@shop.example'\n"), "u7@shop.example")
	f.Add([]byte("email\n'a@b.c'@a@b.c,\"a@b.c\"\"\"\n"), "a@b.c")
	jobs := Jobs{Suggest: func(engine.Address) string { return "" }}
	f.Fuzz(func(t *testing.T, text []byte, folded string) {
		e := &erasure{Jobs: &jobs, folded: folded}
		dialect := csvfile.Dialect{Delimiter: ',', Encoding: csvfile.UTF8, Widest: 1 << 10, Header: 1 << 10}
		b := csvfile.Block{Buf: text}
		if dialect.Parse(&b) != nil {
			return
		}
		var m blockMentions
		e.searchBlock(&b, &m)
		after := csvfile.Block{Buf: replaceRanges(nil, text, m.ranges)}
		require.NoError(t, dialect.Parse(&after))
		require.Len(t, after.Rows, len(b.Rows))
		for i := range b.Rows {
			require.Equal(t, b.Rows[i].Cells, after.Rows[i].Cells)
		}
		was := addressesIn(&b)
		for a := range addressesIn(&after) {
			if !strings.Contains(a, erasedText) {
				require.Contains(t, was, a)
			}
		}
	})
}

func addressesIn(b *csvfile.Block) map[string]bool {
	all := map[string]bool{}
	var find addresses.Finder
	for i := range b.Rows {
		find.InRow(b, i, func(m addresses.Mention) (taken bool) {
			all[m.Folded()] = true
			return false
		})
	}
	return all
}
