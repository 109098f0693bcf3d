package spans

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/internal/spans/collector"
)

// run runs a tracer until end is called.
func run(t *Tracer) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run(ctx)
	}()
	return func() {
		stop()
		<-ended
	}
}

func newTestTracer(t *testing.T, cfg Config) *Tracer {
	if cfg.Endpoint == "" {
		cfg.Endpoint = "http://collector.test:4318"
	}
	tracer, err := New(cfg)
	require.NoError(t, err)
	return tracer
}

// TestSpansReachTheCollector exports spans to a web server: when the tracer ends, all of them are there.
func TestSpansReachTheCollector(t *testing.T) {
	var into collector.Collector
	server := httptest.NewServer(&into)
	defer server.Close()
	tracer := newTestTracer(t, Config{Endpoint: server.URL + "/", Sample: 1, Version: "1.2", Node: "p1"})
	end := run(tracer)
	began := time.Unix(1_800_000_000, 123)
	s := tracer.Start(Place{}, "HTTP", Server, began)
	s.Rename("GET /x")
	s.Text("text", "a\"b")
	s.Text("empty", "")
	s.Number("number", -7)
	s.Bool("yes", true)
	s.Event("never", time.Time{})
	s.Event("half", began.Add(time.Second))
	child := s.Child("part", Client, began.Add(time.Second))
	child.Fail()
	child.End(began) // the clock was set back
	s.End(began.Add(2 * time.Second))
	end()

	got := into.Spans()
	require.Len(t, got, 2)
	require.Equal(t, got[1].ID, got[0].Parent)
	require.Equal(t, got[1].Trace, got[0].Trace)
	require.Equal(t, "00-"+got[1].Trace+"-"+got[1].ID+"-01", s.Place().String())
	for i := range got {
		got[i].Trace, got[i].ID, got[i].Parent = "", "", ""
		got[i].Start, got[i].End = got[i].Start.UTC(), got[i].End.UTC()
	}
	began = began.UTC()
	require.Equal(t, []collector.Span{
		{Service: "probity/p1", Name: "part", Kind: 3, Start: began.Add(time.Second), End: began.Add(time.Second),
			Failed: true, Attributes: map[string]any{}},
		{Service: "probity/p1", Name: "GET /x", Kind: 2, Start: began, End: began.Add(2 * time.Second),
			Attributes: map[string]any{"text": "a\"b", "number": -7, "yes": true}, Events: []string{"half"}},
	}, got)
	require.EqualValues(t, 2, testutil.ToFloat64(tracer.sent))
	require.EqualValues(t, 0, testutil.ToFloat64(tracer.dropped))
}

// transport is a collector that cannot be used.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status),
		Body: io.NopCloser(strings.NewReader("no"))}
}

// TestDeadCollectorBlocksNothing ends ten thousand spans while no request is answered: none waits, those that find the
// queue full are counted, the log has a line a minute, and the end takes three seconds.
func TestDeadCollectorBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var requests atomic.Int64
		tracer := newTestTracer(t, Config{Sample: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Transport: transport(func(q *http.Request) (*http.Response, error) {
				requests.Add(1)
				<-q.Context().Done()
				return nil, q.Context().Err()
			})})
		end := run(tracer)
		const ended = 10_000
		began := time.Now()
		for range ended {
			tracer.Start(Place{}, "x", Server, began).End(began)
			synctest.Wait()
		}
		require.Equal(t, began, time.Now(), "no span waits")
		require.EqualValues(t, ended-maxQueue-maxBatch, testutil.ToFloat64(tracer.dropped))
		time.Sleep(5*time.Minute + 5*time.Second)
		require.LessOrEqual(t, strings.Count(log.String(), "\n"), 6)
		require.GreaterOrEqual(t, strings.Count(log.String(), "\n"), 4)
		require.Less(t, requests.Load(), int64(20), "a request that failed is made again, later and later")
		began = time.Now()
		end()
		require.Equal(t, lastSend, time.Since(began))
		require.EqualValues(t, ended, testutil.ToFloat64(tracer.dropped))
		require.EqualValues(t, 0, testutil.ToFloat64(tracer.sent))
	})
}

// TestRestartedCollectorGetsWhatWaited: what a collector could not take for now is sent again, what it refuses is not.
func TestRestartedCollectorGetsWhatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var into collector.Collector
		results := []func() (*http.Response, error){
			func() (*http.Response, error) { return nil, errors.New("connection refused") },
			func() (*http.Response, error) { return answer(http.StatusServiceUnavailable), nil },
			nil, // it takes the first
			func() (*http.Response, error) { return answer(http.StatusBadRequest), nil },
		}
		take := func(q *http.Request) (*http.Response, error) {
			next := results[0]
			results = results[1:]
			if next == nil {
				return into.RoundTrip(q)
			}
			return next()
		}
		tracer := newTestTracer(t, Config{Sample: 1, Transport: transport(take)})
		end := run(tracer)
		tracer.Start(Place{}, "first", Server, time.Now()).End(time.Now())
		time.Sleep(flushAfter + 3*minPause + time.Second)
		require.Len(t, into.Spans(), 1)
		tracer.Start(Place{}, "second", Server, time.Now()).End(time.Now())
		time.Sleep(time.Minute)
		end()
		require.Empty(t, results)
		require.Len(t, into.Spans(), 1)
		require.EqualValues(t, 1, testutil.ToFloat64(tracer.sent))
		require.EqualValues(t, 1, testutil.ToFloat64(tracer.dropped))
	})
}

// TestSamplingIsBounded: a client's traceparent decides, but only so many a second can make spans, and a node of ours
// is trusted.
func TestSamplingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := ParsePlace(exampleTraceparent)
		silent := ParsePlace(strings.TrimSuffix(exampleTraceparent, "1") + "0")
		count := func(start func(Place, string, Kind, time.Time) *Span, parent Place) (n int) {
			for range 10_000 {
				if start(parent, "x", Server, time.Now()) != nil {
					n++
				}
			}
			return n
		}
		some := newTestTracer(t, Config{Sample: 0.1})
		require.InDelta(t, 1000, count(some.Start, Place{}), 200)
		require.Zero(t, count(some.Start, silent))
		require.Equal(t, RequestedPerSecond, count(some.Start, client))
		require.Zero(t, count(some.Start, client))
		time.Sleep(time.Minute)
		require.Equal(t, RequestedPerSecond, count(some.Start, client))

		all, none := newTestTracer(t, Config{Sample: 1}), newTestTracer(t, Config{})
		require.Equal(t, 10_000, count(all.Start, Place{}))
		require.Zero(t, count(all.Start, silent))
		require.Zero(t, count(none.Start, Place{}))
		require.Equal(t, 10_000, count(none.Continue, client))
		require.Zero(t, count(none.Continue, silent))
		require.Zero(t, count(none.Continue, Place{}))
	})
}

// TestNothingIsAllocatedWithoutATracer: that is the default.
func TestNothingIsAllocatedWithoutATracer(t *testing.T) {
	var off *Tracer
	ctx, now := t.Context(), time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s := off.Start(Place{}, "x", Server, now)
		in := With(ctx, s)
		child := From(in).Child("y", Client, now)
		child.Text("a", "b")
		child.Number("a", 1000)
		child.Bool("a", true)
		child.Event("a", now)
		child.Fail()
		child.End(now)
		s.Rename("z")
		s.End(now)
		if s.Place().String() != "" || off.Continue(s.Place(), "x", Server, now) != nil {
			t.Error("a span was made")
		}
	}))
}
