package bucket

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
	"probity/coordinator/resultfile"
	"probity/internal/memnet"
	"probity/store"
	"probity/store/deliveries"
)

const (
	publicAddr  = "198.41.0.4"
	privateAddr = "10.0.0.1"
	partBytes   = 100_000
	to          = "s3://results/out/daily"
)

// testEnv is a state store, results, a network in memory with an object storage, and the Sender between them.
type testEnv struct {
	t       *testing.T
	fs      *vfs.MemFS
	store   *store.Store
	sender  *Sender
	storage *storage
	net     *memnet.Network
	cert    tls.Certificate
	account string
	change  func(*Config)
	stop    func()

	mu      sync.Mutex // guards all below
	files   map[string][]byte
	expired bool
	names   map[string]netip.Addr
	dialled []string
}

// runTest runs a test in a synctest bubble. change, if it is not nil, changes the settings of each Sender.
func runTest(t *testing.T, change func(*Config), test func(t *testing.T, w *testEnv)) {
	key := filepath.Join(t.TempDir(), "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", accessKey, secretKey)
	require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
	synctest.Test(t, func(t *testing.T) {
		w := &testEnv{t: t, fs: vfs.NewCrashableMem(), net: memnet.New(), storage: newStorage(t),
			files: map[string][]byte{},
			names: map[string]netip.Addr{"s3.example": netip.MustParseAddr(publicAddr)}, cert: selfSigned(t)}
		w.change = func(c *Config) {
			c.CredentialsFile = key
			if change != nil {
				change(c)
			}
		}
		w.open()
		u, _, err := w.store.AddUser(t.Context(), store.NewUser{Email: "ann@example.com", Password: "long enough"},
			"test", time.Now())
		require.NoError(t, err)
		w.account = u.ID
		w.serve(publicAddr+":443", w.storage)
		w.start()
		t.Cleanup(func() {
			w.stop()
			require.NoError(t, w.store.Close())
		})
		test(t, w)
	})
}

func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"s3.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// open opens the store and makes the Sender.
func (w *testEnv) open() {
	var err error
	w.store, err = store.Open(w.fs, "state")
	require.NoError(w.t, err)
	roots := x509.NewCertPool()
	roots.AddCert(w.cert.Leaf)
	allowed, err := ParsePlace("s3://results/out")
	require.NoError(w.t, err)
	cfg := Config{Store: w.store, Results: w, Allowed: []Allowed{{Place: allowed}}, Endpoint: "https://s3.example",
		Region: region, PartBytes: partBytes, RootCAs: roots,
		Dialer: outward.New(outward.Config{Dial: w.dial, Lookup: w.lookup})}
	w.change(&cfg)
	w.sender, err = New(cfg)
	require.NoError(w.t, err)
}

func (w *testEnv) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.sender.Run(ctx) }()
	w.stop = func() {
		cancel()
		require.NoError(w.t, <-ended)
	}
}

func (w *testEnv) dial(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	return w.net.DialFrom(local)(ctx, network, address)
}

func (w *testEnv) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []netip.Addr{w.names[host]}, nil
}

// serve serves HTTPS at an address.
func (w *testEnv) serve(addr string, handler http.Handler) {
	ln, err := w.net.Listen(netip.MustParseAddrPort(addr))
	require.NoError(w.t, err)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{w.cert}}))
	w.t.Cleanup(func() { server.Close() })
}

// OpenStored opens the result file of a job.
func (w *testEnv) OpenStored(_ context.Context, job string) (vfs.File, *store.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j, err := w.store.Job(job)
	if err != nil {
		return nil, nil, err
	}
	if w.expired {
		return nil, nil, resultfile.ErrExpired
	}
	fs := vfs.NewMem()
	file, err := fs.Create("result", vfs.WriteCategoryUnspecified)
	require.NoError(w.t, err)
	_, err = file.Write(bytes.Clone(w.files[job]))
	require.NoError(w.t, err)
	require.NoError(w.t, file.Close())
	sum := sha256.Sum256(w.files[job])
	j.ResultSHA, j.ResultBytes = hex.EncodeToString(sum[:]), int64(len(w.files[job]))
	file, err = fs.Open("result")
	return file, j, err
}

