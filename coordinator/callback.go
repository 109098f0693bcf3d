package coordinator

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"code.dny.dev/ssrf"
	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"

	"probity/store"
)

// The bounds of all deliveries together.
const (
	defaultSending    = 16          // attempts under way
	defaultPerHost    = 2           // of these, to one host
	defaultPerAccount = 4           // and for one account: many names for one slow receiver do not keep others waiting
	callbackPoll      = time.Second // how long what became due may go unnoticed
)

// ResultSource gives the results of a finished job; Coordinator is one. The same job gives the same bytes each time.
type ResultSource interface {
	// WriteResults writes one JSON object, in one line, for each input row. It ends with the first error of w.
	WriteResults(ctx context.Context, job string, w io.Writer) error
	// DropResults lets go of what is kept between attempts; it is called when no attempt is due any more.
	DropResults(job string) error
}

// CallbackDial opens a TCP connection from a local address (the zero value: any) to an address and port, never a name.
type CallbackDial func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error)

// CallbackConfig is all that Callbacks are given. Store, Results, Record, PublicURL, Dial and Lookup are needed.
type CallbackConfig struct {
	Store   *store.Store
	Results ResultSource
	// Record is the job record as the interface shows it, a JSON object.
	Record    func(*store.Job, store.Callback) ([]byte, error)
	PublicURL string // where the interface is reached from outside, such as https://verify.example.com
	Dial      CallbackDial
	Lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	Source    netip.Addr            // callbacks leave from here; the zero value leaves it to the system
	Allow     []netip.Prefix        // private networks that callbacks may reach: tests and intranets
	RootCAs   *x509.CertPool        // default: the system's
	Log       *slog.Logger          // default: none
	Metrics   prometheus.Registerer // default: none

	Sending, PerHost, PerAccount int // attempts at one time: 16, 2, 4
}

// Callbacks deliver the one event of a job that has finished, bulk.finished, to the URL that its sender gave.
//
//  1. At least once: the event is scheduled in the commit that ends the job, and is due until a recorded attempt says
//     otherwise. An attempt that a crash or a stop cut short was not made.
//  2. What is written is never more than two small buffers ahead of what the receiver has taken: the body is as long as
//     the job, our memory is not.
//  3. The address that is dialled is the one that was checked. No redirect leads elsewhere.
//  4. A receiver holds up only itself: attempts are bounded over all, by host and by account, and each in time.
type Callbacks struct {
	cfg     CallbackConfig
	base    *url.URL
	guard   *ssrf.Guardian
	linkKey []byte
	log     *slog.Logger
	metrics callbackMetrics
	wake    chan struct{}

	mu         sync.Mutex // guards all below
	inProgress map[string]bool
	load       map[string]int // attempts under way by host and by account

	nextPage store.DueCursor // where the next look begins; Run's alone
}

// NewCallbacks checks the configuration and reads the key of signed links from the store. It starts nothing.
func NewCallbacks(cfg CallbackConfig) (*Callbacks, error) {
	if cfg.Store == nil || cfg.Results == nil || cfg.Record == nil || cfg.Dial == nil || cfg.Lookup == nil {
		return nil, errors.New("callbacks: Store, Results, Record, Dial and Lookup are needed")
	}
	base, err := url.Parse(cfg.PublicURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("callbacks: public URL %q: want one like https://verify.example.com", cfg.PublicURL)
	}
	key, err := cfg.Store.Secret("callback links")
	if err != nil {
		return nil, fmt.Errorf("callbacks: %w", err)
	}
	cfg = cfg.withDefaults()
	c := &Callbacks{
		cfg: cfg, base: base, guard: callbackGuard(cfg.Allow), linkKey: key, log: cfg.Log,
		wake: make(chan struct{}, 1), inProgress: map[string]bool{}, load: map[string]int{},
	}
	c.metrics, err = newCallbackMetrics(cfg.Metrics)
	return c, err
}

func (cfg CallbackConfig) withDefaults() CallbackConfig {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Sending <= 0 {
		cfg.Sending = defaultSending
	}
	if cfg.PerHost <= 0 {
		cfg.PerHost = defaultPerHost
	}
	if cfg.PerAccount <= 0 {
		cfg.PerAccount = defaultPerAccount
	}
	return cfg
}

// CallbackPart is the part of the commit that ends a job which makes its callback due, if it has one. Doing it again
// changes nothing.
func CallbackPart(j *store.Job) store.Part {
	if j.CallbackURL == "" {
		return func(*pebble.Batch) error { return nil }
	}
	at := j.FinishedAt
	if at.IsZero() {
		at = time.Now()
	}
	return store.ScheduleCallback(j.Account, j.ID, at)
}

