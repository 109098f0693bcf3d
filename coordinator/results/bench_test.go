package results

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/engine"
)

// BenchmarkAnswer writes the answer to a single verification.
func BenchmarkAnswer(b *testing.B) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	v := engine.VerdictFor(engine.ReasonTimeout, "rule", engine.FlagRole, at)
	v.ProviderName, v.MX = "other", []string{"mx1.shop.test", "mx2.shop.test"}
	s := Single{Email: "cached@shop.test", Verdict: v, Credits: 1}
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = s.AppendJSON(text[:0], at)
	}
}

// BenchmarkPageOfObjects writes the row of a result file.
func BenchmarkPageOfObjects(b *testing.B) {
	v := engine.VerdictFor(engine.ReasonTimeout, "rule", engine.FlagRole, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	ans := answer{v: v, provider: nameCell{text: "other"}, mx: nameCell{text: "mx1.shop.test mx2.shop.test"}}
	d := csvfile.Dialect{Delimiter: ',', Column: 1, Widest: 4}
	p := page{a: &Assembly{dialect: d, inputs: inputKeys(&d, nil)}, mail: []byte("cached@shop.test")}
	p.fr.Block.Buf = []byte("1017,cached@shop.test,Ann Example,\"likes \"\"tea\"\"\"\n")
	require.NoError(b, d.Parse(&p.fr.Block))
	b.ReportAllocs()
	for b.Loop() {
		p.text = p.text[:0]
		p.writeJSON(0, 7, &ans)
	}
}

// BenchmarkTally counts a row of a page with twenty providers.
func BenchmarkTally(b *testing.B) {
	names := make([]string, 20)
	for i := range names {
		names[i] = "provider " + string(rune('a'+i))
	}
	var t tally
	i := 0
	for b.Loop() {
		t.add(int64(i+1), uint32(i%len(names)), names[i%len(names)], engine.Valid, 98)
		i++
	}
}
