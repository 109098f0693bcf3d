package spans

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// RequestedPerSecond is how many requests a second are recorded because their clients ask for it (sampled traceparent).
const RequestedPerSecond = 10

// Limits of what waits for the collector, and of the wait for it.
const (
	maxQueue    = 4096             // ended spans
	maxBatch    = 512              // spans in one request
	flushAfter  = 2 * time.Second  // how long an ended span may wait for others
	sendTimeout = 10 * time.Second // of one request
	minPause    = time.Second      // after a failed request; doubled up to maxPause
	maxPause    = 30 * time.Second
	lastSend    = 3 * time.Second // for what is left when Run ends
	logInterval = time.Minute     // between two warnings
)

// Config configures a Tracer. Endpoint is required.
type Config struct {
	Endpoint string  // base URL of the collector; /v1/traces is appended
	Sample   float64 // the part of the traces that is recorded: 0 to 1
	Version  string  // of the program
	Node     string  // name of this process in its cluster; empty for none

	Transport http.RoundTripper     // default: one of our own
	Log       *slog.Logger          // default: none
	Metrics   prometheus.Registerer // default: none
}

// Tracer makes spans and sends them to a collector. A nil Tracer makes none.
type Tracer struct {
	url       string
	sample    float64
	resource  []attribute
	client    http.Client
	log       *slog.Logger
	queue     chan *Span
	requested *rate.Limiter

	sent, dropped prometheus.Counter
	nextWarning   time.Time // only Run uses it
}

// New makes a Tracer. It starts nothing.
func New(cfg Config) (*Tracer, error) {
	base, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	transport := cfg.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxConnsPerHost = 1
		transport = own
	}
	t := &Tracer{url: base.JoinPath("v1/traces").String(), sample: cfg.Sample, queue: make(chan *Span, maxQueue),
		resource: []attribute{{"service.name", "probity"}, {"service.version", cmp.Or(cfg.Version, "unknown")}},
		log:      cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)),
		client: http.Client{Transport: transport, Timeout: sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		requested: rate.NewLimiter(RequestedPerSecond, RequestedPerSecond),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "probity_spans_sent_total",
			Help: "Spans that the collector has taken."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "probity_spans_dropped_total",
			Help: "Spans that the collector has not got: it was too slow, unreachable, or refused them."}),
	}
	if cfg.Node != "" {
		t.resource = append(t.resource, attribute{"service.instance.id", cfg.Node})
	}
	if cfg.Metrics != nil {
		err = errors.Join(cfg.Metrics.Register(t.sent), cfg.Metrics.Register(t.dropped))
	}
	return t, err
}

// Start begins a span for a client whose traceparent names parent, or none. It returns nil if the span is not recorded:
// a client's own choice counts, up to RequestedPerSecond, and without one Config.Sample does.
func (t *Tracer) Start(parent Place, name string, kind Kind, start time.Time) *Span {
	switch {
	case t == nil:
		return nil
	case parent == Place{}:
		if rand.Float64() >= t.sample {
			return nil
		}
		for parent.trace == [16]byte{} {
			binary.BigEndian.PutUint64(parent.trace[:8], rand.Uint64())
			binary.BigEndian.PutUint64(parent.trace[8:], rand.Uint64())
		}
	case !parent.sampled() || !t.requested.Allow():
		return nil
	}
	return newSpan(t, parent, name, kind, start)
}

// Continue begins a span of a trace that another process of ours has chosen to record; nil if it has not.
func (t *Tracer) Continue(parent Place, name string, kind Kind, start time.Time) *Span {
	if t == nil || !parent.sampled() {
		return nil
	}
	return newSpan(t, parent, name, kind, start)
}

func (t *Tracer) enqueue(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.dropped.Inc()
	}
}

// Run sends ended spans until ctx ends, and then what is left, for at most lastSend.
func (t *Tracer) Run(ctx context.Context) {
	pause := minPause
	for {
		batch := t.collect(ctx)
		if ctx.Err() != nil {
			t.sendLast(ctx, batch)
			return
		}
		for ctx.Err() == nil {
			again, err := t.send(ctx, batch)
			if err == nil || !again {
				t.finish(len(batch), err)
				pause, batch = minPause, nil
				break
			}
			if ctx.Err() == nil {
				t.warn(err)
			}
			wait(ctx, pause)
			pause = min(2*pause, maxPause)
		}
		if len(batch) > 0 {
			t.sendLast(ctx, batch)
			return
		}
	}
}

// collect waits for spans until a batch is full, the first has waited for flushAfter, or ctx ends.
func (t *Tracer) collect(ctx context.Context) (batch []*Span) {
	var flush <-chan time.Time
	for len(batch) < maxBatch {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
			if flush == nil {
				timer := time.NewTimer(flushAfter)
				defer timer.Stop()
				flush = timer.C
			}
		case <-flush:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// sendLast sends a batch and all that waits, each once, for at most lastSend. What is left then is dropped.
func (t *Tracer) sendLast(ctx context.Context, batch []*Span) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), lastSend)
	defer done()
	for {
		for len(batch) < maxBatch && len(t.queue) > 0 {
			batch = append(batch, <-t.queue)
		}
		if len(batch) == 0 {
			return
		}
		err := ctx.Err()
		if err == nil {
			_, err = t.send(ctx, batch)
		}
		t.finish(len(batch), err)
		batch = batch[:0]
	}
}

// finish counts the spans of a batch that was sent, or that err has ended.
func (t *Tracer) finish(n int, err error) {
	if err == nil {
		t.sent.Add(float64(n))
		return
	}
	t.dropped.Add(float64(n))
	t.warn(err)
}

// warn logs at most once a logInterval.
func (t *Tracer) warn(err error) {
	now := time.Now()
	if now.Before(t.nextWarning) {
		return
	}
	t.nextWarning = now.Add(logInterval)
	t.log.Warn("the collector of spans does not take them; see probity_spans_dropped_total", "url", t.url,
		"error", err)
}

// send sends a batch. again: it may succeed later.
func (t *Tracer) send(ctx context.Context, batch []*Span) (again bool, err error) {
	body, err := encode(t.resource, batch)
	if err != nil {
		return false, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := t.client.Do(q)
	if err != nil {
		return true, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, errors.New(answer.Status)
	}
	if answer.StatusCode/100 != 2 {
		return false, errors.New(answer.Status)
	}
	return true, err
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
