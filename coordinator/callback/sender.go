package callback

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"probity/coordinator/outward"
	"probity/internal/spans"
	"probity/store"
)

// Limits of all deliveries together.
const (
	defaultSending = 16 // attempts in progress
	defaultPerHost = 2  // of these, to one host
	// of these, for one account: one slow receiver with many names does not delay others
	defaultPerAccount = 4
	pollInterval      = time.Second // interval of looking for due callbacks
)

// ResultSource writes the results of a finished job; coordinator.Coordinator is one. The bytes of a job are the same
// each time.
type ResultSource interface {
	// WriteResults writes one JSON object, in one line, for each input row. It ends with the first error of w.
	WriteResults(ctx context.Context, job string, w io.Writer) error
	// DropResults deletes what is kept between attempts; it is called when no attempt is due any more.
	DropResults(job string) error
}

// Config configures a Sender. Store, Results, Record, PublicURL and Dialer are required.
type Config struct {
	Store   *store.Store
	Results ResultSource
	// Record returns the job record as the API shows it, a JSON object.
	Record func(*store.Job, store.Callback) ([]byte, error)
	// Single returns the callback of a single call, nil if it is gone; a nil func: there are none.
	Single    func(request string) (*SingleEvent, error)
	PublicURL string // where the API is reached from outside, such as https://verify.example.com
	Dialer    *outward.Dialer
	RootCAs   *x509.CertPool        // default: the system's
	Log       *slog.Logger          // default: none
	Metrics   prometheus.Registerer // default: none
	Tracer    *spans.Tracer         // default: no spans are recorded

	Sending, PerHost, PerAccount int // attempts at one time: 16, 2, 4
}

// Sender delivers the event bulk.finished of each finished job, and single.finished of single calls that are answered
// later, to their callback URLs.
type Sender struct {
	cfg      Config
	slots    *attemptSlots
	metrics  metrics
	wake     chan struct{}
	nextPage store.DueCursor // where sendDue reads next; only Run uses it

	publicURL *url.URL // begins the signed links to results
	linkKey   []byte   // signs them
}

// New checks the configuration and reads the key of signed links from the store. It starts nothing.
func New(cfg Config) (*Sender, error) {
	if cfg.Store == nil || cfg.Results == nil || cfg.Record == nil || cfg.Dialer == nil {
		return nil, errors.New("callbacks: Store, Results, Record and Dialer are needed")
	}
	base, err := url.Parse(cfg.PublicURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("callbacks: public URL %q: want one like https://verify.example.com", cfg.PublicURL)
	}
	key, err := cfg.Store.Secret("callback links")
	if err != nil {
		return nil, fmt.Errorf("callbacks: %w", err)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Sending = cmp.Or(max(0, cfg.Sending), defaultSending)
	cfg.PerHost = cmp.Or(max(0, cfg.PerHost), defaultPerHost)
	cfg.PerAccount = cmp.Or(max(0, cfg.PerAccount), defaultPerAccount)
	return &Sender{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), publicURL: base, linkKey: key, wake: make(chan struct{}, 1),
		slots: &attemptSlots{total: cfg.Sending, perHost: cfg.PerHost, perAccount: cfg.PerAccount,
			inProgress: map[string]bool{}, load: map[string]int{}},
	}, nil
}

// Schedule is the part of the commit that ends a job which makes its callback due, if it has one. It is idempotent.
func Schedule(j *store.Job) store.Part {
	if j.CallbackURL == "" {
		return func(*pebble.Batch) error { return nil }
	}
	at := j.FinishedAt
	if at.IsZero() {
		at = time.Now()
	}
	return store.ScheduleCallback(j.Account, j.ID, at)
}

// Resend makes a job's callback due now, whatever its state, and starts the retry schedule again.
// For a job without a callback it returns store.ErrNoCallback.
func (s *Sender) Resend(job string) (store.Callback, error) {
	cb, err := s.cfg.Store.ResendCallback(job, time.Now())
	s.Notify()
	return cb, err
}

// Notify makes Run look for due callbacks at once; without it Run looks each second.
func (s *Sender) Notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run delivers due callbacks until ctx ends or the store fails; it returns after all its attempts have. An attempt that
// ctx interrupts is made again after the next start.
func (s *Sender) Run(ctx context.Context) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := s.sendDue(ctx, &all, stop); err != nil {
			stop(err)
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
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

// sendDue starts attempts for due callbacks within the limits. Each call reads one page, the longest due first, and the
// next call goes on after it. So callbacks that wait for one host delay those behind them only by the reading of their
// pages.
func (s *Sender) sendDue(ctx context.Context, all *sync.WaitGroup, stop context.CancelCauseFunc) error {
	if s.slots.full() || s.cfg.Store.Full() != nil { // an attempt that cannot be recorded would be made again and again
		return nil
	}
	due, next, err := s.cfg.Store.DueCallbacks(time.Now(), s.nextPage, store.MaxPage)
	if err != nil {
		return err
	}
	for i := range due {
		if s.slots.full() {
			return nil // the next call reads this page again
		}
		if s.slots.has(due[i].Job) {
			continue
		}
		// The callback is read now, when its previous attempt has ended: the page of due callbacks may be older than
		// that.
		d, err := s.loadDelivery(due[i].Job)
		if err != nil {
			return err
		}
		if d == nil || !s.slots.reserve(d.Job, d.keys) {
			continue
		}
		all.Go(func() {
			defer s.Notify()
			defer s.slots.release(d.Job, d.keys)
			if err := s.deliver(ctx, d); err != nil && !vfs.IsNoSpaceError(err) {
				stop(err)
			}
		})
	}
	s.nextPage = next
	return nil
}

// SingleEvent is the callback of a single call.
type SingleEvent struct {
	URL         string
	Traceparent string // of the request; "": none
	Body        []byte // a JSON object
}

// delivery is one attempt to be made.
type delivery struct {
	store.Callback
	job     *store.Job      // nil for a single call
	single  []byte          // the body of a single call
	trace   string          // the traceparent of the request; "": none
	target  *outward.Target // nil: the URL was refused, with the error refused
	refused error
	keys    slotKeys
}

// loadContent reads what a callback is about, and returns its URL; false if that is gone.
func (s *Sender) loadContent(d *delivery) (target string, ok bool, err error) {
	if d.Single {
		if s.cfg.Single == nil {
			return "", false, nil
		}
		event, err := s.cfg.Single(d.Job)
		if err != nil || event == nil {
			return "", false, err
		}
		d.single, d.trace = event.Body, event.Traceparent
		return event.URL, true, nil
	}
	d.job, err = s.cfg.Store.Job(d.Job)
	if errors.Is(err, store.ErrNotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	d.trace = d.job.Traceparent
	return d.job.CallbackURL, true, nil
}

// loadDelivery reads what an attempt needs; nil if none is due. It drops the callback of a job that is gone.
func (s *Sender) loadDelivery(job string) (*delivery, error) {
	cb, err := s.cfg.Store.Callback(job)
	if errors.Is(err, store.ErrNoCallback) {
		return nil, nil
	}
	if err != nil || cb.State != store.CallbackPending || cb.Next.After(time.Now()) {
		return nil, err
	}
	d := &delivery{Callback: cb}
	target, ok, err := s.loadContent(d)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.cfg.Store.Commit(cb.Account, store.DropCallback(job))
	}
	d.keys[0] = "account " + cb.Account
	d.target, d.refused = s.parseTarget(target)
	if d.refused == nil {
		d.keys[1] = "host " + d.target.Host
	}
	return d, nil
}