// finish makes a finished job with a result of n bytes, and returns its result.
func (w *testEnv) finish(id string, n int) []byte {
	content := make([]byte, n)
	_, err := rand.Read(content)
	require.NoError(w.t, err)
	w.mu.Lock()
	w.files[id] = content
	w.mu.Unlock()
	j := &store.Job{ID: id, Account: w.account, State: store.JobCompleted, CreatedAt: time.Now(),
		FinishedAt: time.Now()}
	require.NoError(w.t, w.sender.Check("ann@example.com", to))
	require.NoError(w.t, w.store.AcceptJob(j, deliveries.Accept(j, ObjectURL(id, to)), deliveries.JobEnded(j)))
	return content
}

// advance lets the clock of the bubble run.
func (w *testEnv) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wait lets the clock run until the delivery of a job is in a state.
func (w *testEnv) wait(job string, want deliveries.State) deliveries.Delivery {
	w.t.Helper()
	for step := time.Second; ; step = min(2*step, time.Hour) {
		d, err := deliveries.Of(w.store.DB, job)
		require.NoError(w.t, err)
		if d.State == want {
			return d
		}
		require.Equal(w.t, deliveries.Pending, d.State, "%+v", d)
		w.advance(step)
	}
}

// objectPath is where the object of a job is, in the bucket's path style.
func objectPath(job string) string { return "/results/out/daily/" + job + ".csv.zst" }

func TestResultsAreDelivered(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		for id, n := range map[string]int{"j1": 1, "j2": partBytes, "j3": 3*partBytes + 1} {
			content := w.finish(id, n)
			d := w.wait(id, deliveries.Delivered)
			require.Equal(t, 1, d.Attempts)
			require.Empty(t, d.Error)
			require.Nil(t, d.Upload)
			require.Equal(t, "s3://results/out/daily/"+id+".csv.zst", d.URL)
			require.Equal(t, content, w.storage.object(objectPath(id)))
			sum := sha256.Sum256(content)
			require.Equal(t, hex.EncodeToString(sum[:]), w.storage.meta[objectPath(id)].Get("X-Amz-Meta-Sha256"))
		}
		require.Len(t, w.storage.seen(), 3*2+1+1+4)
		w.advance(48 * time.Hour)
		require.Empty(t, w.storage.seen(), "once it was delivered")
	})
}

// TestKilledProcessGoesOnWithItsUpload kills the process while a part is on its way: the parts that arrived before are
// not sent again, and the object is exact.
func TestKilledProcessGoesOnWithItsUpload(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		crashed := make(chan *vfs.MemFS, 1)
		w.storage.before = func(n int, _ http.ResponseWriter, r *http.Request) bool {
			if n == 4 { // the third part
				crashed <- w.fs.CrashClone(vfs.CrashCloneCfg{})
				<-r.Context().Done()
				return false
			}
			return true
		}
		content := w.finish("j1", 5*partBytes-1)
		disk := <-crashed
		w.stop()
		require.NoError(t, w.store.Close())
		require.Equal(t, []string{"POST uploads=", "PUT partNumber=1", "PUT partNumber=2", "PUT partNumber=3"},
			w.storage.seen())
		w.storage.before, w.fs = nil, disk
		w.open()
		w.start()
		d := w.wait("j1", deliveries.Delivered)
		require.Equal(t, 1, d.Attempts, "the killed one has not ended")
		require.Equal(t, []string{"PUT partNumber=3", "PUT partNumber=4", "PUT partNumber=5", "POST"}, w.storage.seen())
		require.Equal(t, content, w.storage.object(objectPath("j1")))
	})
}

// TestFailedAttemptsGoOn: with servers that refuse, cut and stall parts, and lose the last answer, each attempt goes on
// where the one before ended.
func TestFailedAttemptsGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(s *storage, rw http.ResponseWriter, r *http.Request)
		error string
	}{
		"refused": {func(s *storage, rw http.ResponseWriter, _ *http.Request) { s.refuse(rw, 503, "SlowDown") },
			"the bucket's server answers 503 SlowDown"},
		"cut": {func(_ *storage, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
			"the connection to the bucket's server was lost, or it does not speak S3"},
		"stalled": {func(_ *storage, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"the bucket's server took too long"},
		"no S3": {func(_ *storage, rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(404)
			_, _ = io.WriteString(rw, "<html>no such page at 10.0.0.1")
		}, "the bucket's server answers 404"},
		"redirected": {func(_ *storage, rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", "https://10.0.0.1/")
			rw.WriteHeader(307)
		}, "the bucket's server answers 307"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, nil, func(t *testing.T, w *testEnv) {
				inside := 0
				w.serve(privateAddr+":443", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside++ }))
				failing := true
				w.storage.before = func(_ int, rw http.ResponseWriter, r *http.Request) bool {
					if !failing || r.URL.Query().Get("partNumber") != "2" {
						return true
					}
					c.fail(w.storage, rw, r)
					return false
				}
				content := w.finish("j1", 3*partBytes)
				for attempts := 0; attempts < 2; w.advance(time.Second) {
					d, err := deliveries.Of(w.store.DB, "j1")
					require.NoError(t, err)
					attempts = d.Attempts
					require.Equal(t, deliveries.Pending, d.State)
					if attempts > 0 {
						require.Contains(t, d.Error, c.error)
					}
				}
				require.Equal(t, []string{"POST uploads=", "PUT partNumber=1", "PUT partNumber=2", "PUT partNumber=2"},
					w.storage.seen())
				failing = false
				w.wait("j1", deliveries.Delivered)
				require.Equal(t, []string{"PUT partNumber=2", "PUT partNumber=3", "POST"}, w.storage.seen())
				require.Equal(t, content, w.storage.object(objectPath("j1")))
				require.Zero(t, inside)
			})
		})
	}
}

