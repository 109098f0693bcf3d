package probity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/app"
	"probity/internal/nodeflags"
)

// ErrClosed is returned by calls of a closed Verifier.
var ErrClosed = errors.New("probity: the verifier is closed")

// Config configures a Verifier. The zero value works: it connects to no public mail server.
type Config struct {
	// MailFrom is our reverse-path in MAIL FROM: an address of a mailbox that exists. Without it, or without Sources,
	// no public mail server is connected to.
	MailFrom string
	// Sources are the addresses from which mail servers are connected to.
	Sources []Source
	// Dir is a folder for cached answers and used budgets, which it makes; one process uses it at a time. The default
	// is memory: a new process then probes again, and lists of millions take memory.
	Dir string
	// Warm says that receivers know the sources. Sources that are new to a Dir otherwise begin with a tenth of each
	// budget, and reach the whole within days. Without Dir the age of a source is not known, and all are warm.
	Warm bool
	// Timeout limits the time for each address; default 30 seconds.
	Timeout time.Duration
	// MaxAge is the oldest cached answer to use; default 7 days. Fresh probes every time.
	MaxAge time.Duration
	Fresh  bool
	// NoSMTP connects to no mail server at all.
	NoSMTP bool
	// Parallel is how many addresses VerifyAll verifies at one time; default 64.
	Parallel int
	// Resolvers are recursive DNS servers; default: the system's.
	Resolvers []netip.AddrPort
	// Providers is a file that changes the provider table, Lists one that changes the domain lists; both are TOML.
	Providers, Lists string
	// RespectTerms leaves receivers alone whose terms forbid to verify addresses.
	RespectTerms bool
	// AllowPrivateTargets connects to mail servers on private, loopback and link-local addresses too, and SMTPPort is
	// their port, by default 25: for tests.
	AllowPrivateTargets bool
	SMTPPort            uint16
	// Log receives warnings; default: none.
	Log *slog.Logger
}

// Source is an address of this machine, as mail servers see it.
type Source struct {
	EHLO   string     // its host name, which must resolve to it, and it to the name
	Local  netip.Addr // the address to bind; default: the system chooses
	Public netip.Addr // the address that receivers see, if it is not Local
	SOCKS5 string     // the proxy to connect through: [USER:PASSWORD@]HOST:PORT
}

// stateFolder is the folder in Config.Dir that holds everything: the data folder of a server, given by mistake, is not
// opened.
const stateFolder = "verifier"

// flag writes the source as the command line does.
func (s Source) flag() nodeflags.Egress {
	var b strings.Builder
	if s.Local.IsValid() {
		b.WriteString(s.Local.String())
	}
	if s.Public.IsValid() {
		b.WriteString("/" + s.Public.String())
	}
	b.WriteString("=" + s.EHLO)
	if s.SOCKS5 != "" {
		b.WriteString(",socks5=" + s.SOCKS5)
	}
	return nodeflags.Egress(b.String())
}

// Verifier verifies addresses. Its methods may be called from any goroutine.
type Verifier struct {
	cfg   Config
	lock  io.Closer // of the folder
	node  *app.Node
	calls sync.WaitGroup

	running context.Context // ends with Close, or when the node fails
	stop    context.CancelFunc
	ended   chan struct{} // closed when the node has ended, after err is set
	err     error

	mu     sync.Mutex // guards closed, so that no call begins after it
	closed bool
}

// New opens the cache and starts to wait for calls. Close ends the Verifier.
func New(c Config) (*Verifier, error) {
	if c.Timeout < 0 || c.MaxAge < 0 || c.Parallel < 0 {
		return nil, errors.New("probity: Timeout, MaxAge and Parallel must not be below zero")
	}
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.MaxAge = cmp.Or(c.MaxAge, 7*24*time.Hour)
	if c.Fresh {
		c.MaxAge = 0
	}
	c.Parallel = cmp.Or(c.Parallel, 64)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	flags := nodeflags.Probing{MailFrom: c.MailFrom, SMTPPort: cmp.Or(c.SMTPPort, 25), Providers: c.Providers,
		Warm: c.Warm || c.Dir == "", RespectTerms: c.RespectTerms, AllowPrivateTargets: c.AllowPrivateTargets}
	for _, s := range c.Sources {
		flags.Egress = append(flags.Egress, s.flag())
	}
	for _, r := range c.Resolvers {
		flags.DNS = append(flags.DNS, nodeflags.ResolverAddr{AddrPort: r})
	}
	if err := flags.Validate(); err != nil {
		return nil, configError(err)
	}
	cfg := app.NodeConfig{FS: vfs.NewMem(), Dir: "node", Log: c.Log, Lists: nodeflags.ListChanges{Lists: c.Lists}}
	if c.Dir != "" {
		cfg.FS, cfg.Dir = vfs.Default, filepath.Join(c.Dir, stateFolder)
	}
	lock, err := lockFolder(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	node, err := app.OpenNode(&flags, cfg)
	if err != nil {
		return nil, configError(errors.Join(err, lock.Close()))
	}
	v := &Verifier{cfg: c, lock: lock, node: node, ended: make(chan struct{})}
	v.running, v.stop = context.WithCancel(context.Background())
	go func() {
		defer close(v.ended)
		v.err = node.Run(v.running)
		v.stop()
	}()
	return v, nil
}

// Close ends calls that are under way with ErrClosed, closes connections to mail servers in order, and closes the
// cache. It returns what failed since New.
func (v *Verifier) Close() error {
	v.mu.Lock()
	closed := v.closed
	v.closed = true
	v.mu.Unlock()
	if closed {
		return ErrClosed
	}
	v.stop()
	v.calls.Wait()
	<-v.ended
	return errors.Join(v.err, v.node.Close(), v.lock.Close())
}

// lockFolder makes a folder, and locks it against other processes and other Verifiers of this one.
func lockFolder(fs vfs.FS, dir string) (io.Closer, error) {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("probity: Config.Dir: %w", err)
	}
	lock, err := fs.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("probity: Config.Dir: another Verifier uses %s: %w; use one, or give each its folder", dir, err)
	}
	return lock, nil
}

// begin counts a call, which must call v.calls.Done at its end.
func (v *Verifier) begin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	v.calls.Add(1)
	return nil
}

// configError names the fields of Config where an error names flags.
func configError(err error) error {
	words := strings.NewReplacer("wrong usage: ", "", "--mail-from", "Config.MailFrom", "--egress", "Config.Sources",
		"--dns HOST:PORT", "Config.Resolvers", "--dns", "Config.Resolvers", "--providers", "Config.Providers",
		"--lists", "Config.Lists")
	return &namedError{text: "probity: " + words.Replace(err.Error()), cause: err}
}

// namedError is an error with another text.
type namedError struct {
	text  string
	cause error
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.cause }
