package fleet

import (
	"fmt"
	"testing"

	"probity/engine"
	"probity/prober/wire"
)

// BenchmarkAssign splits batches of a common mix by node, with the sources of 3 and of 1,000 probers: half the rows at
// Gmail, whose addresses each have an owner, a fifth at domains of Google, a tenth at Orange, and the others at 300
// narrow routes.
func BenchmarkAssign(b *testing.B) {
	own := make([]*engine.Route, 300)
	for i := range own {
		own[i] = routeTo(fmt.Sprintf("mx%d.example.org", i))
	}
	google, orange := routeTo("aspmx.l.google.com"), routeTo("smtp-in.orange.fr")
	rows := make([]wire.Row, wire.MaxRows)
	for i := range rows {
		route, domain := own[i/10%len(own)], fmt.Sprintf("d%d.example.org", i/10%len(own))
		switch i % 10 {
		case 0, 1, 2, 3, 4:
			route, domain = google, "gmail.com"
		case 5, 6:
			route, domain = google, fmt.Sprintf("d%d.example.com", i/10)
		case 7:
			route, domain = orange, "orange.fr"
		}
		rows[i] = wire.Row{Number: uint32(i), Address: addressAt(b, fmt.Sprintf("ann%d@%s", i, domain)), Route: route}
	}
	for _, nodes := range []int{3, 1000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			r := membershipOf(nodes)
			b.ReportAllocs()
			for b.Loop() {
				s := splitterOf(r, &wire.Batch{Job: "j", Rows: rows})
				for i := range rows {
					s.assign(&rows[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
		})
	}
}