// TestLostAnswerToTheLastRequest: the storage has the object and not the upload any more. It is sent again, and is the
// same.
func TestLostAnswerToTheLastRequest(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		lost := false
		w.serve(publicAddr+":8443", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.storage.ServeHTTP(rw, r)
			if !lost && r.Method == "POST" && !r.URL.Query().Has("uploads") {
				lost = true
				panic(http.ErrAbortHandler)
			}
		}))
		w.stop()
		w.sender.endpoint.Host = "s3.example:8443"
		w.start()
		content := w.finish("j1", 2*partBytes)
		d := w.wait("j1", deliveries.Delivered)
		require.True(t, lost)
		require.Equal(t, 3, d.Attempts)
		require.Equal(t, content, w.storage.object(objectPath("j1")))
	})
}

// TestLostAnswersAreBounded: whole uploads are not sent for ever if the answer to the last request is always lost.
func TestLostAnswersAreBounded(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.serve(publicAddr+":8443", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.storage.mu.Lock()
			known := w.storage.uploads[r.URL.Query().Get("uploadId")] != nil
			w.storage.mu.Unlock()
			w.storage.ServeHTTP(rw, r)
			if r.Method == "POST" && known {
				panic(http.ErrAbortHandler)
			}
		}))
		w.stop()
		w.sender.endpoint.Host = "s3.example:8443"
		w.start()
		w.finish("j1", 2*partBytes)
		w.advance(72 * time.Hour)
		d, err := deliveries.Of(w.store.DB, "j1")
		require.NoError(t, err)
		require.Equal(t, deliveries.Failed, d.State)
		require.Equal(t, 9, d.Attempts)
	})
}

// TestFailuresAreBounded: the schedule ends, the record says why, and the bucket and the results stay as they are.
func TestFailuresAreBounded(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.storage.before = func(_ int, rw http.ResponseWriter, _ *http.Request) bool {
			w.storage.refuse(rw, 403, "AccessDenied")
			return false
		}
		w.finish("j1", 10)
		d := w.wait("j1", deliveries.Failed)
		require.Equal(t, 9, d.Attempts)
		require.Equal(t, "the bucket's server answers 403 AccessDenied", d.Error)
		require.False(t, d.EndedAt.IsZero())
		for _, request := range w.storage.seen() {
			require.Equal(t, "POST uploads=", request)
		}
		w.advance(48 * time.Hour)
		require.Empty(t, w.storage.seen())
		_, _, err := w.OpenStored(t.Context(), "j1")
		require.NoError(t, err)
	})
}

// TestOtherFileIsAnotherUpload: results that were made anew meanwhile, such as by an erasure, are not joined with parts
// of the former ones.
func TestOtherFileIsAnotherUpload(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.storage.before = func(n int, rw http.ResponseWriter, _ *http.Request) bool {
			if n == 3 {
				w.storage.refuse(rw, 500, "InternalError")
			}
			return n != 3
		}
		w.finish("j1", 2*partBytes)
		w.advance(3 * time.Second)
		content := []byte("another")
		w.mu.Lock()
		w.files["j1"] = content
		w.mu.Unlock()
		w.wait("j1", deliveries.Delivered)
		require.Equal(t, content, w.storage.object(objectPath("j1")))
	})
}

// leadsTo has the storage's name lead to an address.
func leadsTo(address string) func(*testing.T, *testEnv) {
	return func(_ *testing.T, w *testEnv) { w.names["s3.example"] = netip.MustParseAddr(address) }
}

