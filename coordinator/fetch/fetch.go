package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"probity/coordinator/outward"
)

// The bounds of a file that is fetched.
const (
	maxRedirects  = 5
	maxHeader     = 64 << 10         // bytes of the header of an answer
	tlsTimeout    = 15 * time.Second // for a handshake
	headerTimeout = 30 * time.Second // from the request to the header of the answer
	stallTimeout  = time.Minute      // for each stallBytes
	stallBytes    = 16 << 10
	maxTime       = 2 * time.Hour // for the whole file
	maxResumes    = 5             // attempts to go on that bring no byte, one after another
	resumePause   = time.Second   // before the first of them, and twice as long before each further one

	maxFetches        = 4 // at one time, so that they leave room for uploads
	maxAccountFetches = 2 // of one account
)

// ErrBusy is the error of a file that would be one too many at one time.
var ErrBusy = errors.New("too many lists are being fetched")

// Error is a failure of the URL or of its server. Its text says what to do.
type Error struct {
	TooLarge bool // the file is over the bound
	text     string
}

func (e *Error) Error() string { return e.text }

func refuse(format string, args ...any) *Error { return &Error{text: fmt.Sprintf(format, args...)} }

// Config configures a Fetcher. Dialer is required.
type Config struct {
	Dialer   *outward.Dialer
	RootCAs  *x509.CertPool // default: the system's
	MaxBytes int64          // of a file as it is sent; default 9 GiB, as of an upload
}

// Fetcher opens files.
type Fetcher struct {
	cfg    Config
	client *http.Client

	mu      sync.Mutex
	open    int            // files; guarded by mu
	account map[string]int // files of each account that has some; guarded by mu
}

// New makes a Fetcher.
func New(cfg Config) *Fetcher {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 9<<30)
	f := &Fetcher{cfg: cfg, account: map[string]int{}}
	f.client = &http.Client{CheckRedirect: f.checkRedirect, Transport: &http.Transport{
		DialContext:            f.dial,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // ranges are of the file as it is sent
		DisableKeepAlives:      true, // each request dials what was checked for it
	}}
	return f
}

// dial connects to the host of a URL. It is called for each request, after redirects too.
func (f *Fetcher) dial(ctx context.Context, _, hostPort string) (net.Conn, error) {
	t, err := f.cfg.Dialer.Parse("https://" + hostPort)
	if err != nil {
		return nil, &Error{text: err.Error()}
	}
	return f.cfg.Dialer.Connect(ctx, t)
}

// checkURL refuses URLs that are not fetched, and returns the URL without its fragment.
func (f *Fetcher) checkURL(raw string) (*url.URL, error) {
	t, err := f.cfg.Dialer.Parse(raw)
	if err != nil {
		return nil, &Error{text: err.Error()}
	}
	if t.URL.Scheme != "https" {
		return nil, refuse("it must begin with https://; for a file in a bucket, make a presigned URL")
	}
	return t.URL, nil
}

// checkRedirect refuses redirects to URLs that would not be fetched themselves.
func (f *Fetcher) checkRedirect(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return refuse("the server redirects more than %d times; use the URL of the file itself", maxRedirects)
	}
	if _, err := f.checkURL(next.URL.String()); err != nil {
		return refuse("the server redirects to another URL, which is refused: %v", err)
	}
	next.Header.Del("Referer") // the URL may contain a secret
	return nil
}

// Open opens the file of a URL for an account; a nil Fetcher refuses it. Its errors, and those of the File, are
// ErrBusy, those of ctx and *Error.
func (f *Fetcher) Open(ctx context.Context, account, raw string) (*File, error) {
	if f == nil {
		return nil, refuse("this server fetches no lists; send the list as file")
	}
	u, err := f.checkURL(raw)
	if err != nil {
		return nil, err
	}
	if !f.reserve(account) {
		return nil, ErrBusy
	}
	file := &File{fetcher: f, account: account, url: u.String(), Name: path.Base(u.Path)}
	file.ctx, file.cancel = context.WithTimeoutCause(ctx, maxTime, refuse("the file took over %v; send it in parts, "+
		"or compressed", maxTime))
	if err := file.begin(); err != nil {
		_ = file.Close() // it returns no error
		return nil, err
	}
	return file, nil
}

// reserve counts a file that is opened, if it is not one too many.
func (f *Fetcher) reserve(account string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == maxFetches || f.account[account] == maxAccountFetches {
		return false
	}
	f.open++
	f.account[account]++
	return true
}

// release takes back a reserve.
func (f *Fetcher) release(account string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	f.account[account]--
	if f.account[account] == 0 {
		delete(f.account, account)
	}
}
