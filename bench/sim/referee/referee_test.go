package referee

import (
	"net/netip"
	"testing"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// strictHost is a host of a persona with small limits of every kind.
func strictHost() *world.Host {
	return &world.Host{Name: "mx.example", Persona: &persona.Persona{Name: "test", Limits: persona.Limits{
		Connections: 2, ConnectionsPerMinute: 4, RcptsPerMinute: 30, RcptsPerTransaction: 3,
		RcptsPerConnection: 8, TransactionsPerConnection: 5, RefusalsPerConnection: 2, RefusalsPerHour: 6}}}
}

var client = netip.MustParseAddr("127.0.0.1")

func excesses(r *Referee) map[string]int {
	counts := map[string]int{}
	for _, e := range r.Report().By {
		counts[e.Kind] += e.Count
	}
	return counts
}

func TestRefereeFindsNothingAtTheLimits(t *testing.T) {
	r, host := New(1), strictHost()
	for range 2 { // two connections at a time, four in the minute
		a, b := r.Connect(noon, client, host), r.Connect(noon, client, host)
		if !a.Admit() || !b.Admit() {
			t.Error("refused at the limit")
		}
		a.CountTransaction()
		for range 3 {
			a.CountRcpt(noon)
		}
		a.CountRefusal(noon)
		a.CountRefusal(noon)
		a.Close()
		b.Close()
	}
	if got := r.Report(); got.Excesses != 0 || got.Connections != 4 || got.Recipients != 6 || got.Refused != 4 {
		t.Errorf("report %+v", got)
	}
}

func TestRefereeFindsEveryKind(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		count int
		do    func(r *Referee, h *world.Host)
	}{
		{"connections", 1, func(r *Referee, h *world.Host) {
			for range 3 {
				r.Connect(noon, client, h).Admit()
			}
		}},
		{"connections_per_minute", 2, func(r *Referee, h *world.Host) {
			for i := range 6 {
				r.Connect(noon.Add(time.Duration(i)*time.Second), client, h).Close()
			}
		}},
		{"rcpts_per_transaction", 1, func(r *Referee, h *world.Host) {
			conn := r.Connect(noon, client, h)
			conn.CountTransaction()
			for range 4 {
				conn.CountRcpt(noon)
			}
			conn.CountTransaction()
			conn.CountRcpt(noon)
		}},
		{"rcpts_per_connection", 1, func(r *Referee, h *world.Host) {
			conn := r.Connect(noon, client, h)
			for range 9 {
				conn.CountTransaction()
				conn.TransactionRcpts, conn.transactions = 0, 0
				conn.CountRcpt(noon)
			}
		}},
		{"rcpts_per_minute", 1, func(r *Referee, h *world.Host) {
			for range 31 {
				conn := r.Connect(noon.Add(-time.Hour), client, h)
				conn.CountRcpt(noon)
				conn.Close()
			}
		}},
		{"transactions_per_connection", 1, func(r *Referee, h *world.Host) {
			conn := r.Connect(noon, client, h)
			for range 6 {
				conn.CountTransaction()
			}
		}},
		{"refusals_per_connection", 1, func(r *Referee, h *world.Host) {
			conn := r.Connect(noon, client, h)
			for range 3 {
				conn.CountRefusal(noon)
			}
		}},
		{"refusals_per_hour", 1, func(r *Referee, h *world.Host) {
			for i := range 7 {
				at := noon.Add(time.Duration(i) * 8 * time.Minute)
				conn := r.Connect(at, client, h)
				conn.CountRefusal(at)
				conn.Close()
			}
		}},
	} {
		r := New(1)
		tt.do(r, strictHost())
		if got := excesses(r)[tt.kind]; got != tt.count {
			t.Errorf("%s: %d excesses, want %d: %+v", tt.kind, got, tt.count, r.Report().By)
		}
	}
}

func TestRefereeToleratesALateClose(t *testing.T) {
	r, host := New(1), strictHost()
	a, b := r.Connect(noon, client, host), r.Connect(noon, client, host)
	c := r.Connect(noon, client, host) // a has ended, but we do not know yet
	a.Close()
	if !b.Admit() || !c.Admit() || r.Report().Excesses != 0 {
		t.Errorf("a connection that had ended was counted: %+v", r.Report().By)
	}
}

func TestRefereeSeparatesSourcesAndClusters(t *testing.T) {
	r, host := New(1), strictHost()
	other := *host
	other.Cluster = 7
	for range 2 {
		r.Connect(noon, client, host).Admit()
		r.Connect(noon, netip.MustParseAddr("127.0.0.2"), host).Admit()
		r.Connect(noon, client, &other).Admit()
	}
	if got := r.Report(); got.Excesses != 0 || len(got.Peaks) == 0 {
		t.Errorf("report %+v", got)
	}
}

func TestWindowDropsOldEvents(t *testing.T) {
	w := window{part: time.Second}
	for i := range 10 {
		w.add(noon.Add(time.Duration(i) * time.Second))
	}
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{59 * time.Second, 11}, {60 * time.Second, 10}, {65 * time.Second, 5}, {3 * time.Minute, 1}} {
		copied := w
		if got := copied.add(noon.Add(tt.after)); got != tt.want {
			t.Errorf("after %v: %d, want %d", tt.after, got, tt.want)
		}
	}
}
