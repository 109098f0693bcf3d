package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// fakeDNS answers by the domain's name: nx… does not exist, fail… cannot be resolved, null… takes no mail,
// slow… takes a second, all others have two hosts.
type fakeDNS struct {
	table *engine.Table
	delay time.Duration
	dead  atomic.Bool // every lookup fails
	mu    sync.Mutex
	asked map[string]int
}

func (d *fakeDNS) Route(ctx context.Context, domain string) engine.Route {
	d.mu.Lock()
	d.asked[domain]++
	d.mu.Unlock()
	delay := d.delay
	if strings.HasPrefix(domain, "slow") {
		delay = time.Second
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	switch {
	case d.dead.Load():
		return d.table.NoRoute(engine.FactServFail)
	case strings.HasPrefix(domain, "nx"):
		return d.table.NoRoute(engine.FactNoDomain)
	case strings.HasPrefix(domain, "fail"):
		return d.table.NoRoute(engine.FactServFail)
	case strings.HasPrefix(domain, "null"):
		return d.table.NewRoute([]engine.MX{{Host: "."}})
	case strings.HasPrefix(domain, "hosted"):
		host := strings.ReplaceAll(domain, ".", "-") + ".mail.protection.outlook.com"
		return d.table.NewRoute([]engine.MX{{Host: host}})
	case domain == "gmail.com":
		return d.table.NewRoute([]engine.MX{{Preference: 5, Host: "gmail-smtp-in.l.google.com"}})
	}
	return d.table.NewRoute([]engine.MX{{Preference: 10, Host: "mx1." + domain},
		{Preference: 20, Host: "mx2." + domain}})
}

// CachedRoute finds nothing: every lookup takes a Route.
func (*fakeDNS) CachedRoute(string) (engine.Route, bool) { return engine.Route{}, false }

type fakeLists struct{}

func (fakeLists) Flags(a engine.Address) engine.Flags {
	if a.Local() == "info" {
		return engine.FlagRole
	}
	return 0
}

func (fakeLists) Suggest(a engine.Address) string {
	if a.Domain() == "nxgmial.com" {
		return a.Local() + "@gmail.com"
	}
	return ""
}

// fakeProber answers each row by its address alone; outcome may defer or return the row first.
type fakeProber struct {
	outcome func(b *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration)
	part    int // rows of one Results; 0: all at once
	// onAsk is called with every row that is sent.
	onAsk func(row uint32)

	mu      sync.Mutex
	settled map[uint32]int // by row: how often it was settled
	asked   int
	open    int
	maxOpen int // rows open at one time
}

var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func fakeVerdict(a engine.Address) engine.Verdict {
	return fakeVerdictAt(int(xxh3.HashString(a.Folded()) % fakeReasons))
}

// fakeReasons is how many verdicts fakeVerdictAt has. One of them is a refusal.
const fakeReasons = 5

// fakeVerdictAt returns one verdict after the other.
func fakeVerdictAt(i int) engine.Verdict {
	reasons := [fakeReasons]engine.Reason{engine.ReasonNone, engine.ReasonMailboxNotFound, engine.ReasonCatchAll,
		engine.ReasonTimeout, engine.ReasonNone}
	r := reasons[i%fakeReasons]
	v := engine.VerdictFor(r, "fake/rule", 0, epoch)
	v.ProviderName, v.SMTPValid = "other", r == engine.ReasonNone
	return v
}

func (p *fakeProber) Verify(ctx context.Context, b *wire.Batch, _ time.Duration, emit func(wire.Results)) error {
	p.mu.Lock()
	p.asked += len(b.Rows)
	p.open += len(b.Rows)
	p.maxOpen = max(p.maxOpen, p.open)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.open -= len(b.Rows)
		p.mu.Unlock()
	}()
	part := p.part
	if part == 0 {
		part = len(b.Rows)
	}
	out := make([]wire.Result, 0, part)
	for i := range b.Rows {
		out = append(out, p.result(ctx, b, &b.Rows[i]))
		if len(out) == part || i == len(b.Rows)-1 {
			emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Rows: out, Done: i == len(b.Rows)-1})
			out = out[:0]
		}
	}
	return ctx.Err()
}

