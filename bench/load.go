package bench

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"probity/bench/process"
	"probity/bench/report"
)

// load is a stream of POST requests over persistent connections.
type load struct {
	name        string
	url         string
	keys        []string // taken in turn
	bodies      [][]byte // taken in turn
	connections int
	requests    int           // 0: until duration has passed
	duration    time.Duration // 0: until the requests are done
	// rate is how many requests are due in a second. With 0 each connection sends when it has its answer (closed loop).
	// With a rate, latency counts from the time when the request was due, so that a stalled server shows.
	rate int
}

// loadCount is the result of a load.
type loadCount struct {
	report.Histogram
	Errors  int // answers other than 200, and missing answers
	Elapsed time.Duration
	CPU     time.Duration // of this process
}

// perSecond is the rate of answers with status 200.
func (c loadCount) perSecond() float64 { return ratio(float64(c.Total), c.Elapsed.Seconds()) }

// requestTimeout bounds one request.
const requestTimeout = 35 * time.Second

// run sends the requests.
func (l load) run(ctx context.Context) (total loadCount, err error) {
	target, err := url.Parse(l.url)
	if err != nil {
		return total, err
	}
	client := &fasthttp.HostClient{Addr: target.Host, MaxConns: l.connections, ReadTimeout: requestTimeout,
		WriteTimeout: requestTimeout}
	defer client.CloseIdleConnections()
	total.Name = l.name
	var (
		senders sync.WaitGroup
		next    atomic.Int64
		mu      sync.Mutex // guards total
	)
	start, before := time.Now(), process.OwnCPU()
	for range l.connections {
		senders.Go(func() {
			count := l.send(ctx, client, &next, start)
			mu.Lock()
			total.Merge(&count.Histogram)
			total.Errors += count.Errors
			mu.Unlock()
		})
	}
	senders.Wait()
	total.Elapsed, total.CPU = time.Since(start), process.OwnCPU()-before
	return total, ctx.Err()
}

// send runs one connection: it takes request numbers until none is left or time is up.
func (l load) send(ctx context.Context, client *fasthttp.HostClient, next *atomic.Int64,
	start time.Time) (count loadCount) {
	req, answer := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(answer)
	req.SetRequestURI(l.url)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	for ctx.Err() == nil {
		i := int(next.Add(1)) - 1
		if l.requests > 0 && i >= l.requests {
			return count
		}
		due := time.Now()
		if l.rate > 0 {
			due = start.Add(time.Duration(i) * time.Second / time.Duration(l.rate))
		}
		if l.duration > 0 && due.Sub(start) >= l.duration {
			return count
		}
		time.Sleep(time.Until(due)) // the schedule of the load, not a wait for something
		req.Header.Set("Authorization", "Bearer "+l.keys[i%len(l.keys)])
		req.SetBodyRaw(l.bodies[i%len(l.bodies)])
		if err := client.Do(req, answer); err != nil || answer.StatusCode() != fasthttp.StatusOK {
			count.Errors++
			continue
		}
		count.Add(time.Since(due))
	}
	return count
}
