package frames

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"probity/engine"
	"probity/prober/wire"
)

// knownTable is the table that the reader of messages has.
var knownTable = engine.DefaultTable()

func drawRoute(t *rapid.T) *engine.Route {
	hosts := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}\.(example|google\.com|pphosted\.com)`), 1, 4,
		rapid.ID).Draw(t, "hosts")
	if rapid.Bool().Draw(t, "implicit") {
		r := knownTable.ImplicitRoute(hosts[0])
		return &r
	}
	records := make([]engine.MX, len(hosts))
	for i, h := range hosts {
		records[i] = engine.MX{Preference: uint16(i), Host: h}
	}
	r := knownTable.NewRoute(records)
	return &r
}

func drawAddress(t *rapid.T) engine.Address {
	mailbox := rapid.StringMatching(`("[ -!#-\[\]-~]{1,8}"|[a-zé.+]{1,10})@([a-z]{1,8}\.){1,2}(com|example)`).Draw(t,
		"mailbox")
	a, err := engine.Parse(mailbox)
	if err != nil {
		t.Skip("no address")
	}
	return a
}

func drawTime(t *rapid.T, label string, unit time.Duration) time.Time {
	n := rapid.Int64Range(0, int64(time.Hour*24*365*60/unit)).Draw(t, label)
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n*int64(unit)).UTC()
}

func drawBatch(t *rapid.T) *wire.Batch {
	routes := rapid.SliceOfN(rapid.Custom(drawRoute), 1, 3).Draw(t, "routes")
	addresses := rapid.SliceOfN(rapid.Custom(drawAddress), 1, 5).Draw(t, "addresses")
	b := &wire.Batch{Job: rapid.String().Draw(t, "job"), Chunk: rapid.Uint64().Draw(t, "chunk"),
		Epoch: rapid.Uint32().Draw(t, "epoch"),
		Class: rapid.String().Draw(t, "class"), NoSMTP: rapid.Bool().Draw(t, "noSMTP"),
		Details: rapid.Bool().Draw(t, "details"), Short: rapid.Bool().Draw(t, "short"),
		LongBacklog: rapid.Bool().Draw(t, "steady"),
		MaxAge:      time.Duration(rapid.Int64Min(0).Draw(t, "maxAge")), Started: drawTime(t, "started", 1)}
	for _, number := range rapid.SliceOfNDistinct(rapid.Uint32(), 1, 20, rapid.ID).Draw(t, "numbers") {
		b.Rows = append(b.Rows, wire.Row{Number: number, Attempt: rapid.Byte().Draw(t, "attempt"),
			Flags:   engine.Flags(rapid.Byte().Draw(t, "flags")),
			Address: rapid.SampledFrom(addresses).Draw(t, "address"),
			Route:   rapid.SampledFrom(routes).Draw(t, "route")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "identities") {
		b.Egress = append(b.Egress, rapid.String().Draw(t, "identity"))
	}
	for i := range b.Rows {
		b.Rows[i].Egress = uint16(rapid.IntRange(0, max(0, len(b.Egress)-1)).Draw(t, "egress"))
	}
	return b
}

// roundTrip is what a peer reads of a message.
func roundTrip[M proto.Message](t require.TestingT, sent, read M) M {
	b, err := proto.Marshal(sent)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, read))
	return read
}

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		hold := time.Duration(rapid.Int64Min(0).Draw(t, "hold"))
		f := roundTrip(t, NewBatchFrame(b, 7, hold), &BatchFrame{})
		require.EqualValues(t, 7, f.GetBatch())
		require.EqualValues(t, hold, f.GetHoldNs())
		got, err := f.Read(knownTable)
		require.NoError(t, err)
		require.Equal(t, b, got)
	})
}

func drawVerdict(t *rapid.T) engine.Verdict {
	reason := engine.Reason(rapid.IntRange(0, int(engine.ReasonInternalError)).Draw(t, "reason"))
	name := rapid.StringMatching(`[a-z/-]{0,12}`)
	return engine.Verdict{Status: reason.Bucket(), Reason: reason, Score: rapid.Uint8Max(100).Draw(t, "score"),
		SMTPValid: rapid.Bool().Draw(t, "smtpValid"), FromCache: rapid.Bool().Draw(t, "fromCache"),
		Flags:      engine.Flags(rapid.Byte().Draw(t, "flags")),
		ProviderID: name.Draw(t, "provider"), ProviderName: name.Draw(t, "providerName"), Rule: name.Draw(t, "rule"),
		VerifiedAt: drawTime(t, "verifiedAt", time.Millisecond),
		Details: engine.Details{CatchAll: engine.Tri(rapid.IntRange(0, 2).Draw(t, "catchAll")),
			Full:     rapid.Bool().Draw(t, "full"),
			Disabled: rapid.Bool().Draw(t, "disabled")}}
}

func drawResult(t *rapid.T) wire.Result {
	r := wire.Result{Row: rapid.Uint32().Draw(t, "row"), Outcome: wire.Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")),
		Attempt: rapid.Byte().Draw(t, "attempt"), Egress: rapid.StringN(0, 10, -1).Draw(t, "egress"),
		Due: drawTime(t, "due", 1)}
	if r.Outcome == wire.Settled || rapid.Bool().Draw(t, "judged") {
		r.Verdict = drawVerdict(t)
	}
	return r
}

// drawDetails draws what detail.Append packs.
func drawDetails(t *rapid.T, v *engine.Verdict) {
	d := &v.Details
	d.Host, d.Code, d.Attempts = rapid.String().Draw(t, "host"), rapid.IntRange(200, 599).Draw(t, "code"),
		rapid.IntRange(0, 255).Draw(t, "attempts")
	d.Stage = engine.Stage(rapid.IntRange(0, int(engine.StageSession)).Draw(t, "stage"))
	d.Enhanced = engine.Enhanced{Class: rapid.Uint16Min(1).Draw(t, "class"), Subject: rapid.Uint16().Draw(t, "subject"),
		Detail: rapid.Uint16().Draw(t, "detail")}
	d.Message, d.Source = string(rapid.SliceOf(rapid.Byte()).Draw(t, "message")), rapid.String().Draw(t, "source")
}

func TestResultsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := wire.Results{Rows: rapid.SliceOfN(rapid.Custom(drawResult), 0, 20).Draw(t, "rows"),
			Done: rapid.Bool().Draw(t, "done"),
			BudgetWait: wire.BudgetWait{Rows: rapid.IntRange(0, wire.MaxRows).Draw(t, "wait for a budget"),
				Until: drawTime(t, "until", 1)}}
		sent.Details = len(sent.Rows) > 0 && rapid.Bool().Draw(t, "details")
		for i := range sent.Rows {
			if v := &sent.Rows[i].Verdict; sent.Details && !v.VerifiedAt.IsZero() {
				drawDetails(t, v)
			}
		}
		f := roundTrip(t, NewResultsFrame(3, sent), &ResultsFrame{})
		got, err := f.Read()
		require.NoError(t, err)
		require.Equal(t, sent, got)
		require.EqualValues(t, 3, f.GetBatch())
	})
}

func TestSinglesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sr := wire.SingleRequest{Address: drawAddress(t), Flags: engine.Flags(rapid.Byte().Draw(t, "flags")),
			Route:  drawRoute(t),
			MaxAge: time.Duration(rapid.Int64Min(0).Draw(t, "maxAge")), NoSMTP: rapid.Bool().Draw(t, "noSMTP"),
			Low: rapid.Bool().Draw(t, "low")}
		got, err := roundTrip(t, NewAskFrame(&sr, time.Second), &AskFrame{}).Read(knownTable)
		require.NoError(t, err)
		require.Equal(t, sr, got)

		v := drawVerdict(t)
		v.MX = sr.Route.MX
		drawDetails(t, &v)
		v.Details.NextRetry = drawTime(t, "nextRetry", 1)
		back, err := roundTrip(t, NewVerdictFrame(&v), &VerdictFrame{}).Read()
		require.NoError(t, err)
		require.Equal(t, v, back)
	})
}

func TestMalformedMessagesAreRefused(t *testing.T) {
	route := &RouteFrame{Key: "k", Fact: uint32(engine.FactMX), Hosts: []string{"mx.example"}}
	whole := func() *BatchFrame {
		return &BatchFrame{Number: []uint32{1}, Attempt: []byte{0}, Flags: []byte{0}, Route: []uint32{0},
			Mailbox: []string{"a@b.example"}, Routes: []*RouteFrame{route}}
	}
	_, err := whole().Read(knownTable)
	require.NoError(t, err)
	for name, corrupt := range map[string]func(*BatchFrame){
		"columns of two lengths":   func(f *BatchFrame) { f.Flags = nil },
		"a route that is not sent": func(f *BatchFrame) { f.Route[0] = 1 },
		"no address":               func(f *BatchFrame) { f.Mailbox[0] = "nobody" },
		"a row twice": func(f *BatchFrame) {
			f.Number = []uint32{1, 1}
			f.Attempt = []byte{0, 0}
			f.Flags = []byte{0, 0}
			f.Route = []uint32{0, 0}
			f.Mailbox = []string{"a@b.example", "c@b.example"}
		},
		"a route without hosts": func(f *BatchFrame) {
			f.Routes = []*RouteFrame{{Key: "k",
				Fact: uint32(engine.FactMX)}}
		},
		"a route that is a null MX": func(f *BatchFrame) {
			f.Routes = []*RouteFrame{{Key: "k", Fact: uint32(engine.FactNullMX), Hosts: route.Hosts}}
		},
		"a fact beyond those known": func(f *BatchFrame) {
			f.Routes = []*RouteFrame{{Key: "k", Fact: 257,
				Hosts: route.Hosts}}
		},
		"a provider of another book": func(f *BatchFrame) {
			f.Routes = []*RouteFrame{{Key: "k", Fact: 1, Provider: "nobody", Hosts: route.Hosts}}
		},
		"more rows than a batch has": func(f *BatchFrame) { f.Number = make([]uint32, wire.MaxRows+1) },
	} {
		f := whole()
		corrupt(f)
		_, err := f.Read(knownTable)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

// TestStatusReportIsBounded, on both sides: a node that keeps no bounds takes no more of its coordinator's memory.
func TestStatusReportIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20) + "\xff"
	var all wire.Status
	f := &StatusFrame{}
	for range 2000 {
		all.Counters = append(all.Counters, wire.Counter{Name: long, Count: 1})
		all.Findings = append(all.Findings, wire.Finding{Check: long, Subject: long, Severity: long, Message: long,
			Advice: long})
		f.Counters = append(f.Counters, &CounterFrame{Name: long, Count: 1})
		f.Findings = append(f.Findings, &FindingFrame{Check: long, Subject: long, Severity: long,
			Message: long, Advice: long})
	}
	require.Less(t, proto.Size(NewStatusFrame(all)), 256<<10)
	kept := f.Read()
	require.Len(t, kept.Counters, maxCounters)
	require.Len(t, kept.Findings, maxFindings)
	require.Less(t, proto.Size(NewStatusFrame(kept)), 256<<10)
	require.Equal(t, strings.Repeat("é", maxWord/2), kept.Counters[0].Name)
	require.Equal(t, strings.Repeat("é", maxSentence/2), kept.Findings[0].Message)
	require.Equal(t, "é", Clip("éé", 3), "no half of a character")
}

func FuzzBatchFrame(f *testing.F) {
	a, _ := engine.Parse("ann@example.com")
	r := knownTable.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	batch := &wire.Batch{Job: "j", Rows: []wire.Row{{Number: 1, Address: a, Route: &r}}}
	seed, _ := proto.Marshal(NewBatchFrame(batch, 1, time.Minute))
	f.Add(seed)
	batch.Egress = []string{"192.0.2.1", "192.0.2.2"}
	batch.Rows[0].Egress = 1
	seed, _ = proto.Marshal(NewBatchFrame(batch, 1, time.Minute))
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m BatchFrame
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		b, err := m.Read(knownTable)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := NewBatchFrame(b, 1, 0).Read(knownTable)
		require.NoError(t, err)
		require.Equal(t, len(b.Rows), len(again.Rows))
		for i := range b.Rows {
			require.Equal(t, b.Rows[i].Address, again.Rows[i].Address)
			require.Equal(t, b.EgressOf(&b.Rows[i]), again.EgressOf(&again.Rows[i]))
			require.Equal(t, b.Rows[i].Route.Hosts, again.Rows[i].Route.Hosts)
		}
	})
}

func FuzzResultsFrame(f *testing.F) {
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "generic/no-mailbox", 0, time.Unix(1, 0))
	seed, _ := proto.Marshal(NewResultsFrame(1, wire.Results{Rows: []wire.Result{{Row: 4, Verdict: v},
		{Row: 5, Outcome: wire.Returned}}, Done: true, Details: true}))
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m ResultsFrame
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		got, err := m.Read()
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := NewResultsFrame(1, wire.Results{Rows: got.Rows, Details: got.Details}).Read()
		require.NoError(t, err)
		require.Equal(t, got.Rows, again.Rows)
	})
}

func FuzzSingleFrames(f *testing.F) {
	a, _ := engine.Parse("ann@example.com")
	r := knownTable.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	request, _ := proto.Marshal(NewAskFrame(&wire.SingleRequest{Address: a, Route: &r}, time.Second))
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "generic/no-mailbox", 0, time.Unix(1, 0))
	answer, _ := proto.Marshal(NewVerdictFrame(&v))
	f.Add(request, answer)
	f.Fuzz(func(t *testing.T, request, answer []byte) {
		var q AskFrame
		if proto.Unmarshal(request, &q) == nil {
			if got, err := q.Read(knownTable); err == nil {
				_, err = NewAskFrame(&got, 0).Read(knownTable)
				require.NoError(t, err)
			}
		}
		var v VerdictFrame
		if proto.Unmarshal(answer, &v) == nil {
			if got, err := v.Read(); err == nil {
				back, err := NewVerdictFrame(&got).Read()
				require.NoError(t, err)
				require.Equal(t, got, back)
			}
		}
	})
}

// Per row of a batch and its result, both ways through the codec.
func BenchmarkRowRoundTrip(b *testing.B) {
	r := knownTable.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	a, _ := engine.Parse("somebody.somewhere@example.com")
	batch := &wire.Batch{Job: "job", Class: "tail"}
	part := wire.Results{Done: true}
	for i := range wire.MaxRows {
		batch.Rows = append(batch.Rows, wire.Row{Number: uint32(i), Address: a, Route: &r})
		part.Rows = append(part.Rows, wire.Result{Row: uint32(i), Egress: "192.0.2.1",
			Verdict: engine.VerdictFor(engine.ReasonMailboxNotFound, "generic/no-mailbox", 0, time.Unix(1, 0))})
	}
	b.ReportAllocs()
	for i := 0; i < b.N; i += wire.MaxRows {
		if _, err := roundTrip(b, NewBatchFrame(batch, 1, 0), &BatchFrame{}).Read(knownTable); err != nil {
			b.Fatal(err)
		}
		if _, err := roundTrip(b, NewResultsFrame(1, part), &ResultsFrame{}).Read(); err != nil {
			b.Fatal(err)
		}
	}
}