// Resend makes a job's callback due again now, whatever became of it, with the whole schedule before it.
// A job without a callback is store.ErrNoCallback.
func (c *Callbacks) Resend(job string) (store.Callback, error) {
	cb, err := c.cfg.Store.ResendCallback(job, time.Now())
	c.Notify()
	return cb, err
}

// Notify makes Run look for due callbacks at once; it looks each second by itself.
func (c *Callbacks) Notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run delivers what is due until ctx ends or the store fails; it returns when all its attempts have. An attempt that
// ctx cuts short is made again after the next start.
func (c *Callbacks) Run(ctx context.Context) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	tick := time.NewTicker(callbackPoll)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := c.sendDue(ctx, &all, stop); err != nil {
			stop(err)
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-tick.C:
		}
	}
	stop(nil)
	all.Wait()
	if outer.Err() != nil {
		return nil
	}
	return fmt.Errorf("callbacks: %w", context.Cause(ctx))
}

// sendDue begins an attempt for what is due, as far as the bounds allow. Each look takes a page, from the longest due on,
// and the next goes on behind it: any number that wait for one host hide what is due behind them for no longer than it
// takes to turn their pages.
func (c *Callbacks) sendDue(ctx context.Context, all *sync.WaitGroup, stop context.CancelCauseFunc) error {
	if c.full() {
		return nil
	}
	due, next, err := c.cfg.Store.DueCallbacks(time.Now(), c.nextPage, store.MaxPage)
	if err != nil {
		return err
	}
	for i := range due {
		if c.full() {
			return nil // and look at this page again
		}
		d, err := c.reserveDelivery(due[i].Job)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		all.Go(func() {
			defer c.release(d)
			if err := c.deliver(ctx, d); err != nil {
				stop(err)
			}
		})
	}
	c.nextPage = next
	return nil
}

// delivery is one attempt to be made.
type delivery struct {
	store.Callback
	job     *store.Job
	target  *callbackTarget // nil: the URL is not acceptable, says refused
	refused error
	keys    [2]string // that its load counts under
}

// reserveDelivery takes the place of an attempt, nil if it must wait or is not due any more. What it judges is read after the
// place was taken: the list of what is due may be older than the end of the attempt before.
func (c *Callbacks) reserveDelivery(job string) (*delivery, error) {
	if !c.reserve(job) {
		return nil, nil
	}
	d, err := c.loadDelivery(job)
	if d == nil || err != nil {
		c.unreserve(job)
		return nil, err
	}
	if !c.admit(d) {
		c.unreserve(job)
		return nil, nil
	}
	return d, nil
}

// loadDelivery reads what an attempt needs, nil if none is due. The callback of a job that is gone goes too.
func (c *Callbacks) loadDelivery(job string) (*delivery, error) {
	cb, err := c.cfg.Store.Callback(job)
	if errors.Is(err, store.ErrNoCallback) {
		return nil, nil
	}
	if err != nil || cb.State != store.CallbackPending || cb.Next.After(time.Now()) {
		return nil, err
	}
	j, err := c.cfg.Store.Job(job)
	if errors.Is(err, store.ErrNotFound) {
		return nil, c.cfg.Store.Commit(cb.Account, store.DropCallback(job))
	}
	if err != nil {
		return nil, err
	}
	d := &delivery{Callback: cb, job: j}
	d.keys[0] = "account " + cb.Account
	if d.target, d.refused = c.parseTarget(j.CallbackURL); d.refused == nil {
		d.keys[1] = "host " + d.target.host
	}
	return d, nil
}

func (c *Callbacks) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inProgress) >= c.cfg.Sending
}

// reserve reserves a job's only attempt.
func (c *Callbacks) reserve(job string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inProgress[job] || len(c.inProgress) >= c.cfg.Sending {
		return false
	}
	c.inProgress[job] = true
	return true
}

func (c *Callbacks) unreserve(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inProgress, job)
}

// admit counts an attempt under its host and account, if both have room.
func (c *Callbacks) admit(d *delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.load[d.keys[0]] >= c.cfg.PerAccount || c.load[d.keys[1]] >= c.cfg.PerHost {
		return false
	}
	for _, k := range d.keys {
		c.load[k]++
	}
	return true
}

func (c *Callbacks) release(d *delivery) {
	c.unreserve(d.Job)
	c.mu.Lock()
	for _, k := range d.keys {
		if c.load[k]--; c.load[k] == 0 {
			delete(c.load, k)
		}
	}
	c.mu.Unlock()
	c.Notify()
}
