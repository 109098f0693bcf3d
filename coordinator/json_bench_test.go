package coordinator

import (
	"testing"
	"time"

	"probity/engine"
)

// BenchmarkAnswer writes the answer to a single verification.
func BenchmarkAnswer(b *testing.B) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	v := engine.Sure(engine.ReasonTimeout, "rule", engine.FlagRole, at)
	v.ProviderName, v.MX = "other", []string{"mx1.shop.test", "mx2.shop.test"}
	a := Result{Email: "cached@shop.test", Verdict: v, Credits: 1}
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text = a.AppendJSON(text[:0], at)
	}
}

// BenchmarkPageOfObjects writes the row of a result file.
func BenchmarkPageOfObjects(b *testing.B) {
	v := engine.Sure(engine.ReasonTimeout, "rule", engine.FlagRole, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	ans := answer{v: v, provider: name{text: "other"}, mx: name{text: "mx1.shop.test mx2.shop.test"}}
	p := page{mail: []byte("cached@shop.test")}
	b.ReportAllocs()
	for b.Loop() {
		p.text = p.text[:0]
		p.writeJSON(7, &ans)
	}
}
