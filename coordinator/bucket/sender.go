package bucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"probity/coordinator/outward"
	"probity/store"
	"probity/store/deliveries"
)

const (
	maxSending        = 4 // attempts in progress
	maxAccountSending = 2 // of these, for one account
	pollInterval      = time.Second
	sweepInterval     = time.Hour
	duePage           = 100
	tlsTimeout        = 15 * time.Second
	maxHeader         = 64 << 10 // bytes of the header of an answer
	defaultPartBytes  = 16 << 20
	stepTimeout       = 5 * time.Minute // for each request, with its part
)

// Results opens result files; coordinator.Coordinator is one.
type Results interface {
	// OpenStored opens the result file of a finished job. The record belongs to it.
	OpenStored(ctx context.Context, job string) (vfs.File, *store.Job, error)
}

// Config configures a Sender. Store, Results, Dialer, Allowed, Endpoint, Region and CredentialsFile are required.
type Config struct {
	Store    *store.Store
	Results  Results
	Dialer   *outward.Dialer
	Allowed  []Allowed
	Endpoint string // the URL of the object storage
	Region   string
	// CredentialsFile has the key, as AWS tools write it. It is read for each attempt.
	CredentialsFile string
	PartBytes       int64 // default 16 MiB
	RootCAs         *x509.CertPool
	Log             *slog.Logger          // default: none
	Metrics         prometheus.Registerer // default: none
}

// Sender delivers results.
type Sender struct {
	cfg       Config
	endpoint  *url.URL
	transport *http.Transport
	attempts  *prometheus.CounterVec
	nextPage  deliveries.Cursor // where sendDue reads next; only Run uses it

	mu      sync.Mutex
	sending map[string]bool // jobs; guarded by mu
	load    map[string]int  // of them, by account; guarded by mu
}

// New makes a Sender. An error is one of the settings. It starts nothing.
func New(cfg Config) (*Sender, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.PartBytes = cmp.Or(cfg.PartBytes, defaultPartBytes)
	s := &Sender{cfg: cfg, sending: map[string]bool{}, load: map[string]int{}}
	var err error
	s.endpoint, err = CheckEndpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" { // its client would ask the bucket
		return nil, errors.New("the object storage needs a region, such as us-east-1")
	}
	s.transport = &http.Transport{
		DialContext:            s.dial,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		DisableKeepAlives:      true, // each request dials what was checked for it
	}
	if _, err := s.client(); err != nil {
		return nil, err
	}
	s.attempts = promauto.With(cfg.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "probity_results_delivery_attempts_total",
		Help: "Attempts to deliver results to a bucket, by what became of the delivery: delivered, failed, or pending a retry.",
	}, []string{"state"})
	return s, nil
}

// CheckEndpoint parses the URL of an object storage.
func CheckEndpoint(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, fmt.Errorf("%q is not the URL of an object storage; give one like https://s3.example.com", raw)
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.User != nil:
		return nil, fmt.Errorf("%q: give scheme and host only, as in https://s3.example.com", raw)
	}
	return u, nil
}

// dial connects to the host of a request.
func (s *Sender) dial(ctx context.Context, _, hostPort string) (net.Conn, error) {
	t, err := s.cfg.Dialer.Parse("https://" + hostPort)
	if err != nil {
		return nil, &refusedHost{err}
	}
	return s.cfg.Dialer.Connect(ctx, t)
}

// client makes a client with the key that the file has now.
func (s *Sender) client() (*minio.Core, error) {
	key := credentials.NewFileAWSCredentials(s.cfg.CredentialsFile, "default")
	value, err := key.GetWithContext(nil)
	if err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return nil, fmt.Errorf("%s has no access key: write aws_access_key_id and aws_secret_access_key below [default]",
			s.cfg.CredentialsFile)
	}
	return minio.NewCore(s.endpoint.Host, &minio.Options{Creds: key, Secure: s.endpoint.Scheme == "https",
		Transport: s.transport, Region: s.cfg.Region, MaxRetries: 1}) // deliveries has the schedule of retries
}