// TestNothingIsDelivered: what ends a delivery before its first request, or keeps it from one.
func TestNothingIsDelivered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, w *testEnv)
		error  string
		failed bool
	}{
		"expired":      {func(_ *testing.T, w *testEnv) { w.expired = true }, "the results have expired", true},
		"not any more": {func(_ *testing.T, w *testEnv) { w.sender.cfg.Allowed = nil }, "does not allow", false},
		"private":      {leadsTo(privateAddr), "private", false},
		"in disguise":  {leadsTo("64:ff9b::a00:1"), "private", false},
		"local":        {func(_ *testing.T, w *testEnv) { w.sender.endpoint.Host = "localhost" }, "private", false},
		"metadata": {func(_ *testing.T, w *testEnv) { w.sender.endpoint.Host = "169.254.169.254" }, "private",
			false},
		"not there": {leadsTo("198.41.0.9"), "no connection", false},
		"without a key": {func(t *testing.T, w *testEnv) {
			require.NoError(t, os.Remove(w.sender.cfg.CredentialsFile))
		}, "key", false},
		"closed": {func(t *testing.T, w *testEnv) {
			require.NoError(t, w.store.DisableUser(w.account, "test", time.Now()))
		}, "does not allow", false},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, nil, func(t *testing.T, w *testEnv) {
				w.serve(privateAddr+":443", w.storage)
				w.stop()
				w.finish("j1", 10)
				c.change(t, w)
				w.start()
				w.advance(2 * time.Second)
				d, err := deliveries.Of(w.store.DB, "j1")
				require.NoError(t, err)
				require.Contains(t, d.Error, c.error)
				require.NotContains(t, d.Error, "10.0.0.1")
				require.Equal(t, c.failed, d.State == deliveries.Failed)
				require.Equal(t, 1, d.Attempts)
				require.Empty(t, w.storage.seen())
				for _, address := range w.dialled {
					require.True(t, strings.HasPrefix(address, "198.41."), address)
				}
			})
		})
	}
}

// TestDNSThatChangesIsChecked: the name leads elsewhere between two parts.
func TestDNSThatChangesIsChecked(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.serve(privateAddr+":443", w.storage)
		w.storage.before = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
			if n == 2 {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.names["s3.example"] = netip.MustParseAddr(privateAddr)
			}
			return true
		}
		w.finish("j1", 3*partBytes)
		w.advance(2 * time.Second)
		d, err := deliveries.Of(w.store.DB, "j1")
		require.NoError(t, err)
		require.Contains(t, d.Error, "private")
		require.Equal(t, []string{"POST uploads=", "PUT partNumber=1"}, w.storage.seen())
		w.storage.before = nil
		w.mu.Lock()
		w.names["s3.example"] = netip.MustParseAddr(publicAddr)
		w.mu.Unlock()
		w.wait("j1", deliveries.Delivered)
		for _, address := range w.dialled {
			require.Equal(t, publicAddr+":443", address)
		}
	})
}

// TestJobsAreDelivered side by side, within the limits of an account; deleted ones are dropped.
func TestJobsAreDelivered(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		under, most := 0, 0
		var mu sync.Mutex
		w.storage.before = func(int, http.ResponseWriter, *http.Request) bool {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			under--
			mu.Unlock()
			return true
		}
		for i := range 10 {
			w.finish(fmt.Sprint("j", i), 10)
		}
		require.NoError(t, w.store.DeleteJob("j9"))
		for i := range 9 {
			w.wait(fmt.Sprint("j", i), deliveries.Delivered)
		}
		require.Equal(t, maxAccountSending, most)
		w.advance(sweepInterval)
		_, err := deliveries.Of(w.store.DB, "j9")
		require.ErrorIs(t, err, deliveries.ErrNone)
	})
}

// TestAttemptReadsWhatThePreviousOneLeft: a delivery that ends while the next attempt waits to be counted has none.
func TestAttemptReadsWhatThePreviousOneLeft(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.stop()
		w.finish("j1", 10)
		w.sender.mu.Lock()
		var all sync.WaitGroup
		all.Go(func() {
			assert.NoError(t, w.sender.sendDue(context.Background(), &all, func(err error) { assert.NoError(t, err) }))
		})
		for stacks := make([]byte, 1<<20); ; runtime.Gosched() {
			n := runtime.Stack(stacks, true)
			if strings.Contains(string(stacks[:n]), "bucket.(*Sender).reserve") {
				break
			}
		}
		_, err := deliveries.Update(w.store.DB, "j1", func(d *deliveries.Delivery) { d.Complete(time.Now()) })
		require.NoError(t, err)
		w.sender.mu.Unlock()
		all.Wait()
		require.Empty(t, w.storage.seen())
		w.start()
	})
}