func (p *fakeProber) result(ctx context.Context, b *wire.Batch, r *wire.Row) wire.Result {
	res := wire.Result{Row: r.Number, Attempt: r.Attempt, Egress: b.EgressOf(r)}
	if p.onAsk != nil {
		p.onAsk(r.Number)
	}
	if ctx.Err() != nil {
		res.Outcome = wire.Returned
		return res
	}
	if p.outcome != nil {
		var wait time.Duration
		res.Outcome, wait = p.outcome(b, r)
		if res.Outcome != wire.Settled {
			if wait > 0 {
				res.Due = time.Now().Add(wait)
			}
			if res.Outcome == wire.Deferred {
				res.Attempt, res.Egress = r.Attempt+1, "e1"
				res.Verdict = engine.VerdictFor(engine.ReasonGreylisted, "fake/grey", 0, epoch)
			}
			return res
		}
	}
	if p.settled != nil {
		p.mu.Lock()
		p.settled[r.Number]++
		p.mu.Unlock()
	}
	res.Verdict = fakeVerdict(r.Address)
	return res
}

func (p *fakeProber) Single(_ context.Context, a wire.SingleRequest) (wire.Answer, error) {
	return wire.Answer{Verdict: fakeVerdict(a.Address), Node: "fake"}, nil
}

// testEnv is a coordinator with a fake resolver and prober, and its disk.
type testEnv struct {
	fs     vfs.FS
	store  *store.Store
	dns    *fakeDNS
	prober *fakeProber
	c      *Coordinator
	ended  chan error
	stop   context.CancelFunc
}

func newTestEnv(t testing.TB, fs vfs.FS, set ...func(*testEnv, *Config)) *testEnv {
	t.Helper()
	w := &testEnv{fs: fs, dns: &fakeDNS{table: engine.DefaultTable(), asked: map[string]int{}},
		prober: &fakeProber{settled: map[uint32]int{}}}
	var err error // the store makes the folder durable
	w.store, err = store.Open(fs, "data/state")
	require.NoError(t, err)
	cfg := Config{Store: w.store, FS: fs, Dir: "data", Resolver: w.dns, Prober: w.prober, Table: engine.DefaultTable(),
		Lists: fakeLists{}}
	for _, s := range set {
		s(w, &cfg)
	}
	w.c = New(cfg)
	return w
}

func (w *testEnv) run() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, make(chan error, 1)
	go func() { w.ended <- w.c.Run(ctx) }()
}

// close ends Run and returns its error.
func (w *testEnv) close(t testing.TB) error {
	var err error
	if w.stop != nil {
		w.stop()
		err = <-w.ended
	}
	require.NoError(t, w.store.Close())
	return err
}

func (w *testEnv) accept(t testing.TB, csv string) *store.Job {
	t.Helper()
	j, err := w.c.Accept(context.Background(), ingest.Upload{Body: strings.NewReader(csv)})
	require.NoError(t, err)
	return j
}

func (w *testEnv) finish(t testing.TB, id string) *store.Job {
	t.Helper()
	ctx, stop := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("stuck"))
	defer stop()
	go func() {
		select {
		case err := <-w.ended:
			t.Errorf("the coordinator ended: %v", err)
			w.ended <- err
			stop()
		case <-ctx.Done():
		}
	}()
	j, err := w.c.Wait(ctx, id)
	require.NoError(t, err)
	return j
}

func (w *testEnv) results(t testing.TB, id string, f results.Filter) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, w.c.Results(context.Background(), id, f, &b))
	return b.String()
}

// readWhole reads a file.
func readWhole(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// uploadOf returns the path of a job's upload.
func (w *testEnv) uploadOf(t testing.TB, id string) string {
	t.Helper()
	j, err := w.c.Job(id)
	require.NoError(t, err)
	return w.fs.PathJoin(w.c.files.Path(id), j.Upload)
}

// testCSV is a list of n rows of all kinds: wide and narrow routes, duplicates, blanks, junk.
func testCSV(n int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString("id,email,note\n")
	for i := range n {
		mail := fmt.Sprintf("u%d@d%d.example", i, rng.IntN(50+n/20))
		switch rng.IntN(20) {
		case 0:
			mail = ""
		case 1:
			mail = fmt.Sprintf("not an address %d", i)
		case 2:
			mail = fmt.Sprintf("U%d@D1.example", rng.IntN(20))
		case 3, 4, 5:
			mail = fmt.Sprintf("g%d@gmail.com", rng.IntN(n))
		case 6:
			mail = fmt.Sprintf("x%d@nx%d.example", i, rng.IntN(9))
		case 7:
			mail = fmt.Sprintf("x%d@busy.example", i)
		case 8:
			mail = fmt.Sprintf("info@null%d.example", i)
		}
		fmt.Fprintf(&b, "%d,%s,\"n %d\"\n", i, mail, i%7)
	}
	return b.String()
}

// failingReader is a body that fails at its end.
type failingReader struct {
	io.Reader
	err error
}

func (f failingReader) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = f.err
	}
	return n, err
}

func failingPart(err error) store.Part { return func(*pebble.Batch) error { return err } }

// ownColumns is how many columns a result has more than its list.
const ownColumns = 14