// Check refuses a results_to that nothing would be delivered to. An empty one is good, also for a nil Sender, which
// refuses any other.
func (s *Sender) Check(email, raw string) error {
	if raw == "" {
		return nil
	}
	to, err := ParsePlace(raw)
	switch {
	case s == nil:
		err = errors.New("this server delivers no results to buckets; send the list without it")
	case err == nil && !allows(s.cfg.Allowed, email, to):
		err = fmt.Errorf("%s is not among the buckets of this account; use one that the operator allows with --results-to", to)
	case err == nil && len(objectOf(to, longestID).String()) > maxURL:
		err = fmt.Errorf("it must have at most %d bytes", maxURL-len(objectOf(Place{}, longestID).Prefix)-1)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrURL, err)
	}
	return nil
}

// longestID is as long as the id of a job.
var longestID = strings.Repeat("0", 32)

// objectOf is the place of the object that the results of a job become.
func objectOf(to Place, job string) Place { return to.object(job + ".csv.zst") }

// ObjectURL is the URL of the object that the results of a job become, at a results_to that Check accepts.
func ObjectURL(job, raw string) string {
	to, err := ParsePlace(raw)
	if err != nil {
		panic("BUG: a results_to that was not checked: " + err.Error())
	}
	return objectOf(to, job).String()
}

// Run makes the attempts that are due until ctx ends or the store fails; it returns after all its attempts have. An
// attempt that ctx interrupts goes on after the next start.
func (s *Sender) Run(ctx context.Context) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	poll, sweep := time.NewTicker(pollInterval), time.NewTicker(sweepInterval)
	defer poll.Stop()
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			if _, err := deliveries.Sweep(s.cfg.Store); err != nil && !vfs.IsNoSpaceError(err) {
				stop(err)
			}
		case <-poll.C:
			if err := s.sendDue(ctx, &all, stop); err != nil {
				stop(err)
			}
		}
	}
	stop(nil)
	all.Wait()
	if outer.Err() != nil {
		return nil
	}
	return fmt.Errorf("deliveries of results: %w", context.Cause(ctx))
}

// sendDue starts attempts that are due, within the limits. Each call reads one page of them, and the next call goes on
// after it, so that those of one account do not keep others waiting.
func (s *Sender) sendDue(ctx context.Context, all *sync.WaitGroup, stop context.CancelCauseFunc) error {
	if s.cfg.Store.Full() != nil { // an attempt could not be recorded
		return nil
	}
	jobs, next, err := deliveries.Due(s.cfg.Store.DB, time.Now(), s.nextPage, duePage)
	if err != nil {
		return err
	}
	s.nextPage = next
	for _, job := range jobs {
		d, ok, err := s.reserve(job)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		all.Go(func() {
			defer s.release(&d)
			if err := s.deliver(ctx, &d); err != nil && !vfs.IsNoSpaceError(err) {
				stop(err)
			}
		})
	}
	return nil
}

// reserve counts an attempt, if it is due, within the limits and the only one of its job. Its delivery is read only
// when no other attempt can change it.
func (s *Sender) reserve(job string) (d deliveries.Delivery, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sending[job] || len(s.sending) == maxSending {
		return d, false, nil
	}
	d, err = deliveries.Of(s.cfg.Store.DB, job)
	if errors.Is(err, deliveries.ErrNone) {
		return d, false, nil
	}
	if err != nil || d.Next.IsZero() || d.Next.After(time.Now()) || s.load[d.Account] == maxAccountSending {
		return d, false, err
	}
	s.sending[job] = true
	s.load[d.Account]++
	return d, true, nil
}

// release takes back a reserve.
func (s *Sender) release(d *deliveries.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sending, d.Job)
	s.load[d.Account]--
	if s.load[d.Account] == 0 {
		delete(s.load, d.Account)
	}
}