// TestJobDeletedMeanwhileIsNotDelivered: the last request is not sent if the job is deleted before it.
func TestJobDeletedMeanwhileIsNotDelivered(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.stop()
		w.finish("j1", 2*partBytes)
		d, ok, err := w.sender.reserve("j1")
		require.NoError(t, err)
		require.True(t, ok)
		// all parts arrived before a stop, so nothing but the last request is left
		d.Upload = &deliveries.Upload{ID: "u", PartBytes: partBytes, Parts: []string{"a", "b"}}
		_, j, err := w.OpenStored(t.Context(), "j1")
		require.NoError(t, err)
		d.Upload.File = j.ResultSHA
		w.sender.cfg.Results = deletesOnOpen{w}
		require.NoError(t, w.sender.deliver(t.Context(), &d))
		require.Empty(t, w.storage.seen())
		w.sender.release(&d)
		w.start()
	})
}

// deletesOnOpen deletes each job as soon as its result file is open.
type deletesOnOpen struct{ *testEnv }

func (o deletesOnOpen) OpenStored(ctx context.Context, job string) (vfs.File, *store.Job, error) {
	file, j, err := o.testEnv.OpenStored(ctx, job)
	return file, j, errors.Join(err, o.store.DeleteJob(job, deliveries.JobDeleted(job)))
}

// TestBrokenStoreStops: a store that cannot drop the delivery of a deleted job is not taken for one that did.
func TestBrokenStoreStops(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.stop()
		w.sender.cfg.Results = failingResults{errors.Join(errGone, store.ErrBroken)}
		require.ErrorIs(t, w.sender.deliver(t.Context(), &deliveries.Delivery{Job: "j1", Account: w.account, URL: to}),
			store.ErrBroken)
		w.start()
	})
}

type failingResults struct{ error }

func (f failingResults) OpenStored(context.Context, string) (vfs.File, *store.Job, error) {
	return nil, nil, f.error
}

// TestCauses: the log has what the job's record leaves out, without addresses.
func TestCauses(t *testing.T) {
	var out bytes.Buffer
	change := func(c *Config) { c.Log, c.RootCAs = slog.New(slog.NewTextHandler(&out, nil)), x509.NewCertPool() }
	runTest(t, change, func(t *testing.T, w *testEnv) {
		w.finish("j1", 10)
		w.advance(2 * time.Second)
		w.stop()
		require.Contains(t, out.String(), "certificate signed by unknown authority")
		require.NotContains(t, out.String(), publicAddr)
		require.NotContains(t, out.String(), secretKey)
		w.start()
	})
	for text, want := range map[string]string{
		"valid for 10.0.0.1, not s3.example":         "valid for (address), not s3.example",
		"dial [2001:db8::1]:443: tls: bad record":    "dial (address): tls: bad record",
		"XML syntax error on line 1: unexpected EOF": "XML syntax error on line 1: unexpected EOF",
	} {
		require.Equal(t, want, cause(&url.Error{Op: "Post", URL: "https://s3.example/x", Err: errors.New(text)}))
	}
	require.Empty(t, cause(&failure{text: "no"}))
}

// TestRegionIsRequired: without one the client would ask the bucket for it.
func TestRegionIsRequired(t *testing.T) {
	_, err := New(Config{Endpoint: "https://s3.example"})
	require.ErrorContains(t, err, "region")
}

// TestMemoryIsFlat: a result is not in memory while it is sent.
func TestMemoryIsFlat(t *testing.T) {
	runTest(t, func(c *Config) { c.PartBytes = 8 << 20 }, func(t *testing.T, w *testEnv) {
		var before, after runtime.MemStats
		w.storage.before = func(n int, rw http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				runtime.ReadMemStats(&before)
			}
			if r.Method == "PUT" {
				rw.Header().Set("ETag", `"1"`)
				runtime.ReadMemStats(&after)
			}
			return r.Method == "POST" && n == 1
		}
		content := w.finish("j1", 32<<20)
		w.advance(2 * time.Second)
		require.Len(t, w.storage.seen(), 6)
		require.Greater(t, len(content), int(after.TotalAlloc-before.TotalAlloc)/8)
	})
}
