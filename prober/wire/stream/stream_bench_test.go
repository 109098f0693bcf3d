package stream

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"probity/engine"
	"probity/prober/wire"
)

// instantProber settles a batch at once, in parts as a prober does.
type instantProber struct{}

func (instantProber) Verify(_ context.Context, b *wire.Batch, _ time.Duration, emit func(wire.Results)) error {
	const part = 512
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "generic/no-mailbox", 0, time.Unix(1, 0))
	for from := 0; from < len(b.Rows); from += part {
		to := min(from+part, len(b.Rows))
		rows := make([]wire.Result, 0, part)
		for i := from; i < to; i++ {
			rows = append(rows, wire.Result{Row: b.Rows[i].Number, Egress: "192.0.2.1", Verdict: v})
		}
		emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Rows: rows, Done: to == len(b.Rows)})
	}
	return nil
}

func (instantProber) Single(context.Context, wire.SingleRequest) (wire.Answer, error) {
	return wire.Answer{}, nil
}

// Per row, both sides on this machine, through gRPC in memory.
func BenchmarkRowOverTheStream(b *testing.B) {
	network := newFlakyNetwork()
	table := func() *engine.Table { return defaultTable }
	server, err := NewServer(ServerConfig{Node: "n1", Table: defaultTable, Prober: instantProber{},
		Credentials: insecure.NewCredentials(),
		Window:      func(string) int { return 8 * wire.MaxRows }})
	if err != nil {
		b.Fatal(err)
	}
	attached := make(chan struct{})
	var once sync.Once
	client, err := NewClient(ClientConfig{Node: "n1", Coordinator: wire.Coordinator{ID: "c1", Term: 1}, Table: table,
		Dial: network.dial, Credentials: insecure.NewCredentials(),
		Changed: func(s State) {
			if s.Usable {
				once.Do(func() { close(attached) })
			}
		}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = server.Run(ctx, network.listener) })
	work.Go(func() { _ = client.Run(ctx) })
	<-attached
	batch := testBatch(1, "tail", wire.MaxRows)
	b.ResetTimer()
	b.ReportAllocs()
	for i := 0; i < b.N; i += 2 * wire.MaxRows {
		var pair sync.WaitGroup
		for range 2 {
			pair.Go(func() {
				if err := client.Verify(ctx, batch, time.Minute, func(wire.Results) {}); err != nil {
					b.Error(err)
				}
			})
		}
		pair.Wait()
	}
	b.StopTimer()
	stop()
	work.Wait()
}
